"""The questions of the comparison of methods, in cells, and the gate that keeps them apart from training.

A cell is a phrasing, a length and an operation: `seen/3_digit_addition` in the one form of BIG-bench, which training
rows have too; `held_out/...` in phrasings that none of them has (`wording.HELD_OUT`). Lengths 1 to 5 are the task's, 6
to 12 longer than any that is trained. All is drawn by a seed, and nothing is shown to a model but `prompt`. `apart`
says what is wrong with a test set. Try it: `pytest tests/benchmarks/test_commands.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from peft_igc.data.bigbench import OPERATION_NAMES, bigbench_items, bigbench_size, draw_operands, item_of
from peft_igc.data.mixture import Mixture
from peft_igc.data.wording.phrases import BIGBENCH
from peft_igc.data.wording.wording import HELD_OUT


TRAINED = range(1, 6)  # digits
LONGER = range(6, 13)
_ATTEMPTS = 50  # per item, before a cell counts as exhausted: there are 23 exact divisions of one digit

Item = dict[str, Any]


def cells(per_cell: int, seed: int, lengths: Iterable[int] = (*TRAINED, *LONGER)) -> dict[str, list[Item]]:
    """All cells by name, with `per_cell` distinct items each, or as many as there are."""
    made: dict[str, list[Item]] = {}
    for digits in lengths:
        for operator, name in OPERATION_NAMES.items():
            made[f"seen/{digits}_digit_{name}"] = seen(operator, digits, per_cell, seed)
            made[f"held_out/{digits}_digit_{name}"] = held_out(operator, digits, per_cell, seed)
    return {cell: [item | {"group": cell} for item in items] for cell, items in made.items()}


def seen(operator: str, digits: int, n: int, seed: int) -> list[Item]:
    """BIG-bench's form; up to 5 digits the items are the task's as the package makes it."""
    if digits in TRAINED:
        group = f"{digits}_digit_{OPERATION_NAMES[operator]}"
        return bigbench_items(group, min(n, bigbench_size(group)), seed)
    rng = random.Random(f"seen/{operator}/{digits}/{seed}")

    def make() -> Item:
        a, b = draw_operands(operator, digits, rng)
        return item_of(BIGBENCH[operator].format(a=a, b=b), "", (str(a), operator, str(b)))

    return _distinct(n, make)


def held_out(operator: str, digits: int, n: int, seed: int) -> list[Item]:
    """The same kinds of operands in phrasings that are not trained."""
    rng = random.Random(f"held out/{operator}/{digits}/{seed}")

    def make() -> Item:
        a, b = (str(number) for number in draw_operands(operator, digits, rng))
        return item_of(HELD_OUT.request(operator, a, b, rng, Mixture()).text, "", (a, operator, b))

    return _distinct(n, make)


def _distinct(n: int, make: Any) -> list[Item]:
    """Up to `n` items with different prompts."""
    found: dict[str, Item] = {}
    for _ in range(_ATTEMPTS * n):
        item = make()
        found.setdefault(item["prompt"], item)
        if len(found) == n:
            break
    return list(found.values())


def apart(rows: Sequence[Mapping[str, Any]], tested: Sequence[Mapping[str, Any]]) -> list[str]:
    """What makes a test set unfit beside training rows, one sentence each; empty is good.

    No calculation may be in both but those of two one-digit numbers, which are complete sets; no prompt may be in
    both but for the same.
    """
    trained = {_calculation(row) for row in rows if row["igc_operands"] is not None}  # others are no pair
    texts = {row["prompt"][-1]["content"] for row in rows}
    wrong = []
    for item in tested:
        calculation = _calculation(item)
        longer = max(abs(calculation[0]), abs(calculation[2])) > 9
        if longer and calculation in trained:
            wrong.append(f"The calculation of {item['prompt']!r} is trained.")
        if longer and item["prompt"] in texts:
            wrong.append(f"The question {item['prompt']!r} is trained.")
    return wrong


def _calculation(row: Mapping[str, Any]) -> tuple[int, str, int]:
    a, b = map(int, row["igc_operands"])
    return a, row["igc_operator"], b
