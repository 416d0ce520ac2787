"""A token table as tensors, and the look-up of the tokens of a text in it.

In: token ids [N, L] and a `TokenTable`. Out: `NumberTokens` and `SeenTokens`. Tensor operations only: no loop over
rows or tokens, no host synchronisation. The numbers of a text are found on the host, see `places`.
Try it: `pytest tests/numbers/test_spelling.py`

Shapes: N texts, L tokens of a text, V ids of the table, G digits of the longest numeric token.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple
from weakref import WeakValueDictionary

import torch
import torch.nn.functional as F
from torch import Tensor

from .digits import PAD
from .spelling import speller_of
from .token_table import CLOSE, STOP, Edge, TokenTable


__all__ = [
    "NumberTokens",
    "SeenTokens",
    "TableTensors",
    "latest",
    "shifted",
    "shows",
]


class TableTensors(NamedTuple):
    """A token table on one device. Row V is used for ids outside the table: not numeric, breaks adjacent numbers."""

    digits: Tensor  # [V + 1, G] int8, left-aligned, 0..9 or PAD
    size: Tensor  # [V + 1] int16, number of digits, 0 for a token that is not numeric
    spaced: Tensor  # [V + 1] bool, numeric with a leading space
    first: Tensor  # [V + 1] int8, first `Edge`; LETTER is stored as BREAK
    last: Tensor  # [V + 1] int8, last `Edge`; LETTER is stored as BREAK
    stop: Tensor  # [V + 1] bool, ends a sentence
    close: Tensor  # [V + 1] bool, a closing bracket
    word: Tensor  # [V + 1] bool, begins or ends with a letter
    begins_word: Tensor  # [V + 1] bool, letters after a space or bracket


class SeenTokens(NamedTuple):
    """The table's entries for the tokens of a text. Invalid positions are boundaries, as the ends of a text are."""

    row: Tensor  # [N, L] int64, row of the table
    size: Tensor  # [N, L] int64, number of digits, 0 for a token that is not numeric
    spaced: Tensor  # [N, L] bool, numeric with a leading space
    first: Tensor  # [N, L] int8, first `Edge`
    last: Tensor  # [N, L] int8, last `Edge`
    stop: Tensor  # [N, L] bool
    close: Tensor  # [N, L] bool
    word: Tensor  # [N, L] bool
    begins_word: Tensor  # [N, L] bool


_keys = itertools.count()
_made: WeakValueDictionary[str, NumberTokens] = WeakValueDictionary()


class NumberTokens:
    """A `TokenTable` as tensors, one copy per device.

    Not a module or buffer, so it is not saved with weights, not cast and not moved to the meta device; copies and
    pickles contain only the table. Call `on(device)` once before compiling a graph for a device: tensors created
    while a graph is traced cannot be kept.

    Args:
        table: The token table.
    """

    def __init__(self, table: TokenTable) -> None:
        self.table = table
        self.key = str(next(_keys))  # for operators of graphs, which take no objects
        _made[self.key] = self
        self.size = len(table.edges)  # V
        self.speller = speller_of(table)
        self._made: dict[torch.device, TableTensors] = {}
        self.on(torch.device("cpu"))

    def __reduce__(self) -> tuple[type[NumberTokens], tuple[TokenTable]]:
        return NumberTokens, (self.table,)

    @staticmethod
    def of_key(key: str) -> NumberTokens:
        """The object with a `key`, in this process."""
        return _made[key]

    def on(self, device: torch.device) -> TableTensors:
        """The table's tensors on a device."""
        # A `FakeTensorMode` allows no real tensors, and a fake tensor must not be kept after it.
        fake = type(torch.empty(0, device="cpu")) is not Tensor
        if not fake and device in self._made:
            return self._made[device]
        if torch.compiler.is_compiling():
            return _moved(self._made[torch.device("cpu")], device)
        made = _moved(_tensors_of(self.table), device)
        if not fake:
            self._made[device] = made
        return made

    def look_up(self, ids: Tensor, valid: Tensor) -> SeenTokens:
        """The table's entries for the tokens of a text.

        Args:
            ids: [N, L] int64, any values; ids outside the table, such as -1, break adjacent numbers.
            valid: [N, L] bool, False for padding and hidden tokens.
        """
        table = self.on(ids.device)
        row = torch.where((ids >= 0) & (ids < self.size), ids, self.size)
        return SeenTokens(
            row=row,
            size=torch.where(valid, table.size[row], 0).long(),
            spaced=table.spaced[row] & valid,
            first=torch.where(valid, table.first[row], int(Edge.BOUNDARY)),
            last=torch.where(valid, table.last[row], int(Edge.BOUNDARY)),
            stop=table.stop[row] & valid,
            close=table.close[row] & valid,
            word=table.word[row] & valid,
            begins_word=table.begins_word[row] & valid,
        )


def _moved(tensors: TableTensors, device: torch.device) -> TableTensors:
    """A copy of the tensors on a device."""
    return TableTensors(*(tensor.to(device) for tensor in tensors))


def _tensors_of(table: TokenTable) -> TableTensors:
    """The table's tensors on the CPU, also under another default device."""
    rows = len(table.edges) + 1
    longest = max(map(len, table.digits.values()))
    digits = torch.full((rows, longest), PAD, dtype=torch.int8, device="cpu")
    size = torch.zeros(rows, dtype=torch.int16, device="cpu")
    spaced = torch.zeros(rows, dtype=torch.bool, device="cpu")
    edges = torch.tensor([*table.edges, Edge.BREAK | Edge.BREAK << 4], dtype=torch.uint8, device="cpu")
    lines = [[int(digit) for digit in text] + [PAD] * (longest - len(text)) for text in table.digits.values()]
    ids = torch.tensor(list(table.digits), device="cpu")
    digits[ids] = torch.tensor(lines, dtype=torch.int8, device="cpu")
    size[ids] = torch.tensor([len(text) for text in table.digits.values()], dtype=torch.int16, device="cpu")
    if table.spaced:
        spaced[torch.tensor(list(table.spaced), device="cpu")] = True
    first, last = (edges & 7).to(torch.int8), (edges >> 4 & 7).to(torch.int8)
    letter_first, letter_last = shows(first, Edge.LETTER), shows(last, Edge.LETTER)
    return TableTensors(
        digits=digits,
        size=size,
        spaced=spaced,
        first=first.masked_fill(letter_first, int(Edge.BREAK)),
        last=last.masked_fill(letter_last, int(Edge.BREAK)),
        stop=(edges & STOP) > 0,
        close=(edges & CLOSE) > 0,
        word=letter_first | letter_last,
        begins_word=letter_last & shows(first, Edge.BOUNDARY),
    )


def shows(edges: Tensor, edge: Edge) -> Tensor:
    """Where `edges` equals `edge`, as bool of the same shape."""
    return edges == int(edge)  # compiled comparisons of a tensor with an enum are always False (torch 2.13.0)


def shifted(x: Tensor, by: int) -> Tensor:
    """The value `by` positions earlier (later if negative) of [N, L] of any type; 0 beyond the ends."""
    length = x.shape[1]
    if by > 0:
        return F.pad(x, (by, 0))[:, :length]
    return F.pad(x, (0, -by))[:, -by:]


def latest(at: Tensor) -> Tensor:
    """The last True position of `at` [N, L] at or before each position, as [N, L] int64; 0 if there is none."""
    if at.shape[1] == 0:
        return at.long()
    place = torch.arange(at.shape[1], device=at.device)
    return torch.where(at, place, 0).cummax(1).values
