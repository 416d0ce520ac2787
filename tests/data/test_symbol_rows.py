"""Promises of rows with expressions in symbols: spellings are read, values are right, look-alikes ask for nothing."""

import dataclasses
import functools
import random
import re
from collections import Counter
from fractions import Fraction

import pytest
from templates import templates

from benchmarks.accuracy.expression_texts import WORDS
from peft_igc.data import ArithmeticRows, Mixture
from peft_igc.data.columns import check_columns
from peft_igc.data.exact_values import label_expression
from peft_igc.data.wording.phrases import pools
from peft_igc.data.wording.symbol_expressions import KINDS, draw
from peft_igc.data.wording.wording import TRAINING
from peft_igc.text import CONTROL, Limits, Reason, Refusal, Value, read


NOTHING = {"none": 0, "overflow": 0, "undefined": 0, "inexact": 0}
LIMITS, INTEGERS = Limits(), Limits(decimals=False)


@functools.cache
def rows(n=700, seed=0, **options):
    """Rows with expressions only."""
    mixture = Mixture(**NOTHING, expressions=1.0, contexts=0.4, system=0.3)
    options = {"max_digits": 6, "limits": INTEGERS, "mixture": mixture, "wording": TRAINING} | options
    return ArithmeticRows(seed, **options).take(n)


def asked(row):
    """The user's message of a row."""
    return row["prompt"][-1]["content"]


UNREAD = (Reason.NOT_UNDERSTOOD, Reason.MALFORMED, Reason.LOOK_ALIKE)  # `10-15% of 200` may be a range


@pytest.mark.parametrize("kind", KINDS)
def test_every_spelling_says_its_expression_by_another_reader(kind):
    rng, seen = random.Random(f"spellings/{kind}"), Counter()
    for _ in range(400):
        text, expression = draw(kind, 6, rng)
        value = label_expression(expression, LIMITS).result
        found = read(f"{text} =")
        seen[type(found)] += 1
        if isinstance(found, Value):
            assert value is None or found.value == Fraction(value), text
        else:
            assert value is None or found.reason in UNREAD, (text, found)
    assert seen[Refusal] <= 40, seen


def test_the_columns_and_the_completion_hold_the_exact_value():
    refused = 0
    for row in rows():
        (step,) = check_columns(row, Limits(decimals=False))
        assert step.expression == row["igc_expression"]
        refused += step.result is None
        assert step.result is None or row["completion"][0]["content"] == step.result == row["igc_result"]
    assert 0 < refused < 0.1 * len(rows())


def test_a_rounding_that_a_prompt_asks_for_is_in_its_completion():
    texts = tuple(one for one in TRAINING.texts if "% of" in one.text and "nearest" in one.text)
    by_hand = {"mixture": Mixture(**NOTHING, by_hand=1.0), "wording": dataclasses.replace(TRAINING, by_hand=texts)}
    mixture, seen = Mixture(**NOTHING, expressions=1.0, rounded=1.0), Counter()
    for row in (*rows(50, limits=LIMITS, distinct=False, **by_hand), *rows(50, limits=LIMITS, mixture=mixture)):
        found = read(f"{CONTROL}{asked(row)}{CONTROL}{CONTROL}", LIMITS)
        if isinstance(found, Value) and found.rounded:
            assert row["completion"][0]["content"] == found.text
            seen[row["igc_operator"]] += 1
    assert (seen["/"], seen["expression"] > 10) == (50, True)


def test_look_alikes_ask_for_nothing_and_are_not_those_of_the_benchmark():
    mixture = Mixture(**NOTHING, look_alikes=1.0)
    made = ArithmeticRows(0, limits=INTEGERS, mixture=mixture, wording=TRAINING).take(600)
    assert {row["igc_operator"] for row in made} == {"none"}
    assert len({re.sub("[0-9]+", "0", asked(row)) for row in made}) > 150

    def words(line):
        return re.sub(r"\{\w+\}|[0-9]+", "0", line).lower().strip(" .?!")

    ours = {words(text) for lines in pools("look_alikes").values() for line in lines for text in templates(line)}
    theirs = {
        words(line)
        for name in ("look_alikes", "held_out_look_alikes")
        for lines in WORDS[name].values()
        for line in lines
    }
    assert len(theirs) > 100
    assert not ours & theirs
    # The rules refuse most of them; the network has to learn the others.
    found = [read(f"{CONTROL}{asked(row)}{CONTROL}{CONTROL}", LIMITS) for row in made]
    assert sum(isinstance(one, Value) or one.ruled for one in found) < 0.05 * len(made)


def test_calculations_of_test_items_are_not_trained():
    seen = next(row for row in rows() if row["igc_operands"] and max(map(len, row["igc_operands"])) > 2)
    mixture = Mixture(**NOTHING, expressions=1.0)
    stream = ArithmeticRows(0, max_digits=2, limits=INTEGERS, mixture=mixture, wording=TRAINING, exclude=[seen])
    key = (seen["igc_operator"], seen["igc_operands"])
    assert all((row["igc_operator"], row["igc_operands"]) != key for row in stream.take(300))
    pairs = ArithmeticRows(0, num_digits=40, mixture=mixture, wording=TRAINING).take(100)
    assert all(row["igc_operands"] for row in pairs)  # without rules there is nothing else
