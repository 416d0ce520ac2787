"""Reads the expression in symbols at the end of a text: `read`.

In: a text that ends where a result is due, at `=` or as a whole message, such as `She paid 3 * $4 =` or `12*34`. Out:
its `Value`, or a `Refusal` with the reason and the characters that caused it. Whether a calculation is asked for is
not decided here, only what it would be worth. The text is read from its end, in windows that grow only as far as
something before them matters, so that the length of a text costs nothing. Try it:
`python -c "from peft_igc.text import read; print(read('She paid 3 * \\$4 ='))"`
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re

from .clauses import moved, without_others, without_words
from .expressions import NUMBERS, STRANGE, Expression, NeedsMore
from .grammar import evaluate
from .pieces import HEADER, split
from .refusals import Reason, Refused, Span
from .rounding import asked_rounding
from .surroundings import BAD_WORDS, after, before_equals, before_request, look_alike
from .values import Limits, Reduction, Refusal, Value, finished


MOST_READ = 4096  # characters; what needs more is refused
_WINDOWS = (128, 512, MOST_READ)  # that are read, until nothing before one matters
_CLOSED = re.compile(rf"[=＝]{HEADER}+\s*\Z")
_AT_EQUALS = re.compile(r"[=＝][ $€£]*\Z")
_SPACED_DASH = re.compile(r"(?<=[0-9)] )–(?= [$€£(]?[0-9])")  # no range, where a result is due
_DEFAULT = Limits()
# Refusals for what is around an expression.
_EXCUSED = {Reason.NOT_UNDERSTOOD, Reason.OTHER_NUMBER, Reason.NO_EXPRESSION, Reason.MALFORMED}


def read(text: str, limits: Limits = _DEFAULT) -> Value | Refusal:
    """The value of the expression that a text ends with.

    Args:
        text: ends where a result is due. `pieces.CONTROL` takes the place of control tokens, and `pieces.UNKNOWN` of
            tokens whose text is not known.
        limits: of numbers and values.
    """
    closed = _CLOSED.search(text, max(len(text) - _WINDOWS[0], 0))
    if closed is not None:  # a message that ends with `=` is read as strictly as a text at an anchor `=`
        strict = read_at_equals(text[: closed.start() + 1], limits)
        kinds = [item.kind for item in strict.items]
        # One number alone may be the last one of a request in words: `58 times 36 =`.
        if isinstance(strict, Refusal) and strict.reaches and (kinds.count("number") > 1 or ")" in kinds):
            return strict
        found = _read_wish(text, limits)
        return strict if isinstance(strict, Value) and isinstance(found, Refusal) else found
    at_equals = _AT_EQUALS.search(text, max(len(text) - _WINDOWS[0], 0))
    return (read_at_equals if at_equals else _read_wish)(text, limits)


def read_at_equals(text: str, limits: Limits, strict: bool = True, in_words: bool = True) -> Value | Refusal:
    """`read` of a text that ends with `=`, where what is around the expression may say nothing of its value.

    `strict` as of `clauses.without_others`; with `in_words` there may be words between the numbers.
    """
    shift = max(len(text) - MOST_READ, 0)
    if "–" in text[shift:]:
        text = text[:shift] + _SPACED_DASH.sub("-", text[shift:])
    found = _read_wish(text, limits)
    if isinstance(found, Value) or found.reason not in _EXCUSED:
        return found
    line, read_symbols = text[shift:].rstrip(" $€£"), functools.partial(_read_wish, limits=limits)
    refusal = read_symbols(line) if shift else found
    alone = refusal if isinstance(refusal, Value) else without_others(line, refusal, read_symbols, strict)
    worded = without_words(line, read_symbols, strict) if in_words and not isinstance(alone, Value) else None
    value = worded or alone
    return found if value is None or (strict and isinstance(value, Refusal)) else moved(value, shift)


def _read_wish(text: str, limits: Limits) -> Value | Refusal:
    """Reads symbols as they are, rounded as the text asks."""
    wish = asked_rounding(text, limits.rounding.mode)
    if wish is not None:
        found = _read_back(wish.plain, dataclasses.replace(limits, rounding=wish.rounding))
        if isinstance(found, Value) or found.ruled:
            return found
    return _read_back(text, limits)


def _read_back(text: str, limits: Limits) -> Value | Refusal:
    """Reads from the end, in windows that grow until nothing before them matters."""
    for size in _WINDOWS:
        with contextlib.suppress(NeedsMore):
            return _read(text, max(len(text) - size, 0), limits)
    return Refusal(Reason.TOO_LONG, None, (), None, False, False, ())


def _read(text: str, start: int, limits: Limits) -> Value | Refusal:
    """`read` from a character on."""
    found = Expression(split(text, start), limits)
    last = at = len(found.kinds) - 1
    while found.kind(at) in ("space", "currency"):
        at -= 1
    reaches = found.kind(at) == "="
    steps: list[Reduction] = []
    ruled = False
    try:
        alone = _at_equals(found, at - 1) if reaches else _in_request(found, last)
        _check(found, text)
        ruled = True
        if found.too_long is not None:
            raise Refused(Reason.TOO_LONG, found.too_long)
        whole = evaluate(found.items[::-1], limits, steps)
        value, written = finished(whole.value, limits, percent=whole.sum, fewest=_cents(found))
    except Refused as refused:
        if refused.reason is Reason.OTHER_NUMBER and (alike := _alike(found, text)) is not None:
            refused = Refused(Reason.LOOK_ALIKE, alike)  # a date is one whatever else the text says
        return _refusal(found, refused, reaches, ruled, steps)
    items, rounded = tuple(found.items[::-1]), value != whole.value
    span = items[0].span[0], items[-1].span[1]
    return Value(value, written, items, span, reaches, alone, not found.sure, tuple(steps), rounded)


def _at_equals(found: Expression, at: int) -> bool:
    """Reads an expression that ends before a piece; returns whether it is alone in its message."""
    at = found.skip(at)
    kind = found.kind(at)
    if kind in STRANGE or kind in BAD_WORDS:
        raise found.refuse(Reason.NOT_UNDERSTOOD, at)
    found.end, found.sure = found.ends[at], True
    before_equals(found, found.read(at))
    return found.kind(found.skip(found.left)) in ("edge", "control")


def _in_request(found: Expression, last: int) -> bool:
    """Reads an expression anywhere in a request; returns whether it is alone in its message."""
    at, word = after(found, last)
    left = found.read(at)
    if not found.sure and all(item.kind in NUMBERS for item in found.items):
        raise found.refuse(Reason.NO_EXPRESSION, 0)
    if programs := [item.span for item in found.items if item.name == "range"]:  # `for i in range(2, 5):`
        raise Refused(Reason.LOOK_ALIKE, programs[0])
    if not found.sure and word:
        raise found.refuse(Reason.LOOK_ALIKE, left)
    return before_request(found, left) and not found.spoken


def _alike(found: Expression, text: str) -> Span | None:
    """The characters of an expression that look like something else."""
    items = found.items
    return look_alike(text, items[-1].span[0], max(items[0].span[1], found.end)) if items else None


def _numbers(found: Expression) -> int:
    return sum(item.kind == "number" for item in found.items)


def _check(found: Expression, text: str) -> None:
    """Refuses what follows from an expression as a whole."""
    items = found.items
    if _numbers(found) < 2 and not any(item.kind == "call" for item in items):
        raise Refused(Reason.NO_EXPRESSION)
    if (alike := _alike(found, text)) is not None:
        raise Refused(Reason.LOOK_ALIKE, alike)
    if len({sign for sign, _ in found.currencies}) > 1:
        raise Refused(Reason.CURRENCIES, found.currencies[0][1])
    added = any(item.kind in ("+", "-") for item in items)
    money = bool(found.currencies) and any(quantity == "money" for quantity, _ in found.units)
    if added and (money or len(set(found.units)) > 1):
        raise Refused(Reason.UNITS, (items[-1].span[0], items[0].span[1]))


def _cents(found: Expression) -> int:
    """The places of a sum of amounts that have two each, such as `$4.50 + $5.50`; 0 of any other expression."""
    money = len(found.currencies) + sum(quantity == "money" for quantity, _ in found.units)
    sums = all(item.kind in "+-()" or len(item.name.partition(".")[2]) == 2 for item in found.items)
    return 2 if sums and money == _numbers(found) else 0


def _refusal(found: Expression, refused: Refused, reaches: bool, ruled: bool, steps: list[Reduction]) -> Refusal:
    reason, items = refused.reason, tuple(found.items[::-1])
    if reason is Reason.OTHER_NUMBER and _numbers(found) < 2:
        reason = Reason.NO_EXPRESSION  # one number with a sign is no expression: `the sum of 12 and -5`
    span = (items[0].span[0], items[-1].span[1]) if items else None
    reaches = reaches and reason is not Reason.NO_EXPRESSION
    ruled = ruled and reason < Reason.NO_EXPRESSION  # it follows from the values of items
    return Refusal(reason, refused.culprit or span, items, span, reaches, ruled, tuple(steps))
