"""Promises of `records`: tokens have the text that they add, and each `=` is listed once, with its origin."""

import pytest
from tiny_training import tokenizer as make_tokenizer

from peft_igc.inference.records import Pieces, StepRecord, TextRecord, TokenRecord, equals_of, token_texts
from peft_igc.inference.terminal import format_equals


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


def found(tokenizer, text, **statuses):
    """All `=` of a text; `ok_N` and others give the N-th one a step."""
    ids = tokenizer(text)["input_ids"]
    at = [index for index, token in enumerate(ids) if tokenizer.decode([token]) == "="]
    steps = []
    for name, result in statuses.items():
        status, _, index = name.partition("_")
        steps.append(StepRecord(at[int(index)], status, result=result))
    tokens = [TokenRecord(piece, None) for piece in token_texts(tokenizer.decode, ids)]
    return equals_of(TextRecord(0, tuple(tokens), tuple(steps)))


def test_every_equals_sign_is_listed_with_its_origin(tokenizer):
    text = "Ann has 48/2 = $24.\nThen 7/2 = 3.5, and x = 9. So 24+9 = 33 and 1+1 ="
    seen = found(tokenizer, text, ok_0="24", inexact_1=None, ok_3="33", ok_4="2")
    assert [one.written for one in seen] == ["24", "3.5", "9", "33", None]
    assert [one.status for one in seen] == ["ok", "inexact", None, "ok", "ok"]
    assert [one.is_exact for one in seen] == [True, False, False, True, False]
    shown = format_equals(seen)
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


def test_an_untrue_calculation_is_marked_whether_or_not_there_is_a_step(tokenizer):
    wrong, right, step = found(tokenizer, "So 3*4 = 13.\nThen 3+4 = 7, and 5+5 =11", ok_2="10")
    assert [one.status for one in (wrong, right, step)] == ["untrue", None, "untrue"]
    assert [one.origin for one in (wrong, step)] == ["untrue: the value is 12", "untrue: the value is 10"]


def test_a_text_without_equals_signs_has_no_table():
    assert format_equals([]) == []


def test_tokens_have_the_text_that_they_add():
    """Bytes of a character, and spaces that are lost at the beginning of a decoded text."""
    pieces = [b" a", "é".encode()[:1], "é".encode()[1:], b"b", "\U0001f600".encode()[:3]]

    def spell(ids):
        return b"".join(pieces[token] for token in ids).decode(errors="replace").removeprefix(" ")

    assert token_texts(spell, [0, 1, 2, 3]) == ["a", "", "é", "b"]
    assert token_texts(spell, [3, 0, 0]) == ["b", " a", " a"]
    assert token_texts(spell, [3, 4]) == ["b", "\ufffd"]
    assert token_texts(spell, []) == []
    growing = Pieces(spell)
    assert [growing.push(token) for token in (0, 1)] == ["a", ""]
    assert growing.rest() == "\ufffd"
