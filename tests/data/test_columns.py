"""Promises of `columns`: what a dataset says about a calculation is checked, then encoded without loss."""

import dataclasses
import itertools

import pytest
import torch

from peft_igc.data.columns import check_columns, encode_steps, label
from peft_igc.data.exact_values import StepLabel
from peft_igc.numbers.calculator import Status, calculate
from peft_igc.numbers.digits import PAD, decode
from peft_igc.text.rounding import Rounding
from peft_igc.text.values import Limits


LIMITS = Limits(5, 5, decimals=False)
OPERATIONS = ("+", "-", "*", "/")


def check(operator, operands, result, where="row", rounding="refuse"):
    row = {"igc_operator": operator, "igc_operands": operands, "igc_result": result}
    return check_columns(row, dataclasses.replace(LIMITS, rounding=Rounding.of(rounding)), where)


def encoded(rows, num_digits=5, result_digits=5, operations=OPERATIONS):
    return encode_steps(rows, num_digits=num_digits, result_digits=result_digits, operations=operations)


def test_a_correct_row_gives_one_step():
    for columns, operands, result, status in (
        (("+", ["58", "36"], "94"), ("58", "36"), "94", Status.OK),
        (("-", [36, 58], -22), ("36", "58"), "-22", Status.OK),  # integers are numbers like strings
        (("*", ["-007", "6"], "-42"), ("-7", "6"), "-42", Status.OK),
        (("*", ["-0", "6"], "0"), ("0", "6"), "0", Status.OK),
        (("*", ["58", "36"], None), ("58", "36"), "2088", Status.OK),  # a missing result is computed
        (("/", ["8", "0"], None), ("8", "0"), None, Status.UNDEFINED),
        (("/", ["8", "0"], "undefined"), ("8", "0"), None, Status.UNDEFINED),
        (("/", ["8", "3"], "inexact"), ("8", "3"), None, Status.INEXACT),
        (("+", ["123456", "1"], "overflow"), ("123456", "1"), None, Status.OVERFLOW),
        (("*", ["99999", "99"], "overflow"), ("99999", "99"), None, Status.OVERFLOW),
        (("/", ["123456", "0"], "overflow"), ("123456", "0"), None, Status.OVERFLOW),
        (("none", None, None), None, None, Status.NONE),
        ((None, None, None), None, None, Status.NONE),
    ):
        assert check(*columns) == [StepLabel(columns[0], operands, result, status)]
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


WRONG = (  # operator, operands, result, error, message
    ("+", ["1", 12.0], "13", TypeError, "`igc_operands` holds 12.0 of .*or integers; floats are not exact"),
    ("+", ["1", True], "13", TypeError, "`igc_operands` holds True of type `bool`"),
    ("+", ["1", None], "13", TypeError, "`igc_operands` holds None"),
    ("+", ["1", "12"], 13.0, TypeError, "`igc_result` holds 13.0"),
    *(("+", [text, "1"], "2", ValueError, "`igc_operands`: .* is not an integer")
      for text in ("", "-", "--5", " 1", "1\n", "1.5", "+1", "1,000", "1_000", "1e3", "one", "\u0661", "\uff13", "²")),
    *(("+", ["1", "-123456"], result, ValueError,
       "the operand -123456 has 6 digits, but `num_digits=5`. Set `IGCConfig.num_digits=6.`")
      for result in ("124", "2", None, "undefined")),
    ("*", ["58", "36"], "2089", ValueError, r"`igc_result` '2089' contradicts its operands: 58 \* 36 is 2088"),
    ("-", ["3", "5"], "2", ValueError, "'2' contradicts its operands: 3 - 5 is -2"),
    ("/", ["7", "2"], "3", ValueError, "'3' contradicts its operands: 7 / 2 is \"inexact\""),
    ("/", ["7", "0"], "0", ValueError, "'0' contradicts its operands: 7 / 0 is \"undefined\""),
    ("+", ["1", "2"], "overflow", ValueError, "'overflow' contradicts its operands: 1 [+] 2 is 3"),
    ("*", ["99999", "99"], "9899901", ValueError, 'has more than `result_digits=5` digits: write "overflow"'),
    *((operator, ["1", "2"], "3", ValueError, r"`igc_operator` '.*' is unknown: this configuration has '\+', '-'")
      for operator in ("plus", "^", "None")),
    (3, ["1", "2"], "3", TypeError, "`igc_operator` must be a string or None, got 3"),
    *((operator, ["1", "2"], None, ValueError, r"`igc_operator` is .* but `igc_operands` is \['1', '2'\]")
      for operator in ("none", None)),
    ("none", None, "3", ValueError, r"`igc_operator` is .* but `igc_result` is '3'"),
    *(("+", operands, "3", TypeError, "`igc_operands` must be a list of two numbers") for operands in ("12", None, 3)),
    *(("+", operands, "3", ValueError, "`igc_operands` must hold exactly two numbers")
      for operands in (["1"], ["1", "2", "3"])),
)  # fmt: skip


def test_a_wrong_value_is_refused_with_its_row_and_the_reason():
    for operator, operands, result, error, message in WRONG:
        with pytest.raises(error, match=f"row 9: .*{message}|row 9: {message}"):
            check(operator, operands, result, where="row 9")


def test_the_tensors_hold_what_the_steps_say():
    two = check(["-", "none"], [["36", "58"], None], ["-22", None])
    tensors = encoded([two, check("/", ["8", "0"], "undefined"), [], check(None, None, None)])
    assert all(tensor.dtype == torch.int64 for tensor in tensors.values())
    shapes = {"operator": (4, 2), "operands": (4, 2, 2, 6), "signs": (4, 2, 2), "result": (4, 2, 5),
              "result_sign": (4, 2), "result_status": (4, 2), "result_scale": (4, 2)}  # fmt: skip
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        f"igc_{k}": v for k, v in shapes.items()
    }
    assert tensors["igc_operator"].tolist() == [[1, 4], [3, -100], [-100, -100], [-100, -100]]
    assert decode(tensors["igc_operands"][0, 0], tensors["igc_signs"][0, 0]) == ["36", "58"]
    assert decode(tensors["igc_operands"][1, 0], tensors["igc_signs"][1, 0]) == ["8", "0"]
    assert decode(tensors["igc_result"][0, :1], tensors["igc_result_sign"][0, :1]) == ["-22"]
    statuses = [[Status.OK, Status.NONE], [Status.UNDEFINED, Status.NONE], [Status.NONE] * 2, [Status.NONE] * 2]
    assert tensors["igc_result_status"].tolist() == [[int(s) for s in row] for row in statuses]
    for empty in (tensors["igc_operands"][0, 1], tensors["igc_operands"][2:], tensors["igc_result"][1:]):
        assert (empty == PAD).all()


def test_the_encoded_result_is_what_the_calculator_gives():
    texts = ["0", "7", "-12", "99999", "-99999", "456"]
    rows = []
    for operator, a, b in itertools.product(OPERATIONS, texts, texts):
        result = label(operator, (a, b), LIMITS)
        rows.append(check(operator, [a, b], result if isinstance(result, str) else result.name.lower()))
    tensors = encoded(rows)
    got = calculate(tensors["igc_operands"][..., :5], tensors["igc_signs"], tensors["igc_operator"], result_digits=5)
    assert torch.equal(got.digits, tensors["igc_result"])
    assert torch.equal(got.sign, tensors["igc_result_sign"])
    assert torch.equal(got.status, tensors["igc_result_status"])
    assert torch.equal(got.scale, tensors["igc_result_scale"])
