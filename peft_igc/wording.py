"""Texts of rows: the pools of phrasings, split into a part to train on and a part held out, and put together.

`TRAINING` and `HELD_OUT` are two `Wording`s. Which text of a pool belongs to which is decided by a fixed hash of the
text, not by hand: about a sixth is held out. Capitals, punctuation, spaces and the sign that means "times" do not
count, so that no held-out text is a trained one with another full stop. A `Wording` draws requests, texts without
arithmetic and what stands around them; numbers go in as canonical strings and are written in one of several forms.
It knows nothing of results, rows or tensors. Try it:
`python -c "from peft_igc.wording import HELD_OUT; print(*HELD_OUT.phrasings('+'), sep='\\n')"`.
"""

import hashlib
import itertools
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from . import phrasings, silence, surroundings
from .templates import BIGBENCH, CITIES, MONTHS, UNABLE, WORDS


__all__ = ["HELD_OUT", "TRAINING", "NumberForms", "Request", "Wording", "answer", "cue", "is_held_out"]

Texts = tuple[str, ...]

_FIELD = re.compile(r"\{(\w+)\}")
_SYMBOL = re.compile(r"[+*/×÷·=−^]| - ")  # in such texts a negative number is not spelled "negative 5"
_NUMBERS = ("a", "b", "c", "f", "g")
_ONE_SIGN = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-"})
_FORMS = ("symbols", "words", "nouns")


def is_held_out(text: str) -> bool:
    """Whether a text of a pool is held out: one in six, by a hash that is the same everywhere."""
    plain = text.lower().replace(" x ", "*").translate(_ONE_SIGN)
    plain = re.sub(r"[\s.?:!,;'\"_]", "", plain)
    return int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=4).digest(), "big") % 6 == 0


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
    """One part of all pools. Fields as in `phrasings`, `silence` and `surroundings`.

    Args:
        frames, unsupported: By form ("symbols", "words", "nouns"); a frame may be in several.
        chains: Expressions of three to five operands, by form.
        expressions: By operator and form.
        requests, stories: By operator.
        refused, plain: Complete texts; the plain ones with their completion.
        greetings, lists, sentences, closings, systems: What may stand around.
    """

    frames: Mapping[str, Texts]
    expressions: Mapping[str, Mapping[str, Texts]]
    requests: Mapping[str, Texts]
    stories: Mapping[str, Texts]
    unsupported: Mapping[str, Texts]
    chains: Mapping[str, Texts]
    refused: Texts
    plain: tuple[tuple[str, str], ...]
    greetings: Texts
    lists: Texts
    sentences: Texts
    closings: Texts
    systems: Texts

    def phrasings(self, operator: str) -> Texts:
        """Every text that asks for this operation, frames filled with each expression."""
        framed = [
            frame.replace("{x}", expression)
            for form, expressions in self.expressions[operator].items()
            for expression in expressions
            for frame in self.frames[form]
        ]
        return tuple(dict.fromkeys([*framed, *self.requests[operator], *self.stories[operator]]))

    def request(
        self, operator: str, a: str, b: str, rng: random.Random, forms: NumberForms, bigbench: bool = False
    ) -> Request:
        """A calculation in words: half of the texts are frames, the others requests and, where they fit, stories.

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
        draw = rng.random()
        if draw < 0.5:
            form = rng.choices(_FORMS, (0.4, 0.4, 0.2))[0]
            template = rng.choice(self.frames[form]).replace("{x}", rng.choice(self.expressions[operator][form]))
        else:
            template = rng.choice((self.stories if countable and draw < 0.75 else self.requests)[operator])
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
        draw = rng.random()
        if draw < 0.2:
            return _fill(rng.choice(self.refused), _values(numbers, rng), rng, forms), UNABLE
        form = rng.choices(_FORMS, (0.45, 0.35, 0.2))[0]
        pool = self.chains if draw < 0.6 and form in self.chains else self.unsupported
        template = rng.choice(self.frames[form]).replace("{x}", rng.choice(pool[form]))
        if rng.random() < forms.negative:
            numbers = _some_negative(numbers, rng)
        return _fill(template, _values(numbers, rng), rng, forms), UNABLE

    def plain_text(self, numbers: Sequence[str], rng: random.Random, forms: NumberForms) -> tuple[str, str]:
        """A text that asks for no calculation, and its completion; arguments as in `unsupported_request`."""
        prompt, completion = rng.choice(self.plain)
        if set(_FIELD.findall(prompt + completion)) <= {"a", "b", "c"} and rng.random() < forms.negative:
            numbers = _some_negative(numbers, rng)
        values = _values(numbers, rng)
        return _fill(prompt, values, rng, forms), completion.format(**values)

    def surround(self, text: str, rng: random.Random) -> str:
        """The text with a greeting, a sentence, a number of a list before it, or a sentence behind it."""
        draws = [rng.random() for _ in range(4)]
        if min(draws) > 0.35:
            draws[rng.randrange(4)] = 0.0
        greeting, sentence, item, behind = (draw < 0.35 for draw in draws)
        if behind and text.endswith((".", "?", "!")):
            closing = rng.choice(self.closings if rng.random() < 0.5 else self.sentences)
            text = f"{text}{rng.choice((' ', ' ', chr(10)))}{_scene(closing, rng)}"
        if item and "\n" not in text:
            text = _scene(rng.choice(self.lists), rng) + text
        if sentence:
            text = f"{_scene(rng.choice(self.sentences), rng)}{rng.choice((' ', ' ', chr(10), chr(10) * 2))}{text}"
        if greeting:
            text = _scene(rng.choice(self.greetings), rng) + text
        return text

    def system(self, rng: random.Random) -> str:
        """A system prompt."""
        return _scene(rng.choice(self.systems), rng)


def answer(operator: str, a: str, b: str, result: str, thing: str | None, rng: random.Random) -> str:
    """A sentence with the result in it, now and then twice; `thing` is what was counted."""
    known = thing is not None and rng.random() < 0.5
    template = rng.choice(surroundings.COUNTED if known else surroundings.ANSWERS)
    second = f"({b})" if b.startswith("-") else b
    return template.format(r=result, a=a, b=b, e=f"{a} {operator} {second}", thing=thing)


def cue(text: str, rng: random.Random) -> str:
    """The text with a request to answer in a sentence behind it."""
    return f"{text} {rng.choice(surroundings.CUES)}"


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


def _scene(template: str, rng: random.Random) -> str:
    """Fills a text of `surroundings`."""
    day, month, year = rng.randint(1, 28), rng.randrange(12), rng.randint(1900, 2099)
    named = MONTHS[month][:3] if rng.random() < 0.5 else MONTHS[month]
    return template.format(
        n=rng.randint(1, 10 ** rng.randint(1, 3)), k=rng.randint(1, 30), j=rng.randint(1, 12),
        jj=f"{rng.randrange(100):02}", mm=f"{month + 1:02}", dd=f"{day:02}", month=MONTHS[month], year=year,
        date=f"{day} {named} {year}", clock=f"{rng.randrange(24)}:{rng.randrange(60):02}",
        name=rng.choice(surroundings.PEOPLE), city=rng.choice(CITIES),
    )  # fmt: skip


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


def _part(held_out: bool) -> Wording:
    """What is held out of all pools, or what is left."""

    def chosen(texts: Iterable[str]) -> Texts:
        return tuple(text for text in texts if is_held_out(text) is held_out)

    def each(pools: Mapping[str, Texts]) -> dict[str, Texts]:
        return {name: chosen(texts) for name, texts in pools.items()}

    frames = each(phrasings.FRAMES)
    plain = [(text, completion or UNABLE) for completion, texts in silence.PLAIN.items() for text in texts]
    return Wording(
        frames={form: sum((texts for key, texts in frames.items() if form in key.split()), ()) for form in _FORMS},
        expressions=phrasings.EXPRESSIONS,
        requests=each(phrasings.REQUESTS),
        stories=each(phrasings.STORIES),
        unsupported=each(silence.UNSUPPORTED),
        chains=each(_chains()),
        refused=chosen(silence.REFUSED),
        plain=tuple((text, completion) for text, completion in plain if is_held_out(text) is held_out),
        greetings=chosen(surroundings.GREETINGS),
        lists=chosen(surroundings.LISTS),
        sentences=chosen(surroundings.SENTENCES),
        closings=chosen(surroundings.CLOSINGS),
        systems=chosen(surroundings.SYSTEMS),
    )


TRAINING, HELD_OUT = _part(held_out=False), _part(held_out=True)
