"""Promises of the label summary: counts are right, and a dataset that would teach too little is warned of."""

import pytest
from datasets import Dataset

from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.columns import COLUMNS
from peft_igc.data.dataset import to_dataset, to_iterable_dataset
from peft_igc.data.label_summary import similar_columns, summarize


OPERATIONS = ("+", "-", "*", "/")


def row(operator=None, operands=None, result=None):
    return {"prompt": "a", "completion": "b", **dict(zip(COLUMNS, (operator, operands, result), strict=True))}


def summed(*rows):
    return summarize(to_dataset(rows))


def test_rows_are_counted_by_operator_refusal_none_and_unknown():
    found = summed(
        row("+", ["1", "2"], "3"), row("+", ["1", "2"]), row("/", ["1", "0"], "undefined"), row("none"), row()
    )
    assert (found.rows, found.annotated) == (5, 4)
    assert found.labels == {"+": 2, "undefined": 1, "none": 1}
    assert found.format() == "Labels of 5 rows: + 2, none 1, undefined 1; 1 rows not supervised."


def test_rows_with_several_anchors_count_each_of_them_and_the_row_once():
    rows = [row(["+", None, "none"], [["1", "2"], None, None], ["3", None, None]), row([None], [None], [None])]
    found = summed(*rows)
    assert (found.rows, found.annotated, found.labels) == (2, 1, {"+": 1, "none": 1})


def test_generated_rows_lack_nothing():
    found = summarize(to_dataset(ArithmeticRows(seed=0).take(200)))
    assert found.annotated == found.rows == 200
    assert found.warnings(OPERATIONS) == []


def test_an_operation_that_never_occurs_and_missing_refusals_are_warned_of():
    found = summed(row("+", ["1", "2"]), row("*", ["1", "2"]))
    assert [text.partition(",")[0] for text in found.warnings(("+", "*", "/"))] == [
        "No row asks for `/`",
        'No row has the operator "none": the calculator does not learn when to be silent',
    ]
    refused = summed(row("+", ["1", "2"]), row("/", ["1", "0"], "undefined"), row("none"))
    assert [text.partition(",")[0] for text in refused.warnings(("+", "/"))] == ["No row asks for `/`"]


def test_rows_without_any_operator_are_warned_of():
    plain = Dataset.from_list([{"prompt": "a", "completion": "b", "igc_operand": ["1", "2"]}])
    first, second = summarize(plain).warnings(OPERATIONS)
    assert first.startswith("The column `igc_operand` is not read; the name of an operand column is `igc_operands`")
    assert second.startswith("No row has an operator: the reading learns nothing")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["prompt", "igc_operand"], {"igc_operand": "igc_operands"}),
        (["operands", "operator"], {"operands": "igc_operands", "operator": "igc_operator"}),
        (["igc-results", "IGC_Operation"], {"igc-results": "igc_result", "IGC_Operation": "igc_operator"}),
        (["igcoperands", *COLUMNS], {}),  # the right one is there
        (["result", "answer", "messages", "igc_cut", "opera", "text", "operand_count_of_words"], {}),
    ],
)
def test_columns_that_are_named_almost_right_are_found_and_ordinary_ones_are_not(names, found):
    assert similar_columns(names) == found


def test_a_stream_is_not_counted():
    assert summarize(to_iterable_dataset(ArithmeticRows(), 4)) is None
