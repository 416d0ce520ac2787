"""Calculates with two decimals that a request in words names: `numbers.calculator` for numbers with a point.

In: two operands per calculation as digits with signs and scales (the value is `digits * 10**-scale`), and an operator
index. Out: the digits, sign and scale of the result in canonical form, and a `Status`. Values are exact: a quotient
that ends is exact (1 / 8 = 0.125), one that does not is INEXACT unless it is to be rounded. For integers it is the
calculator, but for quotients with places, which the calculator does not have. Operations that were registered with
the calculator are for integers only. Expressions are evaluated in `grammar`.
Try it: `pytest tests/expressions/test_decimals.py`

Shapes: D digits of an operand, R digits of a result, K operations; `...` is any number of leading dimensions.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..numbers.calculator import OPERATIONS, Division, Status, calculate
from ..numbers.digits import PAD, decode, is_number, length
from .fixed_point import (
    PLACES_PER_DIGIT,
    Decimal,
    Operator,
    Rounding,
    Treatment,
    Width,
    exponent_bits,
    from_decimal,
    kept_digits,
    least_width,
    may_look,
    operate,
    to_decimal,
)
from .reasons import Reason, status_of


__all__ = ["SYMBOLS", "DecimalResult", "calculate_decimals", "canonical"]

SYMBOLS = {
    "+": Operator.ADD,
    "-": Operator.SUBTRACT,
    "*": Operator.MULTIPLY,
    "/": Operator.DIVIDE,
    "^": Operator.POWER,
}


class DecimalResult(NamedTuple):
    """Return value of `calculate_decimals`: `digits` [..., R] int64 without the point, left-aligned, all `PAD` unless
    the status is OK; `sign` [...] int64 in 0..1; `scale` [...] int64, the digits after the point, without zeros at the
    end; `status` [...] int64, a `Status`; `reason` [...] int64, a `Reason`, NONE where no arithmetic is requested."""

    digits: Tensor
    sign: Tensor
    scale: Tensor
    status: Tensor
    reason: Tensor


def calculate_decimals(
    digits: Tensor,
    signs: Tensor,
    scales: Tensor,
    operator: Tensor,
    *,
    operations: Sequence[str] = ("+", "-", "*", "/"),
    result_digits: int,
    decimal_places: int | None = None,
    rounding: Rounding = "refuse",
    division: Division = "exact",
) -> DecimalResult:
    """Calculates `a operator b` exactly for every row.

    Args:
        digits: [..., 2, D] int64, left-aligned operands without their points, 0..9 or `PAD`; leading zeros are fine.
        signs: [..., 2] int64, 0 plus, 1 minus.
        scales: [..., 2] int64 in 0..D, digits after the point.
        operator: [...] int64, index into `operations`; any other index is "no arithmetic".
        operations: K symbols: `+ - * / ^`, or symbols of registered operations, for operands without places.
        result_digits: R. A result with more digits, a zero before the point included, is OVERFLOW.
        decimal_places: Places to which `rounding` rounds.
        rounding: What becomes of a quotient that does not end: `"refuse"`, `"half_up"` or `"half_even"`.
        division: `"exact"`, or `"floor"` or `"trunc"` for integer quotients.

    Raises:
        TypeError: A tensor is not int64.
        ValueError: A shape, a symbol, or a setting is invalid.
    """
    treatment = Treatment(division, rounding, decimal_places)
    _check_arguments(digits, signs, scales, operator, operations)
    kept = kept_digits(digits.shape[-1], result_digits, treatment)
    well_formed = is_number(digits) & ((signs == 0) | (signs == 1)) & (scales >= 0) & (scales <= digits.shape[-1])
    whole = well_formed.all(-1)  # [...]
    # Malformed rows are calculated as 0 and 0.
    digits, scales = torch.where(whole[..., None, None], digits, PAD), torch.where(whole.unsqueeze(-1), scales, 0)
    signs = torch.where(whole.unsqueeze(-1), signs, 0)
    code = _operators(operator, operations)
    count = length(digits)
    present, width = _width(count, scales, code, operations, kept, treatment)
    limbs, negative = from_decimal(digits, count, scales, width), signs == 1
    a, b = (Decimal(limbs[..., side, :], negative[..., side]) for side in (0, 1))
    number, reason = operate(
        code,
        a,
        b,
        present=present,
        width=width,
        treatment=treatment,
        last=torch.ones_like(whole),
        bits=exponent_bits(width),
    )
    found, sign, scale, fits = to_decimal(number, width, result_digits)
    reason = torch.where((reason == 0) & ~fits, int(Reason.OVERFLOW), reason)
    status = torch.where(code < 0, int(Status.NONE), status_of(reason))
    result = DecimalResult(found, sign, scale, status, torch.where(code < 0, 0, reason))
    result = _with_registered(result, digits, signs, scales, operator, operations, result_digits, division)
    asked = result.status != int(Status.NONE)
    return _only_ok(
        result._replace(
            status=torch.where(asked & ~whole, int(Status.UNDEFINED), result.status),
            reason=torch.where(asked & ~whole, int(Reason.UNDEFINED), result.reason),
        )
    )


def _check_arguments(
    digits: Tensor, signs: Tensor, scales: Tensor, operator: Tensor, operations: Sequence[str]
) -> None:
    """Validates shapes, types and symbols; values on a device are never inspected."""
    for name, tensor in (("digits", digits), ("signs", signs), ("scales", scales), ("operator", operator)):
        if tensor.dtype != torch.int64:
            raise TypeError(f"`{name}` must be int64, got {tensor.dtype}. Pass classes, not probabilities.")
    shapes = (signs.shape, scales.shape, (*operator.shape, 2))
    if digits.dim() < 2 or digits.shape[-1] == 0 or any(shape != digits.shape[:-1] for shape in shapes):
        raise ValueError(
            "The shapes must be digits [..., 2, D], signs and scales [..., 2] and operator [...] with D >= 1, got "
            f"{tuple(digits.shape)}, {tuple(signs.shape)}, {tuple(scales.shape)} and {tuple(operator.shape)}."
        )
    for symbol in operations:
        if symbol not in SYMBOLS and symbol not in OPERATIONS:
            known = ", ".join(map(repr, dict.fromkeys([*SYMBOLS, *OPERATIONS])))
            raise ValueError(f"The operation {symbol!r} is unknown; known are {known}. See `register_operation`.")


def _operators(operator: Tensor, operations: Sequence[str]) -> Tensor:
    """`Operator` [...] of every row, -1 where none is requested or another operation."""
    code = torch.full_like(operator, -1)
    for index, symbol in enumerate(operations):
        if symbol in SYMBOLS:
            code = torch.where(operator == index, int(SYMBOLS[symbol]), code)
    return code


def _width(
    count: Tensor, scales: Tensor, code: Tensor, operations: Sequence[str], kept: int, treatment: Treatment
) -> tuple[set[Operator], Width]:
    """The operators to compute and the width to do it in: the least, if the host may look, else everything."""
    possible = {SYMBOLS[symbol] for symbol in operations if symbol in SYMBOLS}
    if not may_look(count) or count.numel() == 0:
        return possible, Width(kept, kept).in_limbs()
    whole = (count - scales).clamp(min=1)
    sizes = [whole.sum(-1).amax(), scales.sum(-1).amax(), (whole + scales)[..., 1].amax()]
    flags = [(code == int(one)).any().to(torch.int64) for one in sorted(possible)]
    look = torch.stack([*sizes, *flags]).tolist()  # the one synchronisation
    digits_before, places, divisor = look[:3]
    present = {one for one, flag in zip(sorted(possible), look[3:], strict=True) if flag}
    if Operator.POWER in present:
        return present, Width(kept, kept).in_limbs()
    if Operator.DIVIDE in present:  # see `grammar` for these bounds
        digits_before, places = digits_before + places, places + PLACES_PER_DIGIT * divisor
    return present, least_width(digits_before, places, kept, treatment, Operator.DIVIDE in present)


def _with_registered(
    result: DecimalResult,
    digits: Tensor,
    signs: Tensor,
    scales: Tensor,
    operator: Tensor,
    operations: Sequence[str],
    result_digits: int,
    division: Division,
) -> DecimalResult:
    """Adds the results of operations on integers that were registered with the calculator."""
    others = [symbol for symbol in operations if symbol not in SYMBOLS]
    if not others:
        return result
    index = torch.full_like(operator, -1)
    for position, symbol in enumerate(operations):
        if symbol in others:
            index = torch.where(operator == position, others.index(symbol), index)
    found = calculate(digits, signs, index, operations=others, result_digits=result_digits, division=division)
    integers = (scales == 0).all(-1)
    chosen = index >= 0
    status = torch.where(integers, found.status, int(Status.UNDEFINED))
    reason = torch.zeros_like(status)
    for one in (Status.OVERFLOW, Status.UNDEFINED, Status.INEXACT):
        reason = torch.where(status == int(one), int(Reason[one.name]), reason)
    return DecimalResult(
        torch.where(chosen.unsqueeze(-1), found.digits, result.digits),
        torch.where(chosen, found.sign, result.sign),
        torch.where(chosen, 0, result.scale),
        torch.where(chosen, status, result.status),
        torch.where(chosen, reason, result.reason),
    )


def _only_ok(result: DecimalResult) -> DecimalResult:
    """No digits, sign and scale where the status is not OK."""
    ok = result.status == int(Status.OK)
    return result._replace(
        digits=torch.where(ok.unsqueeze(-1), result.digits, PAD),
        sign=torch.where(ok, result.sign, 0),
        scale=torch.where(ok, result.scale, 0),
    )


def canonical(digits: Tensor, sign: Tensor, scale: Tensor) -> list[str]:
    """Writes decimals as text, such as `"-12.5"`: no zeros after the last place, one zero before a bare point.

    Args:
        digits: [..., D] integer, left-aligned, 0..9 or `PAD`.
        sign: [...] integer, 0 or 1.
        scale: [...] integer, at least 0, digits after the point.

    Returns:
        One text per number, in row-major order.

    Raises:
        ValueError: A number is malformed, see `numbers.digits.decode`, or a scale is negative.
    """
    texts = []
    for number, places in zip(decode(digits, sign), scale.flatten().tolist(), strict=True):
        if places < 0:
            raise ValueError(f"`scale` must be at least 0, got {places}.")
        text = number.lstrip("-").rjust(places + 1, "0")
        point = len(text) - places
        part = text[point:].rstrip("0")
        texts.append("-" * number.startswith("-") + text[:point] + ("." + part if part else ""))
    return texts
