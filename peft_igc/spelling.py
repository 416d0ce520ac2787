"""Writing a number as this tokenizer writes it: the tokens of a result, and the one that comes next in a text.

In: the text so far, its anchors and their results as digits. Out: at every position the token that continues the
result there (`continue_result`), or all of its tokens (`spell`). Progress is counted in digits spelled since the start
of a number that begins behind the anchor: an echoed `123` in a number of its own is no progress in `123456`, and text
before the anchor never counts. Whether anything is written at all is the gate's to decide, not this module's.
Try it: `pytest tests/test_spelling.py`.

Shapes: B rows, L tokens of the text, T positions of this call (the last T of L), R digits of a result, k digits per
group, M tokens looked at.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .digits import PAD, length
from .runs import NumberTokens, SeenTokens, latest, shifted, shows
from .tokens import Edge


__all__ = ["ENDS", "Continuation", "State", "continue_result", "spell"]


class State(enum.IntEnum):
    """How much of the result stands in the text, and whether other text stands before it."""

    START = 0  # nothing, and the text ends at the anchor
    WAITING = 1  # nothing, after other text
    SIGNED = 2  # its minus sign
    MIDDLE = 3  # some of its digits
    AGAIN = 4  # nothing, but it stands in the text before
    RESUMED = 5  # some of its digits, but it stands in the text before
    END = 6  # all of it, directly behind the anchor
    TOLD = 7  # all of it, after other text


ENDS = (State.END, State.TOLD)


class Continuation(NamedTuple):
    """What comes next at each position."""

    token: Tensor  # [B, T] int64, the token that continues the result here; -1 at its end and where not active
    state: Tensor  # [B, T] int64, a `State`; START where not active
    active: Tensor  # [B, T] bool, False inside or behind a number that is not the result, or where nothing can follow
    complete: Tensor  # [B, T] bool, the result ends here


def spell(tokens: NumberTokens, digits: Tensor, sign: Tensor) -> Tensor:
    """The tokens of numbers.

    Args:
        tokens: what the tokens mean.
        digits: [..., R] int64, left-aligned.
        sign: [...] int64, 1 for a minus.

    Returns:
        [..., R + 1] int64, -1 behind the last token; nothing but -1 for a number without digits.
    """
    width = digits.shape[-1]
    groups = F.pad(digits, (0, -width % tokens.group), value=PAD).unflatten(-1, (-1, tokens.group))  # [..., g, k]
    pieces = []
    for _ in range(tokens.group):  # a group takes several tokens only where the vocabulary lacks it
        token = _token_of(tokens, groups)
        pieces.append(token)
        groups = _without(groups, _digits_of(tokens, token))
    minus = torch.where((sign == 1) & (digits[..., 0] != PAD), tokens.minus, -1).unsqueeze(-1)
    line = torch.cat([minus, torch.stack(pieces, -1).flatten(-2)], -1)  # [..., 1 + g * k], with gaps
    written = line >= 0
    to = torch.where(written, written.long().cumsum(-1) - 1, width + 1)
    closed = line.new_full((*line.shape[:-1], width + 2), -1)
    return closed.scatter(-1, to, line)[..., : width + 1]


def _token_of(tokens: NumberTokens, group: Tensor) -> Tensor:
    """The token of a group of digits [..., k], left-aligned, or of its longest beginning that has one; -1 for none."""
    value = torch.zeros_like(group[..., 0], dtype=torch.int64)
    offset = torch.zeros_like(value)
    for place in range(tokens.group):
        digit = group[..., place]
        value = torch.where(digit < PAD, 10 * value + digit, value)
        offset += torch.where(digit < PAD, 10**place, 0)
    empty = group[..., 0] == PAD
    spelled = tokens.on(group.device).spelled
    return torch.where(empty, -1, spelled[torch.where(empty, 0, value + offset - 1)].long())


def _digits_of(tokens: NumberTokens, token: Tensor) -> Tensor:
    """How many digits a token of `_token_of` spells; 0 for -1."""
    return torch.where(token >= 0, tokens.on(token.device).size[token], 0).long()


def _without(group: Tensor, count: Tensor) -> Tensor:
    """A group [..., k] without its first `count` [...] digits."""
    size = group.shape[-1]
    at = count.unsqueeze(-1) + torch.arange(size, device=group.device)
    return torch.where(at < size, group.gather(-1, at.clamp(max=size - 1)), PAD)


class _Progress(NamedTuple):
    """How the text stands to the results: at each of its last T positions, counted from the M-th last; all [B, T]."""

    numeric: Tensor  # bool, a digit stands here
    start: Tensor  # int64, first token of the number that this position belongs to
    spelled: Tensor  # int64, digits of that number up to here; 0 where there is none
    right: Tensor  # bool, they are the result's first digits
    minus: Tensor  # bool, the token before that number, or this one where there is none, ends in a minus
    joined: Tensor  # bool, a point, comma or colon joins that number to one before it


def continue_result(
    tokens: NumberTokens, ids: Tensor, valid: Tensor, anchor: Tensor, digits: Tensor, sign: Tensor, told: Tensor
) -> Continuation:
    """What continues the result at each of the last T positions of a text.

    Only the last T + R + 3 tokens are looked at, so a step of decoding does not cost more in a longer text.

    Args:
        tokens: what the tokens mean.
        ids: [B, L] int64, the text so far; -1 where embeddings were given instead.
        valid: [B, L] bool, False for padding.
        anchor: [B, T] int64, the latest anchor at or before each position, in 0..L-1; -1: none.
        digits: [B, T, R] int64, that anchor's result, left-aligned; all PAD: none.
        sign: [B, T] int64, 1 for a minus.
        told: [B, T] int64, where that result first stood complete before the last T tokens; -1: nowhere.
    """
    new, width = digits.shape[1:]
    # A result's tokens, one more to see that a number is longer, and before them its sign or what joins it to another.
    window = min(ids.shape[1], new + width + 3)
    seen = tokens.look_up(ids[:, ids.shape[1] - window :], valid[:, ids.shape[1] - window :])
    text = _progress(tokens, seen, digits)
    here = torch.arange(window - new, window, device=ids.device)  # [T]
    governed = anchor - (ids.shape[1] - window)  # where the anchor stands in the window, below 0 if before it
    size, negative = length(digits), sign == 1

    apart = ~text.joined | (text.start - 2 <= governed)  # a number before the anchor is not joined to the answer
    going = text.right & (text.minus == negative) & (text.start > governed) & apart
    waiting = (negative | ~text.minus) & (here >= governed)
    active = torch.where(text.numeric, going, waiting) & (anchor >= 0) & (size > 0) & valid[:, ids.shape[1] - new :]
    direct = text.start - 1 - governed <= (text.minus & (text.start - 1 > governed)).long()
    ended = torch.where(direct, int(State.END), int(State.TOLD))
    complete = active & text.numeric & (text.spelled >= size)
    # Told before: in this call, or in an earlier one; but not by the number that stands here.
    earlier = latest(F.pad(complete, (window - new, 0)))  # [B, M]; 0 also where there is none
    limit = torch.where(text.numeric, text.start, here)  # [B, T]
    seen_here = earlier.gather(1, (limit - 1).clamp(min=0))
    again = (seen_here > governed) & (seen_here >= window - new) & (limit > seen_here)
    again |= (told >= 0) & (told - (ids.shape[1] - window) < limit)

    begun = torch.where(again, int(State.RESUMED), int(State.MIDDLE))
    begun = torch.where(text.spelled < size, begun, ended)
    silent = torch.where(here > governed, int(State.WAITING), int(State.START))
    silent = torch.where(text.minus, int(State.SIGNED), torch.where(again, int(State.AGAIN), silent))
    state = torch.where(text.numeric, begun, silent)

    token = _token_of(tokens, _group_at(digits, text.spelled, tokens.group))
    token = torch.where(negative & ~text.numeric & ~text.minus, tokens.minus, token)
    token, state = torch.where(active, token, -1), torch.where(active, state, int(State.START))
    return Continuation(token, state, active, complete)


def _group_at(digits: Tensor, spelled: Tensor, group: int) -> Tensor:
    """The rest [B, T, k] of the group of digits that follows the first `spelled` [B, T] of `digits` [B, T, R].

    Groups are counted from the left of the number, so that a text which splits one otherwise finds back to them.
    """
    place = torch.arange(group, device=digits.device)
    at = spelled.unsqueeze(-1) + place  # [B, T, k]
    there = (at < digits.shape[-1]) & (place < (group - spelled % group).unsqueeze(-1))
    return torch.where(there, digits.gather(-1, at.clamp(max=digits.shape[-1] - 1)), PAD)


def _progress(tokens: NumberTokens, seen: SeenTokens, digits: Tensor) -> _Progress:
    """Compares the numbers of a text with results.

    Args:
        tokens: what the tokens mean.
        seen: the text, [B, M] each.
        digits: [B, T, R] int64, the results that govern its last T tokens; the first one of them counts for what
            stands before those. An older anchor may govern that, but then no number goes on from there.
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
    at = before.unsqueeze(-1) + place  # [B, M, G]: places of this token's digits in the number
    row = torch.arange(rows, device=seen.row.device).view(-1, 1, 1)
    governing = (torch.arange(window, device=seen.row.device) - (window - new)).clamp(min=0).view(1, -1, 1)
    wanted = digits[row, governing, at.clamp(0, width - 1)]  # [B, M, G]
    same = (wanted == table.digits[seen.row]) & (at < width)
    wrong = (numeric & ~(same | (place >= seen.size.unsqueeze(-1))).all(-1)).long()
    wrongs = wrong.cumsum(1)
    right = wrongs - (wrongs - wrong).gather(1, start) == 0

    minus = shows(seen.last, Edge.MINUS)
    sign = shows(seen.first, Edge.DOT) | shows(seen.first, Edge.COMMA) | shows(seen.first, Edge.COLON)
    signed = (shifted(minus, 1) & ~seen.spaced).gather(1, start)
    joined = (shifted(sign & shifted(numeric, 1), 1) & ~seen.spaced).gather(1, start)
    spelled = torch.where(numeric, before + seen.size, 0)
    found = (numeric, start, spelled, right, torch.where(numeric, signed, minus), joined)
    return _Progress(*(tensor[:, window - new :] for tensor in found))
