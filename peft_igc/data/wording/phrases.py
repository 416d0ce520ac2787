"""The phrase system: text files with alternatives, which of their texts are trained or held out, and their fields.

A line such as `(Add|Sum up) {a} and {b}(.|, please.)` in a file of `texts` is a *family*; each choice among its
alternatives is a *template*; `{a}` is a field that is filled later. A fixed hash of the whole template decides which
part it belongs to, so the split is the same on every machine and nobody selects it. The hash ignores capitals,
punctuation, spaces and the choice of the sign for "times": no held-out template is a trained one with another full
stop. Plain brackets must not contain alternatives.
"""

import functools
import hashlib
import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from ..mixture import Mixture, happens


# The completion of every row in which the calculator gives no number.
UNABLE = "I cannot compute that."
OPERATOR_WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
# The one form of the BIG-bench arithmetic task, by operator.
BIGBENCH = {symbol: f"What is {{a}} {word} {{b}}?" for symbol, word in OPERATOR_WORDS.items()}

_CHOICE = re.compile(r"\(([^()|]*\|[^()]*)\)")  # innermost first
_ONE_SIGN = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-"})
_IGNORED = re.compile(r"[\s.?:!,;'\"_]")
_HELD_OUT = 6  # one template in 6


class Text(NamedTuple):
    """A drawn text, or a template of one, whose fields are still open."""

    text: str  # The text
    completion: str = UNABLE  # Its completion, for a text that asks for no supported calculation
    kind: str = ""  # The kind of such a text
    thing: str | None = None  # The counted things, if the answer may name them


@functools.cache
def pools(file: str) -> dict[str, Any]:
    """The pools of `texts/file.toml`: lists of lines, in tables."""
    return tomllib.loads((Path(__file__).parent / "texts" / f"{file}.toml").read_text(encoding="utf-8"))


def words(name: str) -> list[str]:
    """One of the lists of `words.toml`."""
    return pools("words")[name]


def _normalized(text: str) -> str:
    return _IGNORED.sub("", text.lower().replace(" x ", "*").translate(_ONE_SIGN))


# The form of BIG-bench is trained whatever its hash is.
_ALWAYS_TRAINED = set(map(_normalized, BIGBENCH.values()))


def is_held_out(template: str) -> bool:
    """Whether a complete template is held out: one in six, the same ones on every machine."""
    text = _normalized(template)
    hashed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    return text not in _ALWAYS_TRAINED and hashed % _HELD_OUT == 0


def choose(line: str, rng: random.Random) -> str:
    """One template of a family; alternatives at one place are equally probable."""
    while match := _CHOICE.search(line):
        line = line[: match.start()] + rng.choice(match[1].split("|")) + line[match.end() :]
    return line


def line_of(lines: Sequence[str], rng: random.Random) -> str:
    """A template of one of these lines."""
    return choose(rng.choice(lines), rng)


def drawn(draft: Callable[[], str], held_out: bool) -> str:
    """The first of the drafts that is held out, or that is not."""
    while is_held_out(found := draft()) != held_out:
        pass
    return found


# ---- fields ----

NUMBERS = ("a", "b", "c", "f", "g")
FIELD = re.compile(r"\{(\w+)\}")
_SYMBOL = re.compile(r"[+*/×÷·=−^]| - ")  # in such texts a negative number is not spelled "negative 5"
# Of the fields of `look_alikes.toml`: the least and the largest number.
_RANGES = {
    "i": (1, 9), "n": (1, 99), "p": (100, 999), "q": (1000, 9999), "y": (1900, 2099), "yy": (10, 99),
    "mo": (1, 12), "da": (1, 28), "h": (0, 23), "mi": (0, 59),
}  # fmt: skip
_OF_LOOK_ALIKES = re.compile(rf"\{{({'|'.join(_RANGES)})\}}")


def fill(template: str, values: Mapping[str, str], mixture: Mixture, rng: random.Random) -> str:
    """Fills the fields of a template that have a value.

    Numbers, those of `NUMBERS`, are written `1,234,567` in a fraction `separators` of the texts. In a fraction
    `spelled_signs` negative ones with nothing next to them are written in brackets or, more often, in words:
    `negative 58`.
    """
    separated, spelled = rng.random() < mixture.separators, rng.random() < mixture.spelled_signs
    in_words = spelled and rng.random() < 0.6 and not _SYMBOL.search(template)

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in NUMBERS or name not in values:
            return values.get(name, match[0])
        digits, before, after = values[name].lstrip("-"), template[: match.start()], template[match.end() :]
        whole, point, places = digits.partition(".")
        shown = f"{int(whole):,}{point}{places}" if separated else digits
        if digits == values[name]:
            return shown
        alone = before[-1:] in ("", " ", "\n") and re.match(r"[)?:;]|[.,]?(\s|$)", after)
        if in_words and alone:
            return f"{'negative' if before.endswith('minus ') else rng.choice(('negative', 'minus'))} {shown}"
        touched = re.match(r"\.[0-9{]|[%²³^!(]|\*\*|\{", after) and not alone
        if (before[-1:] in "+-*/×÷·−" and before and not touched) or (spelled and alone):
            return f"(-{shown})"
        return f"-{shown}"

    return FIELD.sub(value, template)


def of_length(digits: int, rng: random.Random, zero: bool = False) -> int:
    """A number of this length, which is positive, or may be `zero`."""
    return rng.randrange(0 if zero and digits == 1 else 10 ** (digits - 1), 10**digits)


def with_places(numbers: Sequence[str], share: float, rng: random.Random, ordered: bool = False) -> Sequence[str]:
    """Integers, in a share of the draws with a point: all with the same number of places, always so if `ordered`, or
    each with its own."""
    if not happens(share, rng):
        return numbers
    alike = rng.choice((1, 1, 2, 2, 2, 3, 4) if ordered else (1, 1, 2, 2, 2, 3, 4, None))
    return [pointed(one, rng.choice((0, 0, 1, 1, 2, 3)) if alike is None else alike) for one in numbers]


def pointed(digits: str | int, places: int) -> str:
    """The number `digits / 10**places`, with all its places."""
    return f"{Decimal(f'{digits}e-{places}'):f}"


def values_of(numbers: Sequence[str], rng: random.Random, few: bool = False) -> dict[str, str]:
    """Values of all fields of `silent.toml` and `unsupported.toml`, or of the `few` texts, whose words are others."""
    said = rng.choices(words("words"), k=rng.randint(2, 6))
    name, other = rng.sample(words("few names" if few else "people"), 2)
    spelled = ["", ""] if few else rng.choices(words("number words"), k=2)
    first, second = numbers[:2]
    date = str(rng.randint(1, 28)), rng.choice(words("months")), str(rng.randint(1900, 2099))
    return dict(zip(NUMBERS, numbers, strict=False)) | {
        "low": min(first, second, key=Decimal), "high": max(first, second, key=Decimal),
        "spaced": " ".join(first), "joined": first, "first": first[0], "last": first[-1],
        "words": " ".join(said), "word": said[0], "count": str(len(said)),
        "date": " ".join(date), "day": date[0], "month": date[1], "year": date[2],
        "d": str(rng.randrange(not few, 10)), "e": "" if few else str(rng.randrange(10)),
        "w": spelled[0], "u": spelled[1], "name": name, "other": other,
        "thing": rng.choice(words("few things" if few else "objects")), "city": rng.choice(words("cities")),
    }  # fmt: skip


def fill_look_alike(line: str, rng: random.Random) -> str:
    """Fills a line of `look_alikes.toml`; days, months and hours sometimes have a leading zero."""

    def number(match: re.Match[str]) -> str:
        value = rng.randint(*_RANGES[match[1]])
        padded = match[1] in ("mi", "yy") or (match[1] in ("mo", "da") and rng.random() < 0.5)
        return f"{value:02}" if padded else str(value)

    return _OF_LOOK_ALIKES.sub(number, line)


def fill_context(template: str, rng: random.Random) -> str:
    """Fills a template of `context.toml`, whose numbers are no operands."""
    months = words("months")
    day, month, year = rng.randint(1, 28), rng.randrange(12), rng.randint(1900, 2099)
    named = months[month][:3] if rng.random() < 0.5 else months[month]
    long = rng.randint(1, 10 ** rng.randint(1, 6))
    return template.format(
        n=rng.randint(1, 10 ** rng.randint(1, 3)), m=f"{long:,}" if rng.random() < 0.3 else long,
        k=rng.randint(2, 30), j=rng.randint(2, 12), jj=f"{rng.randrange(100):02}", mm=f"{month + 1:02}",
        dd=f"{day:02}", month=months[month], year=year, date=f"{day} {named} {year}",
        clock=f"{rng.randrange(24)}:{rng.randrange(60):02}", name=rng.choice(words("people")),
        city=rng.choice(words("cities")), thing=rng.choice(words("objects")),
    )  # fmt: skip


# ---- typed in a hurry ----

_KEYS = "qwertyuiop asdfghjkl zxcvbnm"
_WHOLE = re.compile(r"[\n\"]|print\(|\w\(")
# `negative 58` is a number, and a word next to a digit may be a unit or a part of one.
_WORD = re.compile(r"(?<![\w.'])(?!(?i:negative|minus)\b)[A-Za-z]{4,}(?![\w.'])")
_GAP = re.compile(r"(?<=[a-z]{2}) (?=[a-z]{3})(?!(?i:negative|minus)\b)")
_SLIPS = (0, 0, 0, 1, 1, 1, 2, 2, 3)  # of a text


def casual(text: str, rng: random.Random) -> str:
    """The text as people type it in a hurry: slips of the keyboard, small letters or capitals, no punctuation.

    Words of fewer than four letters, numbers and the signs between them stay as they are, so what is asked stays the
    same. Code, quotations and forms stay whole.
    """
    if _WHOLE.search(text):
        return text
    for _ in range(rng.choice(_SLIPS)):
        text = _slipped(text, rng)
    if rng.random() < 0.4:
        text = re.sub(r"(?<=\w\w)[.?!]+$", "", text)
    if rng.random() < 0.3:
        text = text.replace("'", "")
    draw = rng.random()
    if draw < 0.55:
        return text.lower()
    return text.upper() if draw < 0.6 else text


def _slipped(text: str, rng: random.Random) -> str:
    """The text with one slip: letters that are swapped, left out, doubled, or typed one key aside, or no space."""
    places = [*_WORD.finditer(text), *_GAP.finditer(text)]
    if not places:
        return text
    place = rng.choice(places)
    if place[0] == " ":
        return text[: place.start()] + text[place.end() :] if rng.random() < 0.3 else text
    at = place.start() + rng.randrange(1, len(place[0]) - 1)
    here, after = text[at], text[at + 1]
    key = _KEYS.index(here.lower())
    aside = rng.choice(_KEYS[max(key - 1, 0) : key + 2].replace(" ", "").replace(here.lower(), ""))
    return text[:at] + rng.choice((after + here, after, here + here + after, aside + after)) + text[at + 2 :]
