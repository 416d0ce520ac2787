"""Promises of `exact_values`: the documented meanings of expressions in columns, and which texts have one."""

import re
from pathlib import Path

import pytest

from peft_igc.data.exact_values import NotAnExpression, expression_in, label_expression
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
                label_expression(text, LIMITS)
            continue
        step = label_expression(text, LIMITS)
        assert (step.result or step.status.name.lower()) == wanted, text
        assert ([step.operator, *step.operands] if step.operands else ["expression"]) == (
            pair[0].split(" ") if pair else ["expression"]
        ), text


def test_operations_decimals_division_and_rounding_are_those_of_the_configuration():
    limits = Limits(12, 12, operations=("+", "-"))
    for text, operator in (("2 * 3", "`[*]` needs"), ("2^3", r"`\^` needs the operation `[*]`"), ("5% of 3", "`%`")):
        with pytest.raises(NotAnExpression, match=operator):
            label_expression(text, limits)
    assert label_expression("2 - 3", limits).result == "-1"
    integers = Limits(12, 12, decimals=False)
    assert label_expression("1 / 8", integers).status == Status.INEXACT
    assert label_expression("2.5 * 4", integers).result == "10"
    for rounding, text, value in (("floor", "-7 / 2", "-4"), ("trunc", "-7 / 2", "-3"), ("floor", "7.5 / 2 * 2", "6")):
        assert label_expression(text, Limits(12, 12, rounding=Rounding.of(rounding))).result == value
    rounded = Limits(12, 12, rounding=Rounding.of("half_even:2"))
    for text, value in {"2 / 3": "0.67", "-(2 / 3)": "-0.67", "1 / 8": "0.125", "2 / 3 * 3": "2"}.items():
        assert label_expression(text, rounded).result == value  # once, and at the end
    assert label_expression("0.01 / 6", rounded).status == Status.INEXACT  # it would be zero


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
            label_expression(wanted, LIMITS)
