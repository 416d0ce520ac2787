"""State of a text between forward passes: compressed tokens, token ids, and the results of all steps.

`TextState` is a value: no operation changes it or its tensors. So shallow copies of a KV cache may share one, and no
branch of a fork ever sees what another branch appends. Like the keys and values of a dynamic KV cache, its tensors are
joined with those of each call; they have at most a hundredth of the cache's size, but for the last few decoded tokens,
which are compressed together.

On a static KV cache the tensors have the size of the cache, and are written in place, also by compiled graphs
(`graphs`); copies of the state share them. Where states are stored is in `cache`.

Shapes: those of `tuner`, A anchors per row of the whole text, C tokens that a static cache holds.
Try it: `pytest tests/tuner/test_text_state.py`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...numbers.calculator import Result
from ...text.spelling import Continuation, Row
from ...text.vocabulary import PADDING, UNSEEN
from ..anchors import NONE, Anchors


@dataclass(frozen=True, eq=False)
class TextState:
    """State of B texts of one length, for one adapter. Every operation returns a new state.

    Attributes:
        anchors: [B][A], those of all steps so far. Earlier ones are kept because a crop may remove the latest anchor;
            later ones are then at -1.
        steps: [B, A] the results at these.
        ids: [B, n] int64 ids of the last n tokens, or `EMBEDDED`, `UNSEEN` or `PADDING`; n is L, or 0 where nobody
            reads them. [B, C] on a static cache, of which the text has the first L.
        features: [B, n, d] or [B, C, d], the compressed tokens; None if there are none, or no step will read them.
        pending: what the last t tokens, which `features` lacks, are compressed from, [B, t, H] per output that is
            read; empty if there are none. They are compressed together, before a step reads them.
        length: L.
        is_static: whether the tensors have room for a whole static cache.
        write_from: a lower bound of the positions that any step may write; None if there are none.
        reader: identifies the adapter.
        rows: [B], how far each text has come with its results; empty if there are none, and in the hidden interface.
    """

    anchors: Anchors
    steps: Result
    ids: torch.Tensor
    features: torch.Tensor | None = None
    pending: tuple[torch.Tensor, ...] = ()
    length: int = 0
    is_static: bool = False
    write_from: int | None = None
    reader: str = ""
    rows: tuple[Row, ...] = ()

    @classmethod
    def empty(cls, rows: int, device: Any, capacity: int, reader: str) -> TextState:
        """The state of B texts without tokens and steps, with room for the `capacity` of a static cache."""
        none = torch.empty(rows, 0, dtype=torch.int64, device=device)
        steps = Result(none[..., None], none, none, none)
        return cls([[]] * rows, steps, none.new_full((rows, capacity), UNSEEN), is_static=capacity > 0, reader=reader)

    @property
    def waiting(self) -> int:
        """The number of tokens that are not compressed yet."""
        return self.pending[0].shape[1] if self.pending else 0

    @property
    def may_write(self) -> bool:
        """Whether a result may be written after later tokens, as far as the host knows."""
        return self.write_from is not None and (not self.rows or any(row.needs() is not None for row in self.rows))

    # ------------------------------------------------------------------------------------------ tokens
    def appended(self, ids: torch.Tensor, features: torch.Tensor | None) -> TextState:
        """The state with T more tokens: ids [B, T] int64, and features [B, T, d], None if no step will read the
        text. On a static cache these may be written later."""
        length = self.length + ids.shape[1]
        if self.is_static:
            state = self
            if features is not None and self.features is None:
                state = replace(self, features=features.new_zeros(*self.ids.shape, features.shape[-1]))
                if not torch.compiler.is_compiling():
                    for x in (state.ids, state.features):  # so transformers (5.23) marks what CUDA graphs write into
                        torch._dynamo.mark_static_address(x)
            state.write(torch.arange(self.length, length, device=ids.device), ids, features)
            return replace(state, length=length)
        if not self.ids.shape[1]:
            return replace(self, ids=ids.clone(), features=features, length=length)  # the caller may change its own
        known, kept = self.ids, self.features
        if features is not None:
            if kept is None:  # a step that reads the new tokens knows no others
                known = known.masked_fill(known != PADDING, UNSEEN)
                kept = features.new_zeros(*known.shape, features.shape[-1])
            features = torch.cat([kept, features], 1)
        return replace(self, ids=torch.cat([known, ids], 1), features=features, length=length)

    def awaiting(self, ids: torch.Tensor, inputs: list[torch.Tensor]) -> TextState:
        """The state with T more tokens [B, T] that are compressed from the `inputs` later, not on a static cache."""
        # Copies, because a CUDA graph of the base model writes the outputs of its next replay to the same memory.
        known = zip(self.pending, inputs, strict=True) if self.pending else ((x,) for x in inputs)
        pending = tuple(torch.cat(parts, 1) for parts in known)
        return replace(self, ids=torch.cat([self.ids, ids], 1), pending=pending, length=self.length + ids.shape[1])

    def settled(self, compress: Callable[[Sequence[torch.Tensor]], torch.Tensor]) -> TextState:
        """The state in which `compress`, of inputs [B, t, H] to features [B, t, d], has compressed all tokens."""
        if not self.pending:
            return self
        assert self.features is not None
        return replace(self, features=torch.cat([self.features, compress(self.pending)], 1), pending=())

    def passed_by(self, tokens: int) -> TextState:
        """The state with `tokens` more tokens that were processed while the adapter was off."""
        if not tokens:
            return self
        unseen, features = self.ids.new_full((len(self.ids), tokens), UNSEEN), None
        if self.features is not None:
            features = self.features.new_zeros(*unseen.shape, self.features.shape[-1])
        return self.appended(unseen, features)

    def unread(self) -> TextState:
        """The state of a text that no further step will read."""
        # The ids of a result that is over stay, too: a crop begins it again, as after a rejected draft.
        ids = self.ids.new_empty(len(self.ids), 0) if self.write_from is None else self.ids
        return replace(self, features=None, pending=(), ids=ids)

    def write(self, at: torch.Tensor, ids: torch.Tensor, features: torch.Tensor | None) -> None:
        """Writes tokens in place at the indices `at` [T], on a static cache."""
        self.ids.index_copy_(1, at, ids)
        if features is not None and self.features is not None:
            self.features.index_copy_(1, at, features.detach().to(self.features.dtype))

    def recent(self, count: int) -> torch.Tensor:
        """The ids [B, n] of the last n tokens; n is at most `count`."""
        return self.ids[:, self._last(count)]

    def readable(self, count: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        """The last n tokens, at most `count`: features [B, n, d]; ids [B, n]; the position of the first token."""
        assert self.features is not None
        ids = self.recent(count)
        return self.features[:, self._last(count)], ids, self.length - ids.shape[1]

    def _last(self, count: int) -> slice:
        """The indices of the last `count` tokens, or of all."""
        end = self.length if self.is_static else self.ids.shape[1]
        return slice(max(end - count, 0), end)

    # ------------------------------------------------------------------------------------------ results
    def continued(
        self, start: int, known: list[list[int]] | None = None
    ) -> tuple[TextState, list[list[Continuation | None]]]:
        """The state after its last tokens, and what continues the results of each row from position `start` on.

        Costs a synchronization, if anything can be written and the ids from `start` on are not `known`.
        """
        needs = [need for row in self.rows if (need := row.needs(start)) is not None]
        if not needs:
            return self, [[None] * (self.length - start)] * len(self.rows)
        first = min(start, *needs)
        ids = self.recent(self.length - first).tolist() if known is None or first < start else known
        found = [row.continued(tokens, first, start) for row, tokens in zip(self.rows, ids, strict=True)]
        return replace(self, rows=tuple(row for row, _ in found)), [more for _, more in found]

    # ------------------------------------------------------------------------------------------ rows and length
    def with_rows(self, select: Callable[[torch.Tensor], torch.Tensor]) -> TextState:
        """The state with `select` applied to every tensor."""
        order = select(torch.arange(len(self.anchors))).tolist()
        return replace(
            self,
            anchors=[self.anchors[row] for row in order],
            steps=Result(*map(select, self.steps)),
            ids=select(self.ids),
            features=None if self.features is None else select(self.features),
            pending=tuple(map(select, self.pending)),
            rows=tuple(self.rows[row] for row in order if self.rows),
        )

    def cropped(self, length: int) -> TextState:
        """The state of the first `length` tokens. Static caches of transformers (5.23) are not cropped."""
        excess = self.length - length
        if excess <= 0:
            return self
        left = max(self.ids.shape[1] - excess, 0)
        waiting = self.waiting - (self.ids.shape[1] - left)
        return replace(
            self,
            ids=self.ids[:, :left],
            features=None if self.features is None else self.features[:, :left],
            pending=tuple(x[:, :waiting] for x in self.pending if waiting > 0),
            length=length,
            anchors=[[one if one.at < length else NONE for one in row] for row in self.anchors],
            rows=tuple(row.cropped(length) for row in self.rows),
        )
