"""What the base model is asked: copying, choosing, spelling, small talk, and a little arithmetic.

In: a seeded `random.Random`. Out: (question, answer) pairs, and whole conversations as (text, is an answer) pieces.
The numbers are strings of 1 to 12 digits (copying: 14), so that copying is learned at every length. Arithmetic is a
small share with four wordings per operation, so that it is understood and stays unsolved.
Try it: `python -m tiny_base.questions` in `recipes`.
"""

import random
from collections.abc import Callable, Sequence

from .small_talk import FACTS, SYSTEM_PROMPTS
from .vocabulary import BEGIN, END


Pair = tuple[str, str]
Piece = tuple[str, bool]  # the text of a part of a conversation, and whether the model has to say it

OPERATORS = "+-*/"
WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
_WORD_PROBLEMS = {
    "+": "There are {a} birds on a tree and {b} more arrive. How many birds are there now?",
    "-": "A shop had {a} lamps and sold {b}. How many lamps are left?",
    "*": "Each of {a} bags holds {b} nuts. How many nuts are there?",
    "/": "{a} cards are dealt to {b} players. How many cards does each player get?",
}
_ORDERS = (
    ("Repeat", "the number {x}"),
    ("Repeat", "{x}"),
    ("Repeat after me:", "{x}"),
    ("Repeat:", "{x}"),
    ("Repeat this number:", "{x}"),
    ("Copy", "{x}"),
    ("Copy", "the number {x}"),
    ("Copy this:", "{x}"),
    ("Copy this number:", "{x}"),
    ("Echo", "{x}"),
    ("Write", "{x}"),
    ("Write", "the number {x}"),
    ("Write down", "{x}"),
    ("Say", "{x}"),
    ("Say", "the number {x}"),
    ("Print", "{x}"),
    ("Type", "{x}"),
    ("Output", "{x}"),
    ("Return", "{x}"),
    ("Give me", "the number {x}"),
    ("Tell me", "the number {x}"),
)
_POLITE = ("", "", "", "Please ", "Can you ", "Could you ", "Now ")
_ENDINGS = (
    "",
    "",
    ".",
    ".",
    "!",
    " again.",
    " for me",
    " for me.",
    ", please.",
    " please",
    " once more.",
    " exactly.",
)
_RECALLS = (
    "{x}",
    "My number is {x}. What is my number?",
    "The code is {x}. What is the code?",
    "I have {x} books. How many books do I have?",
    "Remember {x}. Which number did I tell you?",
    "Number: {x}\nRepeat the number.",
    "The number is {x}. Say it again.",
    "Here is a number: {x}. Write the same number.",
)
_SWAPS = (
    "{x} and {y}",
    "Swap {x} and {y}.",
    "Write {x} and {y} in reverse order.",
    "Put {y} before {x}, not {x} before {y}.",
    "Exchange the numbers {x} and {y}.",
    "Turn {x} and {y} around.",
)
_SPELLINGS = ("Spell {x}.", "Spell out the digits of {x}.", "Which digits does {x} have?", "Write {x} digit by digit.")
_JOININGS = ("Join the digits {x}.", "Write {x} as one number.", "Put together: {x}")
_CHOICES = {
    "first": ("Which number comes first: {all}?", "What is the first of {all}?", "Take the first number: {all}"),
    "second": ("Which number comes second: {all}?", "What is the second of {all}?", "Take the second number: {all}"),
    "last": ("Which number comes last: {all}?", "What is the last of {all}?", "Take the last number: {all}"),
    "largest": ("Which is the largest: {all}?", "Find the maximum of {all}."),
    "smallest": ("Which is the smallest: {all}?", "Find the minimum of {all}."),
}
_OWNERS = (
    ("Anna has {x} coins and Ben has {y}. How many coins does {who} have?", ("Anna", "Ben")),
    ("The red box holds {x} pears, the blue box {y}. How many pears are in the {who} box?", ("red", "blue")),
    ("Train {x} goes to Rome, train {y} to Paris. Which train goes to {who}?", ("Rome", "Paris")),
    ("On Monday {x} guests came, on Sunday {y}. How many guests came on {who}?", ("Monday", "Sunday")),
)
_PHRASES = ("Repeat: {x}", "Repeat after me: {x}", "Say: {x}", "Copy this: {x}", "Echo: {x}")


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
        _WORD_PROBLEMS[operator].format(a=a, b=b),
    )
    return rng.choice(wordings), str(compute(operator, a, b))


def repeat(rng: random.Random) -> Pair:
    """A number to say again, in one of some hundred wordings, with words before and after it."""
    x = draw_number(rng, high=14)
    if rng.random() < 0.3:
        return rng.choice(_RECALLS).format(x=x), x
    polite, (verb, thing), ending = rng.choice(_POLITE), rng.choice(_ORDERS), rng.choice(_ENDINGS)
    if polite.startswith(("Can", "Could")):
        ending = ending.rstrip(".!") + "?"
    verb = verb[0].lower() + verb[1:] if polite else verb
    return polite + verb + " " + thing.format(x=x) + ending, x


def swap(rng: random.Random) -> Pair:
    """Two numbers to say in the other order."""
    x, y = draw_number(rng), draw_number(rng)
    return rng.choice(_SWAPS).format(x=x, y=y), f"{y} and {x}"


def spell(rng: random.Random) -> Pair:
    """A number to take apart into digits, or digits to put together."""
    x = draw_number(rng, high=8, negative=0.0)
    if rng.random() < 0.25:
        return rng.choice(_JOININGS).format(x=" ".join(x)), x
    return rng.choice(_SPELLINGS).format(x=x), " ".join(x)


def choose(rng: random.Random) -> Pair:
    """One of several numbers, by place or by size."""
    how = rng.choice(list(_CHOICES))
    if how in ("largest", "smallest"):
        count = rng.randint(1, 9)
        values = [draw_number(rng, max(1, count - 1), count, negative=0.0) for _ in range(rng.randint(2, 3))]
        answer = (max if how == "largest" else min)(values, key=int)
    else:
        values = [draw_number(rng, high=9) for _ in range(rng.randint(2, 4))]
        answer = values[{"first": 0, "second": 1, "last": -1}[how]]
    return rng.choice(_CHOICES[how]).format(all=", ".join(values)), answer


def own(rng: random.Random) -> Pair:
    """Two owners, two numbers, and the question for one of them."""
    numbers = draw_number(rng, negative=0.0), draw_number(rng, negative=0.0)
    wording, owners = rng.choice(_OWNERS)
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
        return rng.choice(_PHRASES).format(x=x), x

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
            head += f"<|system|>{self.rng.choice(SYSTEM_PROMPTS)}{END}"
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
