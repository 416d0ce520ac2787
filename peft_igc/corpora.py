"""The data of `peft-igc sft`: data sets loaded, brought into one form, joined.

In: TRL's data arguments. Out: one training set with operand columns, and a test set where one is wanted. Rows without
annotation have None there. A data set is a folder, a file or a hub id, with chats (`messages`), prompts and
completions, or texts; the package's own arithmetic may be added. Nothing is tokenized and no operand column is checked
here (the trainer does both). Try it: `pytest tests/test_sft.py -k data`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .columns import COLUMNS
from .data import TOKENS_MIXTURE, ArithmeticRows, Mixture, bigbench_test_set, to_dataset
from .wording import TRAINING


__all__ = ["GeneratedRows", "join", "keep_annotations", "load_corpora"]

CHAT, PAIR, TEXT = "`messages`", "`prompt` and `completion`", "`text`"
CHAT_PAIR = f"{PAIR} of messages"
READERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet"}  # of `datasets`, for single files
MAX_DIGITS = 6  # the longest ordinary operand of generated rows, as in the demonstration


@dataclass(frozen=True)
class GeneratedRows:
    """The package's own arithmetic as training data, made as for the demonstrations: no calculation of their test set
    (`bigbench_test_set(200)`) occurs, but those of its complete one-digit subtasks.

    Attributes:
        number: How many rows.
        interface: Of the calculator: its demonstration's phrasings and mixture.
        num_digits: Longest operand that it reads.
        result_digits: Longest result that it writes.
        max_digits: Longest ordinary operand. None: 6, or `num_digits` where that is less.
        operations: Symbols.
        division: As in `IGCConfig`.
    """

    number: int
    interface: str = "tokens"
    num_digits: int = 40
    result_digits: int = 40
    max_digits: int | None = None
    operations: tuple[str, ...] = ("+", "-", "*", "/")
    division: Any = "exact"

    def make(self, seed: int, form: str) -> Any:
        """The rows as a dataset in a form; equal seeds give equal rows."""
        tokens = self.interface == "tokens"
        rows = ArithmeticRows(
            seed,
            max_digits=min(MAX_DIGITS, self.num_digits) if self.max_digits is None else self.max_digits,
            num_digits=self.num_digits,
            result_digits=self.result_digits,
            operations=self.operations,
            division=self.division,
            mixture=TOKENS_MIXTURE if tokens else Mixture(bigbench=0.2, negative=0.1),
            wording=TRAINING if tokens else None,
            conversational=form in (CHAT, CHAT_PAIR),
            distinct=True,
            exclude=bigbench_test_set(200),
        )
        return to_dataset(rows.take(self.number))


def load_corpora(
    script: Any,
    mixture: Any,
    training: Any,
    generated: GeneratedRows | None = None,
    annotated_fraction: float = 1.0,
    conversational: bool = True,
) -> tuple[Any, Any]:
    """The training set and the test set (None unless `eval_strategy` asks for one).

    Args:
        script: TRL's `ScriptArguments`.
        mixture: TRL's `DatasetMixtureConfig`.
        training: TRL's `SFTConfig`: seed, `eval_strategy`, `assistant_only_loss`.
        generated: Rows that are added whole, whatever the fractions of the mixture.
        annotated_fraction: As in `IGCArguments`; the test set keeps all.
        conversational: Whether generated rows that stand alone are chats.

    Raises:
        FileNotFoundError: A folder that does not exist.
        ValueError: No data, contradicting arguments, or data sets that do not go together.
    """
    if script.dataset_name and mixture.datasets:
        raise ValueError("`dataset_name` and `datasets` both name data. Leave one of them out.")
    _check_streaming(script, mixture, bool(generated), annotated_fraction)
    parts, test = _named(script, training.eval_strategy != "no") if script.dataset_name else (_mixed(mixture), None)
    if generated:
        form = _form(*next(iter(parts.items()))) if parts else CHAT_PAIR if conversational else PAIR
        if form == TEXT:
            raise ValueError(
                f"`igc_generated_rows` are prompts and completions, and `{next(iter(parts))}` holds texts. "
                "Give the data that form, or leave one of them out."
            )
        parts["igc_generated_rows"] = generated.make(training.seed, form)
    if not parts:
        raise ValueError("No data is named. Set `dataset_name`, `datasets` or `igc_generated_rows`.")
    train = join(parts, training.assistant_only_loss)
    if mixture.test_split_size is not None:
        if test is not None:
            raise ValueError(
                f"`{script.dataset_name}` has the split `{script.dataset_test_split}` for tests, and "
                "`test_split_size` would make another. Leave `test_split_size` out, or name the data under "
                "`datasets`, which loads its training split alone."
            )
        split = train.train_test_split(test_size=mixture.test_split_size, seed=training.seed)
        train, test = split["train"], split["test"]
    if training.eval_strategy != "no" and test is None:
        raise ValueError(
            f"`eval_strategy={training.eval_strategy}` needs test data, and there is none. Set `test_split_size`, "
            "name a data set that has the split `dataset_test_split`, or leave `eval_strategy` out."
        )
    train = keep_annotations(train, annotated_fraction, training.seed)
    return train, test if training.eval_strategy != "no" else None


def _check_streaming(script: Any, mixture: Any, generated: bool, annotated_fraction: float) -> None:
    """Refuses streaming that would have no effect, and what streamed rows do not allow."""
    for name, wanted, other, data in (
        ("dataset_streaming", script.dataset_streaming and mixture.datasets, "streaming", "datasets"),
        ("streaming", mixture.streaming and script.dataset_name, "dataset_streaming", "dataset_name"),
    ):
        if wanted:
            raise ValueError(f"`{name}` has no effect on the data of `{data}`. Set `{other}` instead.")
    if not (script.dataset_streaming or mixture.streaming):
        return
    for name, wanted in (
        ("igc_generated_rows", generated),
        ("igc_annotated_fraction", annotated_fraction < 1),
        ("test_split_size", mixture.test_split_size is not None),
    ):
        if wanted:
            raise ValueError(
                f"`{name}` needs rows that can be counted, and streamed ones cannot. Leave one of them out."
            )


def _named(script: Any, with_test: bool) -> tuple[dict[str, Any], Any]:
    """The data set of `dataset_name`, and its test split if it is wanted and there."""
    found = _load(script.dataset_name, name=script.dataset_config, streaming=script.dataset_streaming)
    if script.dataset_train_split not in found:
        raise ValueError(
            f"`{script.dataset_name}` has no split `{script.dataset_train_split}`; there are {', '.join(found)}. "
            "Set `dataset_train_split`."
        )
    test = found.get(script.dataset_test_split) if with_test else None
    return {script.dataset_name: found[script.dataset_train_split]}, test


def _mixed(mixture: Any) -> dict[str, Any]:
    """The data sets of `datasets`, each cut to its fraction."""
    parts: dict[str, Any] = {}
    for entry in mixture.datasets:
        options = {name: getattr(entry, name) for name in ("name", "data_dir", "data_files", "split")}
        part = _load(entry.path, streaming=mixture.streaming, **options)
        if entry.columns is not None:
            if missing := [name for name in entry.columns if name not in part.column_names]:
                raise ValueError(
                    f"`{entry.path}` has no column `{missing[0]}`; there are {', '.join(part.column_names)}. "
                    "Correct `columns`."
                )
            part = part.select_columns(entry.columns)
        parts[_free_name(entry.path, parts)] = part
    fractions = [entry.fraction for entry in mixture.datasets]
    if all(fraction is None for fraction in fractions):
        return parts
    if None in fractions or mixture.streaming or min(fractions) <= 0:
        raise ValueError(
            f"`fraction` is {fractions}: give every data set of the mixture one above 0, or none; streams have none."
        )
    # As TRL: shares of the largest mixture in which no data set has to repeat a row.
    shares = [fraction / sum(fractions) for fraction in fractions]
    total = min(len(part) / share for part, share in zip(parts.values(), shares, strict=True))
    counts = dict(zip(parts, (round(share * total) for share in shares), strict=True))
    return {name: part.select(range(counts[name])) for name, part in parts.items()}


def _free_name(name: str, taken: dict[str, Any]) -> str:
    """The name of a data set in messages; one that occurs twice is numbered."""
    return name if name not in taken else f"{name} ({len(taken) + 1})"


def _load(path: str, **options: Any) -> Any:
    """One data set; a path that is none is said before `datasets` asks the hub about it."""
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    here, source = Path(path).expanduser(), path
    if here.is_file():
        if here.suffix not in READERS or any(options.get(name) for name in ("name", "data_files", "data_dir")):
            raise ValueError(
                f"The data set `{path}` is a file. Pass one that ends in {', '.join(READERS)}, without a "
                "configuration, `data_files` and `data_dir`, or its folder."
            )
        source, options = READERS[here.suffix], {**options, "data_files": str(here)}
    elif here.is_dir():
        source = str(here)
    elif path[:1] in "./~" or path.count("/") > 1:
        raise FileNotFoundError(f"`{path}` does not exist. Pass a JSONL or parquet file, or a folder of such files.")
    try:
        return load_dataset(source, **options)
    except (ValueError, DatasetsError) as error:
        because = error.__cause__ or error
        raise ValueError(f"The data set `{path}` cannot be loaded: {because}") from error


def _form(name: str, part: Any) -> str:
    """How a data set holds its texts."""
    columns = set(part.column_names)
    forms = {CHAT: {"messages"}, PAIR: {"prompt", "completion"}, TEXT: {"text"}}
    held = [form for form, needed in forms.items() if needed <= columns]
    if len(held) != 1 or (held == [CHAT] and "prompt" in columns):
        raise ValueError(
            f"`{name}` has the columns {', '.join(sorted(columns))}. In a mixture each data set has either {CHAT}, "
            f"or {PAIR}, or {TEXT}: choose with `columns`."
        )
    if held == [PAIR] and not _is_text(part.features["prompt"]):
        return CHAT_PAIR
    return held[0]


def _is_text(feature: Any) -> bool:
    """Whether a column holds strings."""
    return getattr(feature, "dtype", None) in ("string", "large_string")


def join(parts: dict[str, Any], assistant_only_loss: bool = False) -> Any:
    """One dataset of several, in the columns of all; what a part does not have is None in its rows.

    Chats and pairs of messages go together as chats, if `assistant_only_loss` keeps the loss off the prompts, which
    then hold no answers: those would be trained. Single annotations become lists of one where another part has lists.

    Args:
        parts: Datasets by name.
        assistant_only_loss: As in TRL's `SFTConfig`.

    Raises:
        ValueError: Parts that do not go together; names them.
    """
    from datasets import concatenate_datasets

    if len(parts) == 1:
        return next(iter(parts.values()))
    forms = {name: _form(name, part) for name, part in parts.items()}
    if set(forms.values()) == {CHAT, CHAT_PAIR} and assistant_only_loss:
        parts = {name: _as_chats(name, part) if forms[name] == CHAT_PAIR else part for name, part in parts.items()}
    elif len(set(forms.values())) > 1:
        held = "; ".join(f"`{name}` has {form}" for name, form in forms.items())
        raise ValueError(
            f"The data sets of a mixture need one form: {held}. Prompts and completions of messages go together with "
            "chats under `assistant_only_loss=True`; rewrite others."
        )
    several = [name for name, part in parts.items() if _has_lists(part)]
    if several:
        parts = {name: part if name in several else _as_lists(part) for name, part in parts.items()}
    try:
        return concatenate_datasets(list(parts.values()))
    except ValueError as error:
        raise ValueError(
            f"The data sets {', '.join(f'`{name}`' for name in parts)} hold one column in different types: {error} "
            "Leave that column out with `columns`, or give it one type."
        ) from error


def _as_chats(name: str, part: Any) -> Any:
    """Prompts and completions as `messages`."""

    def joined(row: Any) -> dict[str, Any]:
        if any(message["role"] == "assistant" for message in row["prompt"]):
            raise ValueError(
                f"A prompt of `{name}` holds an answer of the assistant, {row['prompt']}, which is not trained alone, "
                "and would be among chats. Write the other data sets as prompts and completions, or leave one out."
            )
        return {"messages": row["prompt"] + row["completion"]}

    return part.map(joined, remove_columns=["prompt", "completion"])


def _has_lists(part: Any) -> bool:
    """Whether the operand columns hold one entry per anchor."""
    from datasets import LargeList, List

    return isinstance((part.features or {}).get(COLUMNS[0]), (List, LargeList))


def _as_lists(part: Any) -> Any:
    """Operand columns as lists of one entry; rows that have none keep None.

    An entry without an operator is passed on, so that the check of the columns refuses it as it does in one data set.
    """
    from datasets import List

    present = [name for name in COLUMNS if name in part.column_names]
    if not present:
        return part
    features = part.features.copy()
    features.update({name: List(features[name]) for name in present})

    def wrap(row: dict[str, Any]) -> dict[str, Any]:
        known = any(row[name] is not None for name in present)
        return {name: [row[name]] if known else None for name in present}

    return part.map(wrap, features=features)


def keep_annotations(dataset: Any, fraction: float, seed: int) -> Any:
    """Empties the operand columns of all annotated rows but a fraction, chosen by the seed; no row is left out.

    Args:
        dataset: A dataset with operand columns.
        fraction: Part of the annotated rows, 0..1, that stay so; rounded to whole rows.
        seed: Of the choice.

    Raises:
        ValueError: A fraction below 1 without a column `igc_operator`.
    """
    if fraction == 1:
        return dataset
    present = [name for name in COLUMNS if name in dataset.column_names]
    if COLUMNS[0] not in present:
        raise ValueError(
            f"`igc_annotated_fraction={fraction:g}` is set, but the data has no column `{COLUMNS[0]}`. Leave it out."
        )
    annotated = [index for index, operator in enumerate(dataset[COLUMNS[0]]) if _is_annotated(operator)]
    count = round((1 - fraction) * len(annotated))
    emptied = set(random.Random(f"annotated/{seed}").sample(annotated, count))

    def empty(row: dict[str, Any], index: int) -> dict[str, Any]:
        return {name: None if index in emptied else row[name] for name in present}

    return dataset.map(empty, with_indices=True, features=dataset.features)


def _is_annotated(operator: Any) -> bool:
    """Whether a row's `igc_operator` says anything."""
    return operator is not None and (isinstance(operator, str) or any(entry is not None for entry in operator))
