"""Compares the expressions of operand columns with what the rules read from the text at their anchors.

In: a batch of texts, their anchors, and the labels of the steps. Out: the labels that are trained. Where the rules
read an expression, its value must be that of `igc_expression`; another one is an error, because the calculator would
write it whatever was learned. Where they read none, a pair of integers is left to the network, as in `igc_operands`,
and every other step is not supervised, since the calculator is silent there. Token interface only.
Try it: `pytest tests/trainer/test_expression_check.py`

Shapes: B rows, T positions, A anchors per row, N steps with an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from ..data.columns import EXPRESSION, EXPRESSION_COLUMN, StepLabel, label
from ..mappings.decisions import said_at
from ..numbers.calculator import Status
from ..numbers.token_table import PADDING
from ..text.refusals import REASON_TEXTS, Reason
from ..text.values import Limits
from ..tuner.anchors import Rules, context_starts, kinds_of
from ..tuner.config import IGCConfig


__all__ = ["Compared", "ExpressionCheck"]

_UNKNOWN = StepLabel(None, None, None, Status.NONE)


class Compared(NamedTuple):
    """The labels of a batch after the comparison.

    Attributes:
        rows: The steps of each row.
        unread: For each row, why its steps with an expression are not read: a text per step.
        read: (row, step) of the expressions that the rules read.
        left: (row, step) of the pairs of integers that are left to the network.
    """

    rows: list[list[StepLabel]]
    unread: list[list[str]]
    read: set[tuple[int, int]]
    left: set[tuple[int, int]]


class ExpressionCheck:
    """Compares the expressions of a batch with its texts.

    Args:
        config: The adapter's config.
    """

    def __init__(self, config: IGCConfig) -> None:
        self.config = config

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
            ValueError: A text says another expression than its column, or the config has no symbol table.
        """
        at = [(b, a) for b, row in enumerate(rows) for a, step in enumerate(row) if step.expression is not None]
        at = [(b, a) for b, a in at if a < anchors.shape[1] and anchors[b, a] >= 0]
        found = Compared([list(row) for row in rows], [[] for _ in rows], set(), set())
        if not at:
            return found
        if not self.config.has_vocabulary:
            odd = [(b, a) for b, a in at if rows[b][a].operator == EXPRESSION]
            if odd:
                b, a = odd[0]
                raise ValueError(
                    f"{name(b)}: `{EXPRESSION_COLUMN}` {rows[b][a].expression!r} is not one operation on two "
                    "integers. Others are read by rule, with `IGCConfig.from_tokenizer(...)`; leave the row out, or "
                    'set `igc_operator` to "none".'
                )
            return found
        for (b, a), value, reason in zip(at, *self._read(ids, valid, anchors, at), strict=True):
            step = rows[b][a]
            if reason == Reason.NONE and value != step.result:
                raise ValueError(
                    f"{name(b)}: `{EXPRESSION_COLUMN}` {step.expression!r} is {_shown(step)}, but the text before its "
                    f"anchor (token {int(anchors[b, a])}) is read as an expression with the value {value}. Correct "
                    "the column or the text."
                )
            if reason == Reason.NONE or (reason in _OF_VALUES and step.result is None):
                found.read.add((b, a))
                continue
            if step.operands is None or reason in _OF_VALUES:
                found.rows[b][a] = _UNKNOWN
                found.unread[b].append(f"{step.expression!r}: {REASON_TEXTS[reason]}")
            else:
                found.rows[b][a] = self._in_words(step)
                found.left.add((b, a))
        return found

    def _read(
        self, ids: torch.Tensor, valid: torch.Tensor, anchors: torch.Tensor, at: list[tuple[int, int]]
    ) -> tuple[list[str | None], list[Reason]]:
        """The value that the rules read at each of N steps, None without one, and the reason for none."""
        rules = Rules.of(self.config)
        since = context_starts(self.config.reading_context, rules, anchors, kinds_of(rules, ids, anchors, 0))  # [B, A]
        texts, limits = ids.masked_fill(~valid, PADDING).tolist(), Limits.of(self.config)
        assert self.config.vocabulary is not None
        said = [
            said_at(self.config.vocabulary, texts[row], int(anchors[row, step]), int(since[row, step]), limits)
            for row, step in at
        ]
        return [one.value for one in said], [one.reason for one in said]

    def _in_words(self, step: StepLabel) -> StepLabel:
        """The label of two integers that the network reads: its calculator has no decimals."""
        assert step.operator is not None
        assert step.operands is not None
        result = label(step.operator, *step.operands, Limits.of(self.config))
        if isinstance(result, Status):
            return StepLabel(step.operator, step.operands, None, result, step.expression)
        return StepLabel(step.operator, step.operands, result, Status.OK, step.expression)


# Refusals of an expression that was read; of the others the network may still read two numbers in words.
_OF_VALUES = (Reason.TOO_LONG, Reason.INEXACT, Reason.OVERFLOW, Reason.UNDEFINED)


def _shown(step: StepLabel) -> str:
    """The value or the status of a label, for an error message."""
    return step.result if step.result is not None else f'"{step.status.name.lower()}"'
