"""Expressions as rows of items: what the lexer hands to the grammar.

In: tensors that the lexer has filled, or texts of items (`encode_items`, on the host, for tests and traces). Out:
`Items`. An item is a number, an operator, a bracket or the per cent sign; spaces, currency and units are gone. A
number is never negative: its sign is an item of its own, and the grammar decides whether a minus subtracts or negates.
Its value is `digits * 10**-scale`, exactly. See `grammar` for the values of expressions.
Try it: `pytest tests/expressions/test_items.py`

Shapes: N expressions, M items of an expression, D digits of a number.
"""

import enum
import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..numbers.digits import PAD


__all__ = ["Item", "Items", "encode_items", "item_texts"]


class Item(enum.IntEnum):
    """Kind of an item. `END` fills a row after its last item."""

    END = 0
    NUMBER = 1
    PLUS = 2
    MINUS = 3
    TIMES = 4
    DIVIDE = 5
    POWER = 6
    OPEN = 7  # (, [ and { are one kind; the lexer checks that shapes match
    CLOSE = 8
    PERCENT = 9  # a suffix of the number or bracket before it: divides by 100
    OF = 10  # `50% of 80`: multiplies, with the precedence of TIMES
    UNKNOWN = 11  # an item with no place in the grammar; its expression is refused


class Items(NamedTuple):
    """N expressions: `kind` [N, M] int64, an `Item`, left-aligned; `digits` [N, M, D] int64, the digits of a number
    without its point, left-aligned, 0..9 or `PAD`, all `PAD` where the item is not a number; `scale` [N, M] int64 in
    0..D, the digits after the point; `too_long` [N] bool: a number has more than D digits, or the expression more than
    M items."""

    kind: Tensor
    digits: Tensor
    scale: Tensor
    too_long: Tensor


_NUMBER = re.compile(r"([0-9]+)(?:\.([0-9]*))?|\.([0-9]+)")
_KINDS = {
    "+": Item.PLUS,
    "-": Item.MINUS,
    "*": Item.TIMES,
    "/": Item.DIVIDE,
    "^": Item.POWER,
    "(": Item.OPEN,
    ")": Item.CLOSE,
    "%": Item.PERCENT,
    "of": Item.OF,
    "?": Item.UNKNOWN,
}


def encode_items(
    rows: Sequence[Sequence[str]], num_items: int, num_digits: int, device: torch.device | str | None = None
) -> Items:
    """Converts expressions given as texts of items, for instance `["-", "2.50", "*", "(", "3", "+", "4", ")"]`.

    Args:
        rows: N expressions. An item is an unsigned decimal such as `"12"`, `"1.50"` or `".5"`, or one of
            `+ - * / ^ ( ) % of`, or `?` for an item that the grammar does not know.
        num_items: M, at least 1. An expression of more items is cut and marked as too long.
        num_digits: D, at least 1. A number of more digits is emptied, and its expression marked as too long.
        device: Device of the tensors; `None` is the current default device.

    Raises:
        ValueError: An item has another form, or a size is below 1.
    """
    if num_items < 1 or num_digits < 1:
        raise ValueError(f"`num_items={num_items}` and `num_digits={num_digits}` must be at least 1.")
    kinds, digits, scales, too_long = [], [], [], []
    for row in rows:
        parsed = [_parse(item, num_digits) for item in row]
        filler = [(Item.END, [PAD] * num_digits, 0, False)] * (num_items - len(parsed))
        kept = (parsed + filler)[:num_items]
        kinds.append([int(kind) for kind, _, _, _ in kept])
        digits.append([number for _, number, _, _ in kept])
        scales.append([scale for _, _, scale, _ in kept])
        too_long.append(len(parsed) > num_items or any(long for _, _, _, long in parsed))
    return Items(
        torch.tensor(kinds, dtype=torch.int64, device=device).reshape(-1, num_items),
        torch.tensor(digits, dtype=torch.int64, device=device).reshape(-1, num_items, num_digits),
        torch.tensor(scales, dtype=torch.int64, device=device).reshape(-1, num_items),
        torch.tensor(too_long, dtype=torch.bool, device=device),
    )


def item_texts(items: Items) -> list[list[str]]:
    """The texts of the items of N expressions, as `encode_items` takes them."""
    symbols = {int(kind): text for text, kind in _KINDS.items()}
    found = []
    for kinds, digits, scales in zip(items.kind.tolist(), items.digits.tolist(), items.scale.tolist(), strict=True):
        texts = []
        for kind, number, scale in zip(kinds, digits, scales, strict=True):
            if kind == Item.NUMBER:
                text = "".join(str(digit) for digit in number if digit != PAD)
                texts.append(f"{text[: len(text) - scale]}.{text[len(text) - scale :]}" if scale else text)
            elif kind != Item.END:
                texts.append(symbols[kind])
        found.append(texts)
    return found


def _parse(item: str, num_digits: int) -> tuple[Item, list[int], int, bool]:
    """Kind, padded digits, scale, and whether the number is too long."""
    empty = [PAD] * num_digits
    if item in _KINDS:
        return _KINDS[item], empty, 0, False
    match = _NUMBER.fullmatch(item)
    if match is None:
        known = " ".join(_KINDS)
        raise ValueError(f"{item!r} is no item: write an unsigned decimal such as `1.5`, or one of {known}.")
    whole, part = match[1] or "", match[2] or match[3] or ""
    text = whole + part
    if len(text) > num_digits:
        return Item.NUMBER, empty, 0, True
    return Item.NUMBER, [int(digit) for digit in text] + [PAD] * (num_digits - len(text)), len(part), False
