"""The numbers of a request in words: values, signs, and what is numeric and not understood."""

import time
from fractions import Fraction

import pytest

from peft_igc.text.literals import numbers


def found(text):
    """The numbers of a text as texts, and `?` for each thing that is not understood, in order."""
    return ["?" if one.value is None else str(one.value) for one in numbers(text)]


LITERALS = {
    "What is 12 plus 5? Then add 7.": ["12", "5", "7"],
    "What is 1,234.50 times -3?": ["2469/2", "-3"],
    "Is -5 minus 3 right?": ["-5", "3"],
    "796 -229": ["796", "229"],
    "(5)(-3)": ["5", "-3"],
    "1 - -2": ["1", "-2"],
    "$5 plus -$3": ["5", "-3"],
    "What is £85 plus £79?": ["85", "79"],
    "5€ plus 3 €": ["5", "3"],
    "=MINUS(6868,27)": ["?"],
    "=SUM(6868; 27)": ["6868", "27"],
    "12, 34 and 56.": ["12", "34", "56"],
    "minus 5 and negative 3": ["-5", "-3"],
    "What is Minus 5 times minus 3?": ["-5", "-3"],
    "HOW MUCH IS 2417 MINUS 360": ["2417", "360"],
    "5 minus 3 is 2": ["5", "3", "2"],
    "50% minus (3) minus 2": ["?", "3", "2"],
    "each one of 5": ["5"],
    "5 plus one": ["5", "?"],
    "½ of 8 + 3": ["?", "8", "3"],
    "5 million plus 3": ["5", "?", "3"],
    "twenty-five plus 3": ["?", "?", "3"],
    "5km plus 3": ["?", "3"],
    "5 k plus 3": ["?", "3"],
    "3,5 plus 1": ["?", "1"],
    "10:30 and 5": ["?", "?", "5"],
    "covid-19 and 3": ["?", "3"],
    "2⁴ times 3": ["?", "?", "3"],
    "91 minus 37!": ["91", "37"],
    "5 plus 3!": ["5", "?"],
    "- 5 apples": ["?"],
    "fünf plus 3": ["?", "3"],
    "nothing here": [],
    "": [],
}


def test_numbers_are_found_with_values_and_signs():
    assert {text: found(text) for text in LITERALS} == LITERALS


def test_a_word_before_a_number_may_be_its_sign():
    assert numbers("8 pens minus 5 pens")[-1].may_negate
    assert not any(numbers(text)[-1].may_negate for text in ("8 minus 5", "add minus 5", "8 minus minus 5"))


def test_a_number_has_its_place():
    text = "Is -$1,250.50 right?"
    (one,) = numbers(text)
    assert text[slice(*one.span)] == "1,250.50"
    assert one.value == Fraction("-1250.5")


HOSTILE = ["9" * 100_000, "1," * 20_000, "-" * 50_000 + "1", "5!" + "!" * 50_000, "a-" * 20_000, "- " * 20_000 + "1"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_takes_long(text):
    numbers("1")
    start = time.perf_counter()
    numbers(text)
    assert time.perf_counter() - start < 1
