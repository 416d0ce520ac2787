"""Reading numbers off a text's tokens: which of them spell integers, and which digits.

In: ids [N, L] and what a `TokenTable` says about them. Out: `Runs`, every number of the text with its digits, exact at
any length, by tensor operations only: no loop over rows or tokens, no synchronisation with the host.
A number that touches a decimal point, a letter, `%`, an exponent or an unknown separator is a *broken* run: it is
found, so that it counts as one thing, but it is no operand. Whether a number is an operand of anything, and which sign
it has, is not decided here. Try it: `pytest tests/test_runs.py`.

Shapes: N rows, L tokens, V ids of the table, G digits of the longest numeric token, W width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .digits import PAD
from .tokens import CLOSE, STOP, Edge, TokenTable


__all__ = [
    "NumberTokens",
    "Runs",
    "SeenTokens",
    "TableTensors",
    "find_runs",
    "latest",
    "numbers_aside",
    "sentences",
    "shifted",
    "shows",
]


_WORDS_APART = 2  # words behind which a number no longer belongs to an expression


class TableTensors(NamedTuple):
    """A token table on one device. Row V stands for every id that is not in the table: no number, and breaks one."""

    digits: Tensor  # [V + 1, G] int8, left-aligned, 0..9 or PAD
    size: Tensor  # [V + 1] int16, digits of a numeric token; 0: not numeric
    spaced: Tensor  # [V + 1] bool
    first: Tensor  # [V + 1] int8, an `Edge`; BREAK also for a letter
    last: Tensor  # [V + 1] int8, an `Edge`; BREAK also for a letter
    stop: Tensor  # [V + 1] bool, a sentence ends here
    close: Tensor  # [V + 1] bool, a closing bracket
    word: Tensor  # [V + 1] bool, begins or ends with a letter
    begins_word: Tensor  # [V + 1] bool, a space or a bracket and letters
    spelled: Tensor  # [10 + 100 + .. + 10**group] int32, the token that spells a group of digits; see `on`


class SeenTokens(NamedTuple):
    """What a text shows, token by token. Invalid positions are boundaries, as a text's end is."""

    row: Tensor  # [N, L] int64, row of the table
    size: Tensor  # [N, L] int64, digits of a numeric token, else 0
    spaced: Tensor  # [N, L] bool, a numeric token that begins with a space
    first: Tensor  # [N, L] int8, an `Edge`
    last: Tensor  # [N, L] int8, an `Edge`
    stop: Tensor  # [N, L] bool
    close: Tensor  # [N, L] bool
    word: Tensor  # [N, L] bool
    begins_word: Tensor  # [N, L] bool


class NumberTokens:
    """A `TokenTable` as tensors, one copy per device.

    Neither a module nor a buffer, so it is not saved, not cast to another type and never on the meta device by
    accident; copies and pickles hold the table. Call `on(device)` once before a graph is compiled for that device:
    a compiled graph takes tensors along, but keeps none.

    Args:
        table: what the tokens mean.
    """

    def __init__(self, table: TokenTable) -> None:
        self.table = table
        self.size = len(table.edges)  # V
        self.group = table.group
        self.minus = table.minus
        self._made: dict[torch.device, TableTensors] = {}
        self.on(torch.device("cpu"))

    def __reduce__(self) -> tuple[type[NumberTokens], tuple[TokenTable]]:
        return NumberTokens, (self.table,)

    def on(self, device: torch.device) -> TableTensors:
        """The table's tensors on a device.

        `spelled` is indexed by the value of a group of digits, plus 10 + 100 + .. for every shorter length. Where the
        vocabulary has no token for a group, the entry is the token of the longest beginning of it that has one.
        """
        # Under a `FakeTensorMode` a real tensor may not take part, and a fake one must not stay.
        fake = type(torch.empty(0, device="cpu")) is not Tensor
        if not fake and device in self._made:
            return self._made[device]
        if torch.compiler.is_compiling():
            return _moved(self._made[torch.device("cpu")], device)
        made = _moved(_tensors_of(self.table), device)
        if not fake:
            self._made[device] = made
        return made

    def look_up(self, ids: Tensor, valid: Tensor) -> SeenTokens:
        """What each token of a text is.

        Args:
            ids: [N, L] int64, any values: those outside of the table break numbers, as -1 does.
            valid: [N, L] bool, False for padding and for text that is not to be seen.
        """
        table = self.on(ids.device)
        row = torch.where((ids >= 0) & (ids < self.size), ids, self.size)
        return SeenTokens(
            row=row,
            size=torch.where(valid, table.size[row], 0).long(),
            spaced=table.spaced[row] & valid,
            first=torch.where(valid, table.first[row], int(Edge.BOUNDARY)),
            last=torch.where(valid, table.last[row], int(Edge.BOUNDARY)),
            stop=table.stop[row] & valid,
            close=table.close[row] & valid,
            word=table.word[row] & valid,
            begins_word=table.begins_word[row] & valid,
        )


def _moved(tensors: TableTensors, device: torch.device) -> TableTensors:
    """The same on another device."""
    return TableTensors(*(tensor.to(device) for tensor in tensors))


def _tensors_of(table: TokenTable) -> TableTensors:
    """The table's tensors on the CPU, whatever the default device is."""
    rows = len(table.edges) + 1
    longest = max(map(len, table.digits.values()))
    digits = torch.full((rows, longest), PAD, dtype=torch.int8, device="cpu")
    size = torch.zeros(rows, dtype=torch.int16, device="cpu")
    spaced = torch.zeros(rows, dtype=torch.bool, device="cpu")
    edges = torch.tensor([*table.edges, Edge.BREAK | Edge.BREAK << 4], dtype=torch.uint8, device="cpu")
    ids = torch.tensor(list(table.digits), device="cpu")
    texts = [[int(digit) for digit in text] + [PAD] * (longest - len(text)) for text in table.digits.values()]
    digits[ids] = torch.tensor(texts, dtype=torch.int8, device="cpu")
    size[ids] = torch.tensor([len(text) for text in table.digits.values()], dtype=torch.int16, device="cpu")
    if table.spaced:
        spaced[torch.tensor(list(table.spaced), device="cpu")] = True
    first, last = (edges & 7).to(torch.int8), (edges >> 4 & 7).to(torch.int8)
    letter_first, letter_last = shows(first, Edge.LETTER), shows(last, Edge.LETTER)
    return TableTensors(
        digits=digits,
        size=size,
        spaced=spaced,
        first=first.masked_fill(letter_first, int(Edge.BREAK)),
        last=last.masked_fill(letter_last, int(Edge.BREAK)),
        stop=(edges & STOP) > 0,
        close=(edges & CLOSE) > 0,
        word=letter_first | letter_last,
        begins_word=letter_last & shows(first, Edge.BOUNDARY),
        spelled=_spelled(table),
    )


def _spelled(table: TokenTable) -> Tensor:
    """Which token spells each group of 1..`group` digits, or the longest beginning of it that is one token."""
    ids = {text: token for token, text in table.digits.items() if token not in table.spaced}
    entries: list[int] = []
    for length in range(1, table.group + 1):
        for value in range(10**length):
            text = f"{value:0{length}}"
            entries.append(next(ids[text[:n]] for n in range(length, 0, -1) if text[:n] in ids))
    return torch.tensor(entries, dtype=torch.int32, device="cpu")


def shows(edges: Tensor, edge: Edge) -> Tensor:
    """Which of `edges` are this one, as bool of the same shape."""
    return edges == int(edge)  # as an enum, torch.compile takes it for unequal to any tensor (torch 2.13.0)


def shifted(x: Tensor, by: int) -> Tensor:
    """What stands `by` positions before each one (behind it, if negative), [N, L] of any type; 0 beyond the ends."""
    length = x.shape[1]
    if by > 0:
        return F.pad(x, (by, 0))[:, :length]
    return F.pad(x, (0, -by))[:, -by:]


def latest(at: Tensor) -> Tensor:
    """The latest True position of `at` [N, L] at or before each one, as [N, L] int64; 0 where there is none."""
    if at.shape[1] == 0:
        return at.long()
    place = torch.arange(at.shape[1], device=at.device)
    return torch.where(at, place, 0).cummax(1).values


class Runs(NamedTuple):
    """The numbers of a text."""

    number: Tensor  # [N, L] bool, first token of an operand candidate
    broken: Tensor  # [N, L] bool, first token of a broken run
    inside: Tensor  # [N, L] bool, the other tokens of runs of both kinds, thousands separators included
    digits: Tensor  # [N, L, W] int64, 0..9 or PAD, the candidate that begins here, left-aligned; PAD elsewhere


def find_runs(tokens: NumberTokens, ids: Tensor, valid: Tensor, width: int) -> Runs:
    """Finds every number of a text.

    Args:
        tokens: what the tokens mean.
        ids: [N, L] int64; -1 where embeddings were given instead.
        valid: [N, L] bool, False for padding and for text that is not to be seen (behind an anchor).
        width: W, digits per number; those of a longer number are cut behind the first W, so that W = D + 1 tells a
            number of more than D digits from all others.

    Returns:
        The runs. Leading zeros are dropped: `007` is 7, `000` is 0.
    """
    seen = tokens.look_up(ids, valid)
    numeric = seen.size > 0
    goes_on = numeric & ~seen.spaced & shifted(numeric, 1)  # in the number of the token before
    opens = numeric & ~goes_on  # a stretch of digits
    touched = numeric & ~seen.spaced
    between = shifted(numeric, 1) & shifted(touched, -1)
    comma = between & shows(seen.first, Edge.COMMA) & shows(seen.last, Edge.COMMA)
    member = numeric | comma
    start = opens & ~shifted(comma, 1)
    inside = member & ~start

    end = _ends(member & ~shifted(inside, -1))  # of the run that begins here
    wrong = (_wrong_beside(seen, numeric, between) | _wrong_groups(tokens, seen, opens, comma)).long()
    wrongs, spelled = wrong.cumsum(1), seen.size.cumsum(1)
    broken = start & (wrongs.gather(1, end) - wrongs + wrong > 0)
    number = start & ~broken
    before = spelled - seen.size  # digits of the text before this token
    total = torch.where(number, spelled.gather(1, end) - before, 0)
    return Runs(number, broken, inside, _digits_at(tokens, seen, before, total, width))


def sentences(tokens: NumberTokens, ids: Tensor, valid: Tensor, runs: Runs) -> Tensor:
    """Which sentence each token belongs to, as [N, L] int64 that grow along the text.

    A sentence ends with `.`, `?`, `!`, `:`, `;`, a line or a special token, and behind the number of a list (`2)`).

    Args:
        tokens, ids, valid: as in `find_runs`.
        runs: what that found.
    """
    seen = tokens.look_up(ids, valid)
    digit_follows = shifted((seen.size > 0) & ~seen.spaced, -1)
    point = (shows(seen.first, Edge.DOT) | shows(seen.first, Edge.COLON)) & digit_follows  # `1.5`, `10:30`
    stop = seen.stop & ~point
    opens = shifted(stop.long().cumsum(1), 1)  # sentences before this token
    place = torch.arange(ids.shape[1], device=ids.device)
    behind_stop = latest(shifted(stop, 1) | (valid & ~shifted(valid, 1)))  # or at the beginning, behind padding
    listed = (runs.number | runs.broken) & (place - behind_stop <= 2)  # perhaps with `(` or a space before it
    number = latest(runs.number | runs.broken)
    ends_list = seen.close & listed.gather(1, number) & ~shifted(seen.close, 1)
    follows = shifted(runs.inside | runs.number | runs.broken, 1)  # directly behind the number
    return opens + shifted((ends_list & follows).long().cumsum(1), 1)


def numbers_aside(
    tokens: NumberTokens,
    ids: Tensor,
    valid: Tensor,
    sentence: Tensor,
    number: Tensor,
    chosen: Tensor,
    anchor: Tensor,
) -> Tensor:
    """Whether a further number belongs to a calculation with two chosen ones.

    It does where it stands between them, or in a sentence with one of them. An expression in symbols that reaches up
    to its anchor (`the 3 boxes then hold 4*12=`) is apart from what stands before it, if at least two words stand
    between: a single one may be a unit or an operation (`3 plus 4*12=`, `5 kg + 4*12=`).

    Args:
        tokens, ids, valid: as in `find_runs`.
        sentence: [N, L] int64, of each token.
        number: [N, L] bool, first tokens of numbers of any kind.
        chosen: [N, 2] int64, two positions.
        anchor: [N, 1] int64.

    Returns:
        [N] bool.
    """
    place = torch.arange(number.shape[1], device=number.device)
    first, last = chosen.amin(1, keepdim=True), chosen.amax(1, keepdim=True)
    theirs = sentence.gather(1, chosen)
    among = (sentence == theirs[:, :1]) | (sentence == theirs[:, 1:])
    among |= (place > first) & (place < last)
    seen = tokens.look_up(ids, valid)
    stretch, words = seen.word.long().cumsum(1) + sentence, seen.begins_word.long().cumsum(1)
    in_symbols = stretch.gather(1, anchor) == stretch.gather(1, first)  # neither a word nor the end of a sentence
    among &= ~in_symbols | (words.gather(1, first) - words < _WORDS_APART)
    return (number & among & (place != first) & (place != last)).any(1)


def _ends(at: Tensor) -> Tensor:
    """The first True position of `at` [N, L] at or behind each one; the last position where there is none."""
    return at.shape[1] - 1 - latest(at.flip(1)).flip(1)


def _wrong_beside(seen: SeenTokens, numeric: Tensor, between: Tensor) -> Tensor:
    """[N, L] bool: numeric tokens beside something that makes their number another thing than an integer.

    Args:
        seen: the text.
        numeric: [N, L] bool.
        between: [N, L] bool, a token that stands between two numeric ones and touches both, if it is a single sign.
    """
    first, last = seen.first, seen.last
    # `10:30` and `2**8`, but not the end of a line as in `3!\n5`
    joint = between & (shows(first, Edge.COLON) | (shows(first, Edge.BREAK) & ~seen.stop))
    hyphen = shows(first, Edge.MINUS) & shows(last, Edge.MINUS)
    left = shifted(last, 1)
    wrong_left = shows(left, Edge.BREAK) | shows(left, Edge.DOT) | shifted(joint, 1)
    wrong_left |= shifted(hyphen & shows(left, Edge.BREAK), 1)
    right, beyond = shifted(first, -1), shifted(first, -2)
    wrong_right = shows(right, Edge.BREAK) | shifted(joint, -1)
    wrong_right |= shows(right, Edge.DOT) & (shows(beyond, Edge.BREAK) | shows(beyond, Edge.DIGIT))
    wrong_right |= shifted(hyphen, -1) & shows(beyond, Edge.BREAK)
    return numeric & ((wrong_left & ~seen.spaced) | wrong_right)


def _wrong_groups(tokens: NumberTokens, seen: SeenTokens, opens: Tensor, comma: Tensor) -> Tensor:
    """[N, L] bool: last tokens of stretches of digits which commas do not separate as thousands.

    Args:
        tokens: what the tokens mean.
        seen: the text.
        opens: [N, L] bool, first tokens of stretches.
        comma: [N, L] bool, commas between two stretches.
    """
    opening = latest(opens)
    spelled = seen.size.cumsum(1)
    size = spelled - (spelled - seen.size).gather(1, opening)  # digits of the stretch up to here
    zero = tokens.on(seen.row.device).digits[seen.row, 0].gather(1, opening) == 0
    behind = shifted(comma, 1).gather(1, opening)  # the stretch begins behind a comma
    ahead = shifted(comma, -1)  # and ends before one
    closes = (seen.size > 0) & ~shifted((seen.size > 0) & ~opens, -1)
    return closes & ((behind & (size != 3)) | (~behind & ahead & ((size > 3) | zero)))


def _digits_at(tokens: NumberTokens, seen: SeenTokens, before: Tensor, total: Tensor, width: int) -> Tensor:
    """[N, L, width] int64: the digits of the numbers that begin at each token.

    Args:
        tokens: what the tokens mean.
        seen: the text.
        before: [N, L] int64, digits of the text before this token.
        total: [N, L] int64, digits of the number that begins here, leading zeros included; 0 where none does.
        width: W.
    """
    table = tokens.on(seen.row.device)
    n, length = seen.row.shape
    place = torch.arange(table.digits.shape[1], device=seen.row.device)  # [G]
    # All digits of a row in one line, and behind them a place for what is none, which is never read.
    size = length * len(place)
    to = torch.where(place < seen.size.unsqueeze(-1), before.unsqueeze(-1) + place, size)  # [N, L, G]
    line = torch.full((n, size + 1), PAD, dtype=torch.int8, device=seen.row.device)
    line = line.scatter(1, to.flatten(1), table.digits[seen.row].flatten(1))
    digit = _ends(line != 0)  # [N, size + 1]: the first digit from here on that is no leading zero
    lead = torch.minimum(digit.gather(1, before) - before, (total - 1).clamp(min=0))
    slot = torch.arange(width, device=seen.row.device)
    at = (before + lead).unsqueeze(-1) + slot  # [N, L, W]
    there = slot < (total - lead).unsqueeze(-1)
    return torch.where(there, line.gather(1, at.clamp(max=size).flatten(1)).view(n, length, width), PAD).long()
