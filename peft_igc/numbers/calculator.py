"""The calculator: exact integer arithmetic on digit tensors (paper, section on the calculator).

In: two operands per calculation, as left-aligned digits with signs, and an operator index. Out: the digits and sign of
the result, and a `Status`. Where an operation has no result, the status gives the reason and the digits are
placeholders, never a wrong number. Every operation is computed for every row and the requested one is selected: no
loop over rows, no host synchronisation and no control flow on data, so `torch.compile(fullgraph=True)` works on any
device. Exact at any number of digits. No parameters and no gradient. See Eq. 10 of `docs/how_it_works.md`.

Shapes: D digits of an operand, R digits of a result, K operations, n digits that an operation has; `...` is any number
of leading dimensions.
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
    """Digits [..., D] in 0..9, least significant last, and a sign [...] in 0..1, both int64."""

    digits: Tensor
    sign: Tensor


class _Outcome(NamedTuple):
    """Digits [..., n] in 0..9, least significant last; a sign [...] in 0..1, zero may have either; a status [...]."""

    digits: Tensor
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
    a, b = (_Operand(right[..., side, :], signs[..., side]) for side in (0, 1))
    none = torch.full_like(operator, int(Status.NONE))
    outcome = _Outcome(torch.zeros_like(a.digits[..., :1]), torch.zeros_like(operator), none)
    for index, symbol in enumerate(operations):
        if symbol not in FUNCTIONS:
            outcome = _select(operator == index, OPERATIONS[symbol](a, b, division), outcome)
    malformed = (outcome.status != int(Status.NONE)) & ~well_formed.all(-1)
    return _finish(outcome, malformed, result_digits)  # Eq. 10


def _select(chosen: Tensor, yes: _Outcome, no: _Outcome) -> _Outcome:
    """`yes` where `chosen` [...], else `no`; the shorter digits get leading zeros."""
    width = max(yes.digits.shape[-1], no.digits.shape[-1])
    return _Outcome(
        torch.where(chosen.unsqueeze(-1), _widen(yes.digits, width), _widen(no.digits, width)),
        torch.where(chosen, yes.sign, no.sign),
        torch.where(chosen, yes.status, no.status),
    )


def _widen(right: Tensor, width: int) -> Tensor:
    """Pads right-aligned digits or limbs [..., n] with leading zeros to [..., max(n, width)]."""
    return torch.nn.functional.pad(right, (max(width - right.shape[-1], 0), 0))


def _finish(outcome: _Outcome, malformed: Tensor, result_digits: int) -> Result:
    """Determines the status, keeps R digits, aligns them left and replaces them by `PAD` where there is no result."""
    right = _widen(outcome.digits, result_digits)  # [..., max(n, R)]
    surplus, right = right[..., : right.shape[-1] - result_digits], right[..., -result_digits:]
    ok = outcome.status == int(Status.OK)
    status = torch.where(ok & (surplus != 0).any(-1), int(Status.OVERFLOW), outcome.status)
    status = torch.where(malformed, int(Status.UNDEFINED), status)
    ok = status == int(Status.OK)
    negative = ok & (outcome.sign == 1) & (right != 0).any(-1)  # zero has no sign
    left = torch.where(ok.unsqueeze(-1), shifted_left(right, leading_zeros(right), PAD), PAD)
    return Result(left, negative.to(torch.int64), status, torch.zeros_like(status))


# Limbs are the digits of an integer in base 10^size, most significant first: one int64 holds `size` decimal digits.

_ADDITION_LIMB = 17  # ten times a limb and sums of two limbs stay below 2^63 = 9.2 * 10^18
_DIVISION_LIMB = 6  # three limbs stay below 2^63


def _to_limbs(right: Tensor, size: int, count: int | None = None) -> Tensor:
    """Packs digits [..., n] into limbs [..., count] of `size` digits, 1..18; by default as few as hold them."""
    count = count or -(-right.shape[-1] // size)
    limbs = _widen(right, count * size).unflatten(-1, (count, size))  # [..., count, size]
    return (limbs * _powers(size, right.device)).sum(-1)


def _from_limbs(limbs: Tensor, size: int) -> Tensor:
    """Unpacks limbs [..., count] in 0..10^size - 1 into digits [..., count * size]; the inverse of `_to_limbs`."""
    digits = torch.div(limbs.unsqueeze(-1), _powers(size, limbs.device), rounding_mode="floor") % 10
    return digits.flatten(-2)  # [..., count, size] to [..., count * size]


def _powers(size: int, device: torch.device) -> Tensor:
    """10^(size-1) .. 10^0, computed on the device: copying a constant there would synchronise with the host."""
    return torch.full((size,), 10, device=device).cumprod(0).flip(0) // 10


def _carry(limbs: Tensor, base: int) -> tuple[Tensor, Tensor]:
    """Normalises limbs [..., count] of any sign to 0..base-1 in one pass from the right.

    Returns the limbs and the carry out of the top limb [...], which is negative exactly if the number is.
    """
    carried = torch.zeros_like(limbs[..., 0])
    normalised = []
    for limb in reversed(limbs.unbind(-1)):
        limb = limb + carried
        carried = torch.div(limb, base, rounding_mode="floor")
        normalised.append(limb - carried * base)
    return torch.stack(normalised[::-1], -1), carried


def _add(a: _Operand, b: _Operand, division: Division) -> _Outcome:
    """a + b: the limbs are added with their signs; a negative sum is negated and carried again."""
    count = -(-(a.digits.shape[-1] + 1) // _ADDITION_LIMB)  # a sum has one digit more than the operands
    plus_a, plus_b = (_to_limbs(x.digits, _ADDITION_LIMB, count) * (1 - 2 * x.sign).unsqueeze(-1) for x in (a, b))
    total = plus_a + plus_b  # [..., count], limbs of either sign
    _, top = _carry(total, 10**_ADDITION_LIMB)
    negative = top < 0
    total, _ = _carry(torch.where(negative.unsqueeze(-1), -total, total), 10**_ADDITION_LIMB)
    return _Outcome(_from_limbs(total, _ADDITION_LIMB), negative.to(torch.int64), torch.zeros_like(a.sign))


def _multiplication_limb(width: int) -> int:
    """The largest limb size for which a column of the product plus its carry stays below 2^63.

    A column is a sum of at most `count` products of two limbs; the carry into it is less than count * 10^size.
    """
    size = 9
    while -(-width // size) * ((10**size - 1) ** 2 + 10**size) >= 2**63:
        size -= 1
    return size


def _multiply(a: _Operand, b: _Operand, division: Division) -> _Outcome:
    """a * b: all products of limbs, summed along the anti-diagonals, then one carry pass."""
    size = _multiplication_limb(a.digits.shape[-1])
    x, y = _to_limbs(a.digits, size), _to_limbs(b.digits, size)  # [..., count]
    count = x.shape[-1]
    products = x.unsqueeze(-1) * y.unsqueeze(-2)  # [..., count, count]
    # Flattening rows of length 2 * count and splitting into rows of 2 * count - 1 shifts row i by i, so that products
    # of equal weight are in one column.
    skewed = torch.nn.functional.pad(products, (0, count)).flatten(-2)[..., : count * (2 * count - 1)]
    columns = skewed.unflatten(-1, (count, 2 * count - 1)).sum(-2)  # [..., 2 * count - 1]
    limbs, _ = _carry(_widen(columns, 2 * count), 10**size)
    return _Outcome(_from_limbs(limbs, size), a.sign ^ b.sign, torch.zeros_like(a.sign))


def _divide(a: _Operand, b: _Operand, division: Division) -> _Outcome:
    """a / b by long division; `division` is the treatment of a remainder."""
    zero_divisor = (b.digits == 0).all(-1)
    quotient, remainder = _long_division(a.digits, b.digits)
    has_remainder = (remainder != 0).any(-1)
    sign = a.sign ^ b.sign
    status = torch.zeros_like(sign)
    if division == "exact":
        status = torch.where(has_remainder, int(Status.INEXACT), status)
    if division == "floor":  # rounding a negative quotient down increases its magnitude
        limbs = _to_limbs(quotient, _ADDITION_LIMB)
        increment = (has_remainder & (sign == 1)).to(torch.int64).unsqueeze(-1)  # [..., 1]
        limbs, _ = _carry(limbs + _widen(increment, limbs.shape[-1]), 10**_ADDITION_LIMB)
        quotient = _from_limbs(limbs, _ADDITION_LIMB)
    if division not in ("exact", "floor", "trunc"):
        raise ValueError(f'`division={division!r}` is unknown. Choose "exact", "floor" or "trunc".')
    return _Outcome(quotient, sign, torch.where(zero_divisor, int(Status.UNDEFINED), status))


def _long_division(dividend: Tensor, divisor: Tensor) -> tuple[Tensor, Tensor]:
    """Quotient [..., D] and remainder [..., count + 1] (limbs) of digits [..., D] by digits [..., D].

    Schoolbook division in limbs. Both numbers are first multiplied by the power of ten that gives the divisor the most
    digits, which changes neither the quotient nor whether there is a remainder. Then the three leading limbs of the
    remainder over those of the divisor are the next limb of the quotient but for an error of 1, so three multiples of
    the divisor are subtracted at once, and the largest with a nonnegative difference is kept. For a divisor of zero
    the values are meaningless.
    """
    width, base = dividend.shape[-1], 10**_DIVISION_LIMB
    count = -(-width // _DIVISION_LIMB)
    size = count * _DIVISION_LIMB
    dividend, divisor = _widen(dividend, size), _widen(divisor, size)
    shift = leading_zeros(divisor)
    a = _to_limbs(shifted_left(_widen(dividend, 2 * size), shift, 0), _DIVISION_LIMB)  # [..., 2 * count]
    b = _widen(_to_limbs(shifted_left(divisor, shift, 0), _DIVISION_LIMB), count + 1)
    remainder = _widen(a[..., :count], count + 1)  # less than the divisor
    leading = min(3, count + 1)
    weights = torch.full((leading,), base, device=b.device).cumprod(0).flip(0) // base
    estimated_divisor = (b[..., :leading] * weights).sum(-1).clamp(min=1)
    around = torch.arange(-1, 2, device=b.device)
    quotient = []
    for limb in a[..., count:].split(1, -1):
        remainder = torch.cat([remainder[..., 1:], limb], -1)
        estimate = (remainder[..., :leading] * weights).sum(-1)
        estimate = torch.div(estimate, estimated_divisor, rounding_mode="floor").clamp(max=base - 1)
        q = (estimate.unsqueeze(-1) + around).clamp(min=0)  # [..., 3]
        differences, top = _carry(remainder.unsqueeze(-2) - q.unsqueeze(-1) * b.unsqueeze(-2), base)
        best = ((top >= 0).sum(-1, keepdim=True) - 1).clamp(min=0)  # [..., 1]
        quotient.append(q.gather(-1, best))
        chosen = best.unsqueeze(-1).expand(*best.shape, count + 1)
        remainder = differences.gather(-2, chosen).squeeze(-2)
    return _from_limbs(torch.cat(quotient, -1), _DIVISION_LIMB)[..., size - width :], remainder


OPERATIONS: dict[str, Callable[[_Operand, _Operand, Division], _Outcome]] = {
    "+": _add,
    "-": lambda a, b, division: _add(a, _Operand(b.digits, 1 - b.sign), division),
    "*": _multiply,
    "/": _divide,
}
