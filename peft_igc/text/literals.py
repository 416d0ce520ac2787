"""The numbers of a text: which are literals, their exact values and signs, and what is numeric and not understood.

* `numbers_of`: of a request in words, with all that is numeric. Not understood are numbers that touch letters, a dash,
  a second point or a separator of no thousands, dates, per cents, number words and digits of other scripts; `one` only
  at the word of an operation. A minus after an operand subtracts; elsewhere one that touches its number negates it.
* `integers`: runs of digits, at which a network may point. One that touches a decimal point, a letter, `%`, an
  exponent, or a sign that is not known to leave a number whole, is broken: a part of a number gives a wrong answer.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from .expressions import ALL_WORDS, CLOSE, NUMBERS, OPEN, STRANGE
from .pieces import CONTROL, Pieces, literal, past
from .values import Span


_COUNTED = STRANGE | {"function", "number", "one"}
_BREAKING = frozenset({"%", "^", "!", "other", "dash"})
_MARKS = frozenset({".", ",", ":", "-", "'"})
_PAIRS = frozenset({".", ",", ":"})
_OPERATIONS = frozenset({"operator", "minus", "link"})
_OPERATORS = frozenset({"+", "-", "*", "/", "="}) | OPEN
_TOUCHED_AFTER = ALL_WORDS | STRANGE | _BREAKING | {"currency"}
_TOUCHED_BEFORE = _TOUCHED_AFTER | CLOSE | {"'", "number"}
_OPERANDS = NUMBERS | CLOSE
# After these, `minus` before a number is a sign; after an operand it is the operation, after others it may be both.
_BEFORE_A_SIGN = _OPERATIONS | {"edge", "cut", "control", ":", "quote", "and", "of", "equal", "request"} | OPEN


class Number(NamedTuple):
    """Something numeric in a text."""

    value: Fraction | None  # with its sign; None: it is not understood
    span: Span  # its characters, without sign and currency
    may_negate: bool = False  # a word such as `minus` is before it that may be its sign, or name the operation
    sign: int = 0  # the piece that negates it, or may; 0 for none
    at: int = 0  # its own piece


def numbers_of(pieces: Pieces, percents: bool = False) -> list[Number]:
    """All numbers of a text, and all that is numeric and not understood; with `percents` the number before a per cent
    sign is understood, too. The last of the pieces ends a line."""
    found = []
    for at in [at for at, kind in enumerate(pieces.kinds) if kind in _COUNTED]:
        if pieces.kinds[at] == "number":
            found.append(_number(pieces, at, percents)._replace(at=at))
        elif pieces.kinds[at] != "one" or _counts(pieces, at):
            found.append(Number(None, (pieces.ends[at - 1], pieces.ends[at]), at=at))
    return found


def _counts(pieces: Pieces, at: int) -> bool:
    """Whether `one` is next to the word of an operation: `5 plus one`, but `each one of 5`."""
    return any(pieces.kinds[at + step] == "space" and pieces.kinds[at + 2 * step] in _OPERATIONS for step in (-1, 1))


def _number(pieces: Pieces, at: int, percents: bool) -> Number:
    kinds, span = pieces.kinds, (pieces.ends[at - 1], pieces.ends[at])
    value = literal(pieces.said[at]) if len(pieces.said[at]) < 1000 else None
    if value is None or _broken_after(pieces, at, percents):
        return Number(None, span)
    touched = at - 1 - (kinds[at - 1] == "currency")
    left = past(kinds, touched, -1, "space")
    gap, before = left < touched, kinds[left]
    farther = past(kinds, left - 1, -1, "space")
    if before == "-":
        if kinds[farther] in _OPERANDS:
            return Number(value, span)
        # After a word, one with a gap may be a dash or the mark of a list, and one that touches it is a hyphen.
        touches = farther == left - 1 and (kinds[farther] in ALL_WORDS or kinds[farther] in _BREAKING)
        if kinds[farther] not in _OPERATORS and (gap or touches):
            return Number(None, span)
        return Number(-value, span, sign=left)
    if gap and before in ("sign", "minus"):
        if before == "sign" or kinds[farther] in _BEFORE_A_SIGN:
            return Number(-value, span, sign=left)
        may_negate = kinds[farther] not in _OPERANDS
        return Number(value, span, may_negate, left if may_negate else 0)
    pair = before in _PAIRS and (before == "." or kinds[left - 1] in NUMBERS)  # 10:30, 3,5
    return Number(None if not gap and (pair or before in _TOUCHED_BEFORE) else value, span)


def _broken_after(pieces: Pieces, at: int, percents: bool) -> bool:
    """Whether what follows a number belongs to it: `5km`, `5 million`, `5-year`, `3!`, `50%`."""
    kinds = pieces.kinds
    after = at + 1
    if kinds[after] == "currency" or (percents and kinds[after] == "%"):  # `5€`
        after += 1
    if kinds[after] == "!":  # `91 minus 37!` exclaims, `3!` may not
        return kinds[past(kinds, after, 1, "!")] not in ("line", "control") or len(pieces.said[at]) < 2
    if kinds[after] == "space":
        return kinds[past(kinds, after, 1, "space")] in ("scale", "ordinal")
    if kinds[after] in _MARKS:
        pair = kinds[after] in _PAIRS and kinds[after + 1] == "number"  # 10:30, 3,5
        return pair or kinds[past(kinds, after, 1, *_MARKS)] in ALL_WORDS
    return kinds[after] in _TOUCHED_AFTER


_MINUS, _QUOTE = "-\u2212", "'\u2019"
_FIXED = "\u00a0\u2007\u2009\u202f"  # spaces that separate thousands in many countries
JOINTS = frozenset(".,:" + _QUOTE + _FIXED)  # tokens that join two numbers to another one
_CURRENCIES = "$€£¥₹₩₽₺₫₪₴₱"  # without `¢`, whose numbers are parts of another amount
_LEAVE_WHOLE = (
    '()[]{}<>?;=+*/|"`×÷·•–—…“”„‘‚«»（）【】「」『』《》〈〉？；＝＋、。0123456789.,:!' + _CURRENCIES + CONTROL
)
_BREAKS = rf"[^\s{re.escape(_LEAVE_WHOLE + _CURRENCIES + _QUOTE + _MINUS)}]"  # what breaks a number that it touches
_DIGIT = r"[\d²³¹⁰⁴-⁹₀-₉]"
_BROKEN_BEFORE = (
    r"\.",
    _BREAKS,
    rf"{_DIGIT}[:{_QUOTE}{_FIXED}]",  # 10:30, 1'000
    rf"{_BREAKS}[{_MINUS}]",  # the hyphen of `x-5`, and not a sign or a subtraction
    rf"{_DIGIT}\*\*",  # a power, and not the end of bold type
    *(r"\A\*", r"\n\*", r"[^\d\s)%]\s\*", r"[^\w\s)\]%*]\*"),  # the mark of italic type, and not a product
)
_BROKEN_AFTER = (
    rf"(?!\\){_BREAKS}|\*\*",
    r"\*(?:\s*[^\W\d_]|[.,;:!?)]|\s*\Z)",  # the other mark of italic type
    r"\\[^()\[\]]",  # not LaTeX: `\(5 + 3\)`
    rf"\.(?:{_DIGIT}|{_BREAKS}|!)",  # a decimal, and not the end of a sentence
    rf"[:{_FIXED}]{_DIGIT}",
    rf"[{_QUOTE}][^\W_]",
    rf"[{_MINUS}](?:{_BREAKS}|!)",
    rf"!+(?:{_BREAKS}|{_DIGIT})",  # `91 minus 37!` exclaims
    r"(?<!\d[0-9])(?<!\d[.,][0-9])(?<=[0-9])!",  # `5!` may be a factorial
)
_BEFORE = "".join(f"(?<!{broken})" for broken in _BROKEN_BEFORE)
_AFTER = f"(?!{'|'.join(_BROKEN_AFTER)})"
_WHOLE = "([1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+)(?!,?[0-9])"  # `1,234`, but not `12,34` or `0,123`
_RUNS = re.compile("[0-9]+(?:,[0-9]+)*"), re.compile(r"[0-9]+(?:,[0-9]+)*(?:\.[0-9]+)?")  # with decimals the second
_WHOLES = re.compile(f"{_BEFORE}{_WHOLE}(){_AFTER}"), re.compile(rf"{_BEFORE}{_WHOLE}(?:\.([0-9]++))?+%?+{_AFTER}")
_ENDS_IN_MINUS = re.compile(rf"(?<!{_BREAKS})(?<![{_MINUS}])[{_MINUS}]{{1,2}}\Z")


class Integer(NamedTuple):
    """An integer of a text: its characters, and its digits without separators and leading zeros; None if broken."""

    start: int
    end: int
    digits: str | None


def integers(text: str, decimals: bool = False) -> list[Integer]:
    """All integers of a text in their order, whole or broken; `007` has the digits `7`, `000` has `0`.

    With `decimals` a number may have a point within it, and a per cent sign after it: `2.50` has the digits `2.5`,
    `15%` has `15`.
    """
    found = []
    for run in _RUNS[decimals].finditer(text):
        match, digits = _WHOLES[decimals].match(text, run.start()), None
        if match is not None:
            places = match[2].rstrip("0") if match[2] else ""
            digits = (match[1].replace(",", "").lstrip("0") or "0") + f".{places}" * bool(places)
        found.append(Integer(*run.span(), digits))
    return found


def ends_in_minus(text: str) -> bool:
    """Whether a token ends in a sign that a number after it may have: `=-`, but not `x-` or `---`."""
    return _ENDS_IN_MINUS.search(text) is not None
