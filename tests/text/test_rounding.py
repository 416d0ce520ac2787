"""Promises of roundings: every mode against Python's `decimal`, and what a text may ask for."""

import decimal
import random
import re
from fractions import Fraction

import pytest

from peft_igc.text import CONTROL, Limits, Reason, Value, read
from peft_igc.text.requests import answer
from peft_igc.text.rounding import Rounding, asked_rounding


MODES = {"half_even": "ROUND_HALF_EVEN", "half_up": "ROUND_HALF_UP", "down": "ROUND_DOWN", "up": "ROUND_UP"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("significant", [False, True])
def test_quotients_of_seven_digits_are_rounded_as_decimals_are(mode, significant):
    rng = random.Random(f"{mode}{significant}")
    for _ in range(400):
        a, b, places = rng.randint(-9_999_999, 9_999_999), rng.randint(1, 9_999_999), rng.randint(1, 12)
        context = decimal.Context(prec=places if significant else 60, rounding=MODES[mode])
        if significant:
            due = context.divide(decimal.Decimal(a), decimal.Decimal(b))
        else:
            exact = decimal.Context(prec=200).divide(decimal.Decimal(a), decimal.Decimal(b))
            due = exact.quantize(decimal.Decimal(1).scaleb(-places), context=context)
        found = read(f"{a} / {b} =", Limits(rounding=Rounding.of(f"{mode}:{places}{'s' * significant}")))
        exact_value = Fraction(a, b)
        if isinstance(found, Value):
            assert found.value in (Fraction(due), exact_value)  # a value that ends is not rounded
            assert found.rounded == (found.value != exact_value)
        else:
            assert found.reason is Reason.INEXACT  # rounded to zero
            assert due == 0


@pytest.mark.parametrize("setting", ["", "half_up", "refuse:2", "half_up:-1", "half_up:2x", "half_up:0s", "near:2", 2])
def test_a_setting_that_is_none_is_an_error_that_names_the_choice(setting):
    with pytest.raises(ValueError, match="half_up:2"):
        Rounding.of(setting)


def test_a_request_in_words_that_asks_for_places_is_rounded_to_them():
    for text, value in (
        ("What is 12 shared by 7, to 2 decimal places?", "1.71"),
        ("To the nearest tenth, 12 shared by 7", "1.7"),
        ("14 over 7 with 2 decimals", "2.00"),
    ):
        first, wish, last = (re.search(words, text).span() for words in (r"\b1[24]\b", "2 d|tenth", r"\b7\b"))
        found = answer(text, "/", (first, last), (False, False), Limits()).found
        assert (found.text, found.rounded) == (value, value != "2.00")
        mistaken = answer(text, "/", (first, wish), (False, False), Limits()).found
        assert mistaken.reason is Reason.NOT_UNDERSTOOD


def test_two_wishes_of_one_text_are_none():
    assert asked_rounding("to 2 decimal places, or to 3 decimal places") is None


@pytest.mark.parametrize("header", ["", "\n{0}assistant\n", "{0}assistant{0}\n\n"])
def test_a_wish_before_the_header_of_an_answer_is_found_and_leaves_the_places_of_a_text(header):
    text = f"{CONTROL}user\nRound 10 / 3 to 2 decimal places, please{CONTROL}{header.format(CONTROL)}"
    assert ((found := read(text)).text, text[slice(*found.span)]) == ("3.33", "10 / 3")
    assert read(text.replace("Round 10 / 3 to 2 decimal places, please", "5; 10 / 5 =")).reaches  # read as strictly
