"""Reasons for a refusal: why an expression, or a text, has no result.

`Reason` is the code that tensors hold, one per expression, and `REASON_TEXTS` has a text for people for every code, as
in `text.refusals`. A `numbers.calculator.Status` says what becomes of a step, a reason why.
Try it: `pytest tests/expressions/test_reasons.py`
"""

import torch
from torch import Tensor

from ..numbers.calculator import Status
from ..text.refusals import REASON_TEXTS, Reason


__all__ = ["REASON_TEXTS", "Reason", "status_of"]


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
