"""The token that continues a result at each position of a text.

In: the text so far, its anchors, and their results as digits. Out: a `Continuation`: the next token of the result, how
much of the result is written, and whether it can be continued at all. Progress is the number of digits since the start
of a number after the anchor: a `123` that is a number of its own is no progress in `123456`, and text before the
anchor never counts. Whether the token is written is decided by the gate, see `mappings.token_interface`.

A decimal is written as its sign, one or more digits, the point, and the digits after it. A point behind a number is
part of it where the result has its point there, and punctuation elsewhere: behind the integer 12, the point of `12.`
ends a sentence, and `12.5` is another number. So with `once` a point or comma behind the result is a place where no
digit may follow, as the end of the result is.
Try it: `pytest tests/numbers/test_spelling.py`

Shapes: B rows, T positions of this call (the last T of L), L tokens of the text so far, R digits of a result, G digits
of the longest numeric token.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .digits import NUM_CLASSES, PAD, length
from .number_runs import NumberTokens, SeenTokens, is_mark, latest, shifted, shows
from .token_table import Edge


__all__ = ["ENDS", "Continuation", "Spelled", "continue_result", "window_of"]


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


class Continuation(NamedTuple):
    """The continuation of the result at each position."""

    token: Tensor  # [B, T] int64, the next token of the result; -1 if it is complete and where not active
    state: Tensor  # [B, T] int64, a `Spelled`; START where not active
    active: Tensor  # [B, T] bool, False in a number other than the result, after a wrong minus, and without a result
    complete: Tensor  # [B, T] bool, the result ends at this position; with `once` another number, too
    again: Tensor  # [B, T] bool, the result was complete before this position and before the number that it is part of


def _token_of(tokens: NumberTokens, group: Tensor) -> Tensor:
    """The token [B, T] of a group of digits [B, T, group], or of its longest prefix that has one; -1 for no digits."""
    weights = group.new_full(group.shape[-1:], NUM_CLASSES).cumprod(0) // NUM_CLASSES  # 1, 11, 121, ..
    return tokens.on(group.device).spelled[(group * weights).sum(-1)].long()


class _Results(NamedTuple):
    """The results of the last T positions as they are written. Indices are relative to the window."""

    digits: Tensor  # [B, T, R] int64, left-aligned, with the zeros of `0.05`
    size: Tensor  # [B, T] int64, number of these digits; 0 if there is nothing to write
    whole: Tensor | None  # [B, T] int64, digits before the point; `size` for an integer. None: all are integers
    negative: Tensor  # [B, T] bool
    origin: Tensor  # [B, T] int64, index of the anchor, negative if it is before the window


class _Pieces(NamedTuple):
    """The tokens of a window as parts of numbers, [B, window] each. Points count only while a decimal is written."""

    size: Tensor  # int64, number of digits
    opens: Tensor  # bool, begins a number
    member: Tensor  # bool, part of a number, or a point that may be
    spaced: Tensor  # bool, a space separates it from the token before
    decimal: Tensor | None  # bool, after the anchor of a decimal; None if there are only integers
    point: Tensor | None  # int64, digits of the token before its point, -1 if it has none; None as above


class _Progress(NamedTuple):
    """The text compared with the results at its last T positions, all [B, T]. Indices are relative to the window."""

    numeric: Tensor  # bool, the token has digits of a number
    point: Tensor | None  # bool, the token is a point and nothing else; None if there are only integers
    start: Tensor  # int64, index of the first token of that number, or of the latest one before this token
    spelled: Tensor  # int64, digits of that number up to this token, with the zero that `.5` lacks; else 0
    pointed: Tensor | None  # bool, that number has a point up to this token; None as above
    going: Tensor  # bool, the number up to this token is a beginning of the result, with its sign and not joined
    signed: Tensor  # bool, a minus directly before that number
    minus: Tensor  # bool, the token ends in a minus
    behind: Tensor  # bool, the token is a point or comma directly behind the whole result; False without `once`


def window_of(new: int, result_digits: int, decimals: bool) -> int:
    """How many of the last tokens of a text `continue_result` reads, for `new` positions and R `result_digits`.

    These are the longest result, with its point, one token to recognise a longer number, two for a sign or a joined
    number before it, and one for a point behind it.
    """
    return new + result_digits + decimals + 4


def continue_result(
    tokens: NumberTokens,
    ids: Tensor,
    valid: Tensor,
    anchor: Tensor,
    digits: Tensor,
    sign: Tensor,
    completed_at: Tensor,
    start: int | Tensor = 0,
    scale: Tensor | None = None,
    once: bool = False,
) -> Continuation:
    """The continuation of the result at each of the last T positions of a text.

    Only the last `window_of` tokens are read, so the cost of decoding does not grow with the text.

    Args:
        tokens: The token table.
        ids: [B, L] int64, the text so far or its last tokens, with `EMBEDDED`, `UNSEEN` or `PADDING`.
        valid: [B, L] bool, False for padding.
        anchor: [B, T] int64 in 0..L-1, the latest anchor at or before each position; -1 for none.
        digits: [B, T, R] int64, the result of that anchor without its point, left-aligned; all PAD for none.
        sign: [B, T] int64, 1 is minus.
        completed_at: [B, T] int64, the position before the last T tokens at which that result was first complete; -1
            for none.
        start: Position of the first of these ids in the text.
        scale: [B, T] int64 of at least 0, digits of that result after the point; None if all results are integers.
            Leading zeros may be absent: 0.05 is the digit 5 with scale 2. A decimal is not written if it has more than
            R digits with them, or if the table has no point.
        once: The first number behind the anchor counts as the result; a point or comma behind the result as its end.
    """
    new, width = digits.shape[1:]
    window = min(ids.shape[1], window_of(new, width, decimals=scale is not None))
    first = start + (ids.shape[1] - window)  # position in the text of the window's first token
    ids, valid = ids[:, ids.shape[1] - window :], valid[:, ids.shape[1] - window :]
    results = _results(tokens, digits, sign, scale, anchor - first)
    text = _progress(tokens, tokens.look_up(ids, valid), valid, results, once)
    here = torch.arange(window - new, window, device=ids.device)  # [T]
    size, negative, origin, going = results.size, results.negative, results.origin, text.going
    inside, leading = text.numeric, None
    if text.point is not None:
        inside = inside | (text.point & going & (text.start < here))
        leading = text.point & going & (text.start == here)  # the point of `.5`, or the end of a sentence
    waiting = (negative | ~text.minus) & (here >= origin)
    active = torch.where(inside, going, waiting) & (anchor >= 0) & (size > 0) & valid[:, window - new :]
    complete = active & inside & (text.spelled >= size)
    if once:
        complete = complete | (inside & ~going & (text.start > origin) & (anchor >= 0))
    behind = text.behind & (text.start > origin)
    limit = torch.where(inside | behind, text.start, here)  # [B, T]
    again = _completed_before(limit, complete, origin, window) | ((completed_at >= 0) & (completed_at - first < limit))

    behind &= ~again & (anchor >= 0) & valid[:, window - new :]
    active |= behind
    state = _state(text, results, inside, behind, leading, again, here)
    token = _next_token(tokens, text, results, inside, leading)
    token, state = torch.where(active & ~behind, token, -1), torch.where(active, state, int(Spelled.START))
    return Continuation(token, state, active, complete, active & again)


def _completed_before(limit: Tensor, complete: Tensor, origin: Tensor, window: int) -> Tensor:
    """[B, T] bool, whether the result was complete in this call, behind its anchor and before an index.

    Args:
        limit: [B, T] int64, the index, in the window.
        complete: [B, T] bool, the last T tokens of the window at which it was.
        origin: [B, T] int64, index of the anchor.
        window: number of tokens of the window.
    """
    since = window - complete.shape[1]
    earlier = latest(F.pad(complete, (since, 0)))  # [B, window], 0 also if there is none
    last = earlier.gather(1, (limit - 1).clamp(min=0))
    return (last > origin) & (last >= since) & (limit > last)


def _results(tokens: NumberTokens, digits: Tensor, sign: Tensor, scale: Tensor | None, origin: Tensor) -> _Results:
    """The results as they are written; arguments as in `continue_result`, `origin` as in `_Results`."""
    size, negative = length(digits), sign == 1
    if scale is None:
        return _Results(digits, size, None, negative, origin)
    decimal, width = (scale > 0) & (size > 0), digits.shape[-1]
    zeros = torch.where(decimal, scale + 1 - size, 0).clamp(min=0)  # [B, T], before the first digit
    at = torch.arange(width, device=digits.device) - zeros.unsqueeze(-1)  # [B, T, R]
    digits = torch.where(at < 0, 0, digits.gather(-1, at.clamp(min=0)))
    possible = (size + zeros <= width) & (tokens.point is not None)
    size = torch.where(decimal & ~possible, 0, size + zeros)
    return _Results(digits, size, torch.where(decimal, size - scale, size), negative, origin)


def _state(
    text: _Progress,
    results: _Results,
    inside: Tensor,
    behind: Tensor,
    leading: Tensor | None,
    again: Tensor,
    here: Tensor,
) -> Tensor:
    """The `Spelled` of each position, as if all were active.

    Args:
        text: The text.
        results: The results.
        inside: [B, T] bool, the token is part of a number.
        behind: [B, T] bool, the token is a point or comma at which the result has ended.
        leading: [B, T] bool, the token is a point that a number may begin with; None if there are only integers.
        again: [B, T] bool, the result is complete before this number.
        here: [T] int64, indices of the positions.
    """
    origin = results.origin
    direct = text.start - 1 - origin <= (text.signed & (text.start - 1 > origin)).long()
    ended = torch.where(direct, int(Spelled.END), int(Spelled.TOLD))
    begun = torch.where(again, int(Spelled.RESUMED), int(Spelled.MIDDLE))
    begun = torch.where((text.spelled < results.size) & ~behind, begun, ended)
    unbegun = torch.where(here > origin, int(Spelled.WAITING), int(Spelled.START))
    signed = text.minus if leading is None else text.minus | (leading & text.signed)
    unbegun = torch.where(signed, int(Spelled.SIGNED), torch.where(again, int(Spelled.AGAIN), unbegun))
    return torch.where(inside | behind, begun, unbegun)


def _next_token(
    tokens: NumberTokens, text: _Progress, results: _Results, inside: Tensor, leading: Tensor | None
) -> Tensor:
    """The next token of each result [B, T], -1 if it is complete; arguments as in `_state`."""
    unsigned = results.negative & ~inside & ~text.minus
    if text.pointed is None or leading is None or results.whole is None:
        token = _token_of(tokens, _group_at(results.digits, text.spelled, 0, results.size, tokens.group))
        return torch.where(unsigned, tokens.minus, token)
    begun = inside | leading
    spelled, pointed = torch.where(begun, text.spelled, 0), text.pointed & begun
    since, until = torch.where(pointed, results.whole, 0), torch.where(pointed, results.size, results.whole)
    token = _token_of(tokens, _group_at(results.digits, spelled, since, until, tokens.group))
    if tokens.point is not None:
        due = begun & ~pointed & (spelled >= results.whole) & (results.whole < results.size)
        token = torch.where(due, tokens.point, token)
    return torch.where(unsigned & ~leading, tokens.minus, token)


def _group_at(digits: Tensor, spelled: Tensor, since: Tensor | int, until: Tensor, group: int) -> Tensor:
    """The rest [B, T, group] of the group of digits after the first `spelled` [B, T] of `digits` [B, T, R].

    Groups are counted from the left, from digit `since` [B, T] on, as a tokenizer counts them before and after a
    point; so a text that splits a group differently returns to the grouping. No group reaches digit `until` [B, T].
    """
    place = torch.arange(group, device=digits.device)
    at = spelled.unsqueeze(-1) + place  # [B, T, group]
    there = (at < until.unsqueeze(-1)) & (place < (group - (spelled - since) % group).unsqueeze(-1))
    return torch.where(there, digits.gather(-1, at.clamp(max=digits.shape[-1] - 1)), PAD)


def _progress(tokens: NumberTokens, seen: SeenTokens, valid: Tensor, results: _Results, once: bool) -> _Progress:
    """Compares the numbers of a text with the results.

    Args:
        tokens: The token table.
        seen: The window of the text, [B, window] each.
        valid: [B, window] bool, False for padding.
        results: The results at its last T tokens. Earlier tokens are compared with the first of them: if an older
            anchor governs those, their number precedes the anchor and cannot be continued.
        once: As in `continue_result`.
    """
    new, width = results.digits.shape[1:]
    rows, window = seen.row.shape
    at_row = torch.arange(rows, device=seen.row.device).view(-1, 1)
    governing = (torch.arange(window, device=seen.row.device) - (window - new)).clamp(min=0)
    pieces = _pieces(tokens, seen, valid, results, (at_row, governing))
    size, numeric, start = pieces.size, pieces.size > 0, latest(pieces.opens)
    total = size.cumsum(1)
    before = total - size - (total - size).gather(1, start)  # digits of the number before this token
    if pieces.point is not None:
        before = before + (pieces.opens & (pieces.point == 0)).long().gather(1, start)  # the zero that `.5` lacks

    table = tokens.on(seen.row.device)
    place = torch.arange(table.digits.shape[1], device=seen.row.device)  # [G]
    at = before.unsqueeze(-1) + place  # [B, window, G], places of this token's digits in the number
    wanted = results.digits[at_row[..., None], governing[:, None], at.clamp(0, width - 1)]  # [B, window, G]
    same = (wanted == table.digits[seen.row]) & (at < width)
    wrong = numeric & ~(same | (place >= size.unsqueeze(-1))).all(-1)
    point = pointed = None
    if pieces.point is not None:
        misplaced, pointed = _points(pieces, seen, start, before, results, (at_row, governing))
        wrong, point = wrong | misplaced, (pieces.point >= 0) & ~numeric
    wrongs = wrong.long().cumsum(1)
    right = wrongs - (wrongs - wrong.long()).gather(1, start) == 0

    minus = shows(seen.last, Edge.MINUS)
    sign = is_mark(seen) | shows(seen.first, Edge.COLON)
    signed = (shifted(minus, 1) & ~pieces.spaced).gather(1, start)
    unknown = seen.row == len(tokens.table.edges)  # such as unseen tokens: a number after one may have begun before
    # A point, comma, colon or unknown token joins the number to one before it.
    joined = (shifted((sign & shifted(pieces.member, 1)) | unknown, 1) & ~pieces.spaced).gather(1, start)
    spelled = torch.where(pieces.member, before + size, 0)
    whole, origin, negative = (x[at_row, governing] for x in (results.size, results.origin, results.negative))
    apart = ~joined | (start - 2 <= origin)  # not joined to a number after the anchor
    going = right & (signed == negative) & (start > origin) & apart
    behind = torch.zeros_like(numeric)
    if once:
        behind = shifted(going & numeric & (whole > 0) & (spelled >= whole), 1) & is_mark(seen)
    fields = (numeric, point, start, spelled, pointed, going, signed, minus, behind)
    last: Any = [None if field is None else field[:, window - new :] for field in fields]
    return _Progress(*last)


def _pieces(
    tokens: NumberTokens, seen: SeenTokens, valid: Tensor, results: _Results, governing: tuple[Tensor, Tensor]
) -> _Pieces:
    """The tokens of a window as parts of numbers.

    Args:
        tokens, seen, valid, results: As in `_progress`.
        governing: Indices [B, 1] and [window] of the result that each token is compared with.
    """
    if results.whole is None:
        numeric = seen.size > 0
        return _Pieces(seen.size, numeric & ~(shifted(numeric, 1) & ~seen.spaced), numeric, seen.spaced, None, None)
    table, place = tokens.on(seen.row.device), torch.arange(seen.row.shape[1], device=seen.row.device)
    decimal = (results.whole < results.size)[governing] & (place > results.origin[governing]) & valid
    point = torch.where(decimal, table.point[seen.row].long(), -1)
    size = seen.size + torch.where(point >= 0, table.beside[seen.row], 0)
    spaced = seen.spaced | ((point >= 0) & table.apart[seen.row])
    member = (size > 0) | (point >= 0)
    return _Pieces(size, member & ~(shifted(member, 1) & ~spaced), member, spaced, decimal, point)


def _points(
    pieces: _Pieces,
    seen: SeenTokens,
    start: Tensor,
    before: Tensor,
    results: _Results,
    governing: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """Compares the points of numbers with those of the decimals.

    Args:
        pieces, seen, results, governing: As in `_pieces`.
        start: [B, window] int64, index of the first token of the number.
        before: [B, window] int64, digits of the number before each token.

    Returns:
        Where a token has a point in another place than the decimal, or lacks it, and where the number has a point up
        to this token; [B, window] bool each.
    """
    assert pieces.point is not None
    assert pieces.decimal is not None
    assert results.whole is not None
    has = pieces.point >= 0
    points = has.long().cumsum(1)
    earlier = points - has.long() - (points - has.long()).gather(1, start)  # in this number, before this token
    whole, leading = results.whole[governing], pieces.opens & (pieces.point == 0)
    in_place = (earlier == 0) & (before + pieces.point == whole)
    in_place &= ~leading | (results.digits[..., 0][governing] == 0)  # `.5` is 0.5, and not 7.5
    without = (earlier == 0) & (before + pieces.size > whole)
    # A token that ends in a point but is none, such as `=.`: the number behind it has lost its first digits.
    loose = pieces.opens & ~pieces.spaced & shifted(shows(seen.last, Edge.DOT) & pieces.decimal & ~has, 1)
    wrong = (pieces.member & pieces.decimal & torch.where(has, ~in_place, without)) | loose
    return wrong, earlier + has.long() > 0
