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

import enum
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .literals import JOINTS
from .token_table import POINTED, UNSPELLED, TokenTable
from .vocabulary import PADDING


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
_NUMBER_ENDS, _PERCENT = re.compile(r"(?![.,]?[0-9])"), re.compile("%(?![0-9])")  # what follows a number that is whole


class Style(NamedTuple):
    """How an adapter writes results."""

    table: TokenTable  # how the tokens spell them
    # whether the first number after an anchor counts as its result, and a point or comma after the result as its end.
    # Nothing is written after that.
    once: bool = False
    ends: tuple[int, ...] = ()  # tokens that end a turn, and all that is written in it


class Continuation(NamedTuple):
    """What continues a result after a token."""

    token: int  # the next token of the result; -1 if it is complete
    state: Spelled


class Progress:
    """How far a text has come with a result such as `-0.05` or `17%`, whose `anchor` is the first token that `after`
    takes. A value: `after` returns another one.

    Attributes:
        position: of the next token.
        completed: the first position at which the text spelled the whole result, also as the beginning of a longer
            number, and with `Style.once` any other number; -1 if it has not.
        ended: position of the token that ended the turn, -1 if none has.
    """

    def __init__(self, style: Style, result: str, anchor: int) -> None:
        self._style, self._result, self._anchor = style, result, anchor
        self._plain, self._negative, self._percent = result.strip("-%"), result[0] == "-", result[-1] == "%"
        self.position, self.completed, self.ended = anchor, -1, -1
        # Of the latest token: its characters, whether it joins numbers on both sides, and whether it ends the result.
        self._last, self._joins, self._whole = "", False, False
        # Of the number that it is a part of, if it is: the first token, its digits and point, and whether its sign and
        # what it touches leave it a number of its own. The number is empty after another token.
        self._start, self._number, self._fits = -1, "", False

    @property
    def is_over(self) -> bool:
        """Whether nothing can be written after a later token: the turn has ended, or the result is written once."""
        told = self._style.once and self.completed >= 0
        # A point or a comma may follow the result.
        return self.ended >= 0 or (told and not (self._whole and self.completed == self.position - 1))

    def restarted(self) -> Progress:
        """The progress before the anchor."""
        return Progress(self._style, self._result, self._anchor)

    def after(self, tokens: Iterable[int]) -> tuple[Progress, list[Continuation | None]]:
        """The progress after more tokens, and what continues the result after each of them.

        None where nothing does: in a number other than the result, after a wrong minus, and where it is over.
        """
        later = Progress.__new__(Progress)  # `copy.copy` takes as long as all that follows
        vars(later).update(vars(self))
        return later, [None if later.is_over else later._take(token) for token in tokens]

    def is_spelled(self, tokens: Sequence[int]) -> bool:
        """Whether finished tokens, from the anchor's on, spell the result as a number that ends with it."""
        fresh, table = Progress(self._style, self._result, 0), self._style.table
        for at, token in enumerate(tokens, start=1):
            fresh._take(token)
            if fresh.ended >= 0:
                return False
            rest = "".join(table.characters(later) for later in tokens[at : at + 3]) if fresh._whole else ""
            if fresh._whole and (_PERCENT if self._percent else _NUMBER_ENDS).match(rest):
                return True
        return False

    def _take(self, token: int) -> Continuation | None:
        """Counts a token."""
        spelled, position, plain = self._style.table.characters(token), self.position, self._plain
        once, before, followed = self._style.once, self._number, self._whole
        self.position += 1
        if token in self._style.ends and position > self._anchor:
            self.ended = position
            return None
        number, self._number = spelled.strip(" "), ""
        punctuation = "." in number and (position == self._anchor or "." not in plain)
        if number[-1] in "0123456789." and not punctuation:
            if spelled[0] == " " or not before:
                self._open(position, spelled)
                before = ""
            self._number = before + number
        self._joins, self._last = spelled in JOINTS and before != "", spelled
        begun = "0" * self._number.startswith(".") + self._number  # with the zero that `.5` lacks
        known = begun if self._fits and plain.startswith(begun) else ""
        leading = known != "" and self._number == "."  # the point of `.5`, or the end of a sentence
        inside = self._number != "" and not leading and (number != "." or known != "")
        self._whole = whole = known == plain
        again = 0 <= self.completed < (self._start if inside else position)
        closed = self._percent and spelled == "%" and followed  # the sign after the digits
        mark = once and followed and spelled in (".", ",") and not inside  # no digit may follow
        at_end = closed or (mark and self.completed >= self._start)
        if self.completed < 0 and (whole or (once and inside and not known and self._start > self._anchor)):
            self.completed = position
        if at_end:
            return Continuation(-1, self._end)
        active = known if inside else token != PADDING and (self._negative or spelled != "-")
        if not active or (once and again):
            return None
        following = self._next(known)
        if inside:
            middle = Spelled.RESUMED if again else Spelled.MIDDLE
            return Continuation(following, self._end if whole and not self._percent else middle)
        if spelled == "-" or (leading and self._negative):
            return Continuation(following, Spelled.SIGNED)
        waiting = Spelled.START if position == self._anchor else Spelled.WAITING
        return Continuation(following, Spelled.AGAIN if again else waiting)

    def _open(self, position: int, spelled: str) -> None:
        """Begins a number, which fits unless it is a part of another one after the anchor."""
        apart = spelled[0] == " " or position - 2 <= self._anchor
        signed = self._last == "-" and spelled[0] != " "
        joined = (self._joins or self._last == UNSPELLED) and not apart
        # A token that ends in a point but is none, such as `=.`: the number after it has lost its first digits.
        decimal = "." in self._plain and position - 1 > self._anchor
        loose = decimal and self._last == POINTED and spelled[0] != " "
        self._start = position
        self._fits = position > self._anchor and signed == self._negative and not (joined or loose)

    @property
    def _end(self) -> Spelled:
        """The state after the result: whether it is directly after the anchor."""
        return Spelled.END if self._start - 1 - self._anchor <= self._negative else Spelled.TOLD

    def _next(self, known: str) -> int:
        """The next token of the result, of which some is known; -1 if it is complete.

        Groups are counted from the left, as a tokenizer counts them before and after a point; so a text that splits a
        group differently returns to the grouping.
        """
        table = self._style.table
        if self._negative and not known and self._last != "-":
            return table.minus
        rest = self._plain[len(known) :]
        mark = table.percent if self._percent and not rest else table.point if rest[:1] == "." else None
        if mark is not None:
            return mark
        since = len(known.rpartition(".")[2])
        return table.token_of(rest.partition(".")[0][: table.group - since % table.group])


class Row(NamedTuple):
    """The steps of one text: a value, so the rows of a batch are repeated and reordered like any other list."""

    # the anchor of each step, ascending, and the progress of its result; None if it has none
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

    def begun(self, steps: Iterable[tuple[int, Progress | None]]) -> Row:
        """The row with further steps, whose anchors come after those of all others."""
        found = dict(reversed([*steps]))  # the first of several at one anchor
        return Row((*self.steps, *sorted(found.items(), key=lambda step: step[0])))

    def continued(self, ids: Sequence[int], first: int, start: int) -> tuple[Row, list[Continuation | None]]:
        """What continues the results after each token from the position `start` on, governed by the latest anchor.

        `ids` are the last tokens of the text, from the position `first` on, at most that of `needs`.
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
