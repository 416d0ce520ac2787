"""Operators and operands of generated rows, by the kind of a row: ordinary, too long, undefined, inexact.

Operand lengths are equal in half of the calculations and drawn independently in the others. Half of the divisions draw
a dividend and one of its divisors, as BIG-bench does; the other half a divisor and a quotient. (The paper attributes
its weaker division to a training distribution that differs from the benchmark's.)
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..text.values import Limits
from .bigbench import random_divisor
from .mixture import Mixture, happens
from .wording.phrases import of_length


Calculation = tuple[str, int, int]  # operator, first operand, second operand
_LONGEST = 20  # digits of `Mixture.long`


@dataclass(frozen=True)
class Operands:
    """Draws calculations; fields as of `ArithmeticRows`."""

    max_digits: int
    limits: Limits
    mixture: Mixture
    excluded: frozenset[tuple[Fraction, str, Fraction]]  # first operand, operator, second operand

    def draw(self, kind: str, rng: random.Random) -> Calculation:
        """A calculation for a row of this kind that is not excluded."""
        while True:
            operator, a, b = self._calculation(kind, rng)
            if self.allows(operator, (a, b)):
                return operator, a, b

    def allows(self, operator: str, operands: Sequence[str | int]) -> bool:
        """Whether a calculation is not excluded."""
        return (Fraction(operands[0]), operator, Fraction(operands[1])) not in self.excluded

    def short(self, rng: random.Random) -> int:
        """A number of at most `max_digits` digits."""
        return of_length(rng.randint(1, self.max_digits), rng, zero=True)

    def longest(self, rng: random.Random) -> int:
        """The digits of the longest number of an ordinary row or a text by hand."""
        most = min(_LONGEST, self.limits.digits) if happens(self.mixture.long, rng) else 0
        return max(self.max_digits, most)

    def overflowing(self) -> list[str]:
        """Operations in which operands that can be read may give a result of more than R digits."""
        longest, result = self.limits.digits, self.limits.result_digits
        possible = {"+": longest >= result, "*": 2 * longest >= result + 2}
        return [symbol for symbol in self.limits.operations if possible.get(symbol)]

    def _calculation(self, kind: str, rng: random.Random) -> Calculation:
        if kind == "undefined":
            return "/", self.short(rng), 0
        if kind == "inexact":
            return "/", *self._with_remainder(self.max_digits, rng)
        if kind == "long result":
            return self._long_result(rng)
        operator = rng.choice(self.limits.operations)
        if kind == "long operand":
            too_long = self.limits.digits + 1, self.limits.digits + 3
            pair = [self.short(rng), of_length(rng.randint(*too_long), rng)]
            if rng.random() < 0.25:
                pair[0] = of_length(rng.randint(*too_long), rng)
            rng.shuffle(pair)
            return operator, pair[0], pair[1]
        most = self.longest(rng)
        a, b = self._exact_division(most, rng) if operator == "/" else self._pair(most, rng)
        if happens(self.mixture.special, rng):
            small = rng.randrange(2)
            pairs = ((b, b), (0, b), (a, 1)) if operator == "/" else ((a, a), (small, b), (a, small))
            a, b = rng.choice(pairs)
        if rng.random() < self.mixture.negative:
            a, b = rng.choice(((-a, b), (a, -b), (-a, -b)))
        return operator, a, b

    def _pair(self, most: int, rng: random.Random) -> tuple[int, int]:
        """Operands of equal length in half of the cases, of independent lengths in the others; see `multiples`."""
        digits = rng.randint(1, most)
        other = digits if rng.random() < 0.5 else rng.randint(1, most)
        a, b = of_length(digits, rng, zero=True), of_length(other, rng, zero=True)
        if a and b and happens(self.mixture.multiples, rng):
            return (a - a % b, b) if a > b else (a, b - b % a)
        return a, b

    def _exact_division(self, most: int, rng: random.Random) -> tuple[int, int]:
        """An exact division from one of two distributions; with integer quotients, one in five has a remainder."""
        draw = rng.random()
        if self.limits.rounding.division != "exact" and draw < 0.2:
            return self._with_remainder(most, rng)
        digits = rng.randint(1, most)
        low, high = 10 ** (digits - 1), 10**digits  # the dividend is in low..high-1
        if rng.random() < 0.5:
            dividend = rng.randrange(low, high)
            return dividend, random_divisor(dividend, rng)
        divisor = of_length(rng.randint(1, digits), rng)
        if draw > 0.96:  # 0 is in none of the ranges of dividends
            return 0, divisor
        return divisor * rng.randint(-(-low // divisor), (high - 1) // divisor), divisor

    def _with_remainder(self, most: int, rng: random.Random) -> tuple[int, int]:
        """A division that leaves a remainder; its quotient may be below one."""
        while True:
            a, b = self._pair(most, rng)
            if b and a % b:
                return a, b

    def _long_result(self, rng: random.Random) -> Calculation:
        """Operands that can be read, with a result of more than R digits."""
        longest, result = self.limits.digits, self.limits.result_digits
        operator = rng.choice(self.overflowing())
        if operator == "+":  # both at least half of 10^D, so the sum has D + 1 digits
            half = 5 * 10 ** (longest - 1)
            return operator, rng.randrange(half, 2 * half), rng.randrange(half, 2 * half)
        first = rng.randint(max(1, result + 2 - longest), longest)
        second = rng.randint(max(1, result + 2 - first), longest)  # R + 2 digits in all give R + 1 in the product
        return operator, of_length(first, rng), of_length(second, rng)
