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

from ..numbers.number_runs import shifted
from .alphabet import Symbol


__all__ = ["NAMED", "OPERATIONS", "Name", "Naming", "naming"]

OPERATIONS = "+-*/"  # the operation of each of the first bits of `Name`


class Name(enum.IntFlag):
    """What a word says, one bit each."""

    ADDITION = 1
    SUBTRACTION = 2
    MULTIPLICATION = 4
    DIVISION = 8
    # A word that may mean the operation, and something else as well: `minus 6 degrees`, `over the bridge`.
    MAYBE_ADDITION = 16
    MAYBE_SUBTRACTION = 32
    MAYBE_MULTIPLICATION = 64
    MAYBE_DIVISION = 128
    THAN = 256
    LESS = 512  # before `than`: the first number is the smaller one
    HOW = 1024  # `How much less is 3 than 5?` asks for the distance, `What is 3 less than 5?` does not
    TIMES = 2048  # `times`, which names an operation only before a number or a variable: not in `4 times a day`


_SUM, _FACTOR = Name.ADDITION | Name.SUBTRACTION, Name.MULTIPLICATION | Name.DIVISION

# A verb names its inverse, too: `What must I add to 3 to get 8?`, `How many times does 3 go into 12?`
NAMED: dict[str, Name] = {
    **dict.fromkeys(("sum", "addition", "plus"), Name.ADDITION),
    **dict.fromkeys(("subtraction", "difference", "subtract", "subtracted", "subtracting"), Name.SUBTRACTION),
    **dict.fromkeys(("product", "multiplication", "mul"), Name.MULTIPLICATION),
    **dict.fromkeys(("quotient", "division", "div"), Name.DIVISION),
    **dict.fromkeys(("add", "added", "adding"), _SUM),
    **dict.fromkeys(("increase", "increased", "decrease", "decreased"), _SUM),
    **dict.fromkeys(("multiply", "multiplied", "multiplying", "divide", "divided", "dividing"), _FACTOR),
    # Slips of the keyboard and of spelling that people often make.
    **dict.fromkeys(("substract", "substracted", "substracting", "subtrack"), Name.SUBTRACTION),
    **dict.fromkeys(("devide", "devided", "deviding", "divid", "mutiply", "multipy", "multply", "mulitply"), _FACTOR),
    **dict.fromkeys(("pluss", "puls"), Name.MAYBE_ADDITION),
    **dict.fromkeys(("tims", "tiems"), Name.MAYBE_MULTIPLICATION),
    "times": Name.TIMES,
    **dict.fromkeys(("minus", "take", "away", "left", "sub"), Name.MAYBE_SUBTRACTION),
    **dict.fromkeys(("over", "share", "shared", "split"), Name.MAYBE_DIVISION),
    **dict.fromkeys(("apart", "gap"), Name.SUBTRACTION | Name.THAN | Name.HOW),  # a distance, as `how much more than`
    "than": Name.THAN,
    "how": Name.HOW,
    **dict.fromkeys(("less", "fewer", "smaller", "lower", "shorter", "younger", "lighter", "cheaper"), Name.LESS),
}

_LETTER = 1 << Symbol.LONE_X | 1 << Symbol.SCALE_WORD  # words of one letter; `a` is among `PER`
_VALUE = _LETTER | 1 << Symbol.ZERO | 1 << Symbol.DIGIT | 1 << Symbol.MINUS
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
    variable: Tensor  # [N, S] bool, a letter or `what` beside an operator in words: `times n`, `what plus 5 is 8`


def naming(symbol: Tensor, named: Tensor) -> Naming:
    """What symbols name.

    Args:
        symbol: [N, S] int64, of a stream.
        named: [N, S] int64, bits of `Name` of listed words.
    """
    variable = ((_LETTER | 1 << Symbol.PER) >> symbol) & 1 > 0
    value = (_VALUE >> symbol) & 1 > 0
    near = shifted(value, -1) | shifted(value, -2)
    named = torch.where((named & Name.TIMES > 0) & near, int(_FACTOR), named)
    space = symbol == int(Symbol.SPACE)
    gap = space | (symbol == int(Symbol.NOTHING))
    before, after = _nearest(variable, gap), _nearest(variable.flip(1), gap.flip(1)).flip(1)
    names = torch.zeros_like(named)
    for sign, name in _OF_SYMBOL.items():
        names = torch.where(symbol == int(sign), int(name), names)
    operator = (names > 0) & before & after
    word = symbol == int(Symbol.OPERATOR_WORD)
    near = (shifted(word, 2) & shifted(space, 1)) | (shifted(word, -2) & shifted(space, -1))
    letter = ((_LETTER | 1 << Symbol.REQUEST) >> symbol) & 1 > 0
    assigned = (symbol == int(Symbol.EQUALS)) & before
    return Naming(named | torch.where(operator, names, 0), assigned, operator, letter & near)


def _nearest(x: Tensor, gap: Tensor) -> Tensor:
    """[N, S] bool, what [N, S] bool says of the last symbol before each that is no gap; False if there is none."""
    place = torch.arange(1, x.shape[1] + 1, device=x.device)
    last = shifted(torch.where(gap, 0, place), 1).cummax(1).values
    return torch.cat([torch.zeros_like(x[:, :1]), x], 1).gather(1, last)
