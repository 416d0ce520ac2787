"""Requests in words: what a network meant by some numbers and an operation, and whether the text contradicts it.

In: a text, an operation, the characters of its operands, and which of them are negated. Out: the `Value`, exact, or a
`Refusal`. Which numbers are meant, and whether a calculation is asked for, is not decided here. A text refuses in
three ways only: an operand is not understood, or something numeric that is not understood touches it; the numbers have
different units; or the text states one operation, in words or symbols, and another one is meant.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from .expressions import ALL_WORDS, STRANGE
from .literals import Number, numbers_of
from .markup import plain
from .operations import FUNCTIONS, OPERATORS, Function
from .pieces import CONTROL, Pieces, past, split, whole, words
from .rounding import EXACT, asked_rounding
from .values import Item, Limits, Reason, Reduction, Refusal, Refused, Span, Value, finished, written


_SYMBOLS = {"+": "+", "-": "-", "*": "*", "/": "/", "x": "*"}
_BESIDE = frozenset({"space", "currency", "of"})  # may be between an operand and what it belongs to: `half of 670`
_VARIABLES = frozenset({"letter", "function"})
_STATES = frozenset({"space", "currency", "operator", "minus", "link", *_SYMBOLS})  # may state an operation alone
_FACTORS = frozenset("bBtTM")  # of billions, trillions and millions
_POWERS = frozenset({"squared", "cubed"})  # may name the function itself
_NO_NAME = "any"  # of words such as `total`
_INVERSE = {"+": "-", "-": "+", "*": "/", "/": "*"}
_SENTENCE_ENDS = frozenset({"edge", "cut", "line", "control", ".", "?", "!", ";"})


class Stated(enum.IntEnum):
    """What a text states of the calculation that is meant."""

    NOTHING = 0
    NAMED = 1  # its operation, before its operands or among other words: the inverse might be meant
    BETWEEN = 2  # its operation, which is all that is between its operands
    WHOLE = 3  # all of it, in symbols


class Answer(NamedTuple):
    """The answer to a request, and what its text states of it."""

    found: Value | Refusal
    stated: Stated


def answer(text: str, operation: str, spans: Sequence[Span], negated: Sequence[bool], limits: Limits) -> Answer:
    """What a request in words is worth.

    Args:
        text: ends where a result is due, as in `reading.read`.
        operation: that a network reads in it, a symbol or the name of one of `operations.FUNCTIONS`.
        spans: characters of the operands, or more of the text around them, in the order of the operation.
        negated: whether each operand has a minus sign; asked only where a word may be one.
        limits: of numbers and values. Two integers have an integer as their result, unless the text states the
            division between them or before them, or says how it is rounded: a story may count whole things, and be
            read in the wrong order. Only functions have operands with a per cent sign.
    """
    text = plain(text)
    wish = asked_rounding(text, limits.rounding.mode)
    if wish is not None:
        text, limits = wish.plain, dataclasses.replace(limits, rounding=wish.rounding)
    begin = text.rfind(CONTROL, 0, min(span[0] for span in spans))  # of the message, -1 of the only one
    pieces = split(f"{text}\n", max(begin, 0))
    function = FUNCTIONS.get(operation)
    listed = numbers_of(pieces, percents=function is not None)
    items: tuple[Item, ...] = ()
    stated = Stated.NOTHING
    found: Value | Refusal
    try:
        operands = [
            _operand(pieces, listed, span, minus, function) for span, minus in zip(spans, negated, strict=True)
        ]
        before = [one.at - 1 for one in operands]
        if len({pieces.said[at] for at in before if pieces.kinds[at] == "currency"}) > 1:
            raise Refused(Reason.CURRENCIES, operands[-1].span)
        _check_units(pieces, operands, operation)
        said, named = stated_operations(pieces, operands)
        if said | named == {operation}:
            first, last = sorted((operands[0].at, operands[-1].at))
            stated = Stated.BETWEEN if said and _STATES.issuperset(pieces.kinds[first + 1 : last]) else Stated.NAMED
        if operation in OPERATORS and vetoes(said, named, operation):
            raise Refused(Reason.OTHER_OPERATION)
        if function is not None:
            _check_function(pieces, operands, function, said)
        items = _items(operands, operation)
        in_order = stated != Stated.NOTHING and operands[0].at <= operands[-1].at
        values = tuple(item.value for item in items if item.kind == "number")
        if long := [one.span for one, value in zip(operands, values, strict=True) if abs(value) >= 10**limits.digits]:
            raise Refused(Reason.TOO_LONG, long[0])
        exact = calculated(operation, values, limits, whole=not in_order)
        value, written_as = finished(exact, limits)
        span = min(item.span[0] for item in items), max(item.span[1] for item in items)
        step = Reduction(operation, values, exact, span)
        rounded = value != exact
        if limits.rounding.division != "exact":  # a quotient is rounded
            rounded = value != calculated(operation, values, dataclasses.replace(limits, rounding=EXACT))
        found = Value(value, written_as, items, span, False, False, False, (step,), rounded)
    except Refused as refused:
        found = Refusal(refused.reason, refused.culprit, items, None, False, False, ())
    return Answer(found, stated)


def _operand(pieces: Pieces, listed: list[Number], span: Span, negated: bool, function: Function | None) -> Number:
    """The number at some characters, with its sign."""
    number = next((one for one in listed if one.span[0] < span[1] and span[0] < one.span[1]), None)
    if number is None or number.value is None:
        raise Refused(Reason.NOT_UNDERSTOOD, span if number is None else whole(pieces, number.at))
    for step in (-1, 1):
        at = past(pieces.kinds, number.at + step, step, *_BESIDE)
        joined = pieces.kinds[at] in _SYMBOLS or pieces.kinds[at] == "("  # `47 * y`, `sin(30) + 5`
        at = past(pieces.kinds, at + step, step, *_BESIDE) if joined else at
        strange = pieces.kinds[at] in STRANGE and (function is None or pieces.said[at].casefold() not in _POWERS)
        if strange or (joined and pieces.kinds[at] in _VARIABLES):
            raise Refused(Reason.NOT_UNDERSTOOD, whole(pieces, at))
    if not number.may_negate:
        return number
    return number._replace(value=-number.value) if negated else number._replace(sign=0)


def _check_units(pieces: Pieces, operands: list[Number], operation: str) -> None:
    """Refuses numbers of different units, and numbers with a letter after them, which may be a unit, a factor or a
    variable: in a product or quotient units of one quantity, and factors; else also a letter after some of them only.
    An `n` alone between two numbers joins them: `5 n 3`."""
    kinds, numbers, found = pieces.kinds, {one.at for one in operands}, set[str | tuple[str, str] | None]()
    for one in operands:
        at = past(kinds, one.at + 1, 1, "space")
        joins = pieces.said[at] == "n" and past(kinds, at + 1, 1, "space") in numbers
        is_letter = kinds[at] == "letter" and not joins
        found.add(pieces.said[at] if is_letter else words().units.get(pieces.said[at].casefold()))
    letters = {one for one in found if isinstance(one, str)}
    differ = len(found) > 1 and (None not in found or bool(letters))
    if operation in ("*", "/"):
        quantities = [one[0] for one in found if isinstance(one, tuple) and one[0] != "duration"]  # 3 hours, 5 days
        differ &= None not in found and (bool(letters) or len(quantities) > len(set(quantities)))
        money = any(kinds[one.at - 1] == "currency" for one in operands)
        differ |= bool(letters & _FACTORS) or (money and bool(letters))
    if differ:
        raise Refused(Reason.UNITS, operands[-1].span)


def stated_operations(pieces: Pieces, operands: list[Number]) -> tuple[set[str], set[str]]:
    """The operations that a text states between its operands, and those that it only names.

    A word in the sentence before them names its operation, but the inverse may be meant: `What must I add to 3 to get
    8?`, `How many times does 3 go into 12?`. So does one after `be`: `By what must 3 be multiplied to get 12?`. A sign
    does neither. Of more than two operands only words count.
    """
    first, *_, second = sorted([operands[0].at, *(one.at for one in operands)])
    signs = {one.sign for one in operands}
    between = [at for at in range(first + 1, second) if at not in signs]
    stated: set[str] = set()
    named: set[str] = set()
    for at in between:
        if (operation := words().operations.get(pieces.said[at].casefold(), _NO_NAME)) != _NO_NAME:
            (named if pieces.kinds[at - 2] == "glue" else stated).add(operation)
    if len(operands) == 2 and not any(pieces.kinds[at] in ALL_WORDS - {"x"} for at in between):
        stated |= {_SYMBOLS[pieces.kinds[at]] for at in between if pieces.kinds[at] in _SYMBOLS}
    at = first - 1
    while pieces.kinds[at] not in _SENTENCE_ENDS:
        if at not in signs:
            named.add(words().operations.get(pieces.said[at].casefold(), _NO_NAME))
        at -= 1
    return stated, named - {_NO_NAME}


def vetoes(stated: set[str], named: set[str], operation: str) -> bool:
    """Whether a text states or names one operation, and it is not the one that is meant."""
    return len(stated | named) == 1 and operation not in stated | named | {_INVERSE[one] for one in named}


def _check_function(pieces: Pieces, operands: list[Number], function: Function, stated: set[str]) -> None:
    """Refuses a function where another operation is stated between its numbers, and where some have a per cent sign:
    all may, or the second one of two."""
    if stated - set(function.symbols):
        raise Refused(Reason.OTHER_OPERATION)
    signed = [pieces.kinds[one.at + 1] == "%" for one in operands]
    if any(signed) and not all(signed) and signed != [False, True]:
        raise Refused(Reason.UNITS, operands[signed.index(True)].span)


def _items(operands: list[Number], operation: str) -> tuple[Item, ...]:
    """The calculation as items, in the order of the operation."""
    made: list[Item] = []
    for number in operands:
        assert number.value is not None
        made += [Item(",", number.span), Item("number", number.span, number.value, written(number.value))]
    if operation in FUNCTIONS:
        return Item("call", made[0].span, name=operation), Item("(", made[0].span), *made[1:], Item(")", made[-1].span)
    return made[1], Item(operation, made[1].span), made[3]


def calculated(
    operation: str, values: Sequence[Fraction], limits: Limits, *, guarded: bool = True, whole: bool = False
) -> Fraction:
    """The exact value of an operation on numbers of a request. `guarded` as of `Function.value`; `whole` refuses a
    quotient of two integers that leaves a remainder.

    Raises:
        Refused: There is none.
    """
    if operation in FUNCTIONS:
        return FUNCTIONS[operation].value(values, guarded)
    value = OPERATORS[operation].apply(values[0], values[1], limits)
    if whole and not limits.rounding.always and value.denominator > 1 and {one.denominator for one in values} == {1}:
        raise Refused(Reason.INEXACT)
    return value
