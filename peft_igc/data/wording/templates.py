"""A few dozen templates of each operation, and the small wording that draws from them.

`FEW` is the wording of the hidden interface's demonstration; `Templates` makes one of your own templates, for instance
for another operation. `{a}` and `{b}` are the operands in the calculator's order: `{a}` is the minuend or the dividend
even where the text names it second ("Subtract {b} from {a}"). No template leaves that order open, so "the difference
between" is not used. Stories (templates with a `{name}`) suit only counts: no negative operand, and no more is taken
away than there is. Numbers are always plain digits. Nothing is split into trained and held-out texts (`wording`).
Try it: `pytest tests/data/test_data.py -k phrasing`.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..mixture import Mixture
from .requests import BIGBENCH
from .wording import Text, derived_fields, draw_date
from .words import CITIES, NAMES, SYSTEM, THINGS, UNABLE, WORDS


__all__ = ["FEW", "PLAIN", "TEMPLATES", "Templates"]

TEMPLATES: dict[str, tuple[str, ...]] = {
    "+": (
        BIGBENCH["+"],
        "{a} + {b} =",
        "{a} + {b}",
        "{a}+{b}",
        "{a}+{b}=",
        "{a} + {b} = ?",
        "{a} plus {b}",
        "{a} plus {b} is",
        "{a} plus {b} equals",
        "What is {a} + {b}?",
        "What's {a} + {b}?",
        "What does {a} plus {b} equal?",
        "How much is {a} plus {b}?",
        "Add {a} and {b}.",
        "Add {b} to {a}.",
        "Add the numbers {a} and {b}.",
        "Add {a} and {b} together.",
        "Calculate {a} + {b}.",
        "Calculate the sum of {a} and {b}.",
        "Compute {a} plus {b}.",
        "Compute the sum of {a} and {b}.",
        "Find the sum of {a} and {b}.",
        "What is the sum of {a} and {b}?",
        "What is the total of {a} and {b}?",
        "Sum {a} and {b}.",
        "Please add {a} and {b}.",
        "Can you add {a} and {b}?",
        "Work out {a} + {b}.",
        "Evaluate {a} + {b}.",
        "Solve: {a} + {b}",
        "Tell me {a} plus {b}.",
        "Increase {a} by {b}.",
        "What do you get if you add {b} to {a}?",
        "Which number is {b} more than {a}?",
        "If x = {a} and y = {b}, what is x + y?",
        "Q: What is {a} plus {b}?\n\nA:",
        "{name} has {a} {thing} and gets {b} more. How many {thing} does {name} have now?",
        "{name} had {a} {thing} and bought {b} more. How many {thing} are there now?",
        "{name} sees {a} {thing} in one box and {b} in another. How many {thing} are there in all?",
        "{name} counted {a} {thing} on Monday and {b} on Tuesday. How many {thing} is that in total?",
        "{name} has a jar with {a} {thing}. After {b} more are put in, how many are in it?",
    ),
    "-": (
        BIGBENCH["-"],
        "{a} - {b} =",
        "{a} - {b}",
        "{a}-{b}",
        "{a}-{b}=",
        "{a} - {b} = ?",
        "{a} minus {b}",
        "{a} minus {b} is",
        "{a} minus {b} equals",
        "{a} take away {b}",
        "What is {a} - {b}?",
        "What's {a} - {b}?",
        "What does {a} minus {b} equal?",
        "How much is {a} minus {b}?",
        "Subtract {b} from {a}.",
        "Subtract the number {b} from {a}.",
        "Take {b} away from {a}.",
        "Take {b} from {a}.",
        "Deduct {b} from {a}.",
        "Calculate {a} - {b}.",
        "Calculate {a} minus {b}.",
        "Compute {a} - {b}.",
        "Compute {a} minus {b}.",
        "Work out {a} - {b}.",
        "Evaluate {a} - {b}.",
        "Solve: {a} - {b}",
        "Please subtract {b} from {a}.",
        "Can you subtract {b} from {a}?",
        "Tell me {a} minus {b}.",
        "Decrease {a} by {b}.",
        "Reduce {a} by {b}.",
        "What is {a} less {b}?",
        "What is {a} reduced by {b}?",
        "What do you get if you subtract {b} from {a}?",
        "What is left if you take {b} away from {a}?",
        "Which number is {b} less than {a}?",
        "If x = {a} and y = {b}, what is x - y?",
        "Q: What is {a} minus {b}?\n\nA:",
        "{name} has {a} {thing} and gives away {b}. How many {thing} are left?",
        "{name} had {a} {thing} and lost {b} of them. How many {thing} does {name} still have?",
        "Of {a} {thing}, {name} sold {b}. How many {thing} remain?",
        "There were {a} {thing} in the store. {name} took {b} of them. How many {thing} are still there?",
        "{name} needs {a} {thing} and already has {b}. How many {thing} are missing?",
    ),
    "*": (
        BIGBENCH["*"],
        "{a} * {b} =",
        "{a} * {b}",
        "{a}*{b}",
        "{a}*{b}=",
        "{a} * {b} = ?",
        "{a} x {b} =",
        "{a} x {b}",
        "{a} × {b} =",
        "{a} × {b}",
        "{a} times {b}",
        "{a} times {b} is",
        "{a} times {b} equals",
        "{a} multiplied by {b}",
        "What is {a} * {b}?",
        "What's {a} x {b}?",
        "What does {a} times {b} equal?",
        "What is {a} multiplied by {b}?",
        "How much is {a} times {b}?",
        "Multiply {a} by {b}.",
        "Multiply {a} and {b}.",
        "Multiply the number {a} by {b}.",
        "Calculate {a} * {b}.",
        "Calculate {a} times {b}.",
        "Calculate the product of {a} and {b}.",
        "Compute {a} * {b}.",
        "Compute {a} times {b}.",
        "Find the product of {a} and {b}.",
        "What is the product of {a} and {b}?",
        "Work out {a} x {b}.",
        "Evaluate {a} * {b}.",
        "Solve: {a} * {b}",
        "Please multiply {a} by {b}.",
        "Can you multiply {a} by {b}?",
        "Tell me {a} times {b}.",
        "What do you get if you multiply {a} by {b}?",
        "If x = {a} and y = {b}, what is x * y?",
        "Q: What is {a} times {b}?\n\nA:",
        "{name} has {a} boxes with {b} {thing} each. How many {thing} are there in all?",
        "{name} buys {a} bags of {b} {thing} each. How many {thing} is that?",
        "Every day for {a} days {name} collects {b} {thing}. How many {thing} is that in total?",
        "{name} puts {b} {thing} on each of {a} tables. How many {thing} are needed?",
    ),
    "/": (
        BIGBENCH["/"],
        "{a} / {b} =",
        "{a} / {b}",
        "{a}/{b}",
        "{a}/{b}=",
        "{a} / {b} = ?",
        "{a} ÷ {b} =",
        "{a} ÷ {b}",
        "{a}÷{b}=",
        "{a} divided by {b}",
        "{a} divided by {b} is",
        "{a} divided by {b} equals",
        "{a} over {b} equals",
        "What is {a} / {b}?",
        "What's {a} ÷ {b}?",
        "What does {a} divided by {b} equal?",
        "How much is {a} divided by {b}?",
        "Divide {a} by {b}.",
        "Divide the number {a} by {b}.",
        "Calculate {a} / {b}.",
        "Calculate {a} divided by {b}.",
        "Calculate the quotient of {a} and {b}.",
        "Compute {a} / {b}.",
        "Compute {a} divided by {b}.",
        "Find the quotient of {a} and {b}.",
        "What is the quotient of {a} and {b}?",
        "How many times does {b} go into {a}?",
        "How often does {b} fit into {a}?",
        "Work out {a} ÷ {b}.",
        "Evaluate {a} / {b}.",
        "Solve: {a} / {b}",
        "Please divide {a} by {b}.",
        "Can you divide {a} by {b}?",
        "Tell me {a} divided by {b}.",
        "What do you get if you divide {a} by {b}?",
        "If x = {a} and y = {b}, what is x / y?",
        "Q: What is {a} divided by {b}?\n\nA:",
        "{name} shares {a} {thing} equally among {b} friends. How many {thing} does each friend get?",
        "{name} packs {a} {thing} into {b} equal boxes. How many {thing} are in each box?",
        "With {b} {thing} in every bag, how many bags does {name} need for {a} {thing}?",
        "{b} tables get {a} {thing} in equal parts. How many {thing} does {name} put on each?",
    ),
}

# (prompt, completion) pairs labelled "none", many of them close to a template above. Fields: numbers {a} {b} {c} as
# long as operands, one digit {d}, {spaced} {first} {last} digits of {a}, {low} {high} of {a} and {b},
# {words} {word} {count}, {date} {day} {month} {year}, {name} {other} {thing} {city}.
PLAIN: tuple[tuple[str, str], ...] = (
    ("Repeat {a}", "{a}"),
    ("Repeat {a}.", "{a}"),
    ("Repeat the number {a}.", "{a}"),
    ("Say {a}.", "{a}"),
    ("Write the number {a}.", "{a}"),
    ("Copy this number: {a}", "{a}"),
    ("Type {a} once more.", "{a}"),
    ("What number is this: {a}?", "{a}"),
    ("The code is {a}. What is the code?", "{a}"),
    ("Ticket {a} won the prize. Which ticket won?", "{a}"),
    ("Flight {a} leaves at noon. Which flight leaves at noon?", "{a}"),
    ("{name} lives at number {a}. At which number does {name} live?", "{a}"),
    ("{name} has {a} {thing}. How many {thing} does {name} have?", "{a}"),
    ("{name} has {a} {thing} and {other} has {b}. How many {thing} does {name} have?", "{a}"),
    ("{name} has {a} {thing} and {other} has {b}. How many {thing} does {other} have?", "{b}"),
    ("Bus {a} stops in {city}, bus {b} does not. Which bus stops in {city}?", "{a}"),
    ("Repeat {a} and {b}.", "{a} {b}"),
    ("Write {a} and then {b}.", "{a} {b}"),
    ("Swap {a} and {b}.", "{b} {a}"),
    ("Which comes first: {a} or {b}?", "{a}"),
    ("Which comes last: {a} or {b}?", "{b}"),
    ("Which is larger: {a} or {b}?", "{high}"),
    ("Which is smaller: {a} or {b}?", "{low}"),
    ("What is the larger of {a} and {b}?", "{high}"),
    ("What is the first number in {a}, {b}, {c}?", "{a}"),
    ("What is the last number in {a}, {b}, {c}?", "{c}"),
    ("What comes after {a} in {a}, {b}, {c}?", "{b}"),
    ("Spell {a} digit by digit.", "{spaced}"),
    ("Spell the digits of {a}.", "{spaced}"),
    ("Join the digits {spaced}.", "{a}"),
    ("What is the first digit of {a}?", "{first}"),
    ("What is the last digit of {a}?", "{last}"),
    ("How do you read {a} + {b}? Do not solve it.", "{a} + {b}"),
    ("Repeat: {a} * {b}", "{a} * {b}"),
    ("Write down {a} - {b} without solving it.", "{a} - {b}"),
    ("Page {a} of {b}", "{a}"),
    ("Repeat the date {date}.", "{date}"),
    ("The meeting is on {date}. When is the meeting?", "{date}"),
    ("The meeting is on {day} {month} {year}. In which month is it?", "{month}"),
    ("{name} was born in {year}. In which year was {name} born?", "{year}"),
    ("In {year}, {name} moved to {city}. Where did {name} move?", "{city}"),
    ("Which year is in {date}?", "{year}"),
    ("The train leaves at {d}:30. When does it leave?", "{d}:30"),
    ("Call me on {a}-{b}.", "{a}-{b}"),
    ("The score was {a}:{b}.", "{a}:{b}"),
    ("Repeat: {words}", "{words}"),
    ("Say this: {words}", "{words}"),
    ("How many words are in: {words}?", "{count}"),
    ("Count the words: {words}", "{count}"),
    ("What is the first word of: {words}?", "{word}"),
    ("Say {word}.", "{word}"),
    ("{name} likes {thing}. What does {name} like?", "{thing}"),
    ("{name} lives in {city}. Where does {name} live?", "{city}"),
    ("Hello, I am {name}. What is my name?", "{name}"),
    ("What is the opposite of hot?", "cold"),
    ("What colour is the sky?", "blue"),
    ("How are you?", "I am fine."),
    # Arithmetic that the calculator does not support: the result of a part of it would be a wrong number.
    ("What is {a} plus {b} plus {c}?", UNABLE),
    ("{a} + {b} + {c} =", UNABLE),
    ("{a} * {b} - {c} =", UNABLE),
    ("({a} + {b}) * {c} =", UNABLE),
    ("What is {a}.{d} plus {b}?", UNABLE),
    ("{a} * {b}.{d} =", UNABLE),
    ("What is {d}% of {a}?", UNABLE),
    ("What is the square root of {a}?", UNABLE),
    ("What is {a} to the power of {d}?", UNABLE),
)


@dataclass(frozen=True)
class Templates:
    """A wording of a few templates for each operation. Its methods are those of `Wording` that rows need.

    It puts nothing around a request and draws nothing for that, and it draws a row's system prompt last: the recorded
    runs of the hidden interface trained on rows drawn in this order.

    Args:
        by_operator: By symbol, the templates with the fields `{a}` and `{b}`, and optionally `{name}` and `{thing}`.
    """

    by_operator: Mapping[str, Sequence[str]]

    lacks: ClassVar[tuple[str, ...]] = (
        *("unsupported", "spelled_signs", "separators", "contexts", "sentences", "expressions", "look_alikes"),
        "casual",
    )
    system_first: ClassVar[bool] = False

    @property
    def operations(self) -> tuple[str, ...]:
        """The symbols that have templates."""
        return tuple(symbol for symbol, templates in self.by_operator.items() if templates)

    def restarted(self) -> "Templates":
        """Itself: nothing is counted here."""
        return self

    def system(self, rng: random.Random) -> str:
        """A system prompt."""
        return rng.choice(SYSTEM)

    def request(
        self, operator: str, a: str, b: str, rng: random.Random, mixture: Mixture, bigbench: bool = False
    ) -> Text:
        """A calculation in words; arguments as in `Wording.request`. Other operations have no BIG-bench form."""
        if bigbench and operator in BIGBENCH:
            return Text(BIGBENCH[operator].format(a=a, b=b))
        templates, first, second = self.by_operator[operator], int(a), int(b)
        if min(first, second) < 0 or (operator == "-" and first < second):
            templates = [text for text in templates if "{name}" not in text] or templates
        template = rng.choice(templates)
        return Text(template.format(a=a, b=b, name=rng.choice(NAMES), thing=rng.choice(THINGS)))

    def without_calculation(
        self, kind: str, draw_number: Callable[[], str], rng: random.Random, mixture: Mixture
    ) -> Text:
        """A text that asks for no calculation; arguments as in `Wording.without_calculation`."""
        numbers = [draw_number() for _ in range(3)]
        words = rng.choices(WORDS, k=rng.randint(2, 6))
        name, other = rng.sample(NAMES, 2)
        values = dict(zip("abc", numbers, strict=True)) | derived_fields(numbers, words, draw_date(rng))
        values |= {"name": name, "other": other, "d": str(rng.randrange(10))}
        values |= {"thing": rng.choice(THINGS), "city": rng.choice(CITIES)}
        prompt, completion = rng.choice(PLAIN)
        return Text(prompt.format(**values), completion.format(**values))

    def typed(self, text: str, rng: random.Random, mixture: Mixture, asks: bool = True) -> str:
        """The text as it is."""
        return text

    def in_context(self, text: str, rng: random.Random, mixture: Mixture) -> str:
        """The text as it is."""
        return text

    def in_sentence(self, prompt: str, system: str | None, rng: random.Random, mixture: Mixture) -> bool:
        """False: every completion is the bare number."""
        return False


FEW = Templates(TEMPLATES)
