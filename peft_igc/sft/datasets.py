"""The data of `peft-igc sft`: datasets loaded, brought into one form and joined.

In: TRL's data arguments and `IGCArguments`. Out: a training set with operand columns, which are None in rows without
annotation, and a test set if an evaluation needs one. A dataset is a folder, a file or a hub id, with conversations
(`messages`), prompts and completions, or texts. The package's own arithmetic can be added. Nothing is tokenized and no
operand column is checked here: the trainer does both.
"""

import contextlib
import dataclasses
import json
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import LargeList, List, Value, concatenate_datasets, load_dataset, load_dataset_builder
from datasets.exceptions import DatasetsError

from ..data.arithmetic import ArithmeticRows
from ..data.bigbench import bigbench_test_set
from ..data.columns import ALL_COLUMNS, COLUMNS, EXPRESSION_COLUMN, ROW_COLUMN, check_names, has_number, spelled
from ..data.dataset import supervised_rows, to_dataset
from ..data.files import read_rows
from ..data.wording.wording import FEW, TRAINING
from ..data.writing_rows import covering_rows, longer_rows
from ..text.values import Limits
from ..trainer.config import WritingStage
from ..tuner.config_values import SIZES
from .arguments import IGCArguments, Parsed


# The forms of a dataset, as error messages name them.
CHAT, PAIR, TEXT = "`messages`", "`prompt` and `completion`", "`text`"
CHAT_PAIR = f"{PAIR} of messages"
READERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet"}  # builder of `datasets` for a single file
# Suffixes with which a name is that of a file, and of no dataset on the hub.
FILES = {*READERS, ".csv", ".tsv", ".txt", ".gz", ".zip", ".yaml", ".yml"}
LARGEST_PART = 10  # at most one of this many annotated rows is held out
MAX_DIGITS = 6  # of ordinary operands in generated rows, as in the demonstration


def generated_rows(
    arguments: IGCArguments, seed: int, form: str, excluded: Sequence[Mapping[str, Any]] | None = None, **changes: Any
) -> ArithmeticRows:
    """The stream of the package's own arithmetic, also for a LoRA that is compared with a calculator.

    The forms `CHAT` and `CHAT_PAIR` have messages, others plain strings. The calculations of `excluded` (None:
    `bigbench_test_set(200)`) do not occur, as in `ArithmeticRows`, whose arguments `changes` are.
    """
    limits, most = _limits(arguments), arguments.igc_generated_max_digits
    with_tokens = arguments.igc_interface == "tokens"
    options: dict[str, Any] = {
        "max_digits": min(MAX_DIGITS, limits.digits) if most is None else most,
        "mixture": arguments.mixture,
        # The few phrasings have no everyday ones.
        "wording": TRAINING if with_tokens or arguments.mixture.casual else FEW,
        "conversational": form in (CHAT, CHAT_PAIR),
        "distinct": True,
        "exclude": bigbench_test_set(200) if excluded is None else excluded,
    }
    return ArithmeticRows(seed, limits=limits, **(options | changes))


def _limits(arguments: IGCArguments) -> Limits:
    """What the calculator supports; rows of functions have a stream of their own, `data.functions`."""
    with_tokens = arguments.igc_interface == "tokens"
    digits = arguments.igc_num_digits or SIZES[arguments.igc_interface]["num_digits"]
    operations = tuple(one for one in arguments.igc_operations or "+-*/" if not one.isalpha())
    operands = (arguments.igc_max_operands or 8) if with_tokens else 2
    rounding: Any = arguments.igc_rounding or "refuse"
    has_places = with_tokens and arguments.igc_decimal_operands is not False
    results = arguments.igc_result_digits or digits
    return Limits(digits, results, operands, operations, with_tokens, rounding, has_places)


def rows_of_writing(
    arguments: IGCArguments,
    stage: WritingStage,
    seed: int,
    rows: Iterable[dict[str, Any]],
    excluded: Sequence[Mapping[str, Any]] | None,
    avoid: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Generated rows with a result for the second stage: the first ones of `rows`, those of the first stage, as many
    with longer numbers, and some that have all leading digits after any of their prompts. Other arguments as in
    `generated_rows`.
    """
    rows, half = list(rows), (stage.rows - stage.covering) // 2
    found = [row for row in rows if has_number(row["igc_result"])][:half]
    without = ("none", "overflow", "undefined", "inexact", "unsupported", "look_alikes", "by_hand")
    silent = dict.fromkeys(without, 0.0)  # most texts by many hands have no long numbers
    by_rule = arguments.igc_interface == "tokens" and arguments.igc_max_operands != 2
    mixture = dataclasses.replace(arguments.mixture, **silent, expressions=stage.expressions * by_rule)
    most = min(stage.max_digits, _limits(arguments).digits)
    changes = {"max_digits": most, "mixture": mixture, "wording": TRAINING, "distinct": False, "avoid": avoid}
    longer = generated_rows(arguments, seed + 1, CHAT_PAIR, excluded, **changes)
    lengths = min(longer.limits.result_digits, 2 * most) if stage.equal_lengths else None
    prompts = [row["prompt"] for row in rows]
    covering = covering_rows(stage.covering, seed, longer.limits, prompts)
    return [*found, *longer_rows(longer, half, lengths), *covering]


def load_corpora(
    parsed: Parsed,
    conversational: bool = True,
    excluded: Sequence[Mapping[str, Any]] | None = None,
    avoid: Collection[str] = (),
) -> tuple[Any, Any, Any]:
    """The training set; the test set, or None unless `eval_strategy` needs one; and annotated rows held out, or None.

    Generated rows, without the calculations of `excluded` and the texts `avoid`, are added whole, whatever the
    fractions of the mixture. Without other data they are messages, if `conversational`.

    Raises:
        FileNotFoundError: A folder does not exist.
        ValueError: No data is named, arguments contradict each other, or datasets do not go together.
    """
    script, training, mixture, arguments = parsed.script, parsed.training, parsed.mixture, parsed.igc
    count = arguments.igc_generated_rows
    if script.dataset_name and mixture.datasets:
        raise ValueError("`dataset_name` and `datasets` both name data. Leave one of them out.")
    streamed = script.dataset_streaming if script.dataset_name else mixture.streaming
    counted = {"igc_generated_rows": count or None, "test_split_size": mixture.test_split_size}
    if streamed and (named := [name for name, value in counted.items() if value is not None]):
        raise ValueError(f"`{named[0]}` needs rows that can be counted, but they are streamed. Leave one out.")
    if script.dataset_name:
        parts, test = _named(script, training.eval_strategy != "no", arguments.has_igc)
    else:
        parts, test = _mixed(mixture, arguments.has_igc), None
    held, wanted = None, arguments.igc_held_out if arguments.has_igc else 0
    if count:
        form = _form(*next(iter(parts.items()))) if parts else CHAT_PAIR if conversational else PAIR
        if form == TEXT or (form == CHAT and not training.assistant_only_loss):
            name, cure = next(iter(parts)), "write its rows as prompts and completions, or leave one of them out"
            cure = f"set `assistant_only_loss=True`, or {cure}" if form == CHAT else cure
            raise ValueError(f"`igc_generated_rows` are prompts and completions, but `{name}` has {form}: {cure}.")
        # Rows of a stream alone are held out after the trained ones, which then do not depend on how many these are.
        more = 0 if parts or training.eval_strategy != "no" else min(wanted, count // LARGEST_PART)
        rows = generated_rows(arguments, training.seed, form, excluded, avoid=avoid).take(count + more)
        if form == CHAT:
            rows = [{"messages": [*row.pop("prompt"), *row.pop("completion")], **row} for row in rows]
        parts["igc_generated_rows"] = to_dataset(rows[:count])
        held = to_dataset(rows[count:]) if more else None
    train, test = _joined(parts, test, parsed)
    return (train, test, held) if held is not None else _hold_out(train, test, wanted, training.seed)


def _hold_out(train: Any, test: Any, wanted: int, seed: int) -> tuple[Any, Any, Any]:
    """Both sets, and `wanted` annotated rows of the test set, or else of the training set without them, of which a
    tenth at most is taken away."""
    source = train if test is None else test
    annotated = supervised_rows(source) if wanted and hasattr(source, "__len__") else []
    if not (count := min(wanted, len(annotated) // (LARGEST_PART if test is None else 1))):
        return train, test, None
    chosen = set(random.Random(seed).sample(annotated, count))
    if test is None:
        train = train.select([at for at in range(len(train)) if at not in chosen])
    return train, test, source.select(sorted(chosen))


def _joined(parts: dict[str, Any], test: Any, parsed: Parsed) -> tuple[Any, Any]:
    """The training set of checked parts, and the test set if an evaluation needs one."""
    training, mixture = parsed.training, parsed.mixture
    for name, part in parts.items():
        _check_columns(name, part, training.dataset_text_field, parsed.igc.has_igc)
    if not parts:
        raise ValueError("No data is named. Set `dataset_name`, `datasets` or `igc_generated_rows`.")
    if not parsed.igc.has_igc:  # operand columns are not used, and need not go together
        parts = {name: part.remove_columns(_operand_columns(part)) for name, part in parts.items()}
    train = join(parts)
    if mixture.test_split_size is not None:  # also instead of a test split that the dataset has
        split = train.train_test_split(test_size=mixture.test_split_size, seed=training.seed)
        train, test = split["train"], split["test"]
    if training.eval_strategy == "no":
        return train, None
    if test is None:
        raise ValueError(
            f"`eval_strategy={training.eval_strategy}` needs test data, and there is none. Set `test_split_size`, "
            "name a dataset that has the split `dataset_test_split`, or leave `eval_strategy` out."
        )
    return train, test


def _named(script: Any, with_test: bool, with_operands: bool) -> tuple[dict[str, Any], Any]:
    """The dataset of `dataset_name`, and its test split if one is needed and there."""
    found = _load(script.dataset_name, with_operands, name=script.dataset_config, streaming=script.dataset_streaming)
    if script.dataset_train_split not in found:
        raise ValueError(
            f"`{script.dataset_name}` has no split `{script.dataset_train_split}`; there are {', '.join(found)}. "
            "Set `dataset_train_split`."
        )
    test = found.get(script.dataset_test_split) if with_test else None
    return {script.dataset_name: found[script.dataset_train_split]}, test


def _mixed(mixture: Any, with_operands: bool) -> dict[str, Any]:
    """The datasets of `datasets` by name, each cut to its fraction. TRL's `get_dataset` would not make them alike."""
    parts: dict[str, Any] = {}
    for entry in mixture.datasets:
        options = {name: getattr(entry, name) for name in ("name", "data_dir", "data_files", "split")}
        part = _load(entry.path, with_operands, streaming=mixture.streaming, **options)
        name = entry.path if entry.path not in parts else f"{entry.path} ({len(parts) + 1})"
        row_names = {ROW_COLUMN} & set(part.column_names or ())
        parts[name] = part if entry.columns is None else part.select_columns([*entry.columns, *row_names])
    fractions = [entry.fraction for entry in mixture.datasets]
    if all(fraction is None for fraction in fractions):
        return parts
    if None in fractions or mixture.streaming or min(fractions) <= 0:
        raise ValueError(
            f"`fraction` is {fractions}: give every dataset of the mixture one above 0, or none; streams have none."
        )
    # As in TRL: the largest mixture with these shares in which no dataset repeats a row.
    shares = dict(zip(parts, [fraction / sum(fractions) for fraction in fractions], strict=True))
    total = min(len(part) / shares[name] for name, part in parts.items())
    return {name: part.select(range(round(shares[name] * total))) for name, part in parts.items()}


def _load(path: str, with_operands: bool = True, **options: Any) -> Any:
    """One dataset, `with_operands` in the form of `with_named_rows`. The hub is not asked for a path."""
    here, source = Path(path).expanduser(), path
    if here.is_file():
        if here.suffix not in READERS or any(options.get(name) for name in ("name", "data_files", "data_dir")):
            raise ValueError(
                f"The dataset `{path}` is a file. Pass one that ends in {', '.join(READERS)}, without a "
                "configuration, `data_files` and `data_dir`, or its folder."
            )
        source, options = READERS[here.suffix], {**options, "data_files": str(here)}
    elif here.is_dir():
        source = str(here)
    elif path[:1] in "./~" or path.count("/") > 1 or here.suffix.lower() in FILES:
        raise FileNotFoundError(f"`{path}` does not exist. Pass a JSONL or parquet file, or a folder of such files.")
    try:
        found = load_dataset(source, **options)
    except StopIteration as error:  # from datasets (5.0), whose reader finds no row
        raise ValueError(f"The dataset `{path}` has no rows.") from error
    except (ValueError, DatasetsError) as error:
        if here.suffix == ".jsonl":
            read_rows(here)  # its error names the line
        because = error.__cause__ or error
        raise ValueError(f"The dataset `{path}` cannot be loaded: {because}") from error
    if not with_operands:
        return found
    files: Mapping[str, Any] = {}
    if here.exists():
        without = {name: value for name, value in options.items() if name not in ("split", "streaming")}
        files = load_dataset_builder(source, **without).config.data_files
    if isinstance(found, dict):  # of splits
        return {split: with_named_rows(part, path, files.get(split, ())) for split, part in found.items()}
    return with_named_rows(found, path, files.get(str(options.get("split")), ()))  # none of a slice as `train[:9]`


def with_named_rows(part: Any, path: str, files: Sequence[str] = ()) -> Any:
    """A dataset with the column `igc_row`, by which errors name a row wherever it is by then, and with integers as
    strings. A stream has no names; a dataset without operand columns stays as it is.

    `datasets` (5.2) gives each column one type: floats if it has integers and a float, or one beyond 64 bits. Such
    values are read again if `files`, from which the dataset was loaded, are one JSONL file.

    Raises:
        ValueError: A number is not exact; the message names the line.
    """
    numbers = [name for name in COLUMNS[1:] if name in (part.features or ())]
    for name in numbers:
        if _kind(part.features[name]).startswith(("int", "uint")):
            part = part.cast_column(name, _strings(part.features[name]))
    if not hasattr(part, "__len__") or not _operand_columns(part):
        return part
    file, lines = _lines_of(part, files)
    rows = [f"`{file}`, line {number}" for number, _ in lines] or [f"`{path}`, row {i}" for i in range(len(part))]
    for name in numbers:
        if _kind(part.features[name]).startswith(("float", "Json")):
            values = [json.loads(line).get(name) for _, line in lines] or part[name]
            texts = [spelled(value, name, row) for value, row in zip(values, rows, strict=True)]
            with contextlib.suppress(TypeError, ValueError):  # of Arrow: other types, which are refused later
                part = part.remove_columns(name).add_column(name, texts)
    return part.add_column(ROW_COLUMN, rows)


def _operand_columns(part: Any) -> list[str]:
    return [name for name in ALL_COLUMNS if name in (part.column_names or ())]


def _lines_of(part: Any, files: Sequence[str]) -> tuple[Path | None, list[tuple[int, bytes]]]:
    """The JSONL file of a dataset, and its lines with their numbers; (None, []) if it has several or none."""
    if len(files) != 1 or READERS.get((file := Path(files[0])).suffix) != "json":
        return None, []
    numbered = enumerate(file.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1)
    lines = [(number, line) for number, line in numbered if line.strip()]
    is_whole = len(lines) == len(part) and all(line.lstrip().startswith(b"{") for _, line in lines)
    return (file, lines) if is_whole else (None, [])


def _kind(feature: Any) -> str:
    """The type of the values of a column, lists aside."""
    while (inner := getattr(feature, "feature", None)) is not None:
        feature = inner
    return str(getattr(feature, "dtype", None) or type(feature).__name__)


def _strings(feature: Any) -> Any:
    """The feature with strings as values."""
    return List(_strings(feature.feature)) if hasattr(feature, "feature") else Value("string")


def _check_columns(name: str, part: Any, text_field: str, with_operands: bool) -> None:
    """Refuses a dataset without a row or a text, or, `with_operands`, with a misspelled operand column."""
    columns = set(part.column_names or ())
    check_names(columns if with_operands else (), f"The dataset `{name}`")
    if hasattr(part, "__len__") and not len(part):
        raise ValueError(f"The dataset `{name}` has no rows.")
    if not columns or columns & {"messages", "conversations", "prompt", "input_ids", text_field}:
        return
    raise ValueError(
        f"The dataset `{name}` has the columns {_listed(columns)}. Write each row as `messages`, as `prompt` and "
        "`completion`, or as `text`."
    )


def _listed(columns: set[str]) -> str:
    return ", ".join(sorted(columns - {ROW_COLUMN}))


def _form(name: str, part: Any) -> str:
    """The form in which a dataset holds its texts: `CHAT`, `PAIR`, `CHAT_PAIR` or `TEXT`."""
    columns = set(part.column_names)
    forms = {CHAT: {"messages"}, PAIR: {"prompt", "completion"}, TEXT: {"text"}}
    held = [form for form, needed in forms.items() if needed <= columns]
    if len(held) != 1 or (held == [CHAT] and "prompt" in columns):
        raise ValueError(
            f"`{name}` has the columns {_listed(columns)}. In a mixture each dataset has either {CHAT}, or {PAIR}, or "
            f"{TEXT}: choose with `columns`."
        )
    # A column of messages has a nested feature without `dtype`.
    if held == [PAIR] and getattr(part.features["prompt"], "dtype", None) not in ("string", "large_string"):
        return CHAT_PAIR
    return held[0]


def join(parts: dict[str, Any]) -> Any:
    """Concatenates datasets, with None where one has no such column; those that do not go together are a ValueError.
    If one part has lists of annotations, the single annotations of the others become lists of one."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    forms = {name: _form(name, part) for name, part in parts.items()}
    if len(set(forms.values())) > 1:
        held = "; ".join(f"`{name}` has {form}" for name, form in forms.items())
        raise ValueError(f"The datasets of a mixture need one form: {held}. Rewrite the rows of one, or leave it out.")
    if any(_has_lists(part) for part in parts.values()):
        parts = {name: part if _has_lists(part) else _as_lists(part) for name, part in parts.items()}
    try:
        return concatenate_datasets(list(parts.values()))
    except ValueError as error:
        raise ValueError(
            f"The datasets {', '.join(f'`{name}`' for name in parts)} hold one column in different types: {error} "
            "Leave that column out with `columns`, or give it one type."
        ) from error


def _has_lists(part: Any) -> bool:
    """Whether the operand columns hold one entry per anchor."""
    features = part.features or {}
    return any(isinstance(features.get(name), (List, LargeList)) for name in (COLUMNS[0], EXPRESSION_COLUMN))


def _as_lists(part: Any) -> Any:
    """Operand columns as lists of one entry, also without an operator: that is refused later. Other rows keep None."""
    if not (present := _operand_columns(part)):
        return part
    features = part.features.copy()
    for name in present:
        # A column without a value has no type. Floats of a stream remain, and are refused when it is joined.
        empty = List(Value("string")) if name == COLUMNS[1] else Value("string")
        features[name] = List(empty if _kind(features[name]) == "null" else features[name])

    def wrap(row: dict[str, Any]) -> dict[str, Any]:
        known = any(row[name] is not None for name in present)
        return {name: [row[name]] if known else None for name in present}

    return part.map(wrap, features=features)
