"""The naive twin of `expressions.grammar`: a recursive descent parser over texts of items, and `fractions`.

Nothing of the package is imported. A row is refused with the set of all reasons that its parts have, since the package
reports the first one in its own order. See `random_row` for rows in the grammar and near it.
"""

from fractions import Fraction


MALFORMED, TOO_MANY, TOO_LONG, INEXACT, OVERFLOW, UNDEFINED, EXPONENT, PERCENT_SUM = (
    "malformed",
    "too many",
    "too long",
    "inexact",
    "overflow",
    "undefined",
    "exponent",
    "percent sum",
)


class Refused(Exception):
    """The row is not in the grammar; the argument is the reason."""


def places_of(value, most):
    """Places after the point of a decimal that ends within `most` of them, else None."""
    return next((places for places in range(most + 1) if (value * 10**places).denominator == 1), None)


def whole_digits(value):
    return len(str(abs(value).__floor__()))


def text_of(value, places):
    whole = str(abs(int(value * 10**places))).rjust(places + 1, "0")
    number = whole[: len(whole) - places] + ("." + whole[len(whole) - places :] if places else "")
    return "-" * (value < 0) + number


def rounded(value, places, how):
    """Rounds a fraction on its magnitude, unlike Python's `round`."""
    size = abs(value) * 10**places
    down, rest = size.__floor__(), size - size.__floor__()
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and (how == "half_up" or down % 2 == 1))
    return Fraction(-(down + up) if value < 0 else down + up, 10**places)


class Reference:
    """Evaluates rows under fixed settings; `kept` is how many digits and places a value on the way may have."""

    def __init__(self, kept, *, digits, result_digits, operands=8, division="exact", rounding="refuse", places=None):
        self.kept, self.digits, self.result_digits, self.operands = kept, digits, result_digits, operands
        self.division, self.rounding, self.places = division, rounding, places

    def __call__(self, row):
        """The canonical text of the row's value, or the set of reasons for a refusal."""
        numbers = [item for item in row if item[0] in "0123456789."]
        if any(len(number.replace(".", "")) > self.digits for number in numbers):
            return {TOO_LONG}
        try:
            tree = _Parser(row).tree()
            if len(numbers) > self.operands:
                raise Refused(TOO_MANY)
            if _adds_percentage(tree):
                raise Refused(PERCENT_SUM)
        except Refused as refused:
            return {refused.args[0]}
        value = self.value(tree, last=True)
        if isinstance(value, set):
            return value
        places = places_of(value, self.kept)
        text = text_of(value, places)
        return text if len(text.lstrip("-").replace(".", "")) <= self.result_digits else {OVERFLOW}

    def value(self, tree, last=False):
        """The value of a tree, or its reasons. `last`: nothing but a sign is applied to it any more."""
        kind, *parts = tree
        if kind == "number":
            return parts[0]
        found = [self.value(part, last and kind == "sign") for part in parts]
        refused = set().union(*(one for one in found if isinstance(one, set)))
        return refused or self.apply(kind, found, last)

    def apply(self, kind, found, last):
        if kind == "sign":
            return -found[0]
        if kind == "%":
            return self.checked(found[0] / 100)
        a, b = found
        if kind == "^":
            if b.denominator != 1 or b < 0:
                return {EXPONENT}
            if a == b == 0:
                return {UNDEFINED}
            if abs(a) not in (0, 1) and b > 4 * self.kept * 2:
                return {OVERFLOW}
            return self.checked(a ** (int(b) if abs(a) not in (0, 1) else int(b) % 2 + 2 * (b > 0)))
        if kind == "/":
            return {UNDEFINED} if b == 0 else self.quotient(a / b, last)
        return self.checked(a + b if kind == "+" else a - b if kind == "-" else a * b)

    def quotient(self, value, last):
        if self.division == "floor":
            return self.checked(Fraction(value.__floor__()))
        if self.division == "trunc":
            return self.checked(Fraction(value.__trunc__()))
        if places_of(value, self.kept) is None:
            if self.rounding == "refuse" or not last:
                return {INEXACT}
            value = rounded(value, self.places, self.rounding)
            if value == 0:
                return {INEXACT}
        return self.checked(value)

    def checked(self, value):
        if whole_digits(value) > self.kept or places_of(value, self.kept) is None:
            return {OVERFLOW}
        return value


class _Parser:
    """Trees of tuples: `("number", value, text)`, `("sign", tree)`, `("%", tree)`, `(symbol, tree, tree)`."""

    def __init__(self, row):
        self.row, self.at = [*row, "end"], 0

    @property
    def next(self):
        return self.row[self.at]

    def take(self):
        self.at += 1
        return self.row[self.at - 1]

    def tree(self):
        found = self.sum()
        if self.next != "end":
            raise Refused(MALFORMED)
        return found

    def sum(self):
        found = self.product()
        while self.next in ("+", "-"):
            found = (self.take(), found, self.product())
        return found

    def product(self):
        found = self.signed()
        while self.next in ("*", "/", "of"):
            if self.next == "of" and self.row[self.at - 1] != "%":
                raise Refused(MALFORMED)
            symbol = self.take()
            found = ("/" if symbol == "/" else "*", found, self.signed())
        return found

    def signs(self):
        negative = False
        while self.next in ("+", "-"):
            negative ^= self.take() == "-"
        return negative

    def signed(self):
        negative = self.signs()
        found = self.power()
        return ("sign", found) if negative else found

    def power(self):
        base = self.operand()
        if self.next != "^":
            return base
        self.take()
        negative = self.signs()
        exponent = self.power()
        return ("^", base, ("sign", exponent) if negative else exponent)

    def operand(self):
        item = self.take()
        if item == "(":
            found = self.sum()
            if self.take() != ")":
                raise Refused(MALFORMED)
        elif item[0] in "0123456789.":
            found = ("number", Fraction(item))
        else:
            raise Refused(MALFORMED)
        if self.next == "%":
            self.take()
            found = ("%", found)
        return found


def _adds_percentage(tree):
    kind, *parts = tree
    if kind == "number":
        return False
    bare = parts
    while any(part[0] == "sign" for part in bare):
        bare = [part[1] if part[0] == "sign" else part for part in bare]
    return (kind in "+-" and any(part[0] == "%" for part in bare)) or any(map(_adds_percentage, parts))


def random_number(generator, digits):
    length = generator.choice([1, 1, 2, 2, 3, generator.randint(1, digits)])
    text = "".join(generator.choice("0123456789") for _ in range(length))
    if generator.random() < 0.1:
        text = generator.choice("025") * length
    at = generator.randint(0, length)
    return text[:at] + "." + text[at:] if generator.random() < 0.35 else text


def random_row(generator, *, operands=8, digits=6, depth=0):
    """Texts of items; about a fifth of the rows has an item too many, too few or another one."""
    row = _random_items(generator, generator.randint(1, operands), digits)
    if depth == 0 and generator.random() < 0.2:
        at = generator.randrange(len(row))
        strange = generator.choice([*"+-*/^()%?", "of", "7"])
        row[at : at + generator.randint(0, 1)] = [strange] if generator.random() < 0.7 else []
    return row


def _random_items(generator, operands, digits):
    signs = [generator.choice("--+") for _ in range(generator.choice([0, 0, 0, 0, 1, 1, 2]))]
    percent = ["%"] * (generator.random() < 0.08)
    if operands == 1:
        row = [random_number(generator, digits), *percent]
        return [*signs, *row] if generator.random() < 0.9 else [*signs, "(", *row, ")"]
    left = generator.randint(1, operands - 1)
    symbol = generator.choice("++--***///^")
    second = _random_items(generator, operands - left, digits)
    if symbol == "^" and generator.random() < 0.7:
        second = [str(generator.randint(0, 7))] if operands - left == 1 else second
    row = [*_random_items(generator, left, digits), symbol, *second]
    if symbol == "*" and row[left - 1] == "%":
        row[row.index("*")] = "of"
    return [*signs, "(", *row, ")", *percent] if generator.random() < 0.4 else row
