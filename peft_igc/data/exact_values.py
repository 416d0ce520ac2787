"""Exact values of expressions without words, such as `(3 + 4) * 2.5`: `igc_expression` of a row, and drawn ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..numbers.calculator import Status
from ..text.grammar import CLOSING, NEEDED, evaluate
from ..text.operations import OPERATORS
from ..text.pieces import literal, past, plain, split, words
from ..text.values import Item, Limits, Reason, Reduction, Refused, finished, written


EXPRESSION = "expression"  # the operator of a step whose operands and operators are read by rule
LONGEST_TEXT = 2000  # characters
STATUSES = {Reason[status.name]: status for status in (Status.OVERFLOW, Status.UNDEFINED, Status.INEXACT)}
_SIGNS = {*OPERATORS, "%", ",", *CLOSING, *CLOSING.values()}


class NotAnExpression(ValueError):
    """A text is not in the grammar; the message says why, and is the end of a sentence about the text."""


@dataclass(frozen=True)
class StepLabel:
    """The ground truth of one anchor."""

    operator: str | None  # as in `igc_operator`; `"expression"`: rules read what it is; None: not supervised
    operands: tuple[str, ...] | None  # canonical, in the order of `igc_operands`
    result: str | None  # canonical; None if `status` is not OK
    status: Status
    expression: str | None = None  # if the step was given as one

    @property
    def columns(self) -> dict[str, Any]:
        """The operand columns of a step with an operator."""
        operands, result = self.operands and list(self.operands), self.result or self.status.name.lower()
        names = ("igc_operator", "igc_operands", "igc_result", "igc_expression")
        return dict(zip(names, (self.operator, operands, result, self.expression), strict=True))


def label_expression(text: str, limits: Limits) -> StepLabel:
    """The ground truth of a step whose expression is `text`.

    One operation on two integers has the label that its operands have in `igc_operands`, so that the reading learns
    to point at them. Of all others the reading learns only that a calculation is asked for.

    Raises:
        NotAnExpression: The text is not in the grammar, has fewer than two or more than `max_operands` numbers, needs
            an operation that is not configured, adds a percentage to a number, or has an exponent that is no integer
            of at least 0.
    """
    items, steps = items_of(text), list[Reduction]()
    numbers = [item.name for item in items if item.kind == "number"]
    for item in items:
        operation = NEEDED.get(item.kind, item.kind)
        if operation in "+-*/" and operation not in limits.operations:
            raise NotAnExpression(f"`{item.kind}` needs the operation `{operation}`, which is not in `operations`")
    result, status = None, Status.OK
    try:
        found = evaluate(items, limits, steps)
        if found.sum:
            raise NotAnExpression("its value is a percentage, which no column has")
        if any(sum(map(str.isdigit, number)) > limits.digits for number in numbers):
            raise Refused(Reason.OVERFLOW)
        result = written(finished(found.value, limits)[0])
    except Refused as refused:
        if refused.reason not in STATUSES:
            at = text[slice(*refused.culprit)] if refused.culprit else text[-20:]
            raise NotAnExpression(f"{refused.reason.text}, at `{at}`") from None
        status = STATUSES[refused.reason]
    if len(numbers) < 2 and not any(item.kind == "call" for item in items):
        raise NotAnExpression("it has no two numbers")
    return StepLabel(*_pair(items, steps), result, status, text)


def items_of(text: str) -> list[Item]:
    """The items of a text, or `NotAnExpression`."""
    if len(text) > LONGEST_TEXT:
        raise NotAnExpression(f"it has more than {LONGEST_TEXT} characters")
    kinds, said, ends = split(f"{text}\n")
    items = list[Item]()
    for at, kind in enumerate(kinds[1:], start=1):
        span, word = (ends[at - 1], ends[at]), said[at].casefold()
        if kind in _SIGNS:
            items.append(Item(kind, span))
        elif kind == "number" and (value := literal(said[at])) is not None:
            items.append(Item("number", span, value, plain(said[at])))
        elif word.isalpha() and kinds[past(kinds, at + 1, 1, "space")] == "(":
            items.append(Item("call", span, name=words().functions.get(word, word)))
        elif kind not in ("space", "line"):
            raise NotAnExpression(f"it has {text[span[0] :].strip()[:20]!r}, which is no part of an expression")
    return items


def _pair(items: Sequence[Item], steps: Sequence[Reduction]) -> tuple[str, tuple[str, str] | None]:
    """Operator and operands, if the expression is one operation on two integers with signs."""
    numbers = [item.name for item in items if item.kind == "number"]
    if len(numbers) != 2 or len(steps) != 1 or "." in "".join(numbers):
        return EXPRESSION, None
    (step,) = steps
    around = {item.kind for item in items if not step.span[0] <= item.span[0] < step.span[1]}
    if step.symbol not in "+-*/" or any(item.kind == "%" for item in items) or around - {*CLOSING, *CLOSING.values()}:
        return EXPRESSION, None
    a, b = step.operands
    return step.symbol, (str(a), str(b))
