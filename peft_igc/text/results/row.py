"""The steps of one text, as a value: where their anchors are, and how far the text has come with each result.

In: anchors with their results, and the tokens of the text. Out: a `Row`, and what continues a result after each token.
Every operation returns a new row, so the rows of a batch are repeated, selected and reordered like any other list.
Try it: `pytest tests/text/test_row.py`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .spelling import Continuation, Progress


__all__ = ["Row"]


class Row(NamedTuple):
    """The steps of one text.

    Attributes:
        steps: the anchor of each step, ascending, and the progress of its result; None if it has none.
    """

    steps: tuple[tuple[int, Progress | None], ...] = ()

    def needs(self, start: int | None = None) -> int | None:
        """Position of the first token that `continued` needs for what continues the results from `start` on.

        None if nothing can be written there. Without a `start`, of tokens after those that are known.
        """
        first = None
        for anchor, progress in reversed(self.steps):
            if progress is not None and not progress.is_over:
                first = progress.position
            if start is None or anchor < start:
                break
        return first

    def completed(self, anchor: int) -> int:
        """`Progress.completed` of the step at an anchor, -1 if there is none."""
        return next((known.completed for at, known in self.steps if at == anchor and known is not None), -1)

    def begun(self, steps: Iterable[tuple[int, Progress | None]]) -> Row:
        """The row with further steps, whose anchors come after those of all others."""
        found: dict[int, Progress | None] = {}
        for anchor, progress in steps:
            found.setdefault(anchor, progress)
        return Row((*self.steps, *sorted(found.items(), key=lambda step: step[0])))

    def continued(self, ids: Sequence[int], first: int, start: int) -> tuple[Row, list[Continuation | None]]:
        """What continues the results after the last tokens of the text. Each is governed by the latest anchor.

        Args:
            ids: the last tokens of the text, from `needs` on.
            first: position of the first of these.
            start: position of the first token whose continuation is returned.
        """
        steps, until = list(self.steps), first + len(ids)
        found: list[Continuation | None] = [None] * (until - start)
        for index in range(len(steps) - 1, -1, -1):
            anchor, progress = steps[index]
            if progress is not None and not progress.is_over and first <= progress.position < until:
                since = progress.position
                progress, more = progress.after(ids[since - first : until - first])
                steps[index] = anchor, progress
                begin = max(since, start)
                if begin < until:
                    found[begin - start : until - start] = more[begin - since :]
            until = anchor
            if anchor < start:
                break
        return Row(tuple(steps)), found

    def cropped(self, length: int) -> Row:
        """The row of the first `length` tokens. Earlier steps go on where later ones are cut off."""
        kept: list[tuple[int, Progress | None]] = []
        for anchor, known in self.steps:
            if anchor < length:
                kept.append((anchor, known.restarted() if known is not None and known.position > length else known))
        return Row(tuple(kept))
