"""Operations: one table of operators and one of named functions, on exact rationals.

In: fractions. Out: a fraction, or a `Refused`. The names by which languages call a function are in `languages/*.toml`.
An adapter's user adds a function with `FUNCTIONS["hypotenuse"] = Function(...)` before a text is read.
Try it: `pytest tests/text/test_grammar.py`
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from .refusals import Reason, Refused
from .values import Limits


__all__ = ["FUNCTIONS", "OPERATORS", "Function", "Operator"]

_MOST_FACTORIAL = 400  # it has fewer than `MOST_BITS` bits
MOST_BITS = 4096  # of a numerator or denominator; some thirty times those of the longest operands


class Operator(NamedTuple):
    """An operator between two operands. A sign binds as `SIGN`, between a product and a power."""

    precedence: int
    apply: Callable[[Fraction, Fraction, Limits], Fraction]
    from_right: bool = False


class Function(NamedTuple):
    """A named function of `fewest` to `most` arguments; `apply` returns None where it has no exact value."""

    apply: Callable[[list[Fraction]], Fraction | None]
    fewest: int = 1
    most: int = 1


def _divide(a: Fraction, b: Fraction, limits: Limits) -> Fraction:
    if b == 0:
        raise Refused(Reason.UNDEFINED)
    mode, quotient = limits.rounding.mode, a / b
    if mode in ("floor", "trunc"):
        return Fraction(math.floor(quotient) if mode == "floor" else math.trunc(quotient))
    return quotient


def _power(a: Fraction, b: Fraction, limits: Limits) -> Fraction:
    if b.denominator != 1 or b < 0:
        raise Refused(Reason.EXPONENT)
    if a == 0 and b == 0:
        raise Refused(Reason.UNDEFINED)
    if abs(a) in (0, 1):
        return a if b % 2 or a >= 0 and b else Fraction(1)
    if b * max(a.numerator.bit_length() - 1, a.denominator.bit_length() - 1) > MOST_BITS:
        raise Refused(Reason.OVERFLOW)
    return Fraction(a ** int(b))


def _root(arguments: list[Fraction]) -> Fraction | None:
    """The square root, if it is rational."""
    value = arguments[0]
    if value < 0:
        return None
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    return root if root * root == value else None


def _cube_root(arguments: list[Fraction]) -> Fraction | None:
    """The cube root, if it is rational."""
    value = arguments[0]
    root = Fraction(_whole_root(abs(value.numerator), 3), _whole_root(value.denominator, 3))
    root = root if value >= 0 else -root
    return root if root**3 == value else None


def _whole_root(value: int, degree: int) -> int:
    """The largest integer whose power is at most a value, by Newton's method."""
    root = 1 << -(-value.bit_length() // degree)
    while value and (smaller := ((degree - 1) * root + value // root ** (degree - 1)) // degree) < root:
        root = smaller
    return root if value else 0


def _factorial(arguments: list[Fraction]) -> Fraction | None:
    """The product of the integers up to one."""
    value = arguments[0]
    return Fraction(math.factorial(int(value))) if value.denominator == 1 and 0 <= value <= _MOST_FACTORIAL else None


def _of_integers(function: Callable[..., int]) -> Callable[[list[Fraction]], Fraction | None]:
    """A function of integers, which has no value for other numbers."""

    def applied(arguments: list[Fraction]) -> Fraction | None:
        if any(one.denominator != 1 for one in arguments):
            return None
        return Fraction(function(*map(int, arguments)))

    return applied


SIGN = 3
OPERATORS: dict[str, Operator] = {
    "+": Operator(1, lambda a, b, _: a + b),
    "-": Operator(1, lambda a, b, _: a - b),
    "*": Operator(2, lambda a, b, _: a * b),
    "/": Operator(2, _divide),
    "of": Operator(2, lambda a, b, _: a * b),  # after a per cent sign only
    "^": Operator(4, _power, from_right=True),
}
MANY = 64
FUNCTIONS: dict[str, Function] = {
    "sqrt": Function(_root),
    "abs": Function(lambda arguments: abs(arguments[0])),
    "floor": Function(lambda arguments: Fraction(math.floor(arguments[0]))),
    "ceil": Function(lambda arguments: Fraction(math.ceil(arguments[0]))),
    "min": Function(min, 2, MANY),
    "max": Function(max, 2, MANY),
    "add": Function(lambda arguments: arguments[0] + arguments[1], 2, 2),  # as spreadsheets have them
    "minus": Function(lambda arguments: arguments[0] - arguments[1], 2, 2),
    "multiply": Function(lambda arguments: arguments[0] * arguments[1], 2, 2),
    "divide": Function(lambda arguments: arguments[0] / arguments[1] if arguments[1] else None, 2, 2),
    "sum": Function(lambda arguments: sum(arguments, Fraction()), 2, MANY),
    "mean": Function(lambda arguments: sum(arguments, Fraction()) / len(arguments), 2, MANY),
    "median": Function(lambda arguments: Fraction(statistics.median(arguments)), 2, MANY),
    "gcd": Function(_of_integers(math.gcd), 2, MANY),
    "lcm": Function(_of_integers(math.lcm), 2, MANY),
    "mod": Function(lambda arguments: arguments[0] % arguments[1] if arguments[1] else None, 2, 2),
    "factorial": Function(_factorial),
    "cbrt": Function(_cube_root),
}
