"""Random drafts from the text files: requests, unsupported arithmetic, texts that ask for nothing, and their context.

Most functions draw a `phrases.Text` whose fields are still open; `phrases` decides which drafts are used, and fills
them. `surround`, `sentence` and `one_of` draw complete texts around a request, in sentences of their own.
"""

import functools
import itertools
import random
import re
from collections.abc import Mapping, Sequence

from .phrases import UNABLE, Text, choose, drawn, fill_context, line_of, pools, words


Texts = Sequence[str]

THREE, OTHER = "three operands", "other operations"
# The kinds of arithmetic that must never be answered, and those of texts that ask for nothing, with their shares.
KINDS = {THREE: 0.55, "decimals": 0.14, "brackets": 0.14, "exponents": 0.14, "percent": 0.14, OTHER: 0.16}
SILENT_KINDS = {
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
_KINDS = {"frame": 0.33, "request": 0.45, "story": 0.22}  # in proportion to the number of phrasings
_SYMBOLS = re.compile(r"[+*/×÷·=−^(]| - |-\{")
_OFTEN = 0.35  # probability of each kind of text around a request
_TWICE = 0.25  # probability of a second sentence
_NONSENSE = 0.3  # fraction of the sentences that make no sense
_MARKS = (".",) * 6 + ("?", "!", "!", ":", ";", "\n", "\n")
# An answer continues such a text, so nothing may follow it.
_OPEN = re.compile(r"(=|:|is|are|_\.?|equals?|makes?|gives?|leaves|results in|to|together)$")


def supported(operator: str, countable: bool, rng: random.Random) -> Text:
    """A request for one of the four operations, given by its symbol; a story only of operands that may be counts."""
    kind = rng.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]
    if kind == "story" and countable:
        return _told("question", rng, operator)
    if kind == "frame":
        return _framed(_REQUESTS["expressions"][operator], rng)
    return line_of(_REQUESTS["requests"][operator] + (_REQUESTS["counted"][operator] if countable else []), rng)


def unsupported(kind: str, rng: random.Random) -> Text:
    """Arithmetic that the calculator does not support; `kind` is one of `KINDS`."""
    draw = rng.random()
    if kind == THREE and rng.random() < 0.6:
        return _listed(rng) if draw < 0.4 else _further(rng)
    if kind == THREE and draw < 0.2:
        return _told("third", rng)
    if kind in (THREE, "brackets") and draw < 0.45:
        return _framed(_chains()[kind], rng)
    if kind != OTHER and draw < 0.7:
        return _touched(kind, rng)
    return _framed(_UNSUPPORTED["expressions"][kind], rng)


def frame(rng: random.Random) -> Text:
    """A frame, or a bare form, for an expression in symbols, at `{x}`."""
    return Text(rng.choice(BARE)) if rng.random() < 0.45 else line_of(_FRAMES["symbols"], rng)


def look_alike(rng: random.Random) -> Text:
    """A text with signs between numbers that asks for nothing."""
    return line_of(rng.choice(tuple(pools("look_alikes").values())), rng)


def silent(kind: str, rng: random.Random) -> Text:
    """A text that asks for no calculation, with its completion; `kind` is one of `SILENT_KINDS`."""
    if kind == "stories":
        return _told("other", rng)
    if kind == "copying" and rng.random() < 0.75:
        copied = _quoted(rng) if rng.random() < 0.35 else line_of(_SILENT["content"], rng)
        template = choose(rng.choice(_SILENT["copy"]), rng).replace("{x}", copied.text)
        return Text(template, copied.text)
    if kind == "questions" and rng.random() < 0.6:
        operator = rng.choice(tuple(STORIES))
        form = rng.choice(("symbols", "words", "nouns"))
        return _put(rng.choice(_SILENT["about"]), rng.choice(_REQUESTS["expressions"][operator][form]), rng)
    pool = _SILENT["texts"][kind]
    completion = rng.choices(tuple(pool), [len(lines) for lines in pool.values()])[0]
    return line_of(pool[completion], rng)._replace(completion=UNABLE if completion == "unable" else completion)


def _quoted(rng: random.Random) -> Text:
    """A request that is to be copied, not answered."""
    operator = rng.choice(tuple(STORIES))
    if rng.random() < 0.3:
        return line_of(_REQUESTS["requests"][operator], rng)
    return _framed(_REQUESTS["expressions"][operator], rng)


def _told(asked: str, rng: random.Random, operator: str | None = None) -> Text:
    """A story's setup and then its field `asked`; after a third number the question follows as well."""
    story = rng.choice(STORIES[operator or rng.choice(tuple(STORIES))])
    lines = [story["setup"], story[asked]] + [story["question"]] * (asked == "third")
    return Text(" ".join(choose(line, rng) for line in lines))


def _framed(expressions: Mapping[str, Texts], rng: random.Random) -> Text:
    """An expression in a frame, or one of the whole texts if there are any."""
    form = rng.choices(tuple(expressions), [_FORMS[form] for form in expressions])[0]
    if form == "whole":
        return line_of(expressions[form], rng)
    return _put(rng.choice(_FRAMES[form]), rng.choice(expressions[form]), rng)


def _touched(kind: str, rng: random.Random) -> Text:
    """A supported request with one or both operands replaced by something else, or with a third operand."""
    operator = rng.choice(tuple(STORIES))
    expressions = _REQUESTS["expressions"][operator]
    if kind == THREE and rng.random() < 0.5:
        return _put(rng.choice(_FRAMES["verbs"]), rng.choice(expressions["verbs"]), rng, _UNSUPPORTED["tails"])
    if kind == "decimals" and rng.random() < 0.25:
        draft = _told("question", rng, operator)
    elif rng.random() < 0.7:
        draft = _framed(expressions, rng)
    else:
        draft = line_of(_REQUESTS["requests"][operator], rng)
    template = draft.text
    ways = _UNSUPPORTED["touched"][kind]["symbols" if _SYMBOLS.search(template) else "words"]
    for field in rng.choice((("{a}",), ("{b}",), ("{a}", "{b}"))):
        template = template.replace(field, rng.choice(ways).replace("{n}", field), 1)
    return draft._replace(text=template)


def _listed(rng: random.Random) -> Text:
    """Three to five numbers in entries of one form, with a request before or after them."""
    entry, request = rng.choice(_UNSUPPORTED["entries"]), rng.choice(_UNSUPPORTED["requests of lists"])
    chosen, separator = choose(entry, rng), rng.choice(_UNSUPPORTED["separators"])
    fields = ("{a}", "{b}", "{c}", "{f}", "{g}")[: rng.choice((3, 3, 3, 4, 5))]
    names = ("{name}", "{other}", "Mia", "Omar", "My aunt")
    entries = [
        chosen.replace("{n}", field).replace("{thing}", thing).replace("{name}", name)
        for field, thing, name in zip(fields, rng.sample(words("objects"), len(fields)), names, strict=False)
    ]
    listed, asked = separator.join(entries), choose(request, rng)
    end = "" if listed.endswith(")") else rng.choice(("", "."))
    gap = "\n" if "\n" in separator else f"{end or '.'} "
    parts = (listed, gap, asked) if rng.random() < 0.8 else (asked, rng.choice((" ", "\n")), listed)
    return Text("".join(parts))


def _further(rng: random.Random) -> Text:
    """A supported request, and a sentence with a third number that changes the result or the question."""
    operator = rng.choice(tuple(STORIES))
    draw = rng.random()
    if draw < 0.35:
        draft = _told("question", rng, operator)
    elif draw < 0.7:
        draft = line_of(_REQUESTS["requests"][operator], rng)
    else:
        draft = _framed(_REQUESTS["expressions"][operator], rng)
    before = not draft.text.endswith((".", "?", "!")) or rng.random() < 0.3
    sentence = choose(rng.choice(_UNSUPPORTED["further"]["before" if before else "after"]), rng)
    gap = rng.choice((" ", " ", " ", "\n"))
    parts = (sentence, draft.text) if before else (draft.text, sentence)
    return Text(gap.join(parts))


def _put(frame: str, expression: str, rng: random.Random, tails: Texts = ("",)) -> Text:
    """A template of the frame with one of the expression in it, and a tail after that; `{X}` has a capital letter."""
    tail = rng.choice(tails) if len(tails) > 1 else tails[0]  # without a draw where there is no choice
    frame_text, text = choose(frame, rng), choose(expression + tail, rng)
    return Text(frame_text.replace("{x}", text).replace("{X}", text[:1].upper() + text[1:]))


@functools.cache
def _chains() -> Mapping[str, Mapping[str, Texts]]:
    """Expressions of three to five operands by kind: without brackets (symbols, words) and with them (symbols)."""
    a, b, c, f, g = ("{a}", "{b}", "{c}", "{f}", "{g}")
    symbols, spoken, brackets = [], [], []
    for signs in ("+-*/", "+-×÷", "+-x/"):
        for gap in (" ", "") if signs == "+-*/" else (" ",):
            for p, q in itertools.product((f"{gap}{sign}{gap}" for sign in signs), repeat=2):
                symbols += [f"{a}{p}{b}{q}{c}", f"{a}{p}{b}{q}{c}{q}{f}", f"{a}{p}{b}{q}{c}{p}{f}{q}{g}"]
                brackets += [f"({a}{p}{b}){q}{c}", f"{a}{p}({b}{q}{c})", f"({a}{p}{b}){q}({c}{p}{f})"]
                brackets += [f"{a}{p}({b}{q}{c}){p}{f}"]
    for p, q in itertools.product(("plus", "minus", "times", "divided by"), repeat=2):
        spoken += [f"{a} {p} {b} {q} {c}", f"{a} {p} {b}, {q} {c}", f"{a} {p} {b} and then {q} {c}"]
        spoken += [f"{a} {p} {b} {q} {c} {p} {f}", f"{a} {p} {b} {p} {c} {q} {f} {q} {g}"]
    return {THREE: {"symbols": symbols, "words": spoken}, "brackets": {"symbols": brackets}}


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
        return fill_context(drawn(lambda: _nonsense(rng), held_out).text, rng)
    text = one_of("sentences", held_out, rng)
    if text.endswith(".") and rng.random() < 0.2:
        text = text[:-1] + rng.choice(_MARKS)
    return text


def one_of(pool: str, held_out: bool, rng: random.Random) -> str:
    """A text of a pool of `context.toml`, such as `systems`."""
    return fill_context(drawn(lambda: line_of(pools("context")[pool], rng), held_out).text, rng)


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


def _nonsense(rng: random.Random) -> Text:
    """Three to nine words without sense; two numbers never have only an operation between them."""
    said = [rng.choice(words("operating" if rng.random() < 0.3 else "common")) for _ in range(rng.randint(3, 9))]
    for _ in range(rng.choice((0, 1, 1, 2))):
        free = [at for at in range(len(said) + 1) if not any("{" in word for word in said[max(at - 3, 0) : at + 3])]
        if free:
            said.insert(rng.choice(free), rng.choice(("{n}", "{k}", "{m}")))
    if len(said) > 5 and rng.random() < 0.3:
        said[len(said) // 2] += ","
    text = " ".join(said)
    return Text((text[0].upper() + text[1:] if rng.random() < 0.7 else text) + rng.choice(_MARKS))
