"""Promises of `balance`, on streams of arithmetic rows."""

import itertools
from collections import Counter

import pytest
from tiny_vocabulary import TABLE

from benchmarks.accuracy.balance import balanced, spread
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.columns import check_columns
from peft_igc.data.mixture import Mixture
from peft_igc.text.values import Limits


def calculation(a, b, operator="+", result="0"):
    """The columns of a row."""
    return {"igc_operator": operator, "igc_operands": [a, b], "igc_result": result}


def worst(report):
    """By place, the commonest token against the median, where tokens are many."""
    return {place: found["max_over_median"] for place, found in report.items() if found["tokens"] >= 100}


def test_tokens_are_counted_by_operand_and_place():
    rows = [calculation("58213", "-907"), calculation("582", "907"), calculation("1", "2"), {"igc_operator": "none"}]
    assert spread(rows, TABLE) == {
        "operand 1, token 0": {"tokens": 2, "max": 2, "median": 1.5, "max_over_median": 1.333},
        "operand 1, token 1": {"tokens": 1, "max": 1, "median": 1, "max_over_median": 1.0},
        "operand 2, token 0": {"tokens": 2, "max": 2, "median": 1.5, "max_over_median": 1.333},
    }


def test_number_tokens_are_more_equal_than_in_the_stream_in_every_place():
    report = balanced(ArithmeticRows(5, max_digits=4), TABLE, 600).report
    before, after = worst(report["before"]), worst(report["after"])
    assert len(before) == 2
    for place, ratio in before.items():
        assert after[place] < 0.7 * ratio, place
    assert report["after"]["operand 1, token 0"]["tokens"] > report["before"]["operand 1, token 0"]["tokens"]


def test_the_report_is_that_of_the_rows_and_of_the_streams_beginning():
    stream = ArithmeticRows(5, max_digits=4)
    rows, report = balanced(stream, TABLE, 200)
    assert report["rows"] == len(rows) == 200
    assert report["drawn"] > 200
    assert report["before"] == spread(stream.take(200), TABLE)
    assert report["after"] == spread(rows, TABLE)


def test_rows_are_the_streams_own_each_at_most_once():
    stream = ArithmeticRows(5, max_digits=4, distinct=True)
    rows, report = balanced(stream, TABLE, 200)
    drawn = Counter(map(repr, stream.take(report["drawn"])))
    assert not Counter(map(repr, rows)) - drawn
    assert all(check_columns(row, Limits(10, 10)) for row in rows)


def test_kinds_keep_their_shares():
    stream = ArithmeticRows(5, max_digits=4, mixture=Mixture(none=0.2, overflow=0.1, inexact=0.1))
    rows, report = balanced(stream, TABLE, 400)

    def kinds(many):
        return Counter((row["igc_operator"], (row["igc_result"] or "none").isalpha()) for row in many)

    found, expected = kinds(rows), kinds(stream.take(report["drawn"]))
    assert set(found) == set(expected)
    for kind, count in expected.items():
        assert found[kind] == pytest.approx(400 * count / report["drawn"], abs=8), kind


def test_the_stream_decides_what_is_taken_and_the_seed_in_which_order():
    first, again, other = (balanced(ArithmeticRows(5), TABLE, 100, seed).rows for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert sorted(map(repr, first)) == sorted(map(repr, other))
    assert sorted(map(repr, first)) != sorted(map(repr, balanced(ArithmeticRows(6), TABLE, 100).rows))


def test_a_token_is_taken_as_often_as_the_level_says_and_the_level_rises_with_patience():
    stream = itertools.cycle([calculation("7", "8")])
    report = balanced(stream, TABLE, 3, patience=4).report
    assert report["drawn"] == 1 + 4 + 1 + 4 + 1
    assert report["levels"] == {"+": 3}


def test_more_patience_makes_it_flatter():
    flat, flatter = (balanced(ArithmeticRows(5), TABLE, 200, patience=patience).report for patience in (2, 40))
    assert flatter["drawn"] > flat["drawn"]
    assert flatter["after"]["operand 1, token 0"]["max"] < flat["after"]["operand 1, token 0"]["max"]


def test_a_tokenizer_is_asked_how_it_splits_numbers():
    from peft_igc.inference.loading import tiny_base

    rows = [calculation("1234567", "89")]
    assert list(spread(rows, tiny_base()[1])) == [
        "operand 1, token 0",
        "operand 1, token 1",
        "operand 1, token 2",
        "operand 2, token 0",
    ]


def test_a_stream_that_ends_is_refused():
    with pytest.raises(ValueError, match=r"ended after 5 rows, of which \d of 100 were taken"):
        balanced(ArithmeticRows(5).take(5), TABLE, 100)


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="`n=0` must be at least 1"):
        balanced([], TABLE, 0)
    with pytest.raises(ValueError, match="`patience=0` must be at least 1"):
        balanced([], TABLE, 1, patience=0)
    with pytest.raises(ValueError, match="row 0 of the stream has several anchors"):
        balanced([{"igc_operator": ["+"]}], TABLE, 1)
    with pytest.raises(ValueError, match="row 0 of the stream: `igc_operands` holds 5, which is no number"):
        balanced([calculation(5, "6")], TABLE, 1)
