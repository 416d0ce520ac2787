"""Wordings: the texts of rows, drawn from the text files.

A *phrasing* is a complete template: a frame with its expression, a request, or a story with its question. `TRAINING`
draws the trained phrasings. `HELD_OUT` draws the one in six that a hash of the whole template keeps out of training;
their frames, expressions and stories are trained in other combinations, so they measure generalization to new
combinations. New words are those of authors held out (`handwritten`). `FEW` is a small wording, which is not split.
In: canonical numbers as strings. Out: texts with these numbers in one of several forms.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from ..mixture import Mixture
from . import drawing, phrases
from .handwritten import Handwritten, texts_by
from .phrases import BIGBENCH, FIELD, NUMBERS, UNABLE, Text, drawn, is_held_out, line_of, pools, words


_FIELDS = (*NUMBERS, *"hijklmnop")
_LITERAL = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")


@dataclass(frozen=True)
class Wording:
    """Draws texts of all pools.

    Args:
        held_out: Whether the texts are those that are held out, or the trained ones.
        by_hand: Texts with slots of files of your own, from `handwritten.read_texts`; hold them out as whole files.
            None: the package's, by the authors that are trained, or by those that are measured.
    """

    held_out: bool
    by_hand: tuple[Handwritten, ...] | None = None

    # The system prompt of a row is drawn before its calculation; there may be text around a request, and an answer may
    # be a sentence.
    surrounds: ClassVar[bool] = True
    numbers: ClassVar[int] = len(NUMBERS)  # that a text without a supported calculation may need
    lacks: ClassVar[tuple[str, ...]] = ()  # fractions of a `Mixture` that this wording has no texts for

    @property
    def texts(self) -> tuple[Handwritten, ...]:
        """The texts by many hands."""
        return self.by_hand or texts_by("measured" if self.held_out else "trained")

    def request(
        self, operator: str, a: str, b: str, rng: random.Random, mixture: Mixture, bigbench: bool = False
    ) -> Text:
        """A calculation of numbers, in the calculator's order, in words: a frame, a request or, if the operands may be
        counts, a story; or in the form of the BIG-bench task."""
        if bigbench:
            return Text(phrases.fill(BIGBENCH[operator], {"a": a, "b": b}, mixture, rng))
        first, second, is_whole = Decimal(a), Decimal(b), "." not in a + b
        countable = is_whole and second >= 0 and first >= (second if operator == "-" else 0)
        countable = countable and (operator, b) != ("/", "0")
        draft = drawn(lambda: drawing.supported(operator, countable, rng), self.held_out)
        thing = rng.choice(words("objects"))
        name, other = rng.sample(words("people"), 2)
        fields = {"a": a, "b": b, "thing": thing, "name": name, "other": other}
        counted = thing if "ow many {thing}" in draft else None
        return Text(phrases.fill(draft, fields, mixture, rng), thing=counted)

    def unsupported_request(self, numbers: Sequence[str], rng: random.Random, mixture: Mixture) -> Text:
        """Arithmetic that the calculator does not support, in the frames of supported arithmetic, with as many as it
        needs of five canonical numbers that are not negative."""
        (wanted,) = rng.choices(tuple(drawing.KINDS), tuple(drawing.KINDS.values()))
        template = drawn(lambda: drawing.unsupported(wanted, rng), self.held_out)
        if "ow many" in template:
            numbers = _larger_first(numbers)
        if rng.random() < mixture.negative and "{name}" not in template:
            numbers = _some_negative(numbers, rng)
        return Text(phrases.fill(template, phrases.values_of(numbers, rng), mixture, rng), kind=wanted)

    def plain_text(self, numbers: Sequence[str], rng: random.Random, mixture: Mixture) -> Text:
        """A text that asks for no calculation; arguments as in `unsupported_request`."""
        while is_held_out((found := drawing.silent(rng)).text) != self.held_out:
            pass
        if found.kind == "prose" and rng.random() < 0.5:
            sentences = (drawing.sentence(self.held_out, rng).strip() for _ in range(rng.choice((1, 1, 2, 3))))
            return Text(" ".join(sentences), UNABLE, found.kind)
        completion = found.completion
        if found.kind == "stories":
            numbers = _larger_first(numbers)
        if set(FIELD.findall(found.text + completion)) <= {"a", "b", "c"} and rng.random() < mixture.negative:
            numbers = _some_negative(numbers, rng)
        values = phrases.values_of(numbers, rng)
        return Text(phrases.fill(found.text, values, mixture, rng), completion.format(**values), found.kind)

    def expression(self, symbols: str, rng: random.Random) -> str:
        """An expression in symbols, bare or in a frame that makes a template of these parts with it."""
        names = iter(_FIELDS)
        shape = _LITERAL.sub(lambda _: f"{{{next(names)}}}", symbols)  # as the pools have it: `({a} + {b}) * {c}`
        while is_held_out((frame := drawing.frame(rng)).replace("{x}", shape)) != self.held_out:
            pass
        return frame.replace("{x}", symbols)

    def look_alike(self, rng: random.Random) -> Text:
        """A text with signs between numbers that asks for no calculation."""
        kinds = tuple(pools("look_alikes").values())
        return Text(phrases.fill_look_alike(drawn(lambda: line_of(rng.choice(kinds), rng), self.held_out), rng))

    def system(self, rng: random.Random) -> str:
        """A system prompt."""
        return drawing.one_of("systems", self.held_out, rng)


def in_sentences(text: Text, operator: str, a: str, b: str, result: str, rng: random.Random) -> tuple[str, str]:
    """The text with a request to answer in a sentence, and such an answer, with the result in it, sometimes twice."""
    asked = f"{text.text} {rng.choice(pools('context')['cues'])}"
    known = text.thing is not None and rng.random() < 0.5
    template = rng.choice(pools("context")["counted" if known else "answers"])
    second = f"({b})" if b.startswith("-") else b
    return asked, template.format(r=result, a=a, b=b, e=f"{a} {operator} {second}", thing=text.thing)


def _larger_first(numbers: Sequence[str]) -> list[str]:
    """The numbers with the larger of the first two in front, so that the other one can be taken from it."""
    return [*sorted(numbers[:2], key=Decimal, reverse=True), *numbers[2:]]


def _some_negative(numbers: Sequence[str], rng: random.Random) -> list[str]:
    """The numbers, about half of them negative."""
    return [f"-{number}" if number != "0" and rng.random() < 0.5 else number for number in numbers]


class _Few(Wording):
    """A few dozen templates of each operation, without alternatives, for the demonstration of the hidden interface.

    Stories (templates with a `{name}`) suit only counts: no negative operand, and no more is taken away than there is.
    Numbers are plain digits. It puts nothing around a request and draws nothing for that, and it draws a row's system
    prompt last: the recorded runs of the hidden interface trained on rows drawn in this order.
    """

    surrounds = False
    numbers = 3
    lacks = (
        *("unsupported", "spelled_signs", "separators", "contexts", "sentences", "expressions", "look_alikes"),
        *("rounded", "casual", "by_hand", "decimals"),
    )

    def system(self, rng: random.Random) -> str:
        return rng.choice(pools("few")["systems"])

    def request(
        self, operator: str, a: str, b: str, rng: random.Random, mixture: Mixture, bigbench: bool = False
    ) -> Text:
        if bigbench:
            return Text(BIGBENCH[operator].format(a=a, b=b))
        templates, first, second = pools("few")["requests"][operator], int(a), int(b)
        if min(first, second) < 0 or (operator == "-" and first < second):
            templates = [text for text in templates if "{name}" not in text]
        template, name, thing = rng.choice(templates), rng.choice(words("few names")), rng.choice(words("few things"))
        return Text(template.format(a=a, b=b, name=name, thing=thing))

    def plain_text(self, numbers: Sequence[str], rng: random.Random, mixture: Mixture) -> Text:
        values = phrases.values_of(numbers, rng, few=True)
        prompt, completion = rng.choice(pools("few")["silent"])
        return Text(prompt.format(**values), completion.format(**values))


TRAINING = Wording(held_out=False)
HELD_OUT = Wording(held_out=True)
FEW = _Few(held_out=False)
