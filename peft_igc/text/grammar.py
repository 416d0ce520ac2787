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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from .operations import FUNCTIONS, MOST_BITS, OPERATORS, SIGN
from .values import Item, Limits, Reason, Reduction, Refused, Span


CLOSING = {"(": ")", "[": "]", "{": "}"}
ITEMS_PER_OPERAND = 6
NEEDED = {"of": "*", "^": "*", "%": "/"}  # the operation that an item counts as
_DEEPEST = 200  # operations within each other, in recursion
_END = Item("end", (0, 0))
_AFTER = {*OPERATORS, *CLOSING.values(), ",", _END.kind}  # an operand


class Operand(NamedTuple):
    """A value, and its characters."""

    value: Fraction
    percent: bool  # whether it is a percentage: a number with its sign, or of such numbers a sum or a part
    span: Span
    sum: bool = False  # whether it is one of the latter two, which are written with a sign


def evaluate(items: Sequence[Item], limits: Limits, steps: list[Reduction]) -> Operand:
    """The value of an expression within `limits`, else a `Refused`. Its steps up to there are added to `steps`."""
    _check_brackets(items)
    if sum(item.kind == "number" for item in items) > limits.operands:
        raise Refused(Reason.TOO_MANY_OPERANDS)
    if len(items) > ITEMS_PER_OPERAND * limits.operands:
        raise Refused(Reason.TOO_LONG)
    parser = _Parser(items, limits, steps)
    found = parser.operation(1)
    if parser.left[-1] is not _END:
        raise _malformed(parser.left[-1])
    return found


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


class _Parser:
    """Evaluates items from the left; each method reads as much of them as its name says."""

    def __init__(self, items: Sequence[Item], limits: Limits, steps: list[Reduction]) -> None:
        self.left = [_END, *reversed(items)]
        self.limits, self.steps, self.depth = limits, steps, 0

    def operation(self, least: int) -> Operand:
        """An operand, and the operators after it that bind as `least` or more, with theirs."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Refused(Reason.TOO_LONG)
        if self.left[-1].kind in ("+", "-"):
            sign = self.left.pop()
            found = self.operation(SIGN)
            value = -found.value if sign.kind == "-" else found.value
            found = found._replace(value=value, span=(sign.span[0], found.span[1]))
        else:
            found = self._operand()
        while (operator := OPERATORS.get(self.left[-1].kind)) is not None and operator.precedence >= least:
            kind = self.left.pop().kind
            found = self._applied(kind, found, self.operation(operator.precedence + (not operator.from_right)))
        self.depth -= 1
        return found

    def _operand(self) -> Operand:
        """A number, or what is in brackets, or a call; and a per cent sign."""
        item = self.left.pop()
        if item.kind == "number":
            found = Operand(item.value, False, item.span)
        elif item.kind in CLOSING:
            found = self.operation(1)
            closing = self.left.pop()
            if closing.kind == ",":
                raise _malformed(closing)
            found = found._replace(span=(item.span[0], closing.span[1]))
        elif item.kind == "call":
            found = self._called(item)
        else:
            raise _malformed(item)
        if self.left[-1].kind == "%":
            sign = self.left.pop()
            self._refuse_absent("%", sign.span)
            found = Operand(found.value / 100, True, (found.span[0], sign.span[1]))
        after = self.left[-1]
        if after.kind not in _AFTER or (after.kind == "of" and not found.percent):
            raise _malformed(after)
        return found

    def _called(self, call: Item) -> Operand:
        found = []
        while self.left.pop().kind not in CLOSING.values():  # the opening bracket, a comma, the closing bracket
            found.append(self.operation(1))
            closing = self.left[-1]
        function, span = FUNCTIONS.get(call.name), (call.span[0], closing.span[1])
        if function is None:
            raise Refused(Reason.NOT_UNDERSTOOD, call.span)
        if len({operand.percent for operand in found}) > 1:  # of 200 and 10%, as in `200 + 10%`
            raise Refused(Reason.PERCENT_SUM, span)
        values = tuple(operand.value for operand in found)
        return Operand(self._step(call.name, values, lambda: function.value(values), span), False, span)

    def _applied(self, kind: str, left: Operand, right: Operand) -> Operand:
        span = (left.span[0], right.span[1])
        if kind in ("+", "-") and left.percent != right.percent:
            raise Refused(Reason.PERCENT_SUM, span)
        self._refuse_absent(kind, span)
        values, apply = (left.value, right.value), OPERATORS[kind].apply
        value = self._step("*" if kind == "of" else kind, values, lambda: apply(*values, self.limits), span)
        percent = right.percent and kind in ("+", "-", "of")
        return Operand(value, percent, span, percent)

    def _refuse_absent(self, kind: str, span: Span) -> None:
        """Refuses an operation that the limits do not have."""
        if NEEDED.get(kind, kind) not in self.limits.operations:
            raise Refused(Reason.MALFORMED, span)

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


def _malformed(item: Item) -> Refused:
    """The refusal of an item that cannot be where it is."""
    return Refused(Reason.MALFORMED, None if item is _END else item.span)
