"""Rows as `datasets` objects, and rows repeated in epochs.

`to_dataset` and `to_iterable_dataset` turn rows into `datasets` objects with explicit features; `Shuffled` repeats a
list of rows without end. Rows are not tokenized, and their operand columns are not checked (`columns`). `datasets` is
imported only inside the functions that need it.
Try it: `python -c "from peft_igc.data import *; print(to_dataset(ArithmeticRows().take(100)))"`.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .arithmetic import ArithmeticRows, Row
from .columns import COLUMNS, EXPRESSION_COLUMN


if TYPE_CHECKING:
    from datasets import Dataset, Features, IterableDataset


__all__ = ["Shuffled", "igc_features", "to_dataset", "to_iterable_dataset"]


class Shuffled:
    """A fixed list of rows, repeated without end; each epoch has another order.

    Args:
        rows: The rows.
        seed: Seed of the orders.
    """

    def __init__(self, rows: Sequence[Row], seed: int) -> None:
        self.rows, self.seed = list(rows), seed

    def __iter__(self) -> Iterator[Row]:
        rng = random.Random(f"Shuffled/{self.seed}")
        while self.rows:
            yield from rng.sample(self.rows, len(self.rows))


_TEXTS = ("prompt", "completion")  # strings, or messages in conversational rows
_STRINGS = ("text", "target", "group")


def igc_features(
    columns: Iterable[str] = _TEXTS, *, conversational: bool = True, several_anchors: bool = False
) -> "Features":
    """The types of a dataset with operand columns.

    They must be given: by default `datasets` takes the columns from the first row, so a first row that is not
    supervised would drop the operand columns of all others.

    Args:
        columns: The other columns: `prompt`, `completion`, `messages`, `text`, `target`, `group`; and
            `igc_expression`, if the rows have it.
        conversational: `prompt` and `completion` are lists of messages, or else strings.
        several_anchors: Each operand column is a list with one entry per anchor.

    Raises:
        ValueError: A column of unknown type.
    """
    from datasets import Features, List, Value

    string = Value("string")
    messages = List({"role": string, "content": string})
    known = dict.fromkeys(_TEXTS, messages if conversational else string)
    known |= {"messages": messages} | dict.fromkeys(_STRINGS, string)
    known[EXPRESSION_COLUMN] = List(string) if several_anchors else string
    columns = list(columns)
    if unknown := [name for name in columns if name not in known]:
        raise ValueError(
            f"The type of the column `{unknown[0]}` is not known: known are {', '.join(known)}. Add other columns "
            "with `Dataset.add_column`, or build the dataset with your own features."
        )
    operands = dict(zip(COLUMNS, (string, List(string), string), strict=True))
    if several_anchors:
        operands = {name: List(feature) for name, feature in operands.items()}
    return Features({name: known[name] for name in columns} | operands)


def to_dataset(rows: Iterable[Mapping[str, Any]]) -> "Dataset":
    """A `datasets.Dataset` of rows; a column that only some rows have is None in the others.

    Args:
        rows: Conversational or plain rows, supervised or not, with one anchor or with lists for several.

    Raises:
        ValueError: No rows, a column of unknown type, or rows of different formats; the message names the row.
    """
    from datasets import Dataset

    rows = list(rows)
    if not rows:
        raise ValueError("There are no rows to make a dataset of. Check the generator or the file of the rows.")
    columns = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    conversational = _agree(rows, _TEXTS, "messages or strings")
    several = _agree(rows, (COLUMNS[0], EXPRESSION_COLUMN), "lists with one entry per anchor or single entries")
    features = igc_features(columns, conversational=conversational, several_anchors=several)
    return Dataset.from_dict({name: [row.get(name) for row in rows] for name in features}, features=features)


def _agree(rows: list[Mapping[str, Any]], columns: Iterable[str], formats: str) -> bool:
    """Whether the columns hold lists; all rows with a value there must agree."""
    found: dict[bool, str] = {}
    for index, row in enumerate(rows):
        for name in columns:
            if (value := row.get(name)) is not None:
                found.setdefault(isinstance(value, (list, tuple)), f"row {index} has `{name}` = {value!r}")
    if len(found) > 1:
        raise ValueError(f"Rows of one dataset must all hold {formats}: {found[True]}, but {found[False]}.")
    return True in found


def to_iterable_dataset(rows: ArithmeticRows, n: int | None = None) -> "IterableDataset":
    """A streaming dataset: rows are generated when they are needed, and none is stored.

    Args:
        rows: The stream; each pass over the dataset starts at its beginning.
        n: Number of rows of a pass. None: endless, so the trainer needs `max_steps`.
    """
    from datasets import IterableDataset

    more = [EXPRESSION_COLUMN] * rows.has_expressions
    features = igc_features([*_TEXTS, *more], conversational=rows.conversational)
    return IterableDataset.from_generator(_first, gen_kwargs={"rows": rows, "n": n}, features=features)


def _first(rows: ArithmeticRows, n: int | None) -> Iterator[Row]:
    """The first `n` rows. At module level, because `datasets` pickles it for its workers."""
    yield from itertools.islice(rows, n)
