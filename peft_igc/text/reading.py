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
import itertools
import re
from typing import Any

from .expressions import ALL_WORDS, NUMBERS, STARTS, STRANGE, WORDS, Expression, NeedsMore
from .grammar import evaluate
from .literals import numbers_of
from .markup import plain
from .pieces import HEADER, kind_of, past, split, words
from .rounding import EXACT, UNCLEAR, asked_rounding
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
_APART = frozenset({"per", "article", "glue"})  # a unit after these is none of the number before them
_BLANK = frozenset({"letters", "unit", "glue", "request", "article", "per", "and", "of"})
_INTRODUCED = _NAMING | {"number", "%", ")", "link"}  # before a colon or comma
_TELLING = BINARY - {"x"} | {"^", "function", "modifier", "rounding", "sign", "minus"}
_PLAIN_PARTS = _BLANK | {"letter"}
_PART = re.compile(r"[^\W\d_]+")
# `t-shirts`, `Ann's`, `guests/table`, and `/table` after a number or a bracket
_WORD = re.compile(r"(?:(?<=\S)/)?[^\W\d_]+(?:['’&./-][^\W\d_]+)*(?:['’](?!\w))?")
PERCENT = frozenset({"percent", "percents", "pct", "prozent", "procent"})
_POINT = re.compile(r"(?<=[^\W\d_])\.")
_NO_OPERAND = re.compile(r"\s*(?:-(?![0-9])|[+*/=)×÷]|\Z)")  # `times -3` has one
_SIGN = re.compile(r"[-+*/×÷]")
# Expressions in which a bracket that is missing changes nothing.
_SUM, _PRODUCT = (frozenset({"number", "(", ")", *signs}) for signs in ("+-", "*/"))
# `3-5 cats` is a range; in `(age - 1) * 2` and `60 - losses - 2` a word has a value.
_DOUBT = re.compile(r"[0-9]-[0-9]|[-+*/xX×÷(][\s$€£]*[-+*/×÷]")
_NUMBER = re.compile(r"[0-9][0-9.,]*")
_NAME = re.compile(r"[^\W\d_]{2}")
# `3/4 ÷ 1/8` and `8 × 10^6 / 2 × 10^3`, which people mean as quotients of fractions and of powers; `2.5 x 10-2`, whose
# exponent was lost in copying; `2-1/2 cups + 1 cup`, a mixed number
_LOST = re.compile(
    r"[0-9]+(?:/[0-9]+)?\s[÷/]\s[0-9]+/[0-9]+|[0-9]\.[0-9]+\s*[x×·*]\s*10-[0-9]{1,2}"
    r"|.*[÷/]\s*[0-9.]+\s*[x×·*]\s*10\^.*|(?:.*\s[-+*/x×÷]\s)?[0-9]+-[0-9]+/[0-9]+\b.*\s[-+*/x×÷]\s.*"
)
_DASHES = str.maketrans("–—", "--")


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
    """`read` of a text that ends with `=`, where what is around the expression may say nothing of its value.

    `strict` as of `_without_others`; with `in_words` there may be words between the numbers.
    """
    shift = max(len(text) - MOST_READ, 0)
    text = text[:shift] + _SPACED_DASH.sub("-", text[shift:])
    found = _read_wish(text, limits)
    if isinstance(found, Value) or found.reason not in _EXCUSED:
        return found
    if found.span is not None and found.culprit is not None and found.culprit[0] < found.span[0] < found.culprit[1]:
        return found  # `12:30 + 1` begins within something else
    line = text[shift:].rstrip(" $€£")
    in_words = in_words and not (strict and text.rstrip()[-1:] in "$€£")  # whose words may be cents
    refusal = _read_wish(line, limits) if shift else found
    alone = refusal if isinstance(refusal, Value) else _without_others(line, refusal, limits, strict)
    worded = _without_words(line, limits, strict) if in_words and not isinstance(alone, Value) else None
    value = worded or alone
    return found if value is None or (strict and isinstance(value, Refusal)) else _moved(value, shift)


def _read_wish(text: str, limits: Limits) -> Value | Refusal:
    """Reads symbols as they are, rounded as the text asks."""
    wish = asked_rounding(text, limits.rounding.mode)
    if wish is not None:
        found = _read_back(wish.plain, dataclasses.replace(limits, rounding=wish.rounding))
        if isinstance(found, Value) or found.ruled or wish.rounding == UNCLEAR:
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
        if refused.reason is Reason.OTHER_NUMBER and (alike := look_alike(found, text)) is not None:
            refused = Refused(Reason.LOOK_ALIKE, alike)  # a date is one whatever else the text says
        return _refusal(found, refused, reaches, ruled, steps)
    items, exact = tuple(found.items[::-1]), whole.value if limits.rounding.division == "exact" else None
    if exact is None:  # each quotient is rounded
        with contextlib.suppress(Refused):
            exact = evaluate(found.items[::-1], dataclasses.replace(limits, rounding=EXACT), []).value
    rounded = value != exact
    span = items[0].span[0], items[-1].span[1]
    return Value(value, written, items, span, reaches, alone, not found.sure, tuple(steps), rounded)


def _at_equals(found: Expression, at: int) -> bool:
    """Reads an expression that ends before a piece; returns whether it is alone in its message."""
    at = found.skip(at)
    kind = found.kind(at)
    if kind in STRANGE or kind in BAD_WORDS:
        raise found.refuse(Reason.NOT_UNDERSTOOD, at)
    found.end, found.sure = found.ends[at], True
    left = found.read(at)
    kinds = [item.kind for item in found.items]
    # `he has (3 + 4 = 7)`: the equation is within the brackets.
    opened = kinds[-1] == "(" and kinds.count("(") > kinds.count(")") and (_SUM >= {*kinds} or _PRODUCT >= {*kinds})
    if opened and found.kind(found.skip(left)) in WORDS:
        del found.items[-1]
    before_equals(found, left)
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
    if (alike := look_alike(found, text)) is not None:
        raise Refused(Reason.LOOK_ALIKE, alike)
    if (lost := _LOST.fullmatch(text, items[-1].span[0], items[0].span[1])) is not None:
        raise Refused(Reason.NOT_UNDERSTOOD, lost.span())
    if len({found.said[at] for at in found.currencies}) > 1:
        raise Refused(Reason.CURRENCIES, found.span(found.currencies[0]))
    added = any(item.kind in ("+", "-") for item in items)
    money = bool(found.currencies) and any(quantity == "money" for quantity, _ in found.units)
    differ = len(set(found.units)) > 1
    # `2 kg / 250 g`, but not `60 minutes / 1 hour`; the last item is the first one
    divides = any(sign.kind == "/" and by.value != 1 for by, sign in itertools.pairwise(items))
    divided = divides and len({quantity for quantity, _ in found.units}) < len(set(found.units))
    if (added and (money or differ)) or divided:
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
    a plain word or a mark is next to it; where it is `strict`, only `is`, a word that begins a reason, or words as of
    `_introduces`.
    """
    if found.span is None or found.culprit is None or found.culprit[0] >= found.span[0]:
        return None
    start = found.span[0]
    kinds, said, _ = split(text[:start])
    at = past(kinds, len(kinds) - 1, -1, "space", "currency")
    mixed = kinds[at] == "and" and any(item.kind == "/" for item in found.items[:2])  # `12 x 1 and 1/4`
    is_name = at == len(kinds) - 1 and kinds[at] in ALL_WORDS  # `item3 + 4`, `Rs.500 * 3`
    if kinds[at] not in _PLAIN_BEFORE or mixed or is_name:
        return None
    separated = not strict or kinds[at] == "equal" or said[at].casefold() in words().reasons  # `16 is 32 / 2`
    if strict:
        sign = kinds[past(kinds, at, -1, "space", "currency", *ALL_WORDS)]  # `20 + what is 3 * 4`
        sentence = re.split(r"[.?!\n]\s", text[:start])[-1].casefold()
        may_introduce = kinds[at] in (":", ",") and "space" in kinds[at + 1 :]
        if sign in BINARY | {"^", "("} or not REMAINDER.isdisjoint(_PART.findall(sentence)):
            return None
        if not separated and not may_introduce:
            return None
    alone = _read_wish(text[start:], limits)
    return _moved(alone, start) if separated or _introduces(text, start, at, alone) else None


def _introduces(text: str, start: int, at: int, found: Value | Refusal) -> bool:
    """Whether all numbers of the words before a colon or comma are some of the calculation after it, and none of these
    words changes its value: `multiply it by 3: 12 * 3`, `after she eats 3, 9 - 3`."""
    pieces = split(f"{text[:start]}\n")
    kinds, begin = pieces.kinds, at
    added = kinds[at] == "," and any(item.kind == "+" for item in found.items)
    if added and (kinds[at - 1] in ("number", "%") or _NAME.search(text, start)):  # `7, 8 + 7`, `5 A, 3 bs + 5 cs`
        return False
    while kinds[begin - 1] not in _SENTENCE_ENDS:
        begin -= 1
    begin = past(kinds, begin, 1, "space")
    begin += kinds[begin] in ("-", "*")  # the mark of a list's item
    numbers = {item.value for item in found.items if item.kind == "number"}
    said = [one.value for one in numbers_of(pieces, percents=True) if begin <= one.at < at]
    known = all(value is not None and not numbers.isdisjoint((value, value / 100)) for value in said)
    before = {*kinds[begin:at]}
    return known and kinds[at - 1] in _INTRODUCED and _TELLING.isdisjoint(before) and not _NAMING.isdisjoint(before)


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
    clause = _POINT.sub(" ", text[start : ends[at - 1]]).translate(_DASHES)
    bare = _WORD.sub(_spaces, clause)
    first = _first(bare)
    left = max((at + 1 for at in range(first) if bare[at].isalnum()), default=0)  # after a number, or `x`
    plain, before = 0, ""
    units: set[tuple[str, str]] = set()
    for match in _WORD.finditer(clause):
        kind = _class(match[0])
        if _is_blank(match, kind, in_front=match.end() <= first):
            if left <= match.start() < first:
                plain = 0 if kind == "of" else plain + (kind in PLAIN_WORDS)
        elif match.end() <= first:
            left, plain = match.end(), 0
        elif match[0] not in "xX":
            return None
        measure = words().units.get(_PART.findall(match[0])[0].casefold())
        if measure and match.start() >= first and (strict or before not in _APART):
            units.add(measure)
        before = kind
    if left and (strict or plain < 2):
        return None
    if strict and (plain == 1 or _words_matter(clause, first)):
        return None
    if _DOUBT.search(bare) or _SIGN.search(bare, left, first):
        return None
    found = _read_wish(f"{' ' * left}{bare[left:]}=", limits)
    if not isinstance(found, Value):
        return None
    differ = len({quantity for quantity, _ in units}) < len(units)  # `3 feet on top + 4 inches`
    if differ and any(item.kind in ("+", "-") for item in found.items):
        return None
    return _moved(found, start)


def _moved(found: Value | Refusal, by: int) -> Any:
    """What was found in a part of a text, in the text: the part begins some characters after it, and is not alone."""

    def there(span: Span | None) -> Any:
        return span and (span[0] + by, span[1] + by)

    items = tuple(item._replace(span=there(item.span)) for item in found.items)
    steps = tuple(step._replace(span=there(step.span)) for step in found.reductions)
    found = found._replace(items=items, span=there(found.span), reductions=steps)
    return found._replace(alone=False) if isinstance(found, Value) else found._replace(culprit=there(found.culprit))


def _words_matter(clause: str, first: int) -> bool:
    """Whether words of a clause may change its value: those that name an operation, touch a number or follow a sign
    do. After a number there is a noun among them: `530 or -3` has two values."""
    named: dict[int, bool] = {}
    for match in _WORD.finditer(clause):
        kind, before = _class(match[0]), clause[: match.start()]
        if match[0].casefold() in words().functions or kind in ("operator", "link", "request"):
            return True
        if match.start() >= first:
            if kind not in _NAMING or before[-1:].isdigit() or _SIGN.match(before.rstrip()[-1:]):
                return True
            number = len(_NUMBER.findall(before))
            named[number] = named.get(number, False) or kind in ("letters", "unit")
    return not named or not all(named.values()) or _is_mixed(clause)


def _begins(kinds: list[str], at: int) -> bool:
    """Whether nothing before a clause belongs to it: no sign at the end of a line, and no number of its sentence."""
    if kinds[at] == "line":
        return kinds[past(kinds, at - 1, -1, "space", "line")] not in BINARY | {"and", "(", ",", ":"}
    while kinds[at] not in _SENTENCE_ENDS:
        if kinds[at] in NUMBERS | STRANGE:
            return False  # `14, 400 / 80`, `10:30 + 5`, `5 cats, 3 dogs + 4`
        at -= 1
    return kinds[at] != "." or kinds[at - 1] not in NUMBERS


def _is_mixed(clause: str) -> bool:
    """Whether a clause has a per cent sign, or some numbers with a currency and others without (`$5 + 50 cents`)."""
    numbers, money = len(_NUMBER.findall(clause)), len(re.findall(r"[$€£]", clause))
    return (
        "%" in clause
        or (0 < money < numbers and not re.search(r"[*/×÷]|\bx\b", clause))
        or (money > 0 and any(words().units.get(one.casefold(), ("",))[0] == "money" for one in _PART.findall(clause)))
    )


def _spaces(match: re.Match[str]) -> str:
    """As many spaces as a word has characters, except of the `x` of a product."""
    return match[0] if match[0] in "xX" else " " * len(match[0])


def _class(word: str) -> str:
    """The class of a word; of one with several parts `letters`, or `other` if a part may say something of a value."""
    kinds = [kind_of(part) for part in _PART.findall(word)]
    if kinds[-1] == "modifier" and _PLAIN_PARTS.issuperset(kinds[:-1]):  # `tiles/square`
        return "modifier"
    return kinds[0] if len(kinds) == 1 else "letters" if _PLAIN_PARTS.issuperset(kinds) else "other"


def _is_blank(match: re.Match[str], kind: str, in_front: bool) -> bool:
    """Whether a word says nothing of the values around it."""
    word, touched = match[0], match.string[match.start() - 1 : match.start()].isdigit()
    if re.match(r"[0-9(]", match.string[match.end() :]):
        return False  # the name of another value or of a function: `item3 + 4`, `int(7 / 2)`
    if len(word) == 1:
        return word == "a" and not touched
    if in_front or kind not in ("operator", "link", "modifier"):
        return kind in _BLANK or (in_front and kind in ("operator", "link"))  # `we multiply 20 * 12`
    # One that has no operand means nothing: `40 times / 2`, `4 times per hour`, `30 square feet`; but `5 percent / 2`.
    after = _WORD.match(match.string, match.end() + 1)
    is_measure = after is not None and _class(after[0]) in ("per", "unit")
    means_nothing = is_measure or _NO_OPERAND.match(match.string, match.end()) is not None
    return means_nothing and word.casefold() not in PERCENT


def _first(bare: str) -> int:
    """The first number of those at the end of a clause that have an operator between any two."""
    kinds, _, ends = split(bare)
    first, joined = len(bare), True
    for place in range(len(kinds) - 1, 0, -1):
        if kinds[place] == "number":
            if not joined:
                break
            first, joined = ends[place - 1], False
        joined = joined or kinds[place] in BINARY
    return first


def _abbreviates(kinds: list[str], at: int) -> bool:
    """Whether a point belongs to the word before it: `8 ft. * 20 sq. ft. =`."""
    after = at + 1 + (kinds[at + 1] == "space")
    return kinds[at] == "." and kinds[at - 1] in PLAIN_WORDS and kinds[after] in BINARY | {"=", "unit"}
