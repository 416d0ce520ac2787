"""Word problems of one to six steps with worked solutions, in the format of GSM8K.

`WorkedSolutions` yields rows `{"question", "answer", "steps"}`. The question is a story with drawn numbers; the answer
has one line per step with a calculator annotation (`48+24=<<48+24=72>>72`) and the result at the end (`#### 72`). Each
line is determined by the story, so a whole solution can be compared. Stories consist of an opening, moves and a final
question; their sentences are fixed, their numbers drawn. `annotation.gsm8k` converts the rows to training data;
nothing is tokenized here.
Try it: `python -c "from peft_igc.data.worked_solutions import *; print(WorkedSolutions().take(1)[0])"`.
"""

import itertools
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..numbers.calculator import evaluate_exactly
from .wording.phrases import words as pool


__all__ = ["CUES", "MOST_STEPS", "WorkedSolutions"]

MOST_STEPS = 6
CUES = ("Solve it step by step.", "Show every step.", "Write down all steps.", "Work it out step by step.")


class _Step(NamedTuple):
    """One line of a solution.

    Attributes:
        operator: A symbol.
        line: The line; `{x}` is the calculation, the other fields are those of the story.
        first, second: The operands: letters of drawn numbers, `t` for the result of the previous step, or `u` for
            that of the step before it.
    """

    operator: str
    line: str
    first: str = "t"
    second: str = "n"


class _Part(NamedTuple):
    """An opening or a move: a sentence of the question, and its calculations."""

    sentence: str
    steps: tuple[_Step, ...] = ()


class _Theme(NamedTuple):
    """Stories of one kind.

    Attributes:
        form: How a calculation is written; `{m}` is the annotation.
        openings, moves: The first parts of stories, and those that may follow.
        question: The last sentence of each story.
    """

    form: str
    openings: tuple[_Part, ...]
    moves: tuple[_Part, ...]
    question: str


# fmt: off
_THEMES = (
    _Theme(
        "{a}{o}{b}={m}{r}",
        (
            _Part("{name} has {t} {thing}."),
            _Part("{name} has {p} red and {q} blue {thing}.",
                  (_Step("+", "{name} has {x} {thing}.", "p", "q"),)),
            _Part("{name} has {p} boxes with {q} {thing} each.",
                  (_Step("*", "The boxes hold {x} {thing}.", "p", "q"),)),
            _Part("{name} has {p} {thing}, and {other} has {q} times as many. They put them together.",
                  (_Step("*", "{other} has {x} {thing}.", "p", "q"), _Step("+", "Together they have {x}.", "p", "t"))),
            _Part("{name} has {p} boxes with {q} {thing} each and {k} bags with {l} {thing} each.",
                  (_Step("*", "The boxes hold {x} {thing}.", "p", "q"), _Step("*", "The bags hold {x}.", "k", "l"),
                   _Step("+", "That makes {x} {thing}.", "u", "t"))),
        ),
        (
            _Part("{friend} gives {name} {n} more.", (_Step("+", "With the {n} of {friend} there are {x} {thing}."),)),
            _Part("Then {name} buys {n} {thing}.", (_Step("+", "After buying there are {x} {thing}."),)),
            _Part("{name} sells {n} of them.", (_Step("-", "When {n} are sold, {x} are left."),)),
            _Part("On the way {n} get lost.", (_Step("-", "After the loss {name} has {x}."),)),
            _Part("A machine makes {n} of each.", (_Step("*", "The machine makes {x} {thing}."),)),
            _Part("They are shared among {n} friends, and one of them is {name}.",
                  (_Step("/", "Each of the {n} friends gets {x} {thing}."),)),
        ),
        "How many {thing} does {name} have in the end?",
    ),
    _Theme(
        "{a} {o} {b} = ${m}{r}",
        (
            _Part("{name} has ${t}."),
            _Part("{name} buys {p} {thing} at ${q} each.", (_Step("*", "The {thing} cost {x}.", "p", "q"),)),
            _Part("{name} earned ${p} and spent ${q} of it.", (_Step("-", "{name} keeps {x}.", "p", "q"),)),
            _Part("{name} works {p} hours for ${q} an hour and {k} hours for ${l} an hour.",
                  (_Step("*", "The first job brings {x}.", "p", "q"),
                   _Step("*", "The second one brings {x}.", "k", "l"),
                   _Step("+", "In all {name} earns {x}.", "u", "t"))),
        ),
        (
            _Part("{friend} adds ${n}.", (_Step("+", "With the money of {friend} it is {x}."),)),
            _Part("A fee of ${n} comes on top.", (_Step("+", "With the fee of ${n} it is {x}."),)),
            _Part("A coupon takes ${n} off.", (_Step("-", "The coupon leaves {x}."),)),
            _Part("{friend} pays ${n} of it.", (_Step("-", "Without what {friend} pays it is {x}."),)),
            _Part("That happens {n} times.", (_Step("*", "For all {n} times it is {x}."),)),
            _Part("It is split among {n} people.", (_Step("/", "The share of each is {x}."),)),
        ),
        "How many dollars is that for {name}?",
    ),
    _Theme(
        "{a} {o} {b} = {m}{r}",
        (
            _Part("A train leaves {city} with {t} people."),
            _Part("A train leaves {city} with {p} coaches of {q} people each.",
                  (_Step("*", "In {city} {x} people are on the train.", "p", "q"),)),
            _Part("A train leaves {city} with {p} women and {q} men.",
                  (_Step("+", "It leaves with {x} people.", "p", "q"),)),
            _Part("Of {p} people in {city}, {q} miss the train.",
                  (_Step("-", "So {x} people are on it.", "p", "q"),)),
        ),
        (
            _Part("At the next stop {n} people get on.", (_Step("+", "Then {n} get on, which makes {x} people."),)),
            _Part("A school class of {n} comes in.", (_Step("+", "With the class there are {x} people."),)),
            _Part("Then {n} people get off.", (_Step("-", "When they are off, {x} people stay."),)),
            _Part("In the night {n} go to bed.", (_Step("-", "In the night {x} people are up."),)),
            _Part("Everybody calls {n} others, who are now counted in their place.",
                  (_Step("*", "The {n} calls of each make {x} people."),)),
            _Part("They form {n} groups, and only one stays.", (_Step("/", "In one of {n} groups are {x} people."),)),
        ),
        "How many people are there at last?",
    ),
)
_CITIES = ("Rome", "Paris", "Vienna", "Berlin", "Madrid", "Oslo", "Dublin", "Athens")
# fmt: on


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
        theme = rng.choice(_THEMES)
        opening = rng.choice([part for part in theme.openings if len(part.steps) <= count])
        name, other, *friends = rng.sample(pool("people"), 3 + MOST_STEPS)
        words = {"name": name, "other": other, "thing": rng.choice(pool("objects")), "city": rng.choice(_CITIES)}
        sentence, lines, total = self._opened(theme, opening, words, rng)
        sentences = [sentence]
        moves = list(theme.moves)  # each occurs at most once, so that a line identifies its move
        while len(lines) < count:
            words["friend"] = friends[len(lines)]
            move, n = self._move(moves, total, rng)
            if not n:
                return None
            moves.remove(move)
            sentences.append(move.sentence.format(n=n, **words))
            line, total = _worked(theme, move.steps[0], total, n, words | {"n": n})
            lines.append(line)
        question = " ".join([*sentences, theme.question.format(**words), rng.choice(CUES)])
        return {"question": question, "answer": "\n".join([*lines, f"#### {total}"]), "steps": count}

    def _opened(
        self, theme: _Theme, opening: _Part, words: dict[str, Any], rng: random.Random
    ) -> tuple[str, list[str], int]:
        """The sentence of an opening, the lines of its steps, and its result."""
        drawn = {letter: self._number(rng) for letter in "tpqkl"}
        if any(step.operator == "*" for step in opening.steps):  # factors have at most three digits
            drawn = {letter: self._number(rng, 3) for letter in "tpqkl"}
        if opening.steps and opening.steps[0].operator == "-":
            drawn["p"], drawn["q"] = drawn["p"] + drawn["q"] + 1, drawn["q"]
        known, lines = dict(drawn), []
        for step in opening.steps:
            line, result = _worked(theme, step, known[step.first], known[step.second], words | drawn)
            lines.append(line)
            known["u"], known["t"] = known["t"], result
        return opening.sentence.format(**drawn, **words), lines, known["t"]

    def _number(self, rng: random.Random, digits: int | None = None) -> int:
        """A number of at least 2 with a drawn length."""
        length = rng.randint(1, min(self.max_digits, digits or self.max_digits))
        return max(rng.randrange(10 ** (length - 1), 10**length), 2)

    def _move(self, moves: list[_Part], total: int, rng: random.Random) -> tuple[_Part, int]:
        """A move that is possible with this total, and its number; the number is 0 if there is none."""
        for move in rng.sample(moves, len(moves)):
            operator = move.steps[0].operator
            n = self._number(rng, 3 if operator in "*/" else None)
            if operator == "-":
                n = min(n, total - 1)
            elif operator == "/":
                n = rng.choice([d for d in range(2, 1000) if total % d == 0] or [0])
            if n > 0:
                return move, n
        return moves[0], 0


def _worked(theme: _Theme, step: _Step, a: int, b: int, words: dict[str, Any]) -> tuple[str, int]:
    """A line of a solution, and its result."""
    result = evaluate_exactly(step.operator, str(a), str(b))
    assert isinstance(result, str), (step, a, b)
    mark = f"<<{a}{step.operator}{b}={result}>>"
    written = theme.form.format(a=a, o=step.operator, b=b, m=mark, r=result)
    return step.line.format(x=written, **words), int(result)
