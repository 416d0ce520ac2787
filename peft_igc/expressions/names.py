"""The operations that a text names: in words, such as `product`, or in formulas of letters, such as `x + y`.

In: a `Stream`. Out: for each symbol what it names. A request in words whose names all belong to another operation than
the network's is not answered, and neither is a formula that is more than one operation (`x + y - x`).
Try it: `pytest tests/expressions/test_names.py`

Shapes: N texts, S symbols of a stream.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import torch
from torch import Tensor

from .alphabet import Symbol


__all__ = ["NAMED", "OPERATIONS", "Name", "Naming", "naming"]

OPERATIONS = "+-*/"  # the operation of each of the first bits of `Name`


class Name(enum.IntFlag):
    """What a word names, one bit each."""

    ADDITION = 1
    SUBTRACTION = 2
    MULTIPLICATION = 4
    DIVISION = 8
    THAN = 16
    LESS = 32  # before `than`: the first number is the smaller one


_SUM, _FACTOR = Name.ADDITION | Name.SUBTRACTION, Name.MULTIPLICATION | Name.DIVISION

# A verb names its inverse, too: `What must I add to 3 to get 8?`, `How many times does 3 go into 12?`
NAMED: dict[str, Name] = {
    **dict.fromkeys(("sum", "addition"), Name.ADDITION),
    **dict.fromkeys(("subtraction", "difference"), Name.SUBTRACTION),
    **dict.fromkeys(("product", "multiplication"), Name.MULTIPLICATION),
    **dict.fromkeys(("quotient", "division"), Name.DIVISION),
    **dict.fromkeys(("plus", "add", "added", "adding", "subtract", "subtracted", "subtracting"), _SUM),
    **dict.fromkeys(("increase", "increased", "decrease", "decreased"), _SUM),
    **dict.fromkeys(("times", "multiply", "multiplied", "multiplying", "divide", "divided", "dividing"), _FACTOR),
    "than": Name.THAN,
    **dict.fromkeys(("less", "fewer", "smaller", "lower", "shorter", "younger", "lighter", "cheaper"), Name.LESS),
}

_VARIABLES = 1 << Symbol.LONE_X | 1 << Symbol.SCALE_WORD | 1 << Symbol.PER  # words of one letter, `a` among `PER`
_OF_SYMBOL = {
    Symbol.PLUS: Name.ADDITION,
    Symbol.MINUS: Name.SUBTRACTION,
    Symbol.MINUS_SIGN: Name.SUBTRACTION,
    Symbol.DASH: Name.SUBTRACTION,
    Symbol.STAR: Name.MULTIPLICATION,
    Symbol.TIMES: Name.MULTIPLICATION,
    Symbol.SLASH: Name.DIVISION,
    Symbol.DIVIDE: Name.DIVISION,
}


class Naming(NamedTuple):
    """What each symbol of N texts names."""

    names: Tensor  # [N, S] int64, bits of `Name`
    assigned: Tensor  # [N, S] bool, an equals sign behind a variable: `x = 3`
    operator: Tensor  # [N, S] bool, an operator between two variables: `x + y`


def naming(symbol: Tensor, named: Tensor) -> Naming:
    """What symbols name.

    Args:
        symbol: [N, S] int64, of a stream.
        named: [N, S] int64, bits of `Name` where a listed word begins.
    """
    variable = (_VARIABLES >> symbol) & 1 > 0
    space = symbol == int(Symbol.SPACE)
    before = _shifted(variable, 1) | (_shifted(space, 1) & _shifted(variable, 2))
    after = _shifted(variable, -1) | (_shifted(space, -1) & _shifted(variable, -2))
    names = torch.zeros_like(named)
    for sign, name in _OF_SYMBOL.items():
        names = torch.where(symbol == int(sign), int(name), names)
    operator = (names > 0) & before & after
    return Naming(named | torch.where(operator, names, 0), (symbol == int(Symbol.EQUALS)) & before, operator)


def _shifted(x: Tensor, by: int) -> Tensor:
    """[N, S], the value `by` places earlier, or later for a negative number; False beyond the ends."""
    kept = x[:, : x.shape[1] - by] if by > 0 else x[:, -by:]
    return torch.nn.functional.pad(kept, (max(by, 0), max(-by, 0)))[:, : x.shape[1]]
