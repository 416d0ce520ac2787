"""Promises of `arithmetic` and `operands`: true, reproducible rows of the mixture, none of them a test item."""

import collections
import itertools
import pickle
import re
from dataclasses import replace

import pytest

from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.data.columns import check_columns
from peft_igc.data.mixture import Mixture
from peft_igc.data.wording.phrases import UNABLE
from peft_igc.data.wording.wording import TRAINING
from peft_igc.text.values import Limits


ORDINARY = Mixture(none=0, overflow=0, undefined=0, inexact=0)


def triple(row):
    (a, b) = row["igc_operands"]
    return int(a), row["igc_operator"], int(b)


def exact(a, operator, b):
    """Python's own arithmetic, without the package."""
    assert operator != "/" or a % b == 0
    return {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else None}[operator]


def by_result(rows):
    """Rows by status name; "ok" for a number, "none" for no arithmetic."""
    found = collections.defaultdict(list)
    for row in rows:
        result = row["igc_result"]
        found["none" if result is None else result if result.isalpha() else "ok"].append(row)
    return found


def test_every_row_passes_the_check_of_its_columns_and_depends_on_the_seed_only():
    refusals = Mixture(undefined=0.4, inexact=0.4)
    for settings in (
        {},
        {"max_digits": 1, "num_digits": 1},
        {"max_digits": 12, "limits": Limits(12, 20)},
        {"max_digits": 5, "limits": Limits(5, 6)},
        {"max_digits": 40, "limits": Limits(40, 80)},
        {"limits": Limits(10, 10, rounding="floor"), "mixture": Mixture(negative=0.5)},
        {"limits": Limits(10, 10, rounding="trunc"), "mixture": Mixture(negative=0.5)},
        {
            "limits": Limits(10, 10, operations=("*", "+")),
            "mixture": Mixture(none=0, overflow=1, undefined=0, inexact=0),
        },
        {"limits": Limits(10, 10, operations=("/",)), "mixture": refusals},
        {"limits": Limits(10, 10, operations=("-",)), "mixture": refusals},
    ):
        rows = ArithmeticRows(seed=1, **settings)
        made = rows.take(1000)
        for row in made:
            (step,) = check_columns(row, rows.limits, f"{settings}")
            completion = row["completion"][0]["content"]
            assert completion == (step.result or UNABLE) or step.operator == "none"
            if step.operands is not None:
                numbers = re.findall("[0-9]+", row["prompt"][-1]["content"])
                assert sorted(numbers) == sorted(number.lstrip("-") for number in row["igc_operands"])
            if step.result is not None and rows.limits.rounding.division == "exact":
                assert step.result == str(exact(*triple(row)))
        assert pickle.loads(pickle.dumps(rows)).take(50) == made[:50] == list(itertools.islice(rows, 50))
        assert made != ArithmeticRows(seed=2, **settings).take(1000)


def test_the_mixture_is_kept_and_fractions_of_zero_give_no_such_row():
    n = 10_000
    mixture = Mixture(none=0.2, overflow=0.1, undefined=0.05, inexact=0.03, negative=0.25, bigbench=0.5, system=0.4)
    rows = ArithmeticRows(mixture=mixture).take(n)
    assert ArithmeticRows(mixture=None).take(20) == ArithmeticRows(mixture=Mixture()).take(20) != rows[:20]
    found = by_result(rows)
    for name in ("none", "overflow", "undefined", "inexact"):
        assert len(found[name]) / n == pytest.approx(getattr(mixture, name), abs=0.015)
    ordinary = found["ok"]
    negative = sum(any(number.startswith("-") for number in row["igc_operands"]) for row in ordinary)
    assert negative / len(ordinary) == pytest.approx(0.25, abs=0.02)
    form = re.compile(r"What is -?\d+ [a-z ]+ -?\d+\?")
    asked = sum(form.fullmatch(row["prompt"][-1]["content"]) is not None for row in ordinary)
    assert asked / len(ordinary) == pytest.approx(0.5 + 0.5 / 40, abs=0.03)
    assert sum(row["prompt"][0]["role"] == "system" for row in rows) / n == pytest.approx(0.4, abs=0.02)
    operators = collections.Counter(row["igc_operator"] for row in ordinary)
    assert max(operators.values()) < 1.15 * min(operators.values())
    rows = ArithmeticRows(mixture=ORDINARY).take(3000)
    assert set(by_result(rows)) == {"ok"}
    assert not [row for row in rows if any(number.startswith("-") for number in row["igc_operands"])]
    for by_hand, share in ((0.0, 1.0), (1.0, 0.9)):  # years are no multiples
        rows = ArithmeticRows(mixture=replace(ORDINARY, multiples=1.0, by_hand=by_hand), wording=TRAINING).take(1000)
        pairs = [sorted(abs(int(one)) for one in row["igc_operands"]) for row in rows if row["igc_operator"] in "+-*"]
        assert len(pairs) * share <= sum(not a or b % a == 0 for a, b in pairs)
    for by_hand, mixture in itertools.product((0.0, 1.0), (replace(ORDINARY, long=long) for long in (0.0, 0.5))):
        rows = ArithmeticRows(mixture=replace(mixture, by_hand=by_hand), limits=Limits(), wording=TRAINING).take(2000)
        longest = [max(map(len, row["igc_operands"] or ("",))) for row in rows]
        assert set(longest) >= set(range(1, 21)) if mixture.long else max(longest) <= 6
        assert sum(length > 6 for length in longest) / 2000 < 0.5


def test_no_calculation_of_the_test_occurs_in_training_but_one_digit_ones_do():
    items = bigbench_test_set(per_group=400, seed=0)
    assert len([item for item in items if item["group"] == "2_digit_division"]) == 400  # of 450: hard to avoid
    held_out = {triple(item) for item in items if not item["group"].startswith("1_digit")}
    one_digit = {triple(item) for item in items} - held_out
    settings = {"max_digits": 2, "mixture": Mixture(none=0)}
    careless = {triple(row) for row in ArithmeticRows(**settings).take(10_000)}
    assert len(careless & held_out) > 200
    careful = {triple(row) for row in ArithmeticRows(exclude=items, **settings).take(20_000)}
    assert not careful & held_out
    assert len(careful & one_digit) > 200


@pytest.mark.parametrize("conversational", [False, True])
def test_texts_to_avoid_are_looked_for_in_what_the_prompts_say(conversational):
    def prompts(avoid, count=200):
        made = ArithmeticRows(conversational=conversational, avoid=[*avoid], mixture=Mixture(system=0.5)).take(count)
        return [row["prompt"] if isinstance(row["prompt"], str) else row["prompt"][-1]["content"] for row in made]

    every = prompts("")
    assert any("\n" in text for text in every)
    assert not any("\n" in text for text in prompts("\n"))
    assert prompts(["role"]) == every  # a key of a message, and in no text


def test_a_stream_in_which_all_texts_are_to_be_avoided_ends(monkeypatch):
    monkeypatch.setattr(ArithmeticRows, "_row", lambda *_: {"prompt": "Q: 1+2\nA:"})
    with pytest.raises(ValueError, match="No row is left after 0: the last 10,000 were repeats or contained `avoid`"):
        ArithmeticRows(avoid=["\nA:"]).take(1)


def test_settings_must_fit():
    for make, message in (
        (lambda: ArithmeticRows(limits=Limits(operations=("+", "^"))), r"operations=\('\+', '\^'\)` must be some of"),
        (lambda: ArithmeticRows(limits=Limits(operations=())), r"`operations=\(\)` must be some of"),
        (lambda: ArithmeticRows(max_digits=6, num_digits=5), "`max_digits=6` must be in 1..`num_digits=5`"),
        (
            lambda: ArithmeticRows(mixture=Mixture(casual=0.1)),
            r"`Mixture\(casual=...\)` has no effect on this wording",
        ),
        (lambda: ArithmeticRows(exclude=[{"prompt": "Hi"}]), "`exclude`, item 0: no calculation found in 'Hi'"),
        (lambda: Mixture(none=1.5), "`none=1.5` is no fraction"),
        (lambda: Mixture(none=0.7, overflow=0.7, undefined=0, inexact=0), "add up to 1.4, which leaves no room"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
