"""Rows for functions of one, two or three given numbers: their operands and their results."""

from itertools import islice

from peft_igc.data.columns import check_columns
from peft_igc.data.functions import function_rows
from peft_igc.data.wording.phrases import pools
from peft_igc.text import operations
from peft_igc.text.literals import integers
from peft_igc.text.values import Limits


LIMITS = Limits(operations=tuple("+-*/") + tuple(operations.FUNCTIONS))


def text_of(row):
    return row["prompt"][0]["content"]


def test_functions_have_rows_that_can_be_read_and_equal_seeds_give_equal_rows():
    rows = list(islice(function_rows(1), 600))
    assert rows[:50] == list(islice(function_rows(1), 50))
    assert {row["igc_operator"] for row in rows} == {*pools("functions"), "none"}
    for row in rows:
        (step,) = check_columns(row, LIMITS)
        known = {one.digits for one in integers(text_of(row), decimals=True)}
        assert known.issuperset(step.operands or ()), text_of(row)
    lengths = {
        name: [len(text_of(row)) for row in rows if row["igc_operator"] == name] for name in ("sqrt", "percent")
    }
    assert all(max(one) > 2 * min(one) for one in lengths.values())  # some have other sentences around them


def test_a_user_s_phrasings_make_rows(monkeypatch):
    function = operations.Function(lambda *all_of_them: sum(all_of_them), 2, 9, phrasings=("join {list}",))
    monkeypatch.setitem(operations.FUNCTIONS, "join", function)
    (row,) = islice(function_rows(0, ["join"], none=0.0), 1)
    assert text_of(row) == "join {}, {} and {}".format(*row["igc_operands"])
    function = operations.Function(lambda a, b: a + b, 2, 2, phrasings=("join {a} with {b}",))
    monkeypatch.setitem(operations.FUNCTIONS, "join", function)
    (row,) = islice(function_rows(0, ["join"], none=0.0), 1)
    a, b = row["igc_operands"]
    assert f"join {a} with {b}" in text_of(row)
    assert row["igc_operator"] == "join"
