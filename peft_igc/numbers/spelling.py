"""The token that continues a result at each position of a text.

In: the text so far, its anchors, and their results as digits. Out: a `Continuation`: the next token of the result, how
much of the result is written, and whether it can be continued at all. Progress is the number of digits since the start
of a number after the anchor: a `123` that is a number of its own is no progress in `123456`, and text before the
anchor never counts. Whether the token is written is decided by the gate, see `mappings.token_interface`.
Try it: `pytest tests/numbers/test_spelling.py`

Shapes: B rows, T positions of this call (the last T of L), L tokens of the text so far, R digits of a result, G digits
of the longest numeric token.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .digits import NUM_CLASSES, PAD, length
from .number_runs import NumberTokens, SeenTokens, latest, shifted, shows
from .token_table import Edge


__all__ = ["ENDS", "Continuation", "Spelled", "continue_result"]


class Spelled(enum.IntEnum):
    """The part of the result that is written at a position. The values index learned vectors: do not reorder."""

    START = 0  # nothing, at the anchor itself
    WAITING = 1  # nothing, after the anchor
    SIGNED = 2  # the minus sign
    MIDDLE = 3  # some digits
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
    complete: Tensor  # [B, T] bool, the result ends at this position


def _token_of(tokens: NumberTokens, group: Tensor) -> Tensor:
    """The token [B, T] of a group of digits [B, T, group], or of its longest prefix that has one; -1 for no digits."""
    weights = group.new_full(group.shape[-1:], NUM_CLASSES).cumprod(0) // NUM_CLASSES  # 1, 11, 121, ..
    return tokens.on(group.device).spelled[(group * weights).sum(-1)].long()


class _Progress(NamedTuple):
    """The text compared with the results at its last T positions, all [B, T]. Indices are relative to the window."""

    numeric: Tensor  # bool, the token is part of a number
    start: Tensor  # int64, index of the first token of that number, or of the latest one before this token
    spelled: Tensor  # int64, digits of that number up to this token; 0 if the token is not numeric
    right: Tensor  # bool, these digits are the first digits of the result
    minus: Tensor  # bool, a minus directly before that number; at other tokens: the token ends in a minus
    joined: Tensor  # bool, a point, comma, colon or unknown token joins that number to one before it


def continue_result(
    tokens: NumberTokens,
    ids: Tensor,
    valid: Tensor,
    anchor: Tensor,
    digits: Tensor,
    sign: Tensor,
    completed_at: Tensor,
    start: int | Tensor = 0,
) -> Continuation:
    """The continuation of the result at each of the last T positions of a text.

    Only a window of the last T + R + 3 tokens is read, so the cost of decoding does not grow with the text.

    Args:
        tokens: The token table.
        ids: [B, L] int64, the text so far or its last tokens, with `EMBEDDED`, `UNSEEN` or `PADDING`.
        valid: [B, L] bool, False for padding.
        anchor: [B, T] int64 in 0..L-1, the latest anchor at or before each position; -1 for none.
        digits: [B, T, R] int64, the result of that anchor, left-aligned; all PAD for none.
        sign: [B, T] int64, 1 is minus.
        completed_at: [B, T] int64, the position before the last T tokens at which that result was first complete; -1
            for none.
        start: Position of the first of these ids in the text.
    """
    new, width = digits.shape[1:]
    # The longest result, one token to recognise a longer number, and two for a sign or a joined number before it.
    window = min(ids.shape[1], new + width + 3)
    seen = tokens.look_up(ids[:, ids.shape[1] - window :], valid[:, ids.shape[1] - window :])
    text = _progress(tokens, seen, digits)
    here = torch.arange(window - new, window, device=ids.device)  # [T]
    first = start + (ids.shape[1] - window)  # position in the text of the window's first token
    origin = anchor - first  # [B, T], index of the anchor in the window, negative if before it
    size, negative = length(digits), sign == 1

    apart = ~text.joined | (text.start - 2 <= origin)  # not joined to a number after the anchor
    going = text.right & (text.minus == negative) & (text.start > origin) & apart
    waiting = (negative | ~text.minus) & (here >= origin)
    active = torch.where(text.numeric, going, waiting) & (anchor >= 0) & (size > 0) & valid[:, ids.shape[1] - new :]
    direct = text.start - 1 - origin <= (text.minus & (text.start - 1 > origin)).long()
    ended = torch.where(direct, int(Spelled.END), int(Spelled.TOLD))
    complete = active & text.numeric & (text.spelled >= size)
    # Complete before this number: in this call (`earlier`) or in a previous one (`completed_at`).
    earlier = latest(F.pad(complete, (window - new, 0)))  # [B, window], 0 also if there is none
    limit = torch.where(text.numeric, text.start, here)  # [B, T]
    last_complete = earlier.gather(1, (limit - 1).clamp(min=0))
    again = (last_complete > origin) & (last_complete >= window - new) & (limit > last_complete)
    again |= (completed_at >= 0) & (completed_at - first < limit)

    begun = torch.where(again, int(Spelled.RESUMED), int(Spelled.MIDDLE))
    begun = torch.where(text.spelled < size, begun, ended)
    unbegun = torch.where(here > origin, int(Spelled.WAITING), int(Spelled.START))
    unbegun = torch.where(text.minus, int(Spelled.SIGNED), torch.where(again, int(Spelled.AGAIN), unbegun))
    state = torch.where(text.numeric, begun, unbegun)

    token = _token_of(tokens, _group_at(digits, text.spelled, tokens.group))
    token = torch.where(negative & ~text.numeric & ~text.minus, tokens.minus, token)
    token, state = torch.where(active, token, -1), torch.where(active, state, int(Spelled.START))
    return Continuation(token, state, active, complete)


def _group_at(digits: Tensor, spelled: Tensor, group: int) -> Tensor:
    """The rest [B, T, group] of the group of digits after the first `spelled` [B, T] of `digits` [B, T, R].

    Groups are counted from the left of the number, so a text that splits a group differently returns to the grouping.
    """
    place = torch.arange(group, device=digits.device)
    at = spelled.unsqueeze(-1) + place  # [B, T, group]
    there = (at < digits.shape[-1]) & (place < (group - spelled % group).unsqueeze(-1))
    return torch.where(there, digits.gather(-1, at.clamp(max=digits.shape[-1] - 1)), PAD)


def _progress(tokens: NumberTokens, seen: SeenTokens, digits: Tensor) -> _Progress:
    """Compares the numbers of a text with the results.

    Args:
        tokens: The token table.
        seen: The window of the text, [B, window] each.
        digits: [B, T, R] int64, the results at its last T tokens. Earlier tokens are compared with the first of them:
            if an older anchor governs those, their number precedes the anchor and cannot be continued.
    """
    new, width = digits.shape[1:]
    rows, window = seen.row.shape
    numeric = seen.size > 0
    opens = numeric & ~(shifted(numeric, 1) & ~seen.spaced)
    start = latest(opens)
    total = seen.size.cumsum(1)
    before = total - seen.size - (total - seen.size).gather(1, start)  # digits of the number before this token

    table = tokens.on(seen.row.device)
    place = torch.arange(table.digits.shape[1], device=seen.row.device)  # [G]
    at = before.unsqueeze(-1) + place  # [B, window, G], places of this token's digits in the number
    row = torch.arange(rows, device=seen.row.device).view(-1, 1, 1)
    governing = (torch.arange(window, device=seen.row.device) - (window - new)).clamp(min=0).view(1, -1, 1)
    wanted = digits[row, governing, at.clamp(0, width - 1)]  # [B, window, G]
    same = (wanted == table.digits[seen.row]) & (at < width)
    wrong = (numeric & ~(same | (place >= seen.size.unsqueeze(-1))).all(-1)).long()
    wrongs = wrong.cumsum(1)
    right = wrongs - (wrongs - wrong).gather(1, start) == 0

    minus = shows(seen.last, Edge.MINUS)
    sign = shows(seen.first, Edge.DOT) | shows(seen.first, Edge.COMMA) | shows(seen.first, Edge.COLON)
    signed = (shifted(minus, 1) & ~seen.spaced).gather(1, start)
    unknown = seen.row == len(tokens.table.edges)  # such as unseen tokens: a number after one may have begun before
    joined = (shifted((sign & shifted(numeric, 1)) | unknown, 1) & ~seen.spaced).gather(1, start)
    spelled = torch.where(numeric, before + seen.size, 0)
    found = (numeric, start, spelled, right, torch.where(numeric, signed, minus), joined)
    return _Progress(*(tensor[:, window - new :] for tensor in found))
