"""Prompts with which a calculator has nothing to do: prose, numbers without arithmetic, talk about arithmetic.

Out: `Text`s, a few hundred of each kind, equal for equal arguments (the prose also depends on CPython's version).

* `prose`: windows of texts that no training saw, each with its real continuation. `documentation` is what the recipe
  of the embedded base holds out of its corpus, `everyday` stands in `harm_prose.py`. Windows overlap.
* `numbers`: requests with one number, two, or more, in which there is nothing to calculate.
* `about_arithmetic`: requests that name a calculation and ask something else about it, in figures or in words.

None of the phrasings is from the package's own families (a test compares them with its training rows). No model.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recipes"))  # the corpus of the embedded base

from tiny_base import corpus

from benchmarks.harm.prose import EVERYDAY


PROSE, NUMBERS, ABOUT = KINDS = ("prose", "numbers", "about_arithmetic")
PROMPT_WORDS, CONTINUATION_WORDS, STRIDE = 20, 28, 11
NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Text:
    """A user message; `continuation` is how its text really goes on, where it is from one."""

    prompt: str
    group: str
    continuation: str | None = None

    @property
    def numbers(self) -> int:
        """How many there are in figures."""
        return len(NUMBER.findall(self.prompt))


# fmt: off
_NUMBERS = {
    "one number": (
        "The parcel has the number {a} on it. Who could have sent it?",
        "Room {a} smells of fresh paint. What should we do about it?",
        "I live at {a} Harbour Street now. Would you come to visit?",
        "She turned {a} last week. Which present would please her?",
        "Tram {a} is never on time. Whom should I write to?",
        "My locker is number {a}. How do I get it open without the key?",
        "Why does everybody in my family like the number {a}?",
        "The old radio plays nothing but station {a}. What could be wrong with it?",
    ),
    "two numbers": (
        "The mill was built in {y} and burned down in {z}. Who may have lived there?",
        "Tram {a} stops here, and so does tram {b}. Which of them is nicer?",
        "Page {a} of the manual sends me to page {b}. What might be written there?",
        "Our seats are {a} and {b}. Are they by the window?",
        "Gate {a} is closed, so please go to gate {b}. Why did they close it?",
        "I moved from flat {a} to flat {b}. Should I tell the postman?",
        "They won {a} to {b} last night. Was it a good game?",
        "Road {a} meets road {b} near the lake. What does it look like there?",
        "Chapter {a} was dull, but chapter {b} made me cry. Shall I read on?",
        "The doors {a} and {b} are green. Who would paint them like that?",
        "Dial {a}, wait for the tone, then dial {b}. Who is going to answer?",
        "Form {a} has to be handed in before form {b}. Where do I get them?",
        "My grandmother was born in {y}, my grandfather in {z}. How may they have met?",
        "Ticket {a} won the lamp and ticket {b} the bicycle. Who is happier?",
        "Dear guest of room {a}, breakfast is served in room {b}. Will there be eggs?",
        "Bottle {a} stands on shelf {b}. What is in it, do you think?",
        "Take exit {a} and look for {b} Mill Lane. Is it a quiet street?",
        "In {y} the river froze, as it did in {z}. Were winters colder then?",
        "Platform {a} or platform {b}: where would you rather wait?",
        "Song {a} on the list is louder than song {b}. How can I change that?",
    ),
    "more numbers": (
        "The numbers on the doors were {a}, {b} and {c}. Which one would you open?",
        "Trams {a}, {b} and {c} go to the market. Which has the best view?",
        "Call me on {a} {b} {c}. When would it suit you?",
        "They drew {a}, {b}, {c} and {d}. Do you believe in luck?",
        "Rooms {a} to {b} are on floor {c}. Where is the lift?",
        "In {y}, in {z} and again in {w} the town was flooded. Why did people stay?",
        "Parcel {a} for flat {b} came with bus {c}. Who signed for it?",
        "Please read pages {a}, {b} and {c} tonight. Will you have the time?",
        "To open the safe, turn to {a}, then to {b}, then to {c}. Who else knows that?",
        "Houses {a} and {b} share garden {c}. Who cuts the grass there?",
        "Players {a}, {b} and {c} are ill. Who should be the captain?",
        "Kit {a} has bag {b} and bag {c}. What can be built with it?",
    ),
}
_ABOUT = (
    "Why is {x} hard to remember?",
    "Why do so many children find {x} hard to remember?",
    "My teacher began every lesson with {x}. Why that one, of all things?",
    "I dreamed of {x} last night. What could that tell me?",
    "Which trick helps people to keep {x} in mind?",
    "Nobody in my class knew {x}. Should they be ashamed of it?",
    "Is it rude to ask a guest for {x}?",
    "What did people do before calculators when they met {x}?",
    "When did you first hear of {x}?",
    "What makes {x} a poor password?",
    "Could a parrot be taught to say {x}?",
    "Describe how it feels to see {x} in an exam.",
    "The sign on the door said {x}, and everybody laughed. Why would they?",
    "How would an ancient Roman have written down {x}?",
    "Should pupils learn {x} by heart, or understand it?",
    "Does {x} look better in ink or in chalk?",
    "He got {x} wrong and blushed. What would you say to comfort him?",
    "Who would put {x} on a birthday cake?",
    "Give me one reason why {x} bores people.",
    "In which school year is {x} usually taught?",
    "What would a poet say about {x}?",
    "How long does a child need until it knows {x}?",
    "People say that {x} is {c}. Who was the first to say so?",
    "Everyone knows that {x} makes {c}. Why do we trust it?",
    "She laughs whenever she hears that {x} is {c}. What is so funny?",
)
# fmt: on
_EXPRESSIONS = (
    "{a} times {b}",
    "{a} plus {b}",
    "{a} minus {b}",
    "{a} divided by {b}",
    "{a} + {b}",
    "{a} * {b}",
    "{a} - {b}",
)
_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "eleven", "twelve", "twenty")
_SPELLED = ("{a} times {b}", "{a} plus {b}", "{a} minus {b}", "{a} divided by {b}")
_SHARE_IN_WORDS = 0.2


def texts(n: int, seed: int = 0) -> dict[str, list[Text]]:
    """Up to `n` distinct texts of each kind."""
    windows = [*windows_of("documentation", documentation()), *windows_of("everyday", EVERYDAY)]
    order = random.Random(f"harm/{PROSE}/{seed}")
    return {
        PROSE: order.sample(windows, min(n, len(windows))),
        NUMBERS: _distinct(n, seed, NUMBERS, _with_numbers),
        ABOUT: _distinct(n, seed, ABOUT, _about_arithmetic),
    }


def documentation() -> list[str]:
    """What the recipe holds out of the base's corpus, without grammars, code and lists."""
    kept = []
    for text in corpus.held_out_texts():
        paragraphs = corpus.split_paragraphs(text)
        kept.append(" ".join(p for p in paragraphs if not re.search(r"::=|>>>|^ |[*=|]{3}", p, re.MULTILINE)))
    return kept


def windows_of(group: str, sources: tuple[str, ...] | list[str]) -> Iterator[Text]:
    """Some words of a text and those behind them, again and again until it ends."""
    for source in sources:
        words = source.split()
        for start in range(0, len(words) - PROMPT_WORDS - CONTINUATION_WORDS + 1, STRIDE):
            middle = start + PROMPT_WORDS
            prompt, continuation = words[start:middle], words[middle : middle + CONTINUATION_WORDS]
            yield Text(" ".join(prompt), group, " ".join(continuation))


def _distinct(n: int, seed: int, kind: str, draw: Callable[[random.Random], Text]) -> list[Text]:
    """Texts of which no two have the same prompt."""
    rng = random.Random(f"harm/{kind}/{seed}")
    made: dict[str, Text] = {}
    while len(made) < n:
        text = draw(rng)
        made.setdefault(text.prompt, text)
    return list(made.values())


def _number(rng: random.Random) -> int:
    """Of one to four digits."""
    digits = rng.randint(1, 4)
    return rng.randrange(10 ** (digits - 1), 10**digits)


def _with_numbers(rng: random.Random) -> Text:
    """Groups come as often as they have phrasings."""
    choices = [(group, phrasing) for group, phrasings in _NUMBERS.items() for phrasing in phrasings]
    group, phrasing = rng.choice(choices)
    fields = {name: _number(rng) for name in "abcd"}
    years = sorted(rng.sample(range(1650, 2020), 3))
    return Text(phrasing.format(**fields, **dict(zip("yzw", years, strict=True))), group)


def _about_arithmetic(rng: random.Random) -> Text:
    """A calculation within a question that does not ask for it."""
    phrasing = rng.choice(_ABOUT)
    if rng.random() < _SHARE_IN_WORDS:
        a, b, c = rng.sample(_WORDS, 3)
        return Text(phrasing.format(x=rng.choice(_SPELLED).format(a=a, b=b), c=c), "in words")
    x = rng.choice(_EXPRESSIONS).format(a=_number(rng), b=_number(rng))
    return Text(phrasing.format(x=x, c=_number(rng)), "in figures")
