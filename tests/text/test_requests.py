"""Requests in words: exact values, and the few contradictions that refuse.

Try it: `pytest tests/text/test_requests.py`
"""

import re

import pytest

from peft_igc.text import CONTROL, Limits, Value
from peft_igc.text.refusals import Reason
from peft_igc.text.requests import Meant, answer


def answered(text, operation, *, swapped=False, negated=(False, False), **limits):
    """What the first and the last number of a text are worth."""
    spans = [match.span() for match in re.finditer(r"[0-9][0-9,.]*[0-9]|[0-9]", text)]
    pair = (spans[-1], spans[0]) if swapped else (spans[0], spans[-1])
    return answer(text, Meant(operation, pair, negated), Limits(**limits))


def outcome(*args, **kwargs):
    """The value as text, or the reason of the refusal."""
    found = answered(*args, **kwargs).found
    return found.text if isinstance(found, Value) else found.reason


def test_a_request_in_words_has_an_exact_value():
    for text, operation, value in (
        ("What is 58 times 36?", "*", "2088"),
        ("Take 1,250 and add 875 to it.", "+", "2125"),
        ("the sum of -12 and 5", "+", "-7"),
        ("What is negative 12 plus $5?", "+", "-7"),
        ("How many are 12 boxes of 7 pens each?", "*", "84"),
        ("What must I add to 3 to get 8?", "-", "-5"),
        ("How many times does 3 go into 12?", "/", Reason.INEXACT),
    ):
        assert outcome(text, operation) == value, text


def test_a_word_is_a_sign_or_the_operation_and_never_both():
    text = "five cats, 8, minus 5"
    assert outcome(text, "-") == "3"
    assert outcome(text, "+", negated=(False, True)) == "3"
    assert outcome(text, "+") is Reason.OTHER_OPERATION
    assert outcome(text, "-", negated=(False, True)) == "13"


def test_a_text_that_states_one_operation_is_not_answered_with_another_one():
    for text, meant in (
        ("25000 g minus 6400 g. How many grams?", "+"),
        ("42 per row times 58 rows. Total?", "+"),
        ("hey whats 62 MINUS 35", "+"),
        ("What do you get if 12 is divided by 4?", "*"),
        ("Was macht 62 mal 35?", "+"),
        ("12 × 4 please", "+"),
        ("the product of 12 and 4", "+"),
        ("Add 12 and 4", "*"),
    ):
        assert outcome(text, meant) is Reason.OTHER_OPERATION, text


def test_a_text_may_mean_the_inverse_of_what_it_names():
    for text in (
        "By what must 3 be multiplied to get 12?",
        "How many times does 3 go into 12?",
        "What times 3 makes 12?",
    ):
        assert outcome(text, "/", swapped=True) == "4"
        assert outcome(text, "+") is Reason.OTHER_OPERATION


def test_a_text_that_names_two_operations_states_none():
    assert outcome("Add 12 minus 4", "*") == "48"
    assert outcome("I added a sum. What is 12 minus 4?", "-") == "8"


def test_an_operand_that_is_not_understood_or_touched_by_what_is_not_refuses():
    for text in ("12.5 plus 3", "3 million plus 4", "twice 3 plus 4", "½ 3 plus 4", "10:30 plus 4"):
        assert outcome(text, "+") is Reason.NOT_UNDERSTOOD, text


def test_only_the_turn_of_the_operands_counts():
    assert outcome(f"Multiply them.{CONTROL}What is 12 plus 4{CONTROL}", "+") == "16"


def test_limits_refuse():
    assert outcome("12 boxes of 4", "*", digits=1) is Reason.TOO_LONG
    assert outcome("12 boxes of 9", "*", result_digits=2) is Reason.OVERFLOW
    assert outcome("12 shared by 0", "/") is Reason.UNDEFINED
    assert outcome("13 shared by 4", "/") is Reason.INEXACT
    assert outcome("13 shared by 4", "/", rounding="floor") == "3"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("What is 12 shared by 7, to 2 decimal places?", "1.71"),
        ("To the nearest tenth, 12 shared by 7", "1.7"),
        ("12 over 4 with 2 decimals", "3.00"),
    ],
)
def test_a_request_that_asks_for_places_is_rounded_to_them(text, value):
    spans = tuple(re.search(rf"\b{number}\b", text).span() for number in ("12", "7" if "7" in text else "4"))
    found = answer(text, Meant("/", spans, (False, False)), Limits()).found
    assert (found.text, found.rounded) == (value, value != "3.00")
    wish = re.search("2 d|tenth", text).span()
    assert answer(text, Meant("/", (spans[0], wish), (False, False)), Limits()).found.reason is Reason.NOT_UNDERSTOOD
