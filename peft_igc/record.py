"""What a text has left behind so far: what reading keeps of its tokens, and all its steps.

A `Record` is a value: nothing in it is ever changed, and operations give another one. Where it is kept, and how it
follows the rows of a KV cache, is in `state`.

Shapes: B rows, L tokens of the text, d reading width, A steps, R digits, P places of a shortcut.
Try it: `pytest tests/test_state.py`
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch


@dataclass
class Record:
    """What a text has left behind so far, batch first. Rows keep all their steps, in the order of their anchors.

    Attributes:
        kept: [B, L, d] what reading keeps of each token, in the base model's dtype.
        valid: [B, L] bool, False for padding and for tokens that this adapter has not seen.
        ids: [B, L] int64 token ids, -1 if unknown.
        anchors: [B, A] int64 positions in 0..L-1, -1 for none.
        digits: [B, A, R] int64 digit classes of the results.
        signs: [B, A] int64 signs of the results.
        status: [B, A] int64, a `calculator.Status` each.
        told: [B, A] int64, where the result first stood, if only as a number's beginning; -1: not yet.
        shortcut: [B, A, P, d] what reading hands to writing past the calculator, as `kept`; [B, 0, 0, d] without one.
    """

    kept: torch.Tensor
    valid: torch.Tensor
    ids: torch.Tensor
    anchors: torch.Tensor
    digits: torch.Tensor
    signs: torch.Tensor
    status: torch.Tensor
    told: torch.Tensor
    shortcut: torch.Tensor

    @classmethod
    def empty(cls, rows: int, width: int, result_digits: int, like: torch.Tensor, shortcut: int = 0) -> Record:
        """The record of texts without a token, on the device and in the dtype of `like`; `shortcut` is P."""
        integers = like.new_empty(rows, 0, dtype=torch.int64)
        return cls(
            kept=like.new_empty(rows, 0, width),
            valid=integers.bool(),
            ids=integers,
            anchors=integers,
            digits=like.new_empty(rows, 0, result_digits, dtype=torch.int64),
            signs=integers,
            status=integers,
            told=integers,
            shortcut=like.new_empty(rows, 0, shortcut, width),
        )

    @property
    def length(self) -> int:
        """L, a Python int: no synchronisation."""
        return self.kept.shape[1]

    def extended(self, **more: torch.Tensor) -> Record:
        """A record with tensors [B, n, ...] appended along the second dimension."""
        return replace(self, **{name: torch.cat([getattr(self, name), x], 1) for name, x in more.items()})

    def skipped(self, tokens: int) -> Record:
        """A record with `tokens` unknown tokens appended, which no reading sees."""
        rows, _, width = self.kept.shape
        return self.extended(
            kept=self.kept.new_zeros(rows, tokens, width),
            valid=self.valid.new_zeros(rows, tokens),
            ids=self.ids.new_full((rows, tokens), -1),
        )

    def with_rows(self, select: Any) -> Record:
        """A record whose rows are `select(tensor)` for each tensor."""
        return Record(**{f.name: select(getattr(self, f.name)) for f in fields(self)})

    def cropped(self, length: int) -> Record:
        """A record of the first `length` tokens. Steps behind the end are dead; earlier ones govern again."""
        return replace(
            self,
            kept=self.kept[:, :length],
            valid=self.valid[:, :length],
            ids=self.ids[:, :length],
            anchors=self.anchors.masked_fill(self.anchors >= length, -1),
            told=self.told.masked_fill(self.told >= length, -1),
        )
