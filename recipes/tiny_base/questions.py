"""What the base model is asked: copying, choosing, spelling, small talk, and a little arithmetic.

In: a seeded `random.Random`. Out: (question, answer) pairs, and whole conversations as (text, is an answer) pieces.
The numbers are strings of 1 to 12 digits (copying: 14), so that copying is learned at every length. Arithmetic is a
small share with four wordings per operation, so that it is understood and stays unsolved. The wordings, and what the
model knows by heart, are in `questions.toml`.
Try it: `python -m tiny_base.questions` in `recipes`.
"""

import random
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from .vocabulary import BEGIN, END


Pair = tuple[str, str]
Piece = tuple[str, bool]  # the text of a part of a conversation, and whether the model has to say it

OPERATORS = "+-*/"
WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FACTS = (  # memorised, not understood; their use is that an answer is not always a number
    *((f"What is the capital of {land}?", f"{city}.") for land, city in _TEXTS["capitals"].items()),
    *((f"What is the opposite of {word}?", f"{other.capitalize()}.") for word, other in _TEXTS["opposites"].items()),
    *((f"What colour is {one}?", f"{one.capitalize()} is {colour}.") for one, colour in _TEXTS["colours"].items()),
    *((f"What does a {animal} say?", noise) for animal, noise in _TEXTS["noises"].items()),
    *((f"How many {question}?", count) for question, count in _TEXTS["counts"].items()),
    *_TEXTS["sentences"].items(),
)


def draw_number(rng: random.Random, low: int = 1, high: int = 12, negative: float = 0.1) -> str:
    """A number whose count of digits is uniform in `low`..`high`; a few are negative, a few begin with zeros."""
    count = rng.randint(low, high)
    sign = "-" if rng.random() < negative else ""
    if rng.random() < 0.04:
        return sign + "".join(rng.choices("0123456789", k=count))
    return sign + str(_draw_exactly(rng, count))


def _draw_exactly(rng: random.Random, count: int) -> int:
    return rng.randint(0 if count == 1 else 10 ** (count - 1), 10**count - 1)


def draw_operands(rng: random.Random, operator: str, count: int) -> tuple[int, int]:
    """Two operands in BIG-bench's form: both of `count` digits; a dividend of `count` digits and any divisor of it."""
    a, b = _draw_exactly(rng, count), _draw_exactly(rng, count)
    if operator == "/":
        divisors = [small for small in range(1, int(a**0.5) + 1) if a % small == 0]
        b = rng.choice(sorted({*divisors, *(a // small for small in divisors)})) if a else max(1, b)
    return a, b


def compute(operator: str, a: int, b: int) -> int:
    """The exact result; a division that leaves a remainder is an error of the caller."""
    if operator == "/":
        assert a % b == 0, (a, b)
        return a // b
    return {"+": a + b, "-": a - b, "*": a * b}[operator]


def bigbench_question(operator: str, a: int, b: int) -> Pair:
    """BIG-bench's wording: `What is 58 times 36?`."""
    return f"What is {a} {WORDS[operator]} {b}?", str(compute(operator, a, b))


def arithmetic(rng: random.Random) -> Pair:
    """A calculation with operands of one to five digits, in one of four wordings."""
    operator = rng.choice(OPERATORS)
    a, b = draw_operands(rng, operator, rng.randint(1, 5))
    wordings = (
        bigbench_question(operator, a, b)[0],
        f"{a} {operator} {b} =",
        f"Calculate {a} {operator} {b}.",
        _TEXTS["word_problems"][operator].format(a=a, b=b),
    )
    return rng.choice(wordings), str(compute(operator, a, b))


def repeat(rng: random.Random) -> Pair:
    """A number to say again, in one of some hundred wordings, with words before and after it."""
    x = draw_number(rng, high=14)
    if rng.random() < 0.3:
        return rng.choice(_TEXTS["recalls"]).format(x=x), x
    polite, (verb, thing), ending = (
        rng.choice(_TEXTS["polite"]),
        rng.choice(_TEXTS["orders"]),
        rng.choice(_TEXTS["endings"]),
    )
    if polite.startswith(("Can", "Could")):
        ending = ending.rstrip(".!") + "?"
    verb = verb[0].lower() + verb[1:] if polite else verb
    return polite + verb + " " + thing.format(x=x) + ending, x


def swap(rng: random.Random) -> Pair:
    """Two numbers to say in the other order."""
    x, y = draw_number(rng), draw_number(rng)
    return rng.choice(_TEXTS["swaps"]).format(x=x, y=y), f"{y} and {x}"


def spell(rng: random.Random) -> Pair:
    """A number to take apart into digits, or digits to put together."""
    x = draw_number(rng, high=8, negative=0.0)
    if rng.random() < 0.25:
        return rng.choice(_TEXTS["joinings"]).format(x=" ".join(x)), x
    return rng.choice(_TEXTS["spellings"]).format(x=x), " ".join(x)


def choose(rng: random.Random) -> Pair:
    """One of several numbers, by place or by size."""
    how = rng.choice(list(_TEXTS["choices"]))
    if how in ("largest", "smallest"):
        count = rng.randint(1, 9)
        values = [draw_number(rng, max(1, count - 1), count, negative=0.0) for _ in range(rng.randint(2, 3))]
        answer = (max if how == "largest" else min)(values, key=int)
    else:
        values = [draw_number(rng, high=9) for _ in range(rng.randint(2, 4))]
        answer = values[{"first": 0, "second": 1, "last": -1}[how]]
    return rng.choice(_TEXTS["choices"][how]).format(all=", ".join(values)), answer


def own(rng: random.Random) -> Pair:
    """Two owners, two numbers, and the question for one of them."""
    numbers = draw_number(rng, negative=0.0), draw_number(rng, negative=0.0)
    wording, owners = rng.choice(_TEXTS["owners"])
    index = rng.randrange(2)
    return wording.format(x=numbers[0], y=numbers[1], who=owners[index]), numbers[index]


def fact(rng: random.Random) -> Pair:
    """Something known by heart."""
    return rng.choice(FACTS)


class Conversations:
    """An endless seeded stream of conversations.

    Args:
        words: words of prose, in order; phrases to repeat are cut from them.
        seed: equal seeds give equal streams.
    """

    def __init__(self, words: Sequence[str], seed: int):
        self.words = words
        self.rng = random.Random(seed)
        # In per cent. Copying and choosing are what reading operands needs; arithmetic stays rare.
        self.mixture: dict[Callable[[random.Random], Pair], int] = {
            repeat: 28,
            swap: 14,
            spell: 10,
            choose: 15,
            own: 8,
            arithmetic: 8,
            fact: 6,
            self.phrase: 11,
        }

    def phrase(self, rng: random.Random) -> Pair:
        """One to eight words of prose to repeat."""
        start = rng.randrange(len(self.words) - 8)
        x = " ".join(self.words[start : start + rng.randint(1, 8)])
        return rng.choice(_TEXTS["phrases"]).format(x=x), x

    def question(self) -> Pair:
        """A question of the mixture."""
        (kind,) = self.rng.choices(list(self.mixture), list(self.mixture.values()))
        return kind(self.rng)

    def short(self) -> list[Piece]:
        """One question or two in the chat format; 8% without it, as plain text that is to be continued."""
        if self.rng.random() < 0.08:
            question, answer = self.question()
            gap = ("", " ") if question.endswith("=") else ("\n", "")
            return [(BEGIN + question + gap[0], False), (gap[1] + answer + END, True)]
        return self.chat(2 if self.rng.random() < 0.1 else 1)

    def chat(self, turns: int) -> list[Piece]:
        """`turns` questions with their answers, exactly as the chat template writes them; 15% with a system prompt."""
        head = BEGIN
        if self.rng.random() < 0.15:
            head += f"<|system|>{self.rng.choice(_TEXTS['system_prompts'])}{END}"
        pieces: list[Piece] = []
        for _ in range(turns):
            question, answer = self.question()
            pieces += [(f"{head}<|user|>{question}{END}<|assistant|>", False), (answer + END, True)]
            head = ""
        return pieces


if __name__ == "__main__":
    stream = Conversations("the value of an object is what it refers to".split(), seed=0)
    for _ in range(40):
        print("".join(text for text, _ in stream.short()))
