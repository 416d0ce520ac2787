"""Exact values of expressions that are written as text: `igc_expression` of a row, and what the generator draws.

In: a text such as `(3 + 4) * 2.5`, without words around it. Out: a `Worked`: its value as a fraction, or the status of
a calculation that has none, by the grammar of `text`. `expression_in` is the other way round: the expression that is
read at the end of a text with words, as such a text. Try it: `pytest tests/data/test_exact_values.py`
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from ..numbers.calculator import Status
from ..text.grammar import ITEMS_PER_OPERAND, evaluate
from ..text.pieces import literal, plain, words
from ..text.reading import read
from ..text.refusals import Reason, Refused
from ..text.values import Item, Limits, Value, finished, spelled, written


__all__ = ["NotAnExpression", "Worked", "expression_in", "items_of", "work_out", "written"]

LONGEST_TEXT = 2000  # characters

_GLYPHS = {"×": "*", "·": "*", "÷": "/", "\u2212": "-", "**": "^"}
_NUMBER = r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![0-9.,])|[0-9]+(?:\.[0-9]+)?|\.[0-9]+"
_PIECE = re.compile(rf"\s*(?:({_NUMBER})|(\*\*|[-+*/^×÷·\u2212%()\[\]{{}}]|,(?=\s)|of\b|[a-z]+(?=\s*\()))")
_PAIR = re.compile(r"([-+(]*)n(\)*)([-+*/])([-+(]*)n(\)*)")
_NEEDED = {"^": "*", "of": "*", "%": "/"}
_STATUSES = {
    Reason.OVERFLOW: Status.OVERFLOW,
    Reason.INEXACT: Status.INEXACT,
    Reason.UNDEFINED: Status.UNDEFINED,
}
_WHY = {
    Reason.TOO_LONG: "it has more than {items} numbers, signs and brackets",
    Reason.EXPONENT: "it has an exponent that is no integer of at least 0",
    Reason.PERCENT_SUM: "it adds a percentage to a number, or subtracts one, which has two meanings",
    Reason.UNBALANCED: "`{at}` has no bracket of its shape that belongs to it",
    Reason.NOT_UNDERSTOOD: "`{at}` has no exact value for its arguments, or not as many of them",
}


class NotAnExpression(ValueError):
    """A text is not in the grammar; the message says why, and is the end of a sentence about the text."""


class Worked(NamedTuple):
    """An expression that was worked out.

    Attributes:
        value: Its value; None unless the status is OK.
        status: OK, OVERFLOW, UNDEFINED or INEXACT.
        pair: Operator and operands in canonical form, if it is one operation on two integers; else None.
        numbers: How many numbers it has.
    """

    value: Fraction | None
    status: Status
    pair: tuple[str, str, str] | None
    numbers: int


def expression_in(text: str, limits: Limits) -> str | None:
    """The expression that is read at the end of a text, in plain symbols; None if there is none.

    Args:
        text: It ends where a result is due; a message has `text.CONTROL` before it and two after it.
        limits: Of numbers and operations.
    """
    found = read(text, limits)
    if not isinstance(found, Value) and not (found.ruled and found.reason in _STATUSES):
        return None
    return spelled(found.items)


def work_out(text: str, limits: Limits) -> Worked:
    """The exact value of an expression.

    Raises:
        NotAnExpression: The text is not in the grammar, has fewer than two or more than `max_operands` numbers, needs
            an operation that is not configured, adds a percentage to a number, or has an exponent that is no integer
            of at least 0.
    """
    items = items_of(text)
    numbers = sum(item.kind == "number" for item in items)
    if numbers > limits.operands:
        raise NotAnExpression(f"it has {numbers} numbers, but `max_operands={limits.operands}`")
    for item in items:
        operation = _NEEDED.get(item.kind, item.kind)
        if operation in "+-*/" and operation not in limits.operations:
            raise NotAnExpression(f"`{item.kind}` needs the operation `{operation}`, which is not in `operations`")
    value, status = None, Status.OK
    try:
        found = evaluate(items, limits, [])
        if found.sum:
            raise NotAnExpression("its value is a percentage, which no column has")
        value = found.value
        _check_numbers(items, limits)
        value = finished(value, limits)[0]
    except Refused as refused:
        if refused.reason not in _STATUSES:
            raise NotAnExpression(_why(refused, text, items, limits)) from None
        value, status = None, _STATUSES[refused.reason]
    if numbers < 2 and not any(item.kind == "call" for item in items):
        raise NotAnExpression("it has no two numbers")
    return Worked(value, status, _pair(items), numbers)


def _check_numbers(items: Sequence[Item], limits: Limits) -> None:
    """Refuses a number of more digits than are kept."""
    if any(sum(map(str.isdigit, item.name)) > limits.digits for item in items if item.kind == "number"):
        raise Refused(Reason.OVERFLOW)


def items_of(text: str) -> list[Item]:
    """The items of a text.

    Raises:
        NotAnExpression: Something in it is no item.
    """
    if len(text) > LONGEST_TEXT:
        raise NotAnExpression(f"it has more than {LONGEST_TEXT} characters")
    functions, items, end = words().functions, list[Item](), 0
    while match := _PIECE.match(text, end):
        end, start = match.end(), match.start(match.lastindex or 0)
        if match[1]:
            items.append(Item("number", (start, end), literal(match[1]) or Fraction(0), plain(match[1])))
        elif match[2].isalpha() and match[2] != "of":
            items.append(Item("call", (start, end), name=functions.get(match[2], match[2])))
        else:
            items.append(Item(_GLYPHS.get(match[2], match[2]), (start, end)))
    if text[end:].strip():
        raise NotAnExpression(f"it has {text[end:].strip()[:20]!r}, which is no part of an expression")
    return items


def _why(refused: Refused, text: str, items: Sequence[Item], limits: Limits) -> str:
    """Why a text is no expression."""
    at = "" if refused.culprit is None else text[slice(*refused.culprit)]
    if refused.reason is not Reason.MALFORMED:
        return _WHY[refused.reason].format(at=at, items=ITEMS_PER_OPERAND * limits.operands)
    if refused.culprit is None:
        return "a number is missing at its end"
    before = [item for item in items if item.span[1] <= refused.culprit[0]]
    if at == "of":
        return "`of` does not come after a per cent sign"
    if not before or before[-1].kind not in ("number", "%", ")", "]", "}"):
        return f"a number is missing before `{at}`"
    return f"`{at}` is not expected after `{text[: before[-1].span[1]][-20:].strip()}`"


def _pair(items: Sequence[Item]) -> tuple[str, str, str] | None:
    """Operator and operands of an expression that is one operation on two integers with signs."""
    numbers = [item.name for item in items if item.kind == "number"]
    kinds = "".join("n" if item.kind == "number" else item.plain for item in items)
    while kinds.startswith("(") and _encloses(kinds):
        kinds = kinds[1:-1]
    match = _PAIR.fullmatch(kinds)
    if match is None or "." in "".join(numbers):
        return None
    before, after, operator, other, last = match.groups()
    if before.count("(") != len(after) or other.count("(") != len(last):
        return None
    a, b = (int(number) * (-1) ** signs.count("-") for number, signs in zip(numbers, (before, other), strict=True))
    return operator, str(a), str(b)


def _encloses(kinds: str) -> bool:
    """Whether the bracket at the beginning is closed at the end."""
    depth = 0
    for at, kind in enumerate(kinds):
        depth += (kind == "(") - (kind == ")")
        if depth == 0:
            return at == len(kinds) - 1
    return False
