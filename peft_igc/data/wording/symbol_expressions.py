"""Expressions in symbols for training rows: two to eight numbers, brackets, powers, decimals, per cent, money.

`draw` makes one of a kind, in one of many spellings (gaps, glyphs, brackets, separators), together with the same
expression in plain symbols for `igc_expression`. Kinds whose values would seldom be integers are built so that they
often are. There are no templates, so nothing is held out but the frames.
"""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from .phrases import of_length, pointed


MOST_NUMBERS = 8

_TIMES, _DIVIDE, _MINUS = ("*", "*", "*", "×", "·"), ("/", "/", "÷"), ("-", "-", "-", "\u2212")
_BRACKETS = (("(", ")"),) * 6 + (("[", "]"), ("{", "}"))
_LEVELS = {"+": 0, "-": 0, "*": 1, "/": 1, "of": 1, "negative": 2, "^": 3, "%": 4}

_WISHES = (
    *(" to {} decimal places", ", rounded to {} decimal places", " correct to {} dp", " to {} significant figures"),
    *(" to the nearest whole number", " rounded to the nearest cent", ", to the nearest tenth", " with {} decimals"),
)


Tree = str | tuple[Any, ...]  # a number without a sign, or an operator, `negative` or `%`, and the trees of its parts


def draw(kind: str, max_digits: int, rng: random.Random) -> tuple[str, str]:
    """An expression of one of the `KINDS`, as a text shows it and in plain symbols. Its integers have at most about
    `max_digits` digits; a dividend may have more."""
    tree = KINDS[kind](max_digits, rng)
    return _spelled(tree, kind, rng), _Style().spelled(tree, random.Random(0))


def draw_rounded(max_digits: int, rng: random.Random) -> tuple[str, tuple[str, str]]:
    """A quotient whose decimals do not end, with words that ask for a rounding; and its two integers."""
    first, second = _integer(max_digits, rng), 3 * _integer(max(max_digits - 2, 1), rng) + 3
    first += first % 3 == 0
    operands = (str(first), str(second))
    wish = rng.choice(_WISHES).format(rng.choice((2, 2, 2, 3, 4)))
    return f"{_spelled(('/', *operands), 'two', rng)}{wish}", operands


def _integer(max_digits: int, rng: random.Random) -> int:
    """A number of one to a number of digits, shorter ones more often."""
    return of_length(min(rng.randint(1, max_digits), rng.randint(1, max_digits)), rng, zero=True)


def _product(a: Tree, b: Tree, rng: random.Random, in_order: float = 0.5) -> Tree:
    return ("*", a, b) if rng.random() < in_order else ("*", b, a)


def _two(max_digits: int, rng: random.Random) -> Tree:
    """One operation on two integers, some of them negative; divisions are exact."""
    operator = rng.choice("+-*/")
    a, b = (_integer(max_digits, rng) for _ in range(2))
    if operator == "/":
        b = b or 1
        a *= b
    return operator, *(("negative", str(one)) if rng.random() < 0.12 and one else str(one) for one in (a, b))


def _term(max_digits: int, most: int, rng: random.Random) -> Tree:
    """A number, a product or an exact quotient, of at most a given number of numbers."""
    shape = rng.random()
    if most < 2 or shape < 0.55:
        return str(_integer(max_digits, rng))
    if shape < 0.85:
        return _product(str(_integer(max_digits, rng)), str(_integer(2, rng)), rng)
    divisor = max(_integer(2, rng), 1)
    return "/", str(divisor * _integer(max(max_digits - 2, 1), rng)), str(divisor)


def _chain(max_digits: int, rng: random.Random, least: int = 3, most: int = MOST_NUMBERS) -> Tree:
    """Terms with `+` and `-` between: `3 + 4 * 5 - 12 / 4`."""
    count = min(rng.randint(least, most), rng.randint(least, most))
    tree = _term(max_digits, count - 1, rng)
    while (used := count_numbers(tree)) < count:
        tree = rng.choice("++-"), tree, _term(max_digits, count - used, rng)
    return tree


def count_numbers(tree: Tree) -> int:
    """How many numbers a tree has."""
    return 1 if isinstance(tree, str) else sum(map(count_numbers, tree[1:]))


def _brackets(max_digits: int, rng: random.Random) -> Tree:
    """A sum in brackets in a product, a difference or a quotient; sometimes two of them, or one in another."""
    short = min(max_digits, 4)
    inner = _chain(short, rng, 2, 3)
    outer = str(_integer(min(max_digits, 3), rng))
    tree: Tree
    shape = rng.random()
    if shape < 0.3:
        tree = "*", inner, outer
    elif shape < 0.5:
        tree = "*", outer, inner
    elif shape < 0.65:
        tree = "-", str(_integer(max_digits, rng)), inner
    elif shape < 0.75:
        tree = "*", inner, _chain(short, rng, 2, 3)
    elif shape < 0.85:
        tree = "/", inner, rng.choice("122345")
    elif shape < 0.92:
        tree = "negative", inner
    else:
        tree = "*", ("-", outer, inner), str(_integer(2, rng))
    return (rng.choice("+-"), tree, _term(short, 2, rng)) if rng.random() < 0.3 else tree


def _power(max_digits: int, rng: random.Random) -> Tree:
    """A power with a small exponent, alone or in a sum or a product."""
    base = rng.choice((2, 10, rng.randint(2, 12), rng.randint(2, 99)))
    exponent = rng.choice((2, 2, 2, 3, 3, 4, 5, rng.randint(0, 10)))
    tree: Tree = ("^", str(base), str(exponent))
    shape = rng.random()
    if shape < 0.1:
        tree = "^", ("+", str(base), str(_integer(1, rng))), rng.choice("223")
    elif shape < 0.2:
        tree = "negative", tree
    if rng.random() < 0.5:
        other, operator = _term(min(max_digits, 4), 2, rng), rng.choice("+-*")
        tree = (operator, tree, other) if rng.random() < 0.6 else (operator, other, tree)
    return tree


def _decimals(max_digits: int, rng: random.Random) -> Tree:
    """Decimals whose places often cancel: `2.5 * 4`, `1.25 + 3.75`, `7.2 / 0.6`."""
    places = rng.choice((1, 1, 2, 2, 3))
    scale = 10**places
    first = _integer(min(max_digits, 4), rng) * 10 + rng.randint(1, 9)
    shape = rng.random()
    tree: Tree
    if shape < 0.4:
        second = -first % scale + scale * _integer(2, rng) if rng.random() < 0.5 else _integer(4, rng) + 1
        tree = "+", pointed(first, places), pointed(second, places)
        if rng.random() < 0.4:
            tree = "-", pointed(first + scale * _integer(2, rng), places), pointed(first, places)
    elif shape < 0.75:
        factor = rng.choice((2, 4, 5, 8, 10, 20, 100, 4 * _integer(2, rng), _integer(3, rng)))
        tree = _product(pointed(5 * first if rng.random() < 0.6 else first, places), str(factor), rng, 0.6)
    else:
        tree = "/", pointed(first * max(_integer(2, rng), 1), places), pointed(first, places)
    return (rng.choice("+-"), tree, str(_integer(3, rng))) if rng.random() < 0.25 else tree


def _quotient(max_digits: int, rng: random.Random) -> Tree:
    """A quotient of integers whose decimals end: `7 / 4`, `123 / 50 + 2`."""
    divisor = rng.choice((2, 4, 5, 8, 10, 16, 20, 25, 40, 50, 100, 125, 1000))
    tree = "/", str(_integer(min(max_digits, 5), rng)), str(divisor)
    return tree if rng.random() < 0.7 else (rng.choice("+-*"), tree, str(_integer(3, rng)))


def _percent(max_digits: int, rng: random.Random) -> Tree:
    """A percentage of a number, or a product with one: `15% of 40`, `200 * 5%`."""
    share = rng.choice((5, 10, 20, 25, 50, 75, rng.randint(1, 99), rng.randint(1, 200)))
    whole = str(_integer(min(max_digits, 4), rng) * rng.choice((1, 4, 10, 20, 100)))
    percentage = "%", str(share)
    tree = ("of", percentage, whole) if rng.random() < 0.65 else _product(percentage, whole, rng)
    return (rng.choice("+-"), str(_integer(min(max_digits, 4), rng)), tree) if rng.random() < 0.2 else tree


def _money(max_digits: int, rng: random.Random) -> Tree:
    """Amounts with cents: `$12.50 * 4`, `$3 + $4`. The signs are put there by the spelling."""
    cents = _integer(3, rng) * 100 + rng.choice((0, 0, 25, 50, 50, 75, 99, rng.randrange(100)))
    amount = pointed(cents, 2).removesuffix(".00")
    if rng.random() < 0.5:
        return "*", amount, str(max(_integer(2, rng), 1))
    other = cents % 100 and 100 - cents % 100
    rest = pointed(other + 100 * _integer(2, rng), 2) if other else str(_integer(3, rng))
    return rng.choice("++-"), amount, rest


_MAKERS = (_two, _chain, _brackets, _power, _decimals, _quotient, _percent, _money)
KINDS: dict[str, Callable[[int, random.Random], Tree]] = {one.__name__.lstrip("_"): one for one in _MAKERS}


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
        if isinstance(node, str):  # in money all terms of a sum have the sign of the currency, of a product the first
            whole, point, places = node.partition(".")
            shown = f"{int(whole):,}" if self.separated and len(whole) > 3 else whole
            return f"{'' if factor else self.currency}{shown}{point}{places}"
        kind, *parts = node
        if kind == "negative":
            return self.minus + self._inner(parts[0], 3, rng, False, factor)
        if kind == "%":
            return self._inner(parts[0], 5, rng, at_start, factor) + "%"
        level = _LEVELS[kind]
        left, right = (level + 1, 2) if kind == "^" else (level, level + 1)
        first = self._inner(parts[0], left, rng, at_start, factor)
        second = self._inner(parts[1], right, rng, False, factor or kind == "*")
        sign = {"*": self.times, "/": self.divide, "-": self.minus, "^": self.power}.get(kind, kind)
        gap = " " if kind == "of" or sign == "x" else "" if kind == "^" and rng.random() < 0.7 else self.gap
        return f"{first}{gap}{sign}{gap}{second}"

    def _inner(self, node: Tree, level: int, rng: random.Random, at_start: bool, factor: bool) -> str:
        """The text of a part, in brackets if its operator binds less than `level` or its sign follows another one."""
        text, negative = self.spelled(node, rng, at_start, factor), node[0] == "negative"
        needed = not isinstance(node, str) and _LEVELS[node[0]] < level
        wanted = negative and rng.random() < self.wrapped
        if negative:
            needed = not (at_start and level < 3) and (needed or not self.gap or self.times == "x")
        return self.brackets[0] + text + self.brackets[1] if needed or wanted else text


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
