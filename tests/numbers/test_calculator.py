"""The calculator is exact: every pair up to three digits, and properties up to forty, against Python integers."""

import itertools
import os
import random
import re
import shutil

import pytest
import torch
from devices import no_synchronization
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numbers_as_digits import decode, encode
from torch._subclasses.fake_tensor import FakeTensorMode

from peft_igc.numbers.calculator import Status, calculate
from peft_igc.numbers.digits import PAD


SYMBOLS = "+-*/"
DIVISIONS = ("exact", "floor", "trunc")
properties = settings(max_examples=60, derandomize=True, deadline=None)
integers = st.integers(0, 40).flatmap(lambda n: st.integers(-(10**n) + 1, 10**n - 1)) | st.integers(-12, 12)


def ask(pairs, operators, width, result_digits, division="exact", operations=SYMBOLS):
    """Calculates with integers: `Result` for pairs of integers and operator indices."""
    texts = [str(number) for pair in pairs for number in pair]
    digits, signs = encode(texts, width)
    return calculate(
        digits.view(-1, 2, width),
        signs.view(-1, 2),
        torch.tensor(operators, dtype=torch.int64),
        operations=operations,
        result_digits=result_digits,
        division=division,
    )


def answers(result):
    """One per row: the number as text, or its status."""
    rows = zip(result.digits, result.sign, result.status.tolist(), strict=True)
    return [decode(digits, sign)[0] if status == Status.OK else Status(status) for digits, sign, status in rows]


PYTHON_SIDE = {  # number, or None where there is none
    ("+", "exact"): lambda a, b: a + b,
    ("-", "exact"): lambda a, b: a - b,
    ("*", "exact"): lambda a, b: a * b,
    ("/", "exact"): lambda a, b: a // b if a % b == 0 else None,
    ("/", "floor"): lambda a, b: a // b,
    ("/", "trunc"): lambda a, b: (abs(a) // abs(b)) * (1 if a * b > 0 else -1),
}


def expected_answer(symbol, a, b, division="exact", result_digits=10**6):
    """Text or status of a calculation with integers, None for operands that are none."""
    if symbol is None:
        return Status.NONE
    if a is None or b is None or (symbol == "/" and b == 0):
        return Status.UNDEFINED
    number = PYTHON_SIDE[symbol, division if symbol == "/" else "exact"](a, b)
    if number is None:
        return Status.INEXACT
    return str(number) if len(str(abs(number))) <= result_digits else Status.OVERFLOW


def integer_of(row, sign):
    """The integer of classes of digits and a sign, None for malformed ones."""
    text = "".join("0123456789_"[one] if 0 <= one <= PAD else "?" for one in row)
    return (-1) ** sign * int(text.rstrip("_")) if re.fullmatch("[0-9]+_*", text) and sign in (0, 1) else None


def check_all_pairs(symbol, division, first, second):
    """Compares every pair of two ranges of integers with at most three digits; returns how many."""
    pairs = list(itertools.product(first, second))
    result = ask(pairs, [0] * len(pairs), 3, 6, division, symbol)
    expected = [expected_answer(symbol, a, b, division) for a, b in pairs]
    digits, signs = encode([one if isinstance(one, str) else "0" for one in expected], 6)
    status = torch.tensor([Status.OK if isinstance(one, str) else one for one in expected])
    assert torch.equal(result.status, status)
    no_result = status != Status.OK
    assert torch.equal(result.digits, digits.masked_fill(no_result.unsqueeze(-1), PAD))
    assert torch.equal(result.sign, signs.masked_fill(no_result, 0))
    return len(pairs)


@pytest.mark.parametrize(("symbol", "division"), PYTHON_SIDE)
def test_every_signed_pair_up_to_two_digits_is_right(symbol, division):
    assert check_all_pairs(symbol, division, range(-99, 100), range(-99, 100)) == 199**2


@pytest.mark.slow
@pytest.mark.parametrize(("symbol", "division"), PYTHON_SIDE)
def test_every_signed_pair_up_to_three_digits_is_right(symbol, division):
    parts = [range(start, min(start + 100, 1000)) for start in range(-999, 1000, 100)]
    assert sum(check_all_pairs(symbol, division, part, range(-999, 1000)) for part in parts) == 1999**2


@properties
@given(
    st.lists(st.tuples(integers, integers, st.integers(-1, 5)), min_size=1, max_size=12),
    st.sampled_from(DIVISIONS),
    st.integers(1, 81),
)
@example([(10**40 - 1, 10**40 - 1, 2), (-(10**40) + 1, 1, 1)], "exact", 80)
@example([(10**18, -(10**18), 0), (10**36, 10**18, 3)], "exact", 80)
def test_up_to_forty_digits_every_row_is_what_python_integers_say(rows, division, result_digits):
    pairs, operators = [row[:2] for row in rows], [row[2] for row in rows]
    result = ask(pairs, operators, 40, result_digits, division)
    named = [SYMBOLS[one] if 0 <= one < 4 else None for one in operators]
    assert answers(result) == [
        expected_answer(symbol, a, b, division, result_digits) for symbol, (a, b) in zip(named, pairs, strict=True)
    ]
    assert (result.digits[result.status != Status.OK] == PAD).all()
    assert not result.sign[result.status != Status.OK].any()


@properties
@given(st.lists(st.lists(st.integers(-1, 11), min_size=8, max_size=8), min_size=1, max_size=8), st.data())
def test_operands_that_are_no_numbers_are_undefined(rows, data):
    signs = [data.draw(st.lists(st.integers(-1, 2), min_size=2, max_size=2)) for _ in rows]
    digits = torch.tensor(rows).view(-1, 2, 4)
    result = calculate(digits, torch.tensor(signs), torch.zeros(len(rows), dtype=torch.int64), result_digits=5)
    halves = [[row[:4], row[4:]] for row in rows]
    pairs = [map(integer_of, two, pair) for two, pair in zip(halves, signs, strict=True)]
    assert answers(result) == [expected_answer("+", a, b) for a, b in pairs]


@pytest.mark.parametrize("width", [1, 5, 6, 7, 11, 12, 13, 17, 18, 19, 36, 37, 80, 200])
def test_no_width_overflows_int64(width):
    nines = 10**width - 1
    pairs = [(nines, nines), (nines, -1), (-nines, nines), (10 ** (width - 1), nines), (nines, 10 ** (width - 1))]
    for operator in range(4):
        expected = [expected_answer(SYMBOLS[operator], a, b) for a, b in pairs]
        assert answers(ask(pairs, [operator] * len(pairs), width, 2 * width)) == expected


def test_operations_are_indexed_in_the_order_given():
    assert answers(ask([(6, 3)] * 3, [0, 1, 2], 3, 3, operations=["/", "-"])) == ["2", "3", Status.NONE]


@pytest.mark.parametrize("shape", [(), (0,), (12,), (3, 4), (2, 3, 2), (3, 0, 2)])
def test_any_leading_shape_is_taken(shape):
    n = torch.Size(shape).numel()
    texts = [str(number) for number in range(2 * n)]
    digits, signs = encode(texts, 3)
    operator = torch.arange(n) % 5
    flat = calculate(digits.view(n, 2, 3), signs.view(n, 2), operator, result_digits=4)
    shaped = calculate(digits.view(*shape, 2, 3), signs.view(*shape, 2), operator.view(shape), result_digits=4)
    assert shaped.digits.shape == (*shape, 4)
    for one, two in zip(shaped, flat, strict=True):
        assert one.dtype == torch.int64
        assert torch.equal(one.reshape(two.shape), two)


def batch(width, seed=0):
    """Seeded rows [24] of every operator and length."""
    rng = random.Random(seed)
    numbers = [str(rng.choice((-1, 1)) * rng.randrange(10 ** rng.randint(1, width))) for _ in range(48)]
    digits, signs = encode(numbers, width)
    return digits.view(-1, 2, width), signs.view(-1, 2), torch.arange(24) % 5


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "g++")), reason="Inductor needs a C++ compiler")
def test_it_is_exact_when_compiled_into_one_graph():
    torch._dynamo.reset()
    compiled, options = torch.compile(calculate, fullgraph=True), {"result_digits": 36, "division": "floor"}
    for seed in (0, 1):
        inputs = batch(18, seed)  # 18 digits: several limbs in every operation
        for one, two in zip(compiled(*inputs, **options), calculate(*inputs, **options), strict=True):
            assert torch.equal(one, two)


@pytest.mark.parametrize("width", [1, 10, 40])
def test_it_never_looks_at_a_value(width):
    with FakeTensorMode():  # a read of a value, such as `.item()`, raises here
        result = calculate(
            torch.zeros(3, 4, 2, width, dtype=torch.int64),
            torch.zeros(3, 4, 2, dtype=torch.int64),
            torch.zeros(3, 4, dtype=torch.int64),
            result_digits=2 * width,
        )
    assert [tuple(field.shape) for field in result] == [(3, 4, 2 * width), (3, 4), (3, 4), (3, 4)]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("division", DIVISIONS)
def test_on_a_gpu_it_is_exact_and_never_synchronises(division):
    inputs = batch(40)
    expected = calculate(*inputs, result_digits=80, division=division)
    on_device = [tensor.cuda() for tensor in inputs]
    with no_synchronization():
        result = calculate(*on_device, result_digits=80, division=division)
    for one, two in zip(result, expected, strict=True):
        assert torch.equal(one.cpu(), two)


def test_an_unknown_treatment_of_a_remainder_is_refused():
    with pytest.raises(ValueError, match='`division=\'round\'` is unknown. Choose "exact", "floor" or "trunc"'):
        ask([(7, 2)], [3], 3, 3, division="round")
