"""The places of a batch as tensors, for the reader of the token interface; `numbers.places` finds them on the host.

In: token ids with the anchors of the steps, which come to the host in one copy (`StepTexts`). Out: `PlaceTensors`, in
groups of contexts of like length.

Shapes: B rows, n tokens at hand, A anchors per row, N steps (B * A), W places, D digits of an operand, M numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..numbers.digits import PAD, classes
from ..numbers.places import Places, places_of
from ..text.token_table import TokenTable
from ..text.vocabulary import EMBEDDED
from .attention import batches


_WORD, _NUMBER, _BROKEN = range(3)


class StepTexts(NamedTuple):
    """The texts of N steps on the host."""

    table: TokenTable  # the token table
    rows: list[list[int]]  # the ids of B rows, or `EMBEDDED`, `UNSEEN` or `PADDING`. Each row has N / B steps.
    # `anchors`, `since`: for each step the indices of the last and the first token that it reads; an anchor of -1
    # reads nothing
    anchors: list[int]
    since: list[int]
    places: list[Places]  # for each step what the reader reads
    first: int  # the position in the text of the tokens with index 0

    @classmethod
    def of(
        cls, table: TokenTable, most: int, ids: Tensor, anchors: Tensor, since: Tensor, first: int | Tensor = 0
    ) -> StepTexts:
        """From the ids [B, n] of all rows, in one synchronisation.

        Args:
            table, first: as in the attributes; `first` is the position of the first of the ids.
            most: the largest number of places of a step.
            ids: [B, n] int64.
            anchors, since: [B, A] int64 positions in the text.
        """
        width, count, n = ids.shape[1], ids.numel(), anchors.numel()
        values = torch.cat([ids.flatten(), anchors.flatten(), since.flatten()]).tolist()
        rows = [values[at : at + width] for at in range(0, count, width)]
        skipped = int(first)
        last = [one - skipped if one >= 0 else -1 for one in values[count : count + n]]
        begin = [max(one - skipped, 0) for one in values[count + n :]]
        return cls.of_lists(table, most, rows, last, begin, skipped)

    @classmethod
    def of_lists(
        cls, table: TokenTable, most: int, rows: list[list[int]], anchors: list[int], since: list[int], first: int = 0
    ) -> StepTexts:
        """From what is on the host already; `rows`, `anchors`, `since` and `first` as in the attributes."""
        places = []
        for step, (anchor, start) in enumerate(zip(anchors, since, strict=True)):
            end = max(anchor, 0)
            places.append(places_of(table, rows[step * len(rows) // len(anchors)], min(start, end), end, most))
        return cls(table, rows, anchors, since, places, first)

    def row_of(self, step: int) -> int:
        """The row of a step."""
        return step * len(self.rows) // len(self.anchors)

    def ids_of(self, step: int) -> list[int]:
        """The ids of a step's row up to its anchor."""
        return self.rows[self.row_of(step)][: self.anchors[step] + 1]

    def operands_of(self, step: int) -> list[str]:
        """The numbers that a step may point at, as digits."""
        if EMBEDDED in self.ids_of(step):  # a token given as an embedding may be a part of any number
            return []
        return [run.digits for run in self.places[step].numbers.values() if run.digits is not None]


class PlaceTensors(NamedTuple):
    """The places of n steps."""

    steps: list[int]  # their indices among those that are read
    row: Tensor  # [n] int64, their rows
    positions: Tensor  # [n, W] int64, the first token of each place, -1 for no place; the last one is the anchor
    sentence: Tensor  # [n, W] int64, the index of its sentence
    values: Tensor  # [n, W] int64, the row of `numbers` that a number has; the last one if there is none
    kinds: Tensor  # [n, W] int64, 0 for a token, 1 for a number, 2 for one that may be no operand
    facts: Tensor  # [n, W] int64, what the layout says of the numbers, as in `Places`
    columns: Tensor  # [n, W] int64, of the numbers, from 1; 0 of other places
    # [M + 1, D + 1] int64 digit classes of the numbers of all steps, each once; the last row is all PAD
    numbers: Tensor

    @property
    def is_number(self) -> Tensor:
        """[n, W] bool, places with a number that may be an operand."""
        return self.values < len(self.numbers) - 1


def place_tensors(
    texts: StepTexts, width: int, *, steps: Sequence[int], one_group: bool, device: Any
) -> list[PlaceTensors]:
    """The places of some steps, in groups that are read together, or in one group; `width` is D + 1."""
    every = dict.fromkeys(digits for step in steps for digits in texts.operands_of(step))
    known = {digits: index for index, digits in enumerate(every)}
    numbers = torch.tensor([classes(text, width) for text in known] + [[PAD] * width], device=device)
    sizes = [len(texts.places[step].at) for step in steps]
    groups = [(list(range(len(steps))), max(sizes, default=1))] if one_group else batches(sizes)
    made = []
    for group, longest in groups:
        chosen = [steps[one] for one in group]
        fields = torch.tensor([_fields(texts, step, longest, known, len(known)) for step in chosen], device=device)
        row = torch.tensor([texts.row_of(step) for step in chosen], device=device)
        made.append(PlaceTensors(group, row, *fields.unbind(-1), numbers))
    return made


def _fields(texts: StepTexts, step: int, width: int, known: dict[str, int], none: int) -> list[tuple[int, ...]]:
    """Position, sentence, value, kind, facts and column of `width` places, of which unused ones are in front; `none`
    is no value."""
    places, known = texts.places[step], known if texts.operands_of(step) else {}
    lines: list[tuple[int, ...]] = [(-1, 0, none, _WORD, 0, 0)] * (width - len(places.at))
    for place, (at, sentence) in enumerate(zip(places.at, places.sentence, strict=True)):
        run = places.numbers.get(place)
        kind = _WORD if run is None else _BROKEN if run.digits is None else _NUMBER
        value = none if run is None or run.digits is None else known.get(run.digits, none)
        fact, column = places.columns.get(place, (0, -1))
        lines.append((at, sentence, value, kind, fact, column + 1))
    return lines
