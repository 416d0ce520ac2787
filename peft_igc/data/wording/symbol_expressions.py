"""Expressions in symbols for training rows: two to eight numbers, brackets, powers, decimals, per cent, money.

`draw` makes one of a kind, in one of many spellings (gaps, glyphs, brackets, separators), together with the same
expression in plain symbols for `igc_expression`. Values are not looked at here: who wants an integer draws again
(`arithmetic`). Kinds whose values would seldom be integers are built so that they often are. There are no templates,
so nothing is held out but the frames. Try it: `pytest tests/data/test_symbol_rows.py`.
"""

import random
from collections.abc import Callable
from typing import NamedTuple


MOST_NUMBERS = 8

_TIMES, _DIVIDE, _MINUS = ("*", "*", "*", "×", "·"), ("/", "/", "÷"), ("-", "-", "-", "\u2212")
_BRACKETS = (("(", ")"),) * 6 + (("[", "]"), ("{", "}"))
_LEVELS = {"+": 0, "-": 0, "*": 1, "/": 1, "of": 1, "negative": 2, "^": 3, "%": 4, "number": 5}

_WISHES = (
    *(" to {} decimal places", ", rounded to {} decimal places", " correct to {} dp", " to {} significant figures"),
    *(" to the nearest whole number", " rounded to the nearest cent", ", to the nearest tenth", " with {} decimals"),
)


class Tree(NamedTuple):
    """A part of an expression. `kind` is an operator, `number`, `negative` or `%`; `text` is that of a number."""

    kind: str
    parts: tuple["Tree", ...] = ()
    text: str = ""


def draw(kind: str, max_digits: int, rng: random.Random) -> tuple[str, str]:
    """An expression of one of the `KINDS`, as a text shows it and in plain symbols. Its integers have at most about
    `max_digits` digits; a dividend may have more."""
    tree = KINDS[kind](max_digits, rng)
    return _spelled(tree, kind, rng), _Style().spelled(tree, random.Random(0))


def draw_rounded(max_digits: int, rng: random.Random) -> tuple[str, tuple[str, str]]:
    """A quotient whose decimals do not end, with words that ask for a rounding; and its two integers."""
    first, second = _integer(max_digits, rng), 3 * _integer(max(max_digits - 2, 1), rng) + 3
    first += first % 3 == 0
    tree = Tree("/", (_number(first), _number(second)))
    wish = rng.choice(_WISHES).format(rng.choice((2, 2, 2, 3, 4)))
    return f"{_spelled(tree, 'two', rng)}{wish}", (str(first), str(second))


def _integer(max_digits: int, rng: random.Random) -> int:
    """A number of one to a number of digits, shorter ones more often."""
    digits = min(rng.randint(1, max_digits), rng.randint(1, max_digits))
    return rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits)


def _number(value: int) -> Tree:
    """An integer, negative ones with a sign."""
    number = Tree("number", text=str(abs(value)))
    return Tree("negative", (number,)) if value < 0 else number


def _decimal(digits: int, places: int) -> Tree:
    """The number `digits / 10**places`, with all its places."""
    text = str(digits).rjust(places + 1, "0")
    return Tree("number", text=f"{text[: len(text) - places]}.{text[len(text) - places :]}")


def _two(max_digits: int, rng: random.Random) -> Tree:
    """One operation on two integers, some of them negative; divisions are exact."""
    operator = rng.choice("+-*/")
    a, b = (_integer(max_digits, rng) for _ in range(2))
    if operator == "/":
        b = b or 1
        a *= b
    a, b = (-a if rng.random() < 0.12 else a), (-b if rng.random() < 0.12 else b)
    return Tree(operator, (_number(a), _number(b)))


def _term(max_digits: int, most: int, rng: random.Random) -> Tree:
    """A number, a product or an exact quotient, of at most a given number of numbers."""
    shape = rng.random()
    if most < 2 or shape < 0.55:
        return _number(_integer(max_digits, rng))
    if shape < 0.85:
        parts = (_number(_integer(max_digits, rng)), _number(_integer(2, rng)))
        return Tree("*", parts if rng.random() < 0.5 else parts[::-1])
    divisor = max(_integer(2, rng), 1)
    return Tree("/", (_number(divisor * _integer(max(max_digits - 2, 1), rng)), _number(divisor)))


def _chain(max_digits: int, rng: random.Random, least: int = 3, most: int = MOST_NUMBERS) -> Tree:
    """Terms with `+` and `-` between: `3 + 4 * 5 - 12 / 4`."""
    count = min(rng.randint(least, most), rng.randint(least, most))
    tree = _term(max_digits, count - 1 if count > 1 else 1, rng)
    while (used := count_numbers(tree)) < count:
        tree = Tree(rng.choice("++-"), (tree, _term(max_digits, count - used, rng)))
    return tree


def count_numbers(tree: Tree) -> int:
    """How many numbers a tree has."""
    return 1 if tree.kind == "number" else sum(map(count_numbers, tree.parts))


def _brackets(max_digits: int, rng: random.Random) -> Tree:
    """A sum in brackets in a product, a difference or a quotient; sometimes two of them, or one in another."""
    short = min(max_digits, 4)
    inner = _chain(short, rng, 2, 3)
    outer = _number(_integer(min(max_digits, 3), rng))
    shape = rng.random()
    if shape < 0.3:
        tree = Tree("*", (inner, outer))
    elif shape < 0.5:
        tree = Tree("*", (outer, inner))
    elif shape < 0.65:
        tree = Tree("-", (_number(_integer(max_digits, rng)), inner))
    elif shape < 0.75:
        tree = Tree("*", (inner, _chain(short, rng, 2, 3)))
    elif shape < 0.85:
        tree = Tree("/", (inner, _number(rng.choice((1, 2, 2, 3, 4, 5)))))
    elif shape < 0.92:
        tree = Tree("negative", (inner,))
    else:
        tree = Tree("*", (Tree("-", (outer, inner)), _number(_integer(2, rng))))
    if rng.random() < 0.3:
        tree = Tree(rng.choice("+-"), (tree, _term(short, 2, rng)))
    return tree


def _power(max_digits: int, rng: random.Random) -> Tree:
    """A power with a small exponent, alone or in a sum or a product."""
    base = rng.choice((2, 10, rng.randint(2, 12), rng.randint(2, 99)))
    exponent = rng.choice((2, 2, 2, 3, 3, 4, 5, rng.randint(0, 10)))
    tree = Tree("^", (_number(base), _number(exponent)))
    shape = rng.random()
    if shape < 0.1:
        tree = Tree("^", (Tree("+", (_number(base), _number(_integer(1, rng)))), _number(rng.choice((2, 2, 3)))))
    elif shape < 0.2:
        tree = Tree("negative", (tree,))
    if rng.random() < 0.5:
        other = _term(min(max_digits, 4), 2, rng)
        tree = Tree(rng.choice("+-*"), (tree, other) if rng.random() < 0.6 else (other, tree))
    return tree


def _decimals(max_digits: int, rng: random.Random) -> Tree:
    """Decimals whose places often cancel: `2.5 * 4`, `1.25 + 3.75`, `7.2 / 0.6`."""
    places = rng.choice((1, 1, 2, 2, 3))
    scale = 10**places
    first = _integer(min(max_digits, 4), rng) * 10 + rng.randint(1, 9)
    shape = rng.random()
    if shape < 0.4:
        second = -first % scale + scale * _integer(2, rng) if rng.random() < 0.5 else _integer(4, rng) + 1
        tree = Tree("+", (_decimal(first, places), _decimal(second, places)))
        if rng.random() < 0.4:
            tree = Tree("-", (_decimal(first + scale * _integer(2, rng), places), _decimal(first, places)))
    elif shape < 0.75:
        factor = _number(rng.choice((2, 4, 5, 8, 10, 20, 100, 4 * _integer(2, rng), _integer(3, rng))))
        parts = (_decimal(5 * first if rng.random() < 0.6 else first, places), factor)
        tree = Tree("*", parts if rng.random() < 0.6 else parts[::-1])
    else:
        tree = Tree("/", (_decimal(first * max(_integer(2, rng), 1), places), _decimal(first, places)))
    if rng.random() < 0.25:
        tree = Tree(rng.choice("+-"), (tree, _number(_integer(3, rng))))
    return tree


def _quotient(max_digits: int, rng: random.Random) -> Tree:
    """A quotient of integers whose decimals end: `7 / 4`, `123 / 50 + 2`."""
    divisor = rng.choice((2, 4, 5, 8, 10, 16, 20, 25, 40, 50, 100, 125, 1000))
    tree = Tree("/", (_number(_integer(min(max_digits, 5), rng)), _number(divisor)))
    return tree if rng.random() < 0.7 else Tree(rng.choice("+-*"), (tree, _number(_integer(3, rng))))


def _percent(max_digits: int, rng: random.Random) -> Tree:
    """A percentage of a number, or a product with one: `15% of 40`, `200 * 5%`."""
    share = rng.choice((5, 10, 20, 25, 50, 75, rng.randint(1, 99), rng.randint(1, 200)))
    whole = _integer(min(max_digits, 4), rng) * rng.choice((1, 4, 10, 20, 100))
    percentage = Tree("%", (_number(share),))
    if rng.random() < 0.65:
        tree = Tree("of", (percentage, _number(whole)))
    else:
        parts = (percentage, _number(whole))
        tree = Tree("*", parts if rng.random() < 0.5 else parts[::-1])
    if rng.random() < 0.2:
        tree = Tree(rng.choice("+-"), (_number(_integer(min(max_digits, 4), rng)), tree))
    return tree


def _money(max_digits: int, rng: random.Random) -> Tree:
    """Amounts with cents: `$12.50 * 4`, `$3 + $4`. The signs are put there by the spelling."""
    cents = _integer(3, rng) * 100 + rng.choice((0, 0, 25, 50, 50, 75, 99, rng.randrange(100)))
    amount = _decimal(cents, 2) if cents % 100 else _number(cents // 100)
    if rng.random() < 0.5:
        return Tree("*", (amount, _number(max(_integer(2, rng), 1))))
    other = cents % 100 and 100 - cents % 100
    rest = _decimal(other + 100 * _integer(2, rng), 2) if other else _number(_integer(3, rng))
    return Tree(rng.choice("++-"), (amount, rest))


KINDS: dict[str, Callable[[int, random.Random], Tree]] = {
    "two": _two,
    "chain": _chain,
    "brackets": _brackets,
    "power": _power,
    "decimals": _decimals,
    "quotient": _quotient,
    "percent": _percent,
    "money": _money,
}


class _Style(NamedTuple):
    """How an expression is spelled; the defaults are plain symbols."""

    gap: str = " "
    times: str = "*"
    divide: str = "/"
    minus: str = "-"
    power: str = "^"
    brackets: tuple[str, str] = ("(", ")")
    separated: bool = False
    currency: str = ""
    wrapped: float = 0.0  # share of negative numbers in brackets where nothing needs them

    def spelled(self, node: Tree, rng: random.Random, at_start: bool = True, factor: bool = False) -> str:
        """The text of a node without brackets of its own; `factor`: within the second factor of a product."""
        if node.kind == "number":  # in money all terms of a sum have the sign of the currency, of a product the first
            whole, point, places = node.text.partition(".")
            shown = f"{int(whole):,}" if self.separated and len(whole) > 3 else whole
            return f"{'' if factor else self.currency}{shown}{point}{places}"
        if node.kind == "negative":
            return self.minus + self._inner(node.parts[0], 3, rng, False, factor)
        if node.kind == "%":
            return self._inner(node.parts[0], 5, rng, at_start, factor) + "%"
        level = _LEVELS[node.kind]
        left, right = (level + 1, 2) if node.kind == "^" else (level, level + 1)
        first = self._inner(node.parts[0], left, rng, at_start, factor)
        second = self._inner(node.parts[1], right, rng, False, factor or node.kind == "*")
        sign = {"*": self.times, "/": self.divide, "-": self.minus, "^": self.power}.get(node.kind, node.kind)
        gap = " " if node.kind == "of" or sign == "x" else "" if node.kind == "^" and rng.random() < 0.7 else self.gap
        return f"{first}{gap}{sign}{gap}{second}"

    def _inner(self, node: Tree, level: int, rng: random.Random, at_start: bool, factor: bool) -> str:
        """The text of a part, in brackets if its operator binds less than `level` or its sign follows another one."""
        text = self.spelled(node, rng, at_start, factor)
        needed = _LEVELS[node.kind] < level or (node.kind == "negative" and (not self.gap or self.times == "x"))
        wanted = node.kind == "negative" and rng.random() < self.wrapped
        if (node.kind == "negative" and at_start and not wanted and level < 3) or not (needed or wanted):
            return text
        return self.brackets[0] + text + self.brackets[1]


def _spelled(tree: Tree, kind: str, rng: random.Random) -> str:
    """A tree in a drawn spelling; `12 x 34` only for two numbers, where the letter cannot be an unknown.

    Two numbers have no `·` between them, since the network cannot point at a number that touches one.
    """
    gap = rng.choice((" ", " ", ""))
    signs = _TIMES[:-1] if kind == "two" else _TIMES
    style = _Style(
        gap=gap,
        times="x" if kind == "two" and gap and rng.random() < 0.15 else rng.choice(signs),
        divide=rng.choice(_DIVIDE),
        minus=rng.choice(_MINUS),
        power=rng.choice(("^", "^", "**")),
        brackets=rng.choice(_BRACKETS),
        separated=rng.random() < 0.1,
        currency=rng.choice("$$$€£") if kind == "money" else "",
        wrapped=0.4,
    )
    return style.spelled(tree, random.Random(rng.randrange(2**32)))
