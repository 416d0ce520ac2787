"""Candidate calculations for a text, from which `self_annotation` chooses.

In: the text of a prompt, or lines that a language model wrote about it. Out: calculations of two of the prompt's
numbers with their exact results, and the number of refused ones by reason. `by_pattern` combines all pairs of the last
numbers; `by_model` reads a model's proposals, which must be `a op b` with numbers of the prompt (paper, "Ground Truth
Data"). Number words, and what `text.literals` does not understand, are no numbers. Nothing is scored here.
Try it: `pytest tests/annotation/test_self_annotation.py`.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..data.columns import canonical, label
from ..numbers.calculator import Status
from ..text.literals import numbers
from ..text.values import Limits


__all__ = ["SYMBOLS", "Calculation", "by_model", "by_pattern", "numbers_of", "question_to_model"]

SYMBOLS = ("+", "-", "*", "/")

_PROPOSAL = re.compile(r"(-?[0-9]+) ?([-+*/x×÷\u2212]) ?(-?[0-9]+)(?: ?=.*)?")
_SIGNS = {"x": "*", "×": "*", "÷": "/", "\u2212": "-"}
_EXAMPLES = """\
Below each text stand the calculations that help with its answer, one on a line, or "none".

Text: A box holds 12 eggs. How many eggs are there in 7 boxes?
Calculations:
12 * 7

Text: Write the number 81 in words.
Calculations:
none

Text: Ann had 45 clips on 3 May and gave 19 of them away. How many are left?
Calculations:
45 - 19

Text: Share 96 apples among 8 children.
Calculations:
96 / 8

Text: """


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
            _add(made, operator, x, y, num_digits, refused)
    return made


def question_to_model(text: str) -> str:
    """The few-shot prompt that asks a causal LM, instruction-tuned or not, for calculations."""
    return f"{_EXAMPLES}{' '.join(text.split())}\nCalculations:"


def by_model(
    written: str, numbers: Sequence[str], most: int, num_digits: int, refused: Counter[str], known: list[Calculation]
) -> int:
    """Adds the calculations that a model wrote to those known.

    Args:
        written: Its continuation of `question_to_model`, read up to the first empty line; `none` is no proposal.
        numbers: The numbers of the prompt. A proposal needs two of them, with any signs.
        most: Maximum number of lines that count.
        num_digits, refused: As in `by_pattern`; further reasons: `"unreadable"`, `"operand not in the prompt"`,
            `"more than asked for"`.
        known: The calculations so far; extended in place.

    Returns:
        The number of lines.
    """
    lines = [line.strip() for line in written.strip().split("\n\n")[0].splitlines()]
    lines = [line for line in lines if line and line != "none"]
    there = Counter(number.lstrip("-") for number in numbers)
    for at, line in enumerate(lines):
        match = _PROPOSAL.fullmatch(line)
        if at >= most:
            refused["more than asked for"] += 1
        elif match is None:
            refused["unreadable"] += 1
        else:
            a, b = (canonical(number, "proposals", "model") for number in match.group(1, 3))
            if Counter([a.lstrip("-"), b.lstrip("-")]) - there:  # two equal ones are two numbers of the text
                refused["operand not in the prompt"] += 1
            else:
                _add(known, _SIGNS.get(match[2], match[2]), a, b, num_digits, refused)
    return len(lines)


def _add(made: list[Calculation], operator: str, a: str, b: str, num_digits: int, refused: Counter[str]) -> None:
    """Adds a calculation that is exact, short enough and new; counts it otherwise."""
    result = label(operator, (a, b), Limits(num_digits, num_digits))
    if isinstance(result, Status):
        refused[result.name.lower()] += 1
    elif (calculation := Calculation(operator, a, b, result)) in made:
        refused["repeated"] += 1
    else:
        made.append(calculation)
