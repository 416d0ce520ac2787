"""Finds the expression in symbols that a text ends with: its items, read from the end.

In: the pieces of a text. Out: the items of the expression, or a `Refused` with its culprit. An operand is complete
(`_have`) or wanted (`_wanted`) at every place; `surroundings` judges what is before and after the expression. What
is refused here and why is said at each rule. Try it: `pytest tests/text/test_reading.py`
"""

from __future__ import annotations

import functools
from fractions import Fraction

from .operations import FUNCTIONS
from .pieces import Pieces, literal, plain, whole, words
from .values import Item, Limits, Reason, Refused, Span


OPEN, CLOSE = frozenset("([{"), frozenset(")]}")
STRANGE = frozenset({"strange", "number_word"})
WORDS = frozenset("letters unit glue request per month ordinal scale letter equal article".split())
ALL_WORDS = WORDS | set("number_word and of one x operator minus function modifier rounding link sign".split())
NUMBERS = frozenset({"number", "%"})
_TOUCHES = ALL_WORDS - {"x"} | STRANGE | {"dash", "!", "other"}  # no operand touches these
_UNIT_WORDS = frozenset({"letters", "unit", "of", "request"})
_LAST_UNIT_WORDS = _UNIT_WORDS - {"of"} | {"per"}
_LINKS = frozenset({"glue", "article", "and", "equal", "request"})  # words before a sign: `is -5`
_NO_OPERANDS = frozenset(".,;?!'")
STARTS = frozenset({"line", "edge", "control"})  # what is before the first piece of a line
_UNSEEN = STARTS | {"space"}
_MOST_UNIT_WORDS = 12
_LEFT = -1
_ALIKE = frozenset("-－\u2212/∕／×·⋅∙∗✕✖＊^xX")  # as in dates, ranges, scores, sizes and quantities


class NeedsMore(Exception):
    """The pieces begin too late in the text."""


class Expression:
    """The expression that ends at a piece. `read` fills `items`, and returns the first piece before it."""

    def __init__(self, pieces: Pieces, limits: Limits) -> None:
        self.pieces = pieces
        self.kinds, self.said, self.ends = pieces
        self.known, self.limits = words(), limits
        self.items: list[Item] = []  # the last one first
        self.units: list[tuple[str, str]] = []  # the measures that numbers have, as quantity and name
        self.currencies: list[int] = []  # the pieces of their signs
        self.too_long: Span | None = None  # a number of more digits than the limits allow
        self.left = self.words_before = 0  # the first piece before the expression, and how many words were read there
        self.end = -1  # the character after the last unit before an anchor `=`, -1 without one
        # Operators such as `+` or brackets leave no doubt that arithmetic is meant, or it ends at an anchor `=`. One
        # with `-`, `/` or `×` only may be a date, a range, a score or a size.
        self.sure = False
        self.linked = self.spoken = False  # `of` is before it; words are after it in its message
        self.joined = False  # units with `per` or a mark between were read: `miles per hour`

    def kind(self, at: int) -> str:
        """That of a piece."""
        if at == 0 and self.kinds[0] == "cut":
            raise NeedsMore
        return self.kinds[at]

    def span(self, at: int) -> Span:
        """The characters of a piece."""
        return self.ends[at - 1], self.ends[at]

    def refuse(self, reason: Reason, at: int) -> Refused:
        """A refusal for a piece, and what touches it; without one where nothing is seen there."""
        return Refused(reason, whole(self.pieces, at) if at > 0 and self.kinds[at] not in _UNSEEN else None)

    def called(self, at: int) -> str | None:
        """The function that a piece before a bracket calls, None if it is no name of one."""
        said = self.said[at].casefold()
        if self.kind(at) not in ALL_WORDS:
            return None
        return self.known.functions.get(said) or (said if said in FUNCTIONS else None)

    def skip(self, at: int) -> int:
        """The first piece from here to the left that is no space."""
        while self.kind(at) == "space":
            at -= 1
        return at

    def opened(self, at: int) -> int:
        """The bracket that opens what a piece is in, or ends, whatever its shape; 0 if nothing opens it."""
        if not self._openings[at]:
            self.kind(0)  # it may be before the pieces
        return self._openings[at]

    @functools.cached_property
    def _openings(self) -> list[int]:
        waiting, found = [0], []
        for at, kind in enumerate(self.kinds):
            found.append(waiting[-1])
            if kind in OPEN:
                waiting.append(at)
            elif kind in CLOSE and len(waiting) > 1:
                waiting.pop()
        return found

    def read(self, at: int) -> int:
        """Reads from a piece, where an operand is wanted, to the left; raises `Refused`."""
        complete = self._wanted(at)
        while complete != _LEFT:
            complete = self._have(complete)
        return self.left

    # An operand is wanted.

    def _wanted(self, at: int) -> int:
        """Closing brackets, a per cent sign, units, a currency and a number; the piece before the number."""
        while (kind := self.kind(at)) != "number":
            absent = Reason.NO_EXPRESSION if self.end >= 0 and not self.items else None  # before an anchor `=`
            if kind == "space":
                at -= 1
            elif kind == "%":
                self.items.append(Item("%", self.span(at)))
                at = self.skip(at - 1)
                if self.kind(at) != "number" and self.kinds[at] not in CLOSE:
                    raise self.refuse(Reason.NOT_UNDERSTOOD, at)
            elif kind in CLOSE:
                self._operator(kind, at)
                at -= 1
            elif kind in _LAST_UNIT_WORDS:
                at, words = self._unit_words(at, single=False)
                if words is not None:
                    raise self.refuse(absent if absent and not self.joined else Reason.NOT_UNDERSTOOD, at)
            elif self.is_currency_after(at):
                self.currencies.append(at)
                at = self.skip(at - 1)
            else:
                known = kind in ALL_WORDS or kind in STRANGE
                raise self.refuse(absent or (Reason.NOT_UNDERSTOOD if known else Reason.MALFORMED), at)
        return self._number(at)

    def _operator(self, kind: str, at: int) -> None:
        self.items.append(Item(kind, self.span(at)))
        self.sure |= self.said[at] not in _ALIKE

    def _number(self, at: int) -> int:
        """A number; two and more in `max(3,5)`."""
        said, span = self.said[at], self.span(at)
        parts = [said]
        if "," in said and self._call_of(at):
            parts = said.split(",") if literal(said) is None else []  # `max(1,234)`: one number or two
        values = [literal(part) for part in parts]
        if any(sum(map(str.isdigit, part)) > self.limits.digits for part in parts):
            self.too_long, values = span, [Fraction(0)] * len(parts)
        if None in values or not values:
            raise self.refuse(Reason.NOT_UNDERSTOOD, at)
        for name, value in zip(map(plain, reversed(parts)), reversed(values), strict=True):
            self.items += [Item("number", span, value or Fraction(0), name), Item(",", span)]
        del self.items[-1]
        return at - 1

    def _call_of(self, at: int) -> bool:
        """Whether a piece is directly within the brackets of a function."""
        inside = sum((item.kind in CLOSE) - (item.kind in OPEN) for item in self.items) != 0
        if not inside or "line" in self.kinds[self._openings[at] : at]:
            return False
        return self.opened(at) > 0 and self.called(self.opened(at) - 1) is not None

    # An operand or an opening bracket is complete.

    def _have(self, at: int) -> int:
        """An operator before it with the next operand, a bracket, a sign or a currency; returns the piece before that,
        `_LEFT` if the expression begins there."""
        end, at = at, self.skip(at)
        kind, gap = self.kinds[at], at < end
        if kind in ("+", "-"):
            return self._sign(at, tight=not gap)
        if kind in ("*", "/", "^", "x"):
            if kind == "x" and not gap and self.kind(at - 1) == "number" and self.said[at - 1] == "0":
                raise self.refuse(Reason.NOT_UNDERSTOOD, at)  # 0x1F
            self._operator("*" if kind == "x" else kind, at)
            left = self.skip(at - 1)
            if kind == "^" and self.kind(left) in ALL_WORDS:  # a unit before a power is none: `5 kg^2`
                raise self.refuse(Reason.NOT_UNDERSTOOD, left)
            return self._wanted(at - 1)
        if kind == "of" and gap:
            return self._of(at)
        if kind in OPEN:
            self._operator(kind, at)
            if self.kind(at - 1) == "." and self.kind(at - 2) == "number":  # `0.(3)`
                raise self.refuse(Reason.NOT_UNDERSTOOD, at - 1)
            if (name := self.called(at - 1)) is not None:
                at -= 1
                self.items.append(Item("call", self.span(at), name=name))
            return at - 1
        if kind == "currency" and at + 1 not in self.currencies:
            self.currencies.append(at)
            return at - 1
        if kind in (",", ";") and self._call_of(at):
            self.items.append(Item(",", self.span(at)))
            return self._wanted(at - 1)
        return self._begins(at, kind, gap)

    def _begins(self, at: int, kind: str, gap: bool) -> int:
        """Nothing of an expression stands there, so it begins here, or is none."""
        if kind in NUMBERS or (kind in CLOSE and not gap):
            raise self.refuse(Reason.MALFORMED, at)  # 1 234, 2(3), 5 % 3
        if kind in CLOSE and self.is_short(at - 1) and self.kind(at - 2) in STARTS:  # a list number
            return self._leave(at - 2)
        if kind in CLOSE and not self.opened(at):
            raise self.refuse(Reason.UNBALANCED, at)
        if kind in STRANGE or (not gap and (kind in _TOUCHES or kind == "currency")):
            raise self.refuse(Reason.NOT_UNDERSTOOD, at)  # a5, #5, 3–5, f(3)
        last = self.items[-1]
        if kind in (".", ",", ":") and last.kind == "number" and last.span[0] == self.ends[at]:
            before = self.kind(at - 1)  # the mark is part of the number: `3,5`, `10:30`, `..5`, `,25`
            if kind == "." or before in NUMBERS | STRANGE or (kind == "," and before in _UNSEEN):
                raise self.refuse(Reason.NOT_UNDERSTOOD, at)
            return self._leave(at - (kind == ","))
        if kind in CLOSE or kind == "dash":  # it ends words; else an operand is missing or too many
            left = at - 1 if kind in CLOSE else self.skip(at - 1)
            if self.kind(left) not in ALL_WORDS:
                raise self.refuse(Reason.MALFORMED, left)
            return self._leave(left)
        if kind == "." and gap and self.kind(self.skip(at - 1)) in ("+", "-", "*", "/", "^"):  # `.8 + . 84` is a slip
            raise self.refuse(Reason.MALFORMED, self.skip(at - 1))
        return self._leave(at)

    def is_short(self, at: int) -> bool:
        """Whether a piece may be the number of a list, or its letter."""
        number = self.kind(at) == "number" and len(self.said[at]) < 3 and self.said[at].isdigit()
        return number or (len(self.said[at]) == 1 and self.kind(at) in ALL_WORDS)

    def _leave(self, at: int, words: int = 0) -> int:
        """The expression begins after this piece."""
        self.left, self.words_before = at, words
        return _LEFT

    def _of(self, at: int) -> int:
        """`of` multiplies after a percentage; elsewhere it is a word: `a total of 3 * 4`."""
        left = self.skip(at - 1)
        kind = self.kind(left)
        if kind == "%":
            self.items.append(Item("of", self.span(at)))
            self.sure = True
            return self._wanted(left)
        if kind in ALL_WORDS - STRANGE - {"of", "x", "scale", "letter"}:  # not `x of 3 * 4`
            self.linked = True
            return self._leave(left)
        raise self.refuse(Reason.OTHER_NUMBER if kind in NUMBERS else Reason.NOT_UNDERSTOOD, left)

    def _sign(self, at: int, tight: bool) -> int:
        """A plus or minus: binary if an operand is before it, else a sign."""
        left = self.skip(at - 1)
        gap, kind = left < at - 1, self.kind(left)
        single = tight and gap  # `is -5`: a sign, unless an operand comes
        joins = kind in NUMBERS or (kind in CLOSE and self.opened(left) > 0) or self.is_currency_after(left)
        variable = kind == "x" and single
        if (kind in CLOSE and single and self._is_item_number(left)) or (variable and self.kind(left - 1) != "space"):
            raise self.refuse(Reason.NOT_UNDERSTOOD, left)  # `3x -5` has a variable
        if not joins and not variable and kind not in _LAST_UNIT_WORDS and not (kind == "of" and gap):
            if kind in STRANGE or kind in ("other", "dash") or (kind in ALL_WORDS and not (kind in _LINKS and single)):
                raise self.refuse(Reason.NOT_UNDERSTOOD, left)
            starts = kind in (",", ";") and self._call_of(left)  # `max(3,-4)`
            if (not single and kind in _NO_OPERANDS and not starts) or (kind == "line" and not tight):
                raise self.refuse(Reason.MALFORMED, left)  # an operand is missing, or it is the mark of a list
        self._operator(self.kinds[at], at)
        if kind in _LAST_UNIT_WORDS:
            stop, words = self._unit_words(left, single)
            if words is not None and single:
                return self._leave(stop, min(words, 1))
            if words is not None or (single and self.end < 0):  # `what is left of 9 after -8` has a sign
                raise self.refuse(Reason.NOT_UNDERSTOOD, stop)
            return self._wanted(stop)
        return self._wanted(left) if joins else at - 1

    def is_currency_after(self, at: int) -> bool:
        """Whether a piece is a currency after a number: `5€ - 3€`."""
        return self.kind(at) == "currency" and self.kind(self.skip(at - 1)) == "number"

    def _is_item_number(self, at: int) -> bool:
        """Whether a closing bracket ends `[11]` before a sign, a list number or an operand: nobody can tell."""
        if not (self.kind(at - 1) == "number" and self.is_short(at - 1) and self.kind(at - 2) in OPEN):
            return False
        pause = self.kind(self.skip(at - 3))
        return pause in ALL_WORDS or pause in STARTS | set(".?!:;,")

    # Units: words between a number and an operator.

    def _unit_words(self, at: int, single: bool) -> tuple[int, int | None]:
        """The place of the number before units and None, or the first piece that is no unit and how many words are."""
        count, touching, measure = 0, False, False
        while True:
            kind = self.kind(at)
            if kind == "space":
                touching = False
            elif kind in _UNIT_WORDS and not (single and kind == "request") and count < _MOST_UNIT_WORDS:
                count, touching, measure = count + (not touching), True, kind == "unit"
                named = self.known.units.get(self.said[at].casefold())
                if named is not None and self.kinds[self.skip(at - 1)] not in ("/", "per"):
                    self.units.append(named)  # unless it divides: `km/hour`, `hours a day`
            elif kind in ("per", "and"):
                self.joined = True
                if self.kind(at - 1) != "space" or count >= _MOST_UNIT_WORDS:
                    return at - 1, count
                count, touching = count + 1, False
            elif touching and kind in ("/", "-", "'"):
                self.joined, other = True, self.kind(at - 1)
                if other != "number" and other not in _UNIT_WORDS:
                    return at, count
                measure = True
            else:
                number = kind == "number" and measure
                number = number or (not touching and (kind in NUMBERS or kind in CLOSE))
                return at, None if number else count
            at -= 1
