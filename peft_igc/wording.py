"""Texts of rows: the pools of families of texts, split by complete template, and put together.

A *phrasing* is a complete template: a frame with its expression put in, a request, a story with its question.
`TRAINING` draws what is trained. `HELD_OUT` draws the one in six phrasings that a fixed hash of the whole template
keeps out of training: their frames, expressions and stories *are* trained, in other combinations, so this measures
whether combinations carry over. `NEW` draws phrasings of the one family in twenty (a frame, an expression, a story, a
line with alternatives) of which nothing is trained; that is farther away. Texts without arithmetic, arithmetic that is
not supported, and what stands around a request are split in the same way (`grammar`). A `Wording` writes numbers,
given as canonical strings, in one of several forms. It knows nothing of results, rows or tensors. Try it:
`python -c "from peft_igc.wording import HELD_OUT; print(*HELD_OUT.phrasings('+'), sep='\\n')"`.
"""

import functools
import itertools
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from . import phrasings, scenes, silence, surroundings
from .grammar import Draft, Part, Parts, choose, drawn, expand, line_of, part_of
from .stories import STORIES
from .templates import BIGBENCH, CITIES, MONTHS, UNABLE, WORDS


__all__ = ["HELD_OUT", "NEW", "TRAINING", "NumberForms", "Request", "Wording", "answer", "cue"]

Texts = tuple[str, ...]

_FIELD = re.compile(r"\{(\w+)\}")
_SYMBOL = re.compile(r"[+*/×÷·=−^]| - ")  # in such texts a negative number is not spelled "negative 5"
_NUMBERS = ("a", "b", "c", "f", "g")
_FORMS = {"symbols": 0.3, "words": 0.3, "nouns": 0.15, "verbs": 0.25}
_FRAMES = {
    form: tuple(f for key, fs in phrasings.FRAMES.items() if form in key.split() for f in fs) for form in _FORMS
}
_KINDS = {"frame": 0.55, "request": 0.2, "story": 0.25}


@dataclass(frozen=True)
class NumberForms:
    """How numbers are written, as fractions of 0..1.

    Args:
        negative: Of the texts without arithmetic, the part in which numbers may be negative.
        spelled_signs: Of the negative numbers, the part written `(-58)` or, in words, `negative 58`.
        separators: Of the texts, the part in which numbers of four digits and more are written `1,234,567`.
    """

    negative: float = 0.0
    spelled_signs: float = 0.0
    separators: float = 0.0


class Request(NamedTuple):
    """A text that asks for a calculation.

    Attributes:
        text: The text.
        thing: What is counted, if the answer may name it.
    """

    text: str
    thing: str | None = None


@dataclass(frozen=True)
class Wording:
    """Draws texts of some parts of all pools.

    Args:
        parts: Of requests, and of texts without any.
        around: Of what stands around them.
    """

    parts: Parts
    around: Parts

    @property
    def operations(self) -> Texts:
        """The symbols that there are words for."""
        return tuple(phrasings.REQUESTS)

    def phrasings(self, operator: str) -> Texts:
        """Every template that asks for this operation."""
        return tuple(text for text, part in _phrasings(operator).items() if part in self.parts)

    def request(
        self, operator: str, a: str, b: str, rng: random.Random, forms: NumberForms, bigbench: bool = False
    ) -> Request:
        """A calculation in words: frames, requests and, where they fit, stories.

        Args:
            operator: One of the four symbols.
            a, b: Canonical numbers in the calculator's order.
            rng: The row's.
            forms: How numbers are written.
            bigbench: Use the form of the BIG-bench task.
        """
        if bigbench:
            return Request(_fill(BIGBENCH[operator], {"a": a, "b": b}, rng, forms))
        first, second = int(a), int(b)
        countable = second >= 0 and first >= (second if operator == "-" else 0) and (operator, b) != ("/", "0")

        def draft() -> Draft:
            kind = rng.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]
            if kind == "story" and countable:
                return _told(operator, "question", rng)
            if kind == "frame":
                return _framed(phrasings.EXPRESSIONS[operator], rng)
            return line_of(phrasings.REQUESTS[operator] + phrasings.COUNTED[operator] * countable, rng)

        template = drawn(draft, self.parts)
        thing = rng.choice(surroundings.OBJECTS)
        name, other = rng.sample(surroundings.PEOPLE, 2)
        fields = {"a": a, "b": b, "thing": thing, "name": name, "other": other}
        return Request(_fill(template, fields, rng, forms), thing if "ow many {thing}" in template else None)

    def unsupported_request(self, numbers: Sequence[str], rng: random.Random, forms: NumberForms) -> tuple[str, str]:
        """Arithmetic that the calculator does not do, in the frames of what it does, and a completion.

        Args:
            numbers: Five canonical numbers that are not negative; as many as the text needs are used.
            rng, forms: As in `request`.
        """

        def draft() -> Draft:
            draw = rng.random()
            if draw < 0.2:
                return line_of(silence.REFUSED, rng)
            return _framed(_CHAINS if draw < 0.6 else silence.UNSUPPORTED, rng)

        template = drawn(draft, self.parts)
        if rng.random() < forms.negative:
            numbers = _some_negative(numbers, rng)
        return _fill(template, _values(numbers, rng), rng, forms), UNABLE

    def plain_text(self, numbers: Sequence[str], rng: random.Random, forms: NumberForms) -> tuple[str, str]:
        """A text that asks for no calculation, and its completion; arguments as in `unsupported_request`."""
        completions = tuple(silence.PLAIN)
        weights = tuple(len(lines) for lines in silence.PLAIN.values())
        found = ""

        def draft() -> Draft:
            nonlocal found
            found = rng.choices(completions, weights)[0]
            return line_of(silence.PLAIN[found], rng)

        prompt = drawn(draft, self.parts)
        completion = found or UNABLE
        if set(_FIELD.findall(prompt + completion)) <= {"a", "b", "c"} and rng.random() < forms.negative:
            numbers = _some_negative(numbers, rng)
        values = _values(numbers, rng)
        return _fill(prompt, values, rng, forms), completion.format(**values)

    def surround(self, text: str, rng: random.Random) -> str:
        """The text with a greeting, sentences, a number of a list before it, or a sentence behind it."""
        return scenes.surround(text, self.around, rng)

    def system(self, rng: random.Random) -> str:
        """A system prompt."""
        return scenes.system(self.around, rng)


def answer(operator: str, a: str, b: str, result: str, thing: str | None, rng: random.Random) -> str:
    """A sentence with the result in it, now and then twice; `thing` is what was counted."""
    known = thing is not None and rng.random() < 0.5
    template = rng.choice(surroundings.COUNTED if known else surroundings.ANSWERS)
    second = f"({b})" if b.startswith("-") else b
    return template.format(r=result, a=a, b=b, e=f"{a} {operator} {second}", thing=thing)


def cue(text: str, rng: random.Random) -> str:
    """The text with a request to answer in a sentence behind it."""
    return f"{text} {rng.choice(surroundings.CUES)}"


def _told(operator: str, asked: str, rng: random.Random) -> Draft:
    """A story, with that field of it behind the setup; a third number also before the question."""
    story = rng.choice(STORIES[operator])
    lines = [story.setup, getattr(story, asked)] + [story.question] * (asked == "third")
    return " ".join(choose(line, rng) for line in lines), story.setup


def _framed(expressions: Mapping[str, Texts], rng: random.Random) -> Draft:
    """An expression in a frame."""
    form = rng.choices(tuple(expressions), [_FORMS[form] for form in expressions])[0]
    frame, expression = rng.choice(_FRAMES[form]), rng.choice(expressions[form])
    return _put(choose(frame, rng), choose(expression, rng)), frame, expression


def _put(frame: str, expression: str) -> str:
    """The frame with the expression in it, at `{X}` with a capital letter."""
    return frame.replace("{x}", expression).replace("{X}", expression[:1].upper() + expression[1:])


@functools.cache
def _phrasings(operator: str) -> dict[str, Part]:
    """All templates of one operation, and where they belong."""
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


def _some_negative(numbers: Sequence[str], rng: random.Random) -> list[str]:
    """Numbers of which some got a minus."""
    return [f"-{number}" if number != "0" and rng.random() < 0.5 else number for number in numbers]


def _values(numbers: Sequence[str], rng: random.Random) -> dict[str, str]:
    """What the fields of `silence` stand for."""
    first, second = numbers[:2]
    words = rng.choices(WORDS, k=rng.randint(2, 6))
    name, other = rng.sample(surroundings.PEOPLE, 2)
    spelled = rng.choices(surroundings.NUMBER_WORDS, k=2)
    day, month, year = str(rng.randint(1, 28)), rng.choice(MONTHS), str(rng.randint(1900, 2099))
    return dict(zip(_NUMBERS, numbers, strict=True)) | {
        "d": str(rng.randrange(1, 10)), "e": str(rng.randrange(10)), "w": spelled[0], "u": spelled[1],
        "low": min(first, second, key=int), "high": max(first, second, key=int),
        "spaced": " ".join(first), "joined": first, "first": first[0], "last": first[-1],
        "words": " ".join(words), "word": words[0], "count": str(len(words)),
        "date": f"{day} {month} {year}", "day": day, "month": month, "year": year,
        "name": name, "other": other, "thing": rng.choice(surroundings.OBJECTS), "city": rng.choice(CITIES),
    }  # fmt: skip


def _fill(template: str, values: Mapping[str, str], rng: random.Random, forms: NumberForms) -> str:
    """Fills a template; the numbers among its fields are written in one of their forms."""
    separated = rng.random() < forms.separators
    spelled = rng.random() < forms.spelled_signs
    in_words = spelled and rng.random() < 0.5 and not _SYMBOL.search(template)

    def write(match: re.Match[str]) -> str:
        value = values[match[1]]
        if match[1] not in _NUMBERS:
            return value
        before, after = template[: match.start()], template[match.end() :]
        digits = value.lstrip("-")
        written = f"{int(digits):,}" if separated else digits
        if digits == value:
            return written
        alone = before[-1:] in ("", " ", "\n") and re.match(r"[)?:;]|[.,]?(\s|$)", after)
        if in_words and alone:
            return f"{'negative' if before.endswith('minus ') else rng.choice(('negative', 'minus'))} {written}"
        if before[-1:] in "+-*/×÷·−" and before or (spelled and alone):
            return f"(-{written})"
        return f"-{written}"

    return _FIELD.sub(write, template)


def _chains() -> dict[str, Texts]:
    """Expressions of three to five operands, in symbols with and without brackets, and in words."""
    a, b, c, f, g = ("{a}", "{b}", "{c}", "{f}", "{g}")
    symbols, words = [], []
    for signs in ("+-*/", "+-×÷", "+-x/"):
        for gap in (" ", "") if signs == "+-*/" else (" ",):
            for p, q in itertools.product((f"{gap}{sign}{gap}" for sign in signs), repeat=2):
                symbols += [f"{a}{p}{b}{q}{c}", f"({a}{p}{b}){q}{c}", f"{a}{p}({b}{q}{c})"]
                symbols += [f"({a}{p}{b}){q}({c}{p}{f})", f"{a}{p}{b}{q}{c}{q}{f}", f"{a}{p}({b}{q}{c}){p}{f}"]
                symbols += [f"{a}{p}{b}{q}{c}{p}{f}{q}{g}"]
    for p, q in itertools.product(("plus", "minus", "times", "divided by"), repeat=2):
        words += [f"{a} {p} {b} {q} {c}", f"{a} {p} {b}, {q} {c}", f"{a} {p} {b} and then {q} {c}"]
        words += [f"{a} {p} {b} {q} {c} {p} {f}", f"{a} {p} {b} {p} {c} {q} {f} {q} {g}"]
    return {"symbols": tuple(dict.fromkeys(symbols)), "words": tuple(words)}


_CHAINS = _chains()


def _of(parts: Iterable[Part], around: Part) -> Wording:
    return Wording(frozenset(parts), frozenset({around}))


TRAINING = _of({Part.TRAINED}, Part.TRAINED)
HELD_OUT = _of({Part.HELD_OUT}, Part.HELD_OUT)
NEW = _of({Part.NEW}, Part.TRAINED)
