"""Worked solutions in the format of GSM8K: word problems of one to six steps, and lines of single calculations.

`WorkedSolutions` yields rows `{"question", "answer", "steps"}`. The question is a story with drawn numbers; the answer
has one line per step with a calculator annotation (`48+24=<<48+24=72>>72`) and the result at the end (`#### 72`). Each
line is determined by the story, so a whole solution can be compared. `WorkedCalculations` yields rows `{"question",
"answer"}` with results that people's solutions seldom have and a model that plans badly writes: zero, below zero,
fractions. Sentences are in `peft_igc/data/wording/texts/worked.toml`. `annotation.gsm8k` converts
the rows to training data; nothing is tokenized here.
Try it: `python -c "from recipes.tiny_base.worked_solutions import *; print(WorkedSolutions().take(1)[0])"`.
"""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from peft_igc.data.columns import has_number, label
from peft_igc.data.wording.phrases import pools
from peft_igc.data.wording.phrases import words as words_of
from peft_igc.text import Limits
from peft_igc.text.values import written


__all__ = ["CUES", "MOST_STEPS", "WorkedCalculations", "WorkedSolutions"]

MOST_STEPS = 6
CUES = tuple(pools("worked")["cues"])
_PLACES = 4  # decimals of the result of a single calculation
_MOST_CALCULATIONS = 5  # in a row of them
_OPERATIONS = {"+": Fraction.__add__, "-": Fraction.__sub__, "*": Fraction.__mul__, "/": Fraction.__truediv__}
_Steps = tuple[tuple[str, str, str, str], ...]  # first operand, operator, second operand, line
_Part = tuple[str, _Steps]  # a sentence of a question, and its calculations


def _parsed(line: str) -> _Part:
    """An opening or a move, such as `Then {n} leave. => t - n: Now there are {x}.`."""
    sentence, *steps = line.split(" => ")
    calculations = (step.split(": ", 1) for step in steps)
    return sentence, tuple((*calculation.split(), text) for calculation, text in calculations)  # type: ignore[misc]


class WorkedSolutions:
    """An endless, seeded stream of word problems with worked solutions.

    Args:
        seed: Equal seeds give equal rows, on every machine.
        max_digits: Length of the longest number of a story; sums of two numbers may be longer.
        excluded: Questions that are left out, for instance those of a test.
    """

    def __init__(self, seed: int = 0, max_digits: int = 4, excluded: frozenset[str] = frozenset()) -> None:
        if max_digits < 1:
            raise ValueError(f"`max_digits={max_digits}` is not at least 1. Set the length of the longest number.")
        self.seed, self.max_digits, self.excluded = seed, max_digits, excluded

    def __iter__(self) -> Iterator[dict[str, Any]]:
        rng = random.Random(f"WorkedSolutions/{self.seed}")
        for count in itertools.cycle(range(1, MOST_STEPS + 1)):
            row = self._row(count, rng)
            while row is None or row["question"] in self.excluded:
                row = self._row(count, rng)
            yield row

    def take(self, n: int) -> list[dict[str, Any]]:
        """The first `n` rows; all numbers of steps take turns."""
        return list(itertools.islice(self, n))

    def _row(self, count: int, rng: random.Random) -> dict[str, Any] | None:
        """A story of `count` steps; None if no move is possible with the drawn numbers, such as sharing one coin."""
        theme = rng.choice(list(pools("worked")["themes"].values()))
        opening = rng.choice([part for part in map(_parsed, theme["openings"]) if len(part[1]) <= count])
        name, other, *friends = rng.sample(words_of("people"), 3 + MOST_STEPS)
        thing, city = rng.choice(words_of("objects")), rng.choice(words_of("worked cities"))
        words = {"name": name, "other": other, "thing": thing, "city": city}
        sentence, lines, total = self._opened(theme, opening, words, rng)
        sentences = [sentence]
        moves = list(map(_parsed, theme["moves"]))  # each occurs at most once, so that a line identifies its move
        while len(lines) < count:
            words["friend"] = friends[len(lines)]
            move, n = self._move(moves, total, rng)
            if not n:
                return None
            moves.remove(move)
            told, ((_, operator, _, text),) = move
            sentences.append(told.format(n=n, **words))
            line, total = _worked(theme, operator, (total, n), text.replace("{n}", str(n)), words)
            lines.append(line)
        question = " ".join([*sentences, theme["question"][0].format(**words), rng.choice(CUES)])
        return {"question": question, "answer": "\n".join([*lines, f"#### {total}"]), "steps": count}

    def _opened(
        self, theme: Mapping[str, Any], opening: _Part, words: dict[str, Any], rng: random.Random
    ) -> tuple[str, list[str], int]:
        """The sentence of an opening, the lines of its steps, and its result."""
        sentence, steps = opening
        known = {letter: self._number(rng) for letter in "tpqkl"}
        if any(operator == "*" for _, operator, _, _ in steps):  # factors have at most three digits
            known = {letter: self._number(rng, 3) for letter in "tpqkl"}
        if steps and steps[0][1] == "-":
            known["p"] += known["q"] + 1
        told, lines = sentence.format(**known, **words), []
        for first, operator, second, text in steps:
            line, result = _worked(theme, operator, (known[first], known[second]), text, words)
            lines.append(line)
            known["u"], known["t"] = known["t"], result
        return told, lines, known["t"]

    def _number(self, rng: random.Random, digits: int | None = None) -> int:
        """A number of at least 2 with a drawn length."""
        length = rng.randint(1, min(self.max_digits, digits or self.max_digits))
        return max(rng.randrange(10 ** (length - 1), 10**length), 2)

    def _move(self, moves: Sequence[_Part], total: int, rng: random.Random) -> tuple[_Part, int]:
        """A move that is possible with this total, and its number; the number is 0 if there is none."""
        for move in rng.sample(moves, len(moves)):
            operator = move[1][0][1]
            n = self._number(rng, 3 if operator in "*/" else None)
            if operator == "-":
                n = min(n, total - 1)
            elif operator == "/":
                n = rng.choice([d for d in range(2, 1000) if total % d == 0] or [0])
            if n > 0:
                return move, n
        return moves[0], 0


def _worked(
    theme: Mapping[str, Any], operator: str, operands: tuple[int, int], line: str, words: Mapping[str, Any]
) -> tuple[str, int]:
    """A line of a solution, and its result."""
    a, b = operands
    result = label(operator, (str(a), str(b)), Limits(digits=40, result_digits=40))
    assert has_number(result), (line, operands)
    mark = f"<<{a}{operator}{b}={result}>>"
    shown = theme["form"][0].format(a=a, o=operator, b=b, m=mark, r=result)
    return line.format(x=shown, **words), int(result)


class WorkedCalculations:
    """An endless, seeded stream of rows with several single calculations; each iteration begins anew."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def __iter__(self) -> Iterator[dict[str, str]]:
        rng = random.Random(f"calculations {self.seed}")
        while True:
            drawn = [_calculation_line(rng) for _ in range(rng.randint(2, _MOST_CALCULATIONS))]
            asked = rng.choice(pools("worked")["asked"]).format(all=", ".join(text for text, _, _ in drawn))
            answer = [*(line for _, line, _ in drawn), f"#### {drawn[-1][2]}"]
            yield {"question": asked, "answer": "\n".join(answer)}

    def take(self, n: int) -> list[dict[str, str]]:
        """The first `n` rows."""
        return list(itertools.islice(self, n))


def _calculation_line(rng: random.Random) -> tuple[str, str, str]:
    """A calculation, its line, and its result."""
    money = rng.random() < 0.3
    numbers, operators, value = _calculation(rng)
    gap, sign = " " if rng.random() < 0.5 else "", "$" if money else ""
    text = f"{sign}{numbers[0]}"
    for operator, number in zip(operators, numbers[1:], strict=True):
        # Money is neither multiplied nor divided by money.
        text += f"{gap}{operator}{gap}{sign if operator in '+-' else ''}{number}"
    plain, result = text.replace(" ", "").replace("$", ""), written(value)
    line = rng.choice(pools("worked")["money" if money else "lines"])
    shown = f"{text}{gap}={gap}{sign}<<{plain}={result}>>{result}"
    filled = line.format(x=shown, thing=rng.choice(words_of("objects")), name=rng.choice(words_of("people")))
    return text, filled, result


def _calculation(rng: random.Random) -> tuple[list[str], list[str], Fraction]:
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
        value, *others = map(Fraction, numbers)
        if any(operator == "/" and other == 0 for operator, other in zip(operators, others, strict=True)):
            continue
        for operator, other in zip(operators, others, strict=True):
            value = _OPERATIONS[operator](value, other)
        if (value * 10**_PLACES).denominator == 1:
            return numbers, operators, value


def _number(rng: random.Random, decimal: bool) -> str:
    """A number of one to five digits, many of them round, some with one or two decimals."""
    size = rng.choice((1, 1, 2, 2, 3, 4, 5))
    number = rng.randrange(1, 10**size)
    if size > 1 and rng.random() < 0.4:
        number = max(number // 10, 1) * 10
    if decimal and rng.random() < 0.7:
        return written(Fraction(rng.randrange(1, 10 ** (size + 1)), rng.choice((10, 100))))
    return str(number)
