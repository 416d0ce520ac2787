"""The questions of the comparison of methods, in cells.

A cell is a phrasing, a length and an operation: `seen/3_digit_addition` in the one form of BIG-bench, which training
rows have too; `held_out/...` in phrasings that none of them has (`wording.HELD_OUT`). Lengths 1 to 5 are the task's, 6
to 12 longer than any that is trained. All is drawn by a seed, and nothing is shown to a model but `prompt`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
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
            group = f"{digits}_digit_{name}"
            if digits in TRAINED:  # the task's own items
                made[f"seen/{group}"] = bigbench_items(group, min(per_cell, bigbench_size(group)), seed)
            else:
                made[f"seen/{group}"] = _drawn(operator, digits, per_cell, f"seen/{operator}/{digits}/{seed}", _seen)
            made[f"held_out/{group}"] = _drawn(
                operator, digits, per_cell, f"held out/{operator}/{digits}/{seed}", _held_out
            )
    return {cell: [item | {"group": cell} for item in items] for cell, items in made.items()}


def _seen(operator: str, a: str, b: str, rng: random.Random) -> str:
    return BIGBENCH[operator].format(a=a, b=b)


def _held_out(operator: str, a: str, b: str, rng: random.Random) -> str:
    return HELD_OUT.request(operator, a, b, rng, Mixture()).text


def _drawn(operator: str, digits: int, n: int, seed: str, worded: Callable[..., str]) -> list[Item]:
    """Up to `n` items with different prompts."""
    rng, found = random.Random(seed), dict[str, Item]()
    for _ in range(_ATTEMPTS * n):
        a, b = map(str, draw_operands(operator, digits, rng))
        prompt = worded(operator, a, b, rng)
        found.setdefault(prompt, item_of(prompt, "", (a, operator, b)))
        if len(found) == n:
            break
    return list(found.values())
