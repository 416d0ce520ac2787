"""The calculator: exact integer arithmetic on digit tensors (paper, section on the calculator).

In: two operands per calculation, as left-aligned digits with signs, and an operator index. Out: the digits and sign of
the result, and a `Status`. Where an operation has no result, the status gives the reason and the digits are
placeholders, never a wrong number. Every operation is computed for every row and the requested one is selected: no
loop over rows, no host synchronisation and no control flow on data, so `torch.compile(fullgraph=True)` works on any
device. Exact at any number of digits. No parameters and no gradient. See Eq. 10 of `docs/how_it_works.md`.

Shapes: D digits and L limbs of an operand, R digits of a result, K operations, n limbs of a result; `...` is any
number of leading dimensions.
"""

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..text.operations import FUNCTIONS
from ..text.rounding import Division
from .digits import PAD, is_number, leading_zeros, shifted_left, to_right_aligned


NO_ARITHMETIC = "none"  # the label of a text that asks for no calculation; a label of None is unsupervised


class Status(enum.IntEnum):
    """Outcome of a calculation. Only `OK` has a result."""

    OK = 0
    NONE = 1  # no arithmetic requested
    OVERFLOW = 2  # an operand or the result has too many digits
    UNDEFINED = 3  # division by zero, or a malformed operand
    INEXACT = 4  # a division with a remainder under `division="exact"`


class _Operand(NamedTuple):
    """Limbs [..., L] in 0.._BASE - 1, least significant last, and a sign [...] in 0..1, both int64."""

    limbs: Tensor
    sign: Tensor


class _Outcome(NamedTuple):
    """Limbs [..., n], least significant last; a sign [...] in 0..1, zero may have either; a status [...]."""

    limbs: Tensor
    sign: Tensor
    status: Tensor


class Result(NamedTuple):
    """Results: `digits` [..., R] int64, left-aligned, without the point, all `PAD` unless the status is OK; `sign`
    [...] int64 in 0..1; `status` [...] int64, a `Status`; `scale` [...] int64, the digits after the point, of a
    percentage -1 minus these; 0 for every result of `calculate`."""

    digits: Tensor
    sign: Tensor
    status: Tensor
    scale: Tensor


def calculate(
    digits: Tensor,
    signs: Tensor,
    operator: Tensor,
    *,
    operations: Sequence[str] = ("+", "-", "*", "/"),
    result_digits: int,
    division: Division = "exact",
) -> Result:
    """Calculates `a operator b` exactly for every row.

    Args:
        digits: [..., 2, D] int64, left-aligned operands, 0..9 or `PAD`; leading zeros are fine.
        signs: [..., 2] int64, 0 plus, 1 minus.
        operator: [...] int64, index into `operations`. K, or any other index outside 0..K-1, is "no arithmetic".
        operations: K symbols from `OPERATIONS`. Names of `text.operations.FUNCTIONS`, which the host calculates, count
            as no arithmetic here.
        result_digits: R, the maximum number of digits of a result.
        division: Treatment of a remainder: `"exact"` gives no result (INEXACT), `"floor"` rounds down as Python's
            `//`, `"trunc"` rounds toward zero.

    Returns:
        `Result` with digits [..., R], sign [...] and status [...]. The status is the first of these that applies:
        NONE; UNDEFINED (a malformed operand or sign, division by zero); INEXACT; OVERFLOW; OK.
    """
    well_formed = is_number(digits) & ((signs == 0) | (signs == 1))  # [..., 2]
    right = torch.where(well_formed.unsqueeze(-1), to_right_aligned(digits), 0)  # [..., 2, D]
    signs = torch.where(well_formed, signs, 0)
    a, b = map(_Operand, _to_limbs(right).unbind(-2), signs.unbind(-1))
    none = torch.full_like(operator, int(Status.NONE))
    outcome = _Outcome(torch.zeros_like(a.limbs[..., :1]), torch.zeros_like(operator), none)
    for index, symbol in enumerate(operations):
        if symbol not in FUNCTIONS:
            outcome = _select(operator == index, OPERATIONS[symbol](a, b, division), outcome)
    malformed = (outcome.status != int(Status.NONE)) & ~well_formed.all(-1)
    return _finish(outcome, malformed, result_digits)  # Eq. 10


def _select(chosen: Tensor, yes: _Outcome, no: _Outcome) -> _Outcome:
    """`yes` where `chosen` [...], else `no`; the shorter number gets leading zeros."""
    width = max(yes.limbs.shape[-1], no.limbs.shape[-1])
    return _Outcome(
        torch.where(chosen.unsqueeze(-1), _widen(yes.limbs, width), _widen(no.limbs, width)),
        torch.where(chosen, yes.sign, no.sign),
        torch.where(chosen, yes.status, no.status),
    )


def _widen(right: Tensor, width: int) -> Tensor:
    """Pads right-aligned digits or limbs [..., n] with leading zeros to [..., max(n, width)]."""
    return torch.nn.functional.pad(right, (max(width - right.shape[-1], 0), 0))


def _finish(outcome: _Outcome, malformed: Tensor, result_digits: int) -> Result:
    """Determines the status, keeps R digits, aligns them left and replaces them by `PAD` where there is no result."""
    right = _widen(_to_digits(outcome.limbs), result_digits)
    surplus, right = right[..., : right.shape[-1] - result_digits], right[..., -result_digits:]
    ok = outcome.status == int(Status.OK)
    status = torch.where(ok & (surplus != 0).any(-1), int(Status.OVERFLOW), outcome.status)
    status = torch.where(malformed, int(Status.UNDEFINED), status)
    ok = status == int(Status.OK)
    negative = ok & (outcome.sign == 1) & (right != 0).any(-1)  # zero has no sign
    left = torch.where(ok.unsqueeze(-1), shifted_left(right, leading_zeros(right), PAD), PAD)
    return Result(left, negative.to(torch.int64), status, torch.zeros_like(status))


# Limbs are the digits of an integer in base 10^6, most significant first: one int64 holds six decimal digits, three
# limbs together, and a sum of a million products of two limbs.
_SIZE = 6
_BASE = 10**_SIZE


def _to_limbs(right: Tensor) -> Tensor:
    """Packs digits [..., n] into as few limbs [..., count] as hold them."""
    count = -(-right.shape[-1] // _SIZE)
    limbs = _widen(right, count * _SIZE).unflatten(-1, (count, _SIZE))  # [..., count, 6]
    return (limbs * _powers(10, _SIZE, right.device)).sum(-1)


def _to_digits(limbs: Tensor) -> Tensor:
    """Unpacks limbs [..., count] into digits [..., count * 6]; the inverse of `_to_limbs`."""
    digits = torch.div(limbs.unsqueeze(-1), _powers(10, _SIZE, limbs.device), rounding_mode="floor") % 10
    return digits.flatten(-2)


def _powers(base: int, count: int, device: torch.device) -> Tensor:
    """base^(count-1) .. base^0, computed on the device: copying a constant there would synchronise with the host."""
    return torch.full((count,), base, device=device).cumprod(0).flip(0) // base


def _carry(limbs: Tensor) -> tuple[Tensor, Tensor]:
    """Normalises limbs [..., count] of any sign to 0.._BASE - 1 in one pass from the right.

    Returns the limbs and the carry out of the top limb [...], which is negative exactly if the number is.
    """
    carried = torch.zeros_like(limbs[..., 0])
    normalised = []
    for limb in reversed(limbs.unbind(-1)):
        limb = limb + carried
        carried = torch.div(limb, _BASE, rounding_mode="floor")
        normalised.append(limb - carried * _BASE)
    return torch.stack(normalised[::-1], -1), carried


def _add(a: _Operand, b: _Operand, division: Division) -> _Outcome:
    """a + b: the limbs are added with their signs; a negative sum is negated and carried again."""
    plus_a, plus_b = (x.limbs * (1 - 2 * x.sign).unsqueeze(-1) for x in (a, b))
    total = _widen(plus_a + plus_b, a.limbs.shape[-1] + 1)  # limbs of either sign
    _, top = _carry(total)
    negative = top < 0
    total, _ = _carry(torch.where(negative.unsqueeze(-1), -total, total))
    return _Outcome(total, negative.to(torch.int64), torch.zeros_like(a.sign))


def _multiply(a: _Operand, b: _Operand, division: Division) -> _Outcome:
    """a * b: all products of limbs, summed along the anti-diagonals, then one carry pass."""
    count = a.limbs.shape[-1]
    products = a.limbs.unsqueeze(-1) * b.limbs.unsqueeze(-2)  # [..., L, L]
    # Flattening rows of length 2 * L and splitting into rows of 2 * L - 1 shifts row i by i, so that products of equal
    # weight are in one column.
    skewed = torch.nn.functional.pad(products, (0, count)).flatten(-2)[..., : count * (2 * count - 1)]
    columns = skewed.unflatten(-1, (count, 2 * count - 1)).sum(-2)  # [..., 2 * L - 1]
    limbs, _ = _carry(_widen(columns, 2 * count))
    return _Outcome(limbs, a.sign ^ b.sign, torch.zeros_like(a.sign))


def _divide(a: _Operand, b: _Operand, division: Division) -> _Outcome:
    """a / b by long division; `division` is the treatment of a remainder."""
    zero_divisor = (b.limbs == 0).all(-1)
    quotient, remainder = _long_division(a.limbs, b.limbs)
    has_remainder = (remainder != 0).any(-1)
    sign = a.sign ^ b.sign
    status = torch.zeros_like(sign)
    if division == "exact":
        status = torch.where(has_remainder, int(Status.INEXACT), status)
    if division == "floor":  # rounding a negative quotient down increases its magnitude
        increment = (has_remainder & (sign == 1)).to(torch.int64).unsqueeze(-1)  # [..., 1]
        quotient, _ = _carry(quotient + _widen(increment, quotient.shape[-1]))
    if division not in ("exact", "floor", "trunc"):
        raise ValueError(f'`division={division!r}` is unknown. Choose "exact", "floor" or "trunc".')
    return _Outcome(quotient, sign, torch.where(zero_divisor, int(Status.UNDEFINED), status))


def _long_division(dividend: Tensor, divisor: Tensor) -> tuple[Tensor, Tensor]:
    """Quotient [..., L] and remainder [..., L + 1] of limbs [..., L] by limbs [..., L].

    Schoolbook division. Both numbers are first shifted by the leading zeros of the divisor, which changes neither the
    quotient nor whether there is a remainder. Then the three leading limbs of the remainder over those of the divisor,
    which are at least 10^6, are the next limb of the quotient but for an error of 1, so three multiples of the divisor
    are subtracted at once, and the largest with a nonnegative difference is kept. For a divisor of zero the values are
    meaningless.
    """
    count = divisor.shape[-1]
    shift = leading_zeros(divisor)
    a = shifted_left(_widen(dividend, 2 * count), shift, 0)
    b = _widen(shifted_left(divisor, shift, 0), count + 1)
    remainder = _widen(a[..., :count], count + 1)  # less than the divisor
    leading = min(3, count + 1)
    weights = _powers(_BASE, leading, b.device)
    estimated_divisor = (b[..., :leading] * weights).sum(-1).clamp(min=1)
    around = torch.arange(-1, 2, device=b.device)
    quotient = []
    for limb in a[..., count:].split(1, -1):
        remainder = torch.cat([remainder[..., 1:], limb], -1)
        estimate = (remainder[..., :leading] * weights).sum(-1)
        estimate = torch.div(estimate, estimated_divisor, rounding_mode="floor").clamp(max=_BASE - 1)
        q = (estimate.unsqueeze(-1) + around).clamp(min=0)  # [..., 3]
        differences, top = _carry(remainder.unsqueeze(-2) - q.unsqueeze(-1) * b.unsqueeze(-2))
        best = ((top >= 0).sum(-1, keepdim=True) - 1).clamp(min=0)  # [..., 1]
        quotient.append(q.gather(-1, best))
        chosen = best.unsqueeze(-1).expand(*best.shape, count + 1)
        remainder = differences.gather(-2, chosen).squeeze(-2)
    return torch.cat(quotient, -1), remainder


OPERATIONS: dict[str, Callable[[_Operand, _Operand, Division], _Outcome]] = {
    "+": _add,
    "-": lambda a, b, division: _add(a, _Operand(b.limbs, 1 - b.sign), division),
    "*": _multiply,
    "/": _divide,
}
