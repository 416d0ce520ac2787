"""Texts as people type them in a hurry: slips of the keyboard, small letters or capitals, no punctuation.

In: a text with a request or without one. Out: the same text, typed so. Words of fewer than four letters, numbers and
the signs between them stay as they are, so what is asked stays the same. Code, quotations and forms stay whole.
Try it: `pytest tests/data/test_wording.py -k casual`
"""

import random
import re


__all__ = ["casual"]

_KEYS = "qwertyuiop asdfghjkl zxcvbnm"
_WHOLE = re.compile(r"[\n\"]|print\(|\w\(")
# `negative 58` is a number, and a word next to a digit may be a unit or a part of one.
_WORD = re.compile(r"(?<![\w.'])(?!(?i:negative|minus)\b)[A-Za-z]{4,}(?![\w.'])")
_GAP = re.compile(r"(?<=[a-z]{2}) (?=[a-z]{3})(?!(?i:negative|minus)\b)")
_SLIPS = (0, 0, 0, 1, 1, 1, 2, 2, 3)  # of a text


def casual(text: str, rng: random.Random) -> str:
    """The text, typed in a hurry."""
    if _WHOLE.search(text):
        return text
    for _ in range(rng.choice(_SLIPS)):
        text = _slipped(text, rng)
    if rng.random() < 0.4:
        text = re.sub(r"(?<=\w\w)[.?!]+$", "", text)
    if rng.random() < 0.3:
        text = text.replace("'", "")
    draw = rng.random()
    if draw < 0.55:
        return text.lower()
    return text.upper() if draw < 0.6 else text


def _slipped(text: str, rng: random.Random) -> str:
    """The text with one slip: letters that are swapped, left out, doubled, or typed one key aside, or no space."""
    places = [*_WORD.finditer(text), *_GAP.finditer(text)]
    if not places:
        return text
    place = rng.choice(places)
    if place[0] == " ":
        return text[: place.start()] + text[place.end() :] if rng.random() < 0.3 else text
    at = place.start() + rng.randrange(1, len(place[0]) - 1)
    here, after = text[at], text[at + 1]
    key = _KEYS.index(here.lower())
    aside = rng.choice(_KEYS[max(key - 1, 0) : key + 2].replace(" ", "").replace(here.lower(), ""))
    return text[:at] + rng.choice((after + here, after, here + here + after, aside + after)) + text[at + 2 :]
