"""Two decimals of a request are calculated exactly, like integers by the calculator and like `fractions` otherwise."""

import random
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_items import Reference, rounded
from torch._subclasses.fake_tensor import FakeTensorMode

from peft_igc.expressions import decimals
from peft_igc.expressions.decimals import SYMBOLS, calculate_decimals, canonical
from peft_igc.expressions.fixed_point import (
    Decimal,
    Treatment,
    Width,
    _rounded,
    divide_by_hundreds,
    exponent_bits,
    from_decimal,
    kept_digits,
    least_width,
    to_decimal,
)
from peft_igc.expressions.reasons import Reason
from peft_igc.numbers.calculator import OPERATIONS, Operation, Status, calculate, register_operation
from peft_igc.numbers.digits import PAD, encode, length


ALL = tuple(SYMBOLS)
REASONS = {"inexact": Reason.INEXACT, "overflow": Reason.OVERFLOW, "undefined": Reason.UNDEFINED}
SETTINGS = [{}, {"division": "floor"}, {"division": "trunc"}, {"rounding": "half_up", "decimal_places": 3}]
literals = st.tuples(st.integers(0, 6).flatmap(lambda n: st.integers(0, 10**n - 1)), st.integers(0, 6), st.booleans())


def operands(rows, width):
    """Digits [N, 2, D], signs [N, 2], scales [N, 2] of pairs of (integer, scale, negative)."""
    flat = [operand for row in rows for operand in row[:2]]
    digits, _ = encode([str(number) for number, _, _ in flat], width)
    signs = torch.tensor([int(negative) for _, _, negative in flat]).view(-1, 2)
    return digits.view(-1, 2, width), signs, torch.tensor([scale for _, scale, _ in flat]).view(-1, 2)


def ask(rows, width=6, result_digits=12, operations=ALL, **settings):
    """One per row of (a, b, operator's index): the result as text, or its reason, or its status if it has none."""
    operator = torch.tensor([row[2] for row in rows], dtype=torch.int64)
    found = calculate_decimals(
        *operands(rows, width), operator, operations=operations, result_digits=result_digits, **settings
    )
    assert (found.digits[found.status != Status.OK] == PAD).all()
    return [
        canonical(digits, sign, scale)[0] if status == Status.OK else Reason(reason) or Status(status)
        for digits, sign, scale, status, reason in zip(
            *found[:3], found.status.tolist(), found.reason.tolist(), strict=True
        )
    ]


def expected(row, width=6, result_digits=12, **settings):
    """The reference's result; its power has the exponent's reason."""
    a, b = (Fraction(-number if negative else number, 10**scale) for number, scale, negative in row[:2])
    names = {"decimal_places": "places"}
    given = {names.get(name, name): value for name, value in settings.items()}
    reference = Reference(kept_digits(width, result_digits), digits=99, result_digits=result_digits, **given)
    tree = (ALL[row[2]], ("number", a), ("number", b))
    value = reference.value(tree, last=True)
    if isinstance(value, set):
        return Reason[value.pop().upper()]
    text = canonical_of(value)
    return text if len(text.lstrip("-").replace(".", "")) <= result_digits else Reason.OVERFLOW


def canonical_of(value):
    places = next(places for places in range(100) if (value * 10**places).denominator == 1)
    whole = str(abs(int(value * 10**places))).rjust(places + 1, "0")
    return "-" * (value < 0) + whole[: len(whole) - places] + ("." + whole[len(whole) - places :] if places else "")


@pytest.mark.slow
@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    st.lists(st.tuples(literals, literals, st.integers(0, 4)), min_size=1, max_size=8),
    st.sampled_from(SETTINGS),
    st.integers(1, 14),
)
def test_every_row_is_what_fractions_say(rows, settings, result_digits):
    found = ask(rows, result_digits=result_digits, **settings)
    assert found == [expected(row, result_digits=result_digits, **settings) for row in rows]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_thousands_of_rows_are_what_fractions_say(settings):
    generator = random.Random(str(settings))

    def literal():
        return generator.randrange(10 ** generator.randint(0, 6)), generator.randint(0, 4), generator.random() < 0.3

    rows = [(literal(), literal(), generator.randrange(4)) for _ in range(4000)]
    assert ask(rows, **settings) == [expected(row, **settings) for row in rows]


def test_the_full_width_gives_the_same_as_the_least_one(monkeypatch):
    generator = random.Random(0)
    rows = [
        ((generator.randrange(1000), 1, False), (generator.randrange(40), generator.randint(0, 1), False), index % 5)
        for index in range(500)
    ]
    alone = [ask([row])[0] for row in rows[:100]]
    mixed = ask(rows)
    monkeypatch.setattr(decimals, "may_look", lambda tensor: False)
    assert ask(rows) == mixed
    assert mixed[:100] == alone


@pytest.mark.parametrize("division", ["exact", "floor", "trunc"])
def test_integers_give_what_the_calculator_gives(division):
    generator = random.Random(1)
    rows = [
        (
            (generator.randrange(10 ** generator.randint(1, 6)), 0, generator.random() < 0.5),
            (generator.randrange(10 ** generator.randint(0, 3)), 0, generator.random() < 0.5),
            generator.randrange(-1, 6),
        )
        for _ in range(3000)
    ]
    digits, signs, scales = operands(rows, 6)
    operator = torch.tensor([row[2] for row in rows])
    theirs = calculate(digits, signs, operator, result_digits=8, division=division)
    ours = calculate_decimals(digits, signs, scales, operator, result_digits=8, division=division)
    fraction = (theirs.status == Status.INEXACT) & (ours.status != Status.INEXACT)
    assert (ours.scale[fraction & (ours.status == Status.OK)] > 0).all()
    assert (ours.scale[~fraction] == 0).all()
    for one, other in zip((ours.digits, ours.sign, ours.status), theirs[:3], strict=True):
        assert torch.equal(one[~fraction], other[~fraction])
    assert {Status.OK, Status.NONE, Status.UNDEFINED} <= set(ours.status.tolist())


def test_operations_on_integers_can_be_registered():
    register_operation(Operation("larger", "max", _larger, lambda a, b, division: max(a, b)))
    try:
        rows = [
            ((58, 0, True), (36, 0, False), 1),
            ((5, 1, False), (36, 0, False), 1),
            ((5, 1, False), (5, 0, True), 0),
        ]
        rows += [((1, 0, False), (1, 0, False), 2)]
        assert ask(rows, operations=("+", "max")) == ["36", Reason.UNDEFINED, "-4.5", Status.NONE]
    finally:
        del OPERATIONS["max"]


def _larger(a, b, division):
    difference = OPERATIONS["-"].function(a, b, "exact")
    second = (difference.sign == 1) & (difference.digits != 0).any(-1)
    chosen = torch.where(second[..., None], b.digits, a.digits)
    return difference._replace(digits=chosen, sign=torch.where(second, b.sign, a.sign))


def test_malformed_operands_are_undefined_where_arithmetic_is_asked():
    digits, signs, scales = operands([((5, 0, False), (3, 0, False), 0)] * 5, 3)
    digits[0, 0, 0], signs[1, 1], scales[2, 0], scales[3, 1] = PAD, 2, -1, 4
    digits[4, 1, 0] = PAD
    found = calculate_decimals(digits, signs, scales, torch.tensor([0, 0, 0, 0, 9]), result_digits=4)
    assert found.status.tolist() == [Status.UNDEFINED] * 4 + [Status.NONE]
    assert found.reason.tolist() == [Reason.UNDEFINED] * 4 + [Reason.NONE]


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_any_leading_dimensions(shape):
    arguments = torch.ones(*shape, 2, 3, dtype=torch.int64), *torch.zeros(2, *shape, 2, dtype=torch.int64)
    found = calculate_decimals(*arguments, torch.zeros(shape, dtype=torch.int64), result_digits=4)
    assert [tuple(field.shape) for field in found] == [(*shape, 4), shape, shape, shape, shape]
    assert (found.digits[..., :3] == 2).all()


def test_arguments_are_checked():
    digits, signs, scales = operands([((5, 0, False), (3, 0, False), 0)], 3)
    operator = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(TypeError, match=r"`scales` must be int64, got torch.float32"):
        calculate_decimals(digits, signs, scales.float(), operator, result_digits=4)
    with pytest.raises(ValueError, match=r"got \(1, 2, 3\), \(1, 2\), \(1, 1\) and \(1,\)"):
        calculate_decimals(digits, signs, scales[:, :1], operator, result_digits=4)
    with pytest.raises(ValueError, match=r"The operation 'mod' is unknown; known are '\+', '-', '\*', '/', '\^'"):
        calculate_decimals(digits, signs, scales, operator, operations=("mod",), result_digits=4)


def test_it_compiles_into_one_graph_and_looks_at_no_fake_value():
    torch._dynamo.reset()
    generator = random.Random(2)
    rows = [
        ((generator.randrange(100), 1, False), (generator.randrange(9), 0, True), index % 4) for index in range(40)
    ]
    arguments = *operands(rows, 3), torch.tensor([row[2] for row in rows])

    def run(*arguments):
        return calculate_decimals(*arguments, result_digits=6)

    for one, two in zip(torch.compile(run, fullgraph=True, backend="eager")(*arguments), run(*arguments), strict=True):
        assert torch.equal(one, two)
    with FakeTensorMode() as mode:
        found = run(*(mode.from_tensor(argument) for argument in arguments))
    assert found.digits.shape == (40, 6)


@pytest.mark.parametrize(
    ("digits", "sign", "scale", "text"),
    [
        ([1, 2, 5, PAD], 1, 1, "-12.5"),
        ([5, PAD, PAD, PAD], 0, 3, "0.005"),
        ([1, 5, 0, 0], 0, 2, "15"),
        ([0, 0, 5, 0], 0, 3, "0.05"),
        ([0, PAD, PAD, PAD], 1, 2, "0"),
        ([1, 0, 0, PAD], 0, 0, "100"),
    ],
)
def test_numbers_are_written_in_one_way(digits, sign, scale, text):
    assert canonical(torch.tensor([digits]), torch.tensor([sign]), torch.tensor([scale])) == [text]


def test_only_well_formed_numbers_are_written():
    with pytest.raises(ValueError, match=r"`scale` must be at least 0, got -1"):
        canonical(torch.tensor([[1]]), torch.tensor([0]), torch.tensor([-1]))
    with pytest.raises(ValueError, match=r"Number 0 is malformed"):
        canonical(torch.tensor([[PAD]]), torch.tensor([0]), torch.tensor([0]))


def test_numbers_become_fixed_point_and_back():
    width = Width(2, 1)
    digits, _ = encode(["123456789", "5", "0", "1200"], 10)
    scale = torch.tensor([8, 2, 3, 1])
    fixed = from_decimal(digits, length(digits), scale, width)
    assert fixed.tolist() == [[23456789, 1, 0], [5000000, 0, 0], [0, 0, 0], [0, 120, 0]]
    number = Decimal(fixed, torch.tensor([False, True, True, True]))
    found, sign, places, fits = to_decimal(number, width, 9)
    assert canonical(found, sign, places) == ["1.23456789", "-0.05", "0", "-120"]
    assert places.tolist() == [8, 2, 0, 0]
    assert fits.tolist() == [True] * 4
    assert to_decimal(number, width, 2)[3].tolist() == [False, False, True, False]
    assert to_decimal(number, width, 3)[3].tolist() == [False, True, True, True]


@pytest.mark.parametrize("how", ["half_up", "half_even", "floor", "trunc"])
def test_dropped_places_are_rounded(how):
    width, generator = Width(2, 2), random.Random(how)
    for places in (0, 1, 5, 7, 8, 9, 15):
        values = [generator.randrange(10**20) for _ in range(100)]
        step = 10 ** (16 - places)
        values += [generator.randrange(10**9) * step + step // 2 + generator.choice([-1, 0, 1]) for _ in range(200)]
        values += [10**32 - 1, 10**32 - step, 0, step // 2]
        more = torch.tensor([generator.random() < 0.5 for _ in values])
        negative = torch.tensor([generator.random() < 0.5 for _ in values])
        fixed = torch.tensor([[value // 10 ** (8 * limb) % 10**8 for limb in range(4)] for value in values])
        found, carry = _rounded(Decimal(fixed, negative), more, width, places, how)
        for row, value in enumerate(values):
            exact = Fraction(value, 10**16) + Fraction(1, 10**20) * more[row].item()
            exact = -exact if negative[row] else exact
            if how in ("floor", "trunc"):
                shifted = exact * 10**places
                want = Fraction(shifted.__floor__() if how == "floor" else shifted.__trunc__(), 10**places)
            else:
                want = rounded(exact, places, how)
            got = sum(limb * 10 ** (8 * at) for at, limb in enumerate(found.limbs[row].tolist()))
            got += 10**32 * carry[row].item()
            assert got == abs(want) * 10**16


def test_per_cent_moves_the_point_and_loses_no_digit():
    width = Width(1, 2)
    fixed = torch.tensor([[0, 0, 50], [0, 0, 12345678], [0, 12, 0], [5, 0, 0], [0, 0, 0], [0, 0, 1]])
    number = Decimal(fixed, torch.zeros(6, dtype=torch.bool))
    found, reason = divide_by_hundreds(number, torch.tensor([1, 3, 5, 1, 10**6, 0]), width)
    values = [sum(limb * 10 ** (8 * at) for at, limb in enumerate(row)) for row in found.limbs.tolist()]
    assert reason.tolist() == [0, 0, Reason.OVERFLOW, Reason.OVERFLOW, 0, 0]
    assert values[:2] + values[4:] == [50 * 10**14, 12345678 * 10**10, 0, 10**16]


def test_widths_hold_what_is_asked_and_no_more_than_is_kept():
    assert kept_digits(40, 40) == 80
    assert kept_digits(3, 1) == 8
    assert least_width(1, 0, 80, Treatment(), False) == Width(1, 0)
    assert least_width(9, 8.1, 80, Treatment(), False) == Width(2, 2)
    assert least_width(1e9, 1e9, 80, Treatment(), False) == Width(10, 10)
    assert least_width(1, 0, 80, Treatment(division="floor"), True) == Width(1, 1)
    assert least_width(1, 0, 80, Treatment(rounding="half_up", decimal_places=8), True) == Width(1, 2)
    assert 2 ** exponent_bits(Width(1, 1)) > 54  # 2^54 has 17 digits
