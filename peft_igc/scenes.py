"""What stands around a request: sentences, numbers of lists, greetings, closings and system prompts, put together.

Everything is drawn from `surroundings`, of some parts of its templates (`grammar`); besides, sentences without sense,
of common words, words of operations and at most two numbers, in all forms of punctuation. Whatever stands around a
request is a sentence of its own. It knows nothing of requests. Try it:
`python -c "import random; from peft_igc.scenes import *; print(surround('1 + 1?', TRAINED_ONLY, random.Random(1)))"`.
"""

import random
import re

from . import surroundings
from .grammar import Draft, Part, Parts, drawn, line_of
from .templates import CITIES, MONTHS
from .words import COMMON, OPERATING


__all__ = ["TRAINED_ONLY", "fill_scene", "sentence", "surround", "system"]

TRAINED_ONLY: Parts = frozenset({Part.TRAINED})
_OFTEN = 0.35  # of each kind of text around a request
_TWICE = 0.25  # of the sentences
_NONSENSE = 0.3  # of the sentences
_MARKS = (".",) * 6 + ("?", "!", "!", ":", ";", "\n", "\n")
_OPEN = re.compile(r"(=|:|is|are|_\.?|equals?|makes?|gives?|leaves|results in|to|together)$")  # an answer goes on here


def surround(text: str, parts: Parts, rng: random.Random) -> str:
    """The text with a greeting, sentences, a number of a list before it, or a sentence behind it: one at least.

    Args:
        text: The request, or whatever is meant.
        parts: Which templates may stand around it.
        rng: The row's.
    """
    draws = [rng.random() for _ in range(4)]
    if min(draws) > _OFTEN:
        draws[rng.randrange(4)] = 0.0
    greeting, before, item, behind = (draw < _OFTEN for draw in draws)
    if behind and not _OPEN.search(text):
        text = text + _gap(text, rng) + _some(parts, rng, closing=True)
    if item and "\n" not in text:
        text = _scene(surroundings.LISTS, parts, rng) + text
    if before:
        sentences = _some(parts, rng)
        text = sentences + _gap(sentences, rng) + text
    if greeting:
        text = _scene(surroundings.GREETINGS, parts, rng) + text
    return text


def sentence(parts: Parts, rng: random.Random) -> str:
    """A sentence, with sense or without; it may end in any mark, also in a new line."""
    if rng.random() < _NONSENSE:
        return fill_scene(drawn(lambda: _nonsense(rng), parts), rng)
    text = _scene(surroundings.SENTENCES, parts, rng)
    if text.endswith(".") and rng.random() < 0.2:
        text = text[:-1] + rng.choice(_MARKS)
    return text


def system(parts: Parts, rng: random.Random) -> str:
    """A system prompt."""
    return _scene(surroundings.SYSTEMS, parts, rng)


def fill_scene(template: str, rng: random.Random) -> str:
    """Fills a text of `surroundings`."""
    day, month, year = rng.randint(1, 28), rng.randrange(12), rng.randint(1900, 2099)
    named = MONTHS[month][:3] if rng.random() < 0.5 else MONTHS[month]
    long = rng.randint(1, 10 ** rng.randint(1, 6))
    return template.format(
        n=rng.randint(1, 10 ** rng.randint(1, 3)), m=f"{long:,}" if rng.random() < 0.3 else long,
        k=rng.randint(2, 30), j=rng.randint(2, 12), jj=f"{rng.randrange(100):02}", mm=f"{month + 1:02}",
        dd=f"{day:02}", month=MONTHS[month], year=year, date=f"{day} {named} {year}",
        clock=f"{rng.randrange(24)}:{rng.randrange(60):02}", name=rng.choice(surroundings.PEOPLE),
        city=rng.choice(CITIES), thing=rng.choice(surroundings.OBJECTS),
    )  # fmt: skip


def _scene(pool: tuple[str, ...], parts: Parts, rng: random.Random) -> str:
    """A text of one pool."""
    return fill_scene(drawn(lambda: line_of(pool, rng), parts), rng)


def _some(parts: Parts, rng: random.Random, closing: bool = False) -> str:
    """A sentence, sometimes two; behind a request also what one says there."""
    said = []
    for _ in range(1 + (rng.random() < _TWICE)):
        if closing and rng.random() < 0.4:
            said.append(_scene(surroundings.CLOSINGS, parts, rng))
        else:
            said.append(sentence(parts, rng))
    return said[0] if len(said) == 1 else said[0] + _gap(said[0], rng) + said[1]


def _gap(text: str, rng: random.Random) -> str:
    """White space behind a text; a new line where no mark ends it."""
    if text.endswith("\n"):
        return ""
    return rng.choice((" ", " ", " ", "\n", "\n\n")) if text.endswith((".", "?", "!", ":", ";")) else "\n"


def _nonsense(rng: random.Random) -> Draft:
    """A sentence of three to nine words that means nothing; no two numbers with only an operation between them."""
    words = [rng.choice(OPERATING if rng.random() < 0.3 else COMMON) for _ in range(rng.randint(3, 9))]
    for _ in range(rng.choice((0, 1, 1, 2))):
        free = [at for at in range(len(words) + 1) if not any("{" in word for word in words[max(at - 3, 0) : at + 3])]
        if free:
            words.insert(rng.choice(free), rng.choice(("{n}", "{k}", "{m}")))
    if len(words) > 5 and rng.random() < 0.3:
        words[len(words) // 2] += ","
    text = " ".join(words)
    return ((text[0].upper() + text[1:] if rng.random() < 0.7 else text) + rng.choice(_MARKS),)
