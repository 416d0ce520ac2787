"""The numbers of a text in its token ids, the places that the token interface reads, and both as tensors.

In: the ids of a text as a list, and a `TokenTable`. Out, on the host: `Run`s, every number with its digits at any
length, and `Places`: one for each number and one for each other token. A broken number (see `text.literals`) is one
place, but cannot be an operand. The words that ask for a rounding, `to 2 decimal places`, have no place:
`text.requests` knows them, and the network reads the request as it is without. Signs, and which numbers are operands,
are not decided here. The places of a batch go to the device in groups of contexts of like length (`PlaceTensors`).
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..numbers.digits import PAD, classes
from ..text.literals import JOINTS, integers
from ..text.pieces import CONTROL, words
from ..text.rounding import asked_rounding
from ..text.token_table import TokenTable
from ..text.vocabulary import EMBEDDED, PADDING, UNSEEN, Spelled
from .attention import batches, one_batch


MOST = 512  # places that a step reads; earlier ones are left out
FAR = 3  # numbers of one line on each side of another one that are counted
FACTS = (FAR + 1) ** 2 * 6  # what `_columns` says of a number is an integer below it
COMPARED, COMPARED_DIGITS = 16, 64  # numbers of a text that are compared, and digits of each, at most
COMPARISONS = 5 * 2 * 2 + 1  # what `compared` says of a number is an integer below it
LEAD = 64  # tokens before a context that are searched for the start of a number or sentence
_MOST_LISTED = 2  # tokens before a list number: a space and `(`
_WORD, _NUMBER, _BROKEN = range(3)
_LINE = re.compile(f"[\n{CONTROL}]")
_WORDS, _AGAIN = re.compile(r"[^\W\d_]+(?:[ '’][^\W\d_]+)*"), re.compile(r"(\W)\1+")


class Run(NamedTuple):
    """A number of a text: its first and last token, and its digits without leading zeros, with a point if the table
    allows `decimals`; None if it is broken."""

    first: int
    last: int
    digits: str | None


class Places(NamedTuple):
    """The places that one step reads, in the order of the text; the last one is its anchor."""

    at: list[int]  # the token of each place, of a number its first one
    sentence: list[int]  # the index of its sentence, from 0
    numbers: dict[int, Run]  # the runs that begin at a place, by place
    layout: tuple[list[Run], Spelled, int]  # arguments of `_columns`, and the token that they count from

    @property
    def columns(self) -> dict[int, tuple[int, int]]:
        """What `_columns` finds of the numbers, by place; not needed without an operation of many numbers."""
        runs, spelled, begin = self.layout
        found = _columns(runs, spelled)
        return {place: found[run.first - begin] for place, run in self.numbers.items()}


def number_runs(table: TokenTable, ids: Sequence[int], spelled: Spelled | None = None) -> list[Run]:
    """All numbers of a text, in order; `007` has the digits `7`, `000` has `0`.

    `ids` are any integers, or `EMBEDDED`, `UNSEEN` (a stretch of which is one broken number) or `PADDING`; `spelled`
    has the characters of all of them, if these are known.
    """
    found: list[Run] = []
    begin = 0
    for at in [*(at for at, one in enumerate(ids) if one == PADDING), len(ids)]:  # padding separates numbers
        if at > begin:
            whole = spelled if at - begin == len(ids) else None
            found += _runs(whole or table.vocabulary.spell(ids[begin:at]), begin, table.decimals)
        begin = at + 1
    if UNSEEN in ids:
        stretches = itertools.groupby(range(len(ids)), lambda at: ids[at] == UNSEEN)
        unseen = [list(stretch) for is_unseen, stretch in stretches if is_unseen]
        found = sorted(found + [Run(stretch[0], stretch[-1], None) for stretch in unseen])
    return found


def _runs(spelled: Spelled, begin: int, decimals: bool) -> list[Run]:
    """The numbers of a text without padding, the first token of which is counted as `begin`."""
    text, ends = spelled
    found: list[Run] = []
    for start, end, digits in integers(text, decimals):
        first, last = begin + bisect_right(ends, start), begin + bisect_left(ends, end)
        if found and found[-1].last >= first:  # two numbers in one token
            first, digits = found.pop().first, None
        found.append(Run(first, last, digits))
    return found


def places_of(table: TokenTable, ids: Sequence[int], since: int, anchor: int, most: int = MOST) -> Places:
    """The last `most` places from the token `since` up to an anchor. A number that begins before `since` has none."""
    begin = max(since - LEAD, 0)
    window = ids[begin : anchor + 1]
    spelled = table.vocabulary.spell(window)
    runs = number_runs(table, window, spelled)
    inside = {at for run in runs for at in range(run.first + 1, run.last + 1)} | _unread(spelled, window)
    at = [one for one in range(since - begin, len(window)) if one not in inside and window[one] != PADDING]
    if not at or at[-1] != len(window) - 1:  # the anchor is a place even if it is no text
        at.append(len(window) - 1)
    at = at[max(len(at) - most, 0) :]
    sentence = _sentences(table, window, runs, since - begin)
    first = {run.first: Run(run.first + begin, run.last + begin, run.digits) for run in runs}
    numbers = {place: first[one] for place, one in enumerate(at) if one in first}
    layout = [run for run in runs if run.first >= since - begin], spelled, begin
    return Places([one + begin for one in at], [sentence[one] for one in at], numbers, layout)


@functools.cache
def _joints() -> re.Pattern[str]:
    """What may differ between the last numbers of a list in one line: `5, 6, and 7`."""
    return re.compile(rf"\b(?:{'|'.join(sorted(words().joints))})\b|[,;&]")


def _columns(runs: Sequence[Run], spelled: Spelled) -> dict[int, tuple[int, int]]:
    """What the layout of a text says of each number, as one integer below `FACTS`, and its column; by first token.

    The numbers of a column are those around which lines look alike, or that equal signs join in one line. Known are
    how many numbers are before and after each one in its line, up to `FAR`; whether its column has one number, fewer
    than the longest one, or is that; and whether it counts up, as the numbers of lines do.
    """
    text, ends = spelled
    gaps, joints, index, counts, end = [], [], [], [0], 0
    for run in runs:
        *broken, gap = _LINE.split(text[end : ends[run.first - 1] if run.first else 0])
        counts += [0] * bool(broken)
        gaps.append(_shape(gap))
        joints.append(_shape(_joints().sub("", gap)) if counts[-1] else "no joint")
        index.append(counts[-1])
        counts[-1] += 1
        end = ends[run.last]
    counts = [count for count in counts for _ in range(count)]
    known: dict[tuple[int, str, bool], int] = {}
    columns: list[int] = []
    for at, (run, gap) in enumerate(zip(runs, gaps, strict=True)):
        before = columns[-1] if index[at] else -1 - min(counts[at], FAR)
        is_named = text[ends[run.last] : ends[run.last] + LEAD].lstrip(" \t")[:1].isalpha()
        columns.append(known.setdefault((before, gap, is_named), len(known)))
    sizes, often = Counter(columns), Counter(joints)
    alone = [sizes[one] == 1 for one in columns]
    for at in range(1, len(runs)):
        if index[at] and alone[at - 1] and alone[at] and often[joints[at]] > 1:
            columns[at] = columns[at - 1]
    numbers: dict[int, list[str | None]] = {}
    for column, run in zip(columns, runs, strict=True):
        numbers.setdefault(column, []).append(run.digits)
    sizes = Counter(columns)
    longest = max(sizes.values(), default=1)
    # The only column may be a list such as 5, 6 and 7, whose sum is asked.
    more = list(sizes.values()).count(longest) > 1
    rising = {column for column, said in numbers.items() if more and len(said) > 2 and _counts_up(said)}
    found = {}
    for at, (run, column) in enumerate(zip(runs, columns, strict=True)):
        fact = min(index[at], FAR) * (FAR + 1) + min(counts[at] - 1 - index[at], FAR)
        size = (sizes[column] > 1) + (1 < sizes[column] == longest)
        found[run.first] = (fact * 3 + size) * 2 + (column in rising), column
    return found


def compared(numbers: dict[int, Run]) -> dict[int, int]:
    """What comparing the numbers of a text says of each one, as one integer below `COMPARISONS`, by place.

    Known are its rank (alone, all equal, least, between, greatest), whether it is a multiple of another one, and
    whether another one is a multiple of it, ones left aside. Broken and long numbers, and all of many, have none.
    """
    digits = {place: run.digits for place, run in numbers.items()}
    known = {place: Fraction(one) for place, one in digits.items() if one is not None and len(one) <= COMPARED_DIGITS}
    if not 0 < len(known) <= COMPARED:
        return {}
    least, greatest = min(known.values()), max(known.values())
    found = {}
    for place, value in known.items():
        others = [other for at, other in known.items() if at != place]
        rank = 0 if not others else 1 if least == greatest else 2 + (value > least) + (value == greatest)
        multiple = any(_is_multiple(value, other) for other in others)
        found[place] = 1 + (rank * 2 + multiple) * 2 + any(_is_multiple(other, value) for other in others)
    return found


def _is_multiple(one: Fraction, other: Fraction) -> bool:
    """Whether one number is another one, not 0 or 1, times a whole number, not 0."""
    return other not in (0, 1) and one != 0 and (one / other).denominator == 1


def _shape(gap: str) -> str:
    """The signs before a number, without names, signs that fill up a line, and those of negative numbers and money."""
    return _AGAIN.sub(r"\1", _WORDS.sub("a", gap)).strip(" -−$€£")


def _counts_up(numbers: Sequence[str | None]) -> bool:
    """Whether each number is one more than the one before."""
    known = [int(one) for one in numbers if one is not None and len(one) < 9 and one.isdigit()]
    return len(known) == len(numbers) and all(b == a + 1 for a, b in itertools.pairwise(known))


def _unread(spelled: Spelled, ids: Sequence[int]) -> set[int]:
    """The tokens without a place: those that ask for a rounding, and those that are parts of a currency sign.

    A sign such as `£` is one token of most vocabularies and two of others, where training has never shown them.
    """
    text, ends = spelled
    wish = asked_rounding(text)
    begins = [0, *ends]
    found: set[int] = set()
    if wish is not None:
        spans = enumerate(itertools.pairwise(begins))
        found = {at for at, span in spans if text[slice(*span)] != wish.plain[slice(*span)]}
    shared = len(set(ends)) < len(ends)  # a character in several tokens, or padding
    for at in range(1, len(ends)) if shared else ():
        part = begins[at] == ends[at] and ids[at] != PADDING
        if part and unicodedata.category(text[ends[at] - 1 : ends[at]] or " ") == "Sc":
            found |= {at - 1, at}
    return found


@functools.lru_cache(maxsize=1 << 16)
def _marks(text: str) -> tuple[bool, bool, bool]:
    """Whether a token ends a sentence, is a closing bracket, or is one mark that ends none if a digit touches it."""
    end = text.rstrip(" \"'”’)]")
    stops = text == CONTROL or "\n" in text or (end != "" and end[-1] in ".?!;:。？！；：…")
    return stops, text.strip() in (")", "]", ">", ").", "):"), text in JOINTS


def _sentences(table: TokenTable, ids: Sequence[int], runs: Sequence[Run], since: int) -> list[int]:
    """The index of the sentence of each token. One ends at `.`, `?`, `!`, `:`, `;`, the end of a line, a special
    token, or a list number such as `2)`."""
    ends = {run.last + 1: run.first for run in runs if run.first >= since}
    known = {one: _marks(table.vocabulary.text_of(one)) for one in set(ids)}
    digits = [table.numbers.get(one, " ")[0] != " " for one in ids] + [False]
    found, index, start, closing = [], 0, since, False
    for at, token in enumerate(ids):
        found.append(index)
        if at < since or token == PADDING:
            start, closing = at + 1, False
            continue
        stop, close, colon = known[token]
        listed = close and not closing and at in ends and ends[at] - start <= _MOST_LISTED
        stop = stop and not (colon and digits[at + 1])
        index, closing = index + stop + listed, close
        start = at + 1 if stop else start
    return found


# ---------------------------------------------------------------------------------------------- as tensors
class StepTexts(NamedTuple):
    """The texts of N steps on the host."""

    table: TokenTable  # the token table
    rows: list[list[int]]  # the ids of B rows, or `EMBEDDED`, `UNSEEN` or `PADDING`. Each row has N / B steps.
    # `anchors`, `since`: for each step the indices of the last and the first token that it reads; an anchor of -1
    # reads nothing
    anchors: list[int]
    since: list[int]
    places: list[Places]  # for each step what the reader reads

    @classmethod
    def of_lists(cls, table: TokenTable, rows: list[list[int]], anchors: list[int], since: list[int]) -> StepTexts:
        """The texts of steps; `rows`, `anchors` and `since` as in the attributes."""
        texts = cls(table, rows, anchors, since, [])
        for step, (anchor, start) in enumerate(zip(anchors, since, strict=True)):
            end = max(anchor, 0)
            texts.places.append(places_of(table, rows[texts.row_of(step)], min(start, end), end))
        return texts

    def row_of(self, step: int) -> int:
        """The row of a step."""
        return step * len(self.rows) // len(self.anchors)

    def ids_of(self, step: int) -> list[int]:
        """The ids of a step's row up to its anchor."""
        return self.rows[self.row_of(step)][: self.anchors[step] + 1]

    def operands_of(self, step: int) -> list[str]:
        """The numbers that a step may point at, as digits."""
        if EMBEDDED in self.ids_of(step):  # a token given as an embedding may be a part of any number
            return []
        return [run.digits for run in self.places[step].numbers.values() if run.digits is not None]


class PlaceTensors(NamedTuple):
    """The places of n steps."""

    steps: list[int]  # their indices among those that are read
    row: Tensor  # [n] int64, their rows
    positions: Tensor  # [n, W] int64, the first token of each place, -1 for no place; the last one is the anchor
    sentence: Tensor  # [n, W] int64, the index of its sentence
    values: Tensor  # [n, W] int64, the row of `numbers` that a number has; the last one if there is none
    kinds: Tensor  # [n, W] int64, 0 for a token, 1 for a number, 2 for one that may be no operand
    facts: Tensor  # [n, W] int64, what the layout says of the numbers, as in `Places`
    compared: Tensor  # [n, W] int64, what comparing the numbers says of them, as `compared` does
    columns: Tensor  # [n, W] int64, of the numbers, from 1; 0 of other places
    # [M + 1, D + 1] int64 digit classes of the numbers of all steps, each once; the last row is all PAD
    numbers: Tensor

    @property
    def is_number(self) -> Tensor:
        """[n, W] bool, places with a number that may be an operand."""
        return self.values < len(self.numbers) - 1


def place_tensors(
    texts: StepTexts, width: int, *, steps: Sequence[int], with_columns: bool, device: Any
) -> list[PlaceTensors]:
    """The places of some steps, in groups that are read together; `width` is D + 1. Without columns `facts` and
    `columns` are 0."""
    every = dict.fromkeys(digits for step in steps for digits in texts.operands_of(step))
    known = {digits: index for index, digits in enumerate(every)}
    numbers = torch.tensor([classes(text, width) for text in known] + [[PAD] * width], device=device)
    sizes = [len(texts.places[step].at) for step in steps]
    # Lists differ in length so much that most of one batch would be padding.
    together = not with_columns and one_batch(len(texts.anchors) // len(texts.rows))
    groups = [(list(range(len(steps))), max(sizes))] if together else batches(sizes)
    made = []
    for group, longest in groups:
        chosen = [steps[one] for one in group]
        fields = torch.tensor([_fields(texts, step, longest, known, with_columns) for step in chosen], device=device)
        row = torch.tensor([texts.row_of(step) for step in chosen], device=device)
        made.append(PlaceTensors._make((group, row, *fields.unbind(-1), numbers)))
    return made


def _fields(
    texts: StepTexts, step: int, width: int, known: dict[str, int], with_columns: bool
) -> list[tuple[int, ...]]:
    """The fields of `PlaceTensors` for `width` places, of which unused ones are in front."""
    places, none, known = texts.places[step], len(known), known if texts.operands_of(step) else {}
    columns = places.columns if with_columns else {}
    sizes = compared(places.numbers)
    lines: list[tuple[int, ...]] = [(-1, 0, none, _WORD, 0, 0, 0)] * (width - len(places.at))
    for place, (at, sentence) in enumerate(zip(places.at, places.sentence, strict=True)):
        run = places.numbers.get(place)
        kind = _WORD if run is None else _BROKEN if run.digits is None else _NUMBER
        value = none if run is None or run.digits is None else known.get(run.digits, none)
        fact, column = columns.get(place, (0, -1))
        lines.append((at, sentence, value, kind, fact, sizes.get(place, 0), column + 1))
    return lines
