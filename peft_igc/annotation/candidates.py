"""Candidate calculations for a text, from which `self_annotation` chooses.

In: the text of a prompt. Out: calculations of two of its numbers with their exact results, and the number of refused
ones by reason. Number words, and what `text.literals` does not understand, are no numbers. Nothing is scored here.
Try it: `pytest tests/annotation/test_self_annotation.py`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..data.columns import label
from ..numbers.calculator import Status
from ..text.literals import numbers
from ..text.values import Limits


__all__ = ["Calculation", "by_pattern", "numbers_of"]


class Calculation(NamedTuple):
    """Two canonical numbers in the calculator's order, and their result."""

    operator: str
    a: str
    b: str
    result: str


def numbers_of(text: str) -> list[str]:
    """The integers of a text in their order, canonical: without separators and leading zeros, with their sign."""
    understood = [(one.value, text[slice(*one.span)]) for one in numbers(text) if one.value is not None]
    return [str(value) for value, written in understood if written.replace(",", "").isdecimal()]


def by_pattern(numbers: Sequence[str], num_digits: int, refused: Counter[str]) -> list[Calculation]:
    """All exact calculations of two of the numbers; sums and products in the text's order only.

    Args:
        numbers: As `numbers_of` gives them.
        num_digits: The longest operand and result.
        refused: Counts the others by reason: the calculator's status, or `"repeated"`.
    """
    made: list[Calculation] = []
    for a, b in itertools.combinations(numbers, 2):
        for operator, x, y in (("+", a, b), ("-", a, b), ("-", b, a), ("*", a, b), ("/", a, b), ("/", b, a)):
            result = label(operator, x, y, Limits(num_digits, num_digits))
            if isinstance(result, Status):
                refused[result.name.lower()] += 1
            elif (calculation := Calculation(operator, x, y, result)) in made:
                refused["repeated"] += 1
            else:
                made.append(calculation)
    return made
