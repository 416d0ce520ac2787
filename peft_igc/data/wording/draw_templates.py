"""Drafts of texts: requests, arithmetic that is not supported, and texts without arithmetic.

Each function draws a `grammar.Draft`, a template whose fields are still open. It neither decides which drafts are used
nor fills them: see `wording`. Try it: `pytest tests/data/test_wording.py -k phrasing`.
"""

import functools
import itertools
import random
import re
from collections.abc import Mapping

from . import everyday, plain_texts, requests
from .grammar import Draft, Part, choose, expand, line_of, part_of
from .look_alikes import LOOK_ALIKES
from .stories import CROSSED, STORIES, TRICKS
from .symbol_expressions import BARE
from .unsupported import (
    ENTRIES,
    FURTHER,
    OTHER,
    REQUESTS_OF_LISTS,
    SEPARATORS,
    TAILS,
    THREE,
    TOUCHED,
    UNSUPPORTED,
)
from .words import OBJECTS


__all__ = ["all_phrasings", "everyday_request", "frame", "look_alike", "silent", "supported", "unsupported"]

Texts = tuple[str, ...]

_FORMS = {"symbols": 0.3, "words": 0.3, "nouns": 0.15, "verbs": 0.25, "whole": 0.2}
_FRAMES = {form: tuple(f for key, fs in requests.FRAMES.items() if form in key.split() for f in fs) for form in _FORMS}
_EVERYDAY = {
    form: fs + tuple(f for key, more in everyday.FRAMES.items() if form in key.split() for f in more)
    for form, fs in _FRAMES.items()
}
_MENTIONS = [(forms, frame) for forms, frames in plain_texts.MENTIONS.items() for frame in frames]
_KINDS = {"frame": 0.33, "request": 0.45, "story": 0.22}  # in proportion to the number of phrasings
# Questions that a hasty person may mean for another story, too: `20 players form groups of 4. How many is that?`
_VAGUE = re.compile(
    r"How (many|much|many dollars|high|far) (is|are) (that|these|it)\b|How much is left|dollars are left|"
    r"[Ww]hat is (the total|it now|that)|does (a single )?one( of them)? cost|many (is it|are in each)"
)
_SYMBOLS = re.compile(r"[+*/×÷·=−^(]| - |-\{")


def supported(operator: str, countable: bool, rng: random.Random) -> Draft:
    """A request for one of the four operations.

    Args:
        operator: Its symbol.
        countable: Whether the operands may be counts, as in stories.
        rng: The row's generator.
    """
    kind = rng.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]
    if kind == "story" and countable:
        return _told("question", rng, operator)
    if kind == "frame":
        return _framed(requests.EXPRESSIONS[operator], rng)
    return line_of(requests.REQUESTS[operator] + requests.COUNTED[operator] * countable, rng)


def everyday_request(operator: str, rng: random.Random) -> Draft:
    """A request in everyday words for one of the four operations; the operands are counts."""
    return _framed(everyday.EXPRESSIONS[operator], rng, _EVERYDAY)


def unsupported(kind: str, rng: random.Random, everyday: bool = False) -> Draft:
    """Arithmetic that the calculator does not support; `kind` is a key of `unsupported.UNSUPPORTED`.

    With `everyday` its frames are also those of `everyday`, so that no frame tells what is supported.
    """
    draw, frames = rng.random(), _EVERYDAY if everyday else _FRAMES
    if kind == THREE and rng.random() < 0.6:
        return _listed(rng) if draw < 0.4 else _further(rng)
    if kind == THREE and draw < 0.2:
        return _told("third", rng)
    if kind in (THREE, "brackets") and draw < 0.45:
        return _framed(_chains()[kind], rng, frames)
    if kind != OTHER and draw < 0.7:
        return _touched(kind, rng, frames)
    return _framed(UNSUPPORTED[kind], rng, frames)


def frame(rng: random.Random) -> Draft:
    """A frame, or a bare form, for an expression in symbols, at `{x}`."""
    if rng.random() < 0.45:
        return Draft(rng.choice(BARE))
    line = rng.choice(_FRAMES["symbols"])
    return Draft(choose(line, rng), (line,))


def look_alike(rng: random.Random) -> Draft:
    """A text with signs between numbers that asks for nothing; `kind` says what it looks like."""
    kind = rng.choice(tuple(LOOK_ALIKES))
    return line_of(LOOK_ALIKES[kind], rng)._replace(kind=kind)


def silent(kind: str, rng: random.Random, everyday: bool = False) -> Draft:
    """A text that asks for no calculation, with its completion; `kind` is one of `plain_texts.KINDS` or "mentions".

    With `everyday` most stories look as if they asked for a calculation: `stories.CROSSED`, `stories.TRICKS`.
    """
    if kind == "mentions":
        return _mentioned(rng)
    if kind == "stories":
        draw = rng.random() if everyday else 1.0
        return _crossed(rng) if draw < 0.3 else line_of(TRICKS, rng) if draw < 0.65 else _told("other", rng)
    if kind == "copying" and rng.random() < 0.75:
        instruction = rng.choice(plain_texts.COPY)
        copied = _quoted(rng) if rng.random() < 0.35 else line_of(plain_texts.CONTENT, rng)
        template = choose(instruction, rng).replace("{x}", copied.template)
        return Draft(template, (instruction, *copied.families), copied.template)
    if kind == "questions" and rng.random() < 0.6:
        operator = rng.choice(tuple(requests.EXPRESSIONS))
        form = rng.choice(("symbols", "words", "nouns"))
        return _put(rng.choice(plain_texts.ABOUT), rng.choice(requests.EXPRESSIONS[operator][form]), rng)
    pool = plain_texts.PLAIN[kind]
    completion = rng.choices(tuple(pool), [len(lines) for lines in pool.values()])[0]
    return line_of(pool[completion], rng)._replace(completion=completion)


def _mentioned(rng: random.Random) -> Draft:
    """A text that names a calculation and asks for something else."""
    forms, frame = rng.choice(_MENTIONS)
    expressions = rng.choice((requests.EXPRESSIONS, everyday.EXPRESSIONS))[rng.choice(tuple(requests.EXPRESSIONS))]
    return _put(frame, rng.choice(expressions[rng.choice(forms.split())]), rng)


def _quoted(rng: random.Random) -> Draft:
    """A request that is to be copied, not answered."""
    operator = rng.choice(tuple(requests.REQUESTS))
    if rng.random() < 0.3:
        return line_of(requests.REQUESTS[operator], rng)
    return _framed(requests.EXPRESSIONS[operator], rng)


@functools.cache
def all_phrasings(operator: str) -> Mapping[str, Part]:
    """The part of each template that asks for one operation, but for those in everyday words."""
    made: list[tuple[str, ...]] = [(requests.BIGBENCH[operator],)]
    for form, expressions in requests.EXPRESSIONS[operator].items():
        for frame, expression in itertools.product(_FRAMES[form], expressions):
            pairs = itertools.product(expand(frame), expand(expression))
            made += [(_inserted(*pair), frame, expression) for pair in pairs]
    for line in requests.REQUESTS[operator] + requests.COUNTED[operator]:
        made += [(text, line) for text in expand(line)]
    for story in STORIES[operator]:
        pairs = itertools.product(expand(story.setup), expand(story.question))
        made += [(" ".join(pair), story.setup) for pair in pairs]
    return {template: part_of(template, *families) for template, *families in made}


def _told(asked: str, rng: random.Random, operator: str | None = None) -> Draft:
    """A story's setup and then its field `asked`; after a third number the question follows as well."""
    story = rng.choice(STORIES[operator or rng.choice(tuple(STORIES))])
    lines = [story.setup, getattr(story, asked)] + [story.question] * (asked == "third")
    return Draft(" ".join(choose(line, rng) for line in lines), (story.setup,))


def _crossed(rng: random.Random) -> Draft:
    """The setup of one operation with the question of another one, which has no calculation as its answer."""
    operator = rng.choice(tuple(CROSSED))
    setup = rng.choice(STORIES[operator]).setup
    asks = [choose(story.question, rng) for other in CROSSED[operator] for story in STORIES[other]]
    clear = [question for question in asks if not _VAGUE.search(question)]
    return Draft(f"{choose(setup, rng)} {rng.choice(clear)}", (setup,))


def _framed(expressions: Mapping[str, Texts], rng: random.Random, frames: Mapping[str, Texts] = _FRAMES) -> Draft:
    """An expression in a frame, or one of the whole texts if there are any."""
    form = rng.choices(tuple(expressions), [_FORMS[form] for form in expressions])[0]
    if form == "whole":
        return line_of(expressions[form], rng)
    return _put(rng.choice(frames[form]), rng.choice(expressions[form]), rng)


def _touched(kind: str, rng: random.Random, frames: Mapping[str, Texts]) -> Draft:
    """A supported request with one or both operands replaced by something else, or with a third operand."""
    operator = rng.choice(tuple(STORIES))
    if kind == THREE and rng.random() < 0.5:
        verbs = requests.EXPRESSIONS[operator]["verbs"]
        frame, expression, tail = rng.choice(frames["verbs"]), rng.choice(verbs), rng.choice(TAILS)
        return _put(frame, expression, rng, tail)
    if kind == "decimals" and rng.random() < 0.25:
        draft = _told("question", rng, operator)
    elif rng.random() < 0.7:
        draft = _framed(requests.EXPRESSIONS[operator], rng, frames)
    else:
        draft = line_of(requests.REQUESTS[operator], rng)
    template = draft.template
    ways = TOUCHED[kind]["symbols" if _SYMBOLS.search(template) else "words"]
    for field in rng.choice((("{a}",), ("{b}",), ("{a}", "{b}"))):
        template = template.replace(field, rng.choice(ways).replace("{n}", field), 1)
    return draft._replace(template=template)


def _listed(rng: random.Random) -> Draft:
    """Three to five numbers in entries of one form, with a request before or after them."""
    entry, request = rng.choice(ENTRIES), rng.choice(REQUESTS_OF_LISTS)
    chosen, separator = choose(entry, rng), rng.choice(SEPARATORS)
    fields = ("{a}", "{b}", "{c}", "{f}", "{g}")[: rng.choice((3, 3, 3, 4, 5))]
    names = ("{name}", "{other}", "Mia", "Omar", "My aunt")
    entries = [
        chosen.replace("{n}", field).replace("{thing}", thing).replace("{name}", name)
        for field, thing, name in zip(fields, rng.sample(OBJECTS, len(fields)), names, strict=False)
    ]
    listed, asked = separator.join(entries), choose(request, rng)
    end = "" if listed.endswith(")") else rng.choice(("", "."))
    gap = "\n" if "\n" in separator else f"{end or '.'} "
    parts = (listed, gap, asked) if rng.random() < 0.8 else (asked, rng.choice((" ", "\n")), listed)
    return Draft("".join(parts), (entry, request))


def _further(rng: random.Random) -> Draft:
    """A supported request, and a sentence with a third number that changes the result or the question."""
    operator = rng.choice(tuple(STORIES))
    draw = rng.random()
    if draw < 0.35:
        draft = _told("question", rng, operator)
    elif draw < 0.7:
        draft = line_of(requests.REQUESTS[operator], rng)
    else:
        draft = _framed(requests.EXPRESSIONS[operator], rng)
    before = not draft.template.endswith((".", "?", "!")) or rng.random() < 0.3
    line = rng.choice(FURTHER["before" if before else "after"])
    sentence, gap = choose(line, rng), rng.choice((" ", " ", " ", "\n"))
    parts = (sentence, draft.template) if before else (draft.template, sentence)
    return Draft(gap.join(parts), (line, *draft.families))


def _put(frame: str, expression: str, rng: random.Random, tail: str = "") -> Draft:
    """A template of the frame with one of the expression (and its tail) in it."""
    return Draft(_inserted(choose(frame, rng), choose(expression + tail, rng)), (frame, expression))


def _inserted(frame: str, expression: str) -> str:
    """The frame with the expression in it, at `{X}` with a capital letter."""
    return frame.replace("{x}", expression).replace("{X}", expression[:1].upper() + expression[1:])


@functools.cache
def _chains() -> Mapping[str, Mapping[str, Texts]]:
    """Expressions of three to five operands by kind: without brackets (symbols, words) and with them (symbols)."""
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
