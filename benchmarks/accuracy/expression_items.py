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
from collections.abc import Sequence
from fractions import Fraction

from benchmarks.accuracy.expression_texts import SLOTS, WORDS, Sample, filled, written


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
            made.append(Sample(FRAMES[frame].format(spelling.format(**words)), written(Fraction(value)), True))
    return made


def _quotient(rng: random.Random) -> str:
    """A division that ends, of integers or decimals."""
    b, quotient = (Fraction(filled(rng, rng.choice(("{whole}", "{decimal}")))) for _ in range(2))
    return f"{written(b * quotient)}/{written(b)}"


def _endless(rng: random.Random) -> str:
    """A division that does not end."""
    b = rng.choice((3, 7, 9, 11, 13, 17, 19, 21, 23, 27, 29, 31))
    return f"{int(filled(rng, '{whole}')) * b + rng.randrange(1, b)}/{b}"


SLOTS.update(
    whole=("{d}", "{n}", "{p}", "{q}"),
    decimal=("{whole}.{d}", "{whole}.{m}", "0.{yy}1", "{p}.{m}{d}"),
    mixed=("{d}", "{n}", "{q}", "{k}{p}"),
    times="+-*",
    quotient=_quotient,
    endless=_endless,
)
# Expressions of each kind; those of the last two have no value.
FORMS: dict[str, Sequence[str]] = {
    "sums": ("{mixed}{sign}{mixed}",),
    "negative operands": ("{whole}{times}(-{whole})",),
    "decimals": ("{decimal}{times}{decimal}",),
    "quotients": ("{quotient}",),
    "large numbers": ("{k}{k}{k}{times}{k}", "{k}{k}{times}{k}{p}"),
    "powers": ("{n}**{d}", "{n}^{d}", "{d}.{d}**{d}", "0.{d}^{d}", "{n}^0", "{n}**10"),
    "brackets": (
        *("({n}+{n})*{n}", "{n}*({n}-{n})+{n}", "({n}-{n})*({n}+{n})"),
        *("(({n}+{n})*{n}-{n})*2", "{n}-({n}-({n}-{n}))"),
    ),
    "many operands": tuple("{}" + "{sign}{}" * more for more in range(2, 8)),
    "endless quotients": ("{endless}",),
    "beyond": WORDS["beyond"],
}
WITHOUT_VALUE = ("endless quotients", "beyond")


def like_math_401(n: int, seed: int = 0) -> list[Sample]:
    """Texts in the form of MATH-401, as many of each kind in `FORMS`."""
    rng = random.Random(f"math/{seed}")
    made = []
    for kind in itertools.islice(itertools.cycle(FORMS), n):
        text = filled(rng, rng.choice(FORMS[kind]))
        due = kind not in WITHOUT_VALUE
        made.append(Sample(f"{text}=", _value(text) if due else None, due))
    return made


def _value(text: str) -> str:
    """Python's value of an expression."""
    exact = re.sub(r"[\d.]+", r'Fraction("\g<0>")', text.replace("^", "**"))
    return written(Fraction(eval(exact, {"Fraction": Fraction})))  # noqa: S307 - a text of this module


def look_alikes(n: int, seed: int = 0, held_out: bool = False) -> list[Sample]:
    """Distinct texts that must be refused, as many of each kind; `held_out`: those that no rule was written after."""
    rng = random.Random(f"look-alikes/{seed}")
    texts = WORDS["held_out_look_alikes" if held_out else "look_alikes"]
    found: dict[str, Sample] = {}
    for kind in itertools.cycle(texts):
        text = ""
        while not text or text in found:
            text = rng.choice(WORDS["look_alikes_in"]).replace("{}", filled(rng, rng.choice(texts[kind])))
        found[text] = Sample(text, None, False)
        if len(found) >= n:
            break
    return list(found.values())
