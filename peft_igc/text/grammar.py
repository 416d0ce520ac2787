"""The grammar: the exact value of an expression, with the steps in which it is reduced.

In: items, which `expressions` finds in a text. Out: an `Operand`, or a `Refused`. Values are exact rationals to the
end, so `(1 / 3) * 3` is 1; `values.finished` rounds once, if the limits allow it. The grammar, loosest first:

    sum     = product (("+" | "-") product)*
    product = signed (("*" | "/" | "of") signed)*          "of" only after a per cent sign
    signed  = ("+" | "-")* power
    power   = operand ("^" ("+" | "-")* power)?            so `-2^2` is -4, and `2^3^2` 512
    operand = (number | "(" sum ")" | name "(" sum ("," sum)* ")") "%"?

A sum of percentages is one, and so is a percentage of another one: `12% + 5%` is 17%, and `50% of 20%` is 10%. Every
other result is a number: `50% * 80` is 40, and `25% / 2` is 0.125.

Operators wait on a list until one that binds less comes, so that nothing is recursive and depth costs nothing.
Try it: `pytest tests/text/test_grammar.py`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from .operations import FUNCTIONS, MOST_BITS, OPERATORS, SIGN
from .refusals import Reason, Refused, Span
from .values import Item, Limits, Reduction


__all__ = ["Operand", "evaluate"]

CLOSING = {"(": ")", "[": "]", "{": "}"}
ITEMS_PER_OPERAND = 6


class Operand(NamedTuple):
    """A value, and its characters.

    Attributes:
        percent: whether it is a percentage: a number with its sign, or of such numbers a sum or a part.
        sum: whether it is one of the latter two, which are written with a sign.
    """

    value: Fraction
    percent: bool
    span: Span
    sum: bool = False


class _Waiting(NamedTuple):
    """An operator, a sign (`negate`, `keep`), a bracket or a call that waits for its right side."""

    kind: str
    precedence: int
    span: Span
    name: str = ""
    operands: int = 0  # how many there were before it


def evaluate(items: Sequence[Item], limits: Limits, steps: list[Reduction]) -> Operand:
    """The value of an expression.

    Args:
        items: the expression.
        limits: of its operands, and of operations.
        steps: a list for its steps, up to the one that refused.

    Raises:
        Refused: There is no value. The steps up to there are in `steps`.
    """
    numbers = sum(item.kind == "number" for item in items)
    _check_brackets(items)
    if numbers > limits.operands:
        raise Refused(Reason.TOO_MANY_OPERANDS)
    if len(items) > ITEMS_PER_OPERAND * limits.operands:
        raise Refused(Reason.TOO_LONG)
    machine = _Machine(limits, steps)
    for item in items:
        machine.take(item)
    return machine.end()


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

    def __init__(self, limits: Limits, steps: list[Reduction]) -> None:
        self.limits, self.steps = limits, steps
        self.operands: list[Operand] = []
        self.waiting: list[_Waiting] = []
        self.complete = False  # an operand came last
        self.last = ""  # the kind of the item that came last

    def take(self, item: Item) -> None:
        """The next item."""
        kind, complete = item.kind, self.complete
        if kind == "number" and not complete:
            self.operands.append(Operand(item.value, False, item.span))
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
            self.operands[-1] = Operand(operand.value / 100, True, (operand.span[0], item.span[1]))
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

    def end(self) -> Operand:
        """All items as one operand."""
        if not self.complete:
            raise Refused(Reason.MALFORMED)
        self._reduce(1)
        return self.operands[-1]

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
            self.operands.append(Operand(self._called(call, arguments, span), False, span))
        else:
            self.operands[-1] = self.operands[-1]._replace(span=(opening.span[0], item.span[1]))

    def _reduce(self, least: int) -> None:
        """Applies what waits and binds as `least` or more."""
        while self.waiting and self.waiting[-1].precedence >= least:
            waiting = self.waiting.pop()
            right = self.operands.pop()
            if waiting.precedence == SIGN:
                value = -right.value if waiting.kind == "negate" else right.value
                self.operands.append(right._replace(value=value, span=(waiting.span[0], right.span[1])))
                continue
            left = self.operands.pop()
            span = (left.span[0], right.span[1])
            if waiting.kind in ("+", "-") and left.percent != right.percent:
                raise Refused(Reason.PERCENT_SUM, span)
            self._refuse_absent(waiting.kind, span)
            value = self._operated(waiting.kind, left.value, right.value, span)
            percent = right.percent and waiting.kind in ("+", "-", "of")
            self.operands.append(Operand(value, percent, span, percent))

    def _refuse_absent(self, kind: str, span: Span) -> None:
        """Refuses an operation that the limits do not have."""
        if {"of": "*", "^": "*"}.get(kind, kind) not in self.limits.operations:
            raise Refused(Reason.MALFORMED, span)

    def _operated(self, kind: str, left: Fraction, right: Fraction, span: Span) -> Fraction:
        """The value of an operator."""
        symbol, apply = "*" if kind == "of" else kind, OPERATORS[kind].apply
        return self._step(symbol, (left, right), lambda: apply(left, right, self.limits), span)

    def _called(self, call: _Waiting, arguments: list[Operand], span: Span) -> Fraction:
        """The value of a function."""
        function, values = FUNCTIONS.get(call.name), tuple(argument.value for argument in arguments)
        if function is None or not function.fewest <= len(values) <= function.most:
            raise Refused(Reason.NOT_UNDERSTOOD, call.span)
        return self._step(call.name, values, lambda: function.value(values), span)

    def _step(self, symbol: str, values: tuple[Fraction, ...], apply: Callable[[], Fraction], span: Span) -> Fraction:
        """Applies an operator or a function, and writes the step down."""
        try:
            value = apply()
            if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
                raise Refused(Reason.OVERFLOW)
        except Refused as refused:
            self.steps.append(Reduction(symbol, values, None, span))
            raise Refused(refused.reason, span) from None
        self.steps.append(Reduction(symbol, values, value, span))
        return value
