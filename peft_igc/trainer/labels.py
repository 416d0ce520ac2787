"""The labels of rows: operand columns assigned to anchors, and compared with what the text says there.

In: rows with operand columns, their tokens and their anchors. Out: the labels that are trained. Where the rules read
an expression, its value must be that of `igc_expression`; another one is an error, because the calculator would write
it whatever was learned. Where they read none, a pair of integers is left to the network, as in `igc_operands`, and
every other step is not supervised, since the calculator is silent there. With the token interface, which points at
numbers, the text must also spell each operand before its anchor.
Try it: `pytest tests/trainer/test_labels.py`

Shapes: B rows, T positions, A anchors per row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..data.columns import ALL_COLUMNS, EXPRESSION, EXPRESSION_COLUMN, ROW_COLUMN, StepLabel, check_columns, label
from ..mappings.decisions import said_at
from ..numbers.calculator import NO_ARITHMETIC, Status
from ..numbers.places import number_runs
from ..text.refusals import REASON_TEXTS, Reason
from ..text.values import Limits
from ..text.vocabulary import PADDING
from ..tuner.anchors import INLINE, Rules, before_labels, context_starts, kinds_of
from ..tuner.config import IGCConfig


__all__ = ["BY_TURN", "CUT", "ROW_COLUMNS", "UNKNOWN", "UNREAD", "WHOLE", "Compared", "TextCheck", "assign_steps"]
__all__ += ["entries_of", "turns_of"]

# Columns that `RowCheck` adds. Once a row is truncated, they cannot be derived from it any more.
CUT = "igc_cut"  # number of supervised steps that truncation removes from the row, counted from the last, or WHOLE
WHOLE = -1
BY_TURN = "igc_by_turn"  # whether the entries are for the turns only, and there are none for anchors within texts
UNREAD = "igc_unread"  # why expressions of the row are not read from its text, "" if all are; with `igc_expression`
ROW_COLUMNS = (*ALL_COLUMNS, CUT, BY_TURN, UNREAD, ROW_COLUMN)

UNKNOWN = StepLabel(None, None, None, Status.NONE)

# Refusals of an expression that was read; of the others the network may still read two numbers in words.
_SILENT = (None, NO_ARITHMETIC)  # operators without a calculation
_OF_VALUES = (Reason.TOO_LONG, Reason.INEXACT, Reason.OVERFLOW, Reason.UNDEFINED)


def turns_of(anchors: torch.Tensor, ids: torch.Tensor, labels: torch.Tensor, config: IGCConfig) -> list[list[bool]]:
    """For each anchor of each row, whether a turn begins there (True) or a result within a text (False)."""
    # anchors: [B, A] positions, -1 for none; ids and labels: [B, T]
    rules = Rules.of(config)
    is_turn = kinds_of(rules, ids, anchors, 0) != INLINE
    # The end of a prompt begins a turn if it is an anchor rule, even if it is an inline anchor too, as in `1+2=`.
    if rules.prompt_end:
        is_turn |= (anchors[..., None] == before_labels(labels)[:, None]).any(-1)
    return [one[at >= 0].tolist() for one, at in zip(is_turn, anchors, strict=True)]


def assign_steps(row: Mapping[str, Any], turns: list[bool], config: IGCConfig, where: str) -> list[StepLabel]:
    """The steps of a row in the order of its anchors, at least one. Those that truncation removed are not supervised.

    If there are as many entries as turns, but not as many as anchors, they belong to the turns, and the anchors within
    texts are not supervised.

    Args:
        row: A row with operand columns.
        turns: For each anchor, whether a turn begins there.
        config: The adapter's config.
        where: The row's name in error messages.

    Raises:
        TypeError, ValueError: As `check_columns`, or the number of entries fits neither the anchors nor the turns.
    """
    steps = check_columns(row, Limits.of(config), where)
    if all(step.operator is None for step in steps):
        return [UNKNOWN]
    count, cut = len(turns), row.get(CUT, WHOLE)
    by_turn = row.get(BY_TURN)
    if by_turn or (by_turn is None and len(steps) != count and len(steps) == sum(turns)):
        entries = iter(steps)
        # After a truncation there may be fewer anchors than entries.
        steps = [next(entries, UNKNOWN) if is_turn else UNKNOWN for is_turn in turns] + list(entries)
    if cut != WHOLE:  # anchors may be missing, so their number cannot be compared
        supervised = [place for place, step in enumerate(steps) if step.operator is not None]
        kept = supervised[len(supervised) - cut] if cut else len(steps)
        # A removed step is not supervised: a part of the text that it would read is missing.
        return steps[:kept] + [UNKNOWN] * (len(steps) - kept)
    if len(steps) == count:
        return steps
    raise ValueError(f"{where}: {_mismatch(count, len(steps), entries_of(row) is not None, config)}")


def entries_of(row: Mapping[str, Any]) -> int | None:
    """The number of entries of the operand columns, None if they describe one calculation."""
    first = row.get(EXPRESSION_COLUMN) if row.get("igc_operator") is None else row["igc_operator"]
    return len(first) if isinstance(first, list | tuple) else None


def _mismatch(count: int, steps: int, is_list: bool, config: IGCConfig) -> str:
    """Why the entries of a row do not fit its anchors, and the cure."""
    rules = Rules.of(config)
    if count == 0 and not rules.sequences:
        return (
            "the operand columns describe a calculation, but the row has no anchor: no labelled token follows one "
            "without a label. Use `prompt` and `completion` columns, or `assistant_only_loss=True` for a "
            "conversation, or `IGCConfig.from_tokenizer(...)`, which finds anchors in the text."
        )
    if count == 0:
        more = len(rules.sequences) - 8
        shown = f"{rules.sequences[:8]}" + (f" and {more} more" if more > 0 else "")
        return (
            "the operand columns describe a calculation, but the row has no anchor: none of "
            f"the token sequences {shown} occurs in it. Write the row as a conversation, or set "
            '`IGCConfig(anchors="prompt_end")` to anchor before each labelled stretch.'
        )
    anchors = f"{count} anchor{'s' if count > 1 else ''}"
    found = f"have {steps} entries" if is_list else "describe one calculation"
    return (
        f"the row has {anchors}, but its operand columns {found}. Make each column a list with one entry per anchor "
        "(None for an anchor without an annotation)."
    )


class Compared(NamedTuple):
    """The steps of each row after the comparison, and a text for each that is not read: why its expression is not."""

    rows: list[list[StepLabel]]
    unread: list[list[str]]


class _Place(NamedTuple):
    """An anchor in a text: its tokens, the anchor, and the first token that is read."""

    tokens: list[int]
    anchor: int
    since: int


class TextCheck:
    """Compares the labels of a batch with its texts."""

    def __init__(self, config: IGCConfig) -> None:
        self.config = config
        self._table = config.token_table  # None with the hidden interface, which can learn to read words

    def __call__(
        self,
        ids: torch.Tensor,
        valid: torch.Tensor,
        anchors: torch.Tensor,
        rows: Sequence[Sequence[StepLabel]],
        name: Callable[[int], str],
    ) -> Compared:
        """Compares the steps of B rows.

        Args:
            ids: [B, T] int64.
            valid: [B, T] bool, False for padding.
            anchors: [B, A] int64, -1 for none.
            rows: The steps of each row, in the order of its anchors; at most A.
            name: The name of a row in error messages.

        Raises:
            ValueError: A text says another expression than its column, or does not spell an operand.
        """
        found = Compared([list(row) for row in rows], [[] for _ in rows])
        # The steps that ask for a calculation, by row and anchor.
        at = [(b, a) for b, row in enumerate(rows) for a, step in enumerate(row) if step.operator not in _SILENT]
        at = [(b, a) for b, a in at if a < anchors.shape[1] and anchors[b, a] >= 0]
        if not at:
            return found
        texts, since = ids.masked_fill(~valid, PADDING), torch.zeros_like(anchors)
        if self._table is not None:  # else nothing is read from the text
            rules = Rules.of(self.config)
            since = context_starts(self.config.reading_context, rules, anchors, kinds_of(rules, texts, anchors, 0))
        tokens = texts.tolist()
        for b, a in at:
            try:
                step, unread = self._compared(rows[b][a], _Place(tokens[b], int(anchors[b, a]), int(since[b, a])))
            except ValueError as error:
                raise ValueError(f"{name(b)}: {error}") from error
            found.rows[b][a] = step
            found.unread[b] += [] if unread is None else [unread]
        return found

    def _compared(self, step: StepLabel, place: _Place) -> tuple[StepLabel, str | None]:
        """The label of a step, and why it is not supervised, or None."""
        if self._table is None and step.operator == EXPRESSION:
            raise ValueError(
                f"`{EXPRESSION_COLUMN}` {step.expression!r} is not one operation on two integers. Others are read by "
                'rule, with `IGCConfig.from_tokenizer(...)`; leave the row out, or set `igc_operator` to "none".'
            )
        given, unread = step, None
        if step.expression is not None and self._table is not None:
            step, unread = self._of_expression(step, place)
        if unread is None and self._table is not None and (number := self._missing(step, place)) is not None:
            return self._without_operands(given, step, number)
        return step, unread

    def _of_expression(self, step: StepLabel, place: _Place) -> tuple[StepLabel, str | None]:
        """The label of a step with an expression, and why it is not supervised, or None."""
        assert self.config.vocabulary is not None
        limits = Limits.of(self.config)
        said = said_at(self.config.vocabulary, place.tokens, place.anchor, place.since, limits)
        if said.reason == Reason.NONE and said.value != step.result:
            shown = step.result if step.result is not None else f'"{step.status.name.lower()}"'
            raise ValueError(
                f"`{EXPRESSION_COLUMN}` {step.expression!r} is {shown}, but the text before its "
                f"anchor (token {place.anchor}) is read as an expression with the value {said.value}. Correct the "
                "column or the text."
            )
        if said.reason == Reason.NONE or (said.reason in _OF_VALUES and step.result is None):
            return step, None
        if step.operands is None or said.reason in _OF_VALUES:
            return UNKNOWN, f"{step.expression!r}: {REASON_TEXTS[said.reason]}"
        return self._in_words(step), None

    def _in_words(self, step: StepLabel) -> StepLabel:
        """The label of two integers that the network reads: its calculator has no decimals."""
        assert step.operator is not None
        assert step.operands is not None
        result = label(step.operator, step.operands, Limits.of(self.config))
        if isinstance(result, Status):
            return StepLabel(step.operator, step.operands, None, result, step.expression)
        return StepLabel(step.operator, step.operands, result, Status.OK, step.expression)

    def _missing(self, step: StepLabel, place: _Place) -> str | None:
        """An operand that no number in the text spells, so that the reading would point elsewhere."""
        if step.operands is None:
            return None
        assert self._table is not None
        assert self.config.num_digits is not None
        most = self.config.num_digits + 1
        runs = number_runs(self._table, place.tokens[: place.anchor + 1])
        known = {run.digits[:most] for run in runs if run.digits and run.first >= place.since}
        written = (operand.lstrip("-")[:most] for operand in step.operands)
        return next((number for number in written if number not in known), None)

    def _without_operands(self, given: StepLabel, step: StepLabel, number: str) -> tuple[StepLabel, str | None]:
        """The label of an expression one of whose operands cannot be pointed at; an error without an expression.

        In an expression that rules read, the reading then learns only that a calculation is asked for.
        """
        if given.expression is None:
            raise ValueError(
                f"no number before the anchor spells the operand {number}, or it touches a letter, a "
                "decimal point or a percent sign, or is farther back than "
                f"`reading_context={self.config.reading_context!r}` goes. The token interface points at numbers in "
                'digits: write the operand in digits, or set `igc_operator` to "none".'
            )
        if step is given:
            return dataclasses.replace(step, operator=EXPRESSION, operands=None), None
        unread = "an operand that the network cannot point at"
        return dataclasses.replace(step, operator=None, operands=None), unread
