"""Look-alikes: numbers with signs that are no calculation in the writing of people: dates, telephone numbers, ranges.

In: the text of an expression. Out: the characters that look like something else. Scores, sizes and rates in a request
are told by what asks for them, see `surroundings.before_request`. Try it: `pytest tests/text/test_reading.py`
"""

from __future__ import annotations

import re

from .refusals import Span


__all__ = ["look_alike"]

_DATE = re.compile(
    r"(?<![0-9.,])(?:[0-9]{4}(?:-[0-9]{1,2}){2,}|[0-9]{4}-0[0-9]|[0-9]{3}-[0-9]{3}-[0-9]{4}"
    r"|[0-9]{1,2}/[0-9]{1,2}/[0-9]{2,4}|[0-9]{1,2}-[0-9]{1,2}-[0-9]{4})(?![0-9]|[.,][0-9])"
)
# `10-15%`, `3-5 days`: tight, the second number is larger, and it has a unit that the first one has not.
_RANGE = re.compile(r"(?<![0-9.,%)\]}+*/^×÷\u2212-])([0-9]+)-([0-9]+)(?![0-9]|[.,][0-9])(?=%| ?[^\W\d_]{2,})")


def look_alike(text: str, start: int, end: int) -> Span | None:
    """The date, telephone number or range in a part of a text, None if there is none."""
    found = _DATE.search(text, start, end)
    if found is not None:
        return found.span()
    for found in _RANGE.finditer(text, start, end):
        if len(found[1]) < len(found[2]) or (len(found[1]) == len(found[2]) and found[1] < found[2]):
            return found.span()
    return None
