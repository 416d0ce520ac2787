"""Values: what the expression at the end of a text is worth, its limits, how it is written, and why there is none.

In: a fraction and `Limits`, the settings of an adapter. Out: the decimal that is written, rounded once if it has no
end and the limits allow it, or a `Refused`; and `Value` and `Refusal`, what `reading.read` returns.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from .rounding import EXACT, UNCLEAR, Rounding, places_of


Span = tuple[int, int]  # the first character and the one after the last


# Traces, audits and results of benchmarks store the ids, so none changes its number.
class Reason(enum.IntEnum):
    """Why there is no result. Codes below 20 come from the values of items, those from 20 on from the text."""

    text: str  # for people

    def __new__(cls, code: int, text: str) -> Reason:
        made = int.__new__(cls, code)
        made._value_, made.text = code, text
        return made

    NONE = 0, "answered"
    MALFORMED = 1, "not in the grammar of expressions"
    TOO_MANY_OPERANDS = 2, "more operands than `max_operands`"
    TOO_LONG = 3, "a number of more digits, or an expression of more items, than are kept"
    INEXACT = 4, "a division that does not end, or ends after more places than are kept"
    OVERFLOW = 5, "the result, or a value on the way to it, has more digits than are kept"
    UNDEFINED = 6, "a division by zero, or zero to the power of zero"
    EXPONENT = 7, "an exponent that is not an integer of at least 0"
    PERCENT_SUM = 8, "a percentage added to or subtracted from a number, which people mean in two ways"
    NO_VALUE = 9, "a function has no exact value for these operands: the root of 2, a key that is not there"
    FAILED = 10, "a function raised an error"
    NOT_RATIONAL = 11, "the result of a function is not a finite rational number"
    TIMED_OUT = 12, "a function took longer than its time limit"
    OPERANDS = 14, "a function that takes another number of operands"
    NO_EXPRESSION = 20, "no expression in symbols"
    NOT_UNDERSTOOD = 21, "numeric and not understood"
    OTHER_NUMBER = 22, "a further number that nothing excuses"
    UNBALANCED = 23, "brackets that do not match"
    LOOK_ALIKE = 24, "two numbers that may be a date, a range, a score or a size"
    CURRENCIES = 25, "different currencies"
    UNITS = 26, "different units, or a letter that may be one"
    OTHER_OPERATION = 27, "the text states another operation than the network reads"


class Refused(Exception):
    """Ends a reading within this package; it never leaves `read`."""

    def __init__(self, reason: Reason, culprit: Span | None = None) -> None:
        super().__init__(reason.name)
        self.reason, self.culprit = reason, culprit


_SHOWN_BITS = 1024  # of numbers that are written out in a step


@dataclass(frozen=True)
class Limits:
    """What a value may be; the settings of an adapter.

    Attributes:
        digits: the most digits of a number, leading zeros included.
        result_digits: the most digits of a result, a zero before the point included.
        operands: the most numbers of an expression.
        operations: symbols of those that may be used; a power counts as `*`, a per cent sign as `/`.
        decimals: whether a result may have places.
        decimal_operands: whether an operand of a request in words may have places.
        rounding: what becomes of a value that does not end, as a `Rounding` or its setting, such as `"half_up:2"`.
    """

    digits: int = 40
    result_digits: int = 40
    operands: int = 8
    operations: tuple[str, ...] = ("+", "-", "*", "/")
    decimals: bool = True
    rounding: Rounding = EXACT
    decimal_operands: bool = False

    def __post_init__(self) -> None:
        given: Any = self.rounding
        if isinstance(given, str):
            object.__setattr__(self, "rounding", Rounding.of(given))

    @classmethod
    def of(cls, config: Any) -> Limits:
        """Those of an `IGCConfig`, or of what has its settings."""
        return cls(
            config.num_digits,
            config.result_digits,
            config.max_operands,
            tuple(config.operations),
            config.decimals,
            Rounding.of(config.rounding),
            config.decimal_operands,
        )


_PLAIN = {"[": "(", "{": "(", "]": ")", "}": ")"}


class Item(NamedTuple):
    """A part of an expression: `number`, `call` of a function, an operator, a bracket, `%`, `of` or `,`."""

    kind: str
    span: Span
    value: Fraction = Fraction(0)
    name: str = ""  # of a number its digits and point, of a call the function

    @property
    def plain(self) -> str:
        """The item in plain symbols: brackets have one shape."""
        return self.name or _PLAIN.get(self.kind, self.kind)


class Reduction(NamedTuple):
    """One step of an evaluation: an operator with its operands, or a function with its arguments."""

    symbol: str
    operands: tuple[Fraction, ...]
    result: Fraction | None  # None: the step refused
    span: Span

    def __str__(self) -> str:
        """The step for people: `3 * 5 = 15`. Numbers that do not end are fractions."""
        shown = [_shown(operand) for operand in self.operands]
        call = len(shown) != 2 or self.symbol[0].isalpha()
        left = f"{self.symbol}({', '.join(shown)})" if call else f" {self.symbol} ".join(shown)
        return left if self.result is None else f"{left} = {_shown(self.result)}"


class Value(NamedTuple):
    """What the expression at the end of a text is worth."""

    value: Fraction  # after rounding
    text: str  # as it is written: `-12.5`, `17%`, with zeros at its end where the text has or asks for places
    items: tuple[Item, ...]
    span: Span  # of the expression, without the equals sign after it
    reaches: bool  # it ends at an anchor `=`
    alone: bool  # nothing but marks and list numbers around it in its message
    alike: bool  # `24/8`, which may also be a date, a range, a score or a size
    reductions: tuple[Reduction, ...]
    rounded: bool = False  # the exact value is another one


class Refusal(NamedTuple):
    """Why the end of a text has no value."""

    reason: Reason
    culprit: Span | None  # the characters that caused it
    items: tuple[Item, ...]  # as far as they were read
    span: Span | None  # of the expression as far as it was read
    reaches: bool  # an expression would end at an anchor `=`
    ruled: bool  # all of it was read and its value refuses, so that no other reading of the text is right
    reductions: tuple[Reduction, ...]  # up to the one that refused

    @property
    def id(self) -> str:
        """The name of the reason, as traces show it: `other_number`."""
        return self.reason.name.lower()


def spelled(items: Sequence[Item]) -> str:
    """An expression in plain symbols: `( 3 + 4 ) * 2.50`."""
    return " ".join(item.plain for item in items)


def _shown(value: Fraction) -> str:
    """A number of a step, for people."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _SHOWN_BITS:
        return "..."
    return written(value) if places_of(value) is not None else str(value)


def written(value: Fraction, fewest: int = 0) -> str:
    """A terminating decimal in canonical form: `-12.5`, no zeros at its end except for the `fewest` places."""
    places = places_of(value)
    if places is None:
        raise ValueError(f"{value} has no end as a decimal. Round it first.")
    places = max(places, fewest)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    point = len(digits) - places
    return "-" * (value < 0) + digits[:point] + ("." + digits[point:] if places else "")


def finished(value: Fraction, limits: Limits, *, percent: bool = False, fewest: int = 0) -> tuple[Fraction, str]:
    """The value that is written, an exact one rounded if it has no end and the limits allow it, and its text; a
    `Refused` if it has no end or too many digits.

    With `percent` 0.17 is written as `17%`. Where decimals are allowed and no wish says how many, the `fewest` places
    are written at least, as in `10.00`.
    """
    if percent:
        value, text = finished(value * 100, limits)
        return value / 100, f"{text}%"
    rounding = limits.rounding
    if rounding == UNCLEAR:
        raise Refused(Reason.NOT_UNDERSTOOD)
    places, shown = places_of(value), fewest if limits.decimals else 0
    if places is None or places >= limits.result_digits or rounding.always:
        if places is None and not rounding.rounds:
            raise Refused(Reason.INEXACT)
        exact, value = value, rounding.apply(value)
        if value == 0 != exact and not rounding.always:  # it would say nothing of the value
            raise Refused(Reason.INEXACT)
        shown = max(rounding.shown_places(value), 0) if rounding.always else shown
    text = written(value, shown)
    if len(text.lstrip("-").replace(".", "")) > limits.result_digits:
        raise Refused(Reason.OVERFLOW)
    if "." in text and not limits.decimals:
        raise Refused(Reason.INEXACT)
    return value, text
