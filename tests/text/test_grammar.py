"""The grammar against trees whose value is known by construction, and functions that users add."""

import random
from fractions import Fraction

import pytest

from peft_igc.text import FUNCTIONS, Function, Limits, Reason, read
from peft_igc.text.grammar import evaluate
from peft_igc.text.values import Item, written


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


def test_values_are_written_in_canonical_form():
    values = {"1/8": "0.125", "-25/2": "-12.5", "100": "100", "0": "0"}
    assert {value: written(Fraction(value)) for value in values} == values
    with pytest.raises(ValueError, match="Round it first"):
        written(Fraction(1, 3))


def test_a_function_that_a_user_adds_is_read():
    assert read("triple(4) + 1 =").reason is Reason.NOT_UNDERSTOOD
    FUNCTIONS["round"] = Function(lambda value: Fraction(round(value)))
    try:
        assert read("round(2.6) + 1 =").text == "4"
    finally:
        del FUNCTIONS["round"]
    assert read("round(2.6) + 1 =").reason is Reason.NOT_UNDERSTOOD
