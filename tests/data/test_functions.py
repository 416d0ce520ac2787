"""Rows for functions of given numbers: their operands, their results, and what is held out.

Try it: `pytest tests/data/test_functions.py`
"""

import json
import statistics
from collections import Counter
from fractions import Fraction
from itertools import islice

import pytest

from peft_igc.data import functions
from peft_igc.data.columns import check_columns
from peft_igc.data.functions import HELD_OUT, LAYOUTS, answer_rows, function_rows, list_rows
from peft_igc.text import operations
from peft_igc.text.integers import integers
from peft_igc.text.values import Limits


LISTS = {
    "sum": sum,
    "mean": lambda values: sum(values) / len(values),
    "min": min,
    "max": max,
    "count": len,
    "median": statistics.median,
    "range": lambda values: max(values) - min(values),
}
LIMITS = Limits(operations=tuple("+-*/") + tuple(operations.FUNCTIONS))


def text_of(row):
    return row["prompt"][0]["content"]


def test_lists_have_all_of_their_numbers_as_operands_in_the_order_of_the_text_and_their_value():
    kinds = Counter()
    for row in islice(list_rows(3), 400):
        kinds[row["igc_operator"]] += 1
        (step,) = check_columns(row, LIMITS)
        if step.operands is None:
            continue
        listed = [one.digits for one in integers(text_of(row), decimals=True)]
        place = 0
        for operand in step.operands:  # other numbers, such as those of a row, may be between
            place = listed.index(operand, place) + 1
        value = Fraction(LISTS[step.operator]([Fraction(one) for one in step.operands]))
        assert step.result is None or Fraction(step.result) == value
        assert 3 <= len(step.operands) <= 50
    assert kinds.keys() == {*LISTS, "none"}


def test_held_out_layouts_are_not_drawn_unless_they_are_asked_for(monkeypatch):
    drawn = Counter()
    for name, layout in list(LAYOUTS.items()):
        noted = lambda *given, name=name, layout=layout: (drawn.update([name]), layout(*given))[1]  # noqa: E731
        monkeypatch.setitem(LAYOUTS, name, noted)
    list(islice(list_rows(0), 300))
    assert drawn.keys() == LAYOUTS.keys() - set(HELD_OUT)
    drawn.clear()
    list(islice(list_rows(0, HELD_OUT), 200))
    assert drawn.keys() == set(HELD_OUT)


def test_functions_have_rows_that_can_be_read_and_equal_seeds_give_equal_rows():
    rows = list(islice(function_rows(1), 600))
    assert rows[:50] == list(islice(function_rows(1), 50))
    assert {row["igc_operator"] for row in rows} == {*functions._texts()["functions"], "none"}
    for row in rows:
        (step,) = check_columns(row, LIMITS)
        known = {one.digits for one in integers(text_of(row), decimals=True)}
        assert known.issuperset(step.operands or ()), text_of(row)


def test_a_user_s_phrasings_make_rows(monkeypatch):
    function = operations.Function(lambda two: two[0] + two[1], 2, 2, phrasings=("join {a} with {b}",))
    monkeypatch.setitem(operations.FUNCTIONS, "join", function)
    (row,) = islice(function_rows(0, ["join"], none=0.0), 1)
    a, b = row["igc_operands"]
    assert text_of(row) == f"join {a} with {b}"
    assert row["igc_operator"] == "join"


@pytest.mark.parametrize(
    ("text", "answer", "meant"),
    [
        ("add {a}, {b} and {c}", "a + b + c", ("sum", ["a", "b", "c"])),
        ("{b}, {a} and 15 in all", "a + b + 15", ("sum", ["b", "a", "15"])),
        ("{a} and {b} and 15", "a + b + 16", None),
        ("{b}% of {a}", "a * b / 100", ("percent", ["a", "b"])),
        ("{a} plus 20% tax", "a * 120 / 100", ("increased", ["a", "20"])),
        ("{a} with 25% off", "a * 75 / 100", ("reduced", ["a", "25"])),
        ("from {a} to {b}", "(b - a) / a * 100", ("growth", ["a", "b"])),
        ("{a} pens cost {b}, {c} pens?", "b * c / a", ("proportion", ["a", "b", "c"])),
        ("{a} times {b} over {c}", "a * b / c", ("inversely", ["a", "b", "c"])),
        ("{a} of {c} for {b}", "b * c / a", ("proportion", ["a", "c", "b"])),
        ("{a} and {b} of {c}", "a * c / b", ("none", [])),
        ("gcd of {a}, {b}, {c}", "math.gcd(math.gcd(a, b), c)", ("gcd", ["a", "b", "c"])),
        ("{a} plus {b}, doubled", "(a + b) * 2", ("none", [])),
        ("{a} and {b} in the middle", "sorted([a, b, 4, 5, 6])[1]", ("none", [])),
    ],
)
def test_an_answer_is_one_function_of_the_numbers_of_its_text_or_none(text, answer, meant):
    assert functions._meant(text, functions._rewritten(text, answer)) == meant


def test_every_third_text_of_a_kind_is_held_out(tmp_path):
    texts = [f"word{n} {{a}} {{b}}" for n in range(9)]
    lines = [{"text": text, "answer": "a % b", "kind": "k", "constraints": ["a>b"]} for text in texts]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    first = {text_of(row).split()[0] for row in islice(answer_rows(path, False), 60)}
    other = {text_of(row).split()[0] for row in islice(answer_rows(path, True), 60)}
    assert other == {"word2", "word5", "word8"}
    assert first == {f"word{n}" for n in range(9)} - other
