"""What the benchmark of the calculator's speed rests on: operands, agreement of all three, and counted bytes.

Times are not tested. Try it: `pytest tests/benchmarks/test_calculator.py`
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.cost import calculator


ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
SYMBOLS = ["+", "-", "*", "/", calculator.ALL]


def operands(symbol, digits=5, batch=13):
    return calculator.operands_of(symbol, digits, batch, 0, CPU)


@pytest.mark.parametrize("digits", [1, 2, 5, 40])
@pytest.mark.parametrize("symbol", SYMBOLS)
def test_operands_have_their_digits_and_divisions_no_remainder(symbol, digits):
    given = operands(symbol, digits, 40)
    assert given.digits.shape == (40, 2, digits)
    assert calculator.to_pairs(given) == given.integers
    assert len(set(given.integers)) > 5
    assert {a < 0 for a, _ in given.integers} == {True, False}
    for index, (a, b) in zip(given.which, given.integers, strict=True):
        assert len(str(abs(a))) == digits
        division = given.symbols[index] == "/"
        assert len(str(abs(b))) == ((digits + 1) // 2 if division else digits)
        assert not division or a % b == 0
    assert set(given.which) == set(range(len(given.symbols)))


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_all_three_agree_in_both_forms(symbol):
    given = operands(symbol)
    calculator.check(given, calculator.contestants(given, calculator.calculate))


@pytest.mark.parametrize("form", [calculator.DIGITS, calculator.INTEGERS])
@pytest.mark.parametrize("name", [calculator.CALCULATOR, calculator.INT, calculator.NUMPY])
def test_a_wrong_result_is_refused_and_named(form, name):
    given, other = operands("-"), operands("+")
    made = calculator.contestants(given, None)
    made[form][name] = calculator.contestants(other._replace(integers=given.integers, digits=given.digits), None)[
        form
    ][name]
    a, b = given.integers[0]
    with pytest.raises(SystemExit, match=f"^{name}, {form}: .* - .* gives "):
        calculator.check(given, made)


def test_a_refusal_is_no_result():
    given = operands("*")._replace(width=3)
    with pytest.raises(SystemExit, match=r"calculator, digits: .* \* .* is refused"):
        calculator.check(given, calculator.contestants(given, None))


def test_a_mixture_goes_back_to_its_rows():
    given = operands(calculator.ALL, batch=10)
    array = calculator.object_array(given.integers)
    assert isinstance(array[0, 0], int)
    assert calculator.by_numpy(given, array).tolist() == calculator.by_python(given, given.integers)
    assert calculator.by_numpy(given, array).dtype == np.dtype(object)


def test_bytes_are_those_of_inputs_and_outputs_and_views_move_none():
    x, y = torch.zeros(10, 4), torch.zeros(10, 4)
    with calculator.BytesMoved() as counted:
        _ = x + y
    assert counted.bytes == 3 * 160
    with calculator.BytesMoved() as counted:
        _ = x.view(40)[:20].unsqueeze(0).expand(3, 20)
    assert counted.bytes == 0
    with calculator.BytesMoved() as counted:
        _ = x[:1].clone().expand(10, 4) + y  # 16 and 16, then 16, 160 and 160
    assert counted.bytes == 32 + 16 + 320


def test_the_least_that_is_moved_is_operands_and_results():
    given = operands("+", digits=3, batch=8)
    moved = calculator.bytes_moved(given)
    assert moved["least"] == 8 * 8 * (2 * 3 + 2 + 1 + 6 + 1 + 1 + 1)
    assert moved["moved"] > moved["least"]


@pytest.mark.slow
def test_the_command_writes_every_cell(tmp_path, monkeypatch):
    output, figure = tmp_path / "calculator.json", tmp_path / "calculator.png"
    sizes = ["--operations", "+", "all", "--digits", "2", "--batches", "1", "8", "--repetitions", "2"]
    command = [sys.executable, "-m", "benchmarks.cost.calculator", *sizes, "--output", str(output)]
    subprocess.run([*command, "--figure", str(figure)], check=True, capture_output=True, cwd=ROOT)
    results = json.loads(output.read_text())
    assert results["copy_bytes_per_second"] > 0
    assert [(c["operation"], c["batch"]) for c in results["cells"]] == [("+", 1), ("+", 8), ("all", 1), ("all", 8)]
    for cell in results["cells"]:
        for form in (calculator.DIGITS, calculator.INTEGERS):
            assert {name: found["seconds"]["n"] for name, found in cell[form].items()} == {
                calculator.CALCULATOR: 2,
                calculator.INT: 2,
                calculator.NUMPY: 2,
            }
    assert figure.stat().st_size > 1000
