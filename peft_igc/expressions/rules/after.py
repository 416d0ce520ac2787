"""Rules for the text after an expression, where reading begins: at an anchor `=`, or behind the end of a request.

Behind a request anything may stand that is not numeric: `What is 3 + 4, please?`. What touches the expression, or
may be a further operand or operator, refuses. `rule` joins all rules; `automaton` has them as tables. Try it:
`pytest tests/expressions/test_rules.py`
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from ..alphabet import Symbol
from ..reasons import Reason
from .automaton import Automaton, compiled
from .before import (
    ALL_WORDS,
    CLOSING,
    CURRENCIES,
    OPENING,
    OPERATORS,
    STRANGE,
    Chain,
    Done,
    Mode,
    State,
    outside,
)
from .inside import Label, Step, inside, percent, wanted


__all__ = ["START", "Facts", "automaton", "facts_of", "rule"]

S = Symbol

START: State | Done = State("start")
_STRANGER = Done(Reason.NOT_UNDERSTOOD)
_LIKE = {S.PART: S.OTHER, S.REST: S.OTHER, S.MINUS_WORD: S.OPERATOR_WORD, S.DIFFERENCE: S.LETTERS}
_TAILS = {"clean", "equals", "mark", "glue", "dot", "one", "one gap", "bad", "bad gap"}
_TAILS |= {"word", "listed word", "word gap"}
_WORD_PHASES = {S.ONE: "one", S.EQUAL_WORD: "glue", S.MEASURE: "word"}
_GAPS = {"glue": "clean", "bad": "bad gap", "one": "one gap", "dot": "bad gap", "mark": "clean"}
_GAPS |= {"word": "word gap", "listed word": "word gap"}
_BAD_WORDS = {S.OPERATOR_WORD, S.LINK, S.FUNCTION, S.OF, S.LONE_X, S.SCALE_WORD, S.ORDINAL}


NOT_BEGUN = _TAILS | {"start", "reach"}  # phases before an expression


class Facts(NamedTuple):
    """What is known of a state."""

    reason: int  # of a last state, -1 of others
    begun: bool  # an expression has begun
    reach: bool  # within an expression that ends at an anchor `=`, or before it


@functools.cache
def automaton() -> Automaton[State | Done, Facts]:
    """The rules as tables."""
    return compiled(START, len(Symbol), rule, facts_of)


def facts_of(state: State | Done) -> Facts:
    """What is known of a state."""
    if isinstance(state, Done):
        return Facts(int(state.reason), True, False)
    begun = state.phase not in NOT_BEGUN
    return Facts(-1, begun, begun and state.mode is Mode.REACH)


def rule(state: State | Done, code: int) -> Step:
    """One step of reading, from the end of a text to its beginning.

    Args:
        state: The state after the symbols behind this one.
        code: The symbol.

    Returns:
        The state after the symbol, and what the symbol is in the expression.
    """
    symbol = Symbol(code)
    if isinstance(state, Done) or symbol is S.NOTHING:
        return state, Label.NONE
    if symbol is S.MINUS_SIGN:
        after, label = rule(state, S.MINUS)
        return (after if isinstance(after, Done) else after._replace(chain=Chain.NONE)), label
    symbol = _LIKE.get(symbol, symbol)
    if state.phase == "start":
        return _start(state, symbol)
    if state.phase == "end bracket":
        return _end_bracket(state, symbol)
    if state.phase in _TAILS:
        return _tail(state, symbol)
    if symbol is S.EQUAL_WORD:  # of interest behind an expression only
        symbol = S.GLUE
    if state.phase == "reach":
        return _reach(state, symbol)
    return inside(state, symbol) or (outside(state, symbol), Label.NONE)


def _start(state: State, symbol: Symbol) -> Step:
    """Behind everything: an equals sign, or the end of a request."""
    if symbol is S.SPACE or symbol in CURRENCIES:
        return state, Label.NONE
    if symbol is S.EQUALS:
        return State("reach", Mode.REACH), Label.NONE
    return _tail(State("clean", Mode.ALONE), symbol)


def _reach(state: State, symbol: Symbol) -> Step:
    """Before the anchor `=`: an operand, perhaps with units."""
    if symbol is S.SPACE:
        return state, Label.NONE
    if symbol in (S.LETTERS, S.MEASURE, S.REQUEST):
        return State("last unit", Mode.REACH, 1, (True, False, symbol is S.MEASURE)), Label.NONE
    if symbol is S.PER:  # `5 boxes * $2 each =`
        return State("unit per", Mode.REACH, 0, (False,)), Label.NONE
    if symbol in STRANGE or symbol in _BAD_WORDS:
        return _STRANGER, Label.NONE
    after, label = wanted(State("wanted", Mode.REACH), symbol)
    return (after if label or symbol is S.LIST_MARK else Done(Reason.NO_EXPRESSION)), label


def _tail(state: State, symbol: Symbol) -> Step:
    """Behind the expression of a request. Phases say what an expression would touch or meet:

    `clean` nothing, `equals` an equals sign, `glue` a word such as `is`, `word`, `listed word` and `word gap` others,
    `dot` a point and then a word, `bad` and `bad gap` something that an expression must not meet, `one` and `one gap`
    the word `one`. The mode is `ALONE` while no word was met in this turn, else `CLEAN`.
    """
    mode, phase = state.mode, state.phase
    if symbol is S.EDGE:
        return Done(Reason.NO_EXPRESSION), Label.NONE
    if symbol in STRANGE or symbol in (S.MODIFIER, S.SIGN_WORD):
        return _STRANGER, Label.NONE
    if symbol is S.CONTROL:
        return State("clean", Mode.ALONE), Label.NONE
    if symbol in (S.ZERO, S.DIGIT, S.PERCENT):
        return _ends(state, symbol)
    if symbol in CLOSING:
        return State("end bracket", mode, 0, (phase in ("bad", "bad gap", "mark"),)), Label.CLOSE
    if (
        symbol in OPERATORS
        or symbol is S.STAR
        or (symbol in (S.OPERATOR_WORD, S.LINK) and phase in ("one", "one gap"))
    ):
        return _STRANGER, Label.NONE
    if symbol in ALL_WORDS:
        kind = "bad" if symbol in _BAD_WORDS else _WORD_PHASES.get(symbol, "listed word")
        return State(kind, Mode.CLEAN), Label.NONE
    if symbol is S.SPACE:
        return state._replace(phase=_GAPS.get(phase, phase)), Label.NONE
    if symbol is S.EQUALS:
        return State("equals", mode), Label.NONE
    if symbol in (S.LINE, S.QUESTION, S.SEMICOLON):
        return State("clean", mode), Label.NONE
    if symbol in (S.DOT, S.COMMA, S.COLON, S.QUOTE, S.APOSTROPHE):
        touches = phase in ("word", "listed word", "glue", "bad", "one", "dot")
        return State("dot" if touches else "clean" if phase != "bad gap" else phase, mode), Label.NONE
    if symbol in OPENING or symbol is S.LIST_MARK:
        return State("mark", mode), Label.NONE
    return State("mark" if symbol in (S.BANG, S.OTHER) else "bad", mode), Label.NONE


def _ends(state: State, symbol: Symbol) -> Step:
    """The end of the expression, or of another number."""
    phase = state.phase
    if phase not in ("clean", "equals", "word", "word gap"):
        return _STRANGER, Label.NONE
    mode = Mode.SURE if phase == "equals" else state.mode if phase == "clean" else Mode.WORD
    if symbol is S.PERCENT:
        return percent(State("percent", mode), S.SPACE)[0], Label.PERCENT
    return wanted(State("wanted", mode), symbol)


def _end_bracket(state: State, symbol: Symbol) -> Step:
    """A closing bracket: of the expression, or of a remark behind it."""
    if symbol is S.SPACE:
        return state, Label.NONE
    if symbol in CLOSING and not state.flags[0]:
        return state, Label.CLOSE
    if symbol in (S.ZERO, S.DIGIT, S.PERCENT):
        if state.flags[0]:
            return _STRANGER, Label.NONE
        return wanted(State("wanted", Mode.SURE), symbol)
    return _tail(State("clean", state.mode), symbol)
