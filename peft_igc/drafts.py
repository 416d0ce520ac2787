"""Complete templates of every kind, drawn: requests, arithmetic that is not supported, texts without arithmetic.

Each function gives a `grammar.Draft`: a template whose fields are still open, and the families that it is made of.
Which drafts are used for what, and what numbers stand in them, is `wording`'s. Try it:
`python -c "import random; from peft_igc.drafts import *; print(supported('+', True, random.Random(1))[0])"`.
"""

import functools
import itertools
import random
import re
from collections.abc import Mapping

from . import phrasings, silence
from .grammar import Draft, Part, choose, expand, line_of, part_of
from .stories import STORIES
from .templates import BIGBENCH
from .unsupported import OTHER, TAILS, THREE, TOUCHED, UNSUPPORTED


__all__ = ["all_phrasings", "silent", "supported", "unsupported"]

Texts = tuple[str, ...]

_FORMS = {"symbols": 0.3, "words": 0.3, "nouns": 0.15, "verbs": 0.25, "whole": 0.2}
_FRAMES = {
    form: tuple(f for key, fs in phrasings.FRAMES.items() if form in key.split() for f in fs) for form in _FORMS
}
_KINDS = {"frame": 0.33, "request": 0.45, "story": 0.22}  # as many rows as there are phrasings to learn
_SYMBOLS = re.compile(r"[+*/×÷·=−^(]| - |-\{")


def supported(operator: str, countable: bool, rng: random.Random) -> Draft:
    """A request for one of the four operations.

    Args:
        operator: Its symbol.
        countable: Whether the operands suit a story.
        rng: The row's.
    """
    kind = rng.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]
    if kind == "story" and countable:
        return _told("question", rng, operator)
    if kind == "frame":
        return _framed(phrasings.EXPRESSIONS[operator], rng)
    return line_of(phrasings.REQUESTS[operator] + phrasings.COUNTED[operator] * countable, rng)


def unsupported(kind: str, rng: random.Random) -> Draft:
    """Arithmetic that the calculator does not do, of one of the `unsupported.UNSUPPORTED`."""
    draw = rng.random()
    if kind == THREE and draw < 0.2:
        return _told("third", rng)
    if kind in (THREE, "brackets") and draw < 0.45:
        return _framed(_chains()[kind], rng)
    if kind != OTHER and draw < 0.7:
        return _touched(kind, rng)
    return _framed(UNSUPPORTED[kind], rng)


def silent(kind: str, rng: random.Random) -> tuple[Draft, str]:
    """A text that asks for no calculation, and a template of its completion ("": none).

    Args:
        kind: One of `silence.KINDS`.
        rng: The row's.
    """
    if kind == "stories":
        return _told("other", rng), ""
    if kind == "copying" and rng.random() < 0.75:
        instruction = rng.choice(silence.COPY)
        copied, *families = _quoted(rng) if rng.random() < 0.35 else line_of(silence.CONTENT, rng)
        return (choose(instruction, rng).replace("{x}", copied), instruction, *families), copied
    if kind == "questions" and rng.random() < 0.6:
        operator = rng.choice(tuple(phrasings.EXPRESSIONS))
        form = rng.choice(("symbols", "words", "nouns"))
        about, expression = rng.choice(silence.ABOUT), rng.choice(phrasings.EXPRESSIONS[operator][form])
        return (_put(choose(about, rng), choose(expression, rng)), about, expression), ""
    pool = silence.PLAIN[kind]
    completion = rng.choices(tuple(pool), [len(lines) for lines in pool.values()])[0]
    return line_of(pool[completion], rng), completion


def _quoted(rng: random.Random) -> Draft:
    """A request that is to be copied and not to be answered."""
    operator = rng.choice(tuple(phrasings.REQUESTS))
    if rng.random() < 0.3:
        return line_of(phrasings.REQUESTS[operator], rng)
    return _framed(phrasings.EXPRESSIONS[operator], rng)


@functools.cache
def all_phrasings(operator: str) -> Mapping[str, Part]:
    """All templates that ask for one operation, and where they belong."""
    drafts: list[Draft] = [(BIGBENCH[operator],)]
    for form, expressions in phrasings.EXPRESSIONS[operator].items():
        for frame, expression in itertools.product(_FRAMES[form], expressions):
            pairs = itertools.product(expand(frame), expand(expression))
            drafts += [(_put(*pair), frame, expression) for pair in pairs]
    for line in phrasings.REQUESTS[operator] + phrasings.COUNTED[operator]:
        drafts += [(text, line) for text in expand(line)]
    for story in STORIES[operator]:
        pairs = itertools.product(expand(story.setup), expand(story.question))
        drafts += [(" ".join(pair), story.setup) for pair in pairs]
    return {draft[0]: part_of(*draft) for draft in drafts}


def _told(asked: str, rng: random.Random, operator: str | None = None) -> Draft:
    """A story with that field of it behind the setup; behind a third number comes the question."""
    story = rng.choice(STORIES[operator or rng.choice(tuple(STORIES))])
    lines = [story.setup, getattr(story, asked)] + [story.question] * (asked == "third")
    return " ".join(choose(line, rng) for line in lines), story.setup


def _framed(expressions: Mapping[str, Texts], rng: random.Random) -> Draft:
    """An expression in a frame, or a whole text where there are any."""
    form = rng.choices(tuple(expressions), [_FORMS[form] for form in expressions])[0]
    if form == "whole":
        return line_of(expressions[form], rng)
    frame, expression = rng.choice(_FRAMES[form]), rng.choice(expressions[form])
    return _put(choose(frame, rng), choose(expression, rng)), frame, expression


def _touched(kind: str, rng: random.Random) -> Draft:
    """A supported request in which one operand, or each, is made something else, or a third one follows."""
    operator = rng.choice(tuple(STORIES))
    if kind == THREE and rng.random() < 0.5:
        expressions = phrasings.EXPRESSIONS[operator]["verbs"]
        frame, expression, tail = (rng.choice(lines) for lines in (_FRAMES["verbs"], expressions, TAILS))
        return _put(choose(frame, rng), choose(expression + tail, rng)), frame, expression
    if kind == "decimals" and rng.random() < 0.25:
        draft = _told("question", rng, operator)
    elif rng.random() < 0.7:
        draft = _framed(phrasings.EXPRESSIONS[operator], rng)
    else:
        draft = line_of(phrasings.REQUESTS[operator], rng)
    template, *families = draft
    ways = TOUCHED[kind]["symbols" if _SYMBOLS.search(template) else "words"]
    for field in rng.choice((("{a}",), ("{b}",), ("{a}", "{b}"))):
        template = template.replace(field, rng.choice(ways).replace("{n}", field), 1)
    return template, *families


def _put(frame: str, expression: str) -> str:
    """The frame with the expression in it, at `{X}` with a capital letter."""
    return frame.replace("{x}", expression).replace("{X}", expression[:1].upper() + expression[1:])


@functools.cache
def _chains() -> Mapping[str, Mapping[str, Texts]]:
    """Expressions of three to five operands, in symbols and in words; those with brackets apart."""
    a, b, c, f, g = ("{a}", "{b}", "{c}", "{f}", "{g}")
    symbols, words, brackets = [], [], []
    for signs in ("+-*/", "+-×÷", "+-x/"):
        for gap in (" ", "") if signs == "+-*/" else (" ",):
            for p, q in itertools.product((f"{gap}{sign}{gap}" for sign in signs), repeat=2):
                symbols += [f"{a}{p}{b}{q}{c}", f"{a}{p}{b}{q}{c}{q}{f}", f"{a}{p}{b}{q}{c}{p}{f}{q}{g}"]
                brackets += [f"({a}{p}{b}){q}{c}", f"{a}{p}({b}{q}{c})", f"({a}{p}{b}){q}({c}{p}{f})"]
                brackets += [f"{a}{p}({b}{q}{c}){p}{f}"]
    for p, q in itertools.product(("plus", "minus", "times", "divided by"), repeat=2):
        words += [f"{a} {p} {b} {q} {c}", f"{a} {p} {b}, {q} {c}", f"{a} {p} {b} and then {q} {c}"]
        words += [f"{a} {p} {b} {q} {c} {p} {f}", f"{a} {p} {b} {p} {c} {q} {f} {q} {g}"]
    return {THREE: {"symbols": tuple(symbols), "words": tuple(words)}, "brackets": {"symbols": tuple(brackets)}}
