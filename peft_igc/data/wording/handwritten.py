"""Texts with slots by many hands, in JSON lines: read from files, and filled with numbers that satisfy them.

A line has `text` with the slots `{a}` `{b}` `{c}` `{d}`; `operator` (`+ - * /` or `none`); `order` (`ab` or `ba`: the
calculator's operands, `ab` of sums and products; `{a}` comes first in the text); `constraints` among `a>b`, `b>a`,
`b|a` (a is a multiple of b), `a|b`, `small` (up to 100), `year` and `distinct`. In: such texts and a generator. Out: a
text with its operator and operands, which are right by construction. The package's own are in `by_hand/`, one file per
author; `HELD_OUT` says which authors are never trained. Texts are held out by file, not by hash.
"""

import functools
import random
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...numbers.calculator import NO_ARITHMETIC
from ..files import placed_rows
from ..mixture import Mixture, happens
from .phrases import fill, of_length, with_places


_FOLDER = Path(__file__).parent / "by_hand"
# Authors of whom no text is trained: those whose texts fit `confidence`, those whose texts measure the outcome, and a
# further one, whose texts nobody has read.
HELD_OUT = {
    "calibrated": tuple("followups workplace elementary everyone ordinary puzzled stories talkedabout".split()),
    "measured": ("otherhands", "news", "repeated", "gamesandcode", "situations"),
    "further": ("chatwindow",),
}

_OPERATORS = (*"+-*/", NO_ARITHMETIC)
_CONSTRAINTS = {"a>b", "b>a", "b|a", "a|b", "small", "year", "distinct"}
_APART = ({"a>b", "b>a"}, {"a>b", "a|b"}, {"b>a", "b|a"}, {"small", "year"})  # no numbers meet both
_SLOT = re.compile(r"\{([abcd])\}")
# Numbers that touch a letter or such a sign (`{a}kg`, `{a}-fold`, `{a},{b}`, `🍎{a}`) are not read: they get a space.
_TOUCHING = re.compile(
    r"(?<=[^\W_]|[&,.:∙´`\U00010000-\U0010ffff])(?=\{[ab]\})|(?<=\{[ab]\})(?=[^\W_]|[&:∙!'´`]|-[^\W\d_])"
)
# A number that counts nothing: only such a one may be negative, or an amount of money, or have a unit.
_BARE = (
    r"(?<![\w$€£#.,:=/\"'-])\{%s\}(?=[.?!]*$|[.?!,;:]+\s|\s*[-+*/×÷=)]|\s+(?:and|plus|minus|times|by|from|to|over)\b)"
)
_MEASURED = re.compile(
    r"[$€£%°]|\b(?:dollars?|euros?|pounds?|cents?|bucks?|price|cost|kg|grams?|km|m|cm|mm|miles?|hours?|minutes?)\b",
    re.IGNORECASE,
)
_CURRENCIES, _UNITS = ("$", "$", "€", "£"), ("kg", "km", "m", "cm", "g", "l", "miles", "hours", "euros", "dollars")
_NEGATIVE, _MONEY, _UNIT = 0.15, 0.06, 0.06  # shares of the texts that may have them


class Handwritten(NamedTuple):
    """A text with slots, as its line has it; `bare`: whether its numbers count nothing; `function`: that which a text
    without one of the four operations asks for, if it is marked."""

    text: str
    operator: str
    order: str
    constraints: frozenset[str]
    bare: bool
    function: str = NO_ARITHMETIC


def read_texts(files: str | Path | Iterable[str | Path]) -> tuple[Handwritten, ...]:
    """The texts of one file or several.

    Raises:
        FileNotFoundError: No such file.
        ValueError: A line that is no such text; the message names file and line.
    """
    paths = [files] if isinstance(files, str | Path) else files
    rows = (row for path in paths for row in placed_rows(path, "that is a text with slots"))
    return tuple(_checked(row, where) for where, row in rows)


def files_by(part: str) -> list[Path]:
    """The files of the authors of a part: "trained", or one of `HELD_OUT`."""
    every = {file.stem for file in _FOLDER.glob("*.jsonl")}
    names = HELD_OUT.get(part, sorted(every.difference(*HELD_OUT.values())))
    return [_FOLDER / f"{name}.jsonl" for name in names]


@functools.cache
def texts_by(part: str) -> tuple[Handwritten, ...]:
    """The package's texts by the authors of a part: "trained", or one of `HELD_OUT`.

    A few bare texts (`{a} times {b}`) have several authors. They are not trained if one of them is held out.
    """
    found = read_texts(files_by(part))
    known = {one.text for part in HELD_OUT for one in texts_by(part)} if part not in HELD_OUT else set()
    return tuple(one for one in found if one.text not in known)


def _checked(row: dict[str, object], where: str) -> Handwritten:
    text, operator, order, constraints = (row.get(name) for name in ("text", "operator", "order", "constraints"))
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f'{where}: "text" must be a text, got {text!r}.')
    if operator not in _OPERATORS:
        raise ValueError(f'{where}: "operator" must be one of {", ".join(_OPERATORS)}, got {operator!r}.')
    if operator != NO_ARITHMETIC and (order not in ("ab", "ba") or not {"a", "b"} <= set(_SLOT.findall(text))):
        raise ValueError(f'{where}: a calculation needs the slots {{a}} and {{b}} and "order" `ab` or `ba`: {text!r}.')
    if not isinstance(constraints, list) or not _CONSTRAINTS.issuperset(constraints):
        known = ", ".join(sorted(_CONSTRAINTS))
        raise ValueError(f'{where}: "constraints" must be a list of {known}, got {constraints!r}.')
    for pair in _APART:
        if pair.issubset(constraints):
            raise ValueError(f'{where}: "constraints" that contradict: {", ".join(sorted(pair))}. Leave one out.')
    if operator in ("+", "*") and order != "ab":  # either is right, and a reader of both would be sure of neither
        raise ValueError(f'{where}: "order" of a sum or a product must be `ab`, the order of the text: {text!r}.')
    exact = {"ab": "b|a", "ba": "a|b"}[str(order)] if operator == "/" else None
    if exact and exact not in constraints:
        raise ValueError(f'{where}: a division in the order `{order}` needs the constraint "{exact}". Add it.')
    limited = not {"small", "year"}.isdisjoint(constraints)
    if operator != NO_ARITHMETIC:
        text = _TOUCHING.sub(" ", text)
    bare = not limited and not _MEASURED.search(text) and all(re.search(_BARE % slot, text) for slot in "ab")
    function = str(row.get("operation", NO_ARITHMETIC))
    return Handwritten(text, str(operator), str(order), frozenset(constraints), bare, function)


def draw(
    chosen: Handwritten, rng: random.Random, mixture: Mixture, max_digits: int
) -> tuple[str, str, tuple[str, str] | None]:
    """The text with its numbers, its operator and its operands in the calculator's order.

    They have up to `max_digits` digits where the text does not want small ones, and are written as the mixture says.
    """
    numbers, template = _numbers(chosen.constraints, max_digits, mixture.multiples, rng), chosen.text
    decoration, form = rng.random() if chosen.bare else 1.0, "{}"
    if decoration < _NEGATIVE:
        numbers = _signed(numbers, chosen.constraints, rng)
    elif decoration < _NEGATIVE + _MONEY:
        form = f"{rng.choice(_CURRENCIES)}{{}}"
    elif decoration < _NEGATIVE + _MONEY + _UNIT:
        form = f"{{}} {rng.choice(_UNITS)}"
    for slot in chosen.order[:1] if chosen.operator in "*/" else "ab":  # of factors only the first has a unit
        template = template.replace(f"{{{slot}}}", form.format(f"{{{slot}}}"))
    values = {slot: str(number) for slot, number in numbers.items()}
    if not chosen.constraints & {"small", "year"}:
        ordered = not chosen.constraints.isdisjoint({"a>b", "b>a"})
        shown = with_places([*values.values()], mixture.decimals, rng, ordered)
        values = dict(zip(values, shown, strict=True))
    mixture = replace(mixture, separators=0.0) if "year" in chosen.constraints else mixture
    text = fill(template, values, mixture, rng)
    operands = None if chosen.operator == NO_ARITHMETIC else (values[chosen.order[0]], values[chosen.order[1]])
    return text, chosen.operator, operands


def _numbers(constraints: frozenset[str], max_digits: int, multiples: float, rng: random.Random) -> dict[str, int]:
    """Positive numbers for all slots that satisfy the constraints; lengths of two are equal in half of the cases.

    In a fraction `multiples` of those without such a constraint, one of two is a multiple of the other one.
    """
    asked = not constraints.isdisjoint({"b|a", "a|b"})
    either = not asked and "year" not in constraints and happens(multiples, rng)
    while True:
        if constraints & {"small", "year"}:
            drawn = [rng.randint(*((1900, 2099) if "year" in constraints else (1, 100))) for _ in range(4)]
        else:
            length = rng.randint(1, max_digits)
            lengths = [length] * 4 if rng.random() < 0.5 else [rng.randint(1, max_digits) for _ in range(4)]
            drawn = [of_length(digits, rng) for digits in lengths]
        b, a = sorted(drawn[:2]) if constraints & {"a>b", "b>a"} else (drawn[1], drawn[0])
        if asked or either:  # a becomes a multiple of b, which has any length up to that of a
            b = min(of_length(rng.randint(1, len(str(a))), rng), a)
            a -= a % b
        if constraints & {"b>a", "a|b"} or (either and "a>b" not in constraints and rng.randrange(2)):
            a, b = b, a
        differ = a != b or not constraints & {"a>b", "b>a"}
        if differ and ("distinct" not in constraints or len({a, b, *drawn[2:]}) == 4):
            return dict(zip("abcd", (a, b, *drawn[2:]), strict=True))


def _signed(numbers: dict[str, int], constraints: frozenset[str], rng: random.Random) -> dict[str, int]:
    """The numbers with one or both of the first two negative, so that the constraints still hold."""
    a, b = rng.choice(((-1, 1), (1, -1), (-1, -1)))
    a, b = a * numbers["a"], b * numbers["b"]
    if ("a>b" in constraints and a < b) or ("b>a" in constraints and b < a):  # 5 > -8, and -5 > -8
        a, b = (b, a) if a < 0 and b < 0 else (-a, -b)
    return numbers | {"a": a, "b": b}
