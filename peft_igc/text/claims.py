"""Checks the calculations that a text already states.

In: a finished text, such as an invoice or the solution of a model. Out: a `Claim` for each `expression = number` in it
(also `is`, `equals`, `≈`), with a verdict. A number that is shown with fewer places than the value has is true if it
is the value rounded to its places. Where a text may mean something else the verdict is `NOT_UNDERSTOOD`; but an
operation that begins in words (`multiply 5 by the sum 3 + 4 = 35`) is none of the expression, which is then untrue.
Files are read in `data.files`.
Try it: `python -c "from peft_igc.text import check; print(check('So 3 * 4 = 13, and 10 / 3 is 3.33.'))"`
"""

from __future__ import annotations

import enum
import itertools
import math
import re
from bisect import bisect_right
from collections import Counter
from fractions import Fraction
from typing import NamedTuple

from .markup import plain
from .pieces import Pieces, kind_of, literal, past, split, words
from .reading import BINARY, MOST_READ, PERCENT, PLAIN_WORDS, REMAINDER, read_at_equals
from .rounding import Rounding, places_of
from .values import Limits, Reason, Refusal, Span, Value, written


# As many digits as a person may write; a value that does not end is kept to more places than any text shows.
_LIMITS = Limits(digits=60, result_digits=160, operands=256, rounding=Rounding("half_even", 60))
_MOST_PLACES = 40  # of a number that is compared
_EXACT = _MOST_PLACES + 1  # places of a fraction, which is no rounded value
_ABOUT = frozenset("≈≃≅")
_GOES_ON = frozenset({"+", "*", "^", "x", "strange", "!", "{", "number", "function"})
_ODD = frozenset("~_")  # after a number: `= 1~200`, `= 10_2`
_COUNTING = frozenset({"scale", "letter", "ordinal", "number_word"})
_LARGE = 10  # from here on, a factor may be rounded: `= 5 million`
_CURRENCIES = {"$": "usd", "€": "eur", "£": "gbp", "¥": "jpy", "₹": "inr"}
_SPACED_DASH = re.compile(r"(?<=[0-9)] )[–—](?= [$€£(]?[0-9])")
_BEFORE_A_CLAIM = frozenset({"line", "edge", ".", "=", "relation", "!"})
_FRACTION = re.compile(r"[/÷]\s*[0-9]+/[0-9]")  # `25 / 1/3`, which people mean as 25 / (1/3)
_RANGE = re.compile(r"[0-9]+-[0-9]+ |[12][0-9]{3} - [12][0-9]{3} ")  # `pages 10-15 = 6`, `2019 - 2023 = 4 years`
# A bracket that is not closed, and no factor.
_OPENED = re.compile(r"(?:^|[^\W\d_]{2} |[.,:;!?|] ?)[ \t]*(\((?:[^()\n=]|\([^()\n=]*\))*)\Z", re.MULTILINE)
_BETWEEN = frozenset({"space", ".", ",", "and"})  # the numbers of one measure: `5 feet, 6 inches`
_DIGITS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_ROUNDING = re.compile(r"\bround|\bnearest\b", re.IGNORECASE)
_FEWEST_PLACES = 1  # of a number at `=` that may be rounded: `7 / 2 = 4` is untrue, `10 / 3 = 3.3` is not


class Verdict(enum.StrEnum):
    """What a claim is."""

    TRUE = "true"
    UNTRUE = "untrue"
    NOT_UNDERSTOOD = "not_understood"


class Claim(NamedTuple):
    """An expression that a text gives a result for."""

    verdict: Verdict  # whether the result is right
    span: Span  # the characters from the first of the expression to the last of the number
    number: str  # as the text has it
    # the right value in canonical form, rounded to the places of `number` and four more if it does not end; None if
    # the claim is not understood
    value: str | None = None
    reason: Reason = Reason.NONE  # why the claim is not understood; `NONE` if it is
    rounded: bool = False  # whether `number` is true as a rounded value only


class _Number(NamedTuple):
    """A number after an equals sign."""

    value: Fraction | None  # None: it is not understood
    span: Span
    places: int
    percent: bool
    counted: bool  # a word after it may multiply it: `420 million`, `8 dozen`, `20 L`


def check(text: str) -> list[Claim]:
    """The claims of a text, in order.

    Args:
        text: any finished text. Lines that have no number after an equals sign cost next to nothing.
    """
    given, text = text, _SPACED_DASH.sub("-", plain(text))  # between numbers and before `=` no range is meant
    kinds, said, ends = pieces = split(f"{text}\n")
    claims: list[Claim] = []
    for at, kind in enumerate(kinds):
        about = said[at] in _ABOUT
        if kind not in ("=", "equal") and not about:
            continue
        number = _number(pieces, at + 1)
        if number is None:
            continue
        shift = max(ends[at - 1] - MOST_READ - 1, 0)
        compares = said[at - 1 : at + 1] == ["=", "="]  # `if 3 + 4 == 8` does not say that it is true
        end = at - 1 - compares
        before = text[shift : ends[end]]
        after = past(kinds, bisect_right(ends, number.span[1] - 1) + 1, 1, "space", "unit", "letters")
        if kinds[after] == ")" and (bracket := _OPENED.search(before)):
            before = f"{before[: bracket.start(1)]}\n{bracket[1][1:]}"  # `(3 + 4 = 7)` is apart from what is before it
        found = read_at_equals(f"{before}=", _LIMITS, strict=False, in_words=kind != "equal")
        if found.span is None or not found.reaches:
            if kind != "equal" and (first := _unread_calculation(pieces, end)) is not None:
                span, shown = (first, number.span[1]), given[slice(*number.span)]
                claims.append(Claim(Verdict.NOT_UNDERSTOOD, span, shown, reason=Reason.NOT_UNDERSTOOD))
            continue
        first, last = shift + found.span[0], shift + found.span[1]
        first -= kind_of(text[first - 1 : first]) == "currency"
        # `the price of 3 + 4 apples is 20` says nothing of 3 + 4.
        if kind == "equal" and text[last : ends[at - 1]].strip():
            continue
        reason = found.reason if isinstance(found, Refusal) else Reason.NOT_UNDERSTOOD
        shown = given[slice(*number.span)]
        claim = Claim(Verdict.NOT_UNDERSTOOD, (first, number.span[1]), shown, reason=reason)
        if isinstance(found, Value) and number.value is not None:
            compared = _compared(claim, found, found.value, number, about)
            other = _other_sign(given[:first], text[first:last])
            if other is not None and compared.verdict is Verdict.UNTRUE and (other < 0) == (number.value < 0):
                compared = _compared(claim, found, other, number, about)  # the sign that its result has
            counted = number.counted and _may_count(found.value, number)
            accused = compared.verdict is Verdict.UNTRUE
            doubtful = accused and (compares or _is_doubtful(pieces, text, (first, last), found, number, about))
            if not counted and not doubtful:
                claim = compared
        claims.append(claim)
    return claims


def _unread_calculation(pieces: Pieces, at: int) -> int | None:
    """Where two numbers with an operator between them begin before a piece, though no expression is read; None if
    there are none: `4 * 3,50 =`, `5 more toys + 8 old ones =`."""
    kinds, said, ends = pieces
    number = operator = False
    while kinds[at] not in _BEFORE_A_CLAIM and said[at] not in _ABOUT:
        if kinds[at] == "number" and operator:
            return ends[at - 1]
        number = number or kinds[at] == "number"
        operator = operator or (number and kinds[at] in BINARY and kinds[at - 1] == kinds[at + 1] == "space")
        at -= 1
    return None


def _compared(claim: Claim, found: Value, value: Fraction, number: _Number, about: bool) -> Claim:
    """The claim that a number is the value of an expression. With a per cent sign after it, both `0.4` and `40` may be
    meant by 40%, but of a quotient; without one, a sum of percentages and a product with `100%` may be a hundredth."""
    given = number.value
    assert given is not None
    claim = claim._replace(reason=Reason.NONE)
    rounds = about or number.percent or number.places >= _FEWEST_PLACES
    meant = [value, value * 100] if number.percent or found.text.endswith("%") or _is_scaled(found) else [value]
    if number.percent and _is_quotient(found):
        del meant[0]
    for one in meant:
        if one == given or (rounds and abs(one - given) * 2 * 10**number.places <= 1):
            return claim._replace(verdict=Verdict.TRUE, value=_written(one, number), rounded=one != given)
    right = min(value, value * 100, key=lambda one: abs(one - given)) if number.percent else value
    return claim._replace(verdict=Verdict.UNTRUE, value=_written(right, number))


def _is_scaled(found: Value) -> bool:
    """Whether an expression has a factor `100%`."""
    return any(one.value == 100 and two.kind == "%" for one, two in itertools.pairwise(found.items))


def _is_quotient(found: Value) -> bool:
    """Whether an expression without per cent signs ends in a division."""
    return (
        found.reductions[-1:] != () and found.reductions[-1].symbol == "/" and "%" not in {i.kind for i in found.items}
    )


def _is_doubtful(pieces: Pieces, text: str, span: Span, found: Value, number: _Number, about: bool) -> bool:
    """Whether an expression at some characters, or the number, may mean something else than was read."""
    given, value = number.value, found.value
    assert given is not None
    before, after = _around(text, span[0], number.span[1])
    kinds = {one.kind for one in found.items}
    percents = "%" in kinds and "of" not in kinds and value * 100 == given  # `20% x 3 = 60`
    digits = str(given)
    zeros = 0 if number.places or not given else len(digits) - len(digits.rstrip("0"))
    unit = Fraction(10) ** (zeros - number.places)  # of its last digit that counts: `52 * 40 ≈ 2,000`
    return (
        _FRACTION.search(text, *span) is not None
        or _has_part_before(pieces, span[0])
        or _measures_differ(pieces, (span[0], number.span[1]), number.span)
        or _has_part_after(pieces, number.span)
        or (about and abs(value - given) * 2 <= unit)
        or (abs(value - given) < unit and _ROUNDING.search(f"{before}\n{after}") is not None)
        or percents
        or (number.percent and _is_quotient(found) and value == given)
        or _leaves_rest(after, number, found)
        or _is_part(before, text[span[0]], found, given)
        or _may_be_other(text, span, value, number)
    )


def _written(value: Fraction, number: _Number) -> str:
    """A right value as text, rounded if it has no end."""
    needed = places_of(value)
    exact = needed is not None and needed <= _MOST_PLACES
    rounding = Rounding("half_even", (0 if number.places == _EXACT else number.places) + 4)
    return written(value if exact else rounding.apply(value)) + "%" * number.percent


def _number(pieces: Pieces, at: int) -> _Number | None:
    """The number that begins at a piece, after spaces, a sign and a currency; None if there is none."""
    kinds, said, ends = pieces
    at = past(kinds, at, 1, "space")
    begin, negative = ends[at - 1], False
    while kinds[at] in ("+", "-", "currency"):
        negative = negative or kinds[at] == "-"
        at += 1 + (kinds[at + 1] == "space" and kinds[at] == "currency")
    if kinds[at] != "number":
        return None
    value, end = literal(said[at]), at + 1
    after = past(kinds, end, 1, "space")
    percent = kinds[after] == "%" or said[after].casefold() in PERCENT
    if percent:
        end = after + 1
    places = len(said[at].partition(".")[2])
    if kinds[end : end + 2] == ["/", "number"]:  # `= 8/3`
        below = literal(said[end + 1])
        value, end, places = value / below if value is not None and below else None, end + 2, _EXACT
    clock = said[at][0] == "0" and said[at][1:2].isdigit()  # `0900 - 0130 = 0730`
    changed, counted = _after(pieces, end)
    if clock or places > _EXACT or changed:
        value = None
    span = begin, ends[end - 1]
    value = -value if value is not None and negative else value
    return _Number(value, span, places, percent, counted)


def _after(pieces: Pieces, at: int) -> tuple[bool, bool]:
    """Whether what follows makes another number: `= 24 * 3`, `= 3,5`; or a word may multiply it: `= 5 million`."""
    kinds, said, _ = pieces
    changes = False
    if kinds[at] in (".", ",", ":", "'"):  # a mark ends the number, unless digits or letters touch it: `16.66...`
        changes = kinds[at + 1] in ("number", "letters", "letter", "strange", "(") or kinds[at + 1] == kinds[at]
        return changes, False
    spaced, at = kinds[at] == "space", past(kinds, at, 1, "space")
    kind, after = kinds[at], past([*kinds, "line"], at + 1, 1, "space")
    counts = kind in _COUNTING or (not spaced and len(said[at]) == 1 and said[at].isalpha() and kind != "x")
    if kind == "(":  # a remark begins with a word: `= 11 (incl. VAT)`
        return kinds[after] not in PLAIN_WORDS, False
    if kind == "/":  # `$15/hr`
        changes = spaced or kinds[after] not in ("letters", "unit")
    elif kind == "-":  # `= 24 - 3` goes on; `= 24 - so there are 24` and `25-foot` do not
        changes = kinds[after] not in PLAIN_WORDS
    elif kind == "and":  # `1 and 1/3`, but not `7 and 2 * 7`
        changes = kinds[after : after + 2] == ["number", "/"] or kinds[after] == "("
    elif counts or kind in ("unit", "letters"):
        joined = kinds[after] in BINARY  # `240 students - 16`
        after += joined + (joined and kinds[after + 1] == "space")
        goes_on = kinds[after : after + 1] == ["number"]
        if not (goes_on and (joined or kind != "letters")):  # `5 hours 30 minutes`, but not `100 after 5 games`
            return False, goes_on or counts
        changes = True
    return changes or kind in _GOES_ON or said[at] in _ODD or said[at].casefold() in REMAINDER, False


def _may_be_other(text: str, span: Span, value: Fraction, number: _Number) -> bool:
    """Whether an expression may be a range, or its result may have a separator or a remark."""
    rest, given = text[number.span[1] :].lstrip(" \t"), number.value
    assert given is not None
    if rest.startswith(("(", "…")) or (number.places == 3 and value == given * 1000):  # `= 8.000`
        return True
    return value < 0 <= given and _RANGE.fullmatch(text, span[0], span[1] + 1) is not None


def _may_count(value: Fraction, number: _Number) -> bool:
    """Whether a number times a whole one, or a whole part of it, may be a value, or a part of one more added to it."""
    given = number.value
    assert given is not None
    if not value or not given:
        return True
    ratio = max(abs(value / given), abs(given / value))
    half = Fraction(1, 2 * 10**number.places) if number.places else Fraction(0)
    whole = abs(ratio - round(ratio)) <= ratio * half / abs(given)
    return whole or ratio >= _LARGE or abs(value - given) < 1


def _has_part_before(pieces: Pieces, first: int) -> bool:
    """Whether a measure of which an expression has the last part begins before it: `3 hr. 20 min. - 10 min.`"""
    kinds, said, ends = pieces
    begin = bisect_right(ends, first)
    units, left = words().units, [at for at in range(max(begin - 6, 0), begin) if kinds[at] not in _BETWEEN][-2:]
    right = begin + 1 + (kinds[begin + 1] == "space")
    if [kinds[at] for at in left] != ["number", "unit"] or kinds[right] not in ("unit", "glue"):  # `6 in` has no unit
        return False
    quantity, name = units[said[left[1]].casefold()]
    other = units.get(said[right].casefold(), (quantity, ""))
    return other[0] == quantity and other[1] != name


def _has_part_after(pieces: Pieces, number: Span) -> bool:
    """Whether a result is the first part of a measure: `= 2 dollars and 50 cents`."""
    kinds, _, ends = pieces
    at = past(kinds, bisect_right(ends, number[1] - 1) + 1, 1, "space")
    if kinds[at] != "unit" and "currency" not in kinds[bisect_right(ends, number[0]) : at]:
        return False
    after = past(kinds, at + (kinds[at] == "unit"), 1, "space", ",", "and", "per")
    return kinds[after] == "number" and not {",", "and"}.isdisjoint(kinds[at:after])


def _other_sign(before: str, expression: str) -> Fraction | None:
    """The value of an expression if a minus, which was read as a sign, is the mark of an item, or a mark a sign; None
    without such a minus."""
    if expression[0] == "-" and not expression[1].isdigit():
        expression = expression[1:]
    elif before.rstrip(" \t").endswith("-"):
        expression = f"-{expression}"
    else:
        return None
    found = read_at_equals(f"{expression}=", _LIMITS, strict=False)
    return found.value if isinstance(found, Value) else None


def _leaves_rest(after: str, number: _Number, found: Value) -> bool:
    """Whether a result is a quotient without the remainder, which the sentence goes on with: `7 / 2 = 3, remainder 1`,
    `= 3 boxes and 1 left`."""
    last = found.reductions[-1]
    if not (number.value == math.floor(found.value) != found.value and last.symbol == "/"):
        return False
    rest = last.operands[0] - last.operands[1] * number.value
    return rest in {literal(one) for one in _DIGITS.findall(after.partition("=")[0])}


def _around(text: str, first: int, last: int) -> tuple[str, str]:
    """The rest of the sentence before and after some characters."""
    least = max(first - MOST_READ, 0)
    begin = max(text.rfind(end, least, first) for end in (". ", "? ", "! ", "\n"))
    return text[max(begin + 1, least) : first], re.split(r"[.?!]\s|\n", text[last : last + MOST_READ], maxsplit=1)[0]


def _is_part(before: str, sign: str, found: Value, given: Fraction) -> bool:
    """Whether a number before an expression is a factor of the amount that it begins with: `8 pizzas at $12 + $10 =
    $106`."""
    first, *after = found.items
    if sign not in "$€£" or not first.value or after[0].kind not in ("+", "-"):
        return False
    return (given - found.value) / first.value + 1 in {literal(one) for one in _DIGITS.findall(before)}


def _measures_differ(pieces: Pieces, span: Span, number: Span) -> bool:
    """Whether a quantity has several units: `$1 / 2 = 50 cents`, `$9 a month * 1 year = $108`."""
    kinds, said, ends = pieces
    before, after = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    begin = bisect_right(ends, span[0])
    for at in range(begin - (kinds[begin - 1] == "currency"), len(kinds)):
        if kinds[at] in ("currency", "unit"):
            money = "money", _CURRENCIES.get(said[at], said[at])
            measure = money if kinds[at] == "currency" else words().units[said[at].casefold()]
            (before if ends[at] <= number[0] else after)[measure] += 1
        if ends[at - 1] >= number[1] and kinds[at] != "space":
            break
    once = [quantity for (quantity, _), times in before.items() if times == 1]
    if "per" in kinds[begin:at] and len(set(once)) < len(once):
        return True
    return any(quantity == other for quantity, _ in before for other, _ in after.keys() - before)
