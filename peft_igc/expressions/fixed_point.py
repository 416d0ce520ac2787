"""Arithmetic of exact decimals as fixed-point numbers: sums, products, quotients, powers, per cent.

In and out: `Decimal`, fixed-point numbers of a `Width`: limbs for the digits before the point and for the places after
it; `from_decimal` and `to_decimal` convert from and to digits with a scale. Nothing is ever rounded unless `Treatment`
says so. Each function also returns reasons: a value with more digits or places than the width holds has the reason
OVERFLOW, and a quotient with more places counts as one that does not end. `decimals` calculates with two numbers of a
text, `grammar` evaluates expressions. Try it: `pytest tests/expressions/test_decimals.py`

Shapes: D digits of a number, R digits of a result, L limbs of a fixed-point number; `...` is any number of leading
dimensions.
"""

import enum
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..numbers.calculator import Division
from ..numbers.digits import PAD, may_look
from . import limbs
from .limbs import BASE, SIZE
from .reasons import Reason


__all__ = [
    "EXACT",
    "PLACES_PER_DIGIT",
    "Decimal",
    "Operator",
    "Rounding",
    "Treatment",
    "Width",
    "divide_by_hundreds",
    "exponent_bits",
    "from_decimal",
    "kept_digits",
    "least_width",
    "may_look",
    "operate",
    "to_decimal",
]

Rounding = Literal["refuse", "half_up", "half_even"]


class Operator(enum.IntEnum):
    """Index of an operator. A negation is no operator, since it only changes a sign."""

    ADD = 0
    SUBTRACT = 1
    MULTIPLY = 2
    DIVIDE = 3
    POWER = 4


@dataclass(frozen=True)
class Treatment:
    """What becomes of quotients that are not exact.

    Args:
        division: `"exact"` refuses or rounds them, `"floor"` rounds every quotient down to an integer, `"trunc"`
            toward zero.
        rounding: With `division="exact"`, a last division that does not end is refused (`"refuse"`), or rounded to
            `decimal_places` (`"half_up"`: a half goes away from zero; `"half_even"`: to the even digit). A division
            on the way to the result is never rounded, nor one that would become zero, and a division that ends is
            exact.
        decimal_places: Places after the point, at least 0; needed for `rounding`.
    """

    division: Division = "exact"
    rounding: Rounding = "refuse"
    decimal_places: int | None = None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("division", self.division, get_args(Division)),
            ("rounding", self.rounding, get_args(Rounding)),
        ):
            if value not in known:
                raise ValueError(f"`{name}={value!r}` is unknown: choose {', '.join(map(repr, known))}.")
        if self.rounding != "refuse" and self.decimal_places is None:
            raise ValueError(f'`rounding="{self.rounding}"` needs `decimal_places`, the places to round to.')
        if self.decimal_places is not None and self.decimal_places < 0:
            raise ValueError(f"`decimal_places={self.decimal_places}` must be at least 0.")


EXACT = Treatment()
PLACES_PER_DIGIT = math.log2(10)  # a quotient that ends has at most so many places for each digit of the divisor


@dataclass(frozen=True)
class Width:
    """Size of fixed-point numbers: limbs before (`whole`) and after (`part`) the point, least significant first."""

    whole: int
    part: int

    @property
    def limbs(self) -> int:
        """L, all limbs of a number."""
        return self.whole + self.part

    def in_limbs(self) -> "Width":
        """The least width in limbs for one that is given in digits."""
        return Width(max(-(-self.whole // SIZE), 1), -(-self.part // SIZE))


class Decimal(NamedTuple):
    """Fixed-point numbers: `limbs` [..., L] int64 in 0..10^8 - 1 and `negative` [...] bool, which zero may have."""

    limbs: Tensor
    negative: Tensor


def kept_digits(num_digits: int, result_digits: int, treatment: Treatment = EXACT) -> int:
    """Digits that a value on the way to a result may have before the point, and places after it.

    Twice as many as the longest operand or result, rounded up to whole limbs: every product of two operands is kept.

    Args:
        num_digits: D, at least 1.
        result_digits: R, at least 1.
        treatment: Must not round to places that are not kept.

    Raises:
        ValueError: A number is below 1, or what is asked for is more than the arithmetic holds.
    """
    if num_digits < 1 or result_digits < 1:
        raise ValueError(f"`num_digits={num_digits}` and `result_digits={result_digits}` must be at least 1.")
    kept = -(-2 * max(num_digits, result_digits) // SIZE) * SIZE
    if 2 * kept > limbs.LARGEST * SIZE:
        raise ValueError(
            f"`num_digits={num_digits}` and `result_digits={result_digits}` are too large for expressions: choose at "
            f"most {limbs.LARGEST * SIZE // 4}."
        )
    if treatment.rounding != "refuse" and (treatment.decimal_places or 0) >= kept:
        raise ValueError(
            f"`decimal_places={treatment.decimal_places}` must be below {kept}, the places that are kept with "
            f"`num_digits={num_digits}` and `result_digits={result_digits}`."
        )
    return kept


def least_width(whole: float, part: float, kept: int, treatment: Treatment, divides: bool) -> Width:
    """The width that holds so many digits and places, or those that are kept if they are fewer.

    Args:
        whole: No value has more digits before the point.
        part: No value that ends has more places.
        kept: From `kept_digits`.
        treatment: A quotient needs one place more than it is rounded to.
        divides: There may be a quotient.
    """
    if divides:
        part = max(part, 1, 0 if treatment.rounding == "refuse" else (treatment.decimal_places or 0) + 1)
    return Width(math.ceil(min(whole, kept)), math.ceil(min(part, kept))).in_limbs()


def exponent_bits(width: Width) -> int:
    """Bits of the largest exponent of which a power fits, but for powers of 0, 1 and -1.

    Powers of integers grow no slower than those of 2, and a number with places gets more of them by each factor.
    """
    return math.ceil(width.limbs * SIZE * math.log2(10)).bit_length()


def from_decimal(digits: Tensor, count: Tensor, scale: Tensor, width: Width) -> Tensor:
    """Converts unsigned decimals to fixed-point numbers.

    Args:
        digits: [..., D] int64, left-aligned, 0..9 in the first `count` places; what follows is not looked at.
        count: [...] int64 in 0..D. No digits are zero.
        scale: [...] int64, at least 0.
        width: Must hold all digits and places.

    Returns:
        Limbs [..., L] int64.
    """
    columns = torch.arange(width.limbs * SIZE, device=digits.device)
    # The digit in column c has the weight 10^(8 * whole - 1 - c); digit i of n has the weight 10^(n - 1 - i - scale).
    source = columns + (count - scale - width.whole * SIZE).unsqueeze(-1)
    inside = (source >= 0) & (source < count.unsqueeze(-1))
    return limbs.from_digits(digits.gather(-1, source.clamp(0, digits.shape[-1] - 1)) * inside)


def to_decimal(number: Decimal, width: Width, result_digits: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Converts fixed-point numbers to the canonical form of results.

    Returns:
        `digits` [..., R] int64, left-aligned and padded; `sign` [...] int64; `scale` [...] int64, the digits after the
        point; and [...] bool: the number has at most R digits when it is written, the zero of `0.05` included.
    """
    right = limbs.to_digits(number.limbs)  # [..., 8 L]
    columns = torch.arange(1, right.shape[-1] + 1, device=right.device)
    point = width.whole * SIZE  # columns up to this one are before the point
    nonzero = right != 0
    last = (columns * nonzero).amax(-1)  # the last digit that is not zero, 0 if there is none
    end = last.clamp(min=point)
    first = columns.masked_fill(~nonzero, right.shape[-1]).amin(-1)
    first = torch.where(last == 0, end, first)  # zero keeps one digit
    scale, count = end - point, end - first + 1
    source = first.unsqueeze(-1) - 1 + torch.arange(result_digits, device=right.device)
    digits = torch.where(
        source < end.unsqueeze(-1), right.gather(-1, source.clamp(max=right.shape[-1] - 1)), PAD
    )  # [..., R]
    fits = torch.maximum(count, scale + 1) <= result_digits
    return digits, (number.negative & (last != 0)).to(torch.int64), scale, fits


def operate(
    operator: Tensor,
    a: Decimal,
    b: Decimal,
    *,
    present: Collection[Operator],
    width: Width,
    treatment: Treatment,
    last: Tensor,
    bits: int,
) -> tuple[Decimal, Tensor]:
    """Calculates `a operator b` for every row.

    Args:
        operator: [...] int64, an `Operator`. Rows with another index have a meaningless result.
        a, b: Limbs [..., L].
        present: The operators that any row may have; the others are not computed.
        width: That of `a`, `b` and the result.
        treatment: For quotients that are not exact.
        last: [...] bool: no calculation follows, so that a quotient may be rounded.
        bits: Bits of the largest exponent that can have a result, unless the base is 0, 1 or -1.

    Returns:
        The result, meaningless where there is a reason, and `reason` [...] int64, a `Reason`.
    """
    result, reason = a, torch.zeros_like(operator)
    if Operator.ADD in present or Operator.SUBTRACT in present:
        result, reason = _add(a, Decimal(b.limbs, b.negative ^ (operator == int(Operator.SUBTRACT))))
    for one in (Operator.MULTIPLY, Operator.DIVIDE, Operator.POWER):
        if one not in present:
            continue
        if one == Operator.MULTIPLY:
            other, why = _multiply(a, b, width)
        elif one == Operator.DIVIDE:
            other, why = _divide(a, b, width, treatment, last)
        else:
            other, why = _power(a, b, width, bits)
        result, reason = _select(operator == int(one), other, why, result, reason)
    return result, reason


def _select(
    chosen: Tensor, yes: Decimal, yes_reason: Tensor, no: Decimal, no_reason: Tensor
) -> tuple[Decimal, Tensor]:
    """A result and its reason where `chosen` [...], else the other."""
    number = Decimal(
        torch.where(chosen.unsqueeze(-1), yes.limbs, no.limbs), torch.where(chosen, yes.negative, no.negative)
    )
    return number, torch.where(chosen, yes_reason, no_reason)


def _overflow(condition: Tensor) -> Tensor:
    """Reasons [...] int64: OVERFLOW where the condition [...] holds."""
    return condition * int(Reason.OVERFLOW)


def _add(a: Decimal, b: Decimal) -> tuple[Decimal, Tensor]:
    """a + b."""
    total, negative, carry = limbs.add_signed(a.limbs, a.negative, b.limbs, b.negative)
    return Decimal(total, negative), _overflow(carry)


def _multiply(a: Decimal, b: Decimal, width: Width) -> tuple[Decimal, Tensor]:
    """a * b. The product has twice the places; those that are not kept must be zero."""
    product = limbs.multiply(a.limbs, b.limbs)  # [..., 2 L]
    kept = product[..., width.part : width.part + width.limbs]
    lost = (product != 0).sum(-1) > (kept != 0).sum(-1)
    return Decimal(kept, a.negative ^ b.negative), _overflow(lost)


def divide_by_hundreds(number: Decimal, times: Tensor, width: Width) -> tuple[Decimal, Tensor]:
    """Divides by 100 as often as `times` [...] int64 says, at least 0, for per cent signs: the point moves."""
    top = torch.zeros_like(number.limbs[..., :1])
    limbs_down = (times + 3) // 4  # a limb has four pairs of digits
    factor = torch.full_like(times, 100) ** (4 * limbs_down - times)  # 1, 100, 10^4 or 10^6
    moved = limbs.settle(torch.cat([number.limbs, top], -1) * factor.unsqueeze(-1))  # [..., L + 1]
    source = torch.arange(width.limbs, device=times.device) + limbs_down.unsqueeze(-1)
    kept = torch.where(source <= width.limbs, moved.gather(-1, source.clamp(max=width.limbs)), 0)
    lost = (moved != 0).sum(-1) > (kept != 0).sum(-1)
    return Decimal(kept, number.negative), _overflow(lost)


def _divide(a: Decimal, b: Decimal, width: Width, treatment: Treatment, last: Tensor) -> tuple[Decimal, Tensor]:
    """a / b with as many places as are kept. A remainder means that there are more."""
    undefined = (b.limbs == 0).all(-1)
    one = pad(undefined.unsqueeze(-1).to(torch.int64), (0, width.limbs - 1))  # a divisor of zero becomes one
    quotients, inexact, verified = limbs.quotient(pad(a.limbs, (width.part, 0)), b.limbs + one)
    found = Decimal(quotients[..., : width.limbs], a.negative ^ b.negative)
    overflow = (quotients[..., width.limbs :] != 0).any(-1) | ~verified
    if treatment.division != "exact":
        found, carry = _rounded(found, inexact, width, 0, treatment.division)
        overflow, inexact = overflow | carry, torch.zeros_like(inexact)
    elif treatment.rounding != "refuse":
        assert treatment.decimal_places is not None
        rounded, carry = _rounded(found, inexact, width, treatment.decimal_places, treatment.rounding)
        round_it = inexact & last & (rounded.limbs != 0).any(-1)  # a zero would say nothing of the quotient
        found = Decimal(torch.where(round_it.unsqueeze(-1), rounded.limbs, found.limbs), found.negative)
        overflow, inexact = overflow | (carry & round_it), inexact & ~round_it
    reason = torch.where(inexact, int(Reason.INEXACT), _overflow(overflow))
    return found, torch.where(undefined, int(Reason.UNDEFINED), reason)


def _rounded(
    number: Decimal, has_more: Tensor, width: Width, places: int, how: Literal[Division, Rounding]
) -> tuple[Decimal, Tensor]:
    """Rounds to fewer places than are kept; `has_more` [...]: the number has further digits after those of its limbs.

    Returns the number, and [...] bool: there was a carry out of the limbs.
    """
    dropped = width.part * SIZE - places
    at, below = divmod(dropped, SIZE)  # the first limb that is kept, and its digits that are not
    limb = number.limbs[..., at]
    low = limb % 10**below
    rest = (number.limbs[..., :at] != 0).any(-1) | (low != 0) | has_more  # anything is dropped
    unit = limb - low
    if how == "floor":
        up = rest & number.negative
    elif how == "trunc":
        up = torch.zeros_like(rest)
    else:
        first, half = (low, 10**below // 2) if below else (number.limbs[..., at - 1], BASE // 2)
        beyond = (number.limbs[..., : at if below else at - 1] != 0).any(-1) | has_more
        odd = unit // 10**below % 2 == 1
        up = (first > half) | ((first == half) & (beyond | odd | (how == "half_up")))
    raised = (unit + up * 10**below).unsqueeze(-1)
    columns = [torch.zeros_like(number.limbs[..., :at]), raised, number.limbs[..., at + 1 :]]
    settled = limbs.settle(pad(torch.cat(columns, -1), (0, 1)))  # [..., L + 1]
    return Decimal(settled[..., :-1], number.negative), settled[..., -1] != 0


def _power(a: Decimal, b: Decimal, width: Width, bits: int) -> tuple[Decimal, Tensor]:
    """a ** b for integers b >= 0, by squaring from the exponent's first bit on.

    The powers on the way have lower exponents, so they have no more digits or places than the result.
    """
    unit = pad(torch.ones_like(a.limbs[..., :1]), (width.part, width.whole - 1))  # the number 1
    zero, one = (a.limbs == 0).all(-1), (a.limbs == unit).all(-1)
    exponent, higher = b.limbs[..., width.part], (b.limbs[..., width.part + 1 :] != 0).any(-1)
    nonzero = (b.limbs != 0).any(-1)
    wrong = (b.limbs[..., : width.part] != 0).any(-1) | (b.negative & nonzero)
    too_high = higher | (exponent >= 2**bits)
    result = Decimal(unit.expand_as(a.limbs), torch.zeros_like(a.negative))
    reason = torch.zeros_like(exponent)
    for bit in reversed(range(bits)):
        if bit < bits - 1:  # the square of 1 needs no calculation
            result, why = _multiply(result, result, width)
            reason = torch.maximum(reason, why)
        more, why = _multiply(result, a, width) if bit < bits - 1 else (a, torch.zeros_like(reason))
        chosen = (exponent >> bit) & 1 == 1
        result, reason = _select(chosen, more, torch.maximum(reason, why), result, reason)
    result = Decimal(torch.where((zero | one).unsqueeze(-1), a.limbs, result.limbs), a.negative & (exponent % 2 == 1))
    reason = torch.where(zero | one, 0, torch.maximum(reason, _overflow(too_high)))
    reason = torch.where(zero & ~nonzero, int(Reason.UNDEFINED), reason)
    return result, torch.where(wrong, int(Reason.EXPONENT), reason)
