"""Random drafts from the text files: requests, unsupported arithmetic, texts that ask for nothing, and their context.

The fields of drafts are still open; `phrases` decides which drafts are used, and fills them. `surround`, `sentence`
and `one_of` draw complete texts.
"""

import itertools
import random
import re
from collections.abc import Mapping, Sequence

from .phrases import NUMBERS, UNABLE, Text, choose, drawn, fill_context, line_of, pools, words


Texts = Sequence[str]

THREE, OTHER = "three operands", "other operations"
# The kinds of arithmetic that must never be answered, and those of texts that ask for nothing, with their shares.
KINDS = {THREE: 0.55, "decimals": 0.14, "brackets": 0.14, "exponents": 0.14, "percent": 0.14, OTHER: 0.16}
_SILENT_KINDS = {
    "copying": 0.28, "counting": 0.05, "dates": 0.09, "questions": 0.3, "talk": 0.08, "prose": 0.11, "stories": 0.09,
}  # fmt: skip
# Whole messages in symbols; one in three has no sign of what is asked but the expression.
BARE = ("{x}", "{x}", "{x}=", "{x}=", "{x} =", "{x}?", "{x} = ?", "{x}=?")


_REQUESTS, _SILENT, _UNSUPPORTED = map(pools, ("requests", "silent", "unsupported"))
STORIES: dict[str, list[dict[str, str]]] = pools("stories")["stories"]  # families of word problems, by operator

_FORMS = {"symbols": 0.3, "words": 0.3, "nouns": 0.15, "verbs": 0.25, "whole": 0.2}
_FRAMES: dict[str, Texts] = {
    form: [frame for forms, lines in _REQUESTS["frames"].items() if form in forms.split() for frame in lines]
    for form in _FORMS
}
# Expressions of three to five operands by kind and form: those of `chains`, with all pairs of signs of one kind.
_CHAINS: dict[str, dict[str, Texts]] = {
    kind: {
        form: [
            line.replace("{p}", p).replace("{q}", q)
            for alike in _UNSUPPORTED["signs"][form]
            for p, q in itertools.product(alike, repeat=2)
            for line in lines
        ]
        for form, lines in forms.items()
    }
    for kind, forms in _UNSUPPORTED["chains"].items()
}
_KINDS = {"frame": 0.33, "request": 0.45, "story": 0.22}  # in proportion to the number of phrasings
_SYMBOLS = re.compile(r"[+*/×÷·=−^(]| - |-\{")
_OFTEN = 0.35  # probability of each kind of text around a request
_TWICE = 0.25  # probability of a second sentence
_NONSENSE = 0.3  # fraction of the sentences that make no sense
_MARKS = (".",) * 6 + ("?", "!", "!", ":", ";", "\n", "\n")
# An answer continues such a text, so nothing may follow it.
_OPEN = re.compile(r"(=|:|is|are|_\.?|equals?|makes?|gives?|leaves|results in|to|together)$")


def supported(operator: str, countable: bool, rng: random.Random) -> str:
    """A request for one of the four operations, given by its symbol; a story only of operands that may be counts."""
    kind = rng.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]
    if kind == "story" and countable:
        return _told("question", rng, operator)
    if kind == "frame":
        return _framed(_REQUESTS["expressions"][operator], rng)
    return line_of(_REQUESTS["requests"][operator] + (_REQUESTS["counted"][operator] if countable else []), rng)


def unsupported(kind: str, rng: random.Random) -> str:
    """Arithmetic that the calculator does not support; `kind` is one of `KINDS`."""
    draw = rng.random()
    if kind == THREE and rng.random() < 0.6:
        return _listed(rng) if draw < 0.4 else _further(rng)
    if kind == THREE and draw < 0.2:
        return _told("third", rng)
    if kind in (THREE, "brackets") and draw < 0.45:
        return _framed(_CHAINS[kind], rng)
    if kind != OTHER and draw < 0.7:
        return _touched(kind, rng)
    return _framed(_UNSUPPORTED["expressions"][kind], rng)


def frame(rng: random.Random) -> str:
    """A frame, or a bare form, for an expression in symbols, at `{x}`."""
    return rng.choice(BARE) if rng.random() < 0.45 else line_of(_FRAMES["symbols"], rng)


def silent(rng: random.Random) -> Text:
    """A text that asks for no calculation, with its completion and its kind."""
    (kind,) = rng.choices(tuple(_SILENT_KINDS), tuple(_SILENT_KINDS.values()))
    if kind == "stories":
        return Text(_told("other", rng), kind=kind)
    if kind == "copying" and rng.random() < 0.75:
        copied = _request(0, 0.3, rng) if rng.random() < 0.35 else line_of(_SILENT["content"], rng)
        return Text(line_of(_SILENT["copy"], rng).replace("{x}", copied), copied, kind)
    if kind == "questions" and rng.random() < 0.6:
        operator = rng.choice(tuple(STORIES))
        form = rng.choice(("symbols", "words", "nouns"))
        return Text(_put(_SILENT["about"], _REQUESTS["expressions"][operator][form], rng), kind=kind)
    pool = _SILENT["texts"][kind]
    completion = rng.choices(tuple(pool), [len(lines) for lines in pool.values()])[0]
    return Text(line_of(pool[completion], rng), UNABLE if completion == "unable" else completion, kind)


def _request(stories: float, requests: float, rng: random.Random) -> str:
    """A supported request: a story, a whole request or an expression in a frame, by cumulative shares."""
    operator, draw = rng.choice(tuple(STORIES)), rng.random()
    if draw < stories:
        return _told("question", rng, operator)
    if draw < requests:
        return line_of(_REQUESTS["requests"][operator], rng)
    return _framed(_REQUESTS["expressions"][operator], rng)


def _told(asked: str, rng: random.Random, operator: str | None = None) -> str:
    """A story's setup and then its field `asked`; after a third number the question follows as well."""
    story = rng.choice(STORIES[operator or rng.choice(tuple(STORIES))])
    lines = [story["setup"], story[asked]] + [story["question"]] * (asked == "third")
    return " ".join(choose(line, rng) for line in lines)


def _framed(expressions: Mapping[str, Texts], rng: random.Random) -> str:
    """An expression in a frame, or one of the whole texts if there are any."""
    form = rng.choices(tuple(expressions), [_FORMS[form] for form in expressions])[0]
    return line_of(expressions[form], rng) if form == "whole" else _put(_FRAMES[form], expressions[form], rng)


def _touched(kind: str, rng: random.Random) -> str:
    """A supported request with one or both operands replaced by something else, or with a third operand."""
    operator = rng.choice(tuple(STORIES))
    expressions = _REQUESTS["expressions"][operator]
    if kind == THREE and rng.random() < 0.5:
        return _put(_FRAMES["verbs"], expressions["verbs"], rng, _UNSUPPORTED["tails"])
    if kind == "decimals" and rng.random() < 0.25:
        template = _told("question", rng, operator)
    elif rng.random() < 0.7:
        template = _framed(expressions, rng)
    else:
        template = line_of(_REQUESTS["requests"][operator], rng)
    ways = _UNSUPPORTED["touched"][kind]["symbols" if _SYMBOLS.search(template) else "words"]
    for field in rng.choice((("{a}",), ("{b}",), ("{a}", "{b}"))):
        template = template.replace(field, rng.choice(ways).replace("{n}", field), 1)
    return template


def _listed(rng: random.Random) -> str:
    """Three to five numbers in entries of one form, with a request before or after them."""
    entry, request = rng.choice(_UNSUPPORTED["entries"]), rng.choice(_UNSUPPORTED["requests of lists"])
    chosen, separator = choose(entry, rng), rng.choice(_UNSUPPORTED["separators"])
    fields = NUMBERS[: rng.choice((3, 3, 3, 4, 5))]
    names = ("{name}", "{other}", "Mia", "Omar", "My aunt")
    entries = [
        chosen.replace("{n}", f"{{{field}}}").replace("{thing}", thing).replace("{name}", name)
        for field, thing, name in zip(fields, rng.sample(words("objects"), len(fields)), names, strict=False)
    ]
    listed, asked = separator.join(entries), choose(request, rng)
    end = "" if listed.endswith(")") else rng.choice(("", "."))
    gap = "\n" if "\n" in separator else f"{end or '.'} "
    parts = (listed, gap, asked) if rng.random() < 0.8 else (asked, rng.choice((" ", "\n")), listed)
    return "".join(parts)


def _further(rng: random.Random) -> str:
    """A supported request, and a sentence with a third number that changes the result or the question."""
    request = _request(0.35, 0.7, rng)
    before = not request.endswith((".", "?", "!")) or rng.random() < 0.3
    sentence = line_of(_UNSUPPORTED["further"]["before" if before else "after"], rng)
    gap = rng.choice((" ", " ", " ", "\n"))
    return f"{sentence}{gap}{request}" if before else f"{request}{gap}{sentence}"


def _put(frames: Texts, expressions: Texts, rng: random.Random, tails: Texts = ()) -> str:
    """One of the expressions, with one of the tails after it, in a frame; at `{X}` it has a capital letter."""
    frame, expression = rng.choice(frames), rng.choice(expressions)
    expression += rng.choice(tails) if tails else ""
    template, text = choose(frame, rng), choose(expression, rng)
    return template.replace("{x}", text).replace("{X}", text[:1].upper() + text[1:])


# ---- around a request ----


def surround(text: str, held_out: bool, rng: random.Random) -> str:
    """The request with at least one of: a greeting, sentences or a list number before it, sentences after it."""
    draws = [rng.random() for _ in range(4)]
    if min(draws) > _OFTEN:
        draws[rng.randrange(4)] = 0.0
    greeting, before, item, after = (draw < _OFTEN for draw in draws)
    pieces = [text]
    if after and not _OPEN.search(text):
        pieces.append(_gap(text, rng) + _some(held_out, rng, closing=True))
    if item and "\n" not in "".join(pieces):
        pieces.insert(0, one_of("lists", held_out, rng))
    if before:
        sentences = _some(held_out, rng)
        pieces.insert(0, sentences + _gap(sentences, rng))
    if greeting:
        pieces.insert(0, one_of("greetings", held_out, rng))
    return "".join(pieces)


def sentence(held_out: bool, rng: random.Random) -> str:
    """A sentence, with sense or without; it may end in any punctuation mark or in a new line."""
    if rng.random() < _NONSENSE:
        return fill_context(drawn(lambda: _nonsense(rng), held_out), rng)
    text = one_of("sentences", held_out, rng)
    if text.endswith(".") and rng.random() < 0.2:
        text = text[:-1] + rng.choice(_MARKS)
    return text


def one_of(pool: str, held_out: bool, rng: random.Random) -> str:
    """A text of a pool of `context.toml`, such as `systems`."""
    return fill_context(drawn(lambda: line_of(pools("context")[pool], rng), held_out), rng)


def _some(held_out: bool, rng: random.Random, closing: bool = False) -> str:
    """A sentence, sometimes two; with `closing` perhaps one that only fits after a request."""
    sentences = [
        one_of("closings", held_out, rng) if closing and rng.random() < 0.4 else sentence(held_out, rng)
        for _ in range(1 + (rng.random() < _TWICE))
    ]
    gap = _gap(sentences[0], rng) if len(sentences) > 1 else ""
    return gap.join(sentences)


def _gap(text: str, rng: random.Random) -> str:
    """White space after a text; a new line if no punctuation mark ends it."""
    if text.endswith("\n"):
        return ""
    return rng.choice((" ", " ", " ", "\n", "\n\n")) if text.endswith((".", "?", "!", ":", ";")) else "\n"


def _nonsense(rng: random.Random) -> str:
    """Three to nine words without sense; two numbers never have only an operation between them."""
    said = [rng.choice(words("operating" if rng.random() < 0.3 else "common")) for _ in range(rng.randint(3, 9))]
    for _ in range(rng.choice((0, 1, 1, 2))):
        free = [at for at in range(len(said) + 1) if not any("{" in word for word in said[max(at - 3, 0) : at + 3])]
        if free:
            said.insert(rng.choice(free), rng.choice(("{n}", "{k}", "{m}")))
    if len(said) > 5 and rng.random() < 0.3:
        said[len(said) // 2] += ","
    text = " ".join(said)
    return (text[0].upper() + text[1:] if rng.random() < 0.7 else text) + rng.choice(_MARKS)
