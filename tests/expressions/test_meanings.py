"""The table of meanings of expressions: what each form of items is worth, or why it is refused."""

import re

import pytest

from peft_igc.expressions.decimals import canonical
from peft_igc.expressions.grammar import evaluate
from peft_igc.expressions.items import encode_items
from peft_igc.expressions.reasons import Reason
from peft_igc.numbers.calculator import Status


ITEM = re.compile(r"[0-9]*\.?[0-9]+|of|[-+*/^()%?]")

VALUES = {
    # Precedence and association, as in schools and in Python.
    "1 + 2 * 3": "7",
    "10 - 4 - 3": "3",
    "100 / 10 / 5": "2",
    "100 / 10 * 5": "50",
    "2 ^ 3 ^ 2": "512",
    "2 * 3 ^ 2": "18",
    "(1 + 2) * 3": "9",
    "((4)) - ((1 + 2))": "1",
    # Signs: less than a power, more than a product.
    "-2 ^ 2": "-4",
    "(-2) ^ 2": "4",
    "-2 ^ 3 ^ 2": "-512",
    "--5": "5",
    "2 - -3": "5",
    "2 - +3": "-1",
    "-(2 + 3) * -(4 - 1)": "15",
    "0 * -5": "0",
    "-0": "0",
    # Decimals, written without zeros at the end.
    "1.234 * 1000": "1234",
    "0.1 + 0.2": "0.3",
    "1.50 + 1.50": "3",
    ".5 * .5": "0.25",
    "12.5 - 12.50": "0",
    "100 * 0.07": "7",
    # Division is exact where it ends.
    "48 / 2": "24",
    "1 / 8": "0.125",
    "7 / (2 + 2)": "1.75",
    "1.5 / 0.3": "5",
    "-1 / 4": "-0.25",
    # Powers with an integer exponent of at least 0, however it is written.
    "2 ^ 10": "1024",
    "1.5 ^ 2": "2.25",
    "(-1) ^ 99999999": "-1",
    "5 ^ 0": "1",
    "0 ^ 5": "0",
    "4 ^ 1.0": "4",
    "4 ^ (3 - 1)": "16",
    "2 ^ -0": "1",
    # Per cent divides by 100, `of` multiplies.
    "50%": "0.5",
    "50% of 80": "40",
    "20% of 50% of 80": "8",
    "50% of 80 + 20": "60",
    "200 + 10% of 50": "205",
    "10% * 50": "5",
    "(2 + 3)% * 100": "5",
    "-50% * -4": "2",
    "100 / 50%": "200",
    "50% ^ 2": "0.25",
}
REFUSED = {
    "200 + 10%": Reason.PERCENT_SUM,
    "200 - 10%": Reason.PERCENT_SUM,
    "10% + 10%": Reason.PERCENT_SUM,
    "5 % 3": Reason.MALFORMED,
    "2(3)": Reason.MALFORMED,
    "(2)(3)": Reason.MALFORMED,
    "5 -": Reason.MALFORMED,
    "5 + * 3": Reason.MALFORMED,
    "5 of 3": Reason.MALFORMED,
    "5 ? 3": Reason.MALFORMED,
    "()": Reason.MALFORMED,
    "(1 + 2": Reason.UNBALANCED,
    "1 + 2)": Reason.UNBALANCED,
    "5 / 0": Reason.UNDEFINED,
    "5 / (3 - 3)": Reason.UNDEFINED,
    "0 / 0": Reason.UNDEFINED,
    "0 ^ 0": Reason.UNDEFINED,
    "1 / 3": Reason.INEXACT,
    "(1 / 3) * 3": Reason.INEXACT,
    "1 / 3 + 2 / 3": Reason.INEXACT,
    "2 ^ 0.5": Reason.EXPONENT,
    "2 ^ -1": Reason.EXPONENT,
    "0 ^ -1": Reason.EXPONENT,
    "2 ^ (1 - 2)": Reason.EXPONENT,
    "9 ^ 9 ^ 9": Reason.OVERFLOW,
    "1+1+1+1+1+1+1+1+1": Reason.TOO_MANY_OPERANDS,
    "12345678901234567890123456789012345678901 + 1": Reason.TOO_LONG,
}
STATUSES = {
    Reason.UNDEFINED: Status.UNDEFINED,
    Reason.INEXACT: Status.INEXACT,
    Reason.OVERFLOW: Status.OVERFLOW,
    Reason.TOO_LONG: Status.OVERFLOW,
}
ROUNDED = [  # text, places, half_up, half_even; only a last division that does not end is rounded
    ("2 / 3", 2, "0.67", "0.67"),
    ("-2 / 3", 2, "-0.67", "-0.67"),
    ("-(2 / 3)", 2, "-0.67", "-0.67"),
    ("1 / 3", 0, Reason.INEXACT, Reason.INEXACT),  # a zero would say nothing of it
    ("2 / 3", 0, "1", "1"),
    ("-1 / 3", 0, Reason.INEXACT, Reason.INEXACT),
    ("0.01 / 6", 2, Reason.INEXACT, Reason.INEXACT),
    ("0 / 3", 2, "0", "0"),
    ("1 / 8", 2, "0.125", "0.125"),
    ("1 / 3 + 1", 2, Reason.INEXACT, Reason.INEXACT),
    ("(1 + 1) / (2 + 1)", 4, "0.6667", "0.6667"),
    ("1 / 3 / 3", 4, Reason.INEXACT, Reason.INEXACT),
    ("(1 / 3)%", 4, Reason.INEXACT, Reason.INEXACT),
    ("1 / (3 * 100)", 4, "0.0033", "0.0033"),
    ("5 / 3 * 3", 4, Reason.INEXACT, Reason.INEXACT),
]
INTEGERS = [  # text, floor, trunc
    ("7 / 2", "3", "3"),
    ("-7 / 2", "-4", "-3"),
    ("7 / -2", "-4", "-3"),
    ("-(7 / 2)", "-3", "-3"),
    ("7 / 2 * 2", "6", "6"),
    ("7.5 / 2", "3", "3"),
    ("-8 / 2", "-4", "-4"),
    ("-0.5 / 3", "-1", "0"),
]


def meaning(text, **settings):
    """The value as text, or the reason; checks the status, too."""
    found = evaluate(encode_items([ITEM.findall(text)], 64, 40), result_digits=40, **settings)
    reason = Reason(found.reason.item())
    assert found.status.item() == (STATUSES.get(reason, Status.NONE) if reason else Status.OK)
    return reason or canonical(found.digits, found.sign, found.scale)[0]


@pytest.mark.parametrize("text", VALUES)
def test_what_expressions_are_worth(text):
    assert meaning(text) == VALUES[text]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text):
    assert meaning(text) == REFUSED[text]


@pytest.mark.parametrize(("text", "places", "half_up", "half_even"), ROUNDED)
def test_a_last_division_is_rounded_on_request(text, places, half_up, half_even):
    assert meaning(text, rounding="half_up", decimal_places=places) == half_up
    assert meaning(text, rounding="half_even", decimal_places=places) == half_even


def test_a_half_ends_and_is_therefore_exact():
    for how in ("half_up", "half_even"):
        assert meaning("5 / 2", rounding=how, decimal_places=0) == "2.5"
        assert meaning("1 / 8", rounding=how, decimal_places=2) == "0.125"


@pytest.mark.parametrize(("text", "floor", "trunc"), INTEGERS)
def test_integer_quotients_keep_their_meaning(text, floor, trunc):
    assert meaning(text, division="floor") == floor
    assert meaning(text, division="trunc") == trunc
