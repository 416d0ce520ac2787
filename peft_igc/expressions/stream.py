"""The stream: a text as one row of symbols, whatever its tokens.

In: token ids [N, L] and `SymbolTokens`. Out: a `Stream`, the last W symbols up to a token, with words and characters
of several tokens joined. Tensor operations only: the number of symbols before each token is a cumulative sum, and
every place of the stream looks up its token in it. Try it: `pytest tests/expressions/test_stream.py`

Shapes: N texts, L tokens of a text, W symbols of a stream.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..numbers.token_table import PADDING
from .alphabet import Symbol
from .symbols import SymbolTensors, SymbolTokens
from .words import LONGEST_WORD


__all__ = ["Stream", "later", "stream_of", "symbols_in", "with_list_marks"]


class Stream(NamedTuple):
    """The last W symbols of N texts, right-aligned; `Symbol.EDGE` where a text is shorter."""

    symbol: Tensor  # [N, W] int64
    value: Tensor  # [N, W] int64, of a digit
    token: Tensor  # [N, W] int64, index of the token that holds the symbol
    unit: Tensor  # [N, W] int64, a number for each unit of measurement, 0 elsewhere
    named: Tensor  # [N, W] int64, bits of `names.Name` of a listed word, at all of its pieces
    code: Tensor  # [N, W] int64, `words.letters_hash` of the word, at all of its pieces
    before: Tensor  # [N, W] int64, the same of the word before it
    cut: Tensor  # [N, 1] bool, the text has more symbols


def stream_of(tokens: SymbolTokens, ids: Tensor, valid: Tensor, width: int) -> Stream:
    """The stream of a text.

    Args:
        tokens: The symbol table.
        ids: [N, L] int64, any values; ids outside the table are unknown text, `PADDING` is none. L is at least 1.
        valid: [N, L] bool, the tokens to read.
        width: W.
    """
    table = tokens.on(ids.device)
    row = _rows(tokens, ids)
    size = torch.where(valid & (ids != PADDING), table.size[row], 0)
    end = size.cumsum(1)
    total = end[:, -1:]
    slot = total - width + torch.arange(width, device=ids.device)  # [N, W]
    token = torch.searchsorted(end, slot, right=True).clamp(max=ids.shape[1] - 1)
    first = table.start[row] + size - end  # of a token's symbols in the table, less those of the text before it
    at = (first.gather(1, token) + slot).clamp(min=0)
    symbol = torch.where(slot >= 0, table.symbol[at], int(Symbol.EDGE))
    symbol, unit, named, code, before = _with_words(table, symbol, at)
    return Stream(symbol, table.value[at], token, unit, named, code, before, total > width)


def symbols_in(tokens: SymbolTokens, ids: Tensor, valid: Tensor, most: int) -> int:
    """W: on a CPU as many symbols as the longest text has, else `most`, so that no device waits for the host.

    Args:
        tokens, ids, valid: As in `stream_of`.
        most: The most symbols to read.
    """
    measured = ids.device.type == "cpu" and type(ids) is Tensor and not torch.compiler.is_compiling()
    if not measured or ids.shape[0] == 0:
        return most
    longest = torch.where(valid & (ids != PADDING), tokens.on(ids.device).size[_rows(tokens, ids)], 0).sum(1).max()
    return min(most, max(int(longest), 1))


def _rows(tokens: SymbolTokens, ids: Tensor) -> Tensor:
    """The row of each token [N, L] in the table: that of unknown ids for those outside of it, and for the name of a
    role that of the control token before it, see `SymbolTable.header`."""
    header = tokens.header
    row = torch.where((ids >= 0) & (ids < tokens.size), ids, tokens.size)
    if len(header) > ids.shape[1] or not header:
        return row
    begins = torch.ones_like(ids[:, len(header) - 1 :], dtype=torch.bool)
    for place, token in enumerate(header):
        begins = begins & (ids[:, place : place + begins.shape[1]] == token)
    within = torch.zeros_like(ids, dtype=torch.bool)
    for place in range(len(header)):
        within = within | torch.nn.functional.pad(begins, (place, len(header) - 1 - place))
    return torch.where(within, header[0], row)


def _with_words(table: SymbolTensors, symbol: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The symbols [N, W], with those of listed words and of characters in several tokens; and what words have.

    All pieces of a listed word get its symbol. A character's symbol stands at its first part.
    """
    letters, rest = symbol == int(Symbol.LETTERS), symbol == int(Symbol.REST)
    part = symbol == int(Symbol.PART)
    begins = part | (letters & ~later(letters, 1))
    word = begins.cumsum(1)  # [N, W], index of the word, counted from 1
    length = table.length[at]
    before = length.cumsum(1) - length  # letters of the stream before this piece
    room = before.new_zeros(before.shape[0], before.shape[1] + 1)
    first = room.scatter(1, torch.where(begins, word, 0), before).gather(1, word)
    moved = table.hash[at] * table.powers[(before - first).clamp(0, LONGEST_WORD)]
    member = letters | part | rest
    codes = room.scatter_add(1, word, torch.where(member, moved, 0))
    code = codes.gather(1, word)
    found = torch.searchsorted(table.words, code).clamp(max=len(table.words) - 1)
    known = member & (table.words[found] == code)
    unknown = torch.where(letters | ~member, symbol, int(Symbol.OTHER))
    meaning = torch.where(known, torch.where(rest, int(Symbol.NOTHING), table.meaning[found]), unknown)
    unit = torch.where(known & begins, table.unit[found], 0)
    previous = torch.where(member, codes.gather(1, (word - 1).clamp(min=0)), 0)
    return meaning, unit, torch.where(known, table.named[found], 0), torch.where(member, code, 0), previous


def later(x: Tensor, by: int) -> Tensor:
    """The value `by` places earlier of [N, W] of any type; 0 before the start."""
    return torch.nn.functional.pad(x, (by, 0))[:, : x.shape[1]]


def _sides(symbol: Tensor) -> tuple[Tensor, Tensor]:
    """Opening and closing brackets, [N, W] bool. Their codes alternate from `OPEN` to `CLOSE_CURLY`."""
    bracket = (symbol >= int(Symbol.OPEN)) & (symbol <= int(Symbol.CLOSE_CURLY))
    odd = (symbol - int(Symbol.OPEN)) % 2 == 1
    return bracket & ~odd, bracket & odd


def with_list_marks(symbol: Tensor) -> Tensor:
    """Marks closing brackets that nothing opens, as after a list number, as `Symbol.LIST_MARK`.

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
