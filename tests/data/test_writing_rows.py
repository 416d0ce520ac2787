"""Promises of the rows that cover leading digits: every group is there, and the results are right."""

import pytest

from peft_igc import IGCConfig
from peft_igc.data.columns import check_columns
from peft_igc.data.exact_values import label_expression
from peft_igc.data.writing_rows import covering_rows
from peft_igc.inference.loading import tiny_base
from peft_igc.text.values import Limits


@pytest.mark.parametrize("decimals", [True, False])
def test_every_group_stands_behind_a_sign_and_behind_a_point(decimals):
    rows = covering_rows(2000, 0, decimals)
    results = [row["igc_result"] for row in rows]
    parts = [result.removeprefix("-").partition(".") for result in results]
    leading = {number[:3] for number, _, _ in parts}
    assert {str(group) for group in range(1000)} == leading
    behind = {fraction[:3] for _, _, fraction in parts}
    assert len(behind) > 700 if decimals else behind == {""}
    signed = {number[:3] for (number, _, _), result in zip(parts, results, strict=True) if result.startswith("-")}
    assert len(signed) >= 999  # but for zero
    assert covering_rows(2000, 1, decimals) != rows == covering_rows(2000, 0, decimals)


def test_results_are_right_and_the_columns_are_checked():
    config = IGCConfig.from_tokenizer(tiny_base()[1])
    for row in covering_rows(300, 0, True):
        check_columns(row, Limits.of(config))
        assert label_expression(row["igc_expression"], Limits.of(config)).result == row["igc_result"]
        assert row["igc_expression"] in row["prompt"][0]["content"]
        assert row["completion"][0]["content"] == row["igc_result"]
