"""The numbers of a text: values, signs, what is numeric and not understood, and which integers are broken."""

import time
from fractions import Fraction

import pytest

from peft_igc.text.literals import ends_in_minus, integers, numbers


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


INTEGERS = {
    "12 + 30 = 42": ["12", "30", "42"],
    "12+30=": ["12", "30"],
    "(5)*[6]/{7}": ["5", "6", "7"],
    "$5 £85 5€ ¥20": ["5", "85", "5", "20"],
    "5×7÷3\u22122": ["5", "7", "3", "2"],
    "007 000": ["7", "0"],
    "1,234 and 12,345,678": ["1234", "12345678"],
    "12,34 0,123 1234,567": ["!", "!", "!"],
    "5. Then 6, 7: 8; 9?": ["5", "6", "7", "8", "9"],
    "wait 5... or 6..": ["5", "6"],
    "5-3 -5 =-5 --5 x-5 %-5": ["5", "3", "5", "5", "5", "!", "!"],
    "5-year 5- 5-(3)": ["!", "5", "5", "3"],
    "'5' 5's 5'th": ["5", "!", "!"],
    "91 minus 37! 5! 37!5": ["91", "37", "!", "!", "5"],
    r"\(5 + 3\) 5\times 3": ["5", "3", "!", "3"],
    "**5** 2**8": ["!", "!", "!"],
    "5% 5th 5² 5^2 2^3 x3 5_6 5٣ é5 5é 日本5": ["!"] * 14,
    "1.5 .5 0.05 1.000.000": ["!"] * 8,
    "10:30 1'000 1\u00a0000": ["!"] * 6,
}


def test_an_integer_is_whole_if_it_touches_nothing_that_may_belong_to_it():
    found = {text: [digits or "!" for _, _, digits in integers(text)] for text in INTEGERS}
    assert found == INTEGERS
    assert integers("is 1,234.") == [(3, 8, "1234")]  # its digits and separators


def test_a_token_ends_in_a_sign_that_a_number_may_have():
    signs = {"-": True, " -": True, "=-": True, "--": True, "---": False, "x-": False, "=": False}
    assert {token: ends_in_minus(token) for token in signs} == signs
