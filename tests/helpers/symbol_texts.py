"""Texts as ids, and what is read of them as a line, for tests of expressions in symbols.

`read(tokenizer, tokens, texts)` pads on the left; `spelled(items, n)` is an expression with spaces between its items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from peft_igc.expressions.items import Item, Items
from peft_igc.expressions.reading import ExpressionReading, read_expressions
from peft_igc.expressions.symbols import SymbolTokens
from peft_igc.numbers.digits import PAD
from peft_igc.numbers.token_table import PADDING


_SIGNS = dict(zip(list(Item)[2:], "+ - * / ^ ( ) % of ?".split(), strict=True))


def encode(tokenizer: Any, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and validity [N, L] of texts, padded on the left."""
    rows = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    length = max(1, *map(len, rows))
    ids = torch.tensor([[PADDING] * (length - len(row)) + row for row in rows])
    return ids, ids != PADDING


def read(tokenizer: Any, tokens: SymbolTokens, texts: Sequence[str], num_digits: int = 40) -> ExpressionReading:
    """What is read at the end of each text."""
    ids, valid = encode(tokenizer, texts)
    anchors = torch.full((len(ids),), ids.shape[1] - 1)
    return read_expressions(tokens, ids, valid, anchors, torch.zeros_like(anchors), num_digits=num_digits)


def spelled(items: Items, row: int) -> str:
    """The expression of a row: `12 * ( 3.50 + 4 )`."""
    found = []
    for kind, digits, scale in zip(
        items.kind[row].tolist(), items.digits[row].tolist(), items.scale[row].tolist(), strict=True
    ):
        if kind == Item.NUMBER:
            text = "".join(str(digit) for digit in digits if digit != PAD).rjust(scale, "0")
            found.append(text[: len(text) - scale] + ("." + text[len(text) - scale :] if scale else ""))
        elif kind != Item.END:
            found.append(_SIGNS[Item(kind)])
    return " ".join(found)
