"""What is before and after an expression: which further numbers are excused, and which refuse it.

In: an `Expression` that is being read. Out: nothing, or a `Refused` with the piece that caused it.

* `before_equals`: the expression ends at an anchor `=`. A number before it is excused if a line, a sentence's end, an
  equals sign or two words that are neither numbers nor operators stand between.
* `before_request`: the expression is anywhere in a request. Every further number refuses, except a list number and
  what is before an empty line or a control token.
* `after`: what follows the expression of a request. Anything may that is not numeric: `What is 3 + 4, please?`. What
  touches the expression, or may be a further operand or operator, refuses.
* `look_alike`: numbers with signs that are no calculation in the writing of people: dates, telephone numbers, ranges.
"""

from __future__ import annotations

import re

from .expressions import ALL_WORDS, CLOSE, NUMBERS, OPEN, STARTS, STRANGE, WORDS, Expression
from .operations import FUNCTIONS
from .pieces import past
from .values import Reason, Refused, Span


_ENDS = STARTS | {".", "="}
_CHANGING = frozenset({"operator", "minus", "link"})  # what an expression means, if less than two words are between
_FORMS = frozenset({"function", "modifier", "rounding", "sign"})  # the same; in a request anywhere before it
_BREAKS = frozenset({".", "?", "!", ";", "relation"})  # a request does not reach over them
BAD_WORDS = frozenset({"operator", "minus", "link", "function", "of", "x", "scale", "letter", "ordinal"})
_JOINTS = frozenset({"-", "/", "'"})
_MOST_REQUEST_WORDS = 6  # words between the word of a request and two numbers that may be a date or a range
_OF_CHAIN = 6  # words before `of` an expression that may change its value: `half the sum of 3 + 4`
_DATE = re.compile(
    r"(?<![0-9.,])(?:[0-9]{4}(?:-[0-9]{1,2}){2,}|[0-9]{4}-0[0-9]|[0-9]{3}-[0-9]{3}-[0-9]{4}"
    r"|[0-9]{1,2}/[0-9]{1,2}/[0-9]{2,4}|[0-9]{1,2}-[0-9]{1,2}-[0-9]{4})(?![0-9]|[.,][0-9])"
)
# `10-15%`, `3-5 days`: tight, the second number is larger, and it has a unit that the first one has not.
_RANGE = re.compile(r"(?<![0-9.,%)\]}+*/^×÷\u2212-])([0-9]+)-([0-9]+)(?![0-9]|[.,][0-9])(?=%| ?[^\W\d_]{2,})")


def look_alike(read: Expression, text: str) -> Span | None:
    """The date, telephone number or range in an expression of a text, None if there is none."""
    start, end = read.items[-1].span[0], max(read.items[0].span[1], read.end)
    ranges = _RANGE.finditer(text, start, end)
    # Longer numbers are larger, leading zeros included.
    rising = (one for one in ranges if (len(one[1]), one[1]) < (len(one[2]), one[2]))
    found = _DATE.search(text, start, end) or next(rising, None)
    return None if found is None else found.span()


def before_equals(read: Expression, at: int) -> None:
    """Judges what is before an expression that ends at `=`, from the piece `at` on."""
    _label(read, at)
    factor = read.items[-1].kind == "(" or read.items[-1].name == "sqrt"
    if factor and read.kind(read.skip(at)) == "letter":  # `P (1 + 0.05)^2`
        raise read.refuse(Reason.NOT_UNDERSTOOD, read.skip(at))
    words, danger = read.words_before, False
    colon, first = read.kind(at) == ":", read.skip(at)
    chain = read.linked and read.said[first].casefold() in read.known.operations
    while (kind := read.kind(at)) not in _ENDS:
        if kind in NUMBERS or kind in STRANGE:
            raise read.refuse(Reason.OTHER_NUMBER if kind in NUMBERS else Reason.NOT_UNDERSTOOD, at)
        if danger:
            pass
        elif _plain_operator(read, at) or kind in _FORMS or (not words and _applies(read, at)):
            raise read.refuse(Reason.NOT_UNDERSTOOD, at)
        elif kind in ("operator", "minus", "link"):
            danger = True
        elif kind in (":", "!", "?"):
            words = 1  # with a word before it, it ends a sentence
        elif kind in WORDS:
            words += 1
            while read.kind(at - 1) in _JOINTS and read.kind(at - 2) in ALL_WORDS - STRANGE:  # `well-known`
                at -= 2
            if words >= 2:
                if chain or colon:
                    _clause(read, at - 1, chain)
                return _closing(read, at - 1)
        elif kind in ("-", "*", "/"):
            return _bullet(read, at)
        at -= 1
    if kind == "line" and not words:
        sign = past(read.kinds, at - 1, -1, "space")
        if read.kind(sign) in ("+", "-", "*", "/", "x") and read.kind(read.skip(sign - 1)) in NUMBERS | CLOSE:
            raise read.refuse(Reason.NOT_UNDERSTOOD, sign)  # it goes on from a line before
        if read.items[-1].kind in "+-" and read.kind(sign) in NUMBERS and not _has_equals(read, sign):
            raise read.refuse(Reason.OTHER_NUMBER, sign)  # the same: `12 + 30\n+40 + 18`


def _has_equals(read: Expression, at: int) -> bool:
    """Whether an equals sign is before a piece in its line."""
    while read.kind(at) not in _ENDS:
        at -= 1
    return read.kind(at) == "="


def _label(read: Expression, at: int) -> None:
    """Refuses a number that only names something, before a minus that may be a dash: `Task 7 - 12 + 30`, `No. 4 - 6`.

    Not `the year 2021 - 36`, nor `number 20-10`.
    """
    number, minus = read.items[-1], read.items[max(-2, -len(read.items))]
    if number.kind != "number" or minus.kind != "-" or number.span[1] == minus.span[0]:
        return
    word = read.skip(at)
    word -= read.kind(word) == "."
    said = read.kind(word) in ALL_WORDS and read.said[word].casefold() in read.known.labels
    if said and read.kind(read.skip(word - 1)) != "article":
        raise Refused(Reason.OTHER_NUMBER, number.span)


def _plain_operator(read: Expression, at: int) -> bool:
    """Whether a piece can only join operands: no hyphen, slash or star of a list."""
    return read.kind(at) in ("+", "^") or (read.kind(at) in ("*", "/") and read.said[at] not in "*/")


def _applies(read: Expression, at: int) -> bool:
    """Whether the word directly before an expression is applied to it: `plus`, `floor of`; not `a maximum of`."""
    kind, said = read.kind(at), read.said[at].casefold()
    if kind in ("operator", "minus", "one"):
        return True
    if kind == "link" or kind not in ALL_WORDS:
        return False
    name = read.known.functions.get(said)
    function = FUNCTIONS.get(name or said)
    # A name that only the table has, such as `count`, is an ordinary word, unless a user has registered it.
    named = name is not None or (function is not None and function.function is not None)
    # A list may follow `of`, but not where the function takes one number.
    return named and (not read.linked or function is None or function.most == 1)


def _clause(read: Expression, at: int, chain: bool) -> None:
    """Refuses words that change an expression though two words stand between, and no verb.

    With `chain`, the name of an operation and `of` are before it: `half the sum of 3 + 4`. If not, a colon is, and
    only what asks for another form refuses: `to 2 significant figures: 3 + 4`.
    """
    right = read.kind(at + 1)
    for _ in range(_OF_CHAIN):
        at = read.skip(at)
        kind = read.kind(at)
        if kind not in ALL_WORDS or kind in ("glue", "equal", "request"):
            return
        changes = kind in ("function", "modifier", "number_word") and right in ("of", "article")
        if kind == "rounding" or (changes and chain):
            raise read.refuse(Reason.NOT_UNDERSTOOD, at)
        right, at = kind, at - 1


def _bullet(read: Expression, at: int) -> None:
    """A sign before words is the mark of a list at the start of a line, and an operator elsewhere."""
    while read.kind(at - 1) in ("space", "*"):
        at -= 1
    if read.kind(at - 1) not in _ENDS:
        raise read.refuse(Reason.NOT_UNDERSTOOD, at - 1)


def _closing(read: Expression, at: int) -> None:
    """Two words excuse what is before them, but not an operator with a word as its operand."""
    while read.kind(at) in _JOINTS:
        at -= 1
    if read.kind(at) == "space":
        at = read.skip(at)
        if read.kind(at) in ("-", "*") and not _plain_operator(read, at):
            _bullet(read, at)
        elif read.kind(at) in ("+", "*", "/", "^"):
            raise read.refuse(Reason.NOT_UNDERSTOOD, at)


def before_request(read: Expression, at: int) -> bool:
    """Judges what is before the expression of a request, from the piece `at` on; returns whether nothing but a list
    number is there in its message. Unless it is sure, a word must ask for it, or it must be the whole message."""
    words, phase, alone = 0, "", True
    need, whole = not read.sure, not read.spoken
    while (kind := read.kind(at)) not in ("edge", "control") and not (kind == "line" and phase == "line"):
        if kind == "line":
            if need and not whole:
                break
            phase = "line"
        elif kind == "space":
            phase = phase if phase == "line" else ""
        elif phase == "mark" and kind == "number" and read.is_short(at) and read.kind(read.skip(at - 1)) in STARTS:
            words, phase = 0, ""
        elif kind in NUMBERS or kind in STRANGE:
            raise read.refuse(Reason.OTHER_NUMBER if kind in NUMBERS else Reason.NOT_UNDERSTOOD, at)
        elif _plain_operator(read, at) or kind == "*" or kind in _FORMS:
            raise read.refuse(Reason.NOT_UNDERSTOOD, at)
        elif words < 2 and (kind in _CHANGING or _applies(read, at)):
            raise read.refuse(Reason.NOT_UNDERSTOOD, at)
        else:
            if kind in ALL_WORDS:
                words, alone = words + 1, False
            if kind == "request":
                need = False
            if need and (kind in _BREAKS or (kind == ":" and words) or words > _MOST_REQUEST_WORDS):
                raise read.refuse(Reason.LOOK_ALIKE, at)
            phase = "mark" if kind == "." or kind in CLOSE else ""
            whole = False
        at -= 1
    if need and not whole:
        raise read.refuse(Reason.LOOK_ALIKE, at)
    return alone


_WORD_PHASES = {"one": "one", "equal": "glue", "unit": "word"} | dict.fromkeys(BAD_WORDS, "bad")
_GAPS = {"glue": "clean", "bad": "bad gap", "one": "one gap", "dot": "bad gap", "mark": "clean"}
_GAPS |= {"word": "word gap", "listed": "word gap"}


def after(read: Expression, at: int) -> tuple[int, bool]:
    """Reads what follows the expression of a request, from the end; returns the last piece of the expression, and
    whether words are between it and a mark or an end: `3 - 5 please`.

    Phases say what an expression would touch or meet: `clean` nothing, `equals` an equals sign, `glue` a word such as
    `is`, `word`, `listed` and `word gap` others, `dot` a point and then a word, `bad` and `bad gap` something that an
    expression must not meet, `one` and `one gap` the word `one`.
    """
    phase = "clean"
    while (kind := read.kind(at)) != "edge":
        if kind in NUMBERS or (phase == "clean" and read.is_currency_after(at)):
            if phase not in ("clean", "equals", "word", "word gap"):
                raise read.refuse(Reason.NOT_UNDERSTOOD, at)
            read.sure = phase == "equals"
            return at, phase.startswith("word")
        if kind in CLOSE and read.opened(at):
            inside = past(read.kinds, at - 1, -1, "space", *CLOSE)
            if read.kind(inside) not in NUMBERS:  # a remark
                phase, at = "clean", inside
                continue
            if phase in ("bad", "bad gap", "mark"):
                raise read.refuse(Reason.NOT_UNDERSTOOD, inside)
            read.sure = True
            return at, False
        if kind in CLOSE and read.kind(read.skip(at - 1)) in NUMBERS | CLOSE:
            raise read.refuse(Reason.UNBALANCED, at)  # `What is 9 - 4 - 1 ) ?`
        joins = kind in ("operator", "minus", "link") and phase in ("one", "one gap")
        if joins or kind in STRANGE or kind in ("modifier", "rounding", "sign", "*") or _plain_operator(read, at):
            raise read.refuse(Reason.NOT_UNDERSTOOD, at)
        read.spoken = (read.spoken and kind != "control") or kind in ALL_WORDS
        phase = _met(kind, phase)
        at -= 1
    raise read.refuse(Reason.NO_EXPRESSION, 0)


def _met(kind: str, phase: str) -> str:
    """The phase of `after` with one more piece."""
    if kind == "space":
        return _GAPS.get(phase, phase)
    if kind in ALL_WORDS:
        return _WORD_PHASES.get(kind, "listed")
    if kind == "=":
        return "equals"
    if kind in ("line", "?", ";", "control"):
        return "clean"
    if kind in (".", ",", ":", "quote", "'"):
        touches = phase in ("word", "listed", "glue", "bad", "one", "dot")
        return "dot" if touches else "clean" if phase != "bad gap" else phase
    if kind in OPEN or kind in CLOSE or kind in ("!", "other"):
        return "mark"
    return phase if kind == "currency" and phase == "clean" else "bad"
