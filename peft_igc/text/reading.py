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
import re
from typing import Any

from .expressions import ALL_WORDS, NUMBERS, STARTS, STRANGE, WORDS, Expression, NeedsMore
from .grammar import evaluate
from .markup import plain
from .pieces import HEADER, past, split, words
from .rounding import asked_rounding
from .surroundings import BAD_WORDS, after, before_equals, before_request, look_alike
from .values import Limits, Reason, Reduction, Refusal, Refused, Span, Value, finished


MOST_READ = 4096  # characters; what needs more is refused
_WINDOWS = (128, 512, MOST_READ)  # that are read, until nothing before one matters
_AT_EQUALS = re.compile(rf"[=＝][ $€£]*({HEADER}+\s*)?\Z")  # also as the end of a message
_SPACED_DASH = re.compile(r"(?<=[0-9)] )–(?= [$€£(]?[0-9])")  # no range, where a result is due
_DEFAULT = Limits()
# Refusals for what is around an expression.
_EXCUSED = {Reason.NOT_UNDERSTOOD, Reason.OTHER_NUMBER, Reason.NO_EXPRESSION, Reason.MALFORMED}

PLAIN_WORDS = WORDS - {"letter", "scale"} | {"and", "one"}
BINARY = frozenset({"+", "-", "*", "/", "x", "dash"})
REMAINDER = frozenset({"remainder", "remainders", "rem"})
_NAMING = PLAIN_WORDS - {"per", "and", "one"}  # may belong to a number before them
_PLAIN_BEFORE = _NAMING | {"and", "line", ".", ",", ":", ";", "?"}
_SENTENCE_ENDS = STARTS | {"=", ".", "?", "!"}
_CLAUSE_ENDS = _SENTENCE_ENDS | {"equal", "relation", ",", ":", ";"}
_BLANK = frozenset({"letters", "unit", "glue", "request", "article", "per", "and", "of"})
_NO_OPERAND = BINARY - {"x"} | {")", "=", "per", "unit"}
_BEFORE_A_SIGN = ALL_WORDS - {"letters", "unit"}
_JOINTS = frozenset("'’&-/")
PERCENT = frozenset({"percent", "percents", "prozent", "procent"})
_APART = frozenset({"per", "article", "glue"})  # a unit after these is none of the number before them
_POINT = re.compile(r"(?<=[^\W\d_xX])\.")
_DASHES = str.maketrans("–—", "--")
_PART = re.compile(r"[^\W\d_]+")
_SIGN = re.compile(r"[-+*/×÷]")
# `3-5 cats` is a range; in `(age - 1) * 2` and `60 - losses - 2` a word has a value.
_DOUBT = re.compile(r"[0-9]-[0-9]|[-+*/xX×÷(][\s$€£]*[-+*/×÷]")


def read(text: str, limits: Limits = _DEFAULT) -> Value | Refusal:
    """The value of the expression that a text ends with.

    Args:
        text: ends where a result is due. `pieces.CONTROL` takes the place of control tokens, and `pieces.UNKNOWN` of
            tokens whose text is not known.
        limits: of numbers and values.
    """
    begin = max(len(text) - MOST_READ, 0)
    text = text[:begin] + plain(text[begin:])
    equals = _AT_EQUALS.search(text, max(len(text) - _WINDOWS[0], 0))
    if equals is None or equals[1] is None:
        return (_read_wish if equals is None else read_at_equals)(text, limits)
    # A message that ends with `=` is read as strictly as a text at an anchor `=`.
    strict = read_at_equals(text[: equals.start() + 1], limits)
    kinds = [item.kind for item in strict.items]
    # One number alone may be the last one of a request in words: `58 times 36 =`.
    is_told = isinstance(strict, Value) or (strict.reaches and (kinds.count("number") > 1 or ")" in kinds))
    return strict if is_told else _read_wish(text, limits)


def read_at_equals(text: str, limits: Limits, strict: bool = True, in_words: bool = True) -> Value | Refusal:
    """`read` of a text that ends with `=`, where what is around the expression may say nothing of its value; `strict`
    as of `_without_others`; with `in_words` there may be words between the numbers."""
    shift = max(len(text) - MOST_READ, 0)
    text = text[:shift] + _SPACED_DASH.sub("-", text[shift:])
    found = _read_wish(text, limits)
    if isinstance(found, Value) or found.reason not in _EXCUSED:
        return found
    line = text[shift:].rstrip(" $€£")
    in_words = in_words and not (strict and text.rstrip()[-1:] in "$€£")  # whose words may be cents
    alone = _without_others(line, _moved(found, -shift), limits, strict)
    worded = _without_words(line, limits, strict) if in_words and not isinstance(alone, Value) else None
    value = worded or alone
    return found if value is None or (strict and isinstance(value, Refusal)) else _moved(value, shift)


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
    last = len(found.kinds) - 1
    at = past(found.kinds, last, -1, "space", "currency")
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


def _numbers(found: Expression) -> int:
    return sum(item.kind == "number" for item in found.items)


def _check(found: Expression, text: str) -> None:
    """Refuses what follows from an expression as a whole."""
    items = found.items
    if _numbers(found) < 2 and not any(item.kind == "call" for item in items):
        raise Refused(Reason.NO_EXPRESSION)
    look_alike(found, text)
    if len({found.said[at] for at in found.currencies}) > 1:
        raise Refused(Reason.CURRENCIES, found.span(found.currencies[0]))
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


# ------------------------------------------------------------------------------- other numbers and words at `=`
def _without_others(text: str, found: Refusal, limits: Limits, strict: bool) -> Value | Refusal | None:
    """What the expression before an equals sign is worth without the numbers before it, for which it is refused; None
    if these may matter.

    A sentence may well have numbers before a calculation, `45, because 90 / 2 =`: the expression counts if nothing but
    a plain word or a mark is next to it; where it is `strict`, only `is` or a word that begins a reason.
    """
    if found.span is None or found.culprit is None or found.culprit[0] >= found.span[0]:
        return None
    start = found.span[0]
    kinds, said, _ = split(text[:start])
    at = past(kinds, len(kinds) - 1, -1, "space", "currency")
    mixed = kinds[at] == "and" and any(item.kind == "/" for item in found.items[:2])  # `12 x 1 and 1/4`
    is_name = at == len(kinds) - 1 and kinds[at] in ALL_WORDS  # `item3 + 4`
    if kinds[at] not in _PLAIN_BEFORE or mixed or is_name:
        return None
    if strict:
        separated = kinds[at] == "equal" or said[at].casefold() in words().reasons  # `16 is 32 / 2`
        sign = kinds[past(kinds, at, -1, "space", "currency", *ALL_WORDS)]  # `20 + what is 3 * 4`
        sentence = re.split(r"[.?!\n]\s", text[:start])[-1].casefold()
        if not separated or sign in BINARY | {"^", "("} or not REMAINDER.isdisjoint(_PART.findall(sentence)):
            return None
    return _moved(_read_wish(text[start:], limits), start)


def _without_words(text: str, limits: Limits, strict: bool) -> Value | None:
    """The value of a clause that has words between its numbers, and ends at the equals sign of a text; None if it may
    mean another. Where it is `strict`, no other number is in the clause (`5 cats and 3 dogs + 4 =`), no single word in
    front, such as a label (`Task 7 - 12 + 30 =`), and the words after a number name something.

    `3 cats for Ann + 4 for Bob` has an operator between any two numbers. Words that say nothing of a value are blanks
    there, so that the characters stay where they are, and `_read_wish` judges what is left. Two words excuse what is
    before them, as they do there: `The third tank has 30 here + 4 there`.
    """
    kinds, _, ends = split(f"{text}\n")
    begin = at = len(kinds) - 2  # the equals sign, before the end of the line
    while kinds[begin - 1] not in _CLAUSE_ENDS or _abbreviates(kinds, begin - 1):
        begin -= 1
    if strict and not _begins(kinds, begin - 1):
        return None
    start = ends[begin - 1]
    kinds, said, ends = split(_POINT.sub(" ", text[start : ends[at]]).translate(_DASHES))
    _join(kinds, said)
    first, joined = len(kinds), False  # the first of the last numbers that have an operator between any two
    for at, kind in enumerate(kinds):
        if kind == "number":
            first, joined = min(first, at) if joined else at, False
        joined = joined or kind in BINARY
    left, plain = 1, 0  # after what must not be read before them, and the words that excuse it
    shown, units = [""], set[tuple[str, str]]()
    for at in range(1, len(kinds)):
        kind, in_front = kinds[at], at < first
        blank = _is_blank(kinds, said, at, in_front)
        shown.append(" " * len(said[at]) if blank else said[at])
        if not blank and (kind in ALL_WORDS or kind == "number"):
            if in_front:
                left, plain = at + 1, 0
            elif kind not in ("number", "x"):
                return None
        elif in_front and kind in ALL_WORDS:
            plain = 0 if kind == "of" else plain + (kind in PLAIN_WORDS)
        elif kind == "unit" and (strict or kinds[past(kinds, at - 1, -1, "space")] not in _APART):
            units.add(words().units[said[at].casefold()])
        elif kind == "currency":
            units.add(("money", said[at]))
        elif kind in ("+", "-") and kinds[at - 1] == "space" != kinds[at + 1] and kinds[at - 2] in _BEFORE_A_SIGN:
            return None  # `5 times -3`, `430 and -82`
    if plain < 2 and left > 1 or strict and (left > 1 or plain == 1 or _words_matter(kinds, said, first)):
        return None
    if _DOUBT.search("".join(shown)) or _SIGN.search("".join(shown[left:first])):
        return None
    found = _read_wish("".join(shown[left:]), limits)
    if not isinstance(found, Value):
        return None
    differ = len({quantity for quantity, _ in units}) < len(units)  # `3 feet on top + 4 inches`
    if differ and any(item.kind in ("+", "-") for item in found.items):
        return None
    return _moved(found, start + ends[left - 1])


def _moved(found: Value | Refusal, by: int) -> Any:
    """What was found in a part of a text, in the text: the part begins some characters after it, and is not alone."""

    def there(span: Span | None) -> Any:
        return span and (span[0] + by, span[1] + by)

    items = tuple(item._replace(span=there(item.span)) for item in found.items)
    steps = tuple(step._replace(span=there(step.span)) for step in found.reductions)
    found = found._replace(items=items, span=there(found.span), reductions=steps)
    return found._replace(alone=False) if isinstance(found, Value) else found._replace(culprit=there(found.culprit))


def _words_matter(kinds: list[str], said: list[str], first: int) -> bool:
    """Whether words of a clause may change its value: those that name an operation, touch a number or follow a sign
    do, and so may a per cent sign. After a number there is a noun among them: `530 or -3` has two values."""
    named: list[set[str]] = [set()]
    for at, kind in enumerate(kinds):
        if kind == "number":
            named.append(set())
        elif kind in ALL_WORDS and kind != "x":
            before = kinds[past(kinds, at - 1, -1, "space")]
            if said[at].casefold() in words().functions or kind in ("operator", "request"):
                return True
            if at >= first and (kind not in _NAMING or kinds[at - 1] == "number" or before in BINARY):
                return True
            named[-1].add(kind)
    named = [one for one in named[1:] if one]
    return "%" in kinds or not named or any(one.isdisjoint(("letters", "unit")) for one in named)


def _begins(kinds: list[str], at: int) -> bool:
    """Whether nothing before a clause belongs to it: no sign at the end of a line, and no number of its sentence."""
    if kinds[at] == "line":
        return kinds[past(kinds, at - 1, -1, "space", "line")] not in BINARY | {"and", "(", ",", ":"}
    while kinds[at] not in _SENTENCE_ENDS | NUMBERS | STRANGE:
        at -= 1
    return kinds[at] in _SENTENCE_ENDS  # but `14, 400 / 80`, `10:30 + 5`, `5 cats, 3 dogs + 4`


def _join(kinds: list[str], said: list[str]) -> None:
    """Makes a `joint` of each mark within words, `t-shirts`, `Ann's`, `guests/table`, and of an apostrophe after one.
    A slash may also follow a number or a bracket: `(3 + 4)/table`."""
    for at in range(1, len(kinds) - 1):
        before, after = kinds[at - 1] in ALL_WORDS, kinds[at + 1] in ALL_WORDS
        follows = before or (said[at] == "/" and kinds[at - 1] != "space")
        if said[at] in _JOINTS and follows and (after or kinds[at] == "'"):
            kinds[at] = "joint"
            kinds[at - 1 : at + 2] = ["letters" if kind == "letter" else kind for kind in kinds[at - 1 : at + 2]]


def _is_blank(kinds: list[str], said: list[str], at: int, in_front: bool) -> bool:
    """Whether a piece says nothing of the values around it."""
    kind = kinds[at]
    if kind in ALL_WORDS and kinds[at + 1] == "number":
        return False  # the name of another value: `a4 + 3`
    if len(said[at]) == 1 and kind in ALL_WORDS and "joint" not in (kinds[at - 1], kinds[at + 1]):
        return said[at] == "a" and kinds[at - 1] != "number"
    if kind in ("operator", "link", "modifier") and not in_front:
        # One that has no operand means nothing: `40 times / 2`, `4 times per hour`, `30 square feet`; but `5 percent`.
        return said[at].casefold() not in PERCENT and kinds[past(kinds, at + 1, 1, "space", "joint")] in _NO_OPERAND
    return kind in _BLANK or kind in ("joint", "space") or (in_front and kind in ("operator", "link"))


def _abbreviates(kinds: list[str], at: int) -> bool:
    """Whether a point belongs to the word before it: `8 ft. * 20 sq. ft. =`."""
    after = at + 1 + (kinds[at + 1] == "space")
    return kinds[at] == "." and kinds[at - 1] in PLAIN_WORDS and kinds[after] in BINARY | {"=", "unit"}
