"""Rounding: how a value is rounded, by the setting of an adapter or by the wish of a text.

In: a setting such as `"half_up:2"`, or a text such as `What is 10 / 3 to 2 decimal places?`. Out: a `Rounding`, which
turns an exact rational into a decimal. Nothing is rounded before the last step of a calculation.
Try it: `python -c "from peft_igc.text import read; print(read('10 / 3 to 2 decimal places ='))"`
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal, NamedTuple, cast

from .pieces import CONTROL, HEADER


Division = Literal["exact", "floor", "trunc"]  # of a quotient with a remainder, as `calculator.calculate` has it
Mode = Literal["refuse", "floor", "trunc", "half_even", "half_up", "down", "up"]
_INTEGERS = ("floor", "trunc")
_MOST_ASKED = 512  # characters in which a text may ask for a rounding
_EQUALS = re.compile(r"[=＝][^\S\n]*[$€£]?\Z")  # an anchor `=`
_ANSWER = re.compile(rf"{HEADER}*\s*\Z")
_SETTING = re.compile(
    r"(?P<alone>refuse|floor|trunc)|(?P<mode>half_even|half_up|down|up):(?:(?P<significant>[0-9]+)s|(?P<places>[0-9]+))"
)
_MOST = 1000  # places of a setting


class Rounding(NamedTuple):
    """How a value becomes a decimal."""

    # `"refuse"` gives no result where a value does not end. `"floor"` and `"trunc"` make an integer of every quotient,
    # as Python's `//` and C's `/` do. The others round the last value: `"half_even"` and `"half_up"` to the nearest
    # one, a half to the even digit or away from zero; `"down"` towards zero, `"up"` away from it.
    mode: Mode = "refuse"
    places: int = 0  # after the point; below 0 in front of it; or significant digits
    significant: bool = False  # `places` counts significant digits
    always: bool = False  # also a value that ends is rounded to `places`, and written with as many

    @classmethod
    def of(cls, setting: str) -> Rounding:
        """The rounding of a setting: a mode alone (`"refuse"`, `"floor"`, `"trunc"`), or a mode with the places after
        the point (`"half_up:2"`) or with significant digits (`"half_even:3s"`).

        Raises:
            ValueError: It is none of these.
        """
        match = _SETTING.fullmatch(setting) if isinstance(setting, str) else None
        if match is None or match["significant"] == "0":
            raise ValueError(
                f'`rounding={setting!r}` is unknown. Choose "refuse", "floor" or "trunc"; or "half_up", "half_even", '
                '"down" or "up" with the places after the point ("half_up:2") or significant digits ("half_even:3s").'
            )
        places = int(match["significant"] or match["places"] or 0)
        if places > _MOST:
            raise ValueError(f"`rounding={setting!r}` has more than {_MOST} places.")
        return cls(cast(Mode, match["alone"] or match["mode"]), places, match["significant"] is not None)

    @property
    def division(self) -> Division:
        """Treatment of a remainder by `calculator.calculate`."""
        return cast(Division, self.mode) if self.mode in _INTEGERS else "exact"

    @property
    def rounds(self) -> bool:
        """Whether the last value is rounded."""
        return self.mode != "refuse" and self.mode not in _INTEGERS

    def apply(self, value: Fraction) -> Fraction:
        """A value rounded; one with another mode as it is."""
        if not self.rounds:
            return value
        unit = Fraction(10) ** self.shown_places(value)
        whole, rest = divmod(abs(value) * unit, 1)
        up = {
            "half_even": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
            "half_up": rest >= Fraction(1, 2),
            "down": False,
            "up": rest > 0,
        }[self.mode]
        found = Fraction(int(whole) + up) / unit
        return found if value > 0 else -found

    def shown_places(self, value: Fraction) -> int:
        """The places after the point to which a value is rounded."""
        return self.places - 1 - _magnitude(value) if self.significant and value else self.places


EXACT = Rounding()
UNCLEAR = Rounding(always=True)  # a text asks for a rounding that is not known


def _magnitude(value: Fraction) -> int:
    """The power of ten of the first digit of a value other than 0."""
    value = abs(value)
    guess = len(str(value.numerator)) - len(str(value.denominator))  # right, or one too many
    return guess - (value < Fraction(10) ** guess)


def places_of(value: Fraction) -> int | None:
    """The digits after the point of a fraction, None if they do not end."""
    rest, counts = value.denominator, {2: 0, 5: 0}
    for prime in counts:
        while rest % prime == 0:
            rest, counts[prime] = rest // prime, counts[prime] + 1
    return max(counts.values()) if rest == 1 else None


_COUNTS = {word: count for count, word in enumerate("zero one two three four five six seven eight nine ten".split())}
_NEAREST = {
    **dict.fromkeys(("integer", "whole number", "whole", "unit"), 0),
    **dict.fromkeys(("cent", "penny", "hundredth"), 2),
    **{"tenth": 1, "thousandth": 3, "ten": -1, "hundred": -2, "thousand": -3, "million": -6},
}
_HINTS = ("nearest", "place", "decimal", "dp", "d.p", "sig", "sf", "s.f")  # one of them is in every wish
_NEGATED = re.compile(r"\b(?:not|don['’]?t|never|without)\b[^.?!\n]*\Z", re.IGNORECASE)  # before a wish
# A rounding in one direction, which people mean in several ways below zero and in `up to 2 decimals`, or to no place
_DIRECTED = re.compile(
    r"\bround(?:ed|ing)?\s(?:(?:it|this|off|the (?:answer|result))\s)?(?:up|down)\b"
    r"|(?:\A|[.?!,;:\n]|\band|\bthen|\bplease)\s*round\b[^.?!,;\n]*\b(?:up|down)\b"
    r"|\b(?:up|down) to the nearest\b|\btruncat\w*|\brounded\s*[.?!]",
)
_ROUND = re.compile(r"\bround\b(?! of)", re.IGNORECASE)
_ROUNDED = re.compile(r"\brounded\b", re.IGNORECASE)
_WISH = re.compile(
    r"(?:(?:[,;(]|\band\b)\s*)?"
    r"(?:\b(?:rounded|rounding|round(?: (?:it|this|the (?:answer|result)))?|correct|accurate)(?: off)? )?"
    r"\b(?:to|with|at)\s(?:"
    rf"(?P<count>[0-9]{{1,2}}|{'|'.join(_COUNTS)})[\s-](?:(?P<places>decimals?(?:[\s-]places?)?|d\.?p\b\.?|places?\b)"
    r"|(?:significant[\s-](?:figure|digit)s?|sig(?:\.|nificant)? ?figs?|s\.?f\b\.?))"
    rf"|the\snearest\s(?P<nearest>{'|'.join(sorted(_NEAREST, key=len, reverse=True))})\b)\)?",
    re.IGNORECASE,
)


class Wish(NamedTuple):
    """The rounding that a text asks for, and the text without the words that ask, in its length."""

    rounding: Rounding
    plain: str


def asked_rounding(text: str, mode: Mode = "refuse") -> Wish | None:
    """The rounding that a text asks for at its end, `UNCLEAR` if it is not known; None where it asks for none, or for
    more than one.

    Args:
        text: as in `reading.read`.
        mode: of a setting; a half is rounded up where the setting does not round.
    """
    start = _begin(text)
    end = text[start:].casefold()
    if ("round" in end or "trunc" in end or "nearest" in end) and _DIRECTED.search(end):
        return Wish(UNCLEAR, text)
    found = list(_WISH.finditer(text, start)) if any(hint in end for hint in _HINTS) else []
    if len(found) != 1 or "no rounding" in end or _NEGATED.search(text[start : found[0].start()]):
        return None
    match = found[0]
    nearest, count = match["nearest"], match["count"]
    if nearest is not None:
        places = _NEAREST[nearest.lower()]
    else:
        places = int(count) if count.isdigit() else _COUNTS[count.lower()]
    significant = nearest is None and match["places"] is None
    if significant and not places:
        return None
    rounding = Rounding(mode if Rounding(mode).rounds else "half_up", places, significant, always=True)
    plain = text[: match.start()] + " " * len(match[0]) + text[match.end() :]
    # `Round` also asks for the calculation, as `Solve` does.
    plain = plain[:start] + _ROUND.sub("Solve", _ROUNDED.sub(" " * len("rounded"), plain[start:]))
    return Wish(rounding, plain)


def _begin(text: str) -> int:
    """The first character that may ask for a rounding: of the line of an anchor `=` or of its expression after an
    earlier `=`, and of the message of a request."""
    first = max(len(text) - _MOST_ASKED, 0)
    if _EQUALS.search(text, first):
        end = max(text.rfind("=", first), text.rfind("＝", first))
        return max(first, *(text.rfind(char, first, end) for char in "\n=＝" + CONTROL))
    end = first + len(_ANSWER.sub("", text[first:], count=1))
    return max(first, text.rfind(CONTROL, first, end))
