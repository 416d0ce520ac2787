"""What a reading says beside the value: places, steps, reasons; and that no text ends it or makes it slow."""

import random
import time
from fractions import Fraction

import pytest

from peft_igc.text import CONTROL, Limits, Refusal, Value, read
from peft_igc.text.literals import numbers_of
from peft_igc.text.pieces import split
from peft_igc.text.values import spelled


def test_a_value_has_the_place_of_its_expression_and_its_steps():
    text = "In 2019 she paid 3 * ($4 + 1) ="
    found = read(text)
    assert isinstance(found, Value)
    assert (found.value, found.text, found.reaches) == (Fraction(15), "15", True)
    assert spelled(found.items) == "3 * ( 4 + 1 )"
    assert spelled(read("1,234.50 + 5,000/- * 20% of max(3,4)=").items) == "1234.50 + 5000 * 20 % of max ( 3 , 4 )"
    assert text[slice(*found.span)] == "3 * ($4 + 1)"
    assert [str(step) for step in found.reductions] == ["4 + 1 = 5", "3 * 5 = 15"]
    assert [text[slice(*step.span)] for step in found.reductions] == ["4 + 1", "3 * ($4 + 1)"]


def test_the_length_of_a_text_before_an_expression_costs_nothing():
    tail = "He had 7 pens, and 3 of them were new. " * 100 + "12 + 5 ="

    def seconds(text):
        start = time.process_time()
        assert read(text).text == "17"
        return time.process_time() - start

    least = min(seconds(tail) for _ in range(20))
    assert min(seconds("He had 7 pens. " * 40_000 + tail) for _ in range(20)) < 3 * least


def test_what_stands_far_before_an_expression_changes_nothing():
    for tail in ("12 + 5 =", "(in total) 12 + 5 =", "Ann's 12 + 5 =", "- 12 + 5 =", "1) 12 + 5 =", "half of 12 + 5 ="):
        found = read("\n" + tail)
        for padding in range(0, 300, 7):
            text = "He had 7 pens, (5 of them new) and " * 40 + "x" * padding + ".\n" + tail
            other = read(text)
            assert type(other) is type(found), (tail, padding)
            assert other[0] == found[0], (tail, padding)


HOSTILE = {
    "operands": "1" + "+1" * 10_000 + "=",
    "brackets": "(" * 10_000 + "1+1" + ")" * 10_000 + "=",
    "closing brackets": "1" + "-1)" * 10_000 + "=",
    "opening brackets": "(-" * 10_000 + "1+1=",
    "signs": "-" * 10_000 + "1+1=",
    "powers": "2" + "^9" * 10_000 + "=",
    "per cent": "1" + "%" * 10_000 + "=",
    "a long number": "9" * 1_000_000 + "+1=",
    "a long decimal": "1." + "3" * 1_000_000 + "*2=",
    "separators": "1" + ",111" * 100_000 + "+1=",
    "points": "1" + ".1" * 100_000 + "+1=",
    "equals signs": "=" * 100_000,
    "spaces": "1+1" + " " * 100_000 + "=",
    "words": "word " * 100_000 + "3 + 4 =",
    "one word": "w" * 1_000_000,
    "lines": "\n" * 100_000,
    "commas of a function": "max(" + "1," * 10_000 + "1)=",
    "functions": "max(" * 10_000 + "1, 2" + ")" * 10_000 + "=",
    "list numbers": "3 words" + "\n1. " * 10_000 + "2 + 3",
    "brackets of lists": "\n(1) " * 10_000 + "2 + 3",
    "remarks": "(a) " * 10_000 + "1+1",
    "apostrophes": "a'" * 10_000 + " 1+1=",
    "joined units": "1 " + "a-" * 10_000 + "a + 2 =",
    "marks": "\u0301" * 100_000 + "1+1=",
    "factorials": "5!" + "!" * 50_000,
    "hyphens": "a-" * 20_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_raises_or_takes_long(text):
    read("1 + 1 =")  # loads the words
    start = time.perf_counter()
    found = read(text)
    assert time.perf_counter() - start < 0.5
    numbers_of(split(f"{text}\n"))
    assert time.perf_counter() - start < 1.5
    if text not in (HOSTILE["words"], HOSTILE["remarks"]):
        assert isinstance(found, Refusal)


def test_random_characters_never_raise():
    rng = random.Random(0)
    alphabet = "0123456789  +-*/^()[]%.,=:;$€£x\n'\"½²⁄–of andthe\ufdd0\ufdd1\ufffd²五万!?_#" + chr(0x301)
    for _ in range(4000):
        text = "".join(rng.choices(alphabet, k=rng.randint(0, 40))) + rng.choice(["=", " =", "", "?"])
        assert isinstance(read(text, Limits(digits=6, result_digits=6)), Value | Refusal)


@pytest.mark.parametrize(
    "text", ["Task 7 - 12 + 30 =", "round 17 / 4 + 2 =", "1 mi + 1 km =", "10-15% of 200 =", "avg 3 + 4 + 5 ="]
)
def test_a_message_that_ends_with_an_equals_sign_is_read_as_strictly_as_a_text_at_an_anchor(text):
    alone = read(text)
    assert isinstance(alone, Refusal)
    for closed in (f"{CONTROL}{text}{CONTROL}{CONTROL}", f"{CONTROL}{text} \n{CONTROL}\n"):
        found = read(closed)
        assert isinstance(found, Refusal)
        assert (found.reason, found.reaches) == (alone.reason, True)
    assert read(f"{CONTROL}(3 + 4) * 2 ={CONTROL}").text == "14"
