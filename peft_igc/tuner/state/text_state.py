"""State of a text between forward passes: compressed tokens, token ids, and the results of all steps.

`TextState` is a value: no operation changes it or its tensors. So shallow copies of a KV cache may share one, and no
branch of a fork ever sees what another branch appends. It grows by blocks. Appending a token merges a few short
blocks, like the carries of a binary counter, and does not touch the long ones, so the cost per token does not depend
on the length of the text.

On a static KV cache the tokens are in a `room` of the size of the cache, which is written in place, also by compiled
graphs (`graphs`); copies of the state share it.

Where states are stored, and how they follow the rows of a KV cache, is in `cache`.

Shapes: B rows, L tokens of the text so far, T positions of this call, d mapping width, A anchors per row (of the whole
text, each with one step), R digits of a result, C tokens that a static cache holds.
Try it: `pytest tests/tuner/test_text_state.py`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from ...numbers.calculator import Result, Status
from ...numbers.digits import PAD
from ...text.spelling import Continuation, Row
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

    def with_room_for(self, features: torch.Tensor | None) -> Block:
        """The block with features, at first zeros, of the dtype and width of `features`."""
        if features is None or self.features is not None:
            return self
        room = self._replace(features=features.new_zeros(*self.ids.shape, features.shape[-1]))
        if not torch.compiler.is_compiling():
            for x in room:  # as transformers (5.23) marks keys and values: CUDA graphs write only into such tensors
                torch._dynamo.mark_static_address(x)
        return room

    def write(self, at: torch.Tensor, ids: torch.Tensor, features: torch.Tensor | None) -> None:
        """Writes tokens in place at the indices `at` [T]."""
        self.ids.index_copy_(1, at, ids)
        if features is not None and self.features is not None:
            self.features.index_copy_(1, at, features.detach().to(self.features.dtype))


class Steps(NamedTuple):
    """The steps of a text, in the order of their anchors.

    Attributes:
        anchors: [B, A] int64 positions in the text, -1 for none.
        kinds: [B, A] int64, `INLINE` or `TURN` for an anchor that a token sequence names, 0 for any other.
        ranks: [B, A] int64, number of tokens up to the anchor, without padding; hidden interface only.
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

    def with_results(self, result: Result) -> Steps:
        """These steps with other results."""
        return self._replace(digits=result.digits, signs=result.sign, status=result.status, scale=result.scale)

    @property
    def results(self) -> Result:
        """The results."""
        return Result(self.digits, self.signs, self.status, self.scale)

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
        room: memory of C tokens on a static cache, of which the text has the first L; None for blocks.
    """

    steps: Steps
    real: torch.Tensor
    blocks: tuple[Block, ...] = ()
    length: int = 0
    write_from: int | None = None
    embedded: bool = False
    reader: str = ""
    rows: tuple[Row, ...] = ()
    room: Block | None = None

    @classmethod
    def empty(cls, steps: Steps, capacity: int = 0, reader: str = "") -> TextState:
        """The state of texts without tokens, with no `steps`, and with a room if there is a `capacity`."""
        real = steps.anchors.new_zeros(len(steps.anchors))
        room = Block(real.new_full((len(real), capacity), UNSEEN), None) if capacity else None
        return cls(steps, real, reader=reader, room=room)

    def changed(self, **values: Any) -> TextState:
        """The state with other values of some attributes."""
        return replace(self, **values)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the tokens occupy."""
        return sum(x.untyped_storage().nbytes() for block in self._parts for x in block if x is not None)

    @property
    def _parts(self) -> tuple[Block, ...]:
        """The tokens."""
        if self.room is None:
            return self.blocks
        ids, features = self.room
        return (Block(ids[:, : self.length], None if features is None else features[:, : self.length]),)

    # ------------------------------------------------------------------------------------------ tokens
    def appended(self, ids: torch.Tensor, features: torch.Tensor | None) -> TextState:
        """The state with T more tokens.

        Args:
            ids: [B, T] int64 token ids, or `EMBEDDED`, `UNSEEN` or `PADDING`.
            features: [B, T, d], or None if no step will read them.
        """
        length, real = self.length + ids.shape[1], self.real + (ids != PADDING).sum(1)
        if self.room is not None:
            room = self.room.with_room_for(features)
            room.write(torch.arange(self.length, length, device=ids.device), ids, features)
            return replace(self, room=room, length=length, real=real)
        blocks = [*self.blocks, Block(ids, features)]
        while len(blocks) > 1 and _merge(blocks[-2], blocks[-1]):
            blocks[-2:] = [_merged(blocks[-2], blocks[-1])]
        return replace(self, blocks=tuple(blocks), length=length, real=real)

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
        for block in reversed(self._parts):
            if missing <= 0:
                break
            found.append((block, min(missing, block.ids.shape[1])))
            missing -= block.ids.shape[1]
        return found[::-1]

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
        ids = self.recent(self.length - first)[0].tolist() if known is None or first < start else known
        found = [row.continued(tokens, first, start) for row, tokens in zip(self.rows, ids, strict=True)]
        return replace(self, rows=tuple(row for row, _ in found)), [more for _, more in found]

    # ------------------------------------------------------------------------------------------ rows and length
    def with_rows(self, select: Select) -> TextState:
        """The state with `select` applied to every tensor."""
        order = select(torch.arange(len(self.rows))).tolist() if self.rows else []
        return replace(
            self,
            steps=Steps(*map(select, self.steps)),
            real=select(self.real),
            blocks=tuple(_map(block, select) for block in self.blocks),
            rows=tuple(self.rows[row] for row in order),
            room=None if self.room is None else _map(self.room, select),
        )

    def cropped(self, length: int) -> TextState:
        """The state of the first `length` tokens. Static caches of transformers (5.23) are not cropped."""
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
