"""The pieces of a text: numbers, words, operators, brackets and marks, as one regular expression finds them.

In: characters. Out: `Pieces`, lists of kinds and places. `CONTROL` takes the place of a control token, such as the
header of a chat's turn, `UNKNOWN` that of a token whose text is not known, and `FILL` that of a mark in a number. What
a word means is in the files of `languages`. Try it: `pytest tests/text/test_pieces.py`
"""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple


CONTROL, UNKNOWN, FILL = "\ufdd0", "\ufdd1", "\ufdd2"  # noncharacters: no text has them
HEADER = rf"(?:\s*{CONTROL}[A-Za-z_]*)"  # a part of a turn's header, whose role may be a word
FOLDER = Path(__file__).parent / "languages"
# Characters of the kind that is the first one of them.
_ALIKE = ("+＋", "-－\u2212", "*×·⋅∙∗✕✖＊", "/÷∕／", "=＝", "%％", "(（", ")）", "?？", ";；。", "'’‘", *"^[]{}.,:!")
_CHARACTERS: dict[str, str] = {
    **{one: alike[0] for alike in _ALIKE for one in alike},
    **dict.fromkeys("<>≤≥≠≡→", "relation"),
    **dict.fromkeys('"“”„`«»', "quote"),
    **dict.fromkeys("–—", "dash"),
    **dict.fromkeys("√∛∜∑∏∫∞‰‱⁄±∓", "strange"),
    "**": "^",
    "\u200b": "space",
    CONTROL: "control",
    UNKNOWN: "strange",
}
_LINE = "\n\r\u2028\u2029\x0b\x0c\x85"
_PIECE = re.compile(
    r" |[a-zA-Z]++(?![^\x00-\x7f])|[^\W\d_]+(?:[\u0300-\u036f]+[^\W\d_]*)*"  # the most frequent ones first
    r"|(?:[0-9]+|(?<![0-9.])\.[0-9]+)(?:[.,]\ufdd2*[0-9]+)*(?:/-(?=[\s=.,;:?!)]|\Z))?"  # `5,000/-` are rupees
    r"|\*\*|\r\n|\\[a-zA-Z]+|(?s:.)"
)
_LITERAL = re.compile(r"(?=\.?[0-9])(?:(?!0)[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.[0-9]+)?(?:/-)?")


@dataclass(frozen=True, eq=False)
class Words:
    """What words mean, by their letters in `casefold`."""

    # the class of a word, a key of `[words]` in the files of `languages`; `unit` of units and money
    kinds: Mapping[str, str]
    units: Mapping[str, tuple[str, str]]  # of a unit, its quantity and its name: `("length", "kilometer")`
    # of a function, its name in `operations.FUNCTIONS`, whose names need not be here, or another one that has no value
    functions: Mapping[str, str]
    # of a word such as `sum`, the symbol of the operation; `any` of `total`, which has none of its own
    operations: Mapping[str, str]
    labels: frozenset[str]  # words before a number that only names something: `Task 7`
    joints: frozenset[str]  # words that may join the numbers of a list: `5, 6 and 7`
    reasons: frozenset[str]  # words before a calculation that is the reason of what is before them: `because 90 / 2 =`


@functools.cache
def words() -> Words:
    """The words of all languages. A word of several classes keeps that of English, else of the first language.

    A unit of one language names no operation in another: Dutch `min` is a minus, but `5 min` are minutes.
    """
    lists = ("labels", "joints", "reasons")
    named: dict[str, dict[str, str]] = {one: {} for one in ("words", "functions", "operations", *lists)}
    kinds, units = named["words"], dict[str, tuple[str, str]]()
    for path in sorted(FOLDER.glob("??.toml"), key=lambda path: (path.stem != "en", path)):
        read = tomllib.loads(path.read_text(encoding="utf-8"))
        for section, found in named.items():
            for name, spelled in read.get(section, {}).items():
                for word in spelled:
                    found.setdefault(word.casefold(), name)
        for quantity, names in read.get("units", {}).items():
            for unit, spelled in names.items():
                for word in spelled:
                    if kinds.setdefault(word.casefold(), "unit") == "unit":
                        units.setdefault(word.casefold(), (quantity, unit))
    operations = {word: name for word, name in named["operations"].items() if kinds.get(word) != "unit"}
    return Words(kinds, units, named["functions"], operations, *(frozenset(named[one]) for one in lists))


class Pieces(NamedTuple):
    """Pieces of a text. The first one is what is before them: of kind `edge`, or `cut` if there is more text."""

    # `number`, `space`, `line`, an operator, a bracket or a mark, or the class of a word; `letters` of a word that is
    # in no list, `letter` of a single one. `strange` is numeric and not understood.
    kinds: list[str]
    said: list[str]  # the text of each
    ends: list[int]  # the character after each


def split(text: str, start: int = 0) -> Pieces:
    """The pieces of a text from a character on; the first of them may be cut off, so it is left out unless `start` is
    0."""
    said = ["", *_PIECE.findall(text, start)]
    kinds = [kind_of(one) for one in said]
    for at, kind in enumerate(kinds):
        if kind == "'" and kinds[at + 1 : at + 2] == ["letter"] and said[at - 1][-1:].isalpha():
            kinds[at + 1] = "letters"  # `what's` has no variable
    ends = list(itertools.accumulate(map(len, said[1:]), initial=start))
    kinds[0] = "edge"
    if start:
        del said[1:2], kinds[1:2], ends[:1]
        kinds[0] = "cut"
    return Pieces(kinds, said, ends)


def past(kinds: list[str], at: int, step: int, *skipped: str) -> int:
    """The first piece from here on that is of no skipped kind; `step` is 1 to the right, -1 to the left."""
    while kinds[at] in skipped:
        at += step
    return at


_APART = frozenset({"space", "line", "edge", "cut", "control", *"+-*/^=()[]{}", "relation"})
_OUTSIDE = frozenset({".", ",", ":", ";", "?", "quote"})  # marks that belong to nothing at an end


def whole(pieces: Pieces, at: int) -> tuple[int, int]:
    """The characters of a piece with all that touches it, as far as it is one word or number: `5!`, `#5`, `10:30`."""
    kinds, _, ends = pieces
    first = last = at
    if kinds[at] not in _APART:
        while kinds[first - 1] not in _APART:
            first -= 1
        while last + 1 < len(kinds) and kinds[last + 1] not in _APART:
            last += 1
    while first < at and kinds[first] in _OUTSIDE:
        first += 1
    while last > at and kinds[last] in _OUTSIDE:
        last -= 1
    return ends[first - 1], ends[last]


@functools.lru_cache(maxsize=1 << 16)
def kind_of(said: str) -> str:
    """The kind of a piece."""
    listed = words().kinds
    if said in listed:
        return listed[said]
    if said[:1] in "0123456789" or (said[:1] == "." and len(said) > 1):
        return "number"
    if said in _CHARACTERS:
        return _CHARACTERS[said]
    if said[0] == "\\":  # a command of LaTeX
        return "strange"
    if said.isspace():
        return "line" if said[0] in _LINE else "space"
    is_word = said[:1].isalpha() or len(said) != 1
    if is_word and (found := listed.get(said.casefold())) is not None and (len(said) > 1 or found != "unit"):
        return found  # grams have no capital: `0.9G` is a variable
    if not said.isascii() and any(unicodedata.numeric(char, None) is not None for char in said):
        return "strange"  # fractions, superscripts, Roman and Chinese numerals
    if is_word:
        return "letters" if len(said) > 1 or not said.isascii() else "letter"
    return "currency" if unicodedata.category(said) == "Sc" else "other"


def literal(said: str) -> Fraction | None:
    """The exact value of a number, None if it has another form than `1,234.50` or `.5`."""
    return Fraction(plain(said)) if _LITERAL.fullmatch(said.replace(FILL, "")) else None


def plain(said: str) -> str:
    """A number without separators, and with a digit before its point: `1234.50`."""
    number = said.removesuffix("/-").replace(",", "").replace(FILL, "")
    return "0" + number if number.startswith(".") else number
