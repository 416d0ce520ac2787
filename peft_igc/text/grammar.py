"""The grammar: the exact value of an expression, with the steps in which it is reduced.

In: items, which `expressions` finds in a text. Out: a fraction and its `Reduction`s, or a `Refused`. Values are exact
rationals to the end, so `(1 / 3) * 3` is 1; `finished` rounds once, if the limits allow it. The grammar, loosest first:

    sum     = product (("+" | "-") product)*
    product = signed (("*" | "/" | "of") signed)*          "of" only after a per cent sign
    signed  = ("+" | "-")* power
    power   = operand ("^" ("+" | "-")* power)?            so `-2^2` is -4, and `2^3^2` 512
    operand = (number | "(" sum ")" | name "(" sum ("," sum)* ")") "%"?

Operators wait on a list until one that binds less comes, so that nothing is recursive and depth costs nothing.
Try it: `pytest tests/text/test_grammar.py`
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from .operations import FUNCTIONS, MOST_BITS, OPERATORS, SIGN
from .refusals import Limits, Reason, Reduction, Refused, Span


__all__ = ["Item", "evaluate", "finished", "written"]

CLOSING = {"(": ")", "[": "]", "{": "}"}
ITEMS_PER_OPERAND = 6
_WRITTEN_BITS = 1024  # of numbers that are written out in a step


class Item(NamedTuple):
    """A part of an expression: `number`, `call` (a function's name), an operator, a bracket, `%`, `of` or `,`."""

    kind: str
    span: Span
    value: Fraction = Fraction(0)
    name: str = ""


class _Operand(NamedTuple):
    """A value; whether a per cent sign was the last that was applied to it; and its items."""

    value: Fraction
    percent: bool
    span: Span


class _Waiting(NamedTuple):
    """An operator, a sign (`negate`, `keep`), a bracket or a call that waits for its right side."""

    kind: str
    precedence: int
    span: Span
    name: str = ""
    operands: int = 0  # how many there were before it


def evaluate(items: Sequence[Item], limits: Limits) -> tuple[Fraction, tuple[Reduction, ...]]:
    """The value of an expression, and its steps.

    Raises:
        Refused: With `steps`, those before the refusal.
    """
    numbers = sum(item.kind == "number" for item in items)
    _check_brackets(items)
    if numbers > limits.operands:
        raise Refused(Reason.TOO_MANY_OPERANDS)
    if len(items) > ITEMS_PER_OPERAND * limits.operands:
        raise Refused(Reason.TOO_LONG)
    machine = _Machine(limits)
    try:
        for item in items:
            machine.take(item)
        return machine.end(), tuple(machine.steps)
    except Refused as refused:
        refused.steps = tuple(machine.steps)
        raise


def _check_brackets(items: Sequence[Item]) -> None:
    """Refuses a bracket without a partner of its shape."""
    opened: list[Item] = []
    for item in items:
        if item.kind in CLOSING:
            opened.append(item)
        elif item.kind in CLOSING.values() and (not opened or CLOSING[opened.pop().kind] != item.kind):
            raise Refused(Reason.UNBALANCED, item.span)
    if opened:
        raise Refused(Reason.UNBALANCED, opened[-1].span)


class _Machine:
    """Reduces items as they come."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.operands: list[_Operand] = []
        self.waiting: list[_Waiting] = []
        self.steps: list[Reduction] = []
        self.complete = False  # an operand came last
        self.last = ""  # the kind of the item that came last

    def take(self, item: Item) -> None:
        """The next item."""
        kind, complete = item.kind, self.complete
        if kind == "number" and not complete:
            self.operands.append(_Operand(item.value, False, item.span))
            self.complete = True
        elif kind in CLOSING and not complete:
            self._push(kind, 0, item)
        elif kind == "call" and not complete:
            self._push("call", 0, item)
        elif kind in ("+", "-") and not complete:
            self._push("negate" if kind == "-" else "keep", SIGN, item)
        elif kind == "%" and complete and self.last != "%":
            self._refuse_absent("/", item.span)
            operand = self.operands[-1]
            self.operands[-1] = _Operand(operand.value / 100, True, (operand.span[0], item.span[1]))
        elif kind in OPERATORS and complete and (kind != "of" or self.operands[-1].percent):
            operator = OPERATORS[kind]
            self._reduce(operator.precedence + operator.from_right)
            self._push(kind, operator.precedence, item)
            self.complete = False
        elif kind == "," and complete and len(self.waiting) > 1:
            self._reduce(1)
            if len(self.waiting) < 2 or self.waiting[-2].kind != "call":
                raise Refused(Reason.MALFORMED, item.span)
            self.complete = False
        elif kind in CLOSING.values() and complete:
            self._close(item)
        else:
            raise Refused(Reason.MALFORMED, item.span)
        self.last = kind

    def end(self) -> Fraction:
        """The value of all items."""
        if not self.complete:
            raise Refused(Reason.MALFORMED)
        self._reduce(1)
        return self.operands[-1].value

    def _push(self, kind: str, precedence: int, item: Item) -> None:
        self.waiting.append(_Waiting(kind, precedence, item.span, item.name, len(self.operands)))

    def _close(self, item: Item) -> None:
        """A closing bracket: of a call, the last argument's; else the value stays what it is."""
        self._reduce(1)
        opening = self.waiting.pop()
        if self.waiting and self.waiting[-1].kind == "call":
            call = self.waiting.pop()
            arguments = self.operands[opening.operands :]
            del self.operands[opening.operands :]
            span = (call.span[0], item.span[1])
            self.operands.append(_Operand(self._called(call, arguments, span), False, span))
        else:
            self.operands[-1] = self.operands[-1]._replace(span=(opening.span[0], item.span[1]))

    def _reduce(self, least: int) -> None:
        """Applies what waits and binds as `least` or more."""
        while self.waiting and self.waiting[-1].precedence >= least:
            waiting = self.waiting.pop()
            right = self.operands.pop()
            if waiting.precedence == SIGN:
                value = -right.value if waiting.kind == "negate" else right.value
                self.operands.append(_Operand(value, right.percent, (waiting.span[0], right.span[1])))
                continue
            left = self.operands.pop()
            span = (left.span[0], right.span[1])
            if waiting.kind in ("+", "-") and (left.percent or right.percent):
                raise Refused(Reason.PERCENT_SUM, span)
            symbol = "*" if waiting.kind == "of" else waiting.kind
            texts = (_shown(left.value), symbol, _shown(right.value))
            self._refuse_absent(waiting.kind, span)
            self.operands.append(_Operand(self._step(waiting.kind, left.value, right.value, texts, span), False, span))

    def _refuse_absent(self, kind: str, span: Span) -> None:
        """Refuses an operation that the limits do not have."""
        if {"of": "*", "^": "*"}.get(kind, kind) not in self.limits.operations:
            raise Refused(Reason.MALFORMED, span)

    def _step(self, kind: str, left: Fraction, right: Fraction, texts: tuple[str, str, str], span: Span) -> Fraction:
        """The value of one operator; written down."""
        try:
            return self._kept(OPERATORS[kind].apply(left, right, self.limits), texts, span)
        except Refused as refused:
            self.steps.append(Reduction(*texts, None, span))
            raise Refused(refused.reason, refused.culprit or span) from None

    def _called(self, call: _Waiting, arguments: list[_Operand], span: Span) -> Fraction:
        """The value of a function; written down."""
        function = FUNCTIONS.get(call.name)
        values = [argument.value for argument in arguments]
        texts = ("", call.name, ", ".join(map(_shown, values)))
        fits = function is not None and function.fewest <= len(values) <= function.most
        value = function.apply(values) if function is not None and fits else None
        if value is None:
            self.steps.append(Reduction(*texts, None, span))
            raise Refused(Reason.NOT_UNDERSTOOD, span)
        return self._kept(value, texts, span)

    def _kept(self, value: Fraction, texts: tuple[str, str, str], span: Span) -> Fraction:
        """A value on the way, unless it is too long."""
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
            raise Refused(Reason.OVERFLOW, span)
        self.steps.append(Reduction(*texts, _shown(value), span))
        return value


def _shown(value: Fraction) -> str:
    """A number of a step, for people."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _WRITTEN_BITS:
        return "..."
    return written(value) if _places(value) is not None else str(value)


def _places(value: Fraction) -> int | None:
    """The digits after the point of a fraction, None if they do not end."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None


def written(value: Fraction) -> str:
    """A terminating decimal in canonical form: `-12.5`, no zeros at its end."""
    places = _places(value)
    if places is None:
        raise ValueError(f"{value} has no end as a decimal. Round it first.")
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    point = len(digits) - places
    return "-" * (value < 0) + digits[:point] + ("." + digits[point:] if places else "")


def finished(value: Fraction, limits: Limits) -> tuple[Fraction, str]:
    """The value that is written, rounded if it has no end and the limits allow it, and its text.

    Raises:
        Refused: It has no end, or too many digits.
    """
    places = _places(value)
    if places is None or places >= limits.result_digits:
        if places is None and limits.rounding == "refuse":
            raise Refused(Reason.INEXACT)
        value = _rounded(value, limits) if limits.rounding != "refuse" else value
        places = _places(value) or 0
    if places >= limits.result_digits or abs(value) >= 10**limits.result_digits:
        raise Refused(Reason.OVERFLOW)
    if places and not limits.decimals:
        raise Refused(Reason.INEXACT)
    text = written(value)
    if len(text.lstrip("-").replace(".", "")) > limits.result_digits:
        raise Refused(Reason.OVERFLOW)
    return value, text


def _rounded(value: Fraction, limits: Limits) -> Fraction:
    """Rounds a value that has no end; one that would become zero says nothing of it and is refused."""
    unit = 10 ** (limits.decimal_places or 0)
    whole, rest = divmod(abs(value) * unit, 1)
    half = rest == Fraction(1, 2) and (limits.rounding == "half_up" or whole % 2 == 1)
    found = Fraction(int(whole) + (rest > Fraction(1, 2) or half), unit)
    if found == 0:
        raise Refused(Reason.INEXACT)
    return found if value > 0 else -found
