"""Promises of `exact_values`: the documented meanings of expressions in columns, and which texts have one."""

import re
from pathlib import Path

import pytest

from peft_igc.data.exact_values import NotAnExpression, label_expression
from peft_igc.numbers.calculator import Status
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
    rounded = Limits(12, 12, rounding=Rounding.of("half_even:2"))
    assert label_expression("2 / 3", rounded).result == "0.67"
    assert label_expression("0.01 / 6", rounded).status == Status.INEXACT  # it would be zero
