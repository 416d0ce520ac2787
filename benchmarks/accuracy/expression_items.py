"""Fixed forms of expressions: spellings of `a op b`, the forms of MATH-401, and look-alikes that ask for nothing.

The spellings differ in spaces, signs, brackets and glyphs, bare, with `=`, and in sentences. The forms of MATH-401
have integers, decimals, large numbers, powers, brackets and endless quotients, and functions that no exact calculator
has. Look-alikes are dates, times, scores, ranges, telephone numbers, versions, measures, code and LaTeX. All are
generated here; none is a published item. Values are Python's `fractions`.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from fractions import Fraction

from benchmarks.accuracy.expression_texts import WORDS, Sample, written


Form = Callable[[random.Random], tuple[str, Fraction | None]]
# In spellings `a` and `b` are the operands, `o` is the sign, `m` another glyph of it, and `s` is `b` with the sign
# U+2212.
SPELLINGS, FRAMES = WORDS["spellings"], WORDS["frames"]
# Not every spelling in every frame: the same number of spellings for each, drawn once.
PAIRS = [(spelling, frame) for at, frame in enumerate(FRAMES) for spelling in SPELLINGS[at % 3 :: 3]]
OTHER_GLYPHS = {"+": "+", "-": "\u2212", "*": "×", "/": "÷"}


def spelled(n: int, seed: int = 0) -> list[Sample]:
    """About `n` texts `a op b`, as many for each pair of a spelling and a frame; divisions are exact."""
    rng = random.Random(f"spellings/{seed}")
    made = []
    for spelling, frame in PAIRS:
        for at in range(max(n // len(PAIRS), 1)):
            operator = "+-*/"[at % 4]
            a, b = (rng.randrange(1, 10 ** rng.randint(1, 4)) for _ in range(2))
            if operator == "/":
                a *= b
            a, b = (-a if rng.random() < 0.15 else a), (-b if rng.random() < 0.2 else b)
            value = {"+": a + b, "-": a - b, "*": a * b, "/": Fraction(a, b)}[operator]
            words = {"a": a, "b": b, "o": operator, "m": OTHER_GLYPHS[operator], "s": f"{b}".replace("-", "\u2212")}
            text = FRAMES[frame].format(spelling.format(**words))
            made.append(Sample(text, f"{spelling} in {frame!r}", written(Fraction(value)), True))
    return made


def _integer(rng: random.Random, longest: int) -> int:
    """A positive integer of up to so many digits."""
    digits = rng.randint(1, longest)
    return rng.randrange(10 ** (digits - 1), 10**digits)


def _decimal(rng: random.Random) -> Fraction:
    """A decimal with one to four places."""
    return Fraction(_integer(rng, 7), 10 ** rng.randint(1, 4))


def _up_to(longest: int) -> Callable[[random.Random], Fraction]:
    """Positive integers of up to a number of digits."""
    return lambda rng: Fraction(_integer(rng, longest))


def _mixed(rng: random.Random) -> Fraction:
    """An integer of up to two, four or twelve digits."""
    return Fraction(_integer(rng, rng.choice((2, 4, 12))))


def _pair(first: Callable[[random.Random], Fraction], second: Callable[[random.Random], Fraction], signs: str) -> Form:
    """Two operands with a sign between."""

    def made(rng: random.Random) -> tuple[str, Fraction]:
        a, b, sign = first(rng), second(rng), rng.choice(signs)
        shown = written(b) if b >= 0 else f"({written(b)})"
        return f"{written(a)}{sign}{shown}=", {"+": a + b, "-": a - b, "*": a * b}[sign]

    return made


def _quotient(rng: random.Random) -> tuple[str, Fraction]:
    b = Fraction(_integer(rng, 4)) if rng.random() < 0.6 else _decimal(rng)
    q = Fraction(_integer(rng, 4)) if rng.random() < 0.6 else _decimal(rng)
    return f"{written(b * q)}/{written(b)}=", q


def _power(rng: random.Random) -> tuple[str, Fraction]:
    base = Fraction(_integer(rng, 2)) if rng.random() < 0.7 else Fraction(_integer(rng, 2), 10)
    exponent = rng.randint(0, 10)
    return f"{written(base)}{rng.choice(('**', '^'))}{exponent}=", base**exponent


def _brackets(rng: random.Random) -> tuple[str, Fraction]:
    a, b, c, d = (_integer(rng, 2) for _ in range(4))
    shapes: tuple[tuple[str, Fraction], ...] = (
        (f"({a}+{b})*{c}=", Fraction((a + b) * c)),
        (f"{a}*({b}-{c})+{d}=", Fraction(a * (b - c) + d)),
        (f"({a}-{b})*({c}+{d})=", Fraction((a - b) * (c + d))),
        (f"(({a}+{b})*{c}-{d})*2=", Fraction(((a + b) * c - d) * 2)),
        (f"{a}-({b}-({c}-{d}))=", Fraction(a - (b - (c - d)))),
    )
    return rng.choice(shapes)


def _long(rng: random.Random) -> tuple[str, Fraction]:
    count = rng.randint(3, 8)
    total = Fraction(_integer(rng, 3))
    text = written(total)
    for _ in range(count - 1):
        number, sign = _integer(rng, 3), rng.choice("+-")
        text, total = f"{text}{sign}{number}", total + (number if sign == "+" else -number)
    return text + "=", total


def _endless(rng: random.Random) -> tuple[str, None]:
    b = rng.choice((3, 6, 7, 9, 11, 13, 17, 19, 21, 23, 27, 29, 31))
    a = _integer(rng, 4) * b + rng.randint(1, b - 1) if b not in (6,) else _integer(rng, 3) * 6 + 1
    return f"{a}/{b}=", None


def _beyond(rng: random.Random) -> tuple[str, None]:
    a, b = _integer(rng, 2), _integer(rng, 2)
    return rng.choice(WORDS["beyond"]).format(a=a, b=b, c=b + 1, s=a * a + 1), None


FORMS: dict[str, Form] = {
    "sums": _pair(_mixed, _mixed, "+-"),
    "negative operands": _pair(_up_to(4), lambda rng: -_up_to(4)(rng), "+-*"),
    "decimals": _pair(_decimal, _decimal, "+-*"),
    "quotients": _quotient,
    "large numbers": _pair(lambda rng: _up_to(20)(rng) + 10**12, _up_to(12), "+-*"),
    "powers": _power,
    "brackets": _brackets,
    "many operands": _long,
    "endless quotients": _endless,
    "beyond": _beyond,
}


def like_math_401(n: int, seed: int = 0) -> list[Sample]:
    """Texts in the form of MATH-401, as many of each group in `FORMS`."""
    rng = random.Random(f"math/{seed}")
    made = []
    for name in itertools.islice(itertools.cycle(FORMS), n):
        text, value = FORMS[name](rng)
        made.append(Sample(text, name, None if value is None else written(value), value is not None))
    return made


def look_alikes(n: int, seed: int = 0, held_out: bool = False) -> list[Sample]:
    """Distinct texts that must be refused, as many of each kind; `held_out`: those that no rule was written after."""
    rng = random.Random(f"look-alikes/{seed}")
    texts = WORDS["held_out_look_alikes" if held_out else "look_alikes"]
    found: dict[str, Sample] = {}
    for kind in itertools.cycle(texts):
        text = ""
        while not text or text in found:
            text = rng.choice(WORDS["look_alikes_in"]).replace("{}", _numbered(rng, rng.choice(texts[kind])))
        found[text] = Sample(text, kind, None, False)
        if len(found) >= n:
            break
    return list(found.values())


_RANGES = {  # what a look-alike's parts may be: years, months, days, hours, minutes, and numbers by length
    "n": (10, 100),
    "d": (1, 10),
    "y": (1900, 2030),
    "yy": (0, 100),
    "mo": (1, 13),
    "da": (1, 29),
    "h": (1, 24),
    "m": (0, 60),
    "p": (100, 1000),
    "q": (1000, 10_000),
    "k": (10_000, 10_000_000),
}


def _numbered(rng: random.Random, text: str) -> str:
    """A look-alike with its numbers drawn."""

    def number(match: re.Match[str]) -> str:
        low, high = _RANGES[match[1]]
        return (
            f"{rng.randrange(low, high):02}" if match[1] in ("yy", "mo", "da", "m") else f"{rng.randrange(low, high)}"
        )

    return re.sub(r"[{](yy|mo|da|[ndyhmpqk])[}]", number, text)
