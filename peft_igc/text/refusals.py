"""Refusals: why a text has no value, where in the text, and the limits that values have.

In: nothing. Out: `Reason`, the id of a refusal with a text for people, and `Refusal`, which has the reason with the
characters that caused it. Traces, audits and results of benchmarks store the ids, so none changes its number.
Try it: `pytest tests/text/test_reading.py`
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple


__all__ = ["REASON_TEXTS", "Limits", "Reason", "Reduction", "Refusal", "Refused", "Span", "Value"]

Span = tuple[int, int]  # the first character and the one after the last


class Reason(enum.IntEnum):
    """Why there is no result. Codes below 20 come from the values of items, those from 20 on from the text."""

    NONE = 0  # no refusal
    MALFORMED = 1
    TOO_MANY_OPERANDS = 2
    TOO_LONG = 3
    INEXACT = 4
    OVERFLOW = 5
    UNDEFINED = 6
    EXPONENT = 7
    PERCENT_SUM = 8

    NO_EXPRESSION = 20
    NOT_UNDERSTOOD = 21
    OTHER_NUMBER = 22
    UNBALANCED = 23
    LOOK_ALIKE = 24
    CURRENCIES = 25
    UNITS = 26


REASON_TEXTS: dict[Reason, str] = {
    Reason.NONE: "answered",
    Reason.MALFORMED: "not in the grammar of expressions",
    Reason.TOO_MANY_OPERANDS: "more operands than `max_operands`",
    Reason.TOO_LONG: "a number of more digits, or an expression of more items, than are kept",
    Reason.INEXACT: "a division that does not end, or ends after more places than are kept",
    Reason.OVERFLOW: "the result, or a value on the way to it, has more digits than are kept",
    Reason.UNDEFINED: "a division by zero, or zero to the power of zero",
    Reason.EXPONENT: "an exponent that is not an integer of at least 0",
    Reason.PERCENT_SUM: "a percentage added to or subtracted from a number, which people mean in two ways",
    Reason.NO_EXPRESSION: "no expression in symbols",
    Reason.NOT_UNDERSTOOD: "numeric and not understood",
    Reason.OTHER_NUMBER: "a further number that nothing excuses",
    Reason.UNBALANCED: "brackets that do not match",
    Reason.LOOK_ALIKE: "two numbers that may be a date, a range, a score or a size",
    Reason.CURRENCIES: "different currencies",
    Reason.UNITS: "a sum of different units of measurement",
}


@dataclass(frozen=True)
class Limits:
    """What a value may be; the settings of an adapter.

    Attributes:
        digits: the most digits of a number, leading zeros included.
        result_digits: the most digits of a result, a zero before the point included.
        operands: the most numbers of an expression.
        operations: of the four, those that may be used; a power counts as `*`, a per cent sign as `/`.
        decimals: whether a result may have places.
        division: `"exact"`, or `"floor"` or `"trunc"` for integer quotients.
        rounding: what becomes of a value that does not end: `"refuse"`, `"half_up"` or `"half_even"`.
        decimal_places: the places to which `rounding` rounds.
    """

    digits: int = 40
    result_digits: int = 40
    operands: int = 8
    operations: frozenset[str] = frozenset("+-*/")
    decimals: bool = True
    division: Literal["exact", "floor", "trunc"] = "exact"
    rounding: Literal["refuse", "half_up", "half_even"] = "refuse"
    decimal_places: int | None = None


class Reduction(NamedTuple):
    """One step of an evaluation, for people: `left symbol right = result`; a function has its arguments in `right`.

    Numbers that do not end are written as fractions; `result` is None where the step refused.
    """

    left: str
    symbol: str
    right: str
    result: str | None
    span: Span


class Value(NamedTuple):
    """What the expression at the end of a text is worth."""

    value: Fraction  # after rounding
    text: str  # in canonical form: `-12.5`
    span: Span  # of the expression, without the equals sign after it
    operands: int
    reaches: bool  # it ends at an anchor `=`
    alone: bool  # nothing but marks and list numbers around it in its message
    alike: bool  # `24/8`, which may also be a date, a range, a score or a size
    reductions: tuple[Reduction, ...]


class Refusal(NamedTuple):
    """Why the end of a text has no value."""

    reason: Reason
    culprit: Span | None  # the characters that caused it
    span: Span | None  # of the expression as far as it was read
    reaches: bool  # an expression would end at an anchor `=`
    value: Fraction | None  # of a `LOOK_ALIKE` or `OTHER_NUMBER`, if it were to be calculated
    reductions: tuple[Reduction, ...]  # up to the one that refused

    @property
    def id(self) -> str:
        """The name of the reason, as traces show it: `other_number`."""
        return self.reason.name.lower()


class Refused(Exception):
    """Ends a reading within this package; it never leaves `read`."""

    def __init__(self, reason: Reason, culprit: Span | None = None, steps: tuple[Reduction, ...] = ()) -> None:
        super().__init__(reason.name)
        self.reason, self.culprit, self.steps = reason, culprit, steps
