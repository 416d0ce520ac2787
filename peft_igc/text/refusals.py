"""Refusals: why a text has no value, and where in the text.

In: nothing. Out: `Reason`, the id of a refusal with a text for people, and `Refused`, by which a reading within this
package ends. Traces, audits and results of benchmarks store the ids, so none changes its number.
Try it: `pytest tests/text/test_reading.py`
"""

from __future__ import annotations

import enum


__all__ = ["REASON_TEXTS", "Reason", "Refused", "Span"]

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
    NO_VALUE = 9
    FAILED = 10
    NOT_RATIONAL = 11
    TIMED_OUT = 12

    NO_EXPRESSION = 20
    NOT_UNDERSTOOD = 21
    OTHER_NUMBER = 22
    UNBALANCED = 23
    LOOK_ALIKE = 24
    CURRENCIES = 25
    UNITS = 26
    OTHER_OPERATION = 27


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
    Reason.NO_VALUE: "a function has no value for these operands, as a look-up of a key that is not there",
    Reason.FAILED: "a function raised an error",
    Reason.NOT_RATIONAL: "the result of a function is not a finite rational number",
    Reason.TIMED_OUT: "a function took longer than its time limit",
    Reason.NO_EXPRESSION: "no expression in symbols",
    Reason.NOT_UNDERSTOOD: "numeric and not understood",
    Reason.OTHER_NUMBER: "a further number that nothing excuses",
    Reason.UNBALANCED: "brackets that do not match",
    Reason.LOOK_ALIKE: "two numbers that may be a date, a range, a score or a size",
    Reason.CURRENCIES: "different currencies",
    Reason.UNITS: "a sum of different units of measurement",
    Reason.OTHER_OPERATION: "the text states another operation than the network reads",
}


class Refused(Exception):
    """Ends a reading within this package; it never leaves `read`."""

    def __init__(self, reason: Reason, culprit: Span | None = None) -> None:
        super().__init__(reason.name)
        self.reason, self.culprit = reason, culprit
