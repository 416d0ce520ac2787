"""Random expressions as trees, their exact values, and how they are written.

In: a random generator. Out: a `Tree` of operations on literals; its value by `fractions`, or why there is none; its
pieces, which are literals, operators, brackets and signs in the order of the text, without spaces. Brackets are set
where precedence needs them, and here and there where it does not. The value comes from the tree and never from the
text, so that no parser takes part. Try it: `pytest tests/benchmarks/test_symbol_fuzz.py`
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fractions import Fraction


__all__ = [
    "DIGITS",
    "Piece",
    "Tree",
    "Unanswerable",
    "evaluate",
    "literal",
    "pieces_of",
    "places",
    "random_tree",
    "span",
    "written",
]

DIGITS = 40  # of operands, results and everything between
ENDLESS = 10**6  # digits of a value that does not end
GLYPHS = {"+": "+", "-": "-−", "*": "*×·x", "/": "/÷", "^": ("^", "**")}
LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "of": 2, "sign": 3, "^": 4, "literal": 5}
BRACKETS = ("()", "()", "()", "[]", "{}")
DIVISORS = ("2", "4", "5", "8", "10", "16", "20", "25", "0.5", "0.2", "1.25", "100", "1000", "2.5")


class Unanswerable(Exception):
    """An expression without a value; the argument is the reason: `inexact`, `undefined`, `overflow`, `exponent`."""


@dataclass
class Tree:
    """A literal, a sign before a tree, or an operation on two trees.

    Attributes:
        kind: `literal`, `sign` or an operator in `LEVELS`.
        text: of a literal, without currency; of a sign, the sign.
        value: of a literal.
        parts: the operands.
    """

    kind: str
    text: str = ""
    value: Fraction = Fraction(0)
    parts: list[Tree] = field(default_factory=list)

    def leaves(self) -> list[Tree]:
        """All literals, from left to right."""
        return [self] if self.kind == "literal" else [leaf for part in self.parts for leaf in part.leaves()]


@dataclass
class Piece:
    """A piece of a text: `literal`, `operator`, `sign`, `open` or `close`; `tree` is a literal's."""

    kind: str
    text: str
    tree: Tree | None = None


def evaluate(tree: Tree) -> tuple[Fraction, int]:
    """The value of a tree, and the most digits that any value on the way has, zeros after the point included.

    Raises:
        Unanswerable: There is no value. One that does not end as a decimal is a value.
    """
    if tree.kind == "literal":
        return tree.value, max(span(tree.value), len(tree.text.replace(",", "").replace(".", "").rstrip("%")))
    if tree.kind == "sign":
        value, most = evaluate(tree.parts[0])
        return (-value if tree.text in "-−" else value), most
    (a, left), (b, right) = (evaluate(part) for part in tree.parts)
    value = _apply(tree.kind, a, b)
    return value, max(left, right, span(value))


def _apply(operator: str, a: Fraction, b: Fraction) -> Fraction:
    """One operation."""
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    if operator == "^":
        if b.denominator != 1 or b < 0:
            raise Unanswerable("exponent")
        if a == b == 0:
            raise Unanswerable("undefined")
        if a not in (-1, 0, 1) and b > 2000:
            raise Unanswerable("overflow")
        return a ** int(b) if a not in (-1, 1) else a ** int(b % 2)
    if operator != "/":
        return a * b
    if b == 0:
        raise Unanswerable("undefined")
    return a / b


def places(value: Fraction) -> int | None:
    """How many digits a value has after the point; None without an end."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None


def span(value: Fraction) -> int:
    """How many digits a decimal has, at least one of them before the point; `ENDLESS` without an end."""
    after = places(value)
    if after is None:
        return ENDLESS
    return len(str(abs(value.numerator) * 10**after // value.denominator).rjust(after + 1, "0"))


def written(value: Fraction) -> str:
    """A terminating decimal in canonical form, such as `-12.5`."""
    after = places(value)
    assert after is not None, value
    digits = str(abs(value.numerator) * 10**after // value.denominator).rjust(after + 1, "0")
    return "-" * (value < 0) + (f"{digits[:-after]}.{digits[-after:]}" if after else digits)


def random_tree(rng: random.Random, operands: int) -> Tree:
    """A tree with so many literals."""
    if operands == 1:
        tree = literal(rng)
        return Tree("sign", rng.choice("---−+"), parts=[tree]) if rng.random() < 0.08 else tree
    operator = rng.choices("+-*/^", (8, 8, 8, 5, 1))[0]
    first = rng.randint(1, operands - 1) if rng.random() < 0.5 else operands - 1
    if operator == "^":
        power = Tree("^", parts=[random_tree(rng, operands - 1) if operands < 4 else _small(rng), _small(rng)])
        return power if operands < 4 else _joined(rng, [power, random_tree(rng, operands - 2)])
    if operator == "/":
        return _division(rng, operands)
    if operator == "*" and rng.random() < 0.12:
        percentage = literal(rng, longest=3)
        percentage.text, percentage.value = percentage.text + "%", percentage.value / 100
        return Tree(rng.choice(("of", "of", "*")), parts=[percentage, random_tree(rng, operands - 1)])
    return _signed(rng, Tree(operator, parts=[random_tree(rng, first), random_tree(rng, operands - first)]))


def _signed(rng: random.Random, tree: Tree) -> Tree:
    """A tree, seldom with a minus before it."""
    return Tree("sign", "-", parts=[tree]) if rng.random() < 0.03 else tree


def _joined(rng: random.Random, parts: list[Tree]) -> Tree:
    """Two trees with an operator that always has a result, in any order."""
    rng.shuffle(parts)
    return Tree(rng.choice("+-*"), parts=parts)


def _small(rng: random.Random) -> Tree:
    """An exponent, or a small base."""
    text = str(rng.choice((0, 1, 2, 2, 2, 3, 3, 4, 5, 10)))
    return Tree("literal", text, Fraction(text))


def _division(rng: random.Random, operands: int) -> Tree:
    """A division; most of them end."""
    chance = rng.random()
    if chance < 0.2:
        return Tree("/", parts=[random_tree(rng, operands - 1), literal(rng)])
    if chance < 0.7 and operands == 2:
        divisor, factor = literal(rng), literal(rng, longest=4)
        product = written(divisor.value * factor.value)
        return Tree("/", parts=[Tree("literal", product, Fraction(product)), divisor])
    text = rng.choice(DIVISORS)
    return Tree("/", parts=[random_tree(rng, operands - 1), Tree("literal", text, Fraction(text))])


def literal(rng: random.Random, longest: int = 0) -> Tree:
    """An integer or a decimal, of up to six digits, seldom more."""
    longest = longest or rng.choices((3, 6, 12, 20), (5, 5, 1, 0.3))[0]
    digits = rng.randint(1, longest)
    number = str(rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits))
    if rng.random() < 0.02:
        number = "0" * rng.randint(1, 3) + number
    if len(number) > 3 and number[0] != "0" and rng.random() < 0.2:
        number = f"{int(number):,}"
    if rng.random() < 0.25:
        decimals = "".join(rng.choices("0123456789", k=rng.randint(1, rng.choice((2, 2, 4, 8)))))
        number = ("" if number == "0" and rng.random() < 0.3 else number) + "." + decimals
    return Tree("literal", number, Fraction(number.replace(",", "")))


def pieces_of(tree: Tree, rng: random.Random, redundant: float = 0.04) -> list[Piece]:
    """The pieces of a tree's text.

    Args:
        tree: What is written.
        rng: Chooses glyphs, kinds of brackets and brackets that nothing needs.
        redundant: The share of trees in brackets that precedence does not need.
    """

    def at_least(part: Tree, level: int) -> list[Piece]:
        inner = _unbracketed(part)
        if part.text.endswith("%") or (LEVELS[part.kind] >= level and rng.random() >= redundant):
            return inner
        opening, closing = rng.choice(BRACKETS)
        return [Piece("open", opening), *inner, Piece("close", closing)]

    def _unbracketed(part: Tree) -> list[Piece]:
        if part.kind == "literal":
            return [Piece("literal", part.text, part)]
        if part.kind == "sign":
            return [Piece("sign", part.text), *at_least(part.parts[0], LEVELS["^"])]
        level = LEVELS[part.kind]
        # A power is right-associative and its base has no sign, all else is left-associative.
        left, right = (level + 1, level) if part.kind == "^" else (level, level + 1)
        glyph = rng.choice(GLYPHS.get(part.kind, (part.kind,)))
        second = at_least(part.parts[1], right)
        if glyph == "x" and second[0].kind == "sign":
            glyph = "*"  # `3 x - 5` may be a variable
        return [*at_least(part.parts[0], left), Piece("operator", glyph), *second]

    return at_least(tree, 0)
