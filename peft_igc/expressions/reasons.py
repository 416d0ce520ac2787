"""Reasons for a refusal: why an expression, or a text, has no result.

`Reason` is the code that tensors hold, one per expression; `REASON_TEXTS` has a text for people for every code, for
traces and reports. A `numbers.calculator.Status` says what becomes of a step, a reason why. The codes are stored in
results of benchmarks, so new ones go to the end of their group and none changes its number.
Try it: `pytest tests/expressions/test_reasons.py`
"""

import enum

import torch
from torch import Tensor

from ..numbers.calculator import Status


__all__ = ["REASON_TEXTS", "Reason", "status_of"]


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

_STATUSES = {
    Reason.NONE: Status.OK,
    Reason.TOO_LONG: Status.OVERFLOW,
    Reason.OVERFLOW: Status.OVERFLOW,
    Reason.INEXACT: Status.INEXACT,
    Reason.UNDEFINED: Status.UNDEFINED,
}


def status_of(reason: Tensor) -> Tensor:
    """The `Status` [...] int64 of each `Reason` [...] int64: NONE for all reasons that have no status of their own."""
    status = torch.full_like(reason, int(Status.NONE))
    for one, its_status in _STATUSES.items():
        status = status.masked_fill(reason == int(one), int(its_status))
    return status
