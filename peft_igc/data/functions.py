"""Training rows for functions of one, two or three given numbers, such as percentages and roots.

The operands are in the function's order, of three numbers in that of the text. The sentences are those of
`wording/texts/functions.toml`, and a user's own `phrasings` of `register_operation`.
"""

import random
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from ..numbers.calculator import NO_ARITHMETIC
from ..text.operations import FUNCTIONS, takes
from ..text.values import Limits
from .arithmetic import Row, conversation
from .columns import columns_of, has_number, label
from .wording.drawing import surround
from .wording.phrases import casual, choose, pools


SLOTS = "abcd"
LIMITS = Limits(operations=("+", "-", "*", "/"))
EXACT = 0.9  # share of the rows whose result ends, if they can be drawn so
TRIES = 100
ROOTS = {"sqrt": 2, "cbrt": 3}


def row_of(text: str, operator: str, operands: Sequence[str] = (), limits: Limits = LIMITS) -> Row:
    """A row of a text that asks for an operation, or for none."""
    return conversation(text, None, columns_of(operator, [one.replace(",", "") for one in operands], limits))


def function_rows(seed: int, operations: Sequence[str] | None = None, none: float = 0.1) -> Iterator[Row]:
    """An endless stream of requests for functions of one, two or three numbers, from the phrasings of the functions.

    `operations` are names of `FUNCTIONS` with phrasings of their own or in `functions.toml`; None: all of the file.
    `none` is the share of the rows in which a number is a variable, so that nothing can be calculated.
    """
    rng, known = random.Random(f"functions/{seed}"), pools("functions")
    operations = list(known) if operations is None else operations
    while True:
        name = rng.choice(operations)
        own = FUNCTIONS[name].phrasings if name in FUNCTIONS else ()
        text = rng.choice([*own, *known.get(name, ())])
        text = (text if text in own else choose(text, rng)).replace("{list}", "{a}, {b} and {c}")
        slots = re.findall(r"\{([abcd])\}", text)
        numbers = _drawn(name, len(set(slots)), rng)
        if name != NO_ARITHMETIC and rng.random() < none:
            name, numbers[-1] = NO_ARITHMETIC, rng.choice(("x", "it", "some", "my age", "the rest"))
        operands = numbers if name != NO_ARITHMETIC else []
        if operands and not takes(name):
            operands = [numbers[SLOTS.index(slot)] for slot in slots]
        yield row_of(varied(filled(text, numbers), rng), name, operands)


def varied(text: str, rng: random.Random) -> str:
    """A text as it is, typed in a hurry, or with sentences around it."""
    if rng.random() < 0.2:
        text = casual(text, rng)
    return surround(text, False, rng) if rng.random() < 0.4 else text


def _drawn(name: str, count: int, rng: random.Random) -> list[str]:
    """Numbers for a function, which have a result in most cases."""
    exact = rng.random() < EXACT
    for _ in range(TRIES):
        numbers = [_number(rng) for _ in range(count)]
        if name in ROOTS:
            numbers = [str(rng.randint(1, 400) ** ROOTS[name])]
        elif name in ("percent", "increased", "reduced"):
            numbers[1] = str(rng.randint(1, 100))
        elif name in ("power", "factorial"):
            numbers = [str(rng.randint(1, 20)), str(rng.randint(2, 9))][:count]
        elif name in ("share", "decline", "mod") and Decimal(numbers[0]) < Decimal(numbers[1]):
            numbers.reverse()
        if not exact or name == NO_ARITHMETIC or has_number(label(name, numbers, LIMITS)):
            break
    return numbers


def _number(rng: random.Random) -> str:
    """A positive number, sometimes with places."""
    whole = rng.randrange(1, 10 ** rng.randint(1, 5))
    return f"{whole}.{rng.randint(1, 9)}" if rng.random() < 0.06 else str(whole)


def filled(text: str, numbers: Sequence[str]) -> str:
    """A text with numbers in its slots."""
    for slot, number in zip(SLOTS, numbers, strict=False):
        text = text.replace(f"{{{slot}}}", number)
    return text
