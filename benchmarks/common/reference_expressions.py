"""The naive twin of `expressions`: reads an expression in symbols from a text and evaluates it with `fractions`.

In: a text that ends where a result is due, such as `She paid 3 * $4 =`, or a whole message such as `12*34`. Out: the
exact value, or the reason for a refusal. Regular expressions and a recursive descent parser over characters; nothing
of the package is imported, and tokens are unknown here. It is stricter than the package may be: where people disagree
about a meaning (`10% + 5%`), it refuses. Try it: `pytest tests/data/test_symbol_rows.py`

The grammar, loosest first; `-` and `+` before an operand are signs, and a sign binds less than a power:

    sum     = product (("+" | "-") product)*
    product = signed (("*" | "/" | "of") signed)*
    signed  = ("+" | "-")* power
    power   = operand ("^" ("+" | "-")* power)?
    operand = (number | "(" sum ")") "%"?
"""

import re
from fractions import Fraction
from typing import NamedTuple


MAX_OPERANDS, DIGITS = 8, 40
LONGEST_POWER = 4000  # bits of a power that is worked out; longer ones are too large anyway

# Reasons for a refusal.
NOTHING, MALFORMED, NOT_UNDERSTOOD, OTHER_NUMBER, CURRENCIES, PERCENT, EXPONENT, OPERANDS = (
    "no expression",
    "malformed",
    "numeric and not understood",
    "another number",
    "two currencies",
    "percentage in a sum",
    "exponent",
    "too many operands",
)
OVERFLOW, UNDEFINED, INEXACT, UNITS = "overflow", "undefined", "inexact", "two units"

OPERATORS = {"+": "+", "-": "-", "\u2212": "-", "*": "*", "×": "*", "·": "*", "/": "/", "÷": "/", "^": "^", "**": "^"}
CLOSING = {"(": ")", "[": "]", "{": "}"}
NUMBER_WORDS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion "
    "trillion half third quarter dozen double twice triple thrice k bn mn bps score gross lakh crore pi "
    "millionen millones".split()
)
OPERATOR_WORDS = frozenset("plus minus times over divided multiplied by and percent mod squared cubed less or".split())
MEASURES = frozenset(
    "km m cm mm mile foot feet inch yard kg g gram pound ounce ton liter litre gallon ml hour minute second day "
    "week month year dollar euro cent usd eur gbp $ € £".split()
)
# Directly before an expression, or `of` between, or behind an operand: the value is another one.
CHANGING_WORDS = frozenset(
    "square cube root absolute value average mean reciprocal remainder part negative inverse opposite factorial "
    "logarithm log ln sin cos tan exp than binary cent".split()
)
UNKNOWN = "\N{SECTION SIGN}"  # takes the place of a date
BAD = "–—π" + UNKNOWN
_PIECE = re.compile(
    r"(?P<number>(?<![0-9])[.][0-9][0-9.,]*|[0-9][0-9.,]*)|(?P<word>[^\W\d_]+)|(?P<operator>[*][*]|[-+*/×÷·^\u2212])"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<currency>[$€£])|(?P<percent>%)|(?P<space>[ \t]+)|(?P<other>.)",
    re.DOTALL,
)
_LITERAL = re.compile(r"(?:(?!0)[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:[.][0-9]+)?|[.][0-9]+")
# Numbers in the writing of a date or a telephone number, though each of them is also a sum or a quotient.
_LOOK_ALIKE = re.compile(
    r"(?<![0-9.])(?:[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{4}-0[0-9]|[0-9]{1,2}-[0-9]{1,2}-[0-9]{4}"
    r"|[0-9]{1,2}/[0-9]{1,2}/[0-9]{2,4}|[0-9]{3}-[0-9]{3}-[0-9]{4})(?![0-9])"
)


class Refused(Exception):
    """Ends the reading; the argument is the reason."""


class Piece(NamedTuple):
    """A part of a text: its kind (`number`, `word`, an operator's symbol, ...), its text and its value."""

    kind: str
    text: str
    value: Fraction = Fraction(0)
    spaced: bool = False  # a space stands before it


def read(text: str, *, max_operands: int = MAX_OPERANDS, digits: int = DIGITS) -> Fraction | str:
    """The value of the expression that a text ends with, or the reason for a refusal."""
    try:
        pieces = _expression(text.strip())
        return _Parser(pieces, max_operands, digits).value()
    except Refused as refused:
        return str(refused)


def terminates(value: Fraction) -> bool:
    """Whether a value has finitely many decimals."""
    rest = value.denominator
    for factor in (2, 5):
        while rest % factor == 0:
            rest //= factor
    return rest == 1


def written(value: Fraction) -> str:
    """A terminating decimal in canonical form: `-12.5`, no trailing zeros."""
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    whole = str(abs(int(value * 10**places))).rjust(places + 1, "0")
    number = whole[: len(whole) - places] + ("." + whole[len(whole) - places :] if places else "")
    return "-" * (value < 0) + number


def digits_of(value: Fraction) -> int:
    """How many digits a terminating decimal has without sign and point, a single zero before the point excepted."""
    return max(len(written(value).lstrip("-").replace(".", "").lstrip("0")), 1)


def _expression(text: str) -> list[Piece]:
    """The pieces of the expression that counts: without what stands before it, and without units."""
    whole = re.search(r"=\s*\??\Z", text)
    if whole is None:
        body, reaches = re.sub(r"(?<=[\w)\]}%])[.?]\Z", "", _last_block(text)), False
    else:
        body, reaches = text[: whole.start()], True
    body = body.rpartition("=")[2]
    if reaches:
        body = re.split(r"\n|(?<=[^\W\d])[.!?]\s|(?<=[0-9)%])[.!?]\s+(?=[A-Z])", body.strip())[-1]
    body = re.sub(r"\A\s*(?:[0-9]+|[a-z])[.)]\s+", "", body)  # a list number
    pieces = _without_units(_without_words_before(_pieces(_LOOK_ALIKE.sub(UNKNOWN, body)), reaches))
    if any(piece.kind == "bad" for piece in pieces):
        raise Refused(NOT_UNDERSTOOD)
    if not any(piece.kind == "number" for piece in pieces):
        raise Refused(NOTHING)
    return pieces


def _last_block(text: str) -> str:
    """A message without earlier blocks, without the labels of a question, and without a request for its form."""
    block = re.split(r"\n\s*\n", text)[-1]
    block = re.sub(r"\AQ:|\n?A:\Z", "", block).strip()
    request = re.fullmatch(r"(.*[?])\s+([A-Z][a-z, ]*)[.]", block, re.DOTALL)
    if request and not {*request[2].lower().split()} & (NUMBER_WORDS | OPERATOR_WORDS | {"then", "now"}):
        return request[1]
    return block


def _pieces(text: str) -> list[Piece]:
    """Splits a text. What is numeric and not understood becomes a piece of the kind `bad`."""
    found: list[Piece] = []
    for match in _PIECE.finditer(text):
        kind, part = str(match.lastgroup), match[0]
        literal = part.rstrip(".,") if kind == "number" else ""
        if kind == "number" and _LITERAL.fullmatch(literal):
            found.append(Piece("number", literal, Fraction(literal.replace(",", ""))))
            # A comma or a full stop behind a number is text.
            found += [Piece("other", character) for character in part[len(literal) :]]
        elif kind == "number" or (kind in ("word", "other") and any(one.isnumeric() or one in BAD for one in part)):
            found.append(Piece("bad", part))
        elif kind == "word" and part.lower() in NUMBER_WORDS:
            found.append(Piece("bad", part))
        elif kind == "word" and part in ("x", "X"):
            found.append(Piece("*", part))
        elif kind == "word" and part == "of":
            found.append(Piece("of", part))
        elif kind == "operator":
            found.append(Piece(OPERATORS[part], part))
        else:
            found.append(Piece(kind, part))
    touching = [Piece("space", ""), *found]
    for at, (before, after) in enumerate(zip(touching, found, strict=False)):
        glued = {before.kind, after.kind} in ({"number", "word"}, {"number"}, {"close", "word"})
        # A function or an index is none, either.
        if glued or (before.kind == "word" and after.kind == "open") or "_" in (before.text, after.text):
            found[at] = after._replace(kind="bad")
        found[at] = found[at]._replace(spaced=before.kind == "space")
    found = [piece for piece in found if piece.kind != "space"]
    for at, piece in enumerate(found):
        if piece.text in ("x", "X") and not _multiplies(piece, found[at - 1] if at else None, found[at + 1 : at + 3]):
            found[at] = piece._replace(kind="bad")
    return found


def _multiplies(piece: Piece, before: Piece | None, after: list[Piece]) -> bool:
    """Whether an `x` stands between two operands, spaced alike; it may be a variable, or a part of `0x1F`."""
    if not after or before is None or before.kind not in ("number", "close", "percent", "word"):
        return False
    signed = after[0].kind == "-" and after[0].spaced and not after[-1].spaced  # `3 x -5`, but not `3x - 5`
    if after[0].kind not in ("number", "open", "currency", "word") and not signed:
        return False
    return piece.spaced == after[0].spaced and (before.text != "0" or piece.spaced)


def _without_words_before(pieces: list[Piece], reaches: bool) -> list[Piece]:
    """Drops what stands before an expression: words only, or anything up to two words if `=` is at its end."""
    words, start, numeric = 0, 0, False
    for at, piece in enumerate(pieces):
        if piece.kind == "word":
            words += piece.text.lower() not in OPERATOR_WORDS
        elif piece.text in (":", ",", "of") and words:
            continue
        else:
            sign = piece.kind in ("+", "-") and piece.spaced and not pieces[min(at + 1, len(pieces) - 1)].spaced
            begins = piece.kind in ("number", "open", "currency")
            if (words and not numeric and (begins or sign)) or (words >= 2 and reaches and begins):
                start = at
            words = 0
        numeric = numeric or piece.kind in ("number", "bad")
    asked = [piece.text.lower() for piece in pieces[:start] if piece.text.lower() not in ("of", "the")]
    if asked and asked[-1] in CHANGING_WORDS | OPERATOR_WORDS:
        raise Refused(NOT_UNDERSTOOD)
    return pieces[start:]


def _without_units(pieces: list[Piece]) -> list[Piece]:
    """Drops words behind a literal, as in `30 snakes * 3 birds/snake`; a sum of different measures is refused."""
    kept: list[Piece] = []
    units: set[str] = set()
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        if piece.kind == "word":
            if piece.text.lower() in OPERATOR_WORDS or not kept or kept[-1].kind not in ("number", "close"):
                raise Refused(NOT_UNDERSTOOD)
            end = at + 1
            while end < len(pieces) and (
                pieces[end].kind == "word"
                and pieces[end].text.lower() not in OPERATOR_WORDS
                or pieces[end].kind == "/"
                and end + 1 < len(pieces)
                and pieces[end + 1].kind == "word"
            ):
                end += 1
            if CHANGING_WORDS & {one.text.lower() for one in pieces[at:end]}:
                raise Refused(NOT_UNDERSTOOD)
            units.add(piece.text.lower().removesuffix("s").replace("inche", "inch"))
            at = end
            if pieces[min(at, len(pieces) - 1)].kind == "^":
                raise Refused(NOT_UNDERSTOOD)  # a power of the unit
        elif piece.kind == "/" and at + 1 < len(pieces) and pieces[at + 1].kind == "word" and kept:
            at += 2  # `$12/hour`
        else:
            kept.append(piece)
            at += 1
    units |= {piece.text for piece in kept if piece.kind == "currency"}
    if len(units & MEASURES) > 1 and any(piece.kind in ("+", "-") for piece in kept):
        raise Refused(UNITS)
    return kept


class _Parser:
    """Evaluates pieces by recursive descent. `take` consumes the next piece; a list end has the kind `end`."""

    def __init__(self, pieces: list[Piece], max_operands: int, digits: int) -> None:
        self.pieces = [*pieces, Piece("end", "")]
        self.at = self.operators = 0
        self.digits = digits
        self.percentages: set[int] = set()  # where operands that are bare percentages end
        numbers = [piece for piece in pieces if piece.kind == "number"]
        if len({piece.text for piece in pieces if piece.kind == "currency"}) > 1:
            raise Refused(CURRENCIES)
        if any(len(re.sub("[.,]", "", piece.text).lstrip("0")) > digits for piece in numbers):
            raise Refused(OVERFLOW)
        self.too_many = len(numbers) > max_operands

    def value(self) -> Fraction:
        """The value of all pieces."""
        depth = deepest = 0
        for piece in self.pieces:
            depth += (piece.kind == "open") - (piece.kind == "close")
            deepest = max(deepest, depth)
        if deepest > 50:  # far more than operands need; a bracket is a recursive call
            raise Refused(OPERANDS)
        if self.too_many:
            raise Refused(OPERANDS)
        value = self.sum()
        if self.kind != "end":
            raise Refused(MALFORMED if self.kind != "number" else OTHER_NUMBER)
        if not self.operators:
            raise Refused(NOTHING)
        return self.checked(value)

    @property
    def kind(self) -> str:
        """The kind of the next piece."""
        return self.pieces[self.at].kind

    def take(self) -> Piece:
        """Consumes a piece."""
        self.at += 1
        return self.pieces[self.at - 1]

    def checked(self, value: Fraction) -> Fraction:
        """Refuses values with more decimals or digits than there may be."""
        if not terminates(value):
            raise Refused(INEXACT)
        if digits_of(value) > self.digits:
            raise Refused(OVERFLOW)
        return value

    def sum(self) -> Fraction:
        """Consumes additions and subtractions."""
        value = self.product()
        while self.kind in ("+", "-"):
            bare = self.at in self.percentages
            sign = self.take().kind
            other = self.product()
            if bare or self.at in self.percentages:
                raise Refused(PERCENT)
            self.operators += 1
            value = self.checked(value + other if sign == "+" else value - other)
        return value

    def product(self) -> Fraction:
        """Consumes multiplications and divisions. A product is no bare percentage any more."""
        value = self.signed()
        while self.kind in ("*", "/", "of"):
            if self.kind == "of" and self.pieces[self.at - 1].kind != "percent":
                raise Refused(MALFORMED)
            sign = self.take().kind
            other = self.signed()
            self.percentages.discard(self.at)
            self.operators += 1
            if sign == "/" and other == 0:
                raise Refused(UNDEFINED)
            value = self.checked(value / other if sign == "/" else value * other)
        return value

    def signed(self) -> Fraction:
        """Consumes signs before a power."""
        negative = False
        while self.kind in ("+", "-"):
            negative ^= self.take().kind == "-"
        return -self.power() if negative else self.power()

    def power(self) -> Fraction:
        """Consumes a power, from the right."""
        base = self.operand()
        if self.kind != "^":
            return base
        self.take()
        negative = False
        while self.kind in ("+", "-"):
            negative ^= self.take().kind == "-"
        exponent = self.power() * (-1 if negative else 1)
        self.percentages.discard(self.at)
        self.operators += 1
        if exponent.denominator != 1 or exponent < 0:
            raise Refused(EXPONENT)
        if base == 0 and exponent == 0:
            raise Refused(UNDEFINED)
        if exponent * max(base.numerator.bit_length(), base.denominator.bit_length()) > LONGEST_POWER:
            raise Refused(OVERFLOW)
        return self.checked(base ** int(exponent))

    def operand(self) -> Fraction:
        """Consumes a literal or a bracket, with a percent sign behind it if there is one."""
        if self.kind == "currency":
            self.take()
            if self.kind != "number":
                raise Refused(MALFORMED)
        piece = self.take()
        if piece.kind == "number":
            value = piece.value
        elif piece.kind == "open":
            value = self.sum()
            closing = self.take()
            if closing.kind != "close" or closing.text != CLOSING[piece.text]:
                raise Refused(MALFORMED)
            if self.at - 1 in self.percentages:  # `(5%)` is a bare percentage, too
                self.percentages.add(self.at)
        else:
            raise Refused(MALFORMED)
        if self.kind == "percent":
            self.take()
            value /= 100
            self.percentages.add(self.at)
        return value
