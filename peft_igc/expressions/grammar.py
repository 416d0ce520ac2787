"""Evaluates expressions: exact values of rows of items, in parallel.

In: `Items`, as the lexer finds them in texts. Out: `Evaluated`, for each row the digits, sign and scale of its value,
or a status and a reason. `order` says what is reduced when, and `fixed_point` calculates; each round reduces one
operator of every row. Values are exact decimals. A value on the way may have `kept_digits` digits before the point and
as many places, which is at least twice `result_digits`; beyond, it refuses.

The number of rounds is that of the operators of the longest expression. The host looks at it once, together with
bounds on the digits that are needed; where it may not look, in a compiled graph, all rounds run at the full width,
with the same results. `reductions` gives the steps as text. Try it: `pytest tests/expressions/test_grammar.py`

Shapes: N expressions, M items, P operands at most, O = P - 1 rounds at most, D digits of a number, R digits of a
result, L limbs of a fixed-point number.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..numbers.calculator import Division
from ..numbers.digits import PAD, length
from .decimals import canonical
from .fixed_point import (
    PLACES_PER_DIGIT,
    Decimal,
    Operator,
    Rounding,
    Treatment,
    Width,
    divide_by_hundreds,
    exponent_bits,
    from_decimal,
    kept_digits,
    least_width,
    may_look,
    operate,
    to_decimal,
)
from .items import Items
from .order import NO_STEP, Order, order_of
from .reasons import Reason, status_of


__all__ = ["Evaluated", "Reduction", "evaluate", "reductions"]

_MUCH = 10**5  # digits; more than are ever kept


class Evaluated(NamedTuple):
    """Values of N expressions: `digits` [N, R] int64 without the point, left-aligned, all `PAD` unless the status is
    OK; `sign` [N] int64 in 0..1; `scale` [N] int64, the digits after the point, without zeros at the end; `status` [N]
    int64, a `numbers.calculator.Status`; `reason` [N] int64, a `Reason`; `operands` [N] int64, how many numbers."""

    digits: Tensor
    sign: Tensor
    scale: Tensor
    status: Tensor
    reason: Tensor
    operands: Tensor


class Reduction(NamedTuple):
    """One step of an evaluation, for people: `left symbol right = result`; `result` is `None` where it refused. The
    step spans the items `first` to `last` (of its numbers; brackets and signs may be outside)."""

    left: str
    symbol: str
    right: str
    result: str | None
    first: int
    last: int


class _Numbers(NamedTuple):
    """The numbers of each row: `digits` [N, P, D] int64; `length` [N, P] int64, how many of them count, 0 where there
    is no number; `scale` [N, P] int64, a per cent sign included."""

    digits: Tensor
    length: Tensor
    scale: Tensor


class _Plan(NamedTuple):
    """What is computed: the operators of each round, whether per cent signs are applied at all, and the sizes."""

    rounds: list[set[Operator]]
    hundreds: bool
    width: Width
    bits: int


_Watch = Callable[[int, Decimal, Decimal, Tensor, Width], None]  # round, operands [N, 2, L], result, reason, width


def evaluate(
    items: Items,
    *,
    max_operands: int = 8,
    result_digits: int,
    decimal_places: int | None = None,
    rounding: Rounding = "refuse",
    division: Division = "exact",
) -> Evaluated:
    """Evaluates N expressions exactly.

    Args:
        items: N expressions. A row that is not in the grammar (see `order`) is refused.
        max_operands: P, at least 2. An expression with more numbers is refused.
        result_digits: R. A result with more digits, a zero before the point included, is refused.
        decimal_places: Places to which `rounding` rounds.
        rounding: What becomes of a last division that does not end: `"refuse"`, `"half_up"` or `"half_even"`.
        division: `"exact"`, or `"floor"` or `"trunc"` for integer quotients.

    Returns:
        The value of each row. A lone number is an expression with one operand.

    Raises:
        TypeError, ValueError: A tensor or an argument is invalid.
    """
    treatment = Treatment(division, rounding, decimal_places)
    return _evaluate(items, max_operands, result_digits, treatment, None)[0]


def _evaluate(
    items: Items, max_operands: int, result_digits: int, treatment: Treatment, watch: _Watch | None
) -> tuple[Evaluated, Order]:
    """`evaluate`, which calls `watch` after each round, if there is one; also returns the order of the steps."""
    _check_items(items, max_operands)
    kept = kept_digits(items.digits.shape[-1], result_digits, treatment)
    order = order_of(items, max_operands)
    numbers, order = _operands(items, order)
    plan = _plan(numbers, order, kept, treatment)
    number, reason = _reduce(numbers, order, plan, treatment, watch)
    result, sign, places, fits = to_decimal(number, plan.width, result_digits)
    reason = reason.masked_fill((reason == 0) & ~fits, int(Reason.OVERFLOW))
    ok = reason == 0
    evaluated = Evaluated(
        digits=result.masked_fill(~ok.unsqueeze(-1), PAD),
        sign=sign * ok,
        scale=places * ok,
        status=status_of(reason),
        reason=reason,
        operands=order.operands,
    )
    return evaluated, order


def _check_items(items: Items, max_operands: int) -> None:
    """Validates shapes and types; values on a device are never inspected."""
    for name in ("kind", "digits", "scale"):
        if (dtype := getattr(items, name).dtype) != torch.int64:
            raise TypeError(f"`items.{name}` must be int64, got {dtype}.")
    n, m = items.kind.shape if items.kind.dim() == 2 else (-1, 0)
    shapes = (items.digits.shape[:-1], items.scale.shape, items.too_long.shape)
    if m < 1 or shapes != ((n, m), (n, m), (n,)) or items.digits.shape[-1] < 1:
        raise ValueError(
            "`items` must have the shapes kind [N, M], digits [N, M, D], scale [N, M], too_long [N] with M, D >= 1, "
            f"got {', '.join(str(tuple(tensor.shape)) for tensor in items)}."
        )
    if max_operands < 2:
        raise ValueError(f"`max_operands={max_operands}` must be at least 2.")


def _operands(items: Items, order: Order) -> tuple[_Numbers, Order]:
    """The numbers of each row, empty where there is none; refuses rows with malformed ones."""
    digit_count = items.digits.shape[-1]
    digits = items.digits.gather(1, order.position.unsqueeze(-1).expand(-1, -1, digit_count))
    scale = items.scale.gather(1, order.position)
    count = length(digits)
    well_formed = ((digits >= 0) & (digits < PAD)).sum(-1) == count  # no other class before the end, no digit after it
    well_formed = well_formed & (count > 0) & (scale >= 0) & (scale <= digit_count)
    slots = torch.arange(scale.shape[1], device=scale.device)
    exists = (slots < order.operands.unsqueeze(-1)) & (order.reason == 0).unsqueeze(-1)
    malformed = (exists & ~well_formed).any(-1, keepdim=True)
    exists = exists & ~malformed
    order = order._replace(
        operator=order.operator.masked_fill(malformed, NO_STEP),
        reason=order.reason.masked_fill(malformed.squeeze(-1), int(Reason.MALFORMED)),
    )
    return _Numbers(digits, count * exists, (scale + 2 * order.percentage) * exists), order


def _plan(numbers: _Numbers, order: Order, kept: int, treatment: Treatment) -> _Plan:
    """The least that has to be computed, if the host may look, else everything."""
    if not may_look(numbers.digits):
        width = Width(kept, kept).in_limbs()
        return _Plan([set(Operator)] * order.operator.shape[1], True, width, exponent_bits(width))
    known = torch.arange(len(Operator), device=order.operator.device)
    present = (order.operator.unsqueeze(-1) == known).any(0)  # [O, 5]
    bounds = _bounds(numbers, order)
    rows = torch.stack(bounds)  # [8, N]
    most = rows.amax(1) if rows.shape[1] else rows.new_zeros(len(rows))
    look = torch.cat([most, present.flatten().to(torch.int64)]).tolist()  # the one synchronisation
    whole, places, divisors, nested, divisions, powers, exponent, hundreds = look[: len(bounds)]
    flags = [look[start : start + len(Operator)] for start in range(len(bounds), len(look), len(Operator))]
    rounds = [{one for one in Operator if row[one]} for row in flags if any(row)]
    whole, places = _needed(whole, places, divisors, nested, divisions, powers, exponent, hundreds)
    width = least_width(whole, places, kept, treatment, divisions > 0)
    return _Plan(rounds, hundreds > 0, width, min(max(exponent.bit_length(), 1), exponent_bits(width)))


def _bounds(numbers: _Numbers, order: Order) -> tuple[Tensor, ...]:
    """Sizes [N] int64 of each expression, from which `_needed` computes how large its values may become."""
    scale = numbers.scale
    whole = (numbers.length - scale).clamp(min=1)  # [N, P]
    hundreds = order.hundreds.sum((1, 2)) + order.last_hundreds
    total = pad((whole + scale).cumsum(1), (1, 0))  # [N, P + 1]
    division, power = order.operator == int(Operator.DIVIDE), order.operator == int(Operator.POWER)
    divisors = (total.gather(1, order.end + 1) - total.gather(1, order.right)) * division
    exponent = _small_value(numbers.digits, whole).gather(1, order.right).masked_fill(order.end != order.right, _MUCH)
    return (
        whole.sum(1),
        scale.sum(1),
        divisors.sum(1),
        order.nested.to(torch.int64),
        division.sum(1),
        power.sum(1),
        (exponent * power).amax(1),
        hundreds,
    )


def _small_value(digits: Tensor, whole: Tensor) -> Tensor:
    """Integer parts [N, P] int64 of numbers with at most four digits before the point; `_MUCH` for others."""
    first = digits[..., :4].clamp(max=9)  # nines for placeholders and places after the point: they are cut off
    value = (first * 10 ** torch.arange(first.shape[-1] - 1, -1, -1, device=digits.device)).sum(-1)
    value = torch.div(value, 10 ** (first.shape[-1] - whole).clamp(min=0), rounding_mode="floor")
    return value.masked_fill(whole > 4, _MUCH)


def _needed(
    whole: int, places: int, divisors: int, nested: int, divisions: int, powers: int, exponent: int, hundreds: int
) -> tuple[float, float]:
    """Digits before the point and places that no value of an expression exceeds, unless its division does not end.

    Sums and products have at most the digits, and the places, of both operands together (the carry of a sum, too,
    since each operand has a digit before the point). A quotient has at most the digits of the dividend and the places
    of the divisor before the point, and if it ends, at most log2(10) places for each digit of the divisor. A power
    multiplies both by its exponent.
    """
    if divisions and (powers or nested or hundreds):
        return _MUCH, _MUCH  # bounds of such a quotient multiply, so they are seldom below the full width
    factor = float(max(exponent, 1)) ** powers
    places += 2 * hundreds
    if not divisions:
        return whole * factor, places * factor
    return whole + places, places + PLACES_PER_DIGIT * divisors


def _reduce(
    numbers: _Numbers, order: Order, plan: _Plan, treatment: Treatment, watch: _Watch | None
) -> tuple[Decimal, Tensor]:
    """Carries out the steps. Returns the value of each row, [N, L], and `reason` [N]."""
    values = from_decimal(*numbers, plan.width)  # [N, P, L]
    negative = torch.zeros_like(numbers.scale, dtype=torch.bool)  # [N, P]
    reason = order.reason
    # A division is the last one if nothing but a sign is left to apply.
    final_step = torch.where(order.last_hundreds == 0, order.operands - 2, -1)
    for step, present in enumerate(plan.rounds):
        sides = torch.stack([order.left[:, step], order.right[:, step]], 1)  # [N, 2]
        pair = Decimal(
            values.gather(1, sides.unsqueeze(-1).expand(-1, -1, values.shape[-1])),
            negative.gather(1, sides) ^ order.negate[:, step],
        )
        if plan.hundreds:
            pair, why = divide_by_hundreds(pair, order.hundreds[:, step], plan.width)
            reason = _first_reason(reason, why.amax(1))
        a, b = (Decimal(pair.limbs[:, side], pair.negative[:, side]) for side in (0, 1))
        operator = order.operator[:, step]
        result, why = operate(
            operator,
            a,
            b,
            present=present,
            width=plan.width,
            treatment=treatment,
            last=final_step == step,
            bits=plan.bits,
        )
        active = operator != NO_STEP
        reason = _first_reason(reason, why * active)
        result = Decimal(
            torch.where(active.unsqueeze(-1), result.limbs, a.limbs), torch.where(active, result.negative, a.negative)
        )
        place = order.left[:, step].unsqueeze(-1)  # [N, 1]
        values = values.scatter(1, place.unsqueeze(-1).expand(-1, -1, values.shape[-1]), result.limbs.unsqueeze(1))
        negative = negative.scatter(1, place, result.negative.unsqueeze(1))
        if watch is not None:
            watch(step, pair, result, reason, plan.width)
    number = Decimal(values[:, 0], negative[:, 0] ^ order.last_negate)
    if plan.hundreds:
        number, why = divide_by_hundreds(number, order.last_hundreds, plan.width)
        reason = _first_reason(reason, why)
    return number, reason


def _first_reason(reason: Tensor, why: Tensor) -> Tensor:
    """The earlier of two reasons [N]."""
    return torch.where(reason == 0, why, reason)


_SYMBOLS = {
    Operator.ADD: "+",
    Operator.SUBTRACT: "-",
    Operator.MULTIPLY: "*",
    Operator.DIVIDE: "/",
    Operator.POWER: "^",
}


def reductions(
    items: Items,
    *,
    max_operands: int = 8,
    result_digits: int,
    decimal_places: int | None = None,
    rounding: Rounding = "refuse",
    division: Division = "exact",
) -> list[list[Reduction]]:
    """The steps in which each row is evaluated, as text, for traces. Runs on the host and synchronises.

    Args: As in `evaluate`.

    Returns:
        For each row its steps in their order, up to the one that refused. A row that is refused before the first step
        has none.
    """
    steps: list[tuple[list[str], list[str], list[int]]] = []

    def watch(step: int, pair: Decimal, result: Decimal, reason: Tensor, width: Width) -> None:
        """Writes down the numbers of a round."""
        most = width.limbs * 8 + 1
        pairs, results = (canonical(*to_decimal(numbers, width, most)[:3]) for numbers in (pair, result))
        steps.append((pairs, results, reason.tolist()))

    treatment = Treatment(division, rounding, decimal_places)
    _, order = _evaluate(items, max_operands, result_digits, treatment, watch)
    operators = order.operator.tolist()
    first, last = (order.position.gather(1, side).tolist() for side in (order.left, order.end))
    found: list[list[Reduction]] = []
    for row, symbols in enumerate(operators):
        found.append([])
        for step, (pairs, results, reason) in enumerate(steps):
            refused_before = step > 0 and steps[step - 1][2][row] != 0
            if symbols[step] == NO_STEP or refused_before:
                break
            left, right = pairs[2 * row : 2 * row + 2]
            result = None if reason[row] else results[row]
            symbol = _SYMBOLS[Operator(symbols[step])]
            found[-1].append(Reduction(left, symbol, right, result, first[row][step], last[row][step]))
    return found
