"""Texts with expressions in symbols: some have a value, and some must be refused.

In: a seed. Out: `Sample`s, each with its text and its exact value by `fractions`, or None where the text must be
refused: there is no value, or the text was spoilt on purpose. An expression is built from its value upwards, so no
parser takes part. Spaces, glyphs, brackets, currencies, percentages, units and preceding texts are drawn.
The words are in `benchmarks/data/expression_texts.json`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from benchmarks.common.measuring import DATA


DIGITS = 40  # of operands, results and intermediate values
OPERANDS, OFTEN = range(2, 9), (30, 20, 12, 8, 6, 4, 4)
SPOILT, WITH_UNITS = 0.35, 0.04  # shares of the texts
ENDLESS = 10**6  # digits of a value that does not end
GLYPHS = {"+": "+", "-": "-−", "*": "*×·x", "/": "/÷", "^": ("^", "**"), "of": ("of",)}
LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "of": 2, "sign": 3, "^": 4, "literal": 5}
SIGNS = ("+", "-", "−")
BRACKETS = ("()", "()", "()", "[]", "{}")
STYLES = (("", ""), (" ", " "), (" ", " "), (" ", ""), ("", " "), ("  ", "  "), None)  # None: each time another
DIVISORS = ("2", "4", "5", "8", "10", "16", "20", "25", "0.5", "0.2", "1.25", "100", "1000", "2.5")
REDUNDANT = 0.04  # share of brackets that precedence does not need
WORDS: dict[str, Any] = json.loads((DATA / "expression_texts.json").read_text(encoding="utf-8"))
_COMPACT = re.compile(r"\W?\d+(?:[-/−]\d+)+\W?")
_RANGE = re.compile(r"(?<![0-9.,)\]}+*/^×÷−-])([0-9]+)-([0-9]+)%")  # `10-15% of 200`
_OPEN = re.compile(  # what may be refused: dates, a list number and a sign, `5 ++3`, `5-$3`
    r"(?<!\d)(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}-\d{1,2}-\d{4}|\d{1,2}/\d{1,2}/\d{2,4}|\d{3}-\d{3}-\d{4})(?!\d)"
    r"|[(\[{]\d{1,2}[)\]}] +[-−+][^ ]"
    r"|\+ *[-+−]|[-−*×·/÷^(\[{f] *\+"
    r"|(?:^|[-+−*×·/÷^(\[{f]) *[-+−] *[$€£]"
)
_LITERAL = re.compile(r"(?<![\d.,])(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?![\d.,%])")
_OPERATOR = re.compile(r"(?<=[\d.)\]}]) *(?:\*\*|[-−+*×·x/÷^]|of) *(?=[\d.(\[{])")
_BRACKET = re.compile(r"[()\[\]{}]")
_LIST_NUMBER = re.compile(r"\d{1,2}[)\]}]")


class Sample(NamedTuple):
    """A text and its meaning."""

    text: str
    value: str | None  # the result in canonical form; None: it must be refused
    due: bool  # whether a refusal is a mistake
    is_in_words: bool = False  # whether its words say what is done with its first two numbers


class Made(NamedTuple):
    """An expression: its text, its exact value if it has one, the most digits in it, its level of precedence."""

    text: str
    value: Fraction | None
    digits: int
    level: int = LEVELS["literal"]


def samples(seed: int) -> Iterator[Sample]:
    """An endless stream; equal seeds give equal samples."""
    rng = random.Random(f"expressions/{seed}")
    while True:
        chance = rng.random()
        if chance < SPOILT:
            yield Sample(_spoilt(rng), None, False)
        else:
            yield _with_units(rng) if chance < SPOILT + WITH_UNITS else _plain(rng)


# ------------------------------------------------------------------------------------------------ values
def _places(value: Fraction) -> int | None:
    """Digits after the point; None without an end."""
    rest, places = value.denominator, 0
    while rest % 10 == 0 or rest % 2 == 0 or rest % 5 == 0:
        rest, places = rest // (10 if rest % 10 == 0 else 2 if rest % 2 == 0 else 5), places + 1
    return places if rest == 1 else None


def _span(value: Fraction | None) -> int:
    """Digits of a decimal, at least one of them before the point."""
    endless = value is None or _places(value) is None
    return ENDLESS if endless else len(re.sub(r"\D", "", written(value)))  # type: ignore[arg-type]


def written(value: Fraction) -> str:
    """A terminating decimal in canonical form, such as `-12.5`."""
    after = _places(value)
    assert after is not None, value
    digits = str(abs(value.numerator) * 10**after // value.denominator).zfill(after + 1)
    return "-" * (value < 0) + (f"{digits[:-after]}.{digits[-after:]}" if after else digits)


def _apply(operator: str, a: Fraction | None, b: Fraction | None) -> Fraction | None:
    """The value of one operation, if it has one that is not too long to compute."""
    if a is None or b is None:
        return None
    if operator in "+-":
        return a + b if operator == "+" else a - b
    if operator == "/":
        return a / b if b else None
    if operator != "^":
        return a * b
    if b.denominator != 1 or b < 0 or a == b == 0 or (a not in (-1, 0, 1) and b > 2000):
        return None
    return a ** int(b) if a not in (-1, 1) else a ** int(b % 2)


# ------------------------------------------------------------------------------------------------ expressions
class Writer:
    """Writes one expression, in one of several styles."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.style = rng, rng.choice(STYLES)
        self.inner = " " if rng.random() < 0.1 else ""  # of brackets

    def literal(self, longest: int = 0) -> Made:
        """An integer or a decimal of up to six digits, seldom more."""
        rng = self.rng
        digits = rng.randint(1, longest or rng.choices((3, 6, 12, 20), (5, 5, 1, 0.3))[0])
        number = str(rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits))
        if rng.random() < 0.02:
            number = "0" * rng.randint(1, 3) + number
        if len(number) > 3 and number[0] != "0" and rng.random() < 0.2:
            number = f"{int(number):,}"
        if rng.random() < 0.25:
            decimals = "".join(rng.choices("0123456789", k=rng.randint(1, rng.choice((2, 2, 4, 8)))))
            number = ("" if number == "0" and rng.random() < 0.3 else number) + "." + decimals
        return self.given(number)

    def given(self, number: str) -> Made:
        """A literal."""
        plain = number.replace(",", "")
        value = Fraction(plain.rstrip("%")) / (100 if plain.endswith("%") else 1)
        return Made(number, value, max(_span(value), len(re.sub(r"\D", "", plain))))

    def joined(self, operator: str, first: Made, second: Made) -> Made:
        """An operation, with the brackets that precedence needs, and here and there one that it does not."""
        # A power is right-associative and its base has no sign; all else is left-associative.
        level = LEVELS[operator]
        left, right = (level + 1, level) if operator == "^" else (level, level + 1)
        one, other = self.bracketed(first, left), self.bracketed(second, right)
        before, after = self.style or self.rng.choice(STYLES[:5]) or ("", "")
        glyph = self.rng.choice(GLYPHS[operator])
        if glyph == "x" and (one.endswith("0") or other[0] in SIGNS):
            glyph = "*"  # `0x5` is another number, and in `3 x - 5` there may be a variable
        elif glyph in ("x", "of"):
            before = after = " " if glyph == "of" else after
        value = _apply(operator, first.value, second.value)
        digits = max(first.digits, second.digits, 0 if value is None else _span(value))
        return Made(one + before + glyph + after + other, value, digits, level)

    def bracketed(self, made: Made, level: int) -> str:
        """An operand."""
        if made.level >= level and (made.text[-1] == "%" or self.rng.random() >= REDUNDANT):
            return made.text
        opening, closing = self.rng.choice(BRACKETS)
        return opening + self.inner + made.text + self.inner + closing

    def signed(self, sign: str, made: Made) -> Made:
        """An operand with a sign."""
        value = made.value if sign == "+" or made.value is None else -made.value
        text = sign + " " * (self.rng.random() < 0.05) + self.bracketed(made, LEVELS["^"])
        return Made(text, value, made.digits, LEVELS["sign"])

    def expression(self, operands: int) -> Made:
        """A random expression with this number of literals."""
        rng = self.rng
        if operands == 1:
            made = self.literal()
            return self.signed(rng.choice("---−+"), made) if rng.random() < 0.08 else made
        operator = rng.choices("+-*/^", (8, 8, 8, 5, 1))[0]
        if operator == "^":
            base = min(operands - 1, 2)
            exponent = self.given(str(rng.choice((0, 1, 2, 2, 2, 3, 3, 4, 5, 10))))
            power = self.joined("^", self.expression(base), exponent)
            rest = operands - base - 1
            return self.joined(rng.choice("+-*"), power, self.expression(rest)) if rest else power
        if operator == "/":
            return self.division(operands)
        if operator == "*" and rng.random() < 0.12:
            percentage = self.given(self.literal(longest=3).text + "%")
            return self.joined(rng.choice(("of", "of", "*")), percentage, self.expression(operands - 1))
        first = rng.randint(1, operands - 1) if rng.random() < 0.5 else operands - 1
        made = self.joined(operator, self.expression(first), self.expression(operands - first))
        return self.signed("-", made) if rng.random() < 0.03 else made

    def division(self, operands: int) -> Made:
        """A division; most of them end."""
        chance = self.rng.random()
        if chance < 0.2:
            return self.joined("/", self.expression(operands - 1), self.literal())
        if chance < 0.7 and operands == 2:
            divisor, factor = self.literal(), self.literal(longest=4)
            product = _apply("*", divisor.value, factor.value) or Fraction()
            return self.joined("/", self.given(written(product)), divisor)
        return self.joined("/", self.expression(operands - 1), self.given(self.rng.choice(DIVISORS)))


# ------------------------------------------------------------------------------------------------ texts
def filled(rng: random.Random, text: str) -> str:
    """A text with what its slots, those of `SLOTS`, stand for."""

    def drawn(slot: re.Match[str]) -> str:
        made = SLOTS[slot[1]]
        return made(rng) if callable(made) else filled(rng, str(rng.choice(made)))

    return re.sub(r"[{](|[a-z]\w*)[}]", drawn, text)


def _plain(rng: random.Random) -> Sample:
    """An expression that is spelled well."""
    made = Writer(rng).expression(rng.choices(OPERANDS, OFTEN)[0])
    text = made.text if rng.random() > 0.12 else _with_currency(rng, made.text)
    value = None if made.value is None or _span(made.value) > DIGITS else written(made.value)
    due = value is not None and made.digits <= DIGITS and not _OPEN.search(text)
    due = due and not any(int(one[1]) < int(one[2]) for one in _RANGE.finditer(text))
    if rng.random() < 0.3:
        message = rng.choice(WORDS["messages"])
        due = due and not _COMPACT.fullmatch(text)  # `24/8` alone may be no calculation
        due = due and not (" " in message and re.match("[-+−] ", text))
        return Sample(message.format(text), value, due)
    before = filled(rng, rng.choice(WORDS["before"])) if rng.random() < 0.4 else ""
    # A sign, a subtraction from what the words say, or the mark of a list.
    due = due and not (text[0] in SIGNS and re.search("[a-z] $|\n$", before))
    return Sample(before + text + filled(rng, "{end}"), value, due)


def _with_currency(rng: random.Random, text: str) -> str:
    """An expression with a currency before most of its literals, but for exponents and percentages."""
    currency = rng.choice("$$€£")

    def priced(literal: re.Match[str]) -> str:
        is_exponent = literal.string[: literal.start()].rstrip().endswith(("^", "**"))
        return literal[0] if is_exponent or rng.random() < 0.3 else currency + literal[0]

    return _LITERAL.sub(priced, text)


def _with_units(rng: random.Random) -> Sample:
    """Two literals with units."""
    first, second, operator = rng.choice(WORDS["units"])
    a, b = rng.sample(range(2, 1000), 2)
    before = filled(rng, rng.choice(WORDS["before"][:6])) if rng.random() < 0.3 else ""
    text = f"{before}{first.format(a)} {operator} {second.format(b)}" + filled(rng, "{end}")
    value = _apply("*" if operator == "x" else operator, Fraction(a), Fraction(b))
    return Sample(text, None if value is None else written(value), True)


# ------------------------------------------------------------------------------------------------ spoilt texts
def _some(rng: random.Random) -> str:
    """An expression to spoil; it would have a value or none."""
    return Writer(rng).expression(rng.randint(2, 5)).text


def _put(rng: random.Random, text: str) -> str:
    """A spoilt expression in a text."""
    if rng.random() < 0.25:
        return str(rng.choice(WORDS["messages"]).format(text))
    return (filled(rng, rng.choice(WORDS["before"])) if rng.random() < 0.25 else "") + text + filled(rng, "{end}")


def _two_digits(least: int, end: int) -> tuple[str, ...]:
    return tuple(f"{number:02}" for number in range(least, end))


def _too_long(rng: random.Random) -> str:
    digits = "".join(rng.choices("123456789", k=DIGITS + rng.choice((1, 1, 2, 5, 30, 300))))
    point = rng.choice((0, 0, rng.randrange(1, len(digits))))
    return f"{digits[:point]}.{digits[point:]}" if point else digits


def _spoilt(rng: random.Random) -> str:
    """A text of one of the kinds below."""
    part, new, is_framed = rng.choice(SPOILT_FORMS)
    if part is None:
        text = filled(rng, new)
        return _put(rng, text) if is_framed else text
    while True:
        text = _some(rng)
        if places := list(part.finditer(text)):
            one = rng.choice(places)
            spoilt = text[: one.start()] + filled(rng, new).replace("@", one[0]) + text[one.end() :]
            if spoilt != text and not _LIST_NUMBER.match(spoilt):
                return _put(rng, spoilt)


# What a slot stands for: one of several texts, which may have slots, a number, or what a function makes.
SLOTS: dict[str, Sequence[str] | range | Callable[[random.Random], str]] = {
    "": range(1, 1000),
    "some": _some,
    "short": lambda rng: Writer(rng).literal(longest=3).text,
    "gap": ("", " "),
    "sign": "+-",
    "factor": "*/^×÷",
    "second": "/^÷",
    "end": (" =", "=", " =", "=", "  ="),
    "too_long": _too_long,
    "too_many": tuple("{short}" + "{gap}{sign}{gap}{short}" * more for more in (8, 8, 9, 11, 19, 59)),
    "bracket": ("", "", "", "@@", "@@", "@@", *"()[]{}"),
    "exponent": ("-1", "-{}", "0.5", "(-{})", "1.5", "(1/2)", "(0-{})", "−2", ".25", "(-.5)"),
    "power": ("{}^{exponent}", "{}**{exponent}"),
    "asked": ("", "What is ", "Calculate "),
    "unequal": tuple(f"{one} {{sign}} {other}" for one, other in WORDS["unequal_units"]),
    **{name: WORDS[name] for name in ("bad_literals", "bad_operators", "more_before", "more_behind", "in_words")},
    # What look-alikes have: numbers by length, years, months, days, hours and minutes.
    **{"d": range(1, 10), "n": range(10, 100), "p": range(100, 1000), "q": range(1000, 10_000)},
    "k": range(10_000, 10_000_000),
    **{"y": range(1900, 2030), "yy": _two_digits(0, 100), "mo": _two_digits(1, 13), "da": _two_digits(1, 29)},
    **{"h": range(1, 24), "m": _two_digits(0, 60)},
}
# The part of an expression that is replaced, and the new text, where `@` is the old one; or a whole text, which may
# be framed by a message, and so on.
SPOILT_FORMS: tuple[tuple[re.Pattern[str] | None, str, bool], ...] = (
    (_LITERAL, "{bad_literals}", True),
    (_LITERAL, "{too_long}", True),
    (_OPERATOR, "{bad_operators}", True),
    (_OPERATOR, " ", True),
    (_OPERATOR, " of ", True),
    (_OPERATOR, "@{second}", True),
    (_BRACKET, "{bracket}", True),
    (None, "{some}{gap}{sign}{gap}{short}%", True),
    (None, "{power}", True),
    (None, "{power}{gap}{sign}{gap}{some}", True),
    (None, "{too_many}", True),
    (None, "{some}{gap}{sign}{end}", False),
    (None, "{some}{gap}{factor}{end}", False),
    (None, "{factor}{gap}{some}{end}", False),
    (None, "{more_before}{some}{end}", False),
    (None, "{asked}{some}{more_behind}", False),
    (None, "{unequal}{end}", False),
    (None, "{in_words}", False),
)
