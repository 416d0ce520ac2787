"""Chats of several turns, some with arithmetic: rows with one entry per turn, for training and tests.

The turns are rows of `ArithmeticRows`; after a turn that was answered with a bare number, some turns continue from
that number (`Add 5 to that.`). In: a stream of conversational rows. Out: rows `{"messages", "igc_operator",
"igc_operands", "igc_result"}`, whose operand columns are lists with one entry per answer, as `to_dataset` and the
trainer expect. Nothing is tokenized here.
Try it: `python -c "from peft_igc.data.chats import *; print(Conversations(arithmetic_chats(0), 0).take(1))"`.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..numbers.calculator import Status, evaluate_exactly
from .arithmetic import ArithmeticRows, Row
from .columns import ALL_COLUMNS, COLUMNS
from .mixture import TOKENS_MIXTURE, Mixture
from .wording.phrases import pools
from .wording.wording import TRAINING


__all__ = ["Conversations", "arithmetic_chats"]


def arithmetic_chats(
    seed: int,
    max_digits: int = 6,
    mixture: Mixture = TOKENS_MIXTURE,
    excluded: Iterable[Mapping[str, Any]] = (),
) -> ArithmeticRows:
    """The stream of turns for `Conversations`.

    Args:
        seed: Seed of the stream.
        max_digits: Length of the longest operand.
        mixture: Fractions of arithmetic and of other requests.
        excluded: Test items whose calculations are left out.
    """
    return ArithmeticRows(
        seed, max_digits=max_digits, num_digits=40, mixture=mixture, exclude=excluded, wording=TRAINING
    )


class Conversations:
    """An endless, seeded stream of chats.

    Args:
        rows: The turns, conversational rows with one answer. Only a chat's first turn keeps its system prompt.
        seed: Equal rows and seeds give equal chats.
        turns: Smallest and largest number of turns of a chat.
        onwards: Fraction of the turns after a bare result that continue from it.
    """

    def __init__(self, rows: Iterable[Row], seed: int, turns: tuple[int, int] = (2, 6), onwards: float = 0.3) -> None:
        if not 1 <= turns[0] <= turns[1]:
            raise ValueError(f"`turns={turns}` is not a range (fewest, most) with at least one turn. Correct it.")
        self.rows, self.seed, self.turns, self.onwards = rows, seed, turns, onwards

    def __iter__(self) -> Iterator[Row]:
        rng = random.Random(f"Conversations/{self.seed}")
        source = iter(self.rows)
        while True:
            made: list[Row] = []
            for _ in range(rng.randint(*self.turns)):
                before = made[-1] if made else None
                if before is not None and _is_bare(before) and rng.random() < self.onwards:
                    made.append(_onward(str(before["igc_result"]), rng))
                    continue
                row = next(source, None)
                if row is None:
                    return
                made.append(row)
            yield _joined(made)

    def take(self, n: int) -> list[Row]:
        """The first `n` chats."""
        return list(itertools.islice(self, n))


def _is_bare(row: Row) -> bool:
    """Whether a turn was answered with an integer alone."""
    result = str(row.get("igc_result"))  # as a string or an integer
    return result.lstrip("-").isdigit() and row["completion"][0]["content"] == result


def _onward(result: str, rng: random.Random) -> Row:
    """A turn that continues from the result before it."""
    while True:
        operator = rng.choice("+-*/")
        n = str(rng.randrange(2, 10 ** rng.randint(1, 4)))
        if operator == "/":
            n = str(rng.choice([d for d in range(2, 100) if int(result) % d == 0] or [0]))
        exact = evaluate_exactly(operator, result, n)
        if not isinstance(exact, Status) and len(exact.lstrip("-")) <= 40:
            break
    request = rng.choice(pools("context")["onwards"][operator]).format(n=n)
    columns = dict(zip(COLUMNS, (operator, [result, n], exact), strict=True))
    return {"prompt": [_message("user", request)], "completion": [_message("assistant", exact)], **columns}


def _joined(turns: list[Row]) -> Row:
    """One chat of several rows; system prompts are dropped except in the first row."""
    messages = [
        message
        for at, row in enumerate(turns)
        for message in (*row["prompt"], *row["completion"])
        if not at or message["role"] != "system"
    ]
    names = [name for name in ALL_COLUMNS if name in COLUMNS or any(name in row for row in turns)]
    return {"messages": messages, **{name: [row.get(name) for row in turns] for name in names}}


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
