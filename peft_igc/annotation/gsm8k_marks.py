"""Parses calculator annotations, such as GSM8K's `<<48/2=24>>`, and checks whether they are right.

In: a text with annotations. Out: the text without them, and each annotation with its place, its calculation and its
fault. Nothing is tokenized here.
Try it: `pytest tests/annotation/test_gsm8k.py -k right`
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, NamedTuple

from ..data.exact_values import items_of
from ..numbers.calculator import evaluate_exactly
from ..text.grammar import evaluate
from ..text.refusals import Reason, Refused
from ..text.values import Limits
from ..tuner.config import IGCConfig


__all__ = ["CURRENCY", "Mark", "plain", "read_marks"]

LONGEST_MARK = 200  # characters

CURRENCY = "$€£¥₹"
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
_NUMBER = rf"(?:{_DIGITS}(?:\.[0-9]+)?|\.[0-9]+)"
_MARK = re.compile(r"<<((?:(?!<<).)*?)>>")
_STATED = re.compile(rf"\s*(-?{_NUMBER})\s*(%?)\s*")
_TWO_INTEGERS = re.compile(rf"\s*(-?{_DIGITS})\s*([-+*/])\s*(-?{_DIGITS})\s*")
_RESULT = re.compile(rf"[^\S\n]*([-\u2212]?)[{CURRENCY}]?[^\S\n]?([-\u2212]?)({_NUMBER})")
_SIGN = r"[^\S\n]*[-+*/x×÷·\u2212][^\S\n]*"
# Text before a mark that ends in at least three numbers with signs between them, all on one line.
_LONGER = re.compile(
    rf"[\d)%]{_SIGN}[{CURRENCY}]?{_NUMBER}[%)]?{_SIGN}[-\u2212]?[{CURRENCY}]?{_NUMBER}[^\S\n]*=?[^\S\n]*[{CURRENCY}]?\s*$"
)
_PLAIN = str.maketrans({"×": "*", "÷": "/", "\u2212": "-"} | dict.fromkeys(CURRENCY))
_LIMITS = Limits(operands=LONGEST_MARK)  # whatever an adapter can do


class Mark(NamedTuple):
    """An annotation."""

    place: int  # its index in the solution without marks
    written: str  # its content, such as `48/2=24`
    stated: str | None = None  # its result without separators; None: it cannot be read
    calculation: tuple[str, str, str] | None = None  # operator and canonical operands, if these are two integers
    fault: str | None = None  # why it is wrong; None: it is right, or cannot be read
    is_part: bool = False  # part of a longer expression in the text, as in `3+4*12=<<4*12=48>>48`
    expression: str = ""  # its left side in plain symbols


def read_marks(annotated: str, config: IGCConfig) -> tuple[str, list[Mark]]:
    """Splits an annotated text into the text without marks and the marks.

    The text is stripped, because some chat templates do that and others do not.

    Args:
        annotated: The text with marks.
        config: The adapter's config: operations and rounding.
    """
    parts = _MARK.split(annotated)  # text and marks in turn
    # The calculator writes no thousands separators and no zeros at the end of a decimal, so results in the text must
    # not have any either.
    decimals = config.decimals
    for at in range(2, len(parts), 2):
        if (found := _RESULT.match(parts[at])) and plain(found[3]) in plain(parts[at - 1]):
            number = plain(found[0])
            number = number.rstrip("0").rstrip(".") if decimals and "." in number else number
            parts[at] = number + parts[at][found.end() :]
    whole = "".join(parts[::2])
    solution, lead = whole.strip(), len(whole) - len(whole.lstrip())
    marks, place = [], -lead
    for text, written in zip(parts[::2], parts[1::2], strict=False):
        place += len(text)
        at = max(place, 0)
        mark = _read_mark(at, written, solution[at:], config)
        marks.append(mark._replace(is_part=_LONGER.search(solution, max(at - LONGEST_MARK, 0), at) is not None))
    # A mark that is not closed on its line stays in the text, because its end is not known.
    return solution, marks + [Mark(found.start(), "") for found in re.finditer("<<", solution)]


def _read_mark(place: int, written: str, after: str, config: Any) -> Mark:
    """Parses and checks an annotation; `after` is the text that follows it."""
    expression, _, right_side = written.translate(_PLAIN).partition("=")
    match = _STATED.fullmatch(right_side)
    if match is None or len(written) > LONGEST_MARK:
        return Mark(place, written)
    stated = plain(match[1])
    two = _TWO_INTEGERS.fullmatch(expression)
    calculation = None if two is None else (two[2], str(int(plain(two[1]))), str(int(plain(two[3]))))
    rounded = None if calculation is None else evaluate_exactly(*calculation, config.division)
    follows = _RESULT.match(after)
    result = None if follows is None else "-" * bool(follows[1] or follows[2]) + plain(follows[3])
    fault = None
    try:
        value = _evaluate(expression)
        if not _agrees(value, stated, bool(match[2])) and rounded != stated:
            fault = f"it gives {value if value.denominator == 1 else float(value)}"
        elif result is None or Fraction(result) != Fraction(stated):
            fault = f"the text continues with {after[:20]!r}"
    except ZeroDivisionError:
        fault = "it divides by zero"
    except ValueError:
        return Mark(place, written)
    return Mark(place, written, stated, calculation, fault, expression=expression.strip())


def plain(number: str) -> str:
    """A number without thousands separators."""
    return number.replace(",", "")


def _agrees(value: Fraction, stated: str, is_percent: bool) -> bool:
    """Whether a value is the stated one, which may be rounded to its number of decimal places."""
    places = len(stated.partition(".")[2]) + 2 * is_percent
    distance = abs(value - Fraction(stated) / (100 if is_percent else 1))
    return distance == 0 or (places > 0 and 2 * distance * 10**places <= 1)


def _evaluate(expression: str) -> Fraction:
    """The value of an expression. Raises ValueError if it has none, and ZeroDivisionError."""
    try:
        return evaluate(items_of(expression), _LIMITS, []).value
    except Refused as refused:
        raise (ZeroDivisionError if refused.reason is Reason.UNDEFINED else ValueError)(expression) from None
