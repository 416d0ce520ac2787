"""The BIG-bench arithmetic task: items generated in its exact form.

Twenty groups `{1..5}_digit_{addition,subtraction,multiplication,division}` with prompts such as `What is 0 plus 1?`.
The operand columns serve to leave a calculation out of training, and no evaluation shows them to a model.

The real task has exact divisions, with a dividend of n digits and any of its divisors; differences may be negative;
one-digit addition, subtraction and multiplication are all 100 pairs, one-digit division the 23 exact ones with a
dividend of 1..9. Chosen here: both operands of +, -, * have exactly n digits (0..9 for n = 1) and are uniform; the
dividend is uniform, and so is the divisor among its divisors.
"""

import random
import re
from typing import Any

from ..text.values import Limits
from .columns import columns_of
from .wording.phrases import BIGBENCH, OPERATOR_WORDS, of_length


OPERATION_NAMES = {"+": "addition", "-": "subtraction", "*": "multiplication", "/": "division"}
_PHRASES = {word: symbol for symbol, word in OPERATOR_WORDS.items()}
_QUESTION = re.compile(rf"What is (-?[0-9]+) ({'|'.join(_PHRASES)}) (-?[0-9]+)\?")
_SMALL_PRIMES = tuple(p for p in range(2, 1000) if all(p % q for q in range(2, int(p**0.5) + 1)))

# Number of digits and operator of each group.
_GROUPS = {f"{n}_digit_{name}": (n, symbol) for symbol, name in OPERATION_NAMES.items() for n in range(1, 6)}
GROUPS = tuple(_GROUPS)


def bigbench_size(group: str) -> int:
    """The number of different items of a group."""
    if group not in _GROUPS:
        raise ValueError(
            f"The group {group!r} is unknown: groups are `1_digit_addition` to `5_digit_division`, see `GROUPS`."
        )
    digits, operator = _GROUPS[group]
    if operator != "/":
        return 100 if digits == 1 else (9 * 10 ** (digits - 1)) ** 2
    below, top = 10 ** (digits - 1) - 1, 10**digits - 1
    # There are sum(n // divisor) exact pairs with a dividend up to n: each divisor divides n // divisor dividends.
    return sum(top // divisor - below // divisor for divisor in range(1, top + 1))


def bigbench_items(group: str, n: int, seed: int = 0) -> list[dict[str, Any]]:
    """`n` different items of a group, in the order in which they are drawn. Equal seeds give equal items, on every
    machine.

    Returns:
        Rows `{"prompt", "target", "group", "igc_operator", "igc_operands", "igc_result"}`.

    Raises:
        ValueError: A group that is not in `GROUPS`, or more items than its `bigbench_size`.
    """
    if n > (size := bigbench_size(group)):
        raise ValueError(
            f"`n={n}` is too many: the group `{group}` has {size} different items. Ask for at most {size}."
        )
    rng, (digits, operator) = random.Random(f"{seed}/{group}"), _GROUPS[group]
    pairs: dict[tuple[int, int], None] = {}
    while len(pairs) < n:
        pairs[draw_operands(operator, digits, rng)] = None
    return [item_of(BIGBENCH[operator].format(a=a, b=b), group, (str(a), operator, str(b))) for a, b in pairs]


def bigbench_test_set(per_group: int = 200, seed: int = 0) -> list[dict[str, Any]]:
    """`per_group` items of each of the twenty groups, or all items of a smaller group (the four one-digit ones)."""
    return [item for group in GROUPS for item in bigbench_items(group, min(per_group, bigbench_size(group)), seed)]


def draw_operands(operator: str, digits: int, rng: random.Random) -> tuple[int, int]:
    """Two operands of n digits; for a division, a dividend of n digits and any of its divisors."""
    if operator == "/":
        dividend = of_length(digits, rng)
        return dividend, random_divisor(dividend, rng)
    return of_length(digits, rng, zero=True), of_length(digits, rng, zero=True)


def random_divisor(number: int, rng: random.Random) -> int:
    """A divisor of a positive number; all are equally probable if the number is below a million.

    In a larger number, a cofactor without prime factors below 1,000 is not factored: a divisor contains all of it or
    nothing.
    """
    divisor, rest = 1, number
    for prime in _SMALL_PRIMES:
        if prime * prime > rest:
            break
        power = 0
        while rest % prime == 0:
            rest //= prime
            power += 1
        if power:
            divisor *= prime ** rng.randrange(power + 1)
    return divisor * rest if rest > 1 and rng.random() < 0.5 else divisor


def item_of(prompt: str, group: str, question: tuple[str, str, str]) -> dict[str, Any]:
    """An item with its operand columns and its target."""
    a, operator, b = question
    columns = columns_of(operator, (a, b), Limits())
    return {"prompt": prompt, "target": columns["igc_result"], "group": group, **columns}


def parse_question(prompt: str) -> tuple[str, str, str] | None:
    """(first operand, operator, second operand) of the only BIG-bench question in a text, or None.

    Other text may surround the question ("Q: ...", "A:"). Several questions, such as few-shot examples, give None.
    """
    found = _QUESTION.findall(prompt)
    if len(found) != 1:
        return None
    a, phrase, b = found[0]
    return a, _PHRASES[phrase], b
