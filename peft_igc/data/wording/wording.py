"""Wordings: the texts of rows, drawn from the pools of this folder.

A *phrasing* is a complete template: a frame with its expression, a request, or a story with its question. `TRAINING`
draws the trained phrasings. `HELD_OUT` draws the one in six that a hash of the whole template keeps out of training;
their frames, expressions and stories are trained in other combinations, so they measure generalization to new
combinations. `NEW` draws phrasings with a family (a frame, an expression, a story, a line with alternatives) of which
nothing is trained, one family in twenty. All other texts are split in the same way (`grammar`). In: canonical numbers
as strings. Out: texts with these numbers in one of several forms. No labels, no rows, no tensors. Try it:
`python -c "from peft_igc.data.wording.wording import HELD_OUT; print(*HELD_OUT.phrasings('+'), sep='\\n')"`.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from ..mixture import Mixture
from . import casual, context_texts, draw_context, draw_templates, look_alikes, plain_texts, unsupported
from .grammar import Draft, Part, Parts, drawn
from .requests import BIGBENCH, REQUESTS
from .words import CITIES, MONTHS, NUMBER_WORDS, OBJECTS, PEOPLE, UNABLE, WORDS


__all__ = [
    "HELD_OUT",
    "NEW",
    "TRAINING",
    "Text",
    "Wording",
    "answer",
    "cue",
    "derived_fields",
    "draw_date",
]

_FIELD = re.compile(r"\{(\w+)\}")
_SYMBOL = re.compile(r"[+*/×÷·=−^]| - ")  # in such texts a negative number is not spelled "negative 5"
_TERSE = re.compile(r"only|with a number|explanation|brief|short")  # such a text asks for the bare number
_NUMBERS = ("a", "b", "c", "f", "g")
_FIELDS = (*_NUMBERS, *"hijklmnop")
_LITERAL = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")
# Shares of the kinds of texts. Large pools have more, because the least used drafts are preferred (`Wording.used`).
_UNSUPPORTED = dict.fromkeys(unsupported.KINDS, 0.14) | {unsupported.THREE: 0.55, unsupported.OTHER: 0.16}
_SILENT = dict(zip(plain_texts.KINDS, (0.28, 0.05, 0.09, 0.3, 0.08, 0.11, 0.09), strict=True))
# Further shares of the texts without a calculation where `casual` is above 0.
_EVERYDAY = {"stories": 0.2, "mentions": 0.2}


class Text(NamedTuple):
    """A drawn text.

    Attributes:
        text: The text.
        completion: Its completion, if it asks for no supported calculation.
        kind: The kind of such a text: one of `plain_texts.KINDS` or a key of `unsupported.UNSUPPORTED`.
        thing: The counted things, if the answer may name them.
    """

    text: str
    completion: str = ""
    kind: str = ""
    thing: str | None = None


@dataclass(frozen=True)
class Wording:
    """Draws texts of some parts of all pools.

    Args:
        parts: Parts of the requests, and of the texts without a calculation.
        around: Parts of the texts around them.
        used: Number of times that each template was drawn; the least used ones are preferred. None: no preference.
    """

    parts: Parts
    around: Parts
    used: Counter[str] | None = None

    operations: ClassVar[tuple[str, ...]] = tuple(REQUESTS)
    lacks: ClassVar[tuple[str, ...]] = ()  # fractions of a `Mixture` that this wording has no texts for
    system_first: ClassVar[bool] = True  # the system prompt of a row is drawn before its calculation

    def restarted(self) -> "Wording":
        """A copy that counts the templates of one iteration."""
        return replace(self, used=Counter())

    def phrasings(self, operator: str) -> tuple[str, ...]:
        """All templates that ask for this operation, but for those in everyday words."""
        return tuple(text for text, part in draw_templates.all_phrasings(operator).items() if part in self.parts)

    def request(
        self, operator: str, a: str, b: str, rng: random.Random, mixture: Mixture, bigbench: bool = False
    ) -> Text:
        """A calculation in words: a frame, a request or, if the operands may be counts, a story.

        Args:
            operator: One of the four symbols.
            a, b: Canonical numbers in the calculator's order.
            rng: The row's generator.
            mixture: Its `spelled_signs` and `separators` decide how numbers are written.
            bigbench: Use the form of the BIG-bench task.
        """
        if bigbench:
            return Text(_fill(BIGBENCH[operator], {"a": a, "b": b}, rng, mixture))
        first, second = int(a), int(b)
        countable = second >= 0 and first >= (second if operator == "-" else 0) and (operator, b) != ("/", "0")
        everyday = countable and mixture.casual > 0 and rng.random() < mixture.casual
        if everyday:
            draft = drawn(lambda: draw_templates.everyday_request(operator, rng), self.parts, self.used)
        else:
            draft = drawn(lambda: draw_templates.supported(operator, countable, rng), self.parts, self.used)
        thing = rng.choice(OBJECTS)
        name, other = rng.sample(PEOPLE, 2)
        fields = {"a": a, "b": b, "thing": thing, "name": name, "other": other}
        counted = thing if "ow many {thing}" in draft.template else None
        return Text(_fill(draft.template, fields, rng, mixture), thing=counted)

    def without_calculation(
        self, kind: str, draw_number: Callable[[], str], rng: random.Random, mixture: Mixture
    ) -> Text:
        """A text with no calculation that the calculator supports.

        Args:
            kind: `"none"`: no calculation is asked for; `"unsupported"`: another calculation is.
            draw_number: Draws a canonical number that is not negative.
            rng, mixture: As in `request`; numbers are `negative` in a fraction of the texts.
        """
        numbers = [draw_number() for _ in _NUMBERS]
        return (self.plain_text if kind == "none" else self.unsupported_request)(numbers, rng, mixture)

    def unsupported_request(
        self, numbers: Sequence[str], rng: random.Random, mixture: Mixture, kind: str | None = None
    ) -> Text:
        """Arithmetic that the calculator does not support, in the frames of supported arithmetic.

        Args:
            numbers: Five canonical numbers that are not negative; the text uses as many as it needs.
            rng, mixture: As in `without_calculation`.
            kind: A key of `unsupported.UNSUPPORTED`. None: any.
        """
        wanted = kind or rng.choices(tuple(_UNSUPPORTED), tuple(_UNSUPPORTED.values()))[0]
        everyday = mixture.casual > 0 and rng.random() < mixture.casual
        template = drawn(lambda: draw_templates.unsupported(wanted, rng, everyday), self.parts, self.used).template
        if "ow many" in template:
            numbers = _larger_first(numbers)
        if rng.random() < mixture.negative and "{name}" not in template:
            numbers = _some_negative(numbers, rng)
        return Text(_fill(template, _values(numbers, rng), rng, mixture), UNABLE, wanted)

    def plain_text(
        self, numbers: Sequence[str], rng: random.Random, mixture: Mixture, kind: str | None = None
    ) -> Text:
        """A text that asks for no calculation; arguments as in `unsupported_request`, with `plain_texts.KINDS` or
        "mentions"."""

        everyday = mixture.casual > 0
        if kind is None and everyday:
            kind = rng.choices((*_EVERYDAY, None), (*_EVERYDAY.values(), 1 - sum(_EVERYDAY.values())))[0]

        def draft() -> Draft:
            wanted = kind or rng.choices(tuple(_SILENT), tuple(_SILENT.values()))[0]
            return draw_templates.silent(wanted, rng, everyday)._replace(kind=wanted)

        found = drawn(draft, self.parts, self.used)
        if found.kind == "prose" and Part.NEW not in self.parts and rng.random() < 0.5:
            sentences = (draw_context.sentence(self.parts, rng).strip() for _ in range(rng.choice((1, 1, 2, 3))))
            return Text(" ".join(sentences), UNABLE, found.kind)
        completion = found.completion or UNABLE
        if found.kind == "stories":
            numbers = _larger_first(numbers)
        if set(_FIELD.findall(found.template + completion)) <= {"a", "b", "c"} and rng.random() < mixture.negative:
            numbers = _some_negative(numbers, rng)
        values = _values(numbers, rng)
        return Text(_fill(found.template, values, rng, mixture), completion.format(**values), found.kind)

    def expression(self, symbols: str, rng: random.Random) -> Text:
        """An expression in symbols, bare or in a frame that makes a template of these parts with it.

        Args:
            symbols: The text of the expression.
            rng: The row's generator.
        """
        names = iter(_FIELDS)
        shape = _LITERAL.sub(lambda _: f"{{{next(names)}}}", symbols)  # as the pools have it: `({a} + {b}) * {c}`

        def draft() -> Draft:
            frame = draw_templates.frame(rng)
            return Draft(frame.template.replace("{x}", shape), frame.families, completion=frame.template)

        return Text(drawn(draft, self.parts).completion.replace("{x}", symbols))

    def look_alike(self, rng: random.Random) -> Text:
        """A text with signs between numbers that asks for no calculation."""
        draft = drawn(lambda: draw_templates.look_alike(rng), self.parts, self.used)
        return Text(look_alikes.fill(draft.template, rng), UNABLE, draft.kind)

    def surround(self, text: str, rng: random.Random) -> str:
        """The text with a greeting, sentences or a list number before it, or with sentences after it."""
        return draw_context.surround(text, self.around, rng)

    def system(self, rng: random.Random) -> str:
        """A system prompt."""
        return draw_context.system(self.around, rng)

    def typed(self, text: str, rng: random.Random, mixture: Mixture, asks: bool = True) -> str:
        """The text, in a fraction of the rows typed casually; `asks`: whether it asks for a calculation."""
        if mixture.casual > 0 and rng.random() < mixture.casual:
            return casual.casual(text, self.around, rng, asks)
        return text

    def in_context(self, text: str, rng: random.Random, mixture: Mixture) -> str:
        """The text, in a fraction of the rows with other text around it."""
        if rng.random() < mixture.contexts:
            return draw_context.surround(text, self.around, rng)
        return text

    def in_sentence(self, prompt: str, system: str | None, rng: random.Random, mixture: Mixture) -> bool:
        """Whether a row's answer is a sentence: in a fraction of the rows whose prompt ends as one and allows it."""
        chosen = rng.random() < mixture.sentences
        return chosen and prompt.endswith((".", "?", "!")) and not _TERSE.search(f"{system}{prompt}")


def answer(operator: str, a: str, b: str, result: str, thing: str | None, rng: random.Random) -> str:
    """A sentence that contains the result, sometimes twice; `thing` names the counted things."""
    known = thing is not None and rng.random() < 0.5
    template = rng.choice(context_texts.COUNTED if known else context_texts.ANSWERS)
    second = f"({b})" if b.startswith("-") else b
    return template.format(r=result, a=a, b=b, e=f"{a} {operator} {second}", thing=thing)


def cue(text: str, rng: random.Random) -> str:
    """The text, followed by a request to answer in a sentence."""
    return f"{text} {rng.choice(context_texts.CUES)}"


def _larger_first(numbers: Sequence[str]) -> list[str]:
    """The numbers with the larger of the first two in front, so that the other one can be taken from it."""
    return [*sorted(numbers[:2], key=int, reverse=True), *numbers[2:]]


def _some_negative(numbers: Sequence[str], rng: random.Random) -> list[str]:
    """The numbers, about half of them negative."""
    return [f"-{number}" if number != "0" and rng.random() < 0.5 else number for number in numbers]


def draw_date(rng: random.Random) -> tuple[str, str, str]:
    """A day, a month and a year."""
    return str(rng.randint(1, 28)), rng.choice(MONTHS), str(rng.randint(1900, 2099))


def derived_fields(numbers: Sequence[str], words: Sequence[str], date: tuple[str, str, str]) -> dict[str, str]:
    """The fields that follow from the drawn numbers, words and date."""
    first, second = numbers[:2]
    return {
        "low": min(first, second, key=int), "high": max(first, second, key=int),
        "spaced": " ".join(first), "joined": first, "first": first[0], "last": first[-1],
        "words": " ".join(words), "word": words[0], "count": str(len(words)),
        "date": " ".join(date), "day": date[0], "month": date[1], "year": date[2],
    }  # fmt: skip


def _values(numbers: Sequence[str], rng: random.Random) -> dict[str, str]:
    """Values of all fields of `plain_texts` and `unsupported`."""
    words = rng.choices(WORDS, k=rng.randint(2, 6))
    name, other = rng.sample(PEOPLE, 2)
    spelled = rng.choices(NUMBER_WORDS, k=2)
    values = dict(zip(_NUMBERS, numbers, strict=True)) | derived_fields(numbers, words, draw_date(rng))
    return values | {
        "d": str(rng.randrange(1, 10)), "e": str(rng.randrange(10)), "w": spelled[0], "u": spelled[1],
        "name": name, "other": other, "thing": rng.choice(OBJECTS), "city": rng.choice(CITIES),
    }  # fmt: skip


def _fill(template: str, values: Mapping[str, str], rng: random.Random, mixture: Mixture) -> str:
    """Fills the fields of a template; its numbers are written in one of their forms."""
    separated = rng.random() < mixture.separators
    spelled = rng.random() < mixture.spelled_signs
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


TRAINING = Wording(frozenset({Part.TRAINED}), frozenset({Part.TRAINED}))
HELD_OUT = Wording(frozenset({Part.HELD_OUT}), frozenset({Part.HELD_OUT}))
NEW = Wording(frozenset({Part.NEW}), frozenset({Part.TRAINED}))
