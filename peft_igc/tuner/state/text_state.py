"""State of a text between forward passes: compressed tokens, token ids, and the results of all steps.

`TextState` is a value: no operation changes it or its tensors. So shallow copies of a KV cache may share one, and no
branch of a fork ever sees what another branch appends. It grows by blocks. Appending a token merges a few short
blocks, like the carries of a binary counter, and does not touch the long ones, so the cost per token does not depend
on the length of the text.

`StaticText` is its counterpart for a static KV cache, whose tensors never change their shape or address: it has
room for the whole cache and is written in place at a position that is known to the device only. So a decode step
compiles to one graph.

Where states are stored, and how they follow the rows of a KV cache, is in `cache`.

Shapes: B rows, L tokens of the text so far, T positions of this call, d mapping width, A anchors per row (of the whole
text, each with one step), R digits of a result, C tokens that a static cache can hold.
Try it: `pytest tests/tuner/test_text_state.py`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from ...numbers.calculator import Status
from ...numbers.digits import PAD
from ...text.results.row import Row
from ...text.results.spelling import Continuation
from ...text.vocabulary import PADDING, UNSEEN


BLOCK = 1024  # tokens: longer blocks are not merged
INLINE, TURN = 1, 2  # kinds of anchors that a token sequence names: within a text, at the beginning of a turn

Select = Callable[[torch.Tensor], torch.Tensor]


class Block(NamedTuple):
    """Consecutive tokens of a text.

    Attributes:
        ids: [B, n] int64 token ids, or `EMBEDDED`, `UNSEEN` or `PADDING`.
        features: [B, n, d] compressed tokens; None if they cannot be read again.
    """

    ids: torch.Tensor
    features: torch.Tensor | None


class Steps(NamedTuple):
    """The steps of a text, in the order of their anchors.

    Attributes:
        anchors: [B, A] int64 positions in the text, -1 for none.
        kinds: [B, A] int64, `INLINE` or `TURN` for an anchor that a token sequence names, 0 for any other.
        ranks: [B, A] int64, number of tokens up to the anchor, without padding.
        digits: [B, A, R] int64 digit classes of the results without the point, left-aligned.
        signs: [B, A] int64 signs of the results, 1 for minus.
        status: [B, A] int64, a `calculator.Status` each.
        scale: [B, A] int64, as in `calculator.Result`.
        ended_at: [B, A] int64, position of the first token after the anchor that ends a turn; -1: none yet. Hidden
            interface only.
    """

    anchors: torch.Tensor
    kinds: torch.Tensor
    ranks: torch.Tensor
    digits: torch.Tensor
    signs: torch.Tensor
    status: torch.Tensor
    scale: torch.Tensor
    ended_at: torch.Tensor

    @classmethod
    def silent(cls, anchors: torch.Tensor, kinds: torch.Tensor, result_digits: int) -> Steps:
        """Steps [B, A] with the status NONE, which write nothing."""
        zero, digits = torch.zeros_like(anchors), anchors.new_full((*anchors.shape, result_digits), PAD)
        none, never = torch.full_like(anchors, int(Status.NONE)), torch.full_like(anchors, -1)
        return cls(anchors, kinds, zero, digits, zero, none, zero, never)

    @classmethod
    def empty(cls, rows: int, result_digits: int, device: torch.device) -> Steps:
        """No steps (A = 0) of B rows and R digits."""
        integers = torch.empty(rows, 0, dtype=torch.int64, device=device)
        digits = integers.new_empty(rows, 0, result_digits)
        return cls(integers, integers, integers, digits, integers, integers, integers, integers)

    def extended(self, more: Steps) -> Steps:
        """These steps and `more`, concatenated along A."""
        if not self.anchors.shape[1]:
            return more
        return Steps(*(torch.cat(pair, 1) for pair in zip(self, more, strict=True)))

    def replaced(self, rows: torch.Tensor, other: Steps) -> Steps:
        """These steps, with those of the `rows` [b] int64 from `other` [b, A]."""
        return Steps(*(x.index_copy(0, rows, y) for x, y in zip(self, other, strict=True)))

    def cropped(self, length: torch.Tensor | int) -> Steps:
        """The steps of the first `length` tokens. Later anchors become -1, so earlier steps govern again."""
        return self._replace(
            anchors=self.anchors.masked_fill(self.anchors >= length, -1),
            ended_at=self.ended_at.masked_fill(self.ended_at >= length, -1),
        )


@dataclass(frozen=True, eq=False)
class TextState:
    """State of B texts of one length, for one adapter. Every operation returns a new state.

    Attributes:
        steps: all steps so far. Earlier ones are kept because a crop may remove the latest anchor.
        real: [B] int64, number of tokens of each row, without padding.
        blocks: the tokens, except those that were forgotten.
        length: L.
        write_from: a lower bound of the positions that any step may write; None if there are none.
        embedded: whether any token was given as an embedding.
        reader: identifies the adapter.
        rows: [B], how far each text has come with its results; empty if there are none, and in the hidden interface.
    """

    steps: Steps
    real: torch.Tensor
    blocks: tuple[Block, ...] = ()
    length: int = 0
    write_from: int | None = None
    embedded: bool = False
    reader: str = ""
    rows: tuple[Row, ...] = ()

    @classmethod
    def empty(cls, steps: Steps) -> TextState:
        """The state of texts without tokens, with no `steps`."""
        return cls(steps, steps.anchors.new_zeros(len(steps.anchors)))

    def changed(self, **values: Any) -> TextState:
        """The state with other values of `write_from`, `embedded`, `reader` or `rows`."""
        return replace(self, **values)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the tokens occupy."""
        return sum(x.untyped_storage().nbytes() for block in self.blocks for x in block if x is not None)

    # ------------------------------------------------------------------------------------------ tokens
    def appended(self, ids: torch.Tensor, features: torch.Tensor | None) -> TextState:
        """The state with T more tokens.

        Args:
            ids: [B, T] int64 token ids, or `EMBEDDED`, `UNSEEN` or `PADDING`.
            features: [B, T, d], or None if no step will read them.
        """
        blocks = [*self.blocks, Block(ids, features)]
        while len(blocks) > 1 and _merge(blocks[-2], blocks[-1]):
            blocks[-2:] = [_merged(blocks[-2], blocks[-1])]
        real = self.real + (ids != PADDING).sum(1)
        return replace(self, blocks=tuple(blocks), length=self.length + ids.shape[1], real=real)

    def passed_by(self, tokens: int) -> TextState:
        """The state with `tokens` more tokens that were processed while the adapter was off."""
        return self.appended(self.real.new_full((len(self.real), tokens), UNSEEN), None) if tokens else self

    def forgotten(self, tokens: int) -> TextState:
        """The state without any tokens and with `tokens` more counted, for a text that nothing reads or writes."""
        return replace(self, blocks=(), length=self.length + tokens)

    def without_features(self) -> TextState:
        """The state of a text that no further step will read."""
        return replace(self, blocks=tuple(block._replace(features=None) for block in self.blocks))

    def positions(self, count: int) -> torch.Tensor:
        """[count] int64, the positions of the last `count` tokens in the text."""
        return torch.arange(self.length - count, self.length, device=self.real.device)

    def recent(self, count: int) -> tuple[torch.Tensor, int]:
        """The ids [B, n] of the last n tokens, and the position of the first of these; n is at most `count`."""
        parts = [block.ids[:, -left:] for block, left in self._last_blocks(count)]
        ids = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return ids, self.length - ids.shape[1]

    def readable(self, count: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
        """The last n tokens, for a step that reads them; n is at most `count`.

        Args:
            count: the largest n.
            like: [..., d], a tensor of the dtype and device of the features.

        Returns:
            Features [B, n, d]; ids [B, n], `UNSEEN` where there are no features; the position of the first token.
        """
        ids, features = [], []
        for block, left in self._last_blocks(count):
            part = block.ids[:, -left:]
            if block.features is None:
                ids.append(part.masked_fill(part != PADDING, UNSEEN))
                features.append(like.new_zeros(*part.shape, like.shape[-1]))
            else:
                ids.append(part)
                features.append(block.features[:, -left:].to(like.dtype))
        if len(ids) == 1:
            return features[0], ids[0], self.length - ids[0].shape[1]
        joined = torch.cat(ids, 1)
        return torch.cat(features, 1), joined, self.length - joined.shape[1]

    def _last_blocks(self, count: int) -> list[tuple[Block, int]]:
        """The last blocks that hold `count` tokens, each with the number of its last tokens that are meant."""
        found, missing = [], count
        for block in reversed(self.blocks):
            if missing <= 0:
                break
            found.append((block, min(missing, block.ids.shape[1])))
            missing -= block.ids.shape[1]
        return found[::-1]

    # ------------------------------------------------------------------------------------------ steps
    def with_steps(self, more: Steps) -> TextState:
        """The state with further steps."""
        return replace(self, steps=self.steps.extended(more))

    def with_ends(self, ended_at: torch.Tensor) -> TextState:
        """The state with another `ended_at` [B, A]."""
        return replace(self, steps=self.steps._replace(ended_at=ended_at))

    def continued(self, start: int) -> tuple[TextState, list[list[Continuation | None]]]:
        """The state after its last tokens, and what continues the results of each row from position `start` on.

        Costs a synchronization, if anything can be written.
        """
        needs = [need for row in self.rows if (need := row.needs(start)) is not None]
        if not needs:
            return self, [[None] * (self.length - start)] * len(self.rows)
        first = min(start, *needs)
        ids = self.recent(self.length - first)[0].tolist()
        found = [row.continued(tokens, first, start) for row, tokens in zip(self.rows, ids, strict=True)]
        return replace(self, rows=tuple(row for row, _ in found)), [more for _, more in found]

    def earlier_anchors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions [B, A] and kinds [B, A] of the anchors at which a context may begin."""
        return self.steps.anchors, self.steps.kinds

    def stored(self) -> TextState:
        """The state as it is stored between calls."""
        return self

    # ------------------------------------------------------------------------------------------ rows and length
    def with_rows(self, select: Select) -> TextState:
        """The state with `select` applied to every tensor."""
        blocks = tuple(_map(block, select) for block in self.blocks)
        order = select(torch.arange(len(self.rows))).tolist() if self.rows else []
        rows = tuple(self.rows[row] for row in order)
        return replace(self, blocks=blocks, real=select(self.real), steps=Steps(*map(select, self.steps)), rows=rows)

    def cropped(self, length: int) -> TextState:
        """The state of the first `length` tokens."""
        blocks, real, excess = [*self.blocks], self.real, self.length - length
        if excess <= 0:
            return self
        while excess > 0 and blocks:
            block = blocks.pop()
            left = max(block.ids.shape[1] - excess, 0)
            real = real - (block.ids[:, left:] != PADDING).sum(1)
            excess -= block.ids.shape[1] - left
            if left:  # cloned, so that the tokens after it are freed
                ids, features = block.ids[:, :left].clone(), block.features
                blocks.append(Block(ids, None if features is None else features[:, :left].clone()))
        rows = tuple(row.cropped(length) for row in self.rows)
        steps = self.steps.cropped(length)
        return replace(self, blocks=tuple(blocks), length=length, real=real, steps=steps, rows=rows)


@dataclass(eq=False)
class StaticText:
    """State of B texts on a static KV cache, for one adapter. Tensors are written in place.

    A static cache is not cropped, so the latest step of each row is enough.

    Attributes:
        latest: the latest step of each row, A = 1.
        marks: [B, 2] int64, positions of the last `INLINE` and of the last `TURN` anchor, -1 for none.
        padding: [B] int64, number of padding tokens of each row.
        ids: [B, C] int64 token ids; `UNSEEN` where the adapter was off, or `EMBEDDED` or `PADDING`.
        features: [B, C, d] compressed tokens; None as long as there are none.
        length: scalar int64, L, on the device: the KV cache's own.
        write_from: 0 if any step may write; None if none does.
        embedded: whether any token was given as an embedding.
        reader: identifies the adapter.
        speaks: whether the next pass looks for anchors, if `choose_graph` has decided it; None if not.
        writes: whether any of the latest steps writes, as far as the host knows; None if it does not.
        rows: [B], how far each text has come with its latest result, as far as the host knows; None if it does not.
        coming: the same after the next pass, if `choose_graph` knows its token; else None.
        told: [3, B, 1] int64, `told.as_tensor` for that token; None if it is not known, or nothing is written.
        open: the latest step and those of the call in progress; None between calls.
    """

    latest: Steps
    marks: torch.Tensor
    padding: torch.Tensor
    ids: torch.Tensor
    features: torch.Tensor | None = None
    length: torch.Tensor | None = None
    write_from: int | None = None
    embedded: bool = False
    reader: str = ""
    speaks: bool | None = None
    writes: bool | None = None
    rows: tuple[Row, ...] | None = None
    coming: tuple[Row, ...] | None = None
    told: torch.Tensor | None = None
    open: Steps | None = None

    @classmethod
    def empty(cls, steps: Steps, capacity: int) -> StaticText:
        """The state of texts without tokens on a cache of `capacity` tokens; `steps` are none."""
        integers = steps.anchors.new_full((len(steps.anchors), 1), -1)
        latest = Steps(*(integers.new_zeros(len(integers), 1, *x.shape[2:], dtype=x.dtype) for x in steps))
        latest = latest._replace(anchors=integers, ended_at=integers.clone())
        ids = integers.new_full((len(integers), capacity), UNSEEN)
        return cls(latest, integers.repeat(1, 2), integers.new_zeros(len(integers)), ids)

    @property
    def steps(self) -> Steps:
        """The steps that govern this call's positions."""
        return self.latest if self.open is None else self.open

    @property
    def real(self) -> torch.Tensor:
        """[B] int64, number of tokens of each row, without padding."""
        assert self.length is not None
        return self.length - self.padding

    def changed(self, **values: Any) -> StaticText:
        """Sets values of `write_from`, `embedded` or `reader`."""
        for name, value in values.items():
            setattr(self, name, value)
        return self

    # ------------------------------------------------------------------------------------------ tokens
    def appended(self, ids: torch.Tensor, features: torch.Tensor | None) -> StaticText:
        """Writes the last T tokens, which the KV cache counts already. Arguments as for `TextState`; no gradients."""
        positions = self.positions(ids.shape[1])
        self.ids.index_copy_(1, positions, ids)
        if features is not None:
            if self.features is None:
                self.features = features.new_zeros(*self.ids.shape, features.shape[-1])
            self.features.index_copy_(1, positions, features.detach().to(self.features.dtype))
        self.padding += (ids == PADDING).sum(1)
        return self

    def forgotten(self, tokens: int) -> StaticText:
        """Nothing: the memory is occupied for as long as the cache lives."""
        return self

    def without_features(self) -> StaticText:
        """Nothing: the memory is occupied for as long as the cache lives."""
        return self

    def positions(self, count: int) -> torch.Tensor:
        """[count] int64, the positions of the last `count` tokens in the text."""
        assert self.length is not None
        return self.length - count + torch.arange(count, device=self.ids.device)

    def recent(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The ids [B, count] of the last tokens, with `PADDING` before the text, and the position of the first."""
        positions = self.positions(count)
        ids = self.ids.index_select(1, positions.clamp(min=0))
        return ids.masked_fill(positions < 0, PADDING), positions[0]

    def readable(self, count: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
        """All C tokens: features [B, C, d]; ids [B, C], `PADDING` after the text; the position of the first, 0."""
        assert self.length is not None
        features = like.new_zeros(*self.ids.shape, like.shape[-1]) if self.features is None else self.features
        after = torch.arange(self.ids.shape[1], device=self.ids.device) >= self.length
        return features.to(like.dtype), self.ids.masked_fill(after, PADDING), 0

    # ------------------------------------------------------------------------------------------ steps
    def with_steps(self, more: Steps) -> StaticText:
        """Adds steps of this call to the latest one, until `stored`."""
        self.open = self.steps.extended(more)
        return self

    def with_ends(self, ended_at: torch.Tensor) -> StaticText:
        """Replaces `ended_at` [B, A]."""
        self.open = self.steps._replace(ended_at=ended_at)
        return self

    def earlier_anchors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions [B, 2] and kinds [B, 2] of the anchors at which a context may begin."""
        kinds = torch.tensor([INLINE, TURN], device=self.ids.device)
        return self.marks, kinds.expand_as(self.marks)

    def stored(self) -> StaticText:
        """Keeps the latest step of each row, in the same memory as before."""
        if self.open is not None:
            step = self.open.anchors.argmax(1, keepdim=True)  # [B, 1]
            for kept, every in zip(self.latest, self.open, strict=True):
                index = step.view(-1, 1, *(1,) * (every.dim() - 2)).expand(-1, 1, *every.shape[2:])
                kept.copy_(every.detach().gather(1, index))
            for column, kind in enumerate((INLINE, TURN)):
                named = torch.where(self.open.kinds == kind, self.open.anchors, -1).amax(1)
                self.marks[:, column] = torch.maximum(self.marks[:, column], named)
            self.open = self.writes = self.coming = None
        self.rows = self.coming
        self.speaks = self.coming = self.told = None
        return self

    # ------------------------------------------------------------------------------------------ rows and length
    def with_rows(self, select: Select) -> StaticText:
        """The state with `select` applied to every tensor."""
        return replace(
            self,
            latest=Steps(*map(select, self.latest)),
            marks=select(self.marks),
            padding=select(self.padding),
            ids=select(self.ids),
            features=None if self.features is None else select(self.features),
            rows=None,
            coming=None,
        )

    def cropped(self, length: int) -> StaticText:
        """Raises: transformers (5.23) does not crop static caches."""
        raise ValueError("A static KV cache cannot be cropped. Use a `DynamicCache`.")

    def reset(self) -> None:
        """Forgets the text, in place."""
        for x, value in ((self.ids, UNSEEN), (self.marks, -1), (self.padding, 0), (self.latest.anchors, -1)):
            x.fill_(value)
        self.latest.ended_at.fill_(-1)
        self.write_from, self.embedded, self.speaks, self.writes, self.open = None, False, None, None, None
        self.rows = self.coming = self.told = None


def _map(block: Block, change: Select) -> Block:
    """A block with `change` applied to its tensors."""
    return Block(change(block.ids), None if block.features is None else change(block.features))


def _merge(first: Block, second: Block) -> bool:
    """Whether two neighbouring blocks become one: the first is not longer, and together they are not too long."""
    lengths = first.ids.shape[1], second.ids.shape[1]
    same = (first.features is None) == (second.features is None)
    return same and lengths[0] <= lengths[1] and sum(lengths) <= BLOCK


def _merged(first: Block, second: Block) -> Block:
    """Two neighbouring blocks as one."""
    ids = torch.cat([first.ids, second.ids], 1)
    if first.features is None or second.features is None:
        return Block(ids, None)
    return Block(ids, torch.cat([first.features, second.features], 1))
