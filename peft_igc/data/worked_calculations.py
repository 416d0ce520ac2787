"""Lines of calculations whose results worked solutions seldom have, in the format of GSM8K.

People's solutions have hardly a result that is zero, below zero or a fraction, but a model that plans badly writes
such calculations. `WorkedCalculations` yields rows `{"question", "answer"}`: the question lists calculations, the
answer has a line for each with a calculator annotation (`$1.75-$1.25=$<<1.75-1.25=0.5>>0.5`) and the last result at
the end (`#### 0.5`). `annotation.gsm8k` converts the rows to training data; nothing is tokenized here.
Try it: `python -c "from peft_igc.data.worked_calculations import *; print(WorkedCalculations().take(1)[0])"`.
"""

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

from .wording.phrases import words


__all__ = ["WorkedCalculations"]

_PLACES = 4  # of a result
_MOST = 5  # calculations in a row
# `{x}` is the calculation.
_LINES = (
    "{x}", "That is {x}.", "So {x}.", "This makes {x} {thing}.", "{name} has {x} {thing}.", "He needs {x} {thing}.",
    "She gets {x} {thing}.", "{name} has {x} {thing} left.", "There are {x} {thing} left.", "They need {x} hours.",
    "It takes {x} minutes.", "The {thing} are {x}.", "In total it is {x}.", "{name} walks {x} miles.",
)  # fmt: skip
_MONEY = (
    "{x}", "That is {x}.", "So {x}.", "{name} pays {x}.", "He spends {x}.", "She earns {x} a day.", "They cost {x}.",
    "{name} has {x} left.", "The {thing} cost {x}.", "It is worth {x}.",
)  # fmt: skip
_ASKED = ("Work these out: {all}.", "Write down each result: {all}.", "{all}\nSolve them one by one.")


class WorkedCalculations:
    """An endless stream of rows; each iteration begins anew.

    Args:
        seed: Of the stream.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def __iter__(self) -> Iterator[dict[str, str]]:
        rng = random.Random(f"calculations {self.seed}")
        while True:
            drawn = [self._line(rng) for _ in range(rng.randint(2, _MOST))]
            asked = rng.choice(_ASKED).format(all=", ".join(text for text, _, _ in drawn))
            answer = [*(line for _, line, _ in drawn), f"#### {drawn[-1][2]}"]
            yield {"question": asked, "answer": "\n".join(answer)}

    def take(self, n: int) -> list[dict[str, str]]:
        """The first n rows."""
        return list(itertools.islice(self, n))

    def _line(self, rng: random.Random) -> tuple[str, str, str]:
        """A calculation, its line, and its result."""
        money = rng.random() < 0.3
        numbers, operators, value = self._calculation(rng)
        spaced, sign = rng.random() < 0.5, "$" if money else ""
        gap = " " if spaced else ""
        plain = "".join(map("".join, itertools.zip_longest(numbers, operators, fillvalue="")))
        text = numbers[0] if not money else f"${numbers[0]}"
        for operator, number in zip(operators, numbers[1:], strict=True):
            # Money is neither multiplied nor divided by money.
            text += f"{gap}{operator}{gap}{sign if operator in '+-' else ''}{number}"
        result = _decimal(value)
        line = rng.choice(_MONEY if money else _LINES)
        shown = f"{text}{gap}={gap}{sign}<<{plain}={result}>>{result}"
        return text, line.format(x=shown, thing=rng.choice(words("objects")), name=rng.choice(words("people"))), result

    def _calculation(self, rng: random.Random) -> tuple[list[str], list[str], Fraction]:
        """Numbers and operators, and a value with at most `_PLACES` decimals."""
        while True:
            kind = rng.choice(("zero", "negative", "negative", "decimal", "decimal", "three", "any"))
            first, second, third = (_number(rng, kind == "decimal") for _ in range(3))
            if kind == "zero":
                pair = rng.choice(((first, "-", first), ("0", "*", first), (first, "*", "0"), ("0", "/", first)))
            elif kind == "negative":
                low, high = sorted((first, second), key=Fraction)
                pair = (low, "-", high)
            else:
                pair = (first, rng.choice("+-*/"), second)
            numbers, operators = [pair[0], pair[2]], [pair[1]]
            if kind == "three":
                operators.append(rng.choice("*/" if operators[0] in "*/" else "+-"))
                numbers.append(third)
            value = Fraction(numbers[0])
            for operator, number in zip(operators, map(Fraction, numbers[1:]), strict=True):
                if operator == "/" and number == 0:
                    break
                value = {"+": value + number, "-": value - number, "*": value * number}.get(operator, value)
                value = value / number if operator == "/" else value
            else:
                if (value * 10**_PLACES).denominator == 1:
                    return numbers, operators, value


def _number(rng: random.Random, decimal: bool) -> str:
    """A number of one to five digits, many of them round, some with one or two decimals."""
    size = rng.choice((1, 1, 2, 2, 3, 4, 5))
    number = rng.randrange(1, 10**size)
    if size > 1 and rng.random() < 0.4:
        number = max(number // 10, 1) * 10
    if decimal and rng.random() < 0.7:
        return _decimal(Fraction(rng.randrange(1, 10 ** (size + 1)), rng.choice((10, 100))))
    return str(number)


def _decimal(value: Fraction) -> str:
    """The canonical decimal of a value with at most `_PLACES` decimals."""
    scaled = abs(value) * 10**_PLACES
    whole, rest = divmod(int(scaled), 10**_PLACES)
    decimals = f"{rest:0{_PLACES}}".rstrip("0")
    return f"{'-' if value < 0 else ''}{whole}{'.' if decimals else ''}{decimals}"
