"""Promises of `equals`: each `=` of a text is listed once, with the calculator's number or the model's own."""

import pytest
from tiny_training import tokenizer as make_tokenizer

from peft_igc.inference.equals import Equals, equals_of, format_equals


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


def found(tokenizer, text, **statuses):
    """All `=` of a text; `ok_N` and others give the N-th one a step."""
    ids = tokenizer(text)["input_ids"]
    at = [index for index, token in enumerate(ids) if tokenizer.decode([token]) == "="]
    steps = {}
    for name, result in statuses.items():
        status, _, index = name.partition("_")
        steps[at[int(index)]] = (status, result)
    return equals_of(tokenizer, ids, steps)


def test_every_equals_sign_is_listed_with_its_origin(tokenizer):
    text = "Ann has 48/2 = $24.\nThen 7/2 = 3.5, and x = 9. So 24+9 = 33 and 1+1 ="
    seen = found(tokenizer, text, ok_0="24", inexact_1=None, ok_3="33", ok_4="2")
    assert [one.written for one in seen] == ["24", "3.5", "9", "33", None]
    assert [one.status for one in seen] == ["ok", "inexact", None, "ok", "ok"]
    assert [one.is_exact for one in seen] == [True, False, False, True, False]
    shown = format_equals(seen).splitlines()
    assert shown[0] == "calculations in the text: 2 of 5 exact"
    assert shown[1].split()[-1] == "exact"
    assert "the model's own (inexact)" in shown[2]
    assert "the model's own (no step)" in shown[3]
    assert "the model's own (the calculator had 2)" in shown[5]


@pytest.mark.parametrize(
    ("text", "result", "exact"),
    [
        ("2+2=4", "4", True),
        ("2+2= 4.", "4", True),
        ("600*2=1,200 pens", "1200", True),
        ("5/2=$2.50", "2.5", True),
        ("1/2=.5", "0.5", True),
        ("3-5=-2", "-2", True),
        ("3-5=2", "-2", False),
        ("0*5=0", "0", True),
        ("2+2=44", "4", False),
        ("2+2=four", "4", False),
    ],
)
def test_a_number_is_compared_by_its_value(tokenizer, text, result, exact):
    (one,) = found(tokenizer, text, ok_0=result)
    assert one.is_exact == exact


def test_a_text_without_equals_signs_has_no_table():
    assert format_equals([]) == ""
    assert Equals(0, "1 =", "2", None, None).origin == "the model's own (no step)"
