"""Promises of `columns`: what a dataset says about a calculation is checked, then encoded without loss."""

import re

import pytest
import torch

from peft_igc.data.columns import StepLabel, check_columns, encode_steps, label
from peft_igc.numbers.calculator import Status, calculate
from peft_igc.numbers.digits import PAD, decode


OPERATIONS = ("+", "-", "*", "/")


def row(operator, operands, result):
    return {"igc_operator": operator, "igc_operands": operands, "igc_result": result}


def check(operator, operands, result, num_digits=5, result_digits=5, **more):
    return check_columns(row(operator, operands, result), num_digits, result_digits, **more)


def encoded(rows, num_digits=5, result_digits=5, operations=OPERATIONS):
    return encode_steps(rows, num_digits=num_digits, result_digits=result_digits, operations=operations)


@pytest.mark.parametrize(
    ("columns", "step"),
    [
        (("+", ["58", "36"], "94"), StepLabel("+", ("58", "36"), "94", Status.OK)),
        (("-", ["36", "58"], "-22"), StepLabel("-", ("36", "58"), "-22", Status.OK)),
        (("*", ["-007", "6"], "-42"), StepLabel("*", ("-7", "6"), "-42", Status.OK)),
        (("*", ["-0", "6"], "0"), StepLabel("*", ("0", "6"), "0", Status.OK)),
        (("/", ["8", "0"], "undefined"), StepLabel("/", ("8", "0"), None, Status.UNDEFINED)),
        (("/", ["8", "3"], "inexact"), StepLabel("/", ("8", "3"), None, Status.INEXACT)),
        (("+", ["123456", "1"], "overflow"), StepLabel("+", ("123456", "1"), None, Status.OVERFLOW)),
        (("*", ["99999", "99"], "overflow"), StepLabel("*", ("99999", "99"), None, Status.OVERFLOW)),
        (("/", ["123456", "0"], "overflow"), StepLabel("/", ("123456", "0"), None, Status.OVERFLOW)),
        (("none", None, None), StepLabel("none", None, None, Status.NONE)),
        ((None, None, None), StepLabel(None, None, None, Status.NONE)),
    ],
)
def test_a_correct_row_gives_one_step(columns, step):
    assert check(*columns) == [step]


def test_a_missing_result_is_computed_and_a_row_without_columns_is_not_supervised():
    assert check("*", ["58", "36"], None) == [StepLabel("*", ("58", "36"), "2088", Status.OK)]
    assert check("/", ["8", "0"], None)[0].status is Status.UNDEFINED
    assert check_columns({"prompt": "hello"}, 5, 5) == [StepLabel(None, None, None, Status.NONE)]


def test_several_anchors_give_one_step_each_in_order():
    steps = check(["+", "none", None, "/"], [["1", "2"], None, None, ["9", "0"]], ["3", None, None, "undefined"])
    assert [step.operator for step in steps] == ["+", "none", None, "/"]
    assert [step.status for step in steps] == [Status.OK, Status.NONE, Status.NONE, Status.UNDEFINED]
    assert check([], [], []) == []
    assert check([None, "none"], None, None) == check([None, "none"], [None, None], [None, None])


@pytest.mark.parametrize("columns", [(["+", "-"], [["1", "2"]], ["3", "1"]), (["+", "-"], [["1", "2"]] * 2, "3")])
def test_list_columns_of_different_lengths_are_refused(columns):
    with pytest.raises(ValueError, match=r"row 4: `igc_operator` has 2 entries but `igc_(operands|result)` has "):
        check(*columns, where="row 4")


def test_an_error_in_one_of_several_anchors_names_the_anchor():
    with pytest.raises(ValueError, match="row 4, anchor 1: `igc_result` '4' contradicts its operands"):
        check(["+", "+"], [["1", "2"], ["1", "2"]], ["3", "4"], where="row 4")


def test_integers_are_numbers_like_strings():
    row = {"igc_operator": "-", "igc_operands": [12, -30], "igc_result": 42}
    texts = {"igc_operator": "-", "igc_operands": ["12", "-30"], "igc_result": "42"}
    assert check_columns(row, 4, 4) == check_columns(texts, 4, 4)


@pytest.mark.parametrize("number", [12.0, None, True])
def test_numbers_that_are_no_strings_or_integers_are_refused_with_the_reason(number):
    for operands, result in ((["1", number], "13"), (["1", "12"], number)):
        if result is None:
            continue  # a missing result is computed
        with pytest.raises(TypeError, match="row 9: `igc_(operands|result)` holds .*or integers; floats are not"):
            check("+", operands, result, where="row 9")


@pytest.mark.parametrize("text", ["", " 1", "1.5", "+1", "1,000", "one", "\u0661"])
def test_text_that_is_no_integer_is_refused(text):
    with pytest.raises(ValueError, match=r"row 9: `igc_operands`: .* is not an integer"):
        check("+", [text, "1"], "2", where="row 9")


@pytest.mark.parametrize("result", ["124", "2", None, "undefined"])
def test_an_operand_that_does_not_fit_names_value_limit_and_cure(result):
    message = re.escape("row 3: the operand -123456 has 6 digits, but `num_digits=5`. Set `IGCConfig(num_digits=6)`")
    with pytest.raises(ValueError, match=message):
        check("+", ["1", "-123456"], result, where="row 3")


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (("*", ["58", "36"], "2089"), r"'2089' contradicts its operands: 58 \* 36 is 2088"),
        (("-", ["3", "5"], "2"), "'2' contradicts its operands: 3 - 5 is -2"),
        (("/", ["7", "2"], "3"), "'3' contradicts its operands: 7 / 2 is \"inexact\""),
        (("/", ["7", "0"], "0"), "'0' contradicts its operands: 7 / 0 is \"undefined\""),
        (("+", ["1", "2"], "overflow"), "'overflow' contradicts its operands: 1 [+] 2 is 3"),
        (("*", ["99999", "99"], "9899901"), 'has more than `result_digits=5` digits: write "overflow"'),
    ],
)
def test_a_result_that_contradicts_its_operands_is_refused(columns, told):
    with pytest.raises(ValueError, match=f"row 3: `igc_result` {told}" if told[0] == "'" else told):
        check(*columns, where="row 3")


def test_the_division_of_the_configuration_decides_what_is_right():
    assert check("/", ["-7", "2"], "-4", division="floor")[0].result == "-4"
    assert check("/", ["-7", "2"], "-3", division="trunc")[0].result == "-3"
    with pytest.raises(ValueError, match="-7 / 2 is -4"):
        check("/", ["-7", "2"], "-3", division="floor")


@pytest.mark.parametrize("operator", ["plus", "^", "None", "/"])
def test_an_operator_that_is_not_configured_is_refused_with_the_known_ones(operator):
    with pytest.raises(
        ValueError, match=r"row 1: `igc_operator` '.*' is unknown: this configuration has '\+', 'none'"
    ):
        check(operator, ["1", "2"], "3", operations=("+",), where="row 1")


def test_an_operator_of_the_wrong_type_is_refused():
    with pytest.raises(TypeError, match="row 1: `igc_operator` must be a string or None, got 3"):
        check(3, ["1", "2"], "3", where="row 1")


@pytest.mark.parametrize("operator", ["none", None])
def test_operands_without_an_operator_are_refused(operator):
    with pytest.raises(ValueError, match=r"row 1: `igc_operator` is .* but `igc_operands` is \['1', '2'\]"):
        check(operator, ["1", "2"], None, where="row 1")
    with pytest.raises(ValueError, match=r"row 1: `igc_operator` is .* but `igc_result` is '3'"):
        check(operator, None, "3", where="row 1")


def test_operands_of_the_wrong_shape_are_refused():
    for operands in ("12", None, 3):
        with pytest.raises(TypeError, match="`igc_operands` must be a list of two numbers"):
            check("+", operands, "3")
    for operands in (["1"], ["1", "2", "3"]):
        with pytest.raises(ValueError, match="`igc_operands` must hold exactly two numbers"):
            check("+", operands, "3")


def test_the_label_is_overflow_as_soon_as_an_operand_cannot_be_read():
    assert label("-", "123456", "123456", 5, 5) is Status.OVERFLOW
    assert label("-", "12345", "-12345", 5, 5) == "24690"
    assert label("*", "-300", "400", 5, 5) is Status.OVERFLOW
    assert label("*", "-300", "300", 5, 5) == "-90000"


def test_the_tensors_hold_what_the_steps_say():
    rows = [
        check(["-", "none"], [["36", "58"], None], ["-22", None]),
        check("/", ["8", "0"], "undefined"),
        [],
        check(None, None, None),
    ]
    tensors = encoded(rows)
    assert all(tensor.dtype == torch.int64 for tensor in tensors.values())
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        "igc_operator": (4, 2),
        "igc_operands": (4, 2, 2, 6),
        "igc_signs": (4, 2, 2),
        "igc_result": (4, 2, 5),
        "igc_result_sign": (4, 2),
        "igc_result_status": (4, 2),
        "igc_result_scale": (4, 2),
    }
    assert tensors["igc_operator"].tolist() == [[1, 4], [3, -100], [-100, -100], [-100, -100]]
    assert decode(tensors["igc_operands"][0, 0], tensors["igc_signs"][0, 0]) == ["36", "58"]
    assert decode(tensors["igc_operands"][1, 0], tensors["igc_signs"][1, 0]) == ["8", "0"]
    assert decode(tensors["igc_result"][0, :1], tensors["igc_result_sign"][0, :1]) == ["-22"]
    statuses = [[Status.OK, Status.NONE], [Status.UNDEFINED, Status.NONE], [Status.NONE] * 2, [Status.NONE] * 2]
    assert tensors["igc_result_status"].tolist() == [[int(s) for s in row] for row in statuses]
    for empty in (tensors["igc_operands"][0, 1], tensors["igc_operands"][2:], tensors["igc_result"][1:]):
        assert (empty == PAD).all()


def test_an_over_long_operand_shows_its_first_digits_and_its_sign():
    tensors = encoded([check("+", ["-1234567", "12345"], "overflow")])
    assert tensors["igc_operands"][0, 0].tolist() == [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, PAD]]
    assert tensors["igc_signs"][0, 0].tolist() == [1, 0]


@pytest.mark.parametrize("rows", [[], [[], []]])
def test_a_batch_without_steps_has_no_anchors(rows):
    tensors = encoded(rows)
    assert tensors["igc_operands"].shape == (len(rows), 0, 2, 6)
    assert all(tensor.dtype == torch.int64 for tensor in tensors.values())


def test_the_encoded_result_is_what_the_calculator_gives():
    texts = ["0", "7", "-12", "99999", "-99999", "456"]
    rows = [
        check(op, [a, b], None if isinstance(want := label(op, a, b, 5, 5), str) else want.name.lower())
        for op in OPERATIONS
        for a in texts
        for b in texts
    ]
    tensors = encoded(rows)
    got = calculate(tensors["igc_operands"][..., :5], tensors["igc_signs"], tensors["igc_operator"], result_digits=5)
    assert torch.equal(got.digits, tensors["igc_result"])
    assert torch.equal(got.sign, tensors["igc_result_sign"])
    assert torch.equal(got.status, tensors["igc_result_status"])
    assert torch.equal(got.scale, tensors["igc_result_scale"])


def test_a_decimal_result_is_its_digits_and_its_scale():
    steps = [StepLabel("*", None, text, Status.OK) for text in ("-12.5", "0.05", "-0.25", "3")]
    tensors = encoded([[step] for step in steps])
    digits, signs = tensors["igc_result"][:, 0], tensors["igc_result_sign"][:, 0]
    assert decode(digits, signs) == ["-125", "5", "-25", "3"]
    assert tensors["igc_result_scale"][:, 0].tolist() == [1, 2, 2, 0]
