"""The grammar against trees whose value is known by construction."""

import random
from fractions import Fraction

from peft_igc.text import Limits
from peft_igc.text.grammar import evaluate
from peft_igc.text.values import Item


def items(text):
    """The items of a text with spaces between them."""
    return [Item("number", (0, 0), Fraction(one)) if one[-1].isdigit() else Item(one, (0, 0)) for one in text.split()]


def tree(rng, depth):
    """A random expression with brackets around each operation, and its value."""
    if depth == 0 or rng.random() < 0.2:
        number = rng.randint(0, 99)
        return str(number), Fraction(number)
    (left, a), (right, b) = tree(rng, depth - 1), tree(rng, depth - 1)
    sign = rng.choice("+-*/")
    if sign == "/" and b == 0:
        sign = "+"
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else a}[sign]
    return f"( {left} {sign} {right} )", value


def test_values_are_exact_to_the_end():
    rng = random.Random(0)
    for _ in range(500):
        text, value = tree(rng, 3)
        assert evaluate(items(text), Limits(operands=64), []).value == value, text
