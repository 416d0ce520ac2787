"""Casual writing: how people type when they are in a hurry, as a change of any text with a request or without one.

In: a text of the other pools. Out: the same text with some of a lead, a tail, a clause of common words without sense,
small letters, no full stop, short spellings (`whats`, `pls`) and slips of the keyboard. What stands from the first
number to the last one is left as it is, but for capitals and two letters that change places in the name of an
operation (`mnius`): what is asked stays the same. Leads, tails and clauses have no numbers; they are split into
trained and held-out ones as all other texts (`grammar`).
Try it: `pytest tests/data/test_wording.py -k casual`
"""

import random
import re
from collections.abc import Callable

from .context import OPEN
from .phrases import Draft, Parts, choose, drawn, line_of, pools, words


__all__ = ["casual"]

_POOLS = pools("casual")
ENDS = ("", "", "", "??", " ?", "...", "!", "?!")
BEHIND_NUMBERS = ENDS[:5]  # a sign of exclamation would be a factorial, and a point that of a decimal
JOINTS = (", ", ", ", ": ", "... ", " so ", " but ", ". ", "; ", " and ")  # of a clause and what stands after it
_SHORT = {long: short.split(", ") for long, short in (line.split(": ") for line in _POOLS["short"])}
_SHORTENED = re.compile(rf"\b({'|'.join(sorted(_SHORT, key=len, reverse=True))})\b", re.IGNORECASE)
_WORD = re.compile(r"(?<![\w.'])[a-z]{5,}(?![\w.'])")
_NUMBERS = re.compile(r"[-+(\[$€£]?[0-9].*[0-9][)\]%!²³]*|[0-9]", re.DOTALL)  # from the first one to the last one
_LONG_NUMBER = re.compile(r"[A-Za-z] ([3-9][0-9]|[0-9][0-9,]*[0-9]{2})$")  # nobody asks in words for its factorial
_KEPT = frozenset(words("kept"))
_SWAPPED = re.compile(r"(?<= )(plus|minus|times|divided|multiplied|subtract)(?= )", re.IGNORECASE)
_PLAIN = [word for word in words("common") if word not in _KEPT.union(words("quantities"))]
_WHOLE = re.compile(r"[\n\"]|print\(|\w\(")  # code, quotations and forms stay as they are


def casual(text: str, parts: Parts, rng: random.Random, asks: bool = True) -> str:
    """The text, typed casually.

    Args:
        text: A text with a request, or without one.
        parts: The parts whose leads and tails may be used.
        rng: The row's generator.
        asks: Whether it asks for a calculation, so that a tail may ask for it again.
    """
    if OPEN.search(text) or _WHOLE.search(text):
        return text
    if rng.random() < 0.5:
        text = _around_numbers(text, lambda part: _SHORTENED.sub(lambda match: _shortened(match[0], rng), part))
    if rng.random() < 0.25:
        text = _around_numbers(text, lambda part: _slipped(part, rng))
    if asks and rng.random() < 0.06:
        text = _SWAPPED.sub(lambda match: _swapped(match[0], rng), text, count=1)
    if rng.random() < 0.6 and re.search(r"[^0-9)]!$|[.?]$", text):
        text = text[:-1].rstrip()
        text += rng.choice(BEHIND_NUMBERS if text[-1:].isdigit() or text[-1:] in ")]" else ENDS)
    if rng.random() < 0.35:
        tails = _POOLS["tails"] + (_POOLS["forms"] + _POOLS["asking tails"] * 2 if asks else [])
        tail = choose(drawn(lambda: line_of(tails, rng), parts).template, rng)
        text = text.rstrip(" ?." if tail[0] in "?,." else "") + tail
    elif rng.random() < 0.12:
        text = text.rstrip(" .") + rng.choice(JOINTS[:-1]) + _clause(parts, rng)
    if rng.random() < 0.35:
        leads = _POOLS["leads"] + (_POOLS["asking leads"] if asks else [])
        lead = choose(drawn(lambda: line_of(leads, rng), parts).template, rng)
        text = lead + (text[0].lower() + text[1:])
    elif rng.random() < 0.18:
        text = _clause(parts, rng) + rng.choice(JOINTS) + (text[0].lower() + text[1:])
    if _LONG_NUMBER.search(text) and rng.random() < 0.15:
        text += rng.choice(("!", "!!"))
    draw = rng.random()
    if draw < 0.6:
        return text.lower()
    return text.upper() if draw < 0.63 else text


def _clause(parts: Parts, rng: random.Random) -> str:
    """Two to seven common words without sense, none of which names an operation."""
    return drawn(lambda: Draft(" ".join(rng.choices(_PLAIN, k=rng.randint(2, 7)))), parts).template


def _swapped(name: str, rng: random.Random) -> str:
    """The name of an operation, in which two letters have changed places."""
    at = rng.randrange(1, len(name) - 2)
    return name[:at] + name[at + 1] + name[at] + name[at + 2 :]


def _around_numbers(text: str, change: Callable[[str], str]) -> str:
    """The text with a change of what stands before its first number, and of what stands after its last one."""
    found = _NUMBERS.search(text)
    if found is None:
        return change(text)
    return change(text[: found.start()]) + found[0] + change(text[found.end() :])


def _shortened(words: str, rng: random.Random) -> str:
    """A short spelling of words of `_SHORT`, or the words."""
    return rng.choice(_SHORT[words.lower()]) if rng.random() < 0.6 else words


def _slipped(text: str, rng: random.Random) -> str:
    """The text with a slip of the keyboard in a word that names no operation."""
    words = [match for match in _WORD.finditer(text) if match[0] not in _KEPT]
    if not words:
        return text
    word = rng.choice(words)
    at = word.start() + rng.randrange(1, len(word[0]) - 2)
    pair = text[at : at + 2]
    return text[:at] + rng.choice((pair[::-1], pair[0], pair[0] + pair)) + text[at + 2 :]
