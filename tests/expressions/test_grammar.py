"""Values of expressions are those of `fractions`, in any batch, eager or compiled; everything else is refused."""

import random
import time

import pytest
import reference_items
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_items import Reference, random_row
from torch._subclasses.fake_tensor import FakeTensorMode

from peft_igc.expressions import grammar, limbs
from peft_igc.expressions.decimals import canonical
from peft_igc.expressions.fixed_point import kept_digits
from peft_igc.expressions.grammar import Reduction, evaluate, reductions
from peft_igc.expressions.items import Item, encode_items
from peft_igc.expressions.reasons import Reason
from peft_igc.numbers.calculator import Status, calculate
from peft_igc.numbers.digits import PAD, encode


D = 8
REASONS = {
    Reason.MALFORMED: reference_items.MALFORMED,
    Reason.UNBALANCED: reference_items.MALFORMED,
    Reason.TOO_MANY_OPERANDS: reference_items.TOO_MANY,
    Reason.TOO_LONG: reference_items.TOO_LONG,
    Reason.INEXACT: reference_items.INEXACT,
    Reason.OVERFLOW: reference_items.OVERFLOW,
    Reason.UNDEFINED: reference_items.UNDEFINED,
    Reason.EXPONENT: reference_items.EXPONENT,
    Reason.PERCENT_SUM: reference_items.PERCENT_SUM,
}
SETTINGS = [
    {},
    {"division": "floor"},
    {"division": "trunc"},
    {"rounding": "half_up", "decimal_places": 2},
    {"rounding": "half_even", "decimal_places": 0},
    {"rounding": "half_even", "decimal_places": 9},
]


def split(text):
    """Items of a text whose items are single characters, numbers or words between spaces."""
    for symbol in "+-*/^()%?":
        text = text.replace(symbol, f" {symbol} ")
    return text.split()


def answers(evaluated):
    """One per row: the value as text, or its reason."""
    assert (evaluated.digits[evaluated.status != Status.OK] == PAD).all()
    assert torch.equal(evaluated.reason == Reason.NONE, evaluated.status == Status.OK)
    found = []
    for digits, sign, scale, reason in zip(*evaluated[:3], evaluated.reason.tolist(), strict=True):
        found.append(Reason(reason) if reason else canonical(digits, sign, scale)[0])
        if not reason:
            written = found[-1].lstrip("-").replace(".", "").lstrip("0") or "0"
            assert "".join(map(str, digits[digits != PAD].tolist())) == written  # canonical on the device, too
    return found


def ask(rows, *, digits=D, items=64, result_digits=2 * D, **settings):
    return answers(evaluate(encode_items(rows, items, digits), result_digits=result_digits, **settings))


def check(rows, found, settings=(), *, digits=D, result_digits=2 * D, kept=None):
    """Compares answers with the reference; returns how many rows have a value."""
    names = {"decimal_places": "places", "max_operands": "operands"}
    given = {names.get(name, name): value for name, value in dict(settings).items()}
    kept = kept or kept_digits(digits, result_digits)
    reference = Reference(kept, digits=digits, result_digits=result_digits, **given)
    right = 0
    for row, answer in zip(rows, found, strict=True):
        expected = reference(row)
        if isinstance(expected, set):
            assert isinstance(answer, Reason), f"{' '.join(row)} is {answer}, expected {expected}"
            assert REASONS[answer] in expected, f"{' '.join(row)}: {answer.name}, expected {expected}"
        else:
            assert answer == expected, f"{' '.join(row)}"
            right += 1
    return right


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_thousands_of_random_rows_have_the_values_of_fractions(settings):
    generator = random.Random(str(settings))
    rows = [random_row(generator, operands=generator.randint(1, 9), digits=D) for _ in range(3000)]
    found = [answer for start in range(0, 3000, 500) for answer in ask(rows[start : start + 500], **settings)]
    assert check(rows, found, settings) > 800
    assert len({answer for answer in found if isinstance(answer, Reason)}) >= 7


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_tens_of_thousands_of_random_rows_have_the_values_of_fractions(settings):
    generator = random.Random(f"slow {settings}")
    for _ in range(10):
        rows = [random_row(generator, operands=generator.randint(1, 9), digits=D) for _ in range(2000)]
        assert check(rows, ask(rows, **settings), settings) > 500


def test_long_numbers_have_the_values_of_fractions():
    generator = random.Random(1)
    rows = [random_row(generator, operands=generator.randint(1, 4), digits=40) for _ in range(1500)]
    found = ask(rows, digits=40, result_digits=80)
    assert check(rows, found, digits=40, result_digits=80) > 400


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 12), st.integers(1, 12), st.sampled_from(SETTINGS))
def test_any_widths_and_one_row_at_a_time(generator, digits, result_digits, settings):
    row = random_row(generator, operands=5, digits=digits)
    if settings.get("decimal_places", 0) >= kept_digits(digits, result_digits):
        return
    found = ask([row], digits=digits, result_digits=result_digits, **settings)
    check([row], found, settings, digits=digits, result_digits=result_digits)


def test_a_row_has_the_same_value_alone_as_in_a_batch():
    generator = random.Random(2)
    rows = [random_row(generator, digits=D) for _ in range(150)]
    assert [ask([row])[0] for row in rows] == ask(rows)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_full_width_gives_the_same_as_the_least_one(monkeypatch, settings):
    generator = random.Random(3)
    rows = [random_row(generator, operands=generator.randint(1, 8), digits=D) for _ in range(400)]
    narrow = [answer for row in rows[:100] for answer in ask([row], **settings)]
    mixed = ask(rows, **settings)
    monkeypatch.setattr(grammar, "may_look", lambda tensor: False)
    full = ask(rows, **settings)
    assert mixed == full
    assert narrow == full[:100]


NUMBERS = [0, 1, 2, 5, 7, 9, 10, 96, 99, 100, 128, 999, 3125, 99999999, 100000000, 10**15 - 1]


@pytest.mark.parametrize("division", ["exact", "floor", "trunc"])
@pytest.mark.parametrize("result_digits", [3, 16, 32])
def test_integers_give_what_the_calculator_gives(division, result_digits):
    generator = random.Random(4)
    numbers = [*NUMBERS, *(generator.randrange(10 ** generator.randint(1, 16)) for _ in range(200))]
    pairs = [(generator.choice(numbers), generator.choice(numbers), generator.randrange(4)) for _ in range(2000)]
    signs = [(generator.randint(0, 1), generator.randint(0, 1)) for _ in pairs]
    rows = [
        [*"-" * s, str(a), "+-*/"[symbol], *"-" * t, str(b)]
        for (a, b, symbol), (s, t) in zip(pairs, signs, strict=True)
    ]
    digits, _ = encode([str(number) for pair in pairs for number in pair[:2]], 16)
    expected = calculate(
        digits.view(-1, 2, 16),
        torch.tensor(signs),
        torch.tensor([symbol for _, _, symbol in pairs]),
        result_digits=result_digits,
        division=division,
    )
    items = encode_items(rows, 5, 16)
    found = evaluate(items, result_digits=result_digits, division=division)
    fraction = (expected.status == Status.INEXACT) & (found.status != Status.INEXACT)
    assert ((found.scale[fraction] > 0) | (found.status[fraction] == Status.OVERFLOW)).all()
    assert fraction.any() == (division == "exact")
    for ours, theirs in zip((found.digits, found.sign, found.status), expected[:3], strict=True):
        assert torch.equal(ours[~fraction], theirs[~fraction])
    assert (found.scale[~fraction] == 0).all()


def test_ten_thousand_operators_and_deep_brackets_are_refused_at_once():
    many = 10_000
    rows = [
        ["1", *(["+", "1"] * many)],
        ["-"] * many + ["1"],
        ["("] * many + ["2"] + [")"] * many,
        ["("] * many,
        ["2"] + ["^", "9"] * many,
        ["1"] + ["%"] * many,
        ["("] * many + ["5", *([")", "%"] * many)],
        ["-", "("] * many + ["5"] + [")"] * many + ["^", "2"],
        ["("] * many + ["3"] + [")", "^", "1"] * 3 + [")"] * (many - 3),
    ]
    before = time.monotonic()
    found = ask(rows, items=4 * many)
    assert time.monotonic() - before < 20
    assert found == [
        Reason.TOO_MANY_OPERANDS,
        "1",
        "2",
        Reason.UNBALANCED,
        Reason.TOO_MANY_OPERANDS,
        Reason.MALFORMED,
        Reason.OVERFLOW,
        "-25",
        "3",
    ]
    assert ask(rows[:1], items=20) == [Reason.TOO_LONG]


def test_huge_exponents_end_at_once():
    before = time.monotonic()
    found = ask([split(text) for text in ("2^99999999", "9^9^9^9", "99999999^2", "0.5^99", "1^99999999", "0^9^9")])
    assert time.monotonic() - before < 5
    assert found == [Reason.OVERFLOW] * 2 + ["9999999800000001", Reason.OVERFLOW, "1", "0"]
    assert ask([split("(0-1)^99999999"), split("(0-1)^99999998"), split("2^100")], result_digits=31) == [
        "-1",
        "1",
        str(2**100),
    ]


def test_what_is_kept_on_the_way_is_more_than_a_result_may_have():
    kept = kept_digits(4, 4)
    assert kept == 8
    rows = [split(text) for text in ("9999*9999/9999", "9999*9999", "9999*9999*10/10", ".0001*.0001*9999*9999")]
    assert ask(rows, digits=4, result_digits=4) == ["9999", Reason.OVERFLOW, Reason.OVERFLOW, Reason.OVERFLOW]
    assert ask(rows[3:], digits=4, result_digits=9) == ["0.99980001"]
    assert ask([split("1/256"), split("1/512")], digits=4, result_digits=4) == [Reason.OVERFLOW, Reason.INEXACT]


@pytest.mark.parametrize("text", [".0001*.0001*.0001", "9999*9999*1000*0", "9999^4*0", ".001^4*0", "(.0001*.0001)%*0"])
def test_no_digit_is_lost_on_the_way(text):
    assert ask([split(text)], digits=4, result_digits=4) == [Reason.OVERFLOW]


@pytest.mark.parametrize("factor", [2, 5])
def test_every_quotient_that_ends_has_all_its_places_in_the_least_width(factor):
    for power in range(1, 60):
        places = str(10**power // factor**power).rjust(power, "0")
        divisor = str(factor**power)
        assert ask([["1", "/", divisor]], digits=42, result_digits=80) == ["0." + places]
        assert ask([["1", "/", "(", "1", "*", divisor, ")"]], digits=42, result_digits=80) == ["0." + places]


def test_malformed_tensors_are_refused():
    items = encode_items([split("1+2")] * 6, 5, 3)
    items.digits[0, 0, 0] = PAD
    items.digits[1, 2] = torch.tensor([1, PAD, 1])
    items.scale[2, 0] = -1
    items.scale[3, 2] = 4
    items.kind[4, 1] = 99
    items.kind[5, 4] = Item.NUMBER  # after the end
    assert answers(evaluate(items, result_digits=4)) == [Reason.MALFORMED] * 6


def test_no_rows_and_no_items():
    assert evaluate(encode_items([], 3, 2), result_digits=4).digits.shape == (0, 4)
    assert ask([[], ["5"]]) == [Reason.MALFORMED, "5"]
    assert evaluate(encode_items([["5"], split("1+2*3")], 5, 2), result_digits=4).operands.tolist() == [1, 3]


def test_reductions_are_the_steps_in_their_order():
    rows = [split("-2*(3+4.5)^2"), split("1/3*6"), split("1++"), split("8"), split("(1+2)%*(5-2)")]
    found = reductions(encode_items(rows, 16, D), result_digits=2 * D)
    assert found[0] == [
        Reduction("3", "+", "4.5", "7.5", 4, 6),
        Reduction("7.5", "^", "2", "56.25", 4, 9),
        Reduction("-2", "*", "56.25", "-112.5", 1, 9),
    ]
    assert found[1] == [Reduction("1", "/", "3", None, 0, 2)]
    assert found[2:4] == [[], []]
    assert found[4][-1] == Reduction("0.03", "*", "3", "0.09", 1, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_operands": 1}, r"`max_operands=1` must be at least 2"),
        ({"result_digits": 0}, r"`num_digits=8` and `result_digits=0` must be at least 1"),
        ({"result_digits": 3000}, r"are too large for expressions: choose at most 1800"),
        ({"rounding": "up"}, r"`rounding='up'` is unknown: choose 'refuse', 'half_up', 'half_even'"),
        ({"division": "ceil"}, r"`division='ceil'` is unknown"),
        ({"rounding": "half_up"}, r'`rounding="half_up"` needs `decimal_places`'),
        ({"rounding": "half_up", "decimal_places": -1}, r"`decimal_places=-1` must be at least 0"),
        ({"rounding": "half_up", "decimal_places": 16}, r"`decimal_places=16` must be below 16"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate(encode_items([["1"]], 3, D), **{"result_digits": D, **arguments})


def test_tensors_are_checked():
    items = encode_items([["1"]], 3, D)
    with pytest.raises(ValueError, match=r"got \(1, 3\), \(1, 3, 8\), \(1, 2\), \(1,\)"):
        evaluate(items._replace(scale=items.scale[:, :2]), result_digits=D)
    with pytest.raises(TypeError, match=r"`items.kind` must be int64, got torch.float32"):
        evaluate(items._replace(kind=items.kind.float()), result_digits=D)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [SETTINGS[0], SETTINGS[3]], ids=str)
def test_it_compiles_into_one_graph(settings):
    torch._dynamo.reset()
    generator = random.Random(5)
    rows = [random_row(generator, operands=3, digits=4) for _ in range(60)]
    items = encode_items(rows, 24, 4)

    def run(items):
        return evaluate(items, max_operands=3, result_digits=8, **settings)

    compiled = torch.compile(run, fullgraph=True, backend="eager")
    for one, two in zip(compiled(items), run(items), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("operands", [2, 8])
def test_it_never_looks_at_a_fake_value(operands):
    with FakeTensorMode():
        items = encode_items([["1"]] * 3, 16, D)
        found = evaluate(items, max_operands=operands, result_digits=D)
    assert [tuple(field.shape) for field in found] == [(3, D), (3,), (3,), (3,), (3,), (3,)]


def test_the_host_looks_once(monkeypatch):
    looks = []
    tolist = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: looks.append(tensor.shape) or tolist(tensor))
    for name in ("item", "__bool__", "__int__", "__float__", "nonzero"):
        monkeypatch.setattr(torch.Tensor, name, lambda tensor, *_: pytest.fail("the host looks at a value"))
    evaluate(encode_items([split("1+2*3/4^2%")], 16, D), result_digits=D)
    assert len(looks) == 1


def test_a_wrong_quotient_gives_no_number(monkeypatch):
    weights = limbs._float_weights
    monkeypatch.setattr(limbs, "_float_weights", lambda divisor: weights(divisor) ** 1.001)
    assert ask([split("99999999999999/7777777")], digits=16, result_digits=16, division="floor") == [Reason.OVERFLOW]
