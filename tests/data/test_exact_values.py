"""Promises of `exact_values`: the documented meanings of expressions in columns, and which texts have one."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

from peft_igc.data.exact_values import NotAnExpression, expression_in, work_out, written
from peft_igc.numbers.calculator import Status
from peft_igc.text import CONTROL
from peft_igc.text.rounding import Rounding
from peft_igc.text.values import Limits


LIMITS = Limits(12, 12)
DOCUMENTED = Path(__file__).with_name("exact_values.txt").read_text(encoding="utf-8").splitlines()[2:]


def test_expressions_have_their_documented_value_status_and_pair_and_other_texts_a_reason():
    assert len(DOCUMENTED) > 50
    for line in DOCUMENTED:
        text, wanted, *pair = line.split("\t")
        if wanted.startswith("!"):
            with pytest.raises(NotAnExpression, match=re.escape(wanted[1:])):
                work_out(text, LIMITS)
            continue
        worked = work_out(text, LIMITS)
        assert (worked.status.name.lower() if worked.value is None else written(worked.value)) == wanted, text
        assert worked.pair == (tuple(pair[0].split(" ")) if pair else None), text


def test_an_operation_that_is_not_configured_is_refused():
    limits = Limits(12, 12, operations=("+", "-"))
    for text, operator in (("2 * 3", "`[*]` needs"), ("2^3", r"`\^` needs the operation `[*]`"), ("5% of 3", "`%`")):
        with pytest.raises(NotAnExpression, match=operator):
            work_out(text, limits)
    assert work_out("2 - 3", limits).value == -1


def test_decimals_division_and_rounding_are_those_of_the_configuration():
    integers = Limits(12, 12, decimals=False)
    assert work_out("1 / 8", integers)[:2] == (None, Status.INEXACT)
    assert work_out("2.5 * 4", integers).value == 10
    for rounding, text, value in (("floor", "-7 / 2", -4), ("trunc", "-7 / 2", -3), ("floor", "7.5 / 2 * 2", 6)):
        assert work_out(text, Limits(12, 12, rounding=Rounding.of(rounding))).value == value
    rounded = Limits(12, 12, rounding=Rounding.of("half_even:2"))
    for text, value in {"2 / 3": "0.67", "-(2 / 3)": "-0.67", "1 / 8": "0.125", "2 / 3 * 3": "2"}.items():
        assert work_out(text, rounded).value == Fraction(value)  # once, and at the end
    assert work_out("0.01 / 6", rounded).status == Status.INEXACT  # it would be zero


def test_the_expression_of_a_text_with_words_is_a_text_that_can_be_worked_out():
    for text, wanted in (
        ("What is (3 + 4) * 2.50?", "( 3 + 4 ) * 2.50"),
        ("It lasts 3-5 days.", None),
        ("Add 3 and 4.", None),
        ("", None),
        ("I am 8. 2 ^ 3 =", "2 ^ 3"),
        ("½ + 3 =", None),
        ("20% of 5", "20 % of 5"),
        ("What is 1,200 / 0?", "1200 / 0"),
        ("$.50 + $007 =", "0.50 + 007"),
        ("What is max(3, 5) + 1?", "max ( 3 , 5 ) + 1"),
        ("200 + 10% =", None),
        # In a message, the equals sign at its end is no place where a result is due.
        (f"{CONTROL}I am 8. 2 ^ 3 ={CONTROL}{CONTROL}", None),
    ):
        assert expression_in(text, LIMITS) == wanted
        if wanted is not None:
            work_out(wanted, LIMITS)
