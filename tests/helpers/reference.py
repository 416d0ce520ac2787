"""The naive twin of `digits` and `calculator`: Python integers, lists and loops; nothing of the package is imported.

Statuses and the placeholder are written out once more on purpose: a slip in the package cannot hide by being shared.
"""

PAD = 10
OK, NONE, OVERFLOW, UNDEFINED, INEXACT = range(5)


def to_row(number: int, width: int) -> tuple[list[int], int]:
    """An integer as left-aligned digits and sign."""
    text = str(abs(number))
    assert len(text) <= width
    return [int(character) for character in text] + [PAD] * (width - len(text)), int(number < 0)


def from_row(row: list[int], sign: int) -> int | None:
    """Left-aligned digits and sign as an integer; `None` if they are none."""
    number, ended = 0, False
    for digit in row:
        if digit == PAD:
            ended = True
        elif ended or not 0 <= digit <= 9:
            return None
        else:
            number = number * 10 + digit
    if row[0] == PAD or sign not in (0, 1):
        return None
    return -number if sign else number


def divide(a: int, b: int, division: str) -> int | None:
    """The quotient; `None` where `exact` refuses. Worked out on magnitudes, unlike Python's `//`."""
    quotient, remainder = abs(a) // abs(b), abs(a) % abs(b)
    negative = (a < 0) != (b < 0)
    if remainder and division == "exact":
        return None
    if remainder and negative and division == "floor":
        quotient += 1
    return -quotient if negative else quotient


def calculate_row(
    a: int | None, b: int | None, symbol: str | None, result_digits: int, division: str
) -> tuple[int | None, int]:
    """One calculation: the number (`None` without one) and its status."""
    if symbol is None:
        return None, NONE
    if a is None or b is None or (symbol == "/" and b == 0):
        return None, UNDEFINED
    if symbol == "/":
        number = divide(a, b, division)
        if number is None:
            return None, INEXACT
    else:
        number = {"+": a + b, "-": a - b, "*": a * b}[symbol]
    if len(str(abs(number))) > result_digits:
        return None, OVERFLOW
    return number, OK


def calculate(
    digits: list[list[list[int]]],
    signs: list[list[int]],
    operators: list[int],
    operations: str,
    result_digits: int,
    division: str,
) -> tuple[list[list[int]], list[int], list[int]]:
    """`calculator.calculate` for one leading dimension, row by row."""
    rows, row_signs, statuses = [], [], []
    for operands, pair, operator in zip(digits, signs, operators, strict=True):
        symbol = operations[operator] if 0 <= operator < len(operations) else None
        a, b = (from_row(row, sign) for row, sign in zip(operands, pair, strict=True))
        number, status = calculate_row(a, b, symbol, result_digits, division)
        row, sign = ([PAD] * result_digits, 0) if number is None else to_row(number, result_digits)
        rows.append(row)
        row_signs.append(sign)
        statuses.append(status)
    return rows, row_signs, statuses
