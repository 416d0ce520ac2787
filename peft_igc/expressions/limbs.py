"""Natural numbers as limbs: what the decimals of expressions are calculated with.

In and out: limbs, the digits of a number in base 10^8, least significant first, so that one int64 holds eight decimal
digits. They are the limbs of `numbers.calculator` in the other order and of one size. Carries run through all limbs at
once instead of one after the other, and a quotient is found eight digits at a time, so that the number of tensor
operations hardly grows with the number of digits. All functions are exact and total, and run without loops over rows
and without synchronisation. `quotient` estimates its digits in float64, and checks them with integers.
Try it: `pytest tests/expressions/test_limbs.py`

Shapes: L limbs of a number; `...` is any number of leading dimensions.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..numbers.calculator import from_limbs, to_limbs


__all__ = ["BASE", "LARGEST", "SIZE", "add_signed", "from_digits", "multiply", "quotient", "settle", "to_digits"]

SIZE = 8  # decimal digits of a limb
BASE = 10**SIZE
LARGEST = 900  # limbs of a number: so many products of two limbs, below 10^16 each, are summed in 63 bits


def from_digits(right: Tensor) -> Tensor:
    """Packs right-aligned digits [..., 8 * L] int64 in 0..9 into limbs [..., L]."""
    return to_limbs(right, SIZE).flip(-1)


def to_digits(limbs: Tensor) -> Tensor:
    """Unpacks limbs [..., L] into right-aligned digits [..., 8 * L] int64 in 0..9."""
    return from_limbs(limbs.flip(-1), SIZE)


def settle(columns: Tensor) -> Tensor:
    """Carries until every limb is below 10^8.

    Args:
        columns: [..., L] int64, at least 0 and at most `LARGEST` * (10^8 - 1)^2. Their number is below 10^(8 L).

    Returns:
        [..., L] int64 in 0..10^8 - 1, the same number.
    """
    for _ in range(2):  # a column's carry is below 10^11 and then below 10^3, hence two passes
        carried = torch.div(columns, BASE, rounding_mode="floor")
        columns = columns.sub(carried, alpha=BASE) + _moved_up(carried)
    return _ripple(columns)[0]


def _moved_up(carried: Tensor) -> Tensor:
    """Carries [..., L] at the limbs that receive them. The last one is dropped: callers leave it no value."""
    return pad(carried, (1, -1))


def _ripple(columns: Tensor, around: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Carries of at most one, which may run through any number of limbs, in a constant number of operations.

    A column below 10^8 - 1 gives no carry, one above it gives one, and one of just 10^8 - 1 hands on what it gets. So
    the carry out of a limb is that of the last column up to it that decides.

    Args:
        columns: [..., L] int64 in 0..2 * 10^8 - 2.
        around: [..., 1] bool: adds the carry out of the last limb to the first one.

    Returns:
        Limbs [..., L], and the carry out of the last one [..., 1] int64 in 0..1.
    """
    steps = torch.arange(2, 2 * columns.shape[-1] + 2, 2, device=columns.device)  # even, so that the carry is a bit
    decided = (steps + (columns >= BASE)).masked_fill(columns == BASE - 1, 0).cummax(-1).values
    out = decided & 1
    last = out[..., -1:]
    if around is None:
        return (columns + _moved_up(out)).sub(out, alpha=BASE), last
    first = last * around
    out = torch.where(decided == 0, first, out)
    return (columns + torch.cat([first, out[..., :-1]], -1)).sub(out, alpha=BASE), last


def add_signed(a: Tensor, a_negative: Tensor, b: Tensor, b_negative: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """a + b of signed numbers.

    Where the signs differ, `b` is added to the complement of `a`. A carry out says that `b` is larger; it is added at
    the other end, which leaves b - a. Without one, the sum is the complement of a - b.

    Args:
        a, b: [..., L] int64 in 0..10^8 - 1.
        a_negative, b_negative: [...] bool.

    Returns:
        Limbs [..., L], the sign [...] bool, which zero may have, and [...] bool: there was a carry out of the limbs,
        which are the lower ones of the sum then.
    """
    differ = (a_negative ^ b_negative).unsqueeze(-1)  # [..., 1]
    limbs, last = _ripple(torch.where(differ, BASE - 1 - a, a) + b, around=differ)
    larger = last.bool()  # [..., 1]; b > a where the signs differ
    limbs = torch.where(differ & ~larger, BASE - 1 - limbs, limbs)
    negative = torch.where((differ & larger).squeeze(-1), b_negative, a_negative)
    return limbs, negative, (larger & ~differ).squeeze(-1)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """The product [..., 2 L] of two numbers [..., L]: all products of limbs, summed by weight."""
    count = a.shape[-1]
    products = a.unsqueeze(-1) * b.unsqueeze(-2)  # [..., L, L]
    # Flattening rows of length 2 L + 1 and splitting into rows of 2 L shifts row i by i, so that products of equal
    # weight are in one column.
    skewed = pad(products, (0, count + 1)).flatten(-2)[..., : 2 * count * count]
    return settle(skewed.unflatten(-1, (count, 2 * count)).sum(-2))


def quotient(dividend: Tensor, divisor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Divides with remainder, one limb of the quotient at a time.

    A limb is the rounded quotient of two floats, so the remainder is between about -1/2 and 1/2 of the divisor, and
    the limbs of the quotient have signs until the end. The limbs of the remainder are kept between -10^8 / 2 and
    10^8 / 2 (or a little beyond), so that the first of them outweighs the others and a float keeps its precision.

    Args:
        dividend: [..., K] int64 in 0..10^8 - 1.
        divisor: [..., L] int64 in 0..10^8 - 1. A divisor of zero gives meaningless values.

    Returns:
        The quotient [..., K], rounded down; [...] bool: the division leaves a remainder; and [...] bool: the
        remainder was verified to be less than the divisor.
    """
    wide = pad(divisor, (0, 2))  # [..., L + 2]; room for a remainder times 10^8, and for its sign
    weights = _float_weights(wide)
    inverse = (wide * weights).sum(-1, keepdim=True).reciprocal()  # [..., 1] float64
    remainder = torch.zeros_like(wide)
    found = []
    for limb in dividend.split(1, -1)[::-1]:
        remainder = torch.cat([limb, remainder[..., :-1]], -1)
        estimate = ((remainder * weights).sum(-1, keepdim=True) * inverse).round().to(torch.int64)  # [..., 1]
        remainder = _balance(remainder.addcmul(estimate, wide, value=-1))
        found.append(estimate)
    below = _is_negative(remainder).unsqueeze(-1).to(torch.int64)  # [..., 1]
    limbs, negative = _magnitude(torch.cat([found[-1] - below, *found[-2::-1]], -1))
    remainder = remainder.addcmul(wide, below)
    both = _balance(torch.stack([remainder, remainder - wide]))  # [2, ..., L + 2]
    too_small, less = _is_negative(both).unbind()
    return limbs, (both[0] != 0).any(-1), less & ~too_small & ~negative


def _float_weights(divisor: Tensor) -> Tensor:
    """Weights [..., L] float64 of limbs relative to the divisor's first one, so that no float overflows."""
    places = torch.arange(divisor.shape[-1], device=divisor.device)
    first = (places * (divisor != 0)).amax(-1, keepdim=True)  # [..., 1]
    # Limbs further up are zero. Those further down are too small to matter.
    exponents = (places - first).clamp(-3, 3).to(torch.float64)
    weights = torch.full_like(exponents, float(BASE)).pow(exponents)
    return weights * (places >= first - 3)


def _magnitude(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Limbs [..., L] and sign [...] bool of columns [..., L] in -10^8 + 1..10^8 - 1. Zero has no sign."""
    positive = torch.zeros_like(columns[..., 0], dtype=torch.bool)
    limbs, negative, _ = add_signed(columns.clamp(min=0), positive, (-columns).clamp(min=0), ~positive)
    return limbs, negative


def _balance(columns: Tensor) -> Tensor:
    """Carries columns [..., L] of either sign until they are about -10^8 / 2 to 10^8 / 2. The last one gives none."""
    for _ in range(2):
        carried = torch.div(columns + BASE // 2, BASE, rounding_mode="floor")
        columns = columns.sub(carried, alpha=BASE) + _moved_up(carried)
    return columns


def _is_negative(balanced: Tensor) -> Tensor:
    """The sign [...] bool of balanced columns [..., L]: that of the last one that is not zero."""
    steps = torch.arange(2, 2 * balanced.shape[-1] + 2, 2, device=balanced.device)
    return (steps * (balanced != 0) + (balanced < 0)).amax(-1) % 2 == 1
