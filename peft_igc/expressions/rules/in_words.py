"""Rules for the numbers of a request in words: which are literals, their signs, and what is numeric otherwise.

Reading goes from the end of a text to its beginning. A symbol gets a `Mark`; whether the number
behind a symbol is a literal is known a few symbols before it, and stands there as its verdict. Not understood are
numbers that touch letters, a per cent sign, a dash, a second point or a separator of no thousands, dates, number words
and digits of other scripts; `one` only beside the word of an operation.
Try it: `pytest tests/expressions/test_literals.py`
"""

from __future__ import annotations

import enum
import functools
from typing import NamedTuple

from ..alphabet import Symbol
from .automaton import Automaton, compiled


__all__ = ["VERDICT", "Mark", "Verdict", "literal_automaton", "literal_rule"]

S = Symbol
VERDICT = 8  # a mark holds that of the symbol, plus so many times the verdict on the number behind it


class Mark(enum.IntEnum):
    """What a symbol is."""

    NONE = 0
    DIGIT = 1
    POINT = 2
    SEPARATOR = 3
    STRANGE = 4  # numeric, and not understood


class Verdict(enum.IntEnum):
    """What the number behind a symbol is."""

    NONE = 0
    LITERAL = 1
    NEGATIVE = 2  # a literal with a minus or a word before it that negates
    BROKEN = 3
    AFTER_OPERATOR = 4  # a literal after a word such as `minus`, which may be its sign


class Place(NamedTuple):
    """A state. In the phase `text`, `kind` says what a number would touch; in others, `broken` is that of a number."""

    phase: str
    kind: str = ""
    broken: bool = False
    size: int = 0  # digits of the group; five stands for more
    separated: bool = False
    point: bool = False


_STRANGE = {S.NUMERIC, S.UNKNOWN, S.NUMBER_WORD, S.FUNCTION}
_WORDS = {S.LETTERS, S.MEASURE, S.GLUE, S.REQUEST, S.PER, S.MONTH, S.ORDINAL, S.SCALE_WORD, S.AND, S.OF, S.ONE}
_WORDS |= {S.LONE_X, S.OPERATOR_WORD, S.FUNCTION, S.NUMBER_WORD, S.EQUAL_WORD, S.MODIFIER, S.LINK, S.SIGN_WORD}
_CLOSING = {S.CLOSE, S.CLOSE_SQUARE, S.CLOSE_CURLY}
_DIGITS = (S.ZERO, S.DIGIT)
_BREAKING = {S.PERCENT, S.CARET, S.BANG, S.OTHER, S.DASH, S.DOLLAR, S.EURO, S.POUND}
_OPERATORS = {S.PLUS, S.STAR, S.TIMES, S.SLASH, S.DIVIDE, S.EQUALS, S.OPEN, S.OPEN_SQUARE, S.OPEN_CURLY, S.MINUS}
_OPERANDS = {S.ZERO, S.DIGIT, S.PERCENT} | _CLOSING
_HARMLESS = ("end", "free", "star", "operator gap", "one gap")
_ENDS = (S.EDGE, S.CONTROL, S.LINE)
_GAPS = {"operator": "operator gap", "one": "one gap", "scale": "scale gap", "end": "end"}
_LIKE = {S.PART: S.OTHER, S.REST: S.OTHER, S.MEASURE: S.LETTERS, S.MINUS_SIGN: S.MINUS, S.LINK: S.OPERATOR_WORD}
_LIKE |= {S.MINUS_WORD: S.OPERATOR_WORD, S.DIFFERENCE: S.LETTERS}
# After these, `minus` before a number is a sign; after an operand it is the operation, after others it may be both.
_BEFORE_A_SIGN = {S.EDGE, S.CONTROL, S.COLON, S.OPEN, S.QUOTE, S.AND, S.OF, S.LINK, S.OPERATOR_WORD, S.MINUS_WORD}
_BEFORE_A_SIGN |= {S.EQUAL_WORD, S.REQUEST}


class _No(NamedTuple):
    """What is known of a state: nothing."""


@functools.cache
def literal_automaton() -> Automaton[Place, _No]:
    """The rules as tables."""
    return compiled(Place("text", "end"), len(Symbol), literal_rule, lambda _: _No())


def literal_rule(state: Place, code: int) -> tuple[Place, int]:
    """The state after a symbol, and its mark with the verdict on the number behind it."""
    symbol = Symbol(code)
    if state.phase == "gap" and not state.broken and symbol is S.SIGN_WORD:
        return _text(Place("text", "free"), symbol, Verdict.NEGATIVE)
    if state.phase == "gap" and not state.broken and symbol is S.MINUS_WORD:
        return Place("minus word"), Mark.NONE
    if state.phase == "minus word":
        return _after_minus_word(state, symbol)
    symbol = _LIKE.get(symbol, symbol)
    if symbol is S.NOTHING:
        return state, Mark.NONE
    if state.phase == "text":
        return _text(state, symbol)
    if state.phase == "number":
        return _number(state, symbol)
    return _before(state, symbol)


def _after_minus_word(state: Place, symbol: Symbol) -> tuple[Place, int]:
    """What stands before `minus` and a number."""
    if symbol is S.SPACE:
        return state, Mark.NONE
    verdict = Verdict.NEGATIVE if symbol in _BEFORE_A_SIGN else Verdict.AFTER_OPERATOR
    if symbol in _OPERANDS:
        verdict = Verdict.LITERAL
    return _text(Place("text", "operator gap"), _LIKE.get(symbol, symbol), verdict)


def _text(state: Place, symbol: Symbol, verdict: Verdict = Verdict.NONE) -> tuple[Place, int]:
    """No number behind, or one whose verdict is due. Kinds: `end` of a text or line, `exclaims` directly before it,
    `free`, `breaks`, `word`, `star`, and words with gaps."""
    kind, said = state.kind, VERDICT * verdict
    if symbol in _DIGITS:
        # Behind two digits and more, `!` at the end of a text exclaims: `91 minus 37!`, but `5 plus 3!`.
        once = "exclaims" if kind == "exclaims" else ""
        return Place("number", once, kind not in _HARMLESS, 1), said + Mark.DIGIT
    if symbol in _STRANGE:
        return Place("text", "word"), said + Mark.STRANGE
    if symbol is S.SPACE:
        return Place("text", _GAPS.get(kind, kind if kind.endswith("gap") else "free")), said
    if symbol in (S.ONE, S.OPERATOR_WORD):
        other = "operator gap" if symbol is S.ONE else "one gap"
        mark = Mark.STRANGE if kind == other else Mark.NONE
        return Place("text", "one" if symbol is S.ONE else "operator"), said + mark
    if symbol in _WORDS:
        return Place("text", "scale" if symbol in (S.SCALE_WORD, S.ORDINAL) else "word"), said
    touches = kind in ("word", "breaks", "one", "operator", "scale")
    if symbol in (S.DOT, S.COMMA, S.COLON, S.MINUS, S.APOSTROPHE):
        return Place("text", "breaks" if touches else "free"), said
    if symbol is S.STAR:
        return Place("text", "breaks" if kind == "star" else "star"), said
    if symbol in _ENDS:
        return Place("text", "end"), said
    if symbol is S.BANG and kind in ("end", "exclaims"):
        return Place("text", "exclaims"), said
    return Place("text", "breaks" if symbol in _BREAKING else "free"), said


def _number(state: Place, symbol: Symbol) -> tuple[Place, int]:
    """Within a number, as in `inside`."""
    if symbol in _DIGITS:
        broken = (state.broken and state.kind != "exclaims") or (state.separated and state.size == 3)
        return state._replace(kind="", size=min(state.size + 1, 5), broken=broken), Mark.DIGIT
    if symbol is S.COMMA and state.size == 3:
        return Place("separator", broken=state.broken, point=state.point), Mark.SEPARATOR
    if symbol is S.DOT and not state.separated and not state.point:
        return Place("point", broken=state.broken), Mark.POINT
    if symbol in (S.COMMA, S.DOT, S.COLON):
        return Place("odd", broken=state.broken), Mark.NONE
    return _beside(state.broken, symbol)


def _beside(broken: bool, symbol: Symbol) -> tuple[Place, int]:
    """The symbol directly before a number."""
    if symbol is S.MINUS:
        return Place("minus", broken=broken), Mark.NONE
    if symbol is S.SPACE:
        return Place("gap", broken=broken), Mark.NONE
    if symbol in (S.DOLLAR, S.EURO, S.POUND):
        return Place("currency", broken=broken), Mark.NONE
    wrong = symbol in _WORDS or symbol in _STRANGE or symbol in _BREAKING or symbol in _CLOSING
    verdict = Verdict.BROKEN if broken or wrong or symbol in (S.APOSTROPHE, S.LIST_MARK) else Verdict.LITERAL
    return _text(Place("text", "breaks" if wrong else "free"), symbol, verdict)


def _before(state: Place, symbol: Symbol) -> tuple[Place, int]:
    """One or more symbols before a number."""
    phase, broken = state.phase, state.broken
    if phase in ("separator", "point") and symbol in _DIGITS:
        point = state.point or phase == "point"
        return Place("number", "", broken, 1, phase == "separator", point), Mark.DIGIT
    if phase == "point":
        word = symbol in _WORDS or symbol in (S.DOT, S.COMMA, S.COLON)
        return _beside(broken or word, symbol)
    if phase in ("odd", "separator"):
        broken |= symbol in _DIGITS
        verdict = Verdict.BROKEN if broken or symbol is S.DOT else Verdict.LITERAL
        return _text(Place("text", "breaks" if symbol in _DIGITS else "free"), symbol, verdict)
    if phase == "currency":
        broken |= symbol in _WORDS or symbol in _DIGITS
        return _beside(broken, symbol)
    if phase == "gap":
        if symbol is S.SPACE:
            return state, Mark.NONE
        if symbol is S.MINUS:
            return Place("loose minus", broken=broken), Mark.NONE
        verdict = Verdict.BROKEN if broken else Verdict.LITERAL
        return _text(Place("text", "free"), symbol, verdict)
    return _signed(state, symbol)


def _signed(state: Place, symbol: Symbol) -> tuple[Place, int]:
    """Before a minus: `minus` touches its number, `loose minus` does not; both `gap` after a space before them.

    After an operand it subtracts. Elsewhere one that touches its number negates it. One that does not is a sign only
    after an operator; after a word or at the start of a line it may be a dash or the mark of a list.
    """
    loose, gap = state.phase.startswith("loose"), state.phase.endswith("gap")
    if symbol is S.SPACE:
        return (state if gap else state._replace(phase=f"{state.phase} gap")), Mark.NONE
    if symbol in _OPERANDS:
        verdict = Verdict.LITERAL
    elif symbol in _OPERATORS:
        verdict = Verdict.NEGATIVE
    elif loose or (not gap and (symbol in _WORDS or symbol in _BREAKING)):
        verdict = Verdict.BROKEN
    else:
        verdict = Verdict.NEGATIVE
    if state.broken:
        verdict = Verdict.BROKEN
    return _text(Place("text", "free"), symbol, verdict)
