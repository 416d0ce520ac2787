"""Promises of the rows that train the writing: every group and every length is there, and the results are right."""

from collections import Counter

import pytest

from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.columns import check_columns
from peft_igc.data.writing_rows import covering_rows, longer_rows
from peft_igc.text.values import Limits


@pytest.mark.parametrize("limits", [Limits(), Limits(14, 14), Limits(5, 10, decimals=False)])
def test_every_group_follows_a_sign_and_a_point_and_the_results_are_right(limits):
    rows = covering_rows(2000, 0, limits, prompts := ["What does article 7 cost?", "Hello."])
    parts = [row["igc_result"].removeprefix("-").partition(".") for row in rows]
    assert {str(group) for group in range(1000)} == {number[:3] for number, _, _ in parts}
    after_point = {fraction[:3] for _, _, fraction in parts}
    assert len(after_point) > 700 if limits.decimals else after_point == {""}
    assert len({row["igc_result"][:4] for row in rows if row["igc_result"].startswith("-")}) >= 999  # but for zero
    assert covering_rows(2000, 1, limits, prompts) != rows == covering_rows(2000, 0, limits, prompts)
    assert {row["prompt"] for row in rows} == set(prompts)
    for row in rows:
        check_columns(row, limits)
        assert row["completion"][0]["content"] == row["igc_result"]


def test_results_of_all_lengths_come_equally_often_if_that_is_asked_for():
    stream = ArithmeticRows(0, max_digits=3, limits=Limits(3, 6, decimals=False))
    made = (longer_rows(stream, 120, lengths) for lengths in (6, None))
    equal, any_length = (Counter(len(row["igc_result"].lstrip("-")) for row in rows) for rows in made)
    assert equal == dict.fromkeys(range(1, 7), 20)
    assert any_length != equal
