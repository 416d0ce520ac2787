"""Rules for the inside of an expression: literals, operators, brackets, currency and units, read from the end.

A rule takes a state and a symbol, and gives the state after it and the symbol's `Label`, which says what the symbol
is in the expression. Labels count only as far as the expression reaches, see `reading`. What is refused here and why
stands beside each rule. Try it: `pytest tests/expressions/test_rules.py`
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from ..alphabet import Symbol
from ..reasons import Reason
from .before import (
    ALL_WORDS,
    CLOSING,
    CURRENCIES,
    NUMBERS,
    OPENING,
    STRANGE,
    Chain,
    Done,
    Mode,
    State,
    leave,
    outside,
    refused,
)


__all__ = ["Label", "Step", "inside", "number_begins", "percent", "wanted"]


class Label(enum.IntEnum):
    """What a symbol is in an expression."""

    NONE = 0
    DIGIT = 1
    POINT = 2
    SEPARATOR = 3  # a thousands separator
    CURRENCY = 4
    POWER_MARK = 5  # the first of two stars: the second is the power
    PLUS = 6
    MINUS = 7
    TIMES = 8
    DIVIDE = 9
    POWER = 10
    OPEN = 11
    CLOSE = 12
    PERCENT = 13
    OF = 14


Step = tuple[State | Done, Label]
S = Symbol

_DIGITS = (S.ZERO, S.DIGIT)
_SIGNS = {S.PLUS: Label.PLUS, S.MINUS: Label.MINUS}
_BINARY = {
    S.STAR: Label.TIMES,
    S.TIMES: Label.TIMES,
    S.LONE_X: Label.TIMES,
    S.SLASH: Label.DIVIDE,
    S.DIVIDE: Label.DIVIDE,
    S.CARET: Label.POWER,
}
_WANTING = {S.STAR: "star", S.CARET: "base"}
_ALIKE = {S.MINUS, S.SLASH, S.TIMES, S.LONE_X, S.CARET}  # as in dates, ranges, scores, sizes and quantities
_UNIT_WORDS = {S.LETTERS, S.MEASURE, S.OF, S.REQUEST}
_LAST_UNIT_WORDS = {S.LETTERS, S.MEASURE, S.PER, S.REQUEST}
_STOPS = {S.GLUE, S.AND}
_NO_OPERANDS = {S.DOT, S.COMMA, S.SEMICOLON, S.QUESTION, S.BANG, S.APOSTROPHE, S.LIST_MARK}
_TO_ALIKE = {Mode.ALONE: Mode.ALIKE_ALONE, Mode.CLEAN: Mode.ALIKE_CLEAN, Mode.WORD: Mode.ALIKE_WORD}
_MANY = 5  # digits of a group: five stands for five and more
_MOST_UNIT_WORDS = 8

MALFORMED, STRANGER = Done(Reason.MALFORMED), Done(Reason.NOT_UNDERSTOOD)


def _after_operator(mode: Mode, symbol: Symbol) -> Mode:
    """The mode with one more operator or bracket."""
    if mode in (Mode.REACH, Mode.SURE):
        return mode
    return _TO_ALIKE.get(mode, mode) if symbol in _ALIKE else Mode.SURE


def number_begins(mode: Mode, chain: Chain = Chain.NONE) -> Step:
    """The last digit of a number.

    `number`: digits of the group, up to `_MANY`. Flags: separated, point seen, and whether its first digit so far is
    zero.
    """
    return State("number", mode, 1, (False, False, False), chain), Label.DIGIT


def _number(state: State, symbol: Symbol) -> Step:
    """Digits, a point, and thousands separators with three digits after each."""
    separated, point, zero = state.flags
    if symbol in _DIGITS:
        if separated and state.number == 3:
            return STRANGER, Label.NONE
        number = min(state.number + 1, _MANY)
        flags = (separated, point, symbol is S.ZERO)
        return State("number", state.mode, number, flags, state.chain), Label.DIGIT
    if symbol is S.COMMA:
        if state.number == 3:
            return State("separator", state.mode, 0, (True, point)), Label.SEPARATOR
        return State("odd comma", state.mode), Label.NONE
    if separated and zero:
        return STRANGER, Label.NONE  # 0,123
    if symbol is S.DOT:
        if separated or point:
            return State("odd dot", state.mode), Label.NONE
        return State("point", state.mode), Label.POINT
    whole = not separated and not point
    if whole and (state.chain, state.number) in _DATES:
        return Done(Reason.LOOK_ALIKE), Label.NONE
    after, label = _beside_number(state.mode, symbol)
    if whole and isinstance(after, State):
        after = after._replace(chain=_chained(state, symbol))
    return after, label


# The first number of a date or a phone number, by its digits: 2024-05-17, 2024-05, 555-123-4567, 17/5/2024, 17-05-2024
_DATES = {(Chain.MONTH_DAY, 4), (Chain.MONTH, 4), (Chain.PHONE, 3), (Chain.MONTH_YEAR, 1), (Chain.MONTH_YEAR, 2)}


def _chained(state: State, symbol: Symbol) -> Chain:
    """What a number and the sign that touches it may be the end of."""
    size = state.number
    if symbol is S.MINUS:
        if state.chain in (Chain.DAY, Chain.MONTH, Chain.MONTH_DAY) and size <= 2:
            return Chain.MONTH_DAY
        if state.chain is Chain.PHONE_END and size <= 3:
            return Chain.PHONE if size == 3 else Chain.MONTH_YEAR
        if size == 2 and state.flags[2]:
            return Chain.MONTH
        return Chain.DAY if size <= 2 else Chain.PHONE_END if size == 4 else Chain.NONE
    if symbol is S.SLASH:
        if state.chain is Chain.YEAR and size <= 2:
            return Chain.MONTH_YEAR
        return Chain.YEAR if 2 <= size <= 4 else Chain.NONE
    return Chain.NONE


def _beside_number(mode: Mode, symbol: Symbol) -> Step:
    """The symbol directly before a number."""
    if symbol is S.COLON:
        return State("colon", mode), Label.NONE
    strange = symbol in (S.DASH, S.BANG, S.OTHER) or symbol in STRANGE
    if strange or (symbol in ALL_WORDS and symbol is not S.LONE_X):
        return STRANGER, Label.NONE  # a5, #5, 3–5
    return _have(State("have", mode, 0, (False, False)), symbol)


def _separator(state: State, symbol: Symbol) -> Step:
    """A comma before a group of three digits: a thousands separator if a digit stands before it."""
    if symbol in _DIGITS:
        return State("number", state.mode, 1, (True, state.flags[1], symbol is S.ZERO)), Label.DIGIT
    return _odd_comma(state, symbol)


def _odd_comma(state: State, symbol: Symbol) -> Step:
    """A comma that separates no thousands: `3,5` is refused, and `so,5+3` is a comma between words."""
    if symbol in NUMBERS or symbol in STRANGE:
        return STRANGER, Label.NONE
    return leave(state.mode, symbol), Label.NONE


def _point(state: State, symbol: Symbol) -> Step:
    """A point before digits: of a decimal, or of one without digits before it."""
    if symbol in _DIGITS:
        return State("number", state.mode, 1, (False, True, False)), Label.DIGIT
    word = symbol in ALL_WORDS and symbol is not S.LONE_X
    if word or symbol in STRANGE or symbol in (S.DOT, S.COMMA, S.COLON, S.OTHER, S.DASH, S.BANG):
        return STRANGER, Label.NONE
    return _have(State("have", state.mode, 0, (False, False)), symbol)


def _odd_dot(state: State, symbol: Symbol) -> Step:
    """A second point, as in `1.2.3`, or a point before a number with separators."""
    if symbol is S.DOT:
        return leave(state.mode, symbol), Label.NONE  # an ellipsis
    return STRANGER, Label.NONE


def _colon(state: State, symbol: Symbol) -> Step:
    """A colon that touches a number: `10:30` and `3:4` are refused, `Total:5+3` ends a sentence."""
    if symbol in _DIGITS or symbol in STRANGE:
        return STRANGER, Label.NONE
    after = leave(state.mode, S.COLON)
    return (after if isinstance(after, Done) else outside(after, symbol)), Label.NONE


def _have(state: State, symbol: Symbol) -> Step:
    """An operand or an opening bracket is complete. Flags: a space before it; it must not touch a word."""
    mode, (gap, touchy) = state.mode, state.flags
    if symbol is S.SPACE:
        return State("have", mode, 0, (True, touchy)), Label.NONE
    if symbol in _SIGNS:
        # flags: it touches its operand; a space before it
        return State("sign", _after_operator(mode, symbol), 0, (not gap, False)), _SIGNS[symbol]
    if symbol in _BINARY:
        phase = "letter x" if symbol is S.LONE_X and not gap else _WANTING.get(symbol, "wanted")
        return State(phase, _after_operator(mode, symbol)), _BINARY[symbol]
    if symbol is S.OF and gap:
        return State("of", mode), Label.OF
    if symbol is S.LIST_MARK and gap:
        return State("list mark", mode), Label.NONE
    if symbol in CLOSING and gap:
        return State("remark", mode), Label.NONE
    if symbol in NUMBERS or symbol in CLOSING or symbol is S.LIST_MARK:
        return MALFORMED, Label.NONE  # 1 234, 2(3), 5 % 3
    if symbol in OPENING:
        return State("have", _after_operator(mode, symbol), 0, (False, True)), Label.OPEN
    if symbol in CURRENCIES and state.phase != "money":
        return State("money", mode, 0, (False, True)), Label.CURRENCY
    if symbol is S.DASH and gap:
        return State("dash", mode), Label.NONE
    if symbol is S.DOT and gap:
        return State("stop", mode), Label.NONE
    touches = symbol in ALL_WORDS or symbol in CURRENCIES or symbol in (S.OTHER, S.BANG, S.DASH)
    if symbol in STRANGE or (touches and not gap):
        return STRANGER, Label.NONE  # ½, f(3), 3! 4
    return leave(mode, symbol), Label.NONE


def _dash(state: State, symbol: Symbol) -> Step:
    """A dash before an expression stands behind a word; elsewhere it may be a minus."""
    if symbol is S.SPACE:
        return state, Label.NONE
    return _remark(state, symbol)


def _stop(state: State, symbol: Symbol) -> Step:
    """A point and a space before an expression end a sentence, but not behind an operator: `.8 + . 84` is a slip."""
    if symbol is S.SPACE:
        return state._replace(number=1), Label.NONE
    if symbol in _SIGNS or (symbol in _BINARY and symbol is not S.LONE_X):
        return MALFORMED, Label.NONE
    before = leave(state.mode, S.DOT)
    for one in (*[S.SPACE] * state.number, symbol):
        before = before if isinstance(before, Done) else outside(before, one)
    return before, Label.NONE


def _remark(state: State, symbol: Symbol) -> Step:
    """A closing bracket before an expression: of a remark in words, else of one operand too many."""
    remark = symbol in ALL_WORDS and symbol not in STRANGE
    return (leave(state.mode, symbol) if remark else MALFORMED), Label.NONE


def _list_mark(state: State, symbol: Symbol) -> Step:
    """A closing bracket that nothing opens: of a list number at the start of a line, else an error."""
    if symbol in _DIGITS and state.number < 2:
        return state._replace(number=state.number + 1), Label.NONE
    if state.number and symbol in (S.LINE, S.EDGE, S.CONTROL):
        return (Done(Reason.NONE) if state.mode is Mode.REACH else leave(state.mode, symbol)), Label.NONE
    if state.number and symbol is S.OPEN:
        return state._replace(number=2), Label.NONE
    return Done(Reason.UNBALANCED), Label.NONE


def wanted(state: State, symbol: Symbol) -> Step:
    """An operand must follow (in front): after a binary operator, or within a closing bracket."""
    mode = state.mode
    if symbol is S.SPACE:
        return state._replace(chain=Chain.NONE), Label.NONE
    if symbol in _DIGITS:
        return number_begins(mode, state.chain)
    if symbol is S.PERCENT:
        return State("percent", mode), Label.PERCENT
    if symbol in CLOSING:
        return State("wanted", _after_operator(mode, symbol)), Label.CLOSE
    if symbol in _LAST_UNIT_WORDS:
        return _unit(State("unit", mode, 0, (False, False, False)), symbol)  # flags: within a word; may be a sign
    if symbol is S.LIST_MARK:
        return Done(Reason.UNBALANCED), Label.NONE
    return (STRANGER if symbol in ALL_WORDS or symbol in STRANGE else MALFORMED), Label.NONE


def _sign(state: State, symbol: Symbol) -> Step:
    """A plus or minus was read: binary if an operand stands before it, else a sign."""
    mode, (tight, gap) = state.mode, state.flags
    if symbol is S.SPACE:
        return State("sign", mode, 0, (tight, True)), Label.NONE
    single = tight and gap  # `is -5`: a sign, unless an operand comes
    if symbol in _STOPS or (symbol is S.REQUEST and single):
        return (leave(mode, symbol) if single else STRANGER), Label.NONE
    if symbol in _LAST_UNIT_WORDS:
        return _unit(State("unit", mode, 0, (False, single, False)), symbol)
    if symbol in _DIGITS or symbol is S.PERCENT or symbol in CLOSING:
        return wanted(State("wanted", mode, chain=state.chain), symbol)
    if symbol is S.LIST_MARK and gap:
        return State("list mark", mode), Label.NONE
    if symbol is S.OF and gap:
        return State("of", mode), Label.OF
    if symbol is S.LONE_X and single:
        return State("lone x", mode), Label.TIMES
    if symbol in ALL_WORDS or symbol in STRANGE or symbol in (S.OTHER, S.DASH):
        return STRANGER, Label.NONE
    if not single and symbol in _NO_OPERANDS or (symbol is S.LINE and not tight):
        return MALFORMED, Label.NONE  # an operand is missing; at the start of a line the mark of a list, or a sign
    return _have(State("have", mode, 0, (gap, True)), symbol)


def _star(state: State, symbol: Symbol) -> Step:
    """A second star makes a power."""
    if symbol is S.STAR:
        return State("base", Mode.REACH if state.mode is Mode.REACH else Mode.SURE), Label.POWER_MARK
    return wanted(state._replace(phase="wanted"), symbol)


def _base(state: State, symbol: Symbol) -> Step:
    """The base of a power: `5 kg^2` has none."""
    if symbol in ALL_WORDS:
        return STRANGER, Label.NONE
    after, label = wanted(state._replace(phase="wanted"), symbol)
    return (state if symbol is S.SPACE else after), label


def _letter_x(state: State, symbol: Symbol) -> Step:
    """An `x` that touches a number: `0x1F` is no product."""
    if symbol is S.ZERO:
        return State("zero x", state.mode), Label.DIGIT
    return wanted(state._replace(phase="wanted"), symbol)


def _lone_x(state: State, symbol: Symbol) -> Step:
    """An `x` before a sign stands alone: `3 x -5`, but `3x -5` has a variable."""
    return (State("wanted", state.mode) if symbol is S.SPACE else STRANGER), Label.NONE


def _zero_x(state: State, symbol: Symbol) -> Step:
    """A zero and an `x`."""
    if symbol in _DIGITS or symbol is S.DOT:
        return _number(State("number", state.mode, 1, (False, False, False)), symbol)
    return STRANGER, Label.NONE


def percent(state: State, symbol: Symbol) -> Step:
    """A per cent sign belongs to the number or bracket before it."""
    if symbol is S.SPACE:
        return state, Label.NONE
    if symbol in _DIGITS or symbol in CLOSING:
        return wanted(State("wanted", state.mode), symbol)
    return STRANGER, Label.NONE


def _of(state: State, symbol: Symbol) -> Step:
    """`of` multiplies after a percentage; elsewhere it is a word: `a total of 3 * 4`."""
    if symbol is S.SPACE:
        return state, Label.NONE
    if symbol is S.PERCENT:
        return State("percent", Mode.REACH if state.mode is Mode.REACH else Mode.SURE), Label.PERCENT
    word = symbol in ALL_WORDS - {S.OF, S.LONE_X, S.SCALE_WORD}  # not `x of 3 * 4`
    return (leave(state.mode, symbol) if word else refused(symbol)), Label.NONE


def _unit(state: State, symbol: Symbol) -> Step:
    """Words between a number and an operator.

    `number` words. Flags: within a word; a sign may end the expression; the word is a unit of measurement, which may
    touch a number: `5km`, but `3ax` is no unit.
    """
    mode, (within, single, measure) = state.mode, state.flags
    if symbol in _UNIT_WORDS and not (single and symbol is S.REQUEST):
        count = state.number + (not within)
        if count <= _MOST_UNIT_WORDS:
            return state._replace(number=count, flags=(True, single, symbol is S.MEASURE)), Label.NONE
    elif symbol is S.AND and state.number and not within:
        return State("unit per", mode, state.number, (single,)), Label.NONE
    elif symbol is S.PER:
        return State("unit per", mode, state.number, (single,)), Label.NONE
    elif symbol is S.SPACE:
        return state._replace(flags=(False, single, False)), Label.NONE
    elif (symbol in _DIGITS and (measure or not within)) or (symbol in (S.PERCENT, *CLOSING) and not within):
        if single and mode is not Mode.REACH:  # `what is left of 9 after -8` has a sign
            return STRANGER, Label.NONE
        return wanted(State("wanted", mode), symbol)
    elif within and symbol in (S.SLASH, S.MINUS, S.APOSTROPHE):
        return State("unit joint", mode, state.number, (single,)), Label.NONE
    if single and symbol not in STRANGE:
        return leave(mode, symbol, min(state.number, 1)), Label.NONE
    return (Done(Reason.NO_EXPRESSION) if state.phase == "last unit" else STRANGER), Label.NONE


def _unit_per(state: State, symbol: Symbol) -> Step:
    """`per`, `a`, `each` or `and` within units, as a word: `4 hours a day`, but `3a` is no unit."""
    if symbol in (S.PER, S.AND):
        return state, Label.NONE
    if symbol is S.SPACE and state.number < _MOST_UNIT_WORDS:
        return State("unit", state.mode, state.number + 1, (False, state.flags[0], False)), Label.NONE
    return STRANGER, Label.NONE


def _unit_joint(state: State, symbol: Symbol) -> Step:
    """A mark within units: `birds/snake`, `120-page`, `driver's`."""
    if symbol in _UNIT_WORDS:
        count = min(state.number + 1, _MOST_UNIT_WORDS)
        return State("unit", state.mode, count, (True, state.flags[0], symbol is S.MEASURE)), Label.NONE
    if symbol in _DIGITS:
        return number_begins(state.mode)
    return STRANGER, Label.NONE


_PHASES: dict[str, Callable[[State, Symbol], Step]] = {
    "number": _number,
    "separator": _separator,
    "odd comma": _odd_comma,
    "point": _point,
    "odd dot": _odd_dot,
    "colon": _colon,
    "have": _have,
    "money": _have,
    "dash": _dash,
    "stop": _stop,
    "remark": _remark,
    "list mark": _list_mark,
    "wanted": wanted,
    "sign": _sign,
    "star": _star,
    "base": _base,
    "letter x": _letter_x,
    "lone x": _lone_x,
    "zero x": _zero_x,
    "percent": percent,
    "of": _of,
    "unit": _unit,
    "last unit": _unit,
    "unit per": _unit_per,
    "unit joint": _unit_joint,
}


def inside(state: State, symbol: Symbol) -> Step | None:
    """One step within an expression; None if the state is none of this file's."""
    rule = _PHASES.get(state.phase)
    return None if rule is None else rule(state, symbol)
