"""Finds the numbers of a text from its token ids, with their digits.

In: token ids [N, L] and a `TokenTable` as tensors (`NumberTokens`). Out: `Runs`, every number of the text and its
exact digits, at any length; `sentences` and `numbers_aside` relate numbers to each other. Tensor operations only: no
loop over rows or tokens, no host synchronisation. A number that touches a decimal point, a letter, `%`, an exponent or
an unknown separator is a broken run: it counts as one number of the text, but cannot be an operand. Signs, and which
numbers are operands, are not decided here, see `mappings.token_interface`.
Try it: `pytest tests/numbers/test_number_runs.py tests/numbers/test_sentences.py`

Shapes: N texts, L tokens of a text, V ids of the table, G digits of the longest numeric token.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .digits import PAD
from .spelling import speller_of
from .token_table import CLOSE, STOP, UNSEEN, Edge, TokenTable


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


_WORDS_APART = 2  # words that separate a number from a following expression in symbols


class TableTensors(NamedTuple):
    """A token table on one device. Row V is used for ids outside the table: not numeric, breaks adjacent numbers."""

    digits: Tensor  # [V + 1, G] int8, left-aligned, 0..9 or PAD
    size: Tensor  # [V + 1] int16, number of digits, 0 for a token that is not numeric
    spaced: Tensor  # [V + 1] bool, numeric with a leading space
    first: Tensor  # [V + 1] int8, first `Edge`; LETTER is stored as BREAK
    last: Tensor  # [V + 1] int8, last `Edge`; LETTER is stored as BREAK
    stop: Tensor  # [V + 1] bool, ends a sentence
    close: Tensor  # [V + 1] bool, a closing bracket
    word: Tensor  # [V + 1] bool, begins or ends with a letter
    begins_word: Tensor  # [V + 1] bool, letters after a space or bracket


class SeenTokens(NamedTuple):
    """The table's entries for the tokens of a text. Invalid positions are boundaries, as the ends of a text are."""

    row: Tensor  # [N, L] int64, row of the table
    size: Tensor  # [N, L] int64, number of digits, 0 for a token that is not numeric
    spaced: Tensor  # [N, L] bool, numeric with a leading space
    first: Tensor  # [N, L] int8, first `Edge`
    last: Tensor  # [N, L] int8, last `Edge`
    stop: Tensor  # [N, L] bool
    close: Tensor  # [N, L] bool
    word: Tensor  # [N, L] bool
    begins_word: Tensor  # [N, L] bool


class NumberTokens:
    """A `TokenTable` as tensors, one copy per device.

    Not a module or buffer, so it is not saved with weights, not cast and not moved to the meta device; copies and
    pickles contain only the table. Call `on(device)` once before compiling a graph for a device: tensors created
    while a graph is traced cannot be kept.

    Args:
        table: The token table.
    """

    def __init__(self, table: TokenTable) -> None:
        self.table = table
        self.size = len(table.edges)  # V
        self.speller = speller_of(table)
        self._made: dict[torch.device, TableTensors] = {}
        self.on(torch.device("cpu"))

    def __reduce__(self) -> tuple[type[NumberTokens], tuple[TokenTable]]:
        return NumberTokens, (self.table,)

    def on(self, device: torch.device) -> TableTensors:
        """The table's tensors on a device."""
        # A `FakeTensorMode` allows no real tensors, and a fake tensor must not be kept after it.
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
        """The table's entries for the tokens of a text.

        Args:
            ids: [N, L] int64, any values; ids outside the table, such as -1, break adjacent numbers.
            valid: [N, L] bool, False for padding and hidden tokens.
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
    """A copy of the tensors on a device."""
    return TableTensors(*(tensor.to(device) for tensor in tensors))


def _tensors_of(table: TokenTable) -> TableTensors:
    """The table's tensors on the CPU, also under another default device."""
    rows = len(table.edges) + 1
    longest = max(map(len, table.digits.values()))
    digits = torch.full((rows, longest), PAD, dtype=torch.int8, device="cpu")
    size = torch.zeros(rows, dtype=torch.int16, device="cpu")
    spaced = torch.zeros(rows, dtype=torch.bool, device="cpu")
    edges = torch.tensor([*table.edges, Edge.BREAK | Edge.BREAK << 4], dtype=torch.uint8, device="cpu")
    lines = [[int(digit) for digit in text] + [PAD] * (longest - len(text)) for text in table.digits.values()]
    ids = torch.tensor(list(table.digits), device="cpu")
    digits[ids] = torch.tensor(lines, dtype=torch.int8, device="cpu")
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
    )


def shows(edges: Tensor, edge: Edge) -> Tensor:
    """Where `edges` equals `edge`, as bool of the same shape."""
    return edges == int(edge)  # compiled comparisons of a tensor with an enum are always False (torch 2.13.0)


def shifted(x: Tensor, by: int) -> Tensor:
    """The value `by` positions earlier (later if negative) of [N, L] of any type; 0 beyond the ends."""
    length = x.shape[1]
    if by > 0:
        return F.pad(x, (by, 0))[:, :length]
    return F.pad(x, (0, -by))[:, -by:]


def latest(at: Tensor) -> Tensor:
    """The last True position of `at` [N, L] at or before each position, as [N, L] int64; 0 if there is none."""
    if at.shape[1] == 0:
        return at.long()
    place = torch.arange(at.shape[1], device=at.device)
    return torch.where(at, place, 0).cummax(1).values


class Runs(NamedTuple):
    """The numbers of a text."""

    number: Tensor  # [N, L] bool, first token of an integer, a candidate for an operand
    broken: Tensor  # [N, L] bool, first token of a broken run
    inside: Tensor  # [N, L] bool, the other tokens of integers and broken runs, with thousands separators
    digits: Tensor  # [N, L, width] int64, digits of the integer that begins here, left-aligned; PAD elsewhere


def find_runs(tokens: NumberTokens, ids: Tensor, valid: Tensor, width: int) -> Runs:
    """Finds all numbers of a text.

    Args:
        tokens: The token table.
        ids: [N, L] int64, or `EMBEDDED`, `UNSEEN` or `PADDING`.
        valid: [N, L] bool, False for padding and hidden tokens (after an anchor).
        width: Digits to return per number. Digits after these are dropped, so callers with operands of at most D
            digits pass D + 1 to recognise longer ones.

    Returns:
        The runs. Leading zeros are dropped: `007` is 7, `000` is 0.
    """
    seen = tokens.look_up(ids, valid)
    numeric = seen.size > 0
    continues = numeric & ~seen.spaced & shifted(numeric, 1)  # the digits of the previous token
    opens = numeric & ~continues  # first token of a stretch of digits
    touched = numeric & ~seen.spaced
    between = shifted(numeric, 1) & shifted(touched, -1)
    comma = between & shows(seen.first, Edge.COMMA) & shows(seen.last, Edge.COMMA)
    member = numeric | comma
    start = opens & ~shifted(comma, 1)  # a run has one stretch, or several joined by commas
    inside = member & ~start

    end = _next(member & ~shifted(inside, -1))  # last token of the run that begins here
    wrong = (_wrong_beside(seen, numeric, between) | _wrong_groups(tokens, seen, opens, comma)).long()
    wrongs, spelled = wrong.cumsum(1), seen.size.cumsum(1)
    broken = start & (wrongs.gather(1, end) - wrongs + wrong > 0)
    number = start & ~broken
    before = spelled - seen.size  # number of digits of the text before this token
    total = torch.where(number, spelled.gather(1, end) - before, 0)
    unseen = (ids == UNSEEN) & valid  # a stretch of unseen tokens counts as one number of unknown value
    within = unseen & shifted(unseen, 1)
    found = (number, broken | (unseen & ~within), inside | within)
    return Runs(*found, _digits_at(tokens, seen, before, total, width))


def sentences(tokens: NumberTokens, ids: Tensor, valid: Tensor, runs: Runs) -> Tensor:
    """The index of the sentence of each token, [N, L] int64, nondecreasing along the text.

    A sentence ends at `.`, `?`, `!`, `:`, `;`, the end of a line, a special token, or a list number such as `2)`.

    Args:
        tokens, ids, valid: As in `find_runs`.
        runs: The result of `find_runs`.
    """
    seen = tokens.look_up(ids, valid)
    digit_follows = shifted((seen.size > 0) & ~seen.spaced, -1)
    point = (shows(seen.first, Edge.DOT) | shows(seen.first, Edge.COLON)) & digit_follows  # `1.5`, `10:30`
    stop = seen.stop & ~point
    index = shifted(stop.long().cumsum(1), 1)  # number of sentence ends before this token
    place = torch.arange(ids.shape[1], device=ids.device)
    start = latest(shifted(stop, 1) | (valid & ~shifted(valid, 1)))  # of the sentence, or of the text after padding
    run = runs.number | runs.broken
    listed = run & (place - start <= 2)  # a space and `(` may precede a list number
    closes = seen.close & listed.gather(1, latest(run)) & ~shifted(seen.close, 1)
    follows = shifted(runs.inside | run, 1)  # the previous token is part of a number
    return index + shifted((closes & follows).long().cumsum(1), 1)


def numbers_aside(
    tokens: NumberTokens,
    ids: Tensor,
    valid: Tensor,
    sentence: Tensor,
    number: Tensor,
    chosen: Tensor,
    anchor: Tensor,
) -> Tensor:
    """Detects a third number that may be part of the calculation with two chosen numbers.

    A number is, if it is between the chosen two or in the sentence of one of them. Numbers before an expression in
    symbols that ends at the anchor (`the 3 boxes then hold 4*12=`) are exempt if at least two words separate them: a
    single word may be a unit or an operation (`3 plus 4*12=`, `5 kg + 4*12=`).

    Args:
        tokens, ids, valid: As in `find_runs`.
        sentence: [N, L] int64, the result of `sentences`.
        number: [N, L] bool, first tokens of integers and broken runs.
        chosen: [N, 2] int64, first tokens of the two chosen numbers.
        anchor: [N, 1] int64, position of the anchor.

    Returns:
        [N] bool, True if there is such a number.
    """
    place = torch.arange(number.shape[1], device=number.device)
    first, last = chosen.amin(1, keepdim=True), chosen.amax(1, keepdim=True)
    theirs = sentence.gather(1, chosen)
    among = (sentence == theirs[:, :1]) | (sentence == theirs[:, 1:])
    among |= (place > first) & (place < last)
    seen = tokens.look_up(ids, valid)
    stretch, words = seen.word.long().cumsum(1) + sentence, seen.begins_word.long().cumsum(1)
    in_symbols = stretch.gather(1, anchor) == stretch.gather(1, first)  # no word or sentence end from first to anchor
    among &= ~in_symbols | (words.gather(1, first) - words < _WORDS_APART)
    return (number & among & (place != first) & (place != last)).any(1)


def _next(at: Tensor) -> Tensor:
    """The first True position of `at` [N, L] at or after each position; the last position if there is none."""
    return at.shape[1] - 1 - latest(at.flip(1)).flip(1)


def _wrong_beside(seen: SeenTokens, numeric: Tensor, between: Tensor) -> Tensor:
    """Numeric tokens that touch a break, so that their number is not an integer, as [N, L] bool.

    Args:
        seen: The text.
        numeric: [N, L] bool, numeric tokens.
        between: [N, L] bool, tokens that touch a numeric token on both sides.
    """
    first, last = seen.first, seen.last
    # `10:30` and `2**8`, but not a line break as in `3!\n5`
    joint = between & (shows(first, Edge.COLON) | (shows(first, Edge.BREAK) & ~seen.stop))
    hyphen = shows(first, Edge.MINUS) & shows(last, Edge.MINUS)  # breaks a number only beside a break: `x-5`
    left = shifted(last, 1)
    wrong_left = shows(left, Edge.BREAK) | shows(left, Edge.DOT) | shifted(joint, 1)
    wrong_left |= shifted(hyphen & shows(left, Edge.BREAK), 1)
    right, beyond = shifted(first, -1), shifted(first, -2)
    # `91 minus 37!` exclaims. What may be a factorial, too, is refused by the rules of `expressions`.
    exclaims = shows(first, Edge.BREAK) & seen.stop & shows(last, Edge.BOUNDARY)
    exclaims = shifted(exclaims, -1) & (shows(beyond, Edge.BOUNDARY) | shifted(exclaims, -2))
    exclaims &= (seen.size > 1) | (shifted(numeric, 1) & ~seen.spaced)  # `5!` does not
    wrong_right = (shows(right, Edge.BREAK) & ~exclaims) | shifted(joint, -1)
    wrong_right |= shows(right, Edge.DOT) & (shows(beyond, Edge.BREAK) | shows(beyond, Edge.DIGIT))
    wrong_right |= shifted(hyphen, -1) & shows(beyond, Edge.BREAK)
    return numeric & ((wrong_left & ~seen.spaced) | wrong_right)


def _wrong_groups(tokens: NumberTokens, seen: SeenTokens, opens: Tensor, comma: Tensor) -> Tensor:
    """Last tokens of stretches of digits that are separated by commas, but not in thousands, as [N, L] bool.

    Args:
        tokens: The token table.
        seen: The text.
        opens: [N, L] bool, first tokens of stretches of digits.
        comma: [N, L] bool, commas between two stretches.
    """
    opening = latest(opens)
    spelled = seen.size.cumsum(1)
    size = spelled - (spelled - seen.size).gather(1, opening)  # digits of the stretch up to this token
    zero = tokens.on(seen.row.device).digits[seen.row, 0].gather(1, opening) == 0
    after_comma = shifted(comma, 1).gather(1, opening)  # the stretch begins after a comma
    before_comma = shifted(comma, -1)
    closes = (seen.size > 0) & ~shifted((seen.size > 0) & ~opens, -1)
    return closes & ((after_comma & (size != 3)) | (~after_comma & before_comma & ((size > 3) | zero)))


def _digits_at(tokens: NumberTokens, seen: SeenTokens, before: Tensor, total: Tensor, width: int) -> Tensor:
    """The digits of the number that begins at each token, as [N, L, width] int64.

    Args:
        tokens: The token table.
        seen: The text.
        before: [N, L] int64, number of digits of the text before this token.
        total: [N, L] int64, digits of the number that begins here, with leading zeros; 0 if none begins.
        width: Digits to return per number.
    """
    table = tokens.on(seen.row.device)
    n, length = seen.row.shape
    place = torch.arange(table.digits.shape[1], device=seen.row.device)  # [G]
    # All digits of a row in one line. The last entry receives the padding of tokens and is never returned.
    size = length * len(place)
    to = torch.where(place < seen.size.unsqueeze(-1), before.unsqueeze(-1) + place, size)  # [N, L, G]
    line = torch.full((n, size + 1), PAD, dtype=torch.int8, device=seen.row.device)
    line = line.scatter(1, to.flatten(1), table.digits[seen.row].flatten(1))
    digit = _next(line != 0)  # [N, size + 1], index of the first digit other than 0 from here on
    lead = torch.minimum(digit.gather(1, before) - before, (total - 1).clamp(min=0))  # zero keeps one digit
    slot = torch.arange(width, device=seen.row.device)
    at = (before + lead).unsqueeze(-1) + slot  # [N, L, width]
    there = slot < (total - lead).unsqueeze(-1)
    return torch.where(there, line.gather(1, at.clamp(max=size).flatten(1)).view(n, length, width), PAD).long()
