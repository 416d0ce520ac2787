"""Ordinary spellings of `a op b`, and items in the form of MATH-401: is each one read, and read rightly?

The spellings differ in spaces, signs, brackets and glyphs, bare, with `=`, and in sentences. The items have integers,
decimals, large numbers, powers, brackets and endless quotients, and forms that no exact calculator has (roots, powers
with fractions, functions, constants). All are made here; none is a published item. An item is a dictionary with
`prompt`, `target` (None: it must be refused) and `group`, so `evaluation.evaluate` takes those with a target as they
are. This program reads them by rule, without a network; the baseline is Python's `fractions`.

    python -m benchmarks.accuracy.symbol_items --output build/symbol_items.json
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch

from benchmarks.accuracy.symbol_trees import written
from benchmarks.common.measuring import facts
from benchmarks.common.symbol_reader import Reader, load_reader, reader_names


Item = dict[str, Any]
PER_SPELLING = 30
LIKE_MATH = 800

# Formats: `a` and `b` are the operands, `o` the sign, `m` another glyph of it, and `s` stands for `b` with its sign
# written U+2212. `w` is an operand in brackets if it is negative.
SPELLINGS = (
    *("{a} {o} {b}", "{a}{o}{b}", "{a} {o}{b}", "{a}{o} {b}", "{a}  {o}  {b}", "({a}) {o} ({b})", "({a} {o} {b})"),
    *("{a} {m} {b}", "{a}{m}{b}", "{a} {m}{b}", "{a}{m} {b}", "({a}{m}{b})", "[{a} {o} {b}]", "{a} {o} ({b})"),
    *("{a}{o}({b})", "({a}){o}{b}", "{a} {m} ({b})", "{a} {o} {s}", "{a}{m}{s}", "( {a} {o} {b} )"),
)
FRAMES = {
    "bare": "{}",
    "=": "{}=",
    " =": "{} =",
    "= ?": "{} = ?",
    "=?": "{}=?",
    "What is": "What is {}?",
    "Calculate": "Calculate {}.",
    "Compute": "Compute: {}",
    "sentence": "Please tell me what {} is.",
    "equals": "What does {} equal?",
    "Q and A": "Q: What is {}?\nA:",
    "how much": "How much is {}?",
}
# Not every spelling in every frame: the same number of spellings for each, drawn once.
PAIRS = [(spelling, frame) for at, frame in enumerate(FRAMES) for spelling in SPELLINGS[at % 3 :: 3]]
OTHER_GLYPHS = {"+": "+", "-": "\u2212", "*": "×", "/": "÷"}


def spelled_items(per_spelling: int = PER_SPELLING, seed: int = 0) -> list[Item]:
    """Items `a op b` for each pair of a spelling and a frame; a third has a negative operand, divisions are exact."""
    rng = random.Random(f"spellings/{seed}")
    items = []
    for spelling, frame in PAIRS:
        for at in range(per_spelling):
            operator = "+-*/"[at % 4]
            a, b = (rng.randrange(1, 10 ** rng.randint(1, 4)) for _ in range(2))
            if operator == "/":
                a *= b
            a, b = (-a if rng.random() < 0.15 else a), (-b if rng.random() < 0.2 else b)
            value = {"+": a + b, "-": a - b, "*": a * b, "/": Fraction(a, b)}[operator]
            words = {"a": a, "b": b, "o": operator, "m": OTHER_GLYPHS[operator], "s": f"{b}".replace("-", "\u2212")}
            text = FRAMES[frame].format(spelling.format(**words))
            items.append(_item(text, Fraction(value), f"{spelling} in {frame!r}"))
    return items


def _item(prompt: str, value: Fraction | None, group: str) -> Item:
    """An item; without a value it must be refused."""
    return {"prompt": prompt, "target": None if value is None else written(value), "group": group}


def _integer(rng: random.Random, longest: int) -> int:
    """A positive integer of up to so many digits."""
    digits = rng.randint(1, longest)
    return rng.randrange(10 ** (digits - 1), 10**digits)


def _decimal(rng: random.Random) -> Fraction:
    """A decimal with one to four places."""
    return Fraction(_integer(rng, 7), 10 ** rng.randint(1, 4))


def _sum(rng: random.Random) -> tuple[str, Fraction]:
    a, b = _integer(rng, rng.choice((2, 4, 12))), _integer(rng, rng.choice((2, 4, 12)))
    sign = rng.choice("+-")
    return f"{a}{sign}{b}=", Fraction(a + b if sign == "+" else a - b)


def _negative(rng: random.Random) -> tuple[str, Fraction]:
    a, b = _integer(rng, 4), -_integer(rng, 4)
    name = rng.choice("+-*")
    return f"{a}{name}({b})=", Fraction({"+": a + b, "-": a - b, "*": a * b}[name])


def _decimals(rng: random.Random) -> tuple[str, Fraction]:
    a, b, name = _decimal(rng), _decimal(rng), rng.choice("+-*")
    return f"{written(a)}{name}{written(b)}=", {"+": a + b, "-": a - b, "*": a * b}[name]


def _quotient(rng: random.Random) -> tuple[str, Fraction]:
    b = Fraction(_integer(rng, 4)) if rng.random() < 0.6 else _decimal(rng)
    q = Fraction(_integer(rng, 4)) if rng.random() < 0.6 else _decimal(rng)
    return f"{written(b * q)}/{written(b)}=", q


def _large(rng: random.Random) -> tuple[str, Fraction]:
    a, b = _integer(rng, 20) + 10**12, _integer(rng, 12)
    name = rng.choice("+-*")
    return f"{a}{name}{b}=", Fraction({"+": a + b, "-": a - b, "*": a * b}[name])


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
    forms = (
        f"{a}**0.{b}=",
        f"{a}^(1/{b + 1})=",
        f"sin({a})=",
        f"cos({a})+sin({b})=",
        f"log10({a})=",
        f"ln({a})=",
        f"log({a})/log({b})=",
        f"sqrt({a * a + 1})=",
        f"√{a}+{b}=",
        f"e^{a}=",
        f"π*{a}=",
        f"pi+{a}=",
        f"e**(iπ)+{a}=",
        f"{a}!=",
        f"tan({a})*{b}=",
        f"{a}**-{b}=",
        f"sin({a}pi/{b})=",
        f"|{a}-{b}|=",
        f"{a} mod {b} =",
        f"C({a},{b})=",
    )
    return rng.choice(forms), None


FORMS: dict[str, Callable[[random.Random], tuple[str, Fraction | None]]] = {
    "sums": _sum,
    "negative operands": _negative,
    "decimals": _decimals,
    "quotients": _quotient,
    "large numbers": _large,
    "powers": _power,
    "brackets": _brackets,
    "many operands": _long,
    "endless quotients": _endless,
    "beyond": _beyond,
}


def like_math_401(n: int = LIKE_MATH, seed: int = 0) -> list[Item]:
    """Items in the form of MATH-401, as many of each group in `FORMS`."""
    rng = random.Random(f"math/{seed}")
    names = list(FORMS)
    return [_item(*FORMS[names[at % len(names)]](rng), names[at % len(names)]) for at in range(n)]


def measure(read: Reader, items: Sequence[Item]) -> dict[str, Any]:
    """Counts of right, refused and wrong items, by group."""
    groups: dict[str, Counter[str]] = {}
    mistakes = []
    for item, outcome in zip(items, read([item["prompt"] for item in items]), strict=True):
        if outcome.value is None:
            verdict = "rightly_refused" if item["target"] is None else f"refused: {outcome.reason}"
        else:
            verdict = "right" if outcome.value == item["target"] else "wrong"
        groups.setdefault(item["group"], Counter())[verdict] += 1
        if verdict not in ("right", "rightly_refused"):
            mistakes.append({**item, "got": outcome.value or outcome.reason})
    total: Counter[str] = sum(groups.values(), Counter())
    return {
        "n": len(items),
        "totals": dict(total.most_common()),
        "groups": {name: dict(counts) for name, counts in groups.items()},
        "mistakes": mistakes[:200],
    }


def main() -> None:
    """Measures all tokenizers and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--per-spelling", type=int, default=PER_SPELLING, help="(default: %(default)s)")
    parser.add_argument("--n", type=int, default=LIKE_MATH, help="items like MATH-401 (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--readers", nargs="+", default=reader_names(), metavar="NAME")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sets = {
        "spellings": spelled_items(arguments.per_spelling, arguments.seed),
        "like_math_401": like_math_401(arguments.n, arguments.seed),
    }
    results: dict[str, Any] = {**facts(), "seed": arguments.seed, "spellings": len(PAIRS), "tokenizers": {}}
    for name in arguments.readers:
        reader = load_reader(name)
        results["tokenizers"][name] = found = {key: measure(reader.read, items) for key, items in sets.items()}
        for key, part in found.items():
            print(name, key, part["n"], json.dumps(part["totals"]), flush=True)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
