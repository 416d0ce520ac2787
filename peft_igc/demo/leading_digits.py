"""Rows whose results begin with each group of three digits, behind a minus sign or none, and behind a decimal point.

A tokenizer with tokens of several digits writes a result in groups. A group that training never had at its place may
be written wrongly, and among a few thousand random results half of the groups never follow a sign. In: a number and a
seed. Out: rows of sums and differences in the conversational form.
Try it: `pytest tests/demo/test_leading_digits.py`
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ..data.columns import EXPRESSION
from ..data.exact_values import written


__all__ = ["covering_rows"]

_GROUPS = 1000
_LEAST, _MOST = 10**6, 10**12  # added to the first operand: it is longer than those of test items
_TEXTS = ("What is {}?", "{} =", "{}", "Compute {}.", "How much is {}?")


def covering_rows(n: int, seed: int, decimals: bool) -> list[dict[str, Any]]:
    """Rows with all groups of three digits in turn.

    Args:
        n: Number of rows. The first 1,000 and the second have all groups behind a minus sign, and the third behind
            none; so do the next.
        seed: Of everything else.
        decimals: Whether three of four results have decimal places, whose groups also come in turn.
    """
    rng = random.Random(f"leading digits/{seed}")
    results = _results(rng, decimals)
    return [_row(rng, next(results)) for _ in range(n)]


def _results(rng: random.Random, decimals: bool) -> Iterator[Fraction]:
    """Results without end."""
    after = _in_turn(rng)
    for index, group in enumerate(_in_turn(rng)):
        more = rng.randint(0, 9) if group >= 100 else 0
        places = rng.choice((1, 2, 3, 3, 3, 4, 5, 6)) if decimals and index % 4 else 0
        fraction = f"{next(after) if places else 0:03}{rng.randrange(1000):03}"[:places]
        sign = 1 if index // _GROUPS % 3 == 2 else -1
        yield sign * Fraction(f"{group * 10**more + rng.randrange(10**more)}.{fraction}")


def _in_turn(rng: random.Random) -> Iterator[int]:
    """All groups in random order, then in another one, without end."""
    while True:
        yield from rng.sample(range(_GROUPS), _GROUPS)


def _row(rng: random.Random, result: Fraction) -> dict[str, Any]:
    """A sum or a difference that has this result."""
    more = Fraction(rng.randrange(_LEAST, _MOST))
    sign = rng.choice("+-")
    first = more + max(result, Fraction()) if sign == "-" else min(result, Fraction()) - more
    a, b, value = written(first), written(abs(result - first)), written(result)
    integers = "." not in a + b
    return {
        "prompt": [{"role": "user", "content": rng.choice(_TEXTS).format(f"{a} {sign} {b}")}],
        "completion": [{"role": "assistant", "content": value}],
        "igc_operator": sign if integers else EXPRESSION,
        "igc_operands": [a, b] if integers else None,
        "igc_result": value,
        "igc_expression": f"{a} {sign} {b}",
    }
