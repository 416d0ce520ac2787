"""Refusals: why a text has no value, and where in the text.

In: nothing. Out: `Reason`, the id of a refusal with a text for people, and `Refused`, by which a reading within this
package ends. Traces, audits and results of benchmarks store the ids, so none changes its number.
"""

from __future__ import annotations

import enum


Span = tuple[int, int]  # the first character and the one after the last


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
    UNITS = 26, "a sum of different units of measurement"
    OTHER_OPERATION = 27, "the text states another operation than the network reads"


class Refused(Exception):
    """Ends a reading within this package; it never leaves `read`."""

    def __init__(self, reason: Reason, culprit: Span | None = None) -> None:
        super().__init__(reason.name)
        self.reason, self.culprit = reason, culprit
