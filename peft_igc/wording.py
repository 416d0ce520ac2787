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

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from . import drafts, phrasings, scenes, silence, surroundings
from .grammar import Draft, Part, Parts, drawn
from .templates import BIGBENCH, CITIES, MONTHS, UNABLE, WORDS
from .unsupported import KINDS, OTHER, THREE


__all__ = ["HELD_OUT", "NEW", "TRAINING", "NumberForms", "Refused", "Request", "Wording", "answer", "cue"]

Texts = tuple[str, ...]

_FIELD = re.compile(r"\{(\w+)\}")
_SYMBOL = re.compile(r"[+*/×÷·=−^]| - ")  # in such texts a negative number is not spelled "negative 5"
_NUMBERS = ("a", "b", "c", "f", "g")
# Where what came least often is preferred (`Wording.used`), large pools get more than these shares.
_UNSUPPORTED = dict.fromkeys(KINDS, 0.14) | {THREE: 0.28, OTHER: 0.16}
_SILENT = dict(zip(silence.KINDS, (0.28, 0.05, 0.09, 0.3, 0.08, 0.11, 0.09), strict=True))


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


class Refused(NamedTuple):
    """A text that the calculator has nothing to say to.

    Attributes:
        text: The text.
        completion: What may be said to it.
        kind: One of `silence.KINDS` or of `unsupported.UNSUPPORTED`.
    """

    text: str
    completion: str
    kind: str


@dataclass(frozen=True)
class Wording:
    """Draws texts of some parts of all pools.

    Args:
        parts: Of requests, and of texts without any.
        around: Of what stands around them.
        used: Counts the templates that were drawn, and prefers those that were drawn least. None: none is preferred.
            `ArithmeticRows` begins a count of its own with every iteration.
    """

    parts: Parts
    around: Parts
    used: Counter[str] | None = None

    @property
    def operations(self) -> Texts:
        """The symbols that there are words for."""
        return tuple(phrasings.REQUESTS)

    def phrasings(self, operator: str) -> Texts:
        """Every template that asks for this operation."""
        return tuple(text for text, part in drafts.all_phrasings(operator).items() if part in self.parts)

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

        template = drawn(lambda: drafts.supported(operator, countable, rng), self.parts, self.used)
        thing = rng.choice(surroundings.OBJECTS)
        name, other = rng.sample(surroundings.PEOPLE, 2)
        fields = {"a": a, "b": b, "thing": thing, "name": name, "other": other}
        return Request(_fill(template, fields, rng, forms), thing if "ow many {thing}" in template else None)

    def unsupported_request(
        self, numbers: Sequence[str], rng: random.Random, forms: NumberForms, kind: str | None = None
    ) -> Refused:
        """Arithmetic that the calculator does not do, in the frames of what it does.

        Args:
            numbers: Five canonical numbers that are not negative; as many as the text needs are used.
            rng, forms: As in `request`.
            kind: One of `unsupported.UNSUPPORTED`. None: any.
        """
        wanted = kind or rng.choices(tuple(_UNSUPPORTED), tuple(_UNSUPPORTED.values()))[0]
        template = drawn(lambda: drafts.unsupported(wanted, rng), self.parts, self.used)
        if "ow many" in template:
            numbers = _taken_away(numbers)
        if rng.random() < forms.negative and "{name}" not in template:
            numbers = _some_negative(numbers, rng)
        return Refused(_fill(template, _values(numbers, rng), rng, forms), UNABLE, wanted)

    def plain_text(
        self, numbers: Sequence[str], rng: random.Random, forms: NumberForms, kind: str | None = None
    ) -> Refused:
        """A text that asks for no calculation; arguments as in `unsupported_request`, but `silence.KINDS`."""
        origins: dict[str, tuple[str, str]] = {}  # of a template: its kind and its completion

        def draft() -> Draft:
            wanted = kind or rng.choices(tuple(_SILENT), tuple(_SILENT.values()))[0]
            found, completion = drafts.silent(wanted, rng)
            origins[found[0]] = (wanted, completion)
            return found

        template = drawn(draft, self.parts, self.used)
        wanted, completion = origins[template]
        if wanted == "prose" and Part.NEW not in self.parts and rng.random() < 0.5:
            text = " ".join(scenes.sentence(self.parts, rng).strip() for _ in range(rng.choice((1, 1, 2, 3))))
            return Refused(text, UNABLE, wanted)
        completion = completion or UNABLE
        if wanted == "stories":
            numbers = _taken_away(numbers)
        if set(_FIELD.findall(template + completion)) <= {"a", "b", "c"} and rng.random() < forms.negative:
            numbers = _some_negative(numbers, rng)
        values = _values(numbers, rng)
        return Refused(_fill(template, values, rng, forms), completion.format(**values), wanted)

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


def _taken_away(numbers: Sequence[str]) -> list[str]:
    """The larger of the first two first, so that it is there to be taken from."""
    return [*sorted(numbers[:2], key=int, reverse=True), *numbers[2:]]


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
    in_words = spelled and rng.random() < 0.6 and not _SYMBOL.search(template)

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
        touched = re.match(r"\.[0-9{]|[%²³^!(]|\*\*|\{", after) and not alone
        if (before[-1:] in "+-*/×÷·−" and before and not touched) or (spelled and alone):
            return f"(-{written})"
        return f"-{written}"

    return _FIELD.sub(write, template)


def _of(parts: Iterable[Part], around: Part) -> Wording:
    return Wording(frozenset(parts), frozenset({around}))


TRAINING = _of({Part.TRAINED}, Part.TRAINED)
HELD_OUT = _of({Part.HELD_OUT}, Part.HELD_OUT)
NEW = _of({Part.NEW}, Part.TRAINED)
