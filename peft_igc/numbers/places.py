"""Finds the numbers of a text in its token ids, and the places that the token interface reads, on the host.

In: the ids of a text as a list, and a `TokenTable`. Out: `Run`s, every number with its digits at any length, and
`Places`: one for each number and one for each other token. A number that touches a decimal point, a letter, `%`, an
exponent or an unknown separator is broken: it is one place, but cannot be an operand. Signs, and which numbers are
operands, are not decided here. Try it: `pytest tests/numbers/test_places.py`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .token_table import CLOSE, PADDING, STOP, UNSEEN, Edge, TokenTable


__all__ = ["LEAD", "Places", "Run", "number_runs", "places_of"]

LEAD = 64  # tokens before a context that are searched for the start of a number or sentence
_BREAKS = frozenset({Edge.BREAK, Edge.LETTER})
_UNKNOWN = Edge.BREAK | Edge.BREAK << 4  # the edges of an id outside the table
_MOST_LISTED = 2  # tokens before a list number: a space and `(`


class Run(NamedTuple):
    """A number of a text: its first and last token, and its digits without leading zeros; None if it is broken."""

    first: int
    last: int
    digits: str | None


class Places(NamedTuple):
    """The places that one step reads, in the order of the text; the last one is its anchor.

    Attributes:
        at: the token of each place, of a number its first one.
        sentence: the index of its sentence, from 0.
        numbers: the runs that begin at a place, by place.
    """

    at: list[int]
    sentence: list[int]
    numbers: dict[int, Run]


class _Tokens:
    """The tokens of a text with what the table says of them; beyond its ends are boundaries."""

    def __init__(self, table: TokenTable, ids: Sequence[int]) -> None:
        known, size = table.edges, len(table.edges)
        edges = [known[one] if 0 <= one < size else 0 if one == PADDING else _UNKNOWN for one in ids]
        self.first = [edge & 7 for edge in edges] + [0, 0]
        self.last = [edge >> 4 & 7 for edge in edges] + [0, 0]
        self.stop = [bool(edge & STOP) for edge in edges] + [False, False]
        self.close = [bool(edge & CLOSE) for edge in edges]
        digits, spaced = table.digits, table.spaced
        self.numeric = {at: digits[one] for at, one in enumerate(ids) if one in digits}
        self.spaced = {at for at in self.numeric if ids[at] in spaced}

    def touches(self, at: int) -> bool:
        """Whether the token is numeric and touches the one before it."""
        return at in self.numeric and at not in self.spaced

    def is_between(self, at: int) -> bool:
        """Whether a token touches digits on both sides."""
        return at - 1 in self.numeric and self.touches(at + 1)

    def is_comma(self, at: int) -> bool:
        """Whether a token is a comma that may separate thousands."""
        return self.first[at] == self.last[at] == Edge.COMMA and self.is_between(at)

    def breaks(self, at: int) -> bool:
        """Whether what touches a numeric token makes its number no integer."""
        if at not in self.spaced and at and self._breaks_before(at):
            return True
        right, beyond = self.first[at + 1], self.first[at + 2]
        if right in _BREAKS:
            return not self._exclaims(at)
        if right == Edge.DOT and (beyond in _BREAKS or beyond == Edge.DIGIT):
            return True
        return self._is_joint(at + 1) or (self._is_hyphen(at + 1) and beyond in _BREAKS)

    def _breaks_before(self, at: int) -> bool:
        left = self.last[at - 1]
        hyphen = at > 1 and self._is_hyphen(at - 1) and self.last[at - 2] in _BREAKS  # `x-5`
        return left in _BREAKS or left == Edge.DOT or hyphen or self._is_joint(at - 1)

    def _is_hyphen(self, at: int) -> bool:
        return self.first[at] == self.last[at] == Edge.MINUS

    def _is_joint(self, at: int) -> bool:
        """Whether a token joins two numbers to something else: `10:30`, `2**8`, but not a line break: `3!\\n5`."""
        joins = self.first[at] == Edge.COLON or (self.first[at] in _BREAKS and not self.stop[at])
        return joins and self.is_between(at)

    def _exclaims(self, at: int) -> bool:
        """Whether a sign of exclamation follows that is no factorial: `91 minus 37!`, but not `5!`."""
        long = len(self.numeric[at]) > 1 or (at - 1 in self.numeric and at not in self.spaced)
        return long and self._is_mark(at + 1) and (self.first[at + 2] == Edge.BOUNDARY or self._is_mark(at + 2))

    def _is_mark(self, at: int) -> bool:
        return self.first[at] in _BREAKS and self.stop[at] and self.last[at] == Edge.BOUNDARY


def number_runs(table: TokenTable, ids: Sequence[int]) -> list[Run]:
    """All numbers of a text.

    Args:
        table: The token table.
        ids: Any integers, or `EMBEDDED`, `UNSEEN` or `PADDING`. A stretch of `UNSEEN` counts as one broken number.

    Returns:
        The runs in order. `007` has the digits `7`, `000` has `0`.
    """
    return _runs(_Tokens(table, ids), ids)


def _runs(tokens: _Tokens, ids: Sequence[int]) -> list[Run]:
    found, end = [], -1
    for at in tokens.numeric:
        if at > end:
            end, groups = _stretch(tokens, at)
            inner = (one for one in range(at, end + 1) if one in tokens.numeric)
            wrong = not _are_thousands(groups) or any(map(tokens.breaks, inner))
            found.append(Run(at, end, None if wrong else "".join(groups).lstrip("0") or "0"))
    unseen = [at for at, one in enumerate(ids) if one == UNSEEN]
    if unseen:
        ends = [at for at in unseen if at + 1 == len(ids) or ids[at + 1] != UNSEEN]
        begins = [at for at in unseen if at == 0 or ids[at - 1] != UNSEEN]
        found = sorted(found + [Run(first, last, None) for first, last in zip(begins, ends, strict=True)])
    return found


def _stretch(tokens: _Tokens, at: int) -> tuple[int, list[str]]:
    """The last token of the run that begins at a token, and its groups of digits between commas."""
    groups = [tokens.numeric[at]]
    while True:
        if tokens.touches(at + 1):
            at += 1
            groups[-1] += tokens.numeric[at]
        elif at + 1 < len(tokens.close) and tokens.is_comma(at + 1):
            at += 2
            groups.append(tokens.numeric[at])
        else:
            return at, groups


def _are_thousands(groups: Sequence[str]) -> bool:
    """Whether groups of digits that commas separate are thousands: `1,234`, but not `12,34` or `0,123`."""
    if len(groups) == 1:
        return True
    return len(groups[0]) < 4 and groups[0][0] != "0" and all(len(group) == 3 for group in groups[1:])


def places_of(table: TokenTable, ids: Sequence[int], since: int, anchor: int, most: int) -> Places:
    """The last `most` places up to an anchor.

    Args:
        table: The token table.
        ids: The ids of the row up to the anchor or beyond.
        since: The first token that the step reads. A number that begins before it is not read.
        anchor: The last one.
        most: The largest number of places.
    """
    begin = max(since - LEAD, 0)
    window = ids[begin : anchor + 1]
    tokens = _Tokens(table, window)
    runs = _runs(tokens, window)
    inside = {at for run in runs for at in range(run.first + 1, run.last + 1)}
    at = [one for one in range(since - begin, len(window)) if one not in inside and window[one] != PADDING]
    at = at[max(len(at) - most, 0) :]
    if not at or at[-1] != len(window) - 1:  # the anchor is a place even if it is no text
        at = [*at[max(len(at) - most + 1, 0) :], len(window) - 1]
    sentence = _sentences(tokens, window, runs, since - begin)
    first = {run.first: run for run in runs}
    numbers = {place: first[one] for place, one in enumerate(at) if one in first}
    moved = {place: Run(run.first + begin, run.last + begin, run.digits) for place, run in numbers.items()}
    return Places([one + begin for one in at], [sentence[one] for one in at], moved)


def _sentences(tokens: _Tokens, ids: Sequence[int], runs: Sequence[Run], since: int) -> list[int]:
    """The index of the sentence of each token.

    A sentence ends at `.`, `?`, `!`, `:`, `;`, the end of a line, a special token, or a list number such as `2)`.
    """
    ends = {run.last + 1: run.first for run in runs if run.first >= since}
    found, index, start, closing = [], 0, since, False
    for at in range(len(ids)):
        if at < since or ids[at] == PADDING:
            found.append(index)
            start, closing = at + 1, False
            continue
        found.append(index)
        close = tokens.close[at]
        listed = close and not closing and at in ends and ends[at] - start <= _MOST_LISTED
        closing = close
        stop = tokens.stop[at] and not (tokens.first[at] in (Edge.DOT, Edge.COLON) and tokens.touches(at + 1))
        index += stop + listed
        if stop:
            start = at + 1
    return found
