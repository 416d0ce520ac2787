"""Calculations that end at an equals sign among other numbers and words: `45 are left, because 90 / 2 =`.

In: a text up to its `=`, the refusal of it, and the reading of symbols that refused. Out: the value of the calculation
if what is around it says nothing of this value. `reading` answers so, and `claims` checks so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from .expressions import WORDS
from .pieces import kind_of, past, split, words
from .refusals import Reason, Span
from .values import Refusal, Value


Read = Callable[[str], Value | Refusal]
Found = TypeVar("Found", bound=Value | Refusal)

PLAIN_WORDS = WORDS - {"letter", "scale"} | {"and", "one"}
BINARY = frozenset({"+", "-", "*", "/", "x", "dash"})
_PLAIN_BEFORE = WORDS - {"scale", "letter", "of", "per"} | frozenset({"and", "line", ".", ",", ":", ";", "?"})
_CLAUSE_ENDS = frozenset({"edge", "cut", "line", "control", "=", "equal", "relation", *".,:;?!"})
_APART = frozenset({"per", "article", "glue"})  # a unit after these is none of the number before them
_BLANK = frozenset({"letters", "unit", "glue", "request", "article", "per", "and", "of"})
_PLAIN_PARTS = _BLANK | {"letter"}
_PART = re.compile(r"[^\W\d_]+")
# `t-shirts`, `Ann's`, `guests/table`, and `/table` after a number or a bracket
_WORD = re.compile(r"(?:(?<=\S)/)?[^\W\d_]+(?:['’&./-][^\W\d_]+)*(?:['’](?!\w))?")
_POINT = re.compile(r"(?<=[^\W\d_])\.")
_NO_OPERAND = re.compile(r"\s*(?:[-+*/=)×÷–]|\Z)")
_SIGN = re.compile(r"[-+*/×÷–—]")
# `3-5 cats` is a range; in `(age - 1) * 2` and `60 - losses - 2` a word has a value.
_DOUBT = re.compile(r"[0-9][-–—][0-9]|[-+*/xX×÷–—(][\s$€£]*[-+*/×÷–—]")
_NUMBER = re.compile(r"[0-9][0-9.,]*")
_DASHES = str.maketrans("–—", "--")


def without_others(text: str, found: Refusal, read: Read, strict: bool) -> Value | Refusal | None:
    """What the expression before an equals sign is worth without the numbers before it, for which it is refused; None
    if these may matter.

    A sentence may well have numbers before a calculation, `45, because 90 / 2 =`: the expression counts if nothing but
    a plain word or a mark is next to it; where it is `strict`, only `is` or a word that begins a reason.
    """
    if found.span is None or found.culprit is None or found.culprit[0] >= found.span[0]:
        return None
    start = found.span[0]
    kinds = split(text[:start]).kinds
    before = [kind for kind in kinds if kind not in ("space", "currency")]
    mixed = before[-1] == "and" and any(item.kind == "/" for item in found.items[:2])  # `12 x 1 and 1/4`
    if before[-1] not in _PLAIN_BEFORE or mixed:
        return None
    separated = before[-1] == "equal" or _last_word(text[:start]) in words().reasons  # `16 is 32 / 2`
    if strict and not (found.reason is Reason.OTHER_NUMBER and separated):
        return None
    alone = read(text[start:])
    return moved(alone._replace(alone=False), start) if isinstance(alone, Value) else moved(alone, start)


def _last_word(text: str) -> str:
    """The word that a text ends with, in `casefold`; empty if it ends with something else."""
    match = re.search(r"([^\W\d_]+)[\s$€£]*\Z", text)
    return match[1].casefold() if match else ""


def without_words(text: str, read: Read, strict: bool) -> Value | None:
    """The value of a clause that has words between its numbers, and ends at the equals sign of a text; None if it may
    mean another. Where it is `strict`, no other number is in the clause (`5 cats and 3 dogs + 4 =`), no single word in
    front, such as a label (`Task 7 - 12 + 30 =`), and the words after a number name something.

    `3 cats for Ann + 4 for Bob` has an operator between any two numbers. Words that say nothing of a value are blanks
    there, so that the characters stay where they are, and `read` judges what is left. Two words excuse what is before
    them, as they do for `read`: `The third tank has 30 here + 4 there`.
    """
    kinds, _, ends = split(f"{text}\n")
    begin = at = len(kinds) - 2  # the equals sign, before the end of the line
    while kinds[begin - 1] not in _CLAUSE_ENDS or _abbreviates(kinds, begin - 1):
        begin -= 1
    after_mark = kinds[begin - 1] in (",", ".", ":", ";")
    if strict and after_mark and kinds[past(kinds, begin - 2, -1, "space")] not in PLAIN_WORDS:
        return None  # `14, 400 / 80`, `10:30 + 5`
    start = ends[begin - 1]
    clause = _POINT.sub(" ", text[start : ends[at - 1]])
    bare = _WORD.sub(_spaces, clause)
    first = _first(bare)
    left = max((at + 1 for at in range(first) if bare[at].isalnum()), default=0)  # after a number, or `x`
    kept, plain = clause, 0
    said: dict[int, bool] = {}  # whether a noun is among the words after each number
    units: set[tuple[str, str]] = set()
    before = ""
    for match in _WORD.finditer(clause):
        kind = _class(match[0])
        if match.start() >= first:
            place = len(_NUMBER.findall(clause, 0, match.start()))
            said[place] = said.get(place, False) or kind in ("letters", "unit")
        names = match[0].casefold() in words().functions  # `round 17 / 4 + 2`
        if strict and (names or (match.start() >= first and not _follows(clause[: match.start()], kind))):
            return None
        if _is_blank(match, kind, in_front=match.end() <= first):
            kept = kept[: match.start()] + _spaces(match) + kept[match.end() :]
            if left <= match.start() < first:
                plain = 0 if kind == "of" else plain + (kind in PLAIN_WORDS)
        elif match.end() <= first:
            left, plain = match.end(), 0
        elif match[0] not in "xX":
            return None
        measure = words().units.get(_PART.findall(match[0])[0].casefold())
        if measure and match.start() >= first and before not in _APART and match[0][0] != "/":
            units.add(measure)
        before = kind
    if (left or (strict and plain)) and plain < 2:
        return None
    if strict and (left or not said or not all(said.values())):  # `530 or -3`
        return None
    if _DOUBT.search(bare) or _SIGN.search(bare, left, first):
        return None
    found = read(f"{' ' * left}{kept[left:].translate(_DASHES)}=")
    if not isinstance(found, Value):
        return None
    differ = len({quantity for quantity, _ in units}) < len(units)  # `3 feet on top + 4 inches`
    if differ and any(item.kind in ("+", "-") for item in found.items):
        return None
    return moved(found._replace(alone=False), start)


def moved(found: Found, by: int) -> Found:
    """What was found in a text that begins some characters after the whole one."""

    def there(span: Span) -> Span:
        return span[0] + by, span[1] + by

    changed: dict[str, Any] = {"items": tuple(item._replace(span=there(item.span)) for item in found.items)}
    changed["reductions"] = tuple(step._replace(span=there(step.span)) for step in found.reductions)
    spans = ["span"] if isinstance(found, Value) else ["span", "culprit"]
    changed |= {name: there(span) for name in spans if (span := getattr(found, name)) is not None}
    return found._replace(**changed)  # type: ignore[return-value]


def _follows(before: str, kind: str) -> bool:
    """Whether a word after some text may belong to a number there: to none that it touches, and to no sign."""
    left = before.rstrip()
    return kind in PLAIN_WORDS - {"per", "and", "one"} and not before[-1:].isdigit() and _SIGN.match(left[-1:]) is None


def _spaces(match: re.Match[str]) -> str:
    """As many spaces as a word has characters, except of the `x` of a product."""
    return match[0] if match[0] in "xX" else " " * len(match[0])


def _class(word: str) -> str:
    """The class of a word; of one with several parts `letters`, or `other` if a part may say something of a value."""
    kinds = [kind_of(part) for part in _PART.findall(word)]
    if kinds[-1] == "modifier" and _PLAIN_PARTS.issuperset(kinds[:-1]):  # `tiles/square`
        return "modifier"
    return kinds[0] if len(kinds) == 1 else "letters" if _PLAIN_PARTS.issuperset(kinds) else "other"


def _is_blank(match: re.Match[str], kind: str, in_front: bool) -> bool:
    """Whether a word says nothing of the values around it."""
    word, touched = match[0], match.string[match.start() - 1 : match.start()].isdigit()
    if len(word) == 1:
        return word == "a" and not touched
    if in_front or kind not in ("operator", "link", "modifier"):
        return kind in _BLANK or (in_front and kind in ("operator", "link"))  # `we multiply 20 * 12`
    # One that has no operand means nothing: `40 times / 2`, `4 times per hour`, `30 square feet`.
    after = _WORD.match(match.string, match.end() + 1)
    is_measure = after is not None and _class(after[0]) in ("per", "unit")
    return is_measure or _NO_OPERAND.match(match.string, match.end()) is not None


def _first(bare: str) -> int:
    """The first number of those at the end of a clause that have an operator between any two."""
    kinds, _, ends = split(bare)
    first, joined = len(bare), True
    for place in range(len(kinds) - 1, 0, -1):
        if kinds[place] == "number":
            if not joined:
                break
            first, joined = ends[place - 1], False
        joined = joined or kinds[place] in BINARY
    return first


def _abbreviates(kinds: list[str], at: int) -> bool:
    """Whether a point belongs to the word before it: `8 ft. * 20 sq. ft. =`."""
    after = at + 1 + (kinds[at + 1] == "space")
    return kinds[at] == "." and kinds[at - 1] in PLAIN_WORDS and kinds[after] in BINARY | {"=", "unit"}
