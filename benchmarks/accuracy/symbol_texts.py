"""Texts with expressions in symbols: such as have a value, and such as must be refused.

In: a seed. Out: `Sample`s, each with its text and its value as `fractions` gives it for the tree that was written, or
None where the text must be refused: there is no value, or the text was spoilt on purpose. A text ends with `=`, or is
a whole message. Spaces, glyphs, brackets, currencies, per cent, units and texts before are drawn.
Try it: `pytest tests/benchmarks/test_symbol_fuzz.py`
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

from benchmarks.accuracy.symbol_trees import (
    DIGITS,
    Piece,
    Tree,
    Unanswerable,
    evaluate,
    literal,
    pieces_of,
    places,
    random_tree,
    span,
    written,
)


__all__ = ["MAX_OPERANDS", "Sample", "samples"]

MAX_OPERANDS = 8
SPOILT = 0.35  # share of texts that are spoilt
SPACES = ("none", "around", "around", "before", "behind", "any", "wide")

# Texts of whole messages, and texts before an expression that ends with `=`; none of the latter's numbers belongs.
MESSAGES = (
    "What is {}?",
    "Calculate {}.",
    "Compute {}.",
    "What does {} equal?",
    "Please work out {}.",
    "{} = ?",
    "{}",
)
BEFORE = (
    "The total is ",
    "She paid ",
    "Now he has ",
    "In the end there are ",
    "There were {} apples. Now she has ",
    "There are {} boxes.\n",
    "He sold {} and then he sold ",
    "{} + {} = {}\n",
    "{} + {} = {}\n\n",
    "{} = ",
    "The sum = ",
    "1) ",
    "Step one:\n",
    "- Ann had {} shells.\n- Ben had {}.\nTogether they had ",
)
UNITS = (
    ("{} snakes", "{} birds/snake", "*"),
    ("${}/hour", "{} hours", "x"),
    ("{} boxes", "{} pencils", "*"),
    ("{} weeks", "{} days/week", "x"),
    ("{} hours/day", "{} days", "*"),
    ("{} apples", "{} apples", "+"),
    ("{} books", "{} books", "-"),
    ("{} miles", "{} hours", "*"),
    ("{} cups", "{}", "*"),
    ("{}", "{} friends", "*"),
)
UNEQUAL_UNITS = (("{} km", "{} m"), ("{} hours", "{} minutes"), ("{} m", "{} cm"), ("{} kg", "{} g"))
BAD_LITERALS = (
    *(
        "1,23",
        "1.2.3",
        "1e5",
        "0x1F",
        "½",
        "2²",
        "3½",
        "٣",
        "１２",
        "12th",
        "1'000",
        "1_000",
        "10:30",
        "3,5",
        "1.234,5",
    ),
    *("five", "sqrt(17)", "5!", "√16", "π", "|5|", "5 million", "3 dozen", "2024-05-17", "v1.2", "5²", "12,3456"),
    *("1,2345", "5kg3", "1..5", "0b11", "2.5e-3", "x", "3x", "5i", "⅔", "①", "f(2)", "half", "twenty-one", "1.2.3.4"),
)
BAD_OPERATORS = (
    "%",
    " % ",
    "–",
    " – ",
    "—",
    " — ",
    ":",
    " : ",
    "//",
    "\\",
    " & ",
    " | ",
    " < ",
    "±",
    " mod ",
    "!",
    ";",
)
MORE_BEFORE = (
    *("plus ", "minus ", "{}: ", "{} = {}, ", "{}%, "),
    "{} and ",
    "{}, ",
    "{}; ",
    "{} plus ",
    "½, ",
    "half of ",
    "twice ",
    "one, ",
    "{} times ",
    "{} or ",
    "{}% ",
)
MORE_BEHIND = (
    " and {}",
    ", {}",
    ". Then add {}.",
    " plus one",
    "; {}",
    ". Now double it and add seven.",
    "\n{}",
    " or {}",
)
IN_WORDS = (
    "What is {} plus {}? Then add {}.",
    "What is the sum of {}, {} and {}?",
    "{}\n{}\n{}\nWhat is the sum?",
    "Add {} to {} and multiply the result by {}.",
    "- {} apples\n- {} pears\n- {} plums\nHow many are there?",
    "Take {} away from {}. Divide what is left by {}.",
    "{} times {} times {} =",
    "She has {} boxes of {} pencils and {} more =",
    "1. {}\n2. {}\n3. {}\nAdd them up.",
    "Start with {}. Add {}. Subtract {}. What do you get?",
    "Half of {} plus {} minus {} is",
    "the difference between {} and {}, times {} =",
)
_DATE = re.compile(r"(?<!\d)(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}/\d{1,2}/\d{2,4}|\d{3}-\d{3}-\d{4})(?!\d)")
_RANGE = re.compile(r"(?<![0-9.,)\]}+*/^×÷−-])([0-9]+)-([0-9]+)%")  # `10-15% of 200`
_COMPACT = re.compile(r"\W?\d+(?:[-/−]\d+)+\W?")


class Sample(NamedTuple):
    """A text and what it means.

    Attributes:
        text: what is read.
        kind: how it was made, for the report.
        value: the result in canonical form; None: it must be refused.
        due: whether a refusal is a mistake.
    """

    text: str
    kind: str
    value: str | None
    due: bool


def samples(seed: int) -> Iterator[Sample]:
    """Endlessly many; equal seeds give equal ones."""
    rng = random.Random(f"symbols/{seed}")
    while True:
        chance = rng.random()
        if chance < SPOILT:
            yield spoilt(rng)
        elif chance < SPOILT + 0.04:
            yield with_units(rng)
        else:
            yield plain(rng)


def plain(rng: random.Random) -> Sample:
    """An expression, spelled well."""
    tree = random_tree(rng, rng.choices(range(2, MAX_OPERANDS + 1), (30, 20, 12, 8, 6, 4, 4))[0])
    pieces = pieces_of(tree, rng)
    due = _with_currency(pieces, rng) and not _doubtful(pieces)
    text = spaced(pieces, rng)
    kind, value, answerable = _meaning(tree)
    due = due and answerable and not _DATE.search(text)
    due = due and not any(int(one[1]) < int(one[2]) for one in _RANGE.finditer(text))
    if rng.random() < 0.3:
        due = due and not _COMPACT.fullmatch(text.strip())  # `24/8` alone may be no calculation
        message = rng.choice(MESSAGES)
        due = due and not (" " in message and _sign_apart(text))
        return Sample(message.format(text), f"{kind}, message", value, due)
    before = _filled(rng.choice(BEFORE), rng) if rng.random() < 0.4 else ""
    if re.search("[a-z] $|\n$", before) and pieces[0].kind == "sign":
        due = False  # a sign, a subtraction from what the words say, or the mark of a list
    return Sample(before + text + _end(rng), f"{kind}, after text" if before else kind, value, due)


def _meaning(tree: Tree) -> tuple[str, str | None, bool]:
    """The kind of an expression by its outcome, its value, and whether it has to be answered."""
    try:
        value, most = evaluate(tree)
    except Unanswerable as reason:
        return str(reason), None, False
    if places(value) is None:
        return "inexact", None, False
    if len(str(abs(value.numerator * 10 ** _scale(value) // value.denominator))) > DIGITS:
        return "overflow", None, False
    return ("exact", written(value), True) if most <= DIGITS else ("wide", written(value), False)


def _scale(value: Fraction) -> int:
    """Digits after the point of a terminating decimal."""
    return len(written(value).partition(".")[2])


def _with_currency(pieces: list[Piece], rng: random.Random) -> bool:
    """Puts a currency before literals of one text in eight; False where it stands between a sign and a literal."""
    if rng.random() > 0.12:
        return True
    currency, due = rng.choice("$$€£"), True
    for before, piece in zip([Piece("open", ""), *pieces], pieces, strict=False):
        if piece.kind != "literal" or before.text in ("^", "**") or piece.text.endswith("%") or rng.random() < 0.3:
            continue
        piece.text = currency + piece.text
        due = due and before.kind != "sign"
    return due


def _sign_apart(text: str) -> bool:
    """Whether a text begins with a sign and a space."""
    return re.match("[-+−] ", text) is not None


def _doubtful(pieces: list[Piece]) -> bool:
    """Whether signs pile up in a way that people seldom mean: `5 ++3`."""
    pairs = zip(pieces, pieces[1:], strict=False)
    return any(piece.kind == "sign" and (before.text == "+" or piece.text == "+") for before, piece in pairs)


def spaced(pieces: list[Piece], rng: random.Random, style: str | None = None) -> str:
    """The text of pieces, with spaces in one of several styles."""
    style = style or rng.choice(SPACES)
    inner = " " if rng.random() < 0.1 else ""
    text = ""
    for at, piece in enumerate(pieces):
        if piece.kind == "operator":
            before, behind = _sides(style, rng)
            left = text.rstrip()
            if piece.text == "x":
                behind = before = before if left[-1:] != "0" else " "
            elif piece.text == "of":
                before, behind = " ", " "
            text += before + piece.text + behind
        elif piece.kind == "sign":
            # A space behind a sign is common at the beginning only.
            text += piece.text + (" " if rng.random() < (0.15 if at == 0 else 0.03) else "")
        elif piece.kind == "open":
            text += piece.text + inner
        elif piece.kind == "close":
            text += inner + piece.text
        else:
            text += piece.text
    return text


def _sides(style: str, rng: random.Random) -> tuple[str, str]:
    """The spaces before and behind an operator."""
    if style == "any":
        style = rng.choice(("none", "around", "before", "behind"))
    wide = "  " if style == "wide" else " "
    return ("" if style in ("none", "behind") else wide), ("" if style in ("none", "before") else wide)


def _filled(text: str, rng: random.Random) -> str:
    """A text with numbers for `{}`."""
    return re.sub(r"[{][}]", lambda _: str(rng.randrange(1, 1000)), text)


def _end(rng: random.Random) -> str:
    """What ends a text."""
    return rng.choice((" =", "=", " =", "=", "  ="))


def with_units(rng: random.Random) -> Sample:
    """Two or three literals with units between them."""
    first, second, operator = rng.choice(UNITS)
    a, b = (Tree("literal", str(number), Fraction(number)) for number in rng.sample(range(2, 1000), 2))
    tree = Tree("*" if operator == "x" else operator, parts=[a, b])
    text = f"{first.format(a.text)} {operator} {second.format(b.text)}"
    if rng.random() < 0.3:
        text = _filled(rng.choice(BEFORE[:6]), rng) + text
    value, _ = evaluate(tree)
    return Sample(text + _end(rng), "units", written(value), True)


def spoilt(rng: random.Random) -> Sample:
    """A text that must be refused."""
    name = rng.choice(list(_SPOILERS))
    return Sample(_SPOILERS[name](rng), f"spoilt: {name}", None, False)


def _some_pieces(rng: random.Random, fewest: int = 2) -> list[Piece]:
    """An expression to spoil; it would have a value or none."""
    return pieces_of(random_tree(rng, rng.randint(fewest, 5)), rng)


def _put(rng: random.Random, text: str) -> str:
    """A spoilt expression in a text."""
    if rng.random() < 0.25:
        return rng.choice(MESSAGES).format(text)
    before = _filled(rng.choice(BEFORE), rng) if rng.random() < 0.25 else ""
    return before + text + _end(rng)


def _places_of(pieces: list[Piece], *kinds: str) -> list[int]:
    """Where pieces of these kinds are."""
    return [at for at, piece in enumerate(pieces) if piece.kind in kinds]


def _bad_literal(rng: random.Random) -> str:
    pieces = _some_pieces(rng)
    at = rng.choice(_places_of(pieces, "literal"))
    pieces[at].text = rng.choice(BAD_LITERALS)
    return _put(rng, spaced(pieces, rng))


def _replaced_operator(rng: random.Random, choices: tuple[str, ...]) -> str:
    """An expression with another text for one operator that is followed by a literal or a bracket."""
    while True:
        pieces = _some_pieces(rng)
        fit = [at for at in _places_of(pieces, "operator") if pieces[at + 1].kind != "sign"]
        if fit:
            break
    at = rng.choice(fit)
    pieces[at] = Piece("replaced", rng.choice(choices))
    return _put(rng, spaced(pieces, rng))


def _bare_of(rng: random.Random) -> str:
    """`of` behind something that is no percentage."""
    while True:
        pieces = _some_pieces(rng)
        fit = [at for at in _places_of(pieces, "operator") if not pieces[at - 1].text.endswith("%")]
        if fit:
            break
    pieces[rng.choice(fit)].text = "of"
    return _put(rng, spaced(pieces, rng))


def _unit_inside(rng: random.Random) -> str:
    """A unit before a power, or within a sum of another one."""
    a, b, c = (str(rng.randrange(2, 100)) for _ in range(3))
    forms = (f"{a} kg^2 + {b}", f"{a} m ** {b}", f"{c} * {a} cm^2", f"{a}kg{b} + {c}", f"{a} + {b} m^3 - {c}")
    return _put(rng, rng.choice(forms))


def _doubled_operator(rng: random.Random) -> str:
    pieces = _some_pieces(rng)
    at = rng.choice(_places_of(pieces, "operator"))
    pieces.insert(at + 1, Piece("operator", rng.choice("/^÷")))
    return _put(rng, spaced(pieces, rng))


def _trailing_operator(rng: random.Random) -> str:
    return spaced([*_some_pieces(rng), Piece("operator", rng.choice("+-*/^×÷−"))], rng) + _end(rng)


def _leading_operator(rng: random.Random) -> str:
    return spaced([Piece("operator", rng.choice("*/^×÷")), *_some_pieces(rng)], rng) + _end(rng)


def _brackets(rng: random.Random) -> str:
    """An expression with a bracket too many, too few, or of another kind."""
    pieces = [Piece("open", "("), *_some_pieces(rng), Piece("close", ")")]
    tail = [Piece("operator", "*"), *_some_pieces(rng)]
    at = rng.choice(_places_of(pieces, "open", "close"))
    how = rng.choice(("drop", "double", "other"))
    if how == "drop":
        del pieces[at]
    elif how == "double":
        pieces.insert(at, Piece(pieces[at].kind, pieces[at].text))
    else:
        pieces[at].text = rng.choice([one for one in "()[]{}" if one != pieces[at].text])
    return _put(rng, spaced(pieces + tail, rng))


def _percent_sum(rng: random.Random) -> str:
    """A percentage added to a number, or subtracted from it."""
    pieces = [*_some_pieces(rng), Piece("operator", rng.choice("+-"))]
    percentage = [Piece("literal", literal(rng, longest=2).text + "%")]
    return _put(rng, spaced(pieces + percentage, rng))


def _two_currencies(rng: random.Random) -> str:
    pieces = _some_pieces(rng)
    for at, currency in zip(_places_of(pieces, "literal"), rng.sample("$€£", 2), strict=False):
        pieces[at].text = currency + pieces[at].text.rstrip("%")
    return _put(rng, spaced(pieces, rng).replace(" of ", " * "))


def _more_before(rng: random.Random) -> str:
    return _filled(rng.choice(MORE_BEFORE), rng) + spaced(_some_pieces(rng), rng) + _end(rng)


def _more_behind(rng: random.Random) -> str:
    lead = rng.choice(("", "What is ", "Calculate "))
    return lead + spaced(_some_pieces(rng), rng) + _filled(rng.choice(MORE_BEHIND), rng)


def _words_behind(rng: random.Random) -> str:
    more = rng.choice((" plus one", " times two", " squared", " plus {}", " million", " minus five", " hundred"))
    return spaced(_some_pieces(rng), rng) + _filled(more, rng) + _end(rng)


def _bad_exponent(rng: random.Random) -> str:
    exponent = rng.choice(("-1", "-{}", "0.5", "(-{})", "1.5", "(1/2)", "(0-{})", "−2", ".25", "(-.5)"))
    power = [Piece("literal", str(rng.randrange(2, 100))), Piece("operator", rng.choice(("^", "**")))]
    tail = [Piece("operator", rng.choice("+-*")), *_some_pieces(rng)] if rng.random() < 0.5 else []
    return _put(rng, spaced([*power, Piece("literal", _filled(exponent, rng)), *tail], rng))


def _too_many(rng: random.Random) -> str:
    count = rng.choice((9, 9, 10, 12, 20, 60))
    pieces = [Piece("literal", literal(rng, longest=3).text)]
    for _ in range(count - 1):
        pieces += [Piece("operator", rng.choice("+-*")), Piece("literal", literal(rng, longest=3).text)]
    return _put(rng, spaced(pieces, rng))


def _too_long(rng: random.Random) -> str:
    pieces = _some_pieces(rng)
    at = rng.choice(_places_of(pieces, "literal"))
    digits = "".join(rng.choices("123456789", k=DIGITS + rng.choice((1, 1, 2, 5, 30, 300))))
    point = rng.choice((0, 0, rng.randrange(1, len(digits))))
    pieces[at].text = f"{digits[:point]}.{digits[point:]}" if point else digits
    return _put(rng, spaced(pieces, rng))


def _in_words(rng: random.Random) -> str:
    return _filled(rng.choice(IN_WORDS), rng)


def _unequal_units(rng: random.Random) -> str:
    first, second = rng.choice(UNEQUAL_UNITS)
    a, b = rng.sample(range(2, 500), 2)
    return f"{first.format(a)} {rng.choice('+-')} {second.format(b)}" + _end(rng)


_SPOILERS: dict[str, Callable[[random.Random], str]] = {
    "a literal that is none": _bad_literal,
    "another operator": lambda rng: _replaced_operator(rng, BAD_OPERATORS),
    "no operator": lambda rng: _replaced_operator(rng, (" ",)),
    "two operators": _doubled_operator,
    "an operator at the end": _trailing_operator,
    "an operator at the beginning": _leading_operator,
    "brackets": _brackets,
    "a percentage in a sum": _percent_sum,
    "two currencies": _two_currencies,
    "a number before": _more_before,
    "a number behind": _more_behind,
    "words behind": _words_behind,
    "an exponent": _bad_exponent,
    "too many operands": _too_many,
    "a literal that is too long": _too_long,
    "different units": _unequal_units,
    "of without per cent": _bare_of,
    "a unit before a power": _unit_inside,
    "three numbers in words": _in_words,
}
assert span(Fraction(1, 8)) == 4
