"""The calculator: exact integer arithmetic on digit tensors (paper, section on the calculator).

In: two operands per calculation as left-aligned digits with signs, and an operator index. Out: result digits, sign and
a `Status`; an operation that has no result says so in its status and returns placeholders, never a wrong number. All
operations are computed for all rows and the wanted one is selected: no loop over rows, no host synchronisation, no
control flow on data, so it runs under `torch.compile(fullgraph=True)` on any device. Exact for any number of digits,
because digits are packed into limbs small enough for int64. It has no parameters and no gradient. Extend it with
`register_operation`; an operation may be a look-up in a table. Try it: `pytest tests/test_calculator.py`.

Shapes: D digits of an operand, R digits of a result, K operations, L limbs; `...` is any number of leading dimensions.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from .digits import PAD, is_number, parse_number, to_left_aligned, to_right_aligned


__all__ = [
    "OPERATIONS",
    "Division",
    "Operand",
    "Operation",
    "Outcome",
    "Result",
    "Status",
    "calculate",
    "evaluate_exactly",
    "from_limbs",
    "register_operation",
    "to_limbs",
]

Division = Literal["exact", "floor", "trunc"]


class Status(enum.IntEnum):
    """What became of a calculation; only `OK` comes with a number."""

    OK = 0
    NONE = 1  # no arithmetic was asked for
    OVERFLOW = 2  # the result has more digits than fit
    UNDEFINED = 3  # division by zero, or an operand that is no number
    INEXACT = 4  # a division with a remainder under `division="exact"`


class Operand(NamedTuple):
    """What an operation gets: `digits` [..., D] int64 in 0..9, least significant last; `sign` [...] int64 in 0..1."""

    digits: Tensor
    sign: Tensor


class Outcome(NamedTuple):
    """What an operation returns: `digits` [..., W] int64 in 0..9, least significant last, W of its own choice;
    `sign` [...] int64 in 0..1 (that of zero does not matter); `status` [...] int64."""

    digits: Tensor
    sign: Tensor
    status: Tensor


class Result(NamedTuple):
    """What `calculate` returns: `digits` [..., R] int64, left-aligned, all `PAD` unless the status is OK;
    `sign` [...] int64 in 0..1; `status` [...] int64, a `Status`."""

    digits: Tensor
    sign: Tensor
    status: Tensor


@dataclass(frozen=True)
class Operation:
    """One operation of the calculator.

    Args:
        name: The operation's name, for instance `"add"`.
        symbol: Its key in `OPERATIONS` and in `IGCConfig(operations=...)`, for instance `"+"`.
        function: `(a, b, division) -> Outcome` on tensors; total, and bound by the same rules as `calculate`. An
            outcome with a digit outside 0..9 or a sign outside 0..1 counts as UNDEFINED.
        oracle: `(a, b, division) -> int | Status` on Python integers; says the same as `function`.
    """

    name: str
    symbol: str
    function: Callable[[Operand, Operand, Division], Outcome]
    oracle: Callable[[int, int, Division], int | Status]


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
        operator: [...] int64, index into `operations`. K (and every other index outside 0..K-1) means "no arithmetic".
        operations: K symbols out of `OPERATIONS`.
        result_digits: R, the most digits that a result may have.
        division: What a division with a remainder gives: `"exact"` refuses (INEXACT), `"floor"` rounds down as
            Python's `//`, `"trunc"` rounds toward zero.

    Returns:
        `Result` with digits [..., R], sign [...] and status [...]. The status is the first of these that applies:
        NONE; UNDEFINED (a malformed operand or sign, division by zero); INEXACT; OVERFLOW; OK.

    Raises:
        TypeError: A tensor is not int64.
        ValueError: A shape, a symbol, `result_digits` or `division` is not one of the above.
    """
    _check_arguments(digits, signs, operator, operations, result_digits, division)
    well_formed = is_number(digits) & ((signs == 0) | (signs == 1))  # [..., 2]
    right = torch.where(well_formed.unsqueeze(-1), to_right_aligned(digits), 0)  # [..., 2, D]
    signs = torch.where(well_formed, signs, 0)
    a, b = (Operand(right[..., side, :], signs[..., side]) for side in (0, 1))
    outcome = Outcome(
        torch.zeros_like(a.digits[..., :1]), torch.zeros_like(operator), torch.full_like(operator, int(Status.NONE))
    )
    for index, symbol in enumerate(operations):
        computed = _checked(OPERATIONS[symbol].function(a, b, division), symbol, operator.shape)
        outcome = _select(operator == index, computed, outcome)
    malformed = (outcome.status != int(Status.NONE)) & ~well_formed.all(-1)
    return _finish(outcome, malformed, result_digits)


def _check_arguments(
    digits: Tensor, signs: Tensor, operator: Tensor, operations: Sequence[str], result_digits: int, division: str
) -> None:
    """Refuses what `calculate` cannot use; looks at shapes and types only, never at values on a device."""
    for name, tensor in (("digits", digits), ("signs", signs), ("operator", operator)):
        if tensor.dtype != torch.int64:
            raise TypeError(f"`{name}` must be int64, got {tensor.dtype}. Pass classes, not probabilities.")
    if digits.dim() < 2 or digits.shape[-2] != 2 or digits.shape[-1] == 0:
        raise ValueError(f"`digits` must have the shape [..., 2, D] with D >= 1, got {tuple(digits.shape)}.")
    if signs.shape != digits.shape[:-1] or operator.shape != digits.shape[:-2]:
        raise ValueError(
            f"`signs` and `operator` must have the shapes {tuple(digits.shape[:-1])} and {tuple(digits.shape[:-2])} "
            f"that belong to `digits` {tuple(digits.shape)}, got {tuple(signs.shape)} and {tuple(operator.shape)}."
        )
    if result_digits < 1:
        raise ValueError(f"`result_digits={result_digits}` holds no digit: it must be at least 1.")
    if division not in get_args(Division):
        raise ValueError(f'`division={division!r}` is unknown: choose "exact", "floor" or "trunc".')
    for symbol in operations:
        _look_up(symbol)


def _look_up(symbol: str) -> Operation:
    """The operation of a symbol, or an error that lists the known ones."""
    if symbol not in OPERATIONS:
        raise ValueError(
            f"The operation {symbol!r} is unknown: known are {', '.join(map(repr, OPERATIONS))}. "
            "Add it with `register_operation`."
        )
    return OPERATIONS[symbol]


def _checked(outcome: Outcome, symbol: str, shape: torch.Size) -> Outcome:
    """Refuses an operation's outcome whose shapes would otherwise broadcast into wrong numbers."""
    got = (outcome.digits.shape[:-1], outcome.sign.shape, outcome.status.shape)
    if any(leading != shape for leading in got):
        raise ValueError(
            f"The operation {symbol!r} must return digits [..., W], sign [...] and status [...] with "
            f"[...] = {tuple(shape)}, got digits {tuple(outcome.digits.shape)}, sign {tuple(outcome.sign.shape)} and "
            f"status {tuple(outcome.status.shape)}."
        )
    return outcome


def _select(chosen: Tensor, yes: Outcome, no: Outcome) -> Outcome:
    """`yes` where `chosen` [...], else `no`; digits are widened with zeros to the wider of the two."""
    width = max(yes.digits.shape[-1], no.digits.shape[-1])
    return Outcome(
        torch.where(chosen.unsqueeze(-1), _widen(yes.digits, width), _widen(no.digits, width)),
        torch.where(chosen, yes.sign, no.sign),
        torch.where(chosen, yes.status, no.status),
    )


def _widen(right: Tensor, width: int) -> Tensor:
    """[..., W] to [..., max(W, width)] with zeros in front, which change no right-aligned number."""
    return torch.nn.functional.pad(right, (max(width - right.shape[-1], 0), 0))


def _finish(outcome: Outcome, malformed: Tensor, result_digits: int) -> Result:
    """Settles the status, cuts to R digits, aligns left and blanks what is no number."""
    right = _widen(outcome.digits, result_digits)  # [..., W], W >= R
    surplus, right = right[..., : right.shape[-1] - result_digits], right[..., -result_digits:]
    is_digit = (outcome.digits >= 0) & (outcome.digits <= 9)  # ours always are, a registered operation's may not be
    is_whole = is_digit.all(-1) & ((outcome.sign == 0) | (outcome.sign == 1))
    ok = outcome.status == int(Status.OK)
    status = torch.where(ok & (surplus != 0).any(-1), int(Status.OVERFLOW), outcome.status)
    status = torch.where(malformed | (ok & ~is_whole), int(Status.UNDEFINED), status)
    ok = status == int(Status.OK)
    negative = ok & (outcome.sign == 1) & (right != 0).any(-1)  # zero has no sign
    left = torch.where(ok.unsqueeze(-1), to_left_aligned(right), PAD)
    return Result(left, negative.to(torch.int64), status)


# Limbs: an integer in base 10^size, most significant limb first, so that one int64 operation handles `size` digits.

_ADDITION_LIMB = 17  # 10^17 * 10 and sums of two such limbs stay below 2^63 = 9.2 * 10^18


def to_limbs(right: Tensor, size: int, count: int | None = None) -> Tensor:
    """Packs digits into limbs.

    Args:
        right: [..., W] int64 in 0..9, least significant last.
        size: Digits per limb, 1..18.
        count: L, the number of limbs; `None` is as many as W digits need. Limbs in front are zero.

    Returns:
        [..., L] int64 in 0..10^size - 1, least significant last.
    """
    count = count or -(-right.shape[-1] // size)
    limbs = _widen(right, count * size).unflatten(-1, (count, size))  # [..., L, size]
    return (limbs * _powers(size, right.device)).sum(-1)


def from_limbs(limbs: Tensor, size: int) -> Tensor:
    """Unpacks limbs [..., L] in 0..10^size - 1 into digits [..., L * size]; the inverse of `to_limbs`."""
    digits = torch.div(limbs.unsqueeze(-1), _powers(size, limbs.device), rounding_mode="floor") % 10
    return digits.flatten(-2)  # [..., L, size] -> [..., L * size]


def _powers(size: int, device: torch.device) -> Tensor:
    """10^(size-1) .. 10^0, made on the device: a copied constant would synchronise with the host."""
    return torch.full((size,), 10, device=device).cumprod(0).flip(0) // 10


def _carry(limbs: Tensor, base: int) -> tuple[Tensor, Tensor]:
    """Brings limbs [..., L] of any sign into 0..base-1 in one pass from the right.

    Returns the limbs and what is left over at the top [...]: negative exactly if the number was.
    """
    carried = torch.zeros_like(limbs[..., 0])
    settled = []
    for limb in reversed(limbs.unbind(-1)):
        limb = limb + carried
        carried = torch.div(limb, base, rounding_mode="floor")
        settled.append(limb - carried * base)
    return torch.stack(settled[::-1], -1), carried


def _add(a: Operand, b: Operand, division: Division) -> Outcome:
    """a + b: the limbs are added with their signs; a negative sum is negated and carried again."""
    count = -(-(a.digits.shape[-1] + 1) // _ADDITION_LIMB)  # one digit more than the operands
    plus_a, plus_b = (to_limbs(x.digits, _ADDITION_LIMB, count) * (1 - 2 * x.sign).unsqueeze(-1) for x in (a, b))
    total = plus_a + plus_b  # [..., L], limbs of either sign
    _, top = _carry(total, 10**_ADDITION_LIMB)
    negative = top < 0
    total, _ = _carry(torch.where(negative.unsqueeze(-1), -total, total), 10**_ADDITION_LIMB)
    return Outcome(from_limbs(total, _ADDITION_LIMB), negative.to(torch.int64), torch.zeros_like(a.sign))


def _subtract(a: Operand, b: Operand, division: Division) -> Outcome:
    """a - b."""
    return _add(a, Operand(b.digits, 1 - b.sign), division)


def _multiplication_limb(width: int) -> int:
    """The widest limb for which a column of the product, with what is carried into it, stays below 2^63.

    A column sums at most L products of two limbs; the carry from the column below is less than a limb times L.
    """
    return max(
        size for size in range(1, 10) if (count := -(-width // size)) * (10**size - 1) ** 2 + count * 10**size < 2**63
    )


def _multiply(a: Operand, b: Operand, division: Division) -> Outcome:
    """a * b: all products of limbs, summed along the anti-diagonals, then one carry pass."""
    size = _multiplication_limb(a.digits.shape[-1])
    x, y = to_limbs(a.digits, size), to_limbs(b.digits, size)  # [..., L]
    count = x.shape[-1]
    products = x.unsqueeze(-1) * y.unsqueeze(-2)  # [..., L, L]
    # Rows of 2L written one after another and read back as rows of 2L - 1 shift row i by i: columns are places.
    skewed = torch.nn.functional.pad(products, (0, count)).flatten(-2)[..., : count * (2 * count - 1)]
    columns = skewed.unflatten(-1, (count, 2 * count - 1)).sum(-2)  # [..., 2L-1]
    limbs, _ = _carry(_widen(columns, 2 * count), 10**size)
    return Outcome(from_limbs(limbs, size), a.sign ^ b.sign, torch.zeros_like(a.sign))


def _divide(a: Operand, b: Operand, division: Division) -> Outcome:
    """a / b by long division; `division` decides what becomes of a remainder."""
    zero_divisor = (b.digits == 0).all(-1)
    quotient, remainder = _long_division(a.digits, b.digits)
    has_remainder = (remainder != 0).any(-1)
    sign = a.sign ^ b.sign
    status = torch.zeros_like(sign)
    if division == "exact":
        status = torch.where(has_remainder, int(Status.INEXACT), status)
    if division == "floor":  # below zero, rounding down is away from zero
        limbs = to_limbs(quotient, _ADDITION_LIMB)
        increment = (has_remainder & (sign == 1)).to(torch.int64).unsqueeze(-1)  # [..., 1]
        limbs, _ = _carry(limbs + _widen(increment, limbs.shape[-1]), 10**_ADDITION_LIMB)
        quotient = from_limbs(limbs, _ADDITION_LIMB)
    return Outcome(quotient, sign, torch.where(zero_divisor, int(Status.UNDEFINED), status))


def _long_division(dividend: Tensor, divisor: Tensor) -> tuple[Tensor, Tensor]:
    """Quotient [..., D] and remainder [..., L] (limbs) of digits [..., D] by digits [..., D].

    For each digit, all ten multiples of the divisor are subtracted at once; the last difference that is not negative
    is the new remainder, its number the digit of the quotient. Differences that are too large run over at the top;
    the chosen one is below the divisor and fits. For a divisor of zero the values mean nothing.
    """
    digit_range = torch.arange(10, device=divisor.device).unsqueeze(-1)  # [10, 1]
    multiples = to_limbs(divisor, _ADDITION_LIMB).unsqueeze(-2) * digit_range  # [..., 10, L], not yet carried
    remainder = torch.zeros_like(multiples[..., 0, :])  # [..., L]
    count = remainder.shape[-1]
    quotient = []
    for digit in dividend.unbind(-1):
        next_digit = _widen(digit.unsqueeze(-1), count)  # [..., L]
        differences, top = _carry((remainder * 10 + next_digit).unsqueeze(-2) - multiples, 10**_ADDITION_LIMB)
        q = (top >= 0).sum(-1) - 1  # [...]
        chosen = q[..., None, None].expand(*q.shape, 1, count)
        remainder = differences.gather(-2, chosen).squeeze(-2)
        quotient.append(q)
    return torch.stack(quotient, -1), remainder


def _divide_integers(a: int, b: int, division: Division) -> int | Status:
    """Python's side of `_divide`."""
    if b == 0:
        return Status.UNDEFINED
    quotient, remainder = divmod(a, b)
    if remainder == 0 or division == "floor":
        return quotient
    if division == "trunc":
        return quotient + (quotient < 0)
    return Status.INEXACT


OPERATIONS: dict[str, Operation] = {
    "+": Operation("add", "+", _add, lambda a, b, division: a + b),
    "-": Operation("subtract", "-", _subtract, lambda a, b, division: a - b),
    "*": Operation("multiply", "*", _multiply, lambda a, b, division: a * b),
    "/": Operation("divide", "/", _divide, _divide_integers),
}


def register_operation(operation: Operation) -> None:
    """Adds an operation under its symbol, for `calculate`, `evaluate_exactly` and configurations.

    Raises:
        ValueError: The symbol or the name is taken, also `"none"`, which means that no arithmetic is asked.
    """
    if "none" in (operation.symbol, operation.name):
        raise ValueError('"none" means that no arithmetic is asked. Choose another name and symbol.')
    for known in OPERATIONS.values():
        if operation.symbol == known.symbol or operation.name == known.name:
            raise ValueError(
                f"The operation `{operation.name}` ({operation.symbol!r}) collides with `{known.name}` "
                f"({known.symbol!r}). Choose a name and a symbol of its own."
            )
    OPERATIONS[operation.symbol] = operation


def evaluate_exactly(operator: str, a: str | int, b: str | int, division: Division = "exact") -> str | Status:
    """Calculates with Python integers: the oracle for data and training.

    Args:
        operator: A symbol out of `OPERATIONS`.
        a, b: Integers, or their text as `parse_number` takes it.
        division: As in `calculate`.

    Returns:
        The result as canonical text of any length, or the `Status` that says why there is none.

    Raises:
        TypeError, ValueError: An unknown symbol or `division`, or an operand that is no integer.
    """
    if division not in get_args(Division):
        raise ValueError(f'`division={division!r}` is unknown: choose "exact", "floor" or "trunc".')
    operation = _look_up(operator)
    x, y = (number if isinstance(number, int) else _to_int(number) for number in (a, b))
    result = operation.oracle(x, y, division)
    return result if isinstance(result, Status) else str(result)


def _to_int(text: str) -> int:
    """A parsed number as a Python integer."""
    sign, digits = parse_number(text)
    return -int(digits) if sign else int(digits)
