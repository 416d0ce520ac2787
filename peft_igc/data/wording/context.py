"""Texts around a request: greetings, list numbers, sentences with sense or without, and system prompts.

Sentences without sense are made of common words, words of operations and at most two numbers, with any punctuation.
Everything added to a request is a sentence of its own. In: a request and the parts (`phrases`) whose templates may be
used. Out: the text with its context, or a system prompt. Try it: `pytest tests/data/test_wording.py`.
"""

import random
import re

from .filling import fill_context
from .phrases import Draft, Parts, drawn, line_of, pools, words


__all__ = ["OPEN", "sentence", "surround", "system"]

_POOLS = pools("context")
_OFTEN = 0.35  # probability of each kind of text around a request
_TWICE = 0.25  # probability of a second sentence
_NONSENSE = 0.3  # fraction of the sentences that make no sense
_MARKS = (".",) * 6 + ("?", "!", "!", ":", ";", "\n", "\n")
# An answer continues such a text, so nothing may follow it.
OPEN = re.compile(r"(=|:|is|are|_\.?|equals?|makes?|gives?|leaves|results in|to|together)$")


def surround(text: str, parts: Parts, rng: random.Random) -> str:
    """The text with at least one of: a greeting, sentences or a list number before it, sentences after it.

    Args:
        text: The request.
        parts: The parts whose templates may be used around it.
        rng: The row's generator.
    """
    draws = [rng.random() for _ in range(4)]
    if min(draws) > _OFTEN:
        draws[rng.randrange(4)] = 0.0
    greeting, before, item, after = (draw < _OFTEN for draw in draws)
    pieces = [text]
    if after and not OPEN.search(text):
        pieces.append(_gap(text, rng) + _some(parts, rng, closing=True))
    if item and "\n" not in "".join(pieces):
        pieces.insert(0, _one_of("lists", parts, rng))
    if before:
        sentences = _some(parts, rng)
        pieces.insert(0, sentences + _gap(sentences, rng))
    if greeting:
        pieces.insert(0, _one_of("greetings", parts, rng))
    return "".join(pieces)


def sentence(parts: Parts, rng: random.Random) -> str:
    """A sentence, with sense or without; it may end in any punctuation mark or in a new line."""
    if rng.random() < _NONSENSE:
        return fill_context(drawn(lambda: _nonsense(rng), parts).template, rng)
    text = _one_of("sentences", parts, rng)
    if text.endswith(".") and rng.random() < 0.2:
        text = text[:-1] + rng.choice(_MARKS)
    return text


def system(parts: Parts, rng: random.Random) -> str:
    """A system prompt."""
    return _one_of("systems", parts, rng)


def _one_of(pool: str, parts: Parts, rng: random.Random) -> str:
    """A text of one pool."""
    return fill_context(drawn(lambda: line_of(_POOLS[pool], rng), parts).template, rng)


def _some(parts: Parts, rng: random.Random, closing: bool = False) -> str:
    """A sentence, sometimes two; with `closing` perhaps one that only fits after a request."""
    sentences = []
    for _ in range(1 + (rng.random() < _TWICE)):
        if closing and rng.random() < 0.4:
            sentences.append(_one_of("closings", parts, rng))
        else:
            sentences.append(sentence(parts, rng))
    gap = _gap(sentences[0], rng) if len(sentences) > 1 else ""
    return gap.join(sentences)


def _gap(text: str, rng: random.Random) -> str:
    """White space after a text; a new line if no punctuation mark ends it."""
    if text.endswith("\n"):
        return ""
    return rng.choice((" ", " ", " ", "\n", "\n\n")) if text.endswith((".", "?", "!", ":", ";")) else "\n"


def _nonsense(rng: random.Random) -> Draft:
    """Three to nine words without sense; two numbers never have only an operation between them."""
    said = [rng.choice(words("operating" if rng.random() < 0.3 else "common")) for _ in range(rng.randint(3, 9))]
    for _ in range(rng.choice((0, 1, 1, 2))):
        free = [at for at in range(len(said) + 1) if not any("{" in word for word in said[max(at - 3, 0) : at + 3])]
        if free:
            said.insert(rng.choice(free), rng.choice(("{n}", "{k}", "{m}")))
    if len(said) > 5 and rng.random() < 0.3:
        said[len(said) // 2] += ","
    text = " ".join(said)
    return Draft((text[0].upper() + text[1:] if rng.random() < 0.7 else text) + rng.choice(_MARKS))
