"""Promises of `exact_values`: the documented meanings of expressions in columns, and which texts have one."""

from fractions import Fraction

import pytest

from peft_igc.data.exact_values import NotAnExpression, ValueLimits, expression_in, work_out, written
from peft_igc.numbers.calculator import Status
from peft_igc.text import CONTROL


LIMITS = ValueLimits(num_digits=12, result_digits=12, decimals=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(3 + 4) * 2.5", "17.5"),
        ("-2^2", "-4"),
        ("2^3^2", "512"),
        ("2**-0", "1"),
        ("50% of 80", "40"),
        ("15% × 40 - 1", "5"),
        ("[1,200 ÷ {3·4}] \u2212 0.5", "99.5"),
        ("10 - 4 - 3", "3"),
        ("64 / 4 / 2", "8"),
        ("1 / 8", "0.125"),
        ("0.1 * 0.1", "0.01"),
        (".5 + .5", "1"),
        ("3 - 5.50", "-2.5"),
        ("0 * -3", "0"),
        ("(-1)^101", "-1"),
        ("0^5", "0"),
        ("7^0", "1"),
        ("1 / 3 * 3", "1"),
        ("1.000001^3 - 1.000001^3", "0"),
        ("max(3, 1,200) - sqrt(16)", "1196"),
    ],
)
def test_an_expression_has_its_documented_value(text, value):
    assert written(work_out(text, LIMITS).value) == value


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("1 / 3", Status.INEXACT),
        ("1 / 3 * 2", Status.INEXACT),
        ("5 / (2 - 2)", Status.UNDEFINED),
        ("0^0", Status.UNDEFINED),
        ("999999999999 + 1", Status.OVERFLOW),
        ("1234567890123 + 1", Status.OVERFLOW),
        ("9^9^9", Status.OVERFLOW),
        ("1.000001^3", Status.OVERFLOW),
    ],
)
def test_what_has_no_value_has_its_status(text, status):
    assert work_out(text, LIMITS)[:2] == (None, status)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("7", "no two numbers"),
        ("", "a number is missing at its end"),
        ("5 -", "a number is missing at its end"),
        ("* 3 + 4", r"a number is missing before `\*`"),
        ("2(3)", r"`\(` is not expected after `2`"),
        ("3 4 + 1", "`4` is not expected after `3`"),
        ("[1 + 2) * 3", r"`\)` has no bracket of its shape"),
        ("max(3)", "`max` has no exact value for its arguments"),
        ("sqrt(2) + 1", "`sqrt.2.` has no exact value"),
        ("200 + 10%", "adds a percentage"),
        ("5% - -(3%)", "adds a percentage"),
        ("2 ^ 0.5", "an exponent that is no integer"),
        ("2 ^ -1", "an exponent that is no integer"),
        ("5 of 3", "`of` stands after no per cent sign"),
        ("1,23 + 4", "',23 [+] 4', which is no part"),
        ("3 + x", "'x', which is no part"),
        ("1+1+1+1+1+1+1+1+1", "9 numbers, but `max_operands=8`"),
        ("(" * 51 + "1" + ")" * 51 + " + 1", "more than 48 numbers, signs and brackets"),
        ("1 + " * 600 + "1", "more than 2000 characters"),
    ],
)
def test_what_is_not_in_the_grammar_is_refused_with_the_reason(text, why):
    with pytest.raises(NotAnExpression, match=why):
        work_out(text, LIMITS)


def test_an_operation_that_is_not_configured_is_refused():
    limits = ValueLimits(12, 12, operations=("+", "-"))
    for text, operator in (("2 * 3", "`[*]` needs"), ("2^3", r"`\^` needs the operation `[*]`"), ("5% of 3", "`%`")):
        with pytest.raises(NotAnExpression, match=operator):
            work_out(text, limits)
    assert work_out("2 - 3", limits).value == -1


def test_decimals_are_inexact_where_they_are_not_written():
    limits = ValueLimits(12, 12)
    assert work_out("1 / 8", limits)[:2] == (None, Status.INEXACT)
    assert work_out("2.5 * 4", limits).value == 10


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("3 - -4", ("-", "3", "-4")),
        ("(-1,200) / (7)", ("/", "-1200", "7")),
        ("--5 * 2", ("*", "5", "2")),
        ("-(3 + 4)", None),
        ("3 + 4.0", None),
        ("3 + 4 + 5", None),
        ("3^4", None),
        ("3% * 4", None),
        ("((3 + 4))", ("+", "3", "4")),
        ("(3) - (4)", ("-", "3", "4")),
        ("-(3) + -(-4)", ("+", "-3", "4")),
    ],
)
def test_one_operation_on_two_integers_is_a_pair(text, pair):
    assert work_out(text, LIMITS).pair == pair


@pytest.mark.parametrize(
    ("division", "text", "value"),
    [("floor", "-7 / 2", -4), ("trunc", "-7 / 2", -3), ("floor", "7.5 / 2 * 2", 6), ("trunc", "9 / 3", 3)],
)
def test_quotients_are_integers_with_integer_division(division, text, value):
    assert work_out(text, ValueLimits(12, 12, division=division)).value == value


def test_a_value_is_rounded_once_and_at_the_end():
    limits = ValueLimits(12, 12, rounding="half_even", decimal_places=2, decimals=True)
    assert work_out("2 / 3", limits).value == Fraction("0.67")
    assert work_out("-(2 / 3)", limits).value == Fraction("-0.67")
    assert work_out("1 / 8", limits).value == Fraction("0.125")
    assert work_out("2 / 3 + 1", limits).value == Fraction("1.67")
    assert work_out("2 / 3 * 3", limits).value == 2
    assert work_out("0.01 / 6", limits).status == Status.INEXACT  # it would be zero


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
