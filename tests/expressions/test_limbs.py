"""Arithmetic on limbs is that of Python's integers, above all where carries run far and divisors are awkward."""

import random

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from peft_igc.expressions import limbs
from peft_igc.expressions.limbs import BASE, LARGEST, SIZE, add_signed, from_digits, multiply, quotient, settle


properties = settings(max_examples=150, derandomize=True, deadline=None)
# Limbs at the edges of their range make carries run.
edges = st.sampled_from([0, 1, BASE // 2 - 1, BASE // 2, BASE // 2 + 1, BASE - 2, BASE - 1])
limb = edges | st.integers(0, BASE - 1)


def numbers(count):
    return st.lists(limb, min_size=count, max_size=count).map(lambda row: sum(x * BASE**i for i, x in enumerate(row)))


pairs = st.integers(1, 6).flatmap(lambda count: st.tuples(st.just(count), numbers(count), numbers(count)))


def pack(values, count):
    """Integers as limbs [N, count]."""
    return torch.tensor([[value // BASE**i % BASE for i in range(count)] for value in values], dtype=torch.int64)


def unpack(tensor):
    """Limbs or columns [N, L] as integers."""
    return [sum(x * BASE**i for i, x in enumerate(row)) for row in tensor.tolist()]


def bools(*values):
    return torch.tensor(values)


def awkward(generator, count):
    """An integer of at most `count` limbs, many of them at the edges of their range."""
    row = [generator.choice([0, 1, BASE - 1, BASE // 2, generator.randrange(BASE)]) for _ in range(count)]
    return sum(x * BASE**i for i, x in enumerate(row[: generator.randint(1, count)]))


@properties
@given(pairs, st.booleans(), st.booleans())
@example((3, BASE**3 - 1, 1), False, False)
@example((3, BASE**3 - 1, BASE**3 - 1), False, True)
@example((3, BASE**2, BASE**2 - 1), True, False)
def test_sums_of_either_sign_are_exact(pair, a_negative, b_negative):
    count, a, b = pair
    found, negative, carry = add_signed(pack([a], count), bools(a_negative), pack([b], count), bools(b_negative))
    total = (-a if a_negative else a) + (-b if b_negative else b)
    size = unpack(found)[0] + BASE**count * carry.item()
    assert (-size if negative.item() else size) == total
    assert ((found >= 0) & (found < BASE)).all()


@properties
@given(pairs)
@example((6, BASE**6 - 1, BASE**6 - 1))
def test_products_are_exact(pair):
    count, a, b = pair
    found = multiply(pack([a], count), pack([b], count))
    assert unpack(found) == [a * b]
    assert ((found >= 0) & (found < BASE)).all()


@properties
@given(pairs, st.integers(1, 8).flatmap(numbers))
@example((1, 0, 1), 0)
@example((6, 0, BASE**6 - 1), BASE**6 - 1)
@example((4, 0, BASE**3), BASE**6 - 1)
def test_quotients_are_rounded_down_and_verified(pair, dividend):
    count, _, divisor = pair
    if not divisor:
        return
    found, has_remainder, verified = quotient(pack([dividend], 8), pack([divisor], count))
    assert unpack(found) == [dividend // divisor]
    assert has_remainder.item() == (dividend % divisor != 0)
    assert verified.all()


def test_many_awkward_rows_at_once_are_exact():
    generator = random.Random(0)
    a = [awkward(generator, 12) for _ in range(5000)]
    b = [awkward(generator, 7) or 1 for _ in range(5000)]
    # Dividends just around multiples of the divisor are where a float is least sure.
    a[::2] = [max(y * generator.randrange(1, BASE**4) + generator.choice([-1, 0, 1]), 0) for y in b[::2]]
    found, has_remainder, verified = quotient(pack(a, 12), pack(b, 7))
    assert unpack(found) == [x // y for x, y in zip(a, b, strict=True)]
    assert has_remainder.tolist() == [x % y != 0 for x, y in zip(a, b, strict=True)]
    assert verified.all()
    assert unpack(multiply(pack(a, 12), pack(b, 12))) == [x * y for x, y in zip(a, b, strict=True)]


def test_the_largest_columns_do_not_overflow():
    columns = torch.full((1, 4), LARGEST * (BASE - 1) ** 2)
    columns[0, 2:] = 0
    assert unpack(settle(columns)) == unpack(columns)
    assert LARGEST * (BASE - 1) ** 2 < 2**63
    many = torch.full((1, LARGEST), BASE - 1)
    assert unpack(multiply(many, many)) == [(BASE**LARGEST - 1) ** 2]


def test_a_long_division_does_not_leave_the_range_of_floats():
    divisor, dividend = 10 ** (SIZE * 60) - 12345, 10 ** (SIZE * 99) + 6789
    found, has_remainder, verified = quotient(pack([dividend], 100), pack([divisor], 60))
    assert unpack(found) == [dividend // divisor]
    assert has_remainder.all()
    assert verified.all()


def test_a_wrong_estimate_is_noticed(monkeypatch):
    weights = limbs._float_weights
    monkeypatch.setattr(limbs, "_float_weights", lambda divisor: weights(divisor) ** 1.001)
    _, _, verified = quotient(pack([10**31 - 7], 4), pack([10**12 - 1], 2))
    assert not verified.any()


def test_digits_become_limbs_and_back():
    right = torch.tensor([[0] * 7 + [1, 2, 3, 4, 5, 6, 7, 8, 9]])
    assert from_digits(right).tolist() == [[23456789, 1]]
    assert torch.equal(limbs.to_digits(from_digits(right)), right)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_any_leading_dimensions(shape):
    a, b = torch.full((*shape, 2), 5), torch.full((*shape, 2), 3)
    flags = torch.zeros(shape, dtype=torch.bool)
    assert [tuple(t.shape) for t in add_signed(a, flags, b, ~flags)] == [(*shape, 2), shape, shape]
    assert [tuple(t.shape) for t in quotient(a, b)] == [(*shape, 2), shape, shape]
    assert multiply(a, b).shape == (*shape, 4)
