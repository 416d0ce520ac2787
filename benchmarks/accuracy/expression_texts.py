"""Texts with expressions in symbols: some have a value, and some must be refused.

In: a seed. Out: `Sample`s, each with its text and its exact value by `fractions`, or None where the text must be
refused: there is no value, or the text was spoilt on purpose. An expression is built from its value upwards, so no
parser takes part. Spaces, glyphs, brackets, currencies, percentages, units and preceding texts are drawn.
The words are in `benchmarks/data/expression_texts.json`. Try it: `pytest tests/benchmarks/test_commands.py`
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple


__all__ = ["DIGITS", "WORDS", "Sample", "filled", "samples", "written"]

DIGITS = 40  # of operands, results and intermediate values
MAX_OPERANDS = 8
SPOILT, WITH_UNITS = 0.35, 0.04  # shares of the texts
ENDLESS = 10**6  # digits of a value that does not end
GLYPHS = {"+": "+", "-": "-−", "*": "*×·x", "/": "/÷", "^": ("^", "**"), "of": ("of",)}
LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "of": 2, "sign": 3, "^": 4, "literal": 5}
BRACKETS = ("()", "()", "()", "[]", "{}")
DIVISORS = ("2", "4", "5", "8", "10", "16", "20", "25", "0.5", "0.2", "1.25", "100", "1000", "2.5")
REDUNDANT = 0.04  # share of brackets that precedence does not need
WORDS: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "data" / "expression_texts.json").read_text(encoding="utf-8")
)
_DATE = re.compile(r"(?<!\d)(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}/\d{1,2}/\d{2,4}|\d{3}-\d{3}-\d{4})(?!\d)")
_RANGE = re.compile(r"(?<![0-9.,)\]}+*/^×÷−-])([0-9]+)-([0-9]+)%")  # `10-15% of 200`
_COMPACT = re.compile(r"\W?\d+(?:[-/−]\d+)+\W?")
_LISTED = re.compile(r"[(\[{]\d{1,2}[)\]}] +[-−+][^ ]")  # a list number and a sign, or a difference


class Sample(NamedTuple):
    """A text and its meaning.

    Attributes:
        text: what is read.
        kind: how it was made, for the report.
        value: the result in canonical form; None: it must be refused.
        due: whether a refusal is a mistake.
    """

    text: str
    kind: str
    value: str | None
    due: bool


class Made(NamedTuple):
    """An expression: pieces (kind, text), its value or the reason why it has none, the most digits, its level."""

    pieces: list[tuple[str, str]]
    value: Fraction | str
    digits: int
    kind: str = "literal"


def samples(seed: int) -> Iterator[Sample]:
    """An endless stream; equal seeds give equal samples."""
    rng = random.Random(f"expressions/{seed}")
    while True:
        chance = rng.random()
        if chance < SPOILT:
            name = rng.choice(list(SPOILERS))
            yield Sample(SPOILERS[name](rng), f"spoilt: {name}", None, False)
        else:
            yield _with_units(rng) if chance < SPOILT + WITH_UNITS else _plain(rng)


# ------------------------------------------------------------------------------------------------ values
def _places(value: Fraction) -> int | None:
    """Digits after the point; None without an end."""
    rest, places = value.denominator, 0
    while rest % 10 == 0 or rest % 2 == 0 or rest % 5 == 0:
        rest, places = rest // (10 if rest % 10 == 0 else 2 if rest % 2 == 0 else 5), places + 1
    return places if rest == 1 else None


def _span(value: Fraction) -> int:
    """Digits of a decimal, at least one of them before the point."""
    after = _places(value)
    return (
        ENDLESS if after is None else len(str(abs(value.numerator) * 10**after // value.denominator).zfill(after + 1))
    )


def written(value: Fraction) -> str:
    """A terminating decimal in canonical form, such as `-12.5`."""
    after = _places(value)
    assert after is not None, value
    digits = str(abs(value.numerator) * 10**after // value.denominator).zfill(after + 1)
    return "-" * (value < 0) + (f"{digits[:-after]}.{digits[-after:]}" if after else digits)


def _apply(operator: str, a: Fraction | str, b: Fraction | str) -> Fraction | str:
    """The value of one operation, or the reason why there is none."""
    if isinstance(a, str) or isinstance(b, str):
        return a if isinstance(a, str) else b
    if operator in "+-":
        return a + b if operator == "+" else a - b
    if operator == "/":
        return a / b if b else "undefined"
    if operator != "^":
        return a * b
    if b.denominator != 1 or b < 0:
        return "exponent"
    if a == b == 0:
        return "undefined"
    if a not in (-1, 0, 1) and b > 2000:
        return "overflow"
    return a ** int(b) if a not in (-1, 1) else a ** int(b % 2)


# ------------------------------------------------------------------------------------------------ expressions
def _literal(rng: random.Random, longest: int = 0) -> Made:
    """An integer or a decimal of up to six digits, seldom more."""
    digits = rng.randint(1, longest or rng.choices((3, 6, 12, 20), (5, 5, 1, 0.3))[0])
    number = str(rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits))
    if rng.random() < 0.02:
        number = "0" * rng.randint(1, 3) + number
    if len(number) > 3 and number[0] != "0" and rng.random() < 0.2:
        number = f"{int(number):,}"
    if rng.random() < 0.25:
        decimals = "".join(rng.choices("0123456789", k=rng.randint(1, rng.choice((2, 2, 4, 8)))))
        number = ("" if number == "0" and rng.random() < 0.3 else number) + "." + decimals
    return _of_text(number)


def _of_text(number: str) -> Made:
    """A literal."""
    plain = number.replace(",", "")
    value = Fraction(plain.rstrip("%")) / (100 if plain.endswith("%") else 1)
    return Made([("literal", number)], value, max(_span(value), len(re.sub(r"\D", "", plain))))


def _joined(rng: random.Random, operator: str, first: Made, second: Made) -> Made:
    """An operation, with the brackets that precedence needs, and here and there one that it does not."""
    # A power is right-associative and its base has no sign; all else is left-associative.
    level = LEVELS[operator]
    left, right = (level + 1, level) if operator == "^" else (level, level + 1)
    glyph, after = rng.choice(GLYPHS[operator]), _bracketed(rng, second, right)
    if glyph == "x" and after[0][0] == "sign":
        glyph = "*"  # `3 x - 5` may be a variable
    pieces = [*_bracketed(rng, first, left), ("operator", glyph), *after]
    value = _apply(operator, first.value, second.value)
    digits = max(first.digits, second.digits, _span(value) if isinstance(value, Fraction) else 0)
    return Made(pieces, value, digits, operator)


def _bracketed(rng: random.Random, made: Made, level: int) -> list[tuple[str, str]]:
    """The pieces of an operand."""
    if made.pieces[-1][1].endswith("%") and len(made.pieces) == 1:
        return made.pieces
    if LEVELS[made.kind] >= level and rng.random() >= REDUNDANT:
        return made.pieces
    opening, closing = rng.choice(BRACKETS)
    return [("open", opening), *made.pieces, ("close", closing)]


def _signed(rng: random.Random, sign: str, made: Made) -> Made:
    """An operand with a sign."""
    value = made.value if sign == "+" or isinstance(made.value, str) else -made.value
    return Made([("sign", sign), *_bracketed(rng, made, LEVELS["^"])], value, made.digits, "sign")


def _expression(rng: random.Random, operands: int) -> Made:
    """A random expression with this number of literals."""
    if operands == 1:
        made = _literal(rng)
        return _signed(rng, rng.choice("---−+"), made) if rng.random() < 0.08 else made
    operator = rng.choices("+-*/^", (8, 8, 8, 5, 1))[0]
    if operator == "^":
        exponent = _of_text(str(rng.choice((0, 1, 2, 2, 2, 3, 3, 4, 5, 10))))
        power = _joined(rng, "^", _expression(rng, min(operands - 1, 2)), exponent)
        rest = operands - min(operands - 1, 2) - 1
        return _joined(rng, rng.choice("+-*"), power, _expression(rng, rest)) if rest else power
    if operator == "/":
        return _division(rng, operands)
    if operator == "*" and rng.random() < 0.12:
        percentage = _of_text(_literal(rng, longest=3).pieces[0][1] + "%")
        return _joined(rng, rng.choice(("of", "of", "*")), percentage, _expression(rng, operands - 1))
    first = rng.randint(1, operands - 1) if rng.random() < 0.5 else operands - 1
    made = _joined(rng, operator, _expression(rng, first), _expression(rng, operands - first))
    return _signed(rng, "-", made) if rng.random() < 0.03 else made


def _division(rng: random.Random, operands: int) -> Made:
    """A division; most of them end."""
    chance = rng.random()
    if chance < 0.2:
        return _joined(rng, "/", _expression(rng, operands - 1), _literal(rng))
    if chance < 0.7 and operands == 2:
        divisor, factor = _literal(rng), _literal(rng, longest=4)
        assert isinstance(divisor.value, Fraction)
        assert isinstance(factor.value, Fraction)
        return _joined(rng, "/", _of_text(written(divisor.value * factor.value)), divisor)
    return _joined(rng, "/", _expression(rng, operands - 1), _of_text(rng.choice(DIVISORS)))


# ------------------------------------------------------------------------------------------------ texts
def _spaced(rng: random.Random, pieces: list[tuple[str, str]]) -> str:
    """The text of pieces, with spaces in one of several styles."""
    style = rng.choice(("none", "around", "around", "before", "after", "any", "wide"))
    inner, text = " " if rng.random() < 0.1 else "", ""
    for at, (kind, piece) in enumerate(pieces):
        if kind == "operator":
            now = rng.choice(("none", "around", "before", "after")) if style == "any" else style
            wide = "  " if now == "wide" else " "
            before, after = "" if now in ("none", "after") else wide, "" if now in ("none", "before") else wide
            if piece == "x":
                before = after = before if text.rstrip()[-1:] != "0" else " "
            elif piece == "of":
                before = after = " "
            text += before + piece + after
        elif kind == "sign":  # a space after a sign is common at the beginning only
            text += piece + " " * (rng.random() < (0.15 if at == 0 else 0.03))
        else:
            text += piece + inner if kind == "open" else inner + piece if kind == "close" else piece
    return text


def filled(rng: random.Random, text: str) -> str:
    """A text with numbers for `{}`."""
    return re.sub(r"[{][}]", lambda _: str(rng.randrange(1, 1000)), text)


def _end(rng: random.Random) -> str:
    return rng.choice((" =", "=", " =", "=", "  ="))


def _plain(rng: random.Random) -> Sample:
    """An expression that is spelled well."""
    made = _expression(rng, rng.choices(range(2, MAX_OPERANDS + 1), (30, 20, 12, 8, 6, 4, 4))[0])
    due = _with_currency(rng, made.pieces) and made.digits <= DIGITS
    pairs = zip(made.pieces, made.pieces[1:], strict=False)  # signs that pile up as people seldom mean: `5 ++3`
    due = due and not any(two[0] == "sign" and "+" in (one[1], two[1]) for one, two in pairs)
    text, kind, value = _spaced(rng, made.pieces), "exact", None
    due = due and not _DATE.search(text) and not _LISTED.search(text)
    due = due and not any(int(one[1]) < int(one[2]) for one in _RANGE.finditer(text))
    if isinstance(made.value, str) or _places(made.value) is None:
        kind, due = made.value if isinstance(made.value, str) else "inexact", False
    else:
        value = written(made.value)
        if len(re.sub(r"\D", "", value)) > DIGITS:
            kind, value, due = "overflow", None, False
    if rng.random() < 0.3:
        message = rng.choice(WORDS["messages"])
        due = due and not _COMPACT.fullmatch(text.strip())  # `24/8` alone may be no calculation
        due = due and not (" " in message and re.match("[-+−] ", text))
        return Sample(message.format(text), f"{kind}, message", value, due)
    before = filled(rng, rng.choice(WORDS["before"])) if rng.random() < 0.4 else ""
    if re.search("[a-z] $|\n$", before) and made.pieces[0][0] == "sign":
        due = False  # a sign, a subtraction from what the words say, or the mark of a list
    return Sample(before + text + _end(rng), f"{kind}, after text" if before else kind, value, due)


def _with_currency(rng: random.Random, pieces: list[tuple[str, str]]) -> bool:
    """Puts a currency before literals of one text in eight; False where it is between a sign and a literal."""
    if rng.random() > 0.12:
        return True
    currency, due, before = rng.choice("$$€£"), True, ("open", "")
    for at, piece in enumerate(pieces):
        if piece[0] == "literal" and before[1] not in ("^", "**") and piece[1][-1] != "%" and rng.random() > 0.3:
            pieces[at], due = ("literal", currency + piece[1]), due and before[0] != "sign"
        before = piece
    return due


def _with_units(rng: random.Random) -> Sample:
    """Two literals with units."""
    first, second, operator = rng.choice(WORDS["units"])
    a, b = rng.sample(range(2, 1000), 2)
    text = f"{first.format(a)} {operator} {second.format(b)}"
    before = filled(rng, rng.choice(WORDS["before"][:6])) if rng.random() < 0.3 else ""
    value = _apply("*" if operator == "x" else operator, Fraction(a), Fraction(b))
    assert isinstance(value, Fraction)
    return Sample(before + text + _end(rng), "units", written(value), True)


# ------------------------------------------------------------------------------------------------ spoilt texts
def _some(rng: random.Random) -> list[tuple[str, str]]:
    """The pieces of an expression to spoil; it would have a value or none."""
    return _expression(rng, rng.randint(2, 5)).pieces


def _put(rng: random.Random, pieces: list[tuple[str, str]] | str) -> str:
    """A spoilt expression in a text."""
    text = pieces if isinstance(pieces, str) else _spaced(rng, pieces)
    if rng.random() < 0.25:
        return str(rng.choice(WORDS["messages"]).format(text))
    return (filled(rng, rng.choice(WORDS["before"])) if rng.random() < 0.25 else "") + text + _end(rng)


def _replaced(kind: str, new: Callable[[random.Random], tuple[str, str]], more: str = "") -> Callable[..., str]:
    """A spoiler that replaces a piece of a kind; an operator only where a literal or a bracket follows."""

    def spoil(rng: random.Random) -> str:
        while True:
            pieces = _some(rng)
            places = [at for at, piece in enumerate(pieces) if piece[0] == kind]
            if kind == "operator":
                places = [at for at in places if pieces[at + 1][0] != "sign" and pieces[at - 1][1][-1] != "%"]
            if places:
                break
        at = rng.choice(places)
        pieces[at : at + 1] = [pieces[at], new(rng)] if more else [new(rng)]
        return _put(rng, pieces)

    return spoil


def _brackets(rng: random.Random) -> str:
    """An expression with one bracket too many, too few, or of another kind."""
    pieces = [("open", "("), *_some(rng), ("close", ")"), ("operator", "*"), *_some(rng)]
    inner = [at for at, piece in enumerate(pieces) if piece[0] in ("open", "close")]
    at = rng.choice(inner)
    kind, text = pieces[at]
    other = (kind, rng.choice([one for one in "()[]{}" if one != text]))
    pieces[at : at + 1] = rng.choice(([], [pieces[at]] * 2, [other]))
    return _put(rng, pieces)


def _too_long(rng: random.Random) -> tuple[str, str]:
    digits = "".join(rng.choices("123456789", k=DIGITS + rng.choice((1, 1, 2, 5, 30, 300))))
    point = rng.choice((0, 0, rng.randrange(1, len(digits))))
    return "literal", f"{digits[:point]}.{digits[point:]}" if point else digits


def _exponent(rng: random.Random) -> str:
    exponents = ("-1", "-{}", "0.5", "(-{})", "1.5", "(1/2)", "(0-{})", "−2", ".25", "(-.5)")
    power = [("literal", str(rng.randrange(2, 100))), ("operator", rng.choice(GLYPHS["^"]))]
    power.append(("literal", filled(rng, rng.choice(exponents))))
    return _put(rng, power + ([("operator", rng.choice("+-*")), *_some(rng)] if rng.random() < 0.5 else []))


def _too_many(rng: random.Random) -> str:
    pieces = _literal(rng, longest=3).pieces
    for _ in range(rng.choice((8, 8, 9, 11, 19, 59))):
        pieces = [*pieces, ("operator", rng.choice("+-*")), *_literal(rng, longest=3).pieces]
    return _put(rng, pieces)


def _unequal_units(rng: random.Random) -> str:
    first, second = rng.choice(WORDS["unequal_units"])
    a, b = rng.sample(range(2, 500), 2)
    return f"{first.format(a)} {rng.choice('+-')} {second.format(b)}" + _end(rng)


SPOILERS: dict[str, Callable[[random.Random], str]] = {
    "a literal that is none": _replaced("literal", lambda rng: ("literal", rng.choice(WORDS["bad_literals"]))),
    "a literal that is too long": _replaced("literal", _too_long),
    "another operator": _replaced("operator", lambda rng: ("replaced", rng.choice(WORDS["bad_operators"]))),
    "no operator": _replaced("operator", lambda _: ("replaced", " ")),
    "of without per cent": _replaced("operator", lambda _: ("operator", "of")),
    "two operators": _replaced("operator", lambda rng: ("operator", rng.choice("/^÷")), more="after"),
    "an operator at the end": lambda rng: (
        _spaced(rng, [*_some(rng), ("operator", rng.choice("+-*/^×÷−"))]) + _end(rng)
    ),
    "an operator at the beginning": lambda rng: (
        _spaced(rng, [("operator", rng.choice("*/^×÷")), *_some(rng)]) + _end(rng)
    ),
    "brackets": _brackets,
    "a percentage in a sum": lambda rng: _put(
        rng,
        [*_some(rng), ("operator", rng.choice("+-")), ("literal", _literal(rng, longest=2).pieces[0][1] + "%")],
    ),
    "a number before": lambda rng: (
        filled(rng, rng.choice(WORDS["more_before"])) + _spaced(rng, _some(rng)) + _end(rng)
    ),
    "a number after": lambda rng: (
        rng.choice(("", "What is ", "Calculate "))
        + _spaced(rng, _some(rng))
        + filled(rng, rng.choice(WORDS["more_behind"]))
    ),
    "an exponent": _exponent,
    "too many operands": _too_many,
    "different units": _unequal_units,
    "three numbers in words": lambda rng: filled(rng, rng.choice(WORDS["in_words"])),
}
