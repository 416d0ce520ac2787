"""Promises for annotations of any form: they become expressions where the text says them in symbols."""

import functools
from types import SimpleNamespace

import pytest

from peft_igc import IGCConfig, assistant_header, tiny_base
from peft_igc.annotation import convert
from peft_igc.annotation.gsm8k_marks import read_marks
from peft_igc.data.columns import ALL_COLUMNS


@functools.cache
def tools():
    """The embedded tokenizer and a config with anchors at `=`."""
    tokenizer = tiny_base()[1]
    return tokenizer, IGCConfig.from_tokenizer(tokenizer, anchors=["=", assistant_header(tokenizer)])


def entry(answer):
    """The entry at the last anchor of a solution, and the report."""
    converted = convert([{"question": "How many?", "answer": answer}], *tools())
    return tuple(converted.rows[0][name][-1] for name in ALL_COLUMNS), converted.report


@pytest.mark.parametrize(
    ("answer", "expression", "result"),
    [
        ("She has 1+2+3 = <<1+2+3=6>>6.", "1+2+3", "6"),
        ("That is 2*(3+4) = <<2*(3+4)=14>>14.", "2*(3+4)", "14"),
        ("Half an hour is 10*.5 = <<10*.5=5>>5.", "10*.5", "5"),
        ("Tax is 200*5% = $<<200*5%=10>>10.", "200*5%", "10"),
        ("It costs $1.50 x 4 = $<<1.5*4=6>>6.", "1.5*4", "6"),
        ("The sum is 1.5+2 = <<1.5+2=3.5>>3.5.", "1.5+2", "3.5"),
        ("All of it is 2*(1/3)*3 = <<2*(1/3)*3=2>>2.", "2*(1/3)*3", "2"),
        ("A third of it is 2*(1/3) = <<2*(1/3)=0.67>>0.67.", "2*(1/3)", "inexact"),
    ],
)
def test_an_annotation_of_any_form_becomes_an_expression(answer, expression, result):
    found, report = entry(answer)
    assert found == ("expression", None, result, expression)
    assert report.supervised == (result != "inexact")


@pytest.mark.parametrize("annotation", ["3*4=12", "(3*4)=12", "3*(4)=12"])
def test_two_integers_keep_their_operands(annotation):
    found, _ = entry(f"It is 3*4 = <<{annotation}>>12.")
    assert found == ("*", ["3", "4"], "12", annotation.split("=")[0])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("3+4*12=<<4*12=48>>48", "part of a longer expression"),
        ("He has 3 * 5 = <<3*4+3=15>>15.", None),  # the same value, so the same is written
        ("He has 3 * 6 = <<3*5=15>>15.", "the text says another expression"),
        ("She has 12 = <<12=12>>12.", "not two integers"),
        ("Add 1, 2 and 3 = <<1+2+3=6>>6.", "not two integers"),
        ("1+2 = <<1+2=3>>3, 2+(3+4 = <<2+(3+4)=9>>9", "not read: a further number that nothing excuses"),
        ("48.5 and 2 = <<48/2=24>>24", "operand not in the text"),
        ("1+1+1+1+1+1+1+1+1 = <<1+1+1+1+1+1+1+1+1=9>>9", "not read: more operands than `max_operands`"),
    ],
)
def test_what_the_text_does_not_say_is_refused_with_a_reason(answer, reason):
    found, report = entry(answer)
    assert report.refused == ({} if reason is None else {reason: 1})
    assert (found[0] == "none") == (reason is not None)


def test_results_in_the_text_are_canonical_where_decimals_are_written():
    annotated = "It costs 3*$1.20=$<<3*1.20=3.60>>3.60 and 4*2.50=<<4*2.50=10.00>>10.00."
    config = SimpleNamespace(decimals=False, division="exact")
    assert read_marks(annotated, config)[0] == "It costs 3*$1.20=$3.60 and 4*2.50=10.00."
    assert read_marks(annotated, tools()[1])[0] == "It costs 3*$1.20=$3.6 and 4*2.50=10."
