"""Chains of thought for the four operations, digit by digit, as a small model may learn to write them.

In: a calculation. Out: its steps as text (`steps`), which end in `MARK`; what follows the mark is the answer
(`behind_mark`). Numbers are spelled (`5 8 2`), as in the scratchpads of Nye et al. (2021), because a token holds up to
three digits:

    58+907    `0 5 8+9 0 7;8+7+0=15 5+0+1=6 0+9+0=9;9 6 5#965`
    58-907    the smaller number is taken from the larger, the sign comes first: `-9 0 7-0 5 8;17-8-0=9 ...`
    58*36     `5 8*3 6;8*6+0=48 5*6+4=34>3 4 8;8*3+0=24 5*3+2=17>1 7 4;8+0=8 ...`: partial products, then their sum
    5824/7    `5 8 2 4/7;5=0*7+5 58=8*7+2 22=3*7+1 14=2*7+0;0 8 3 2#832`: long division

No calculation of the model's own is corrected. A division by zero has no steps. `false_steps` is the check: it finds
equations in a text that are not true. Try it: `pytest tests/benchmarks/test_answers.py -k scratchpad`.
"""

from __future__ import annotations

import re


MARK = "#"
_EQUATION = re.compile(r"(\d+(?:[-+*]\d+)*)=(\d+(?:[-+*]\d+)*)")


def steps(operator: str, first: str, second: str) -> str:
    """Everything up to the mark; "" for a division by zero.

    Args:
        operator: `+`, `-`, `*` or `/`.
        first, second: Canonical integers as text, perhaps negative.
    """
    a, b = int(first), int(second)
    if operator == "/" and b == 0:
        return ""
    if operator in "*/":
        sign = "-" if (a < 0) != (b < 0) and a != 0 and b != 0 else ""
        return sign + (product if operator == "*" else quotient)(abs(a), abs(b)) + MARK
    if operator == "-":
        b = -b
    if (a < 0) == (b < 0):
        return ("-" if a < 0 and a + b != 0 else "") + total(abs(a), abs(b)) + MARK
    sign = "-" if a + b < 0 else ""
    return sign + difference(max(abs(a), abs(b)), min(abs(a), abs(b))) + MARK


def behind_mark(text: str) -> str:
    """The answer: what follows the last mark; without one, all of it."""
    return text.rpartition(MARK)[2]


def head(text: str) -> str:
    """What is to be calculated, as the steps begin with it."""
    return text.partition(";")[0]


def spelled(number: int, width: int = 1) -> str:
    """A number's digits apart, with zeros in front of it up to a width."""
    return " ".join(str(number).zfill(width))


def total(a: int, b: int) -> str:
    """Addition in columns, the last one first: digit + digit + carry."""
    width = len(str(max(a, b)))
    carry, columns = 0, []
    for x, y in _columns(a, b, width):
        column = x + y + carry
        columns.append(f"{x}+{y}+{carry}={column}")
        carry = column // 10
    return f"{spelled(a, width)}+{spelled(b, width)};{' '.join(columns)};{spelled(a + b)}"


def difference(a: int, b: int) -> str:
    """Subtraction of the smaller number in columns: digit (ten more where it borrows) - digit - borrowed."""
    width = len(str(a))
    borrowed, columns = 0, []
    for x, y in _columns(a, b, width):
        x += 10 * (x < y + borrowed)
        columns.append(f"{x}-{y}-{borrowed}={x - y - borrowed}")
        borrowed = int(x > 9)
    return f"{spelled(a, width)}-{spelled(b, width)};{' '.join(columns)};{spelled(a - b)}"


def product(a: int, b: int) -> str:
    """A partial product for each digit of `b`, the last one first, and the sums of their columns."""
    rows, partials = [], []
    for digit in reversed(str(b)):
        carry, columns = 0, []
        for x in map(int, reversed(str(a))):
            column = x * int(digit) + carry
            columns.append(f"{x}*{digit}+{carry}={column}")
            carry = column // 10
        partials.append(a * int(digit))
        rows.append(f"{' '.join(columns)}>{spelled(partials[-1])}")
    text = f"{spelled(a)}*{spelled(b)};{';'.join(rows)}"
    if len(partials) > 1:
        text += f";{_sums(partials)}"
    return f"{text};{spelled(a * b)}"


def _sums(partials: list[int]) -> str:
    """The columns of partial products, each shifted by one place more than the one before it."""
    digits = [[int(d) for d in reversed(str(p))] for p in partials]
    carry, columns = 0, []
    for place in range(max(shift + len(row) for shift, row in enumerate(digits))):
        parts = [row[place - shift] for shift, row in enumerate(digits) if 0 <= place - shift < len(row)]
        column = sum(parts) + carry
        columns.append("+".join(map(str, [*parts, carry])) + f"={column}")
        carry = column // 10
    return " ".join(columns)


def quotient(a: int, b: int) -> str:
    """Long division: for each digit of `a` what it makes of the remainder so far."""
    rest, steps, digits = 0, [], []
    for digit in map(int, str(a)):
        part = 10 * rest + digit
        rest = part % b
        digits.append(str(part // b))
        steps.append(f"{part}={part // b}*{b}+{rest}")
    return f"{spelled(a)}/{spelled(b)};{' '.join(steps)};{' '.join(digits)}"


def false_steps(text: str) -> list[str]:
    """Equations of a text whose sides are not equal."""
    return [match[0] for match in _EQUATION.finditer(text) if _value(match[1]) != _value(match[2])]


def _value(side: str) -> int:
    """A sum or difference of products, from left to right."""
    value = 0
    for sign, term in re.findall(r"([-+]?)([\d*]+)", side):
        factors = [int(factor) for factor in term.split("*")]
        number = factors[0] * factors[1] if len(factors) == 2 else factors[0]
        value += -number if sign == "-" else number
    return value


def _columns(a: int, b: int, width: int) -> list[tuple[int, int]]:
    """Pairs of digits, the last ones first."""
    first, second = (map(int, reversed(str(number).zfill(width))) for number in (a, b))
    return list(zip(first, second, strict=True))
