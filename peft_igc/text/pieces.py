"""The pieces of a text: numbers, words, operators, brackets and marks, as one pass of one regular expression finds them.

In: characters. Out: `Pieces`, lists of kinds and places. `CONTROL` takes the place of a control token, such as the
header of a chat's turn, and `UNKNOWN` that of a token whose text is not known. What a word means is in the files of
`languages`. Try it: `pytest tests/text/test_pieces.py`
"""

from __future__ import annotations

import functools
import re
import tomllib
import unicodedata
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple


__all__ = ["CONTROL", "UNKNOWN", "Pieces", "Words", "literal", "split", "words"]

CONTROL, UNKNOWN = "\ufdd0", "\ufdd1"  # noncharacters: no text has them
FOLDER = Path(__file__).parent / "languages"
_CHARACTERS: dict[str, str] = {
    **dict.fromkeys("+＋", "+"),
    **dict.fromkeys("-－\u2212", "-"),
    **dict.fromkeys("*×·⋅∙∗✕✖＊", "*"),
    **dict.fromkeys("/÷∕／", "/"),
    **dict.fromkeys("=＝", "="),
    **dict.fromkeys("%％", "%"),
    **dict.fromkeys("(（", "("),
    **dict.fromkeys(")）", ")"),
    **dict.fromkeys("?？", "?"),
    **dict.fromkeys(";；。", ";"),
    **dict.fromkeys("<>≤≥≠≡→", "relation"),
    **dict.fromkeys('"“”„`«»', "quote"),
    **dict.fromkeys("'’‘", "'"),
    **dict.fromkeys("–—", "dash"),
    **dict.fromkeys("√∛∜∑∏∫∞‰‱⁄±∓", "numeric"),
    **{one: one for one in "^[]{}.,:!"},
    CONTROL: "control",
    UNKNOWN: "unknown",
}
_LINE = "\n\r\u2028\u2029\x0b\x0c\x85"
_PIECE = re.compile(
    rf"""(?P<number>(?:[0-9]+|(?<![0-9.])\.[0-9]+)(?:[.,][0-9]+)*(?:/-(?=[\s=.,;:?!)]|\Z))?)
    |(?P<word>[^\W\d_]+(?:[\u0300-\u036f]+[^\W\d_]*)*)
    |(?P<line>[{_LINE}])
    |(?P<space>[^\S{_LINE}]|\u200b)
    |(?P<power>\*\*)
    |(?P<other>.)""",
    re.VERBOSE,
)
_LITERAL = re.compile(r"((?!0)[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.([0-9]+))?(?:/-)?")  # `5,000/-` are rupees


class Words(NamedTuple):
    """What words mean, by their letters in `casefold`.

    Attributes:
        kinds: the class of a word, a key of `[words]` in the files of `languages`; `unit` of units and money.
        units: of a unit, its quantity and its name: `("length", "kilometer")`.
        functions: of a function, its name in `operations.FUNCTIONS`, or another one that has no value.
        operations: of a word such as `sum`, the symbol of the operation; `any` of `total`, which has none of its own.
        labels: words before a number that only names something: `Task 7`.
    """

    kinds: Mapping[str, str]
    units: Mapping[str, tuple[str, str]]
    functions: Mapping[str, str]
    operations: Mapping[str, str]
    labels: frozenset[str]


@functools.cache
def words(*languages: str) -> Words:
    """The words of some languages, or of all; a word of several classes keeps that of the first language.

    Raises:
        ValueError: There is no file of a language.
    """
    known = {path.stem: path for path in sorted(FOLDER.glob("??.toml"))}
    if missing := [language for language in languages if language not in known]:
        raise ValueError(f"There are no words for {missing}. The languages are {', '.join(known)}.")
    kinds: dict[str, str] = {}
    units: dict[str, tuple[str, str]] = {}
    labels: set[str] = set()
    named: dict[str, dict[str, str]] = {"functions": {}, "operations": {}}
    for language in languages or sorted(known, key=lambda name: (name != "en", name)):
        read = tomllib.loads(known[language].read_text(encoding="utf-8"))
        for kind, listed in read.get("words", {}).items():
            for word in listed:
                kinds.setdefault(word.casefold(), kind)
        for quantity, names in read.get("units", {}).items():
            for unit, spelled in names.items():
                for word in spelled:
                    if kinds.setdefault(word.casefold(), "unit") == "unit":
                        units.setdefault(word.casefold(), (quantity, unit))
        labels.update(map(str.casefold, read.get("labels", {}).get("words", ())))
        for section, found in named.items():
            for name, spelled in read.get(section, {}).items():
                for word in spelled:
                    found.setdefault(word.casefold(), name)
    return Words(kinds, units, **named, labels=frozenset(labels))


class Pieces(NamedTuple):
    """Pieces of a text. The first one is what stands before them: of kind `edge`, or `cut` if there is more text.

    Attributes:
        kinds: `number`, `space`, `line`, an operator, a bracket or a mark, or the class of a word; `letters` of a word
            that is in no list, `letter` of a single one. `strange` is numeric and not understood.
        starts, ends: the characters of each.
        text: all of it.
    """

    kinds: list[str]
    starts: list[int]
    ends: list[int]
    text: str

    def said(self, at: int) -> str:
        """The text of a piece."""
        return self.text[self.starts[at] : self.ends[at]]


def split(text: str, start: int, end: int, known: Words) -> Pieces:
    """The pieces of a part of a text.

    Args:
        text: all of it.
        start, end: of the part. If it does not begin at the beginning, its first piece is not looked at.
        known: what words mean.
    """
    kinds, starts, ends = ["edge"], [start], [start]
    meaning = known.kinds
    for match in _PIECE.finditer(text, start, end):
        kind = match.lastgroup
        if kind == "word":
            kind = _word(match[0], meaning)
        elif kind == "other":
            kind = _mark(match[0])
        elif kind == "power":
            kind = "^"
        kinds.append(kind or "")
        starts.append(match.start())
        ends.append(match.end())
    if start:
        del kinds[1:2], starts[1:2], ends[1:2]
        kinds[0], ends[0] = "cut", starts[1] if len(starts) > 1 else end
    return Pieces(kinds, starts, ends, text)


def _word(word: str, meaning: Mapping[str, str]) -> str:
    """The class of a word."""
    found = meaning.get(word.casefold())
    if found is not None:
        return found
    if not word.isascii() and any(unicodedata.numeric(char, None) is not None for char in word):
        return "strange"  # fractions, superscripts, Roman and Chinese numerals
    return "letters" if len(word) > 1 or not word.isascii() else "letter"


@functools.lru_cache(maxsize=4096)
def _mark(char: str) -> str:
    """The kind of a single character."""
    found = _CHARACTERS.get(char)
    if found is not None:
        return "strange" if found in ("numeric", "unknown") else found
    if unicodedata.numeric(char, None) is not None:
        return "strange"
    return "currency" if unicodedata.category(char) == "Sc" else "other"


def literal(said: str) -> Fraction | None:
    """The exact value of a number, None if it has another form than `1,234.50` or `.5`."""
    match = _LITERAL.fullmatch(said)
    if match is None or not (match[1] or match[2]):
        return None
    whole, places = (match[1] or "").replace(",", ""), match[2] or ""
    return Fraction(int(whole + places), 10 ** len(places))
