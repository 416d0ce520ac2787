"""Brackets of a row of symbols: whether each has a partner of its shape.

Depth has no bound, so it is not for the automaton: it follows from cumulative sums, and pairs from one stable sort by
depth. Try it: `pytest tests/expressions/test_brackets.py`

Shapes: N texts, W symbols of a text.
"""

import torch
from torch import Tensor

from .alphabet import Symbol


__all__ = ["mismatched", "with_list_marks"]


def _sides(symbol: Tensor) -> tuple[Tensor, Tensor]:
    """Opening and closing brackets, [N, W] bool. Their codes alternate from `OPEN` to `CLOSE_CURLY`."""
    bracket = (symbol >= int(Symbol.OPEN)) & (symbol <= int(Symbol.CLOSE_CURLY))
    odd = (symbol - int(Symbol.OPEN)) % 2 == 1
    return bracket & ~odd, bracket & odd


def with_list_marks(symbol: Tensor) -> Tensor:
    """Marks closing brackets that nothing opens, as behind a list number, as `Symbol.LIST_MARK`.

    Args:
        symbol: [N, W] int64, the symbols of texts.
    """
    opening, closing = _sides(symbol)
    depth = (opening.long() - closing.long()).cumsum(1)
    # Nothing opens a bracket that takes the depth below all depths before it, and below that of the text's beginning.
    lowest = depth.cummin(1).values
    before = torch.nn.functional.pad(lowest, (1, 0))[:, :-1].clamp(max=0)
    marked = torch.where(depth < before, int(Symbol.LIST_MARK), symbol)
    return torch.where(_after_item_number(symbol, opening, closing), int(Symbol.OTHER), marked)


def _after_item_number(symbol: Tensor, opening: Tensor, closing: Tensor) -> Tensor:
    """[N, W] bool: closing brackets of `[11] -5`, a list number and a sign, or a sum: nobody can tell."""

    def back(x: Tensor, steps: int) -> Tensor:
        return torch.nn.functional.pad(x, (steps, 0))[:, : x.shape[1]]

    def ahead(x: Tensor, steps: int) -> Tensor:
        return torch.nn.functional.pad(x, (0, steps))[:, steps:]

    digit = (symbol == int(Symbol.ZERO)) | (symbol == int(Symbol.DIGIT))
    pause = (symbol == int(Symbol.EDGE)) | (symbol == int(Symbol.LINE)) | (symbol == int(Symbol.CONTROL))
    for mark in (Symbol.DOT, Symbol.QUESTION, Symbol.BANG, Symbol.COLON, Symbol.SEMICOLON, Symbol.COMMA):
        pause |= symbol == int(mark)
    pause |= (symbol >= int(Symbol.LETTERS)) & (symbol != int(Symbol.MINUS_SIGN))
    space = symbol == int(Symbol.SPACE)
    begins = opening & (back(pause, 1) | (back(space, 1) & back(pause, 2)))
    begins[:, 0] |= opening[:, 0]
    short = back(begins, 2) & back(digit, 1)
    long = back(begins, 3) & back(digit, 2) & back(digit, 1)
    sign = torch.zeros_like(space)
    for mark in (Symbol.MINUS, Symbol.MINUS_SIGN, Symbol.PLUS):
        sign |= symbol == int(mark)
    tight = sign & ~ahead(space, 1)
    signed = ahead(space, 1) & (ahead(tight, 2) | (ahead(space, 2) & ahead(tight, 3)))
    return closing & (short | long) & signed


def mismatched(symbol: Tensor, within: Tensor) -> Tensor:
    """Detects brackets without a partner of the same shape.

    Args:
        symbol: [N, W] int64, the symbols of texts.
        within: [N, W] bool, the symbols that count.

    Returns:
        [N] bool.
    """
    opening, closing = _sides(symbol)
    opening, closing = opening & within, closing & within
    bracket = opening | closing
    depth = opening.long().cumsum(1) - (closing.long().cumsum(1) - closing.long())  # of a pair, on both sides
    order = torch.where(bracket, depth, symbol.shape[1] + 1).argsort(dim=1, stable=True)
    # In the order of depths a bracket and its partner are neighbours.
    shape = torch.where(bracket, symbol, 0).gather(1, order)
    after = torch.nn.functional.pad(shape, (0, 1))[:, 1:]
    paired = (after - shape == 1) & opening.gather(1, order)
    return (bracket & (depth < 1)).any(1) | (paired.sum(1) != closing.sum(1)) | (paired.sum(1) != opening.sum(1))
