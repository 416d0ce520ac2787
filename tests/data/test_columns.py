"""Promises of `columns`: what a dataset says about a calculation is checked, then encoded without loss."""

import dataclasses
import itertools
from pathlib import Path

import pytest
import torch
from numbers_as_digits import decode

from peft_igc.data.columns import check_columns, encode_steps, label
from peft_igc.data.exact_values import StepLabel
from peft_igc.data.files import read_rows
from peft_igc.numbers.calculator import Status, calculate
from peft_igc.numbers.digits import PAD
from peft_igc.text.rounding import Rounding
from peft_igc.text.values import Limits


LIMITS = Limits(5, 5, decimals=False)
OPERATIONS = ("+", "-", "*", "/")


def check(operator, operands, result, where="row", rounding="refuse", decimals=False):
    row = {"igc_operator": operator, "igc_operands": operands, "igc_result": result}
    changes = {"rounding": Rounding.of(rounding), "decimals": decimals, "decimal_operands": decimals}
    return check_columns(row, dataclasses.replace(LIMITS, **changes), where)


LINES = read_rows(Path(__file__).with_name("columns.jsonl"))


def test_a_correct_row_gives_one_step():
    for line in (line for line in LINES if "step" in line):
        operands, result, status = line["step"]
        (step,) = check(*line["columns"], decimals=line.get("decimals", False))
        assert step == StepLabel(line["columns"][0], operands and tuple(operands), result, Status[status.upper()])
    assert check_columns({"prompt": "hello"}, LIMITS) == [StepLabel(None, None, None, Status.NONE)]


def test_several_anchors_give_one_step_each_in_order_and_errors_name_the_anchor():
    steps = check(["+", "none", None, "/"], [["1", "2"], None, None, ["9", "0"]], ["3", None, None, "undefined"])
    assert [step.operator for step in steps] == ["+", "none", None, "/"]
    assert [step.status for step in steps] == [Status.OK, Status.NONE, Status.NONE, Status.UNDEFINED]
    assert check([], [], []) == []
    assert check([None, "none"], None, None) == check([None, "none"], [None, None], [None, None])
    with pytest.raises(ValueError, match="row 4, anchor 1: `igc_result` '4' contradicts its operands"):
        check(["+", "+"], [["1", "2"], ["1", "2"]], ["3", "4"], where="row 4")
    for columns in ((["+", "-"], [["1", "2"]], ["3", "1"]), (["+", "-"], [["1", "2"]] * 2, "3")):
        with pytest.raises(ValueError, match=r"row 4: `igc_operator` has 2 entries but `igc_(operands|result)` has "):
            check(*columns, where="row 4")


def test_a_wrong_value_is_refused_with_its_row_and_the_reason():
    wrong = [line for line in LINES if "message" in line]
    assert len(wrong) + 18 == len(LINES)
    for line in wrong:
        error = {"TypeError": TypeError, "ValueError": ValueError}[line["error"]]
        with pytest.raises(error, match=f"row 9: .*{line['message']}|row 9: {line['message']}"):
            check(*line["columns"], where="row 9")


def test_the_tensors_hold_what_the_steps_say():
    two = check(["-", "none"], [["36", "58"], None], ["-22", None])
    tensors = encode_steps([two, check("/", ["8", "0"], "undefined"), [], check(None, None, None)], LIMITS)
    assert all(tensor.dtype == torch.int64 for tensor in tensors.values())
    shapes = {"operator": (4, 2), "operands": (4, 2, 2, 6), "signs": (4, 2, 2), "result": (4, 2, 5),
              "result_sign": (4, 2), "result_status": (4, 2), "result_scale": (4, 2)}  # fmt: skip
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        f"igc_{k}": v for k, v in shapes.items()
    }
    assert tensors["igc_operator"].tolist() == [[1, 4], [3, -100], [-100, -100], [-100, -100]]
    assert decode(tensors["igc_operands"][:2, 0], tensors["igc_signs"][:2, 0]) == ["36", "58", "8", "0"]
    assert decode(tensors["igc_result"][0, :1], tensors["igc_result_sign"][0, :1]) == ["-22"]
    statuses = [[Status.OK, Status.NONE], [Status.UNDEFINED, Status.NONE], [Status.NONE] * 2, [Status.NONE] * 2]
    assert tensors["igc_result_status"].tolist() == [[int(s) for s in row] for row in statuses]
    for empty in (tensors["igc_operands"][0, 1], tensors["igc_operands"][2:], tensors["igc_result"][1:]):
        assert (empty == PAD).all()


def test_the_encoded_result_is_what_the_calculator_gives():
    texts = ["0", "7", "-12", "99999", "-99999", "456"]
    rows = []
    for operator, a, b in itertools.product(OPERATIONS, texts, texts):
        rows.append(check(operator, [a, b], label(operator, (a, b), LIMITS)))
    tensors = encode_steps(rows, LIMITS)
    got = calculate(tensors["igc_operands"][..., :5], tensors["igc_signs"], tensors["igc_operator"], result_digits=5)
    assert torch.equal(got.digits, tensors["igc_result"])
    assert torch.equal(got.sign, tensors["igc_result_sign"])
    assert torch.equal(got.status, tensors["igc_result_status"])
    assert torch.equal(got.scale, tensors["igc_result_scale"])
