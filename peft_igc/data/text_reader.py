"""The expression that the rules read in a text, for the labels of generated rows, without a tokenizer.

In: a text, of which every listed word and every other character is a token here. Out: the expression in plain symbols,
as `igc_expression` has it, or None where the rules refuse. What rules read does not depend on how a text is cut into
tokens, so this is what an adapter reads with its own tokenizer; the trainer's `ExpressionCheck` compares the two. One
text takes about a millisecond and a half. Values are in `exact_values`.
Try it: `pytest tests/data/test_symbol_rows.py -k read`
"""

import functools
import re
import string
from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..expressions.items import Item
from ..expressions.reading import read_expressions
from ..expressions.reasons import Reason
from ..expressions.symbols import SymbolTable, SymbolTokens
from ..expressions.words import WordList
from ..numbers.digits import PAD


__all__ = ["CONTROL", "expressions_in"]

CONTROL = "\0"  # stands for a control token, such as those of a chat template
_CHARACTERS = sorted({CONTROL, *string.printable, *"×÷·−–—²³½¼¾√π€£°…’“”"})
_PIECE = re.compile(r"[a-zA-Z]+|.", re.DOTALL)
_SIGNS = dict(zip(list(Item)[2:], "+ - * / ^ ( ) % of ?".split(), strict=True))


class _Vocabulary(NamedTuple):
    """The tokens of texts, and their symbols."""

    tokens: dict[str, int]
    symbols: SymbolTokens

    def encode(self, text: str) -> list[int]:
        """The tokens of a text. Characters of other scripts have one that no table knows."""
        unknown, found = len(self.tokens), []
        for piece in _PIECE.findall(text):
            word = self.tokens.get(piece.lower() if len(piece) > 1 else piece)
            found += [self.tokens.get(one, unknown) for one in piece] if word is None else [word]
        return found


@functools.cache
def _vocabulary() -> _Vocabulary:
    """All characters, and the words that the rules know: tokenizers have the frequent ones in one token."""
    words = WordList.of()
    texts = dict.fromkeys([*_CHARACTERS, *(word for word in words.symbols if isinstance(word, str) and len(word) > 1)])
    tokens = {text: token for token, text in enumerate(texts)}
    table = SymbolTable.from_texts([text.encode() for text in texts], [tokens[CONTROL]], [], words)
    return _Vocabulary(tokens, SymbolTokens(table))


@torch.no_grad()
def expressions_in(texts: Sequence[str], num_digits: int, max_operands: int = 8) -> list[str | None]:
    """The expression that is read at the end of each text, in plain symbols; None where there is none.

    Args:
        texts: Texts, each of which ends where a result is due; a message has `CONTROL` before it and two after it.
            Characters of other scripts are not known.
        num_digits: The most digits of a number.
        max_operands: The most numbers of an expression.
    """
    vocabulary = _vocabulary()
    rows = [vocabulary.encode(text) for text in texts]
    width = max((len(row) for row in rows), default=0)
    if not width:
        return [None] * len(texts)
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    valid = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in rows])
    anchors = torch.full((len(rows),), width - 1)
    sizes = {"num_digits": num_digits, "max_operands": max_operands}
    found = read_expressions(vocabulary.symbols, ids, valid, anchors, torch.zeros_like(anchors), **sizes)
    read = found.found & (found.reason == int(Reason.NONE)) & ~found.items.too_long
    parts = (found.items.kind.tolist(), found.items.digits.tolist(), found.items.scale.tolist())
    return [_spelled(*items) if is_read else None for is_read, *items in zip(read.tolist(), *parts, strict=True)]


def _spelled(kinds: list[int], digits: list[list[int]], scales: list[int]) -> str:
    """The items of one expression as text."""
    found = []
    for kind, number, scale in zip(kinds, digits, scales, strict=True):
        if kind == Item.NUMBER:
            text = "".join(str(digit) for digit in number if digit != PAD).rjust(scale + 1, "0")
            found.append(text[: len(text) - scale] + ("." + text[len(text) - scale :] if scale else ""))
        elif kind != Item.END:
            found.append(_SIGNS[Item(kind)])
    return " ".join(found)
