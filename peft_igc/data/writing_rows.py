"""Rows that train the writing: with a result, half of them with longer numbers, some with all leading digits.

A tokenizer with tokens of several digits writes a result in groups. One that training never had at its place may be
written wrongly, and among a few thousand random results half of the groups never follow a sign.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ..text.values import Limits, written
from .arithmetic import ArithmeticRows, conversation
from .columns import has_number
from .dataset import in_turn
from .exact_values import label_expression


_GROUPS = 1000


def longer_rows(rows: ArithmeticRows, n: int, lengths: int | None = None) -> list[dict[str, Any]]:
    """The first `n` rows of a stream that have a number as their result.

    With `lengths`, results of each number of digits in 1..`lengths` come equally often; only products have the most.
    """
    seen, most = Counter[int](), n if lengths is None else -(-n // lengths)

    def is_wanted(row: dict[str, Any]) -> bool:
        if not has_number(row["igc_result"]):
            return False
        digits = 0 if lengths is None else sum(map(str.isdigit, row["igc_result"]))
        seen[digits] += 1
        return seen[digits] <= most

    return list(itertools.islice(filter(is_wanted, rows), n))


def covering_rows(n: int, seed: int, limits: Limits, prompts: Sequence[Any]) -> list[dict[str, Any]]:
    """`n` rows with all groups of three digits in turn: of each 3,000 rows the first 2,000 cover every group after a
    minus sign, the others after none. Results have at most 12 digits before the point and no more than an operand. If
    results may have places, three of four have some, also in groups in turn.

    Each has one of `prompts`, which asks for something else: the writing must not depend on the text, whose operation
    may be anything, such as a look-up.
    """
    rng, rows = random.Random(f"leading digits/{seed}"), list[dict[str, Any]]()
    most = min(limits.digits, limits.result_digits)
    after, longest = in_turn(range(_GROUPS), rng), min(most, 12)
    groups = in_turn(range(min(_GROUPS, 10**longest)), rng)
    for index, group in enumerate(itertools.islice(groups, n)):
        more = rng.randint(0, longest - 3) if group >= 100 else 0
        places = rng.choice((1, 2, 3, 3, 3, 4, 5, 6)) if limits.decimals and index % 4 else 0
        whole = group * 10**more + rng.randrange(10**more)
        fraction = f"{next(after) if places else 0:03}{rng.randrange(1000):03}"[: min(places, most - len(str(whole)))]
        sign = 1 if index // _GROUPS % 3 == 2 else -1
        step = label_expression(f"{written(sign * Fraction(f'{whole}.{fraction}'))} + 0", Limits())
        rows.append(conversation("", None, step.columns) | {"prompt": rng.choice(prompts)})
    return rows
