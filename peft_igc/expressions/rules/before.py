"""Rules for the text before an expression: which further numbers are excused, and which refuse it.

All rules read a text from its end to its beginning. A rule is a function of a state and a symbol, which returns the
state after the symbol; `inside` and `after` have the others, and `automaton` makes tables of all of
them.

* `before_equals`: the expression ends at an anchor `=`. A number before it is excused if a line, a sentence's end, an
  equals sign or two words that are neither numbers nor operators stand between.
* `before_request`: the expression stands anywhere in a request. Every further number refuses, except a list number and
  what stands before an empty line or a control token.

Try it: `pytest tests/expressions/test_rules.py`
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from ..alphabet import Symbol
from ..reasons import Reason


__all__ = ["Chain", "Done", "Mode", "State", "before_equals", "before_request", "leave", "outside"]


class Done(NamedTuple):
    """The last state: the text has been read as far as it matters."""

    reason: Reason


class Mode(enum.IntEnum):
    """Where the expression stands, and for a request how certain it is that arithmetic is meant."""

    REACH = 0  # it ends at an anchor `=`
    SURE = 1  # operators such as `+` or brackets leave no doubt
    ALONE = 2  # no word after it in this turn; one number so far
    CLEAN = 3  # a sentence's end after it; one number so far
    WORD = 4  # a word after it; one number so far
    ALIKE_ALONE = 5  # the same with `-`, `/` or `×` only: it may be a date, a range, a score or a size
    ALIKE_CLEAN = 6
    ALIKE_WORD = 7


class Chain(enum.IntEnum):
    """Numbers with signs and no spaces between, read so far, that may end a date or a phone number."""

    NONE = 0
    DAY = 1  # -17
    PHONE_END = 2  # -4567, or the year in -2024
    YEAR = 3  # /2024
    MONTH_DAY = 4  # -05-17
    PHONE = 5  # -123-4567
    MONTH_YEAR = 6  # /05/2024, -05-2024
    MONTH = 7  # -05


class State(NamedTuple):
    """A state of the rules. `number` and `flags` have the meaning that the functions of a phase give them."""

    phase: str
    mode: Mode = Mode.SURE
    number: int = 0
    flags: tuple[bool, ...] = ()
    chain: Chain = Chain.NONE


S = Symbol
ENDS = {S.DOT, S.LINE, S.EQUALS}
NUMBERS = {S.ZERO, S.DIGIT, S.PERCENT}
STRANGE = {S.NUMERIC, S.UNKNOWN, S.NUMBER_WORD}
WORDS = {S.LETTERS, S.MEASURE, S.GLUE, S.REQUEST, S.PER, S.MONTH, S.ORDINAL, S.SCALE_WORD}
NEUTRAL_WORDS = {S.AND, S.OF, S.ONE, S.LONE_X}
ALL_WORDS = WORDS | NEUTRAL_WORDS | {S.OPERATOR_WORD, S.FUNCTION, S.NUMBER_WORD, S.EQUAL_WORD, S.MODIFIER}
ALL_WORDS |= {S.LINK, S.SIGN_WORD}
OPENING = {S.OPEN, S.OPEN_SQUARE, S.OPEN_CURLY}
CLOSING = {S.CLOSE, S.CLOSE_SQUARE, S.CLOSE_CURLY}
CURRENCIES = {S.DOLLAR, S.EURO, S.POUND}
OPERATORS = {S.PLUS, S.TIMES, S.DIVIDE, S.CARET}

# Words that change what an expression behind them means.
_CHANGING = {S.OPERATOR_WORD, S.LINK, S.FUNCTION, S.MODIFIER, S.SIGN_WORD}
_BREAKS = {S.DOT, S.QUESTION, S.BANG, S.SEMICOLON, S.RELATION}  # a request does not reach over them
_MOST_REQUEST_WORDS = 6  # words between the word of a request and two numbers that may be a date or a range
_MOST_LIST_DIGITS = 2


def refused(symbol: Symbol) -> Done:
    """The refusal for a further number or a thing that is numeric and not understood."""
    return Done(Reason.OTHER_NUMBER if symbol in NUMBERS else Reason.NOT_UNDERSTOOD)


def leave(mode: Mode, symbol: Symbol, words: int = 0) -> State | Done:
    """Leaves the expression: `symbol` is the first that does not belong to it, after `words` words that do not."""
    if mode is Mode.REACH:
        return before_equals(State("left", mode, words, (False,)), symbol)
    if mode in (Mode.ALONE, Mode.CLEAN, Mode.WORD):
        return Done(Reason.NO_EXPRESSION)
    if mode is Mode.ALIKE_WORD:
        return Done(Reason.LOOK_ALIKE)
    need = mode is not Mode.SURE
    # flags: a request must be found; the expression may be the whole message; within a word
    return before_request(State("ask", mode, 0, (need, mode is Mode.ALIKE_ALONE, False)), symbol)


def outside(state: State, symbol: Symbol) -> State | Done:
    """One step before the expression."""
    return before_request(state, symbol) if state.phase.startswith("ask") else before_equals(state, symbol)


def before_equals(state: State, symbol: Symbol) -> State | Done:
    """Phases `left` (`number` words so far; flag: within a word), `closing`, `danger` and `bullet`."""
    if symbol in (S.EDGE, S.CONTROL):
        return Done(Reason.NONE)
    if state.phase == "bullet":
        return _bullet(state, symbol)
    if state.phase == "closing":
        return _closing(state, symbol)
    within = state.flags[0]
    if symbol in ENDS:
        return Done(Reason.NONE)
    if symbol in NUMBERS or symbol in STRANGE:
        return refused(symbol)
    if state.phase == "danger":
        return state
    if symbol in OPERATORS:
        return Done(Reason.NOT_UNDERSTOOD)
    if symbol in (S.FUNCTION, S.MODIFIER, S.SIGN_WORD) or (symbol is S.OPERATOR_WORD and state.number == 0):
        return Done(Reason.NOT_UNDERSTOOD)
    if symbol in (S.OPERATOR_WORD, S.LINK):
        return State("danger", state.mode, 0, (False,))
    if symbol is S.ONE and state.number == 0:
        return Done(Reason.NOT_UNDERSTOOD)
    if symbol in (S.COLON, S.BANG, S.QUESTION):
        return state._replace(number=1, flags=(False,))  # with a word before it, it ends a sentence
    if symbol in WORDS:
        count = state.number + (not within)
        return State("closing", state.mode, 0, (True,)) if count >= 2 else state._replace(number=count, flags=(True,))
    if symbol in (S.MINUS, S.STAR, S.SLASH) and not within:
        return State("bullet", state.mode)
    joins = symbol in NEUTRAL_WORDS or (within and symbol in (S.MINUS, S.SLASH, S.APOSTROPHE))
    return state._replace(flags=(joins,))


def _bullet(state: State, symbol: Symbol) -> State | Done:
    """A sign before words is the mark of a list at the start of a line, and an operator elsewhere."""
    if symbol in (S.SPACE, S.STAR):
        return state
    return Done(Reason.NONE if symbol in ENDS else Reason.NOT_UNDERSTOOD)


def _closing(state: State, symbol: Symbol) -> State | Done:
    """Two words excuse what stands before them, but not an operator with a word as its operand."""
    within = state.flags[0]
    if within and (symbol in WORDS or symbol in (S.FUNCTION, S.MINUS, S.APOSTROPHE, S.SLASH)):
        return state
    if symbol is S.SPACE:
        return state._replace(flags=(False,))
    if symbol in OPERATORS or symbol is S.SLASH:
        return Done(Reason.NOT_UNDERSTOOD)
    if symbol in (S.MINUS, S.STAR):
        return State("bullet", state.mode)
    return Done(Reason.NONE)


def before_request(state: State, symbol: Symbol) -> State | Done:
    """Phases `ask`, `ask line` (a line's end), `ask mark` (a mark as after a list number), `ask list` (its digits)."""
    need, whole, within = state.flags
    if symbol in (S.EDGE, S.CONTROL) or (symbol is S.LINE and state.phase == "ask line"):
        return Done(Reason.LOOK_ALIKE if need and not whole else Reason.NONE)
    if state.phase == "ask list":
        return _list_number(state, symbol)
    if symbol is S.LINE:
        return Done(Reason.LOOK_ALIKE) if need and not whole else state._replace(phase="ask line")
    if symbol is S.SPACE:
        return state._replace(phase="ask line" if state.phase == "ask line" else "ask", flags=(need, whole, False))
    if symbol in (S.ZERO, S.DIGIT) and state.phase == "ask mark":
        return Done(Reason.LOOK_ALIKE) if need else state._replace(phase="ask list", number=1)
    if symbol in NUMBERS or symbol in STRANGE:
        return refused(symbol)
    if symbol in OPERATORS or symbol is S.STAR or (state.number < 2 and symbol in _CHANGING):
        return Done(Reason.NOT_UNDERSTOOD)
    if symbol is S.REQUEST:
        need = False
    elif need and (symbol in _BREAKS or (symbol is S.COLON and state.number)):
        return Done(Reason.LOOK_ALIKE)
    word = symbol in ALL_WORDS
    count = min(state.number + (word and not within), _MOST_REQUEST_WORDS + 1 if need else 2)
    if need and count > _MOST_REQUEST_WORDS:
        return Done(Reason.LOOK_ALIKE)
    phase = "ask mark" if symbol in (S.DOT, S.LIST_MARK) or symbol in CLOSING else "ask"
    return State(phase, Mode.SURE, count, (need, False, word))


def _list_number(state: State, symbol: Symbol) -> State | Done:
    """A list number stands at the start of a line."""
    if symbol in (S.ZERO, S.DIGIT) and state.number < _MOST_LIST_DIGITS:
        return state._replace(number=state.number + 1)
    if symbol is S.LINE:
        return State("ask line", Mode.SURE, 0, (False, False, False))
    if symbol in OPENING or symbol is S.SPACE:
        return state._replace(number=_MOST_LIST_DIGITS)  # no more digits
    return Done(Reason.OTHER_NUMBER)
