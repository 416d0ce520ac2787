"""The numbers of a text: values, signs, what is numeric and not understood, and which integers are broken."""

from fractions import Fraction

from peft_igc.text.literals import ends_in_minus, numbers


def test_a_word_before_a_number_may_be_its_sign():
    assert numbers("8 pens minus 5 pens")[-1].may_negate
    assert not any(numbers(text)[-1].may_negate for text in ("8 minus 5", "add minus 5", "8 minus minus 5"))


def test_a_number_has_its_place():
    text = "Is -$1,250.50 right?"
    (one,) = numbers(text)
    assert text[slice(*one.span)] == "1,250.50"
    assert one.value == Fraction("-1250.5")


def test_a_token_ends_in_a_sign_that_a_number_may_have():
    signs = {"-": True, " -": True, "=-": True, "--": True, "---": False, "x-": False, "=": False}
    assert {token: ends_in_minus(token) for token in signs} == signs
