"""Exact values of expressions that are written as text: `igc_expression` of a row, and what the generator draws.

In: a text such as `(3 + 4) * 2.5`. Out: a `Worked`: its value as a fraction, or the status of a calculation that has
none, worked out by recursive descent on the host. The grammar is that of `expressions.order`; the two share no code,
so each is a check of the other. Texts around an expression are not read here (`text_reader`), and nothing is a tensor.
Try it: `pytest tests/data/test_exact_values.py`
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, NamedTuple

from ..expressions.fixed_point import Rounding, Treatment, kept_digits
from ..numbers.calculator import Division, Status


__all__ = ["NotAnExpression", "ValueLimits", "Worked", "work_out", "written"]

LONGEST_TEXT = 2000  # characters
DEEPEST = 50  # brackets in each other; each is a few recursive calls

_GLYPHS = {"×": "*", "·": "*", "÷": "/", "\u2212": "-", "**": "^"}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NUMBER = r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![0-9.,])|[0-9]+(?:\.[0-9]+)?|\.[0-9]+"
_PIECE = re.compile(rf"\s*(?:({_NUMBER})|(\*\*|[-+*/^×÷·\u2212%()\[\]{{}}]|of\b))")


class NotAnExpression(ValueError):
    """A text is not in the grammar; the message says why, and is the end of a sentence about the text."""


class _NoValue(Exception):
    """Ends a calculation; the argument is its status."""


@dataclass(frozen=True)
class ValueLimits:
    """What a calculator can do, as in `IGCConfig`.

    Args:
        num_digits: The most digits of a number in the text.
        result_digits: The most digits of a result.
        max_operands: The most numbers of an expression.
        operations: Operators that may occur. A power and `of` need `*`, a per cent sign needs `/`.
        division, rounding, decimal_places: Quotients that are not exact, see `fixed_point.Treatment`.
        decimals: Whether results with decimal places are written. Without it they count as inexact.
    """

    num_digits: int
    result_digits: int
    max_operands: int = 8
    operations: tuple[str, ...] = ("+", "-", "*", "/")
    division: Division = "exact"
    rounding: Rounding = "refuse"
    decimal_places: int | None = None
    decimals: bool = False

    @classmethod
    def of(cls, config: Any) -> "ValueLimits":
        """Those of an `IGCConfig`, as far as it has these settings."""
        known = {field.name: getattr(config, field.name) for field in fields(cls) if hasattr(config, field.name)}
        return cls(**(known | {"operations": tuple(config.operations)}))


class Worked(NamedTuple):
    """An expression that was worked out.

    Attributes:
        value: Its value; None unless the status is OK.
        status: OK, OVERFLOW, UNDEFINED or INEXACT.
        pair: Operator and operands in canonical form, if it is one operation on two integers; else None.
        numbers: How many numbers it has.
    """

    value: Fraction | None
    status: Status
    pair: tuple[str, str, str] | None
    numbers: int


class _Node(NamedTuple):
    """A part of an expression: `kind` is an operator, `number`, `negative` or `%`; `text` is that of a number."""

    kind: str
    parts: tuple["_Node", ...] = ()
    text: str = ""


def work_out(text: str, limits: ValueLimits) -> Worked:
    """The exact value of an expression.

    Raises:
        NotAnExpression: The text is not in the grammar, has fewer than two or more than `max_operands` numbers, needs
            an operation that is not configured, adds a percentage to a number, or has an exponent that is no integer
            of at least 0.
    """
    parser = _Parser(text)
    tree = parser.whole()
    numbers = sum(piece[0].isdigit() or piece[0] == "." for piece in parser.pieces)
    if numbers < 2:
        raise NotAnExpression("it has no two numbers")
    if numbers > limits.max_operands:
        raise NotAnExpression(f"it has {numbers} numbers, but `max_operands={limits.max_operands}`")
    needed = {"^": "*", "of": "*", "%": "/"}
    for piece in parser.pieces:
        operation = needed.get(piece, piece)
        if operation in "+-*/" and operation not in limits.operations:
            raise NotAnExpression(f"`{piece}` needs the operation `{operation}`, which is not in `operations`")
    pair = _pair(tree)
    try:
        if any(len(re.sub("[.,]", "", piece)) > limits.num_digits for piece in parser.pieces if piece[-1].isdigit()):
            raise _NoValue(Status.OVERFLOW)
        return Worked(_Evaluator(limits).result(tree), Status.OK, pair, numbers)
    except _NoValue as ended:
        return Worked(None, ended.args[0], pair, numbers)


def written(value: Fraction) -> str:
    """A finite decimal in canonical form: no zeros at the end, a zero before the point, no `-0`.

    Raises:
        ValueError: The decimals of the value do not end.
    """
    places = _places(value)
    if places is None:
        raise ValueError(f"{value} has no end as a decimal. Refuse it with the status inexact.")
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    number = digits[: len(digits) - places] + ("." + digits[len(digits) - places :] if places else "")
    return f"-{number}" if value < 0 else number


def _places(value: Fraction) -> int | None:
    """How many decimal places a value has; None without end."""
    rest, counts = value.denominator, [0, 0]
    for at, factor in enumerate((2, 5)):
        while rest % factor == 0:
            rest, counts[at] = rest // factor, counts[at] + 1
    return max(counts) if rest == 1 else None


def _pair(tree: _Node) -> tuple[str, str, str] | None:
    """Operator and operands of an expression that is one operation on two integers with signs."""
    if tree.kind not in "+-*/" or not tree.kind:
        return None
    operands = [_integer(part) for part in tree.parts]
    return None if None in operands else (tree.kind, str(operands[0]), str(operands[1]))


def _integer(node: _Node) -> int | None:
    """The value of an integer with signs; None for all else."""
    if node.kind == "negative":
        inner = _integer(node.parts[0])
        return None if inner is None else -inner
    return int(node.text.replace(",", "")) if node.kind == "number" and "." not in node.text else None


class _Parser:
    """Recursive descent over the pieces of a text; each method consumes a rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.pieces: list[str] = []
        self.at = self.depth = 0
        end = 0
        if len(text) > LONGEST_TEXT:
            raise NotAnExpression(f"it has more than {LONGEST_TEXT} characters")
        while match := _PIECE.match(text, end):
            piece, end = match[1] or match[2], match.end()
            self.pieces.append(_GLYPHS.get(piece, piece))
        if text[end:].strip():
            raise NotAnExpression(f"it has {text[end:].strip()[:20]!r}, which is no part of an expression")

    @property
    def next(self) -> str:
        """The next piece, "" at the end."""
        return self.pieces[self.at] if self.at < len(self.pieces) else ""

    def take(self) -> str:
        """Consumes a piece."""
        self.at += 1
        return self.pieces[self.at - 1]

    def whole(self) -> _Node:
        """The tree of the whole text."""
        tree = self.sum()
        if self.next:
            raise NotAnExpression(f"`{self.next}` is not expected after `{''.join(self.pieces[: self.at])[-20:]}`")
        return tree

    def sum(self) -> _Node:
        """Products with `+` and `-` between."""
        return self._chain(("+", "-"), self.product)

    def product(self) -> _Node:
        """Factors with `*`, `/` and `of` between; `of` only after a per cent sign."""
        return self._chain(("*", "/", "of"), self.signed)

    def _chain(self, operators: tuple[str, ...], part: Callable[[], _Node]) -> _Node:
        """Parts with left-associative operators between."""
        tree = part()
        while self.next in operators:
            if self.next == "of" and self.pieces[self.at - 1] != "%":
                raise NotAnExpression("`of` stands after no per cent sign")
            operator = self.take()
            tree = _Node("*" if operator == "of" else operator, (tree, part()))
            if operators[0] == "+" and any(map(_is_percentage, tree.parts)):
                raise NotAnExpression("it adds a percentage to a number, or subtracts one, which has two meanings")
        return tree

    def signed(self) -> _Node:
        """Signs, which bind less than a power."""
        signs = []
        while self.next in ("+", "-"):
            signs.append(self.take())
        tree = self.power()
        return _Node("negative", (tree,)) if signs.count("-") % 2 else tree

    def power(self) -> _Node:
        """A right-associative power, whose exponent may have signs."""
        base = self.operand()
        if self.next != "^":
            return base
        self.take()
        return _Node("^", (base, self.signed()))

    def operand(self) -> _Node:
        """A number or a bracket, perhaps with a per cent sign."""
        piece = self.take() if self.next else ""
        if piece and (piece[0].isdigit() or piece[0] == "."):
            tree = _Node("number", text=piece)
        elif piece in _CLOSING:
            self.depth += 1
            if self.depth > DEEPEST:
                raise NotAnExpression(f"it has more than {DEEPEST} brackets in each other")
            tree = self.sum()
            if self.next != _CLOSING[piece]:
                raise NotAnExpression(f"`{piece}` is not closed by `{_CLOSING[piece]}`")
            self.take()
            self.depth -= 1
        else:
            raise NotAnExpression(f"a number is missing {f'before `{piece}`' if piece else 'at its end'}")
        if self.next == "%":
            self.take()
            tree = _Node("%", (tree,))
        return tree


def _is_percentage(node: _Node) -> bool:
    """Whether a term is a percentage and nothing more: `5%`, `-(5%)`."""
    return node.kind == "%" or (node.kind == "negative" and _is_percentage(node.parts[0]))


class _Evaluator:
    """Works out a tree; every value on the way has to be kept."""

    def __init__(self, limits: ValueLimits) -> None:
        treatment = Treatment(limits.division, limits.rounding, limits.decimal_places)
        self.limits, self.kept = limits, kept_digits(limits.num_digits, limits.result_digits, treatment)

    def result(self, tree: _Node) -> Fraction:
        """The value of the whole expression."""
        value = self.value(tree, last=True)
        places = _places(value)
        assert places is not None
        if places and not self.limits.decimals:
            raise _NoValue(Status.INEXACT)
        if max(len(written(value).lstrip("-").replace(".", "").lstrip("0")), places + 1) > self.limits.result_digits:
            raise _NoValue(Status.OVERFLOW)
        return value

    def value(self, node: _Node, last: bool = False) -> Fraction:
        """The value of a part; `last`: no calculation follows, so that a quotient may be rounded."""
        if node.kind == "number":
            return Fraction(node.text.replace(",", ""))
        if node.kind == "negative":
            return -self.value(node.parts[0], last)
        if node.kind == "%":
            return self._checked(self.value(node.parts[0]) / 100)
        left, right = (self.value(part) for part in node.parts)
        if node.kind == "/":
            return self._checked(self._quotient(left, right, last), Status.INEXACT)
        if node.kind == "^":
            return self._checked(self._power(left, right))
        return self._checked({"+": left + right, "-": left - right, "*": left * right}[node.kind])

    def _checked(self, value: Fraction, too_many_places: Status = Status.OVERFLOW) -> Fraction:
        """The value, if its digits before the point and its places are kept."""
        places = _places(value)
        if places is None or places > self.kept:
            raise _NoValue(Status.INEXACT if places is None else too_many_places)
        if abs(value) >= 10**self.kept:
            raise _NoValue(Status.OVERFLOW)
        return value

    def _quotient(self, a: Fraction, b: Fraction, last: bool) -> Fraction:
        """a / b, rounded as configured."""
        if b == 0:
            raise _NoValue(Status.UNDEFINED)
        value, limits = a / b, self.limits
        if limits.division != "exact":
            return Fraction(value.__floor__() if limits.division == "floor" else value.__trunc__())
        if limits.rounding == "refuse" or not last or _places(value) is not None:
            return value
        scaled = abs(value) * 10 ** (limits.decimal_places or 0)  # never a half: a half ends
        rounded = Fraction(round(scaled), 10 ** (limits.decimal_places or 0))
        if rounded == 0:  # it is refused, as a zero would say nothing of the quotient
            return value
        return -rounded if value < 0 else rounded

    def _power(self, base: Fraction, exponent: Fraction) -> Fraction:
        """A power with an exponent that is an integer of at least 0."""
        if exponent.denominator != 1 or exponent < 0:
            raise NotAnExpression("it has an exponent that is no integer of at least 0")
        if base == 0 and exponent == 0:
            raise _NoValue(Status.UNDEFINED)
        if base in (0, 1, -1):
            return base ** (2 + int(exponent) % 2 if exponent else 0)
        # A value with so many bits has more digits than are kept, so it need not be worked out.
        if exponent * max(base.numerator.bit_length(), base.denominator.bit_length()) > 16 * self.kept:
            raise _NoValue(Status.OVERFLOW)
        return base ** int(exponent)
