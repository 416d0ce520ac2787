"""Promises of `exact_values`: the documented meanings, and the same values as the grammar on the device."""

import random
from fractions import Fraction

import pytest

from peft_igc.data.exact_values import NotAnExpression, ValueLimits, work_out, written
from peft_igc.expressions import canonical, encode_items, evaluate
from peft_igc.numbers.calculator import Status


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
    ],
)
def test_an_expression_has_its_documented_value(text, value):
    assert written(work_out(text, LIMITS).value) == value


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("1 / 3", Status.INEXACT),
        ("1 / 3 * 3", Status.INEXACT),
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
        ("[1 + 2) * 3", r"`\[` is not closed by `\]`"),
        ("200 + 10%", "adds a percentage"),
        ("5% - -(3%)", "adds a percentage"),
        ("2 ^ 0.5", "an exponent that is no integer"),
        ("2 ^ -1", "an exponent that is no integer"),
        ("5 of 3", "`of` stands after no per cent sign"),
        ("1,23 + 4", "',23 [+] 4', which is no part"),
        ("3 + x", "'x', which is no part"),
        ("1+1+1+1+1+1+1+1+1", "9 numbers, but `max_operands=8`"),
        ("(" * 51 + "1" + ")" * 51 + " + 1", "more than 50 brackets"),
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


def test_rounding_is_for_the_last_division_only():
    limits = ValueLimits(12, 12, rounding="half_even", decimal_places=2, decimals=True)
    assert work_out("2 / 3", limits).value == Fraction("0.67")
    assert work_out("-(2 / 3)", limits).value == Fraction("-0.67")
    assert work_out("1 / 8", limits).value == Fraction("0.125")
    assert work_out("2 / 3 + 1", limits).status == Status.INEXACT
    assert work_out("0.01 / 6", limits).status == Status.INEXACT  # it would be zero


def drawn(rng, depth=0):
    """The items of a random expression, some of them without a value."""
    shape = rng.random()
    if shape < 0.45 or depth > 3:
        number = str(rng.randrange(10 ** rng.randint(1, 3)))
        items = [number + rng.choice(("", "", f".{rng.randrange(100):02}"))]
        return [*items, "%"] if rng.random() < 0.05 else items
    if shape < 0.55:
        return ["(", *drawn(rng, depth + 1), ")"]
    if shape < 0.6:
        return ["-", *drawn(rng, depth + 1)]
    if shape < 0.65:
        return [*drawn(rng, depth + 1), "^", str(rng.randrange(4))]
    return [*drawn(rng, depth + 1), rng.choice("+-*/"), *drawn(rng, depth + 1)]


def test_values_are_those_of_the_grammar_on_the_device():
    rng = random.Random(0)
    rows = [row for row in (drawn(rng) for _ in range(4000)) if sum(item[0].isdigit() for item in row) > 1]
    device = evaluate(encode_items(rows, 64, 12), result_digits=12)
    ok = device.status == int(Status.OK)
    texts = iter(canonical(device.digits[ok], device.sign[ok], device.scale[ok]))
    seen = dict.fromkeys(Status, 0)
    for row, right, status in zip(rows, ok.tolist(), device.status.tolist(), strict=True):
        try:
            value = work_out(" ".join(row), LIMITS).value
        except NotAnExpression:
            value = None
        # Statuses may differ: of two reasons for a refusal, each gives the one that it meets first.
        assert (None if value is None else written(value)) == (next(texts) if right else None), row
        seen[Status(status)] += 1
    assert min(seen[Status.OK], seen[Status.INEXACT], seen[Status.UNDEFINED], seen[Status.NONE]) > 10, seen
