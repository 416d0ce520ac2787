"""Promises of `dataset`: rows are kept exactly, and what a dataset does not teach is named."""

import numpy as np
import pytest

from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.columns import COLUMNS
from peft_igc.data.dataset import summarize, to_dataset
from peft_igc.data.mixture import Mixture


ORDINARY = Mixture(none=0, overflow=0, undefined=0, inexact=0)


def row(operator=None, operands=None, result=None):
    return {"prompt": "a", "completion": "b", **dict(zip(COLUMNS, (operator, operands, result), strict=True))}


def summed(*rows, operations):
    return summarize(to_dataset(rows), operations)


def test_a_first_row_without_supervision_does_not_drop_the_columns_of_the_others():
    rows = [{"prompt": "Hello", "completion": "Hi"}, *ArithmeticRows(conversational=False, mixture=ORDINARY).take(3)]
    dataset = to_dataset(rows)
    assert dataset[0]["igc_operator"] is None
    assert dataset[0]["igc_operands"] is None
    assert [dataset[i] for i in (1, 2, 3)] == rows[1:]


def test_rows_of_different_formats_are_refused():
    plain, chat = (ArithmeticRows(conversational=c, mixture=ORDINARY).take(1)[0] for c in (False, True))
    with pytest.raises(ValueError, match=r"must all hold messages or strings: row 1 has `prompt` = .*, but row 0 has"):
        to_dataset([plain, chat])
    several = {**plain, "igc_operator": ["+"], "igc_operands": [["1", "2"]], "igc_result": ["3"]}
    with pytest.raises(
        ValueError, match=r"lists with one entry per anchor or single entries: row 1 has `igc_operator`"
    ):
        to_dataset([plain, several])
    with pytest.raises(ValueError, match="no rows to make a dataset of"):
        to_dataset([])


def test_integers_of_any_size_become_strings_and_columns_of_your_own_are_kept():
    (made,) = to_dataset([{**row("+", [10**30, np.int64(1)], np.int64(2)), "weight": 1.0}])
    assert (made["igc_operands"], made["igc_result"], made["weight"]) == ([str(10**30), "1"], "2", 1.0)


@pytest.mark.parametrize("value", [3.0, 3.5, True])
def test_numbers_that_are_not_exact_are_refused_by_row(value):
    with pytest.raises(ValueError, match=f"row 1: `igc_operands` holds {value} of type `{type(value).__name__}`"):
        to_dataset([row("+", [4, 3]), row("+", [4, value])])
    with pytest.raises(ValueError, match=f"row 1: `igc_result` holds {value}"):
        to_dataset([row("+", [4, 3]), row("+", [4, 3], value)])


def test_a_column_that_looks_like_an_operand_column_and_is_none_is_refused():
    with pytest.raises(ValueError, match="The dataset has the column `igc_operand`, which is not read. Operand col"):
        to_dataset([row(), {"text": "a", "igc_operand": ["3", "4"]}])


def test_rows_are_counted_by_label_and_what_they_do_not_teach_is_warned_of():
    rows = [row("+", ["1", "2"], "3"), row("+", ["1", "2"]), row("/", ["1", "0"], "undefined"), row("none"), row()]
    line, lacks = summed(*rows, operations=("+", "/"))
    assert line == "Labels of 5 rows: + 2, none 1, undefined 1; 1 rows not supervised."
    assert [text.partition(",")[0] for text in lacks] == ["No row asks for `/`"]
    _, lacks = summed(row("+", ["1", "2"]), row("*", ["1", "2"]), operations=("+", "*", "/"))
    assert [text.partition(",")[0] for text in lacks] == [
        "No row asks for `/`",
        'No row has the operator "none": the calculator does not learn when to be silent',
    ]
    nested, _ = summed(row(["+"], [["1", "2"]], [["3"]]), operations="+")
    assert nested == "Labels of 1 rows: + 1; 0 rows not supervised."
    assert summed(row(), operations="+")[1] == [
        "No row has an operator: the reading learns nothing. Add operands, or generated rows."
    ]
