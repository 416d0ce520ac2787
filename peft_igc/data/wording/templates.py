"""The small wording: a few dozen templates of each operation, without alternatives.

`FEW` is the wording of the hidden interface's demonstration (`few.txt`); `Templates` makes one of your own templates,
for instance for another operation. `{a}` and `{b}` are the operands in the calculator's order: `{a}` is the minuend or
the dividend even where the text names it second ("Subtract {b} from {a}"). Stories (templates with a `{name}`) suit
only counts: no negative operand, and no more is taken away than there is. Numbers are always plain digits. Nothing is
split into trained and held-out texts (`wording`). Try it: `pytest tests/data/test_arithmetic.py`.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..mixture import Mixture
from .filling import derived, draw_date
from .phrases import BIGBENCH, pools, words
from .wording import Text


__all__ = ["FEW", "Templates"]


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
        *("casual", "by_hand"),
    )
    system_first: ClassVar[bool] = False

    @property
    def operations(self) -> tuple[str, ...]:
        """The symbols that have templates."""
        return tuple(symbol for symbol, templates in self.by_operator.items() if templates)

    def system(self, rng: random.Random) -> str:
        """A system prompt."""
        return rng.choice(pools("few")["systems"])

    def request(
        self, operator: str, a: str, b: str, rng: random.Random, mixture: Mixture, bigbench: bool = False
    ) -> Text:
        """A calculation in words; arguments as in `Wording.request`. Other operations have no BIG-bench form."""
        if bigbench and operator in BIGBENCH:
            return Text(BIGBENCH[operator].format(a=a, b=b))
        templates, first, second = self.by_operator[operator], int(a), int(b)
        if min(first, second) < 0 or (operator == "-" and first < second):
            templates = [text for text in templates if "{name}" not in text] or templates
        template, name, thing = rng.choice(templates), rng.choice(words("few names")), rng.choice(words("few things"))
        return Text(template.format(a=a, b=b, name=name, thing=thing))

    def without_calculation(
        self, kind: str, draw_number: Callable[[], str], rng: random.Random, mixture: Mixture
    ) -> Text:
        """A text that asks for no calculation; arguments as in `Wording.without_calculation`."""
        numbers = [draw_number() for _ in range(3)]
        said = rng.choices(words("words"), k=rng.randint(2, 6))
        name, other = rng.sample(words("few names"), 2)
        values = dict(zip("abc", numbers, strict=True)) | derived(numbers, said, draw_date(rng))
        values |= {"name": name, "other": other, "d": str(rng.randrange(10))}
        values |= {"thing": rng.choice(words("few things")), "city": rng.choice(words("cities"))}
        prompt, completion = rng.choice(pools("few")["silent"]).split("\t")
        return Text(prompt.format(**values), completion.format(**values))

    def typed(self, text: str, rng: random.Random, mixture: Mixture) -> str:
        """The text as it is."""
        return text

    def in_context(self, text: str, rng: random.Random, mixture: Mixture) -> str:
        """The text as it is."""
        return text

    def in_sentence(self, prompt: str, system: str | None, rng: random.Random, mixture: Mixture) -> bool:
        """False: every completion is the bare number."""
        return False


FEW = Templates(pools("few")["requests"])
