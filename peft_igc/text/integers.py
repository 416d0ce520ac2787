"""The integers of a text that may be operands: where they are, and whether they are whole.

In: characters. Out: `Integer`s. One that touches a decimal point, a letter, `%`, an exponent, or a sign that is not
known to leave a number whole, is broken: it gives no answer, because a part of a number would give a wrong one. Signs
and values with a point are not decided here, see `literals`. Try it: `pytest tests/text/test_integers.py`
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .pieces import CONTROL


__all__ = ["JOINTS", "MINUSES", "Integer", "ends_in_minus", "integers"]

_RUN = re.compile(r"[0-9]+(?:,[0-9]+)*")
_WHOLE = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+")  # `1,234`, but not `12,34` or `0,123`
_EXCLAIMED = re.compile(r"!+")
MINUSES = "-\u2212"
_APOSTROPHES = "'\u2019"
_FIXED_SPACES = "\u00a0\u2007\u2009\u202f"  # thousands separators in many countries
JOINTS = frozenset(".,:" + _APOSTROPHES + _FIXED_SPACES)  # tokens that join two numbers to another one
_MARKS = frozenset(".,:" + _APOSTROPHES + MINUSES)
_CURRENCIES = "$€£¥₹₩₽₺₫₪₴₱"  # without `¢`, whose numbers are parts of another amount
_LEAVE_WHOLE = frozenset('()[]{}<>?;=+*/|"`×÷·•\u2013—…“”„‘‚«»（）【】「」『』《》〈〉？；＝＋、。')
_LEAVE_WHOLE |= frozenset(_CURRENCIES + CONTROL)


class Integer(NamedTuple):
    """An integer of a text: its characters, and its digits without separators and leading zeros; None if broken."""

    start: int
    end: int
    digits: str | None


def integers(text: str) -> list[Integer]:
    """All integers of a text in their order, whole or broken; `007` has the digits `7`, `000` has `0`."""
    found = []
    for match in _RUN.finditer(text):
        start, end = match.span()
        whole = _WHOLE.fullmatch(match[0]) and _is_whole_before(text, start) and _is_whole_after(text, start, end)
        found.append(Integer(start, end, (match[0].replace(",", "").lstrip("0") or "0") if whole else None))
    return found


def _breaks(char: str) -> bool:
    """Whether a character, `""` for the end of the text, breaks a number that it touches."""
    return not (char == "" or char in _LEAVE_WHOLE or char.isspace() or char in _MARKS or char in "0123456789")


def _is_whole_before(text: str, start: int) -> bool:
    """Whether the text before a number leaves it whole."""
    left, before = text[max(start - 1, 0) : start], text[max(start - 2, 0) : max(start - 1, 0)]
    if left == ".":
        return False
    if left and left in ":" + _APOSTROPHES + _FIXED_SPACES:
        return not before.isdigit()  # `10:30`, `1'000`
    if left and left in MINUSES:
        return before == "!" or not _breaks(before)  # a sign or a subtraction, and not the hyphen of `x-5`
    if left + before == "**":
        return not text[max(start - 3, 0) : start - 2].isdigit()  # a power, or the end of bold type
    return left == "!" or not _breaks(left)


def _is_whole_after(text: str, start: int, end: int) -> bool:
    """Whether the text after a number leaves it whole."""
    right, beyond = text[end : end + 1], text[end + 1 : end + 2]
    if right == ".":
        return not (beyond.isdigit() or _breaks(beyond))  # a decimal, or the end of a sentence
    if right and right in ":" + _FIXED_SPACES:
        return not beyond.isdigit()
    if right and right in _APOSTROPHES:
        return not beyond.isalnum()
    if right and right in MINUSES:
        return not _breaks(beyond)
    if right == "\\":
        return beyond in ("", "(", ")", "[", "]")  # LaTeX: `\(5 + 3\)`
    if right == "!":  # `91 minus 37!` exclaims, `5!` may be a factorial
        after = text[_EXCLAIMED.match(text, end).end() :][:1]  # type: ignore[union-attr]
        return end - start > 1 and not _breaks(after) and not after.isdigit()
    return right + beyond != "**" and not _breaks(right)


def ends_in_minus(text: str) -> bool:
    """Whether a token ends in a sign that a number after it may have: `=-`, but not `x-` or `---`."""
    before = text.rstrip(MINUSES)
    return 0 < len(text) - len(before) < 3 and (before[-1:] == "!" or not _breaks(before[-1:]))
