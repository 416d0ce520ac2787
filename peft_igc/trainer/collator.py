"""Batches with operand columns: finds the anchors of rows, assigns steps to them, and makes the target tensors.

In: rows prepared by TRL's `SFTTrainer` (`input_ids`, `labels`) with operand columns. Out: the batch of TRL's collator
with `igc_anchors` and the seven target tensors that the model takes. `RowCheck` applies the same rules to a whole
dataset before it is truncated, so that errors precede the training and name the row. The anchors of rows that are not
supervised are not checked. Nothing is read or calculated here; `labels` compares them with the text.
Try it: `pytest tests/trainer/test_trainer.py -k "batch or anchors or truncation"`

Shapes: B rows, T positions, A anchors per row, S operands, D digits of an operand, R digits of a result.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import pad
from trl import SFTConfig
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from ..data.columns import ALL_COLUMNS, COLUMNS, EXPRESSION_COLUMN, ROW_COLUMN, StepLabel, encode_steps
from ..data.dataset import row_labels
from ..mappings.readings import IGNORE
from ..text.literals import integers
from ..text.token_table import TokenTable
from ..tuner.anchors import find_anchors
from ..tuner.config import IGCConfig
from .labels import BY_TURN, CUT, UNKNOWN, UNREAD, WHOLE, TextCheck, assign_steps, entries_of, turns_of


logger = logging.getLogger(__name__)


@dataclass
class IGCDataCollator(DataCollatorForLanguageModeling):
    """TRL's collator for language modeling, which also converts operand columns to tensors.

    Besides TRL's keys, the batch has (all int64) `igc_anchors` [B, A] (-1 = none) and the targets of
    `columns.encode_steps`: `igc_operands` [B, A, S, D + 1], `igc_signs` [B, A, S], `igc_operator` [B, A],
    `igc_result` [B, A, R], its sign, status and scale [B, A].

    Args:
        igc_config ([`IGCConfig`]):
            Config of the adapter that is trained: limits of the numbers, operations, anchors.
        tokenizer (*optional*):
            Tokenizer of the rows, for the token of a space and to show faulty rows as text. `None`: as token ids.
        needs_columns (`bool`, *optional*, defaults to `True`):
            Whether batches of which no row has an operand column, not even one that is None, are refused: a trainer
            with `remove_unused_columns=True` has removed them. `IGCTrainer`, which keeps them, sets it to `False`.
            Such a batch then has no targets.

    Raises:
        TypeError: A column has a wrong type.
        ValueError: Columns contradict themselves, each other or the row's anchors. The message shows the row.

    Example:
        collator = IGCDataCollator(pad_token_id=0, igc_config=IGCConfig(layer=1))
        batch = collator([{"input_ids": [5, 6, 7], "labels": [-100, -100, 7], "igc_operator": "none"}])
    """

    igc_config: IGCConfig | None = None
    tokenizer: Any = None
    needs_columns: bool = True

    def __post_init__(self) -> None:
        if self.igc_config is None:
            raise ValueError(
                "`igc_config=None` leaves the length of the numbers unknown. Pass the adapter's `IGCConfig`, or use "
                "TRL's collator for a model without an adapter."
            )
        if self.padding_free:
            raise ValueError(
                "`padding_free=True` joins the rows of a batch, and a calculation would read across them. "
                "Set `padding_free=False`."
            )
        self._respell = SingleDigits.of(self.igc_config, self.tokenizer)
        self._compare = TextCheck(self.igc_config)
        self._warned = False

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        """Makes the batch of `examples`."""
        assert self.igc_config is not None
        has_columns = any(name in example for example in examples for name in ALL_COLUMNS)
        if self.needs_columns and not has_columns:
            raise ValueError(
                f"The rows have no operand column, only {', '.join(sorted(examples[0]))}, so the reading would learn "
                "nothing. Other trainers than `IGCTrainer` remove operand columns before the collator: set "
                "`remove_unused_columns=False`, or use `IGCTrainer`. If there are none on purpose, set "
                "`IGCDataCollator(needs_columns=False)`."
            )
        if self._respell is not None:  # rows that `IGCTrainer` prepared are respelled already, which changes nothing
            examples = [{**example, **self._respell(example)} for example in examples]
        batch: dict[str, Any] = super().torch_call(examples)
        anchors = find_anchors(batch["input_ids"], batch["attention_mask"], batch["labels"], self.igc_config)  # [B, A]
        if not has_columns:  # no targets: the model knows then that it gets none, and says so
            return batch | {"igc_anchors": anchors}
        turns = turns_of(anchors, batch["input_ids"], batch["labels"], self.igc_config)
        rows = [self._steps(example, turns_of_row) for example, turns_of_row in zip(examples, turns, strict=True)]
        width = max(anchors.shape[1], *map(len, rows))
        rows[0] = rows[0] + [UNKNOWN] * (width - len(rows[0]))  # `encode_steps` pads to the longest row
        batch["igc_anchors"] = pad(anchors, (0, width - anchors.shape[1]), value=-1)  # [B, A]
        valid = batch["attention_mask"].bool()
        compared = self._compare(
            batch["input_ids"], valid, batch["igc_anchors"], rows, lambda row: self._name(examples[row])
        )
        for example, reasons in zip(examples, compared.unread, strict=True):
            if reasons and UNREAD not in example and not self._warned:  # `RowCheck` has counted the others
                self._warned = True
                _warn_of_unread("training", "some rows", reasons[0])
        sizes = {name: getattr(self.igc_config, name) for name in ("num_digits", "result_digits", "operations")}
        return batch | encode_steps(compared.rows, **sizes)

    def _steps(self, example: Mapping[str, Any], turns: list[bool]) -> list[StepLabel]:
        """The row's steps in the order of its anchors."""
        assert self.igc_config is not None
        try:
            return assign_steps(example, turns, self.igc_config, "row")
        except (TypeError, ValueError):
            # Decoding a row takes longer than checking it, so only the names of faulty rows are made.
            return assign_steps(example, turns, self.igc_config, self._name(example))

    def _name(self, example: Mapping[str, Any]) -> str:
        """The row's name in errors: its text before the first answer."""
        labels = example.get("labels") or []
        end = next((i for i, label in enumerate(labels) if i and label != -100), len(example["input_ids"]))
        ids = list(example["input_ids"][:end])
        shown = repr(ids if self.tokenizer is None else self.tokenizer.decode(ids))
        shown = shown if len(shown) <= 120 else f"{shown[:40]} ... {shown[-80:]}"
        return f"{example[ROW_COLUMN]} ({shown})" if example.get(ROW_COLUMN) else f"row {shown}"


def ours(collator: Any, config: IGCConfig, tokenizer: Any, has_columns: bool) -> Any:
    """The collator for a trainer that keeps operand columns: TRL's default one is replaced, and custom ones stay."""
    if type(collator) is DataCollatorForLanguageModeling:
        given = {f.name: getattr(collator, f.name) for f in dataclasses.fields(collator)}
        return IGCDataCollator(**given, igc_config=config, tokenizer=tokenizer, needs_columns=False)
    if isinstance(collator, IGCDataCollator):
        collator = copy.copy(collator)
        collator.needs_columns = False
    elif has_columns:
        logger.warning(
            f"The operand columns are passed to `{type(collator).__name__}`, which has to convert them to the `igc_*` "
            "tensors. Leave `data_collator` out, or derive yours from `IGCDataCollator`."
        )
    return collator


def checked_rows(dataset: Any, check: RowCheck, processes: int | None) -> Any:
    """A tokenized dataset with the columns of `RowCheck`; says which rows lose steps or are not read."""
    if check.is_stream:  # `IterableDataset.map` has neither option, and nothing can be counted
        return dataset.map(check, with_indices=True)
    name = check.dataset_name
    dataset = dataset.map(check, with_indices=True, num_proc=processes, desc=f"Checking operands of {name} dataset")
    _report_cut(dataset, name, check.max_length)
    if unread := [reason for reason in dataset[UNREAD] if reason] if UNREAD in dataset.column_names else []:
        _warn_of_unread(name, f"{len(unread)} of {len(dataset)} rows", unread[0])
    return dataset


def _report_cut(dataset: Any, dataset_name: str, max_length: int | None) -> None:
    """Says which part of a dataset truncation leaves without supervised steps, and the length that would do.

    Raises:
        ValueError: No step of a training set is left, so the reading would learn nothing.
    """
    lost = [max(count, 0) for count in dataset[CUT]]
    if not any(lost):
        return
    names, none = dataset.column_names, [None] * len(dataset)
    operators, expressions = (dataset[name] if name in names else none for name in (COLUMNS[0], EXPRESSION_COLUMN))
    steps = sum(len(row_labels(one, None, other)) for one, other in zip(operators, expressions, strict=True))
    at = [index for index, count in enumerate(lost) if count]
    rows, longest = len(at), max(map(len, dataset.select(at)["input_ids"]))
    if dataset_name == "train" and sum(lost) == steps:
        raise ValueError(
            f"{_length(max_length)} cuts all {rows} rows with operands of the {dataset_name} dataset before their "
            f"anchors, so the reading would learn nothing. Set `max_length={longest}`, the length of the longest one, "
            "or shorten the prompts."
        )
    cure = f"These are {rows / len(lost):.1%} of its rows; `max_length={longest}` would do for all of them."
    _warn_of_cut(dataset_name, max_length, f"{rows} of {len(lost)} rows", cure)


def _length(max_length: int | None) -> str:
    """`max_length` with its value, and that it is TRL's default if it may not have been given."""
    return f"`max_length={max_length}`{', the default,' if max_length == SFTConfig.max_length else ''}"


def _warn_of_cut(dataset_name: str, max_length: int | None, rows: str, cure: str) -> None:
    """Warns that truncation removes supervised steps of some rows."""
    logger.warning(
        f"{_length(max_length)} cuts {rows} of the {dataset_name} dataset before an anchor with operands. The "
        f"steps removed are not supervised, and rows without a remaining label are dropped. {cure}"
    )


def _warn_of_unread(dataset_name: str, rows: str, first: str) -> None:
    """Warns of steps whose expression is not what the rules read."""
    logger.warning(
        f"In {rows} of the {dataset_name} dataset the text says no expression that rules read as `igc_expression` "
        f"has it (the first: {first}). The calculator is silent there, so these steps are not supervised. Write the "
        "expression in symbols before its anchor."
    )


# For streams, whose rows are checked one by one in every epoch.
_warn_once = functools.cache(_warn_of_cut)


@dataclass(frozen=True)
class SingleDigits:
    """Writes the labelled numbers of a row in single-digit tokens, which spell the same text; for `dataset.map`.

    The calculator writes results like this where the tokenizer has no fixed groups of digits, so labels must, too.
    `space` is the token of a space, which some numeric tokens begin with.
    """

    table: TokenTable
    space: int | None

    @classmethod
    def of(cls, config: IGCConfig, tokenizer: Any) -> SingleDigits | None:
        """That of an adapter; None if it writes groups of digits, or has learned how to write."""
        table = config.token_table
        if table is None or table.group != 1:
            return None
        space = [] if tokenizer is None else tokenizer(" ", add_special_tokens=False)["input_ids"]
        return cls(table, space[0] if len(space) == 1 else None)

    def __call__(self, row: Mapping[str, Any]) -> dict[str, list[int]]:
        """The row's `input_ids` and `labels`.

        Raises:
            ValueError: A labelled number begins with a space, and the tokenizer has no token for a space.
        """
        ids: list[int] = []
        labels: list[int] = []
        given = row.get("labels") or row["input_ids"]  # without labels, all tokens are trained
        for token, label in zip(row["input_ids"], given, strict=True):
            pieces = self._pieces(token) if label != IGNORE and token in self.table.numbers else [token]
            ids += pieces
            labels += [label] if label == IGNORE else pieces
        return {"input_ids": ids, "labels": labels}

    def _pieces(self, token: int) -> list[int]:
        """The tokens that replace a numeric one in a labelled text."""
        spelled = self.table.numbers[token].strip()
        pieces = [self.table.tokens[digit] for digit in spelled]
        if spelled == self.table.numbers[token]:
            return pieces
        if self.space is None:
            raise ValueError(
                f"Token {token} spells {spelled!r} after a space, and the space has no token of its own here, so an "
                "answer cannot be written in single digits. Pass the `tokenizer`, write answers without a leading "
                'space, or use `interface="hidden"`.'
            )
        return [self.space, *pieces]


@dataclass(frozen=True)
class RowCheck:
    """Checks a row of a tokenized dataset before truncation; a function for `dataset.map(..., with_indices=True)`."""

    config: IGCConfig
    tokenizer: Any
    dataset_name: str  # in messages
    max_length: int | None  # to which rows will be cut
    keep_end: bool  # whether the beginning of a row is cut instead of its end
    is_stream: bool = False  # whether rows that lose steps cannot be counted in advance; the first one is then logged

    @functools.cached_property
    def _compare(self) -> TextCheck:
        return TextCheck(self.config)

    def __call__(self, row: Mapping[str, Any], index: int) -> dict[str, Any]:
        """The columns `CUT` and `BY_TURN` of a row, and `UNREAD` in a dataset with expressions.

        Raises:
            TypeError, ValueError: As `assign_steps` and `TextCheck`, or if the operands of a step follow its anchor.
        """
        where = row.get(ROW_COLUMN) or f"{self.dataset_name} dataset, row {index}"
        ids, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])  # [1, T] both
        found = find_anchors(ids, torch.ones_like(ids), labels, self.config)[0]
        anchors: list[int] = found[found >= 0].tolist()
        turns = turns_of(found[None], ids, labels, self.config)[0]
        steps = assign_steps({**row, CUT: WHOLE, BY_TURN: None}, turns, self.config, where)
        with_expressions = EXPRESSION_COLUMN in row and not self.is_stream
        checked = {CUT: WHOLE, BY_TURN: False, **({UNREAD: ""} if with_expressions else {})}
        if all(step.operator is None for step in steps):
            return checked
        checked[BY_TURN] = (entries_of(row) or 1) != len(anchors)
        for anchor, step in zip(anchors, steps, strict=True):
            self._check_order(row, anchor, step, where)
        # Of a stream the collator compares whole batches, which is several times as fast.
        if not self.is_stream:
            reasons = self._compare(ids, ids >= 0, found[None], [steps], lambda _: where).unread[0]
            checked |= {UNREAD: reasons[0]} if reasons else {}
        if self.max_length is None or ids.shape[1] <= self.max_length:
            return checked
        # If the beginning is cut, the rest may start within an operand, so no step is kept. If the end is cut, a step
        # is kept with all text up to its anchor and one more token: the label after a prompt's end makes it an anchor.
        last = -1 if self.keep_end else self.max_length - 2
        lost = sum(anchor > last and step.operator is not None for anchor, step in zip(anchors, steps, strict=True))
        if lost and self.is_stream:
            _warn_once(self.dataset_name, self.max_length, "rows", "Set `max_length` higher.")
        return {**checked, CUT: lost}

    def _check_order(self, row: Mapping[str, Any], anchor: int, step: StepLabel, where: str) -> None:
        """Refuses a step that seems to belong to a later anchor."""
        # Operands may be written in words, so their absence before the anchor is no error by itself. It is one if both
        # occur in figures in a later question, and neither occurs before the anchor.
        ids, labels = row["input_ids"], row["labels"]
        later = [token for token, label in zip(ids[anchor + 1 :], labels[anchor + 1 :], strict=True) if label == -100]
        if step.operands is None or not later:
            return
        wanted = {operand.lstrip("-") for operand in step.operands}
        texts = (self.tokenizer.decode(part) for part in (ids[: anchor + 1], later))
        before, after = ({one.digits for one in integers(text)} for text in texts)
        if wanted <= after and not wanted & before:
            raise ValueError(
                f"{where}: the operands {' and '.join(step.operands)} follow their anchor (token {anchor}), so they "
                "cannot be read there. Put the entries of the operand columns in the order of the anchors, with None "
                "for an anchor without a calculation."
            )
