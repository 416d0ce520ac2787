"""Words that mean something else beside certain others: `in digits`, `a negative result is fine`, `can u add`.

In: the symbols of a text and the words beside each. Out: the symbols, with those of harmless words where a word that
usually refuses a calculation says only how the answer is to be written, or is a slip of everyday writing.
Try it: `pytest tests/expressions/test_phrases.py`

Shapes: N texts, S symbols of a stream.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..alphabet import Symbol
from ..words import hashes_of


__all__ = ["in_phrases"]


class _Phrase(NamedTuple):
    """A word, and of which words one has to stand at some distances from it, below zero before it."""

    words: tuple[int, ...]  # hashes
    beside: dict[int, tuple[int, ...]]
    symbol: Symbol


def _phrase(words: str, beside: dict[int, str], symbol: Symbol = Symbol.LETTERS) -> _Phrase:
    """A phrase of words separated by spaces."""
    return _Phrase(hashes_of(words), {at: hashes_of(others) for at, others in beside.items()}, symbol)


_PHRASES = (
    _phrase("digits", {-1: "in plain just only"}),
    _phrase("digits", {1: "only"}),
    _phrase("digits", {-1: "the", -2: "just only"}),
    _phrase("integer", {-1: "a an", -2: "as"}),
    _phrase("integer", {-2: "a an", -3: "as"}),
    _phrase("negative", {1: "result results answer answers"}),
    _phrase("more less", {-1: "nothing"}),
    _phrase("u", {-1: "if can could would will do did when should"}, Symbol.GLUE),
)
(_N,) = hashes_of("n")


def in_phrases(symbol: Tensor, code: Tensor, codes: Tensor, word: Tensor) -> Tensor:
    """The symbols, changed where a phrase says so.

    Args:
        symbol: [N, S] int64.
        code: [N, S] int64, `words.letters_hash` of the word of each symbol, 0 for none.
        codes: [N, words] int64, that of each word.
        word: [N, S] int64, index of the word of a symbol, or of the last one before it.
    """
    for words, beside, to in _PHRASES:
        there = _among(code, words)
        for distance, others in beside.items():
            at = word + distance
            near = codes.gather(1, at.clamp(0, codes.shape[1] - 1))
            there = there & _among(near, others) & (at > 0) & (at < codes.shape[1])
        symbol = torch.where(there, int(to), symbol)
    return _joined_by_n(symbol, code)


def _joined_by_n(symbol: Tensor, code: Tensor) -> Tensor:
    """The symbols, with a lone `n` between two numbers as `and`: `86 n 57`."""
    digit = (symbol == int(Symbol.DIGIT)) | (symbol == int(Symbol.ZERO))
    near = _beside(digit, 2) & _beside(symbol == int(Symbol.SPACE), 1)
    return torch.where(near & (code == _N), int(Symbol.AND), symbol)


def _among(code: Tensor, words: tuple[int, ...]) -> Tensor:
    """[N, S] bool, whether [N, S] int64 is one of some hashes."""
    return torch.stack([code == word for word in words]).any(0)


def _beside(x: Tensor, by: int) -> Tensor:
    """[N, S] bool, whether [N, S] holds `by` places before and `by` places behind."""
    pad = torch.nn.functional.pad
    return pad(x, (by, 0))[:, : x.shape[1]] & pad(x, (0, by))[:, by:]

