"""How results are written into a text: the token that continues each, and how much of it is written.

In: the tokens of a text from an anchor on, and the result at that anchor. Out: a `Continuation` for each token, and a
`Progress`, which says how far the text has come; a `Row` has those of all anchors of a text. Progress is the number of
digits since the start of a number after the anchor: a `123` that is a number of its own is no progress in `123456`,
and text before the anchor never counts. Whether the token is written is decided by the gate, see
`mappings.token_interface`.

A percentage is a number that the token `%` follows directly; nothing else completes it. A decimal is written as its
sign, one or more digits, the point, and the digits after it. A point after a number is part of it where the result has
its point there, and punctuation elsewhere: after the integer 12, the point of `12.` ends a sentence, and `12.5` is
another number. So where a result is written once, a point or comma after it is a place where no digit may follow, as
the end of the result is. Try it: `pytest tests/text/test_spelling.py`
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .token_table import Piece, TokenTable
from .vocabulary import PADDING


__all__ = ["ENDS", "Continuation", "Progress", "Row", "Spelled", "Style", "Written"]


class Spelled(enum.IntEnum):
    """The part of the result that is written at a position. The values index learned vectors: do not reorder.

    Decimals have the same states, so adapters that were trained without them have all the vectors.
    """

    START = 0  # nothing, at the anchor itself
    WAITING = 1  # nothing, after the anchor
    SIGNED = 2  # the minus sign
    MIDDLE = 3  # some digits, or all digits before the point, or the point too
    AGAIN = 4  # nothing, after an earlier complete occurrence of the result
    RESUMED = 5  # some digits, after an earlier complete occurrence
    END = 6  # all digits, directly after the anchor
    TOLD = 7  # all digits, after other text


ENDS = (Spelled.END, Spelled.TOLD)  # the last states


class Written(NamedTuple):
    """A result as it is written."""

    digits: str  # with the zeros of `0.05`
    whole: int  # number of digits before the point; all of them for an integer
    negative: bool
    percent: bool = False

    @classmethod
    def of(cls, digits: str, negative: bool, scale: int, width: int) -> Written | None:
        """A result with `scale` digits after the point, of a percentage `-1 - scale`. Leading zeros may be absent:
        0.05 is `5` with scale 2.

        None if there is nothing to write, or a decimal has more than `width` digits.
        """
        percent = scale < 0
        scale = -1 - scale if percent else scale
        if scale:
            digits = digits.rjust(scale + 1, "0") if digits else ""
            if len(digits) > width:
                return None
        return cls(digits, len(digits) - scale, negative, percent) if digits else None

    def is_spelled_by(self, table: TokenTable) -> bool:
        """Whether a vocabulary has the tokens for it."""
        decimal = self.whole < len(self.digits)
        return not (decimal and table.point is None) and not (self.percent and table.percent is None)


class Style(NamedTuple):
    """How an adapter writes results.

    Attributes:
        table: how the tokens spell them.
        once: whether the first number after an anchor counts as its result, and a point or comma after the result as
            its end. Nothing is written after that.
        ends: tokens that end a turn, and all that is written in it.
    """

    table: TokenTable
    once: bool = False
    ends: tuple[int, ...] = ()


class Continuation(NamedTuple):
    """What continues a result after a token."""

    token: int  # the next token of the result; -1 if it is complete
    state: Spelled


class Progress:
    """How far a text has come with one result. A value: `after` returns another one.

    Args:
        style: how it is written.
        result: the result.
        anchor: position of its anchor, the first token that `after` takes.

    Attributes:
        position: of the next token.
        completed: the first position at which the text spelled the whole result, also as the beginning of a longer
            number, and with `Style.once` any other number; -1 if it has not.
        ended: position of the token that ended the turn, -1 if none has.
    """

    def __init__(self, style: Style, result: Written, anchor: int) -> None:
        self._style, self._result, self._anchor = style, result, anchor
        self.position, self.completed, self.ended = anchor, -1, -1
        # Of the latest token: its piece, whether it is part of a number or joins two, and whether it ends the result.
        self._last, self._member, self._joins, self._ends = Piece(), False, False, False
        # Of the latest number: its first token, its digits up to here with the zero that `.5` lacks, whether it has a
        # point and a minus sign, and whether it is a beginning of the result.
        self._start, self._count, self._pointed, self._signed, self._right = -1, 0, False, False, False

    @property
    def is_over(self) -> bool:
        """Whether nothing can be written after a later token: the turn has ended, or the result is written once."""
        told = self._style.once and self.completed >= 0 and not (self._ends and self.completed == self.position - 1)
        return told or self.ended >= 0

    def restarted(self) -> Progress:
        """The progress before the anchor."""
        return Progress(self._style, self._result, self._anchor)

    def after(self, tokens: Iterable[int]) -> tuple[Progress, list[Continuation | None]]:
        """The progress after more tokens, and what continues the result after each of them.

        None where nothing does: in a number other than the result, after a wrong minus, and where it is over.
        """
        later = copy.copy(self)
        return later, [None if later.is_over else later._take(token) for token in tokens]

    def _take(self, token: int) -> Continuation | None:
        """Counts a token."""
        piece, position, result = self._style.table.piece(token), self.position, self._result
        self.position += 1
        if token in self._style.ends and position > self._anchor:
            self.ended = position
            return None
        digits, point, spaced = piece.digits, piece.point, piece.spaced
        if point >= 0 and (position == self._anchor or result.whole == len(result.digits)):
            digits, point, spaced = "", -1, False  # punctuation
        member = bool(digits) or point >= 0
        opens = member and (spaced or not self._member)
        if opens:
            self._open(position, spaced, point)
        if member:
            self._right = self._right and self._goes_on(digits, point, opens)
            self._count += len(digits)
            self._pointed |= point >= 0
        going = member and self._right
        inside = bool(digits) or (going and not opens)
        once, whole = self._style.once, inside and going and self._count >= len(result.digits)
        again = 0 <= self.completed < (self._start if inside else position)
        closed = result.percent and piece.percent and self._ends  # the sign after the digits
        at_end = closed or (once and self._ends and piece.mark and not inside and self.completed >= self._start)
        if self.completed < 0 and (whole or (once and inside and not going and self._start > self._anchor)):
            self.completed = position
        self._joins = piece.joins and self._member
        self._last, self._member, self._ends = piece, member, whole
        if at_end:
            return Continuation(-1, self._state(begun=True, again=False, ended=True, signed=False))
        active = going if inside else token != PADDING and (result.negative or not piece.minus)
        if not active or (once and again):
            return None
        leading = going and not inside  # the point of `.5`, or the end of a sentence
        ended = whole and not result.percent
        state = self._state(inside, again, ended, signed=piece.minus or (leading and self._signed))
        return Continuation(self._next(inside, leading), state)

    def _open(self, position: int, spaced: bool, point: int) -> None:
        """Begins a number."""
        before, apart = self._last, spaced or position - 2 <= self._anchor
        self._start, self._count, self._pointed = position, int(point == 0), False
        self._signed = before.minus and not spaced
        joined = (self._joins or not before.known) and not apart  # to a number after the anchor
        # A token that ends in a point but is none, such as `=.`: the number after it has lost its first digits.
        decimal = self._result.whole < len(self._result.digits) and position - 1 > self._anchor
        loose = decimal and before.dot and before.point < 0 and not spaced
        self._right = position > self._anchor and self._signed == self._result.negative and not (joined or loose)

    def _goes_on(self, digits: str, point: int, opens: bool) -> bool:
        """Whether the number is still a beginning of the result with the digits and the point of one more token."""
        result, count = self._result, self._count
        if result.digits[count : count + len(digits)] != digits:
            return False
        if point < 0:
            return self._pointed or count + len(digits) <= result.whole
        missing = opens and point == 0 and result.digits[0] != "0"  # `.5` is 0.5, and not 7.5
        return not self._pointed and count + point == result.whole and not missing

    def _state(self, begun: bool, again: bool, ended: bool, signed: bool) -> Spelled:
        """The state after a token that the result can be continued at."""
        if begun and not ended:
            return Spelled.RESUMED if again else Spelled.MIDDLE
        if begun:
            before = self._start - 1 - self._anchor
            return Spelled.END if before <= (self._signed and before > 0) else Spelled.TOLD
        if signed:
            return Spelled.SIGNED
        return Spelled.AGAIN if again else Spelled.START if self.position - 1 == self._anchor else Spelled.WAITING

    def _next(self, inside: bool, leading: bool) -> int:
        """The next token of the result, -1 if it is complete.

        Groups are counted from the left, as a tokenizer counts them before and after a point; so a text that splits a
        group differently returns to the grouping.
        """
        table, result = self._style.table, self._result
        if result.negative and not (inside or leading or self._last.minus):
            return table.minus
        begun = inside or leading
        if begun and result.percent and self._count == len(result.digits):
            assert table.percent is not None
            return table.percent
        count, pointed = (self._count, self._pointed) if begun else (0, False)
        if begun and not pointed and count >= result.whole and result.whole < len(result.digits):
            assert table.point is not None
            return table.point
        since, until = (result.whole, len(result.digits)) if pointed else (0, result.whole)
        end = min(until, count + table.group - (count - since) % table.group)
        return table.token_of(result.digits[count:end])


class Row(NamedTuple):
    """The steps of one text: a value, so the rows of a batch are repeated and reordered like any other list.

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
        kept = [step for step in self.steps if step[0] < length]
        cut = ((at, known and (known.restarted() if known.position > length else known)) for at, known in kept)
        return Row(tuple(cut))
