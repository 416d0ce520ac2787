"""Which integers of a text are whole, and which are broken by what they touch."""

import pytest

from peft_igc.text.literals import ends_in_minus, integers


def read(text):
    """The digits of each integer, `"!"` for a broken one."""
    return [digits or "!" for _, _, digits in integers(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("12 + 30 = 42", ["12", "30", "42"]),
        ("12+30=", ["12", "30"]),
        ("(5)*[6]/{7}", ["5", "6", "7"]),
        ("$5 £85 5€ ¥20", ["5", "85", "5", "20"]),
        ("5×7÷3\u22122", ["5", "7", "3", "2"]),
        ("007 000", ["7", "0"]),
        ("1,234 and 12,345,678", ["1234", "12345678"]),
        ("12,34 0,123 1234,567", ["!", "!", "!"]),
        ("5. Then 6, 7: 8; 9?", ["5", "6", "7", "8", "9"]),
        ("wait 5... or 6..", ["5", "6"]),
        ("5-3 -5 =-5 --5 x-5 %-5", ["5", "3", "5", "5", "5", "!", "!"]),
        ("5-year 5- 5-(3)", ["!", "5", "5", "3"]),
        ("'5' 5's 5'th", ["5", "!", "!"]),
        ("91 minus 37! 5! 37!5", ["91", "37", "!", "!", "5"]),
        (r"\(5 + 3\) 5\times 3", ["5", "3", "!", "3"]),
        ("**5** 2**8", ["!", "!", "!"]),
        ("5% 5th 5² 5^2 2^3 x3 5_6 5٣ é5 5é 日本5", ["!"] * 14),
        ("1.5 .5 0.05 1.000.000", ["!"] * 8),
        ("10:30 1'000 1\u00a0000", ["!"] * 6),
    ],
)
def test_an_integer_is_whole_if_it_touches_nothing_that_may_belong_to_it(text, found):
    assert read(text) == found


def test_the_place_of_an_integer_is_that_of_its_digits_and_separators():
    assert integers("is 1,234.") == [(3, 8, "1234")]


@pytest.mark.parametrize(
    ("token", "expected"),
    [("-", True), (" -", True), ("=-", True), ("--", True), ("---", False), ("x-", False), ("=", False)],
)
def test_a_token_ends_in_a_sign_that_a_number_may_have(token, expected):
    assert ends_in_minus(token) is expected
