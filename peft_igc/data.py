"""Data in one place: training rows, the BIG-bench task, datasets with operand columns, evaluation files.

Rows come from `ArithmeticRows` (training) or `bigbench_items`, `bigbench_test_set`, `load_bigbench` (tests);
`to_dataset` and `to_iterable_dataset` turn rows into `datasets` objects with explicit features; `read_jsonl` reads
the files of `peft-igc eval`, `read_rows` those of training rows. Nothing here tokenizes; `datasets` is imported only
inside the functions that need it.
Try it: `python -c "from peft_igc.data import *; print(to_dataset(ArithmeticRows().take(100)))"`.
"""

import itertools
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arithmetic import TOKENS_MIXTURE, ArithmeticRows, Mixture, Row
from .bigbench import GROUPS, bigbench_items, bigbench_size, bigbench_test_set, load_bigbench, parse_question
from .columns import COLUMNS


if TYPE_CHECKING:
    from datasets import Dataset, Features, IterableDataset


__all__ = [
    "GROUPS",
    "TOKENS_MIXTURE",
    "ArithmeticRows",
    "Mixture",
    "Row",
    "Shuffled",
    "bigbench_items",
    "bigbench_size",
    "bigbench_test_set",
    "igc_features",
    "load_bigbench",
    "parse_question",
    "read_jsonl",
    "read_rows",
    "to_dataset",
    "to_iterable_dataset",
]


class Shuffled:
    """A fixed set of rows without end: epoch after epoch, each in another order.

    Args:
        rows: The set.
        seed: Of the orders.
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

    They have to be given: left to itself `datasets` takes the columns from the first row, so that a first row which is
    not supervised would drop the operand columns of all others.

    Args:
        columns: Those besides the operand columns: `prompt`, `completion`, `messages`, `text`, `target`, `group`.
        conversational: `prompt` and `completion` are lists of messages, or else strings.
        several_anchors: Each operand column is a list with one entry per anchor.

    Raises:
        ValueError: A column whose type is not known here.
    """
    from datasets import Features, List, Value

    string = Value("string")
    messages = List({"role": string, "content": string})
    known = dict.fromkeys(_TEXTS, messages if conversational else string)
    known |= {"messages": messages} | dict.fromkeys(_STRINGS, string)
    columns = list(columns)
    if unknown := [name for name in columns if name not in known]:
        raise ValueError(
            f"The type of the column `{unknown[0]}` is not known: known are {', '.join(known)}. Add your own columns "
            "with `Dataset.add_column`, or build the dataset with features of your own."
        )
    operands = dict(zip(COLUMNS, (string, List(string), string), strict=True))
    if several_anchors:
        operands = {name: List(feature) for name, feature in operands.items()}
    return Features({name: known[name] for name in columns} | operands)


def to_dataset(rows: Iterable[Mapping[str, Any]]) -> "Dataset":
    """A `datasets.Dataset` of rows; columns that only some rows have are None in the others.

    Args:
        rows: Conversational or plain rows, supervised or not, with one anchor or with lists for several.

    Raises:
        ValueError: No rows, a column of unknown type, or rows of different formats; names the row.
    """
    from datasets import Dataset

    rows = list(rows)
    if not rows:
        raise ValueError("There are no rows to make a dataset of. Check the generator or the file they come from.")
    columns = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    conversational = _agree(rows, _TEXTS, "messages or strings")
    several = _agree(rows, COLUMNS[:1], "lists with one entry per anchor or single entries")
    features = igc_features(columns, conversational=conversational, several_anchors=several)
    return Dataset.from_dict({name: [row.get(name) for row in rows] for name in features}, features=features)


def _agree(rows: list[Mapping[str, Any]], columns: Iterable[str], formats: str) -> bool:
    """Whether the columns hold lists, in all rows that have a value there."""
    found: dict[bool, str] = {}
    for index, row in enumerate(rows):
        for name in columns:
            if (value := row.get(name)) is not None:
                found.setdefault(isinstance(value, (list, tuple)), f"row {index} has `{name}` = {value!r}")
    if len(found) > 1:
        raise ValueError(f"Rows of one dataset must all hold {formats}: {found[True]}, but {found[False]}.")
    return True in found


def to_iterable_dataset(rows: ArithmeticRows, n: int | None = None) -> "IterableDataset":
    """A streaming dataset: rows are made when they are needed, so none is seen twice and none is kept.

    Args:
        rows: The stream; each pass over the dataset starts it anew.
        n: The length of a pass. None: endless, so the trainer needs `max_steps`.
    """
    from datasets import IterableDataset

    features = igc_features(conversational=rows.conversational)
    return IterableDataset.from_generator(_first, gen_kwargs={"rows": rows, "n": n}, features=features)


def _first(rows: ArithmeticRows, n: int | None) -> Iterator[Row]:
    """A module-level generator, because `datasets` pickles it for its workers."""
    yield from itertools.islice(rows, n)


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    """Evaluation items from a file with one JSON object per line: `prompt`, `target`, optional `group`, more is kept.

    Raises:
        FileNotFoundError: No such file.
        ValueError: An empty file, or a line that is no such object; names file and line.
    """
    items = read_rows(path, wanted='with "prompt" and "target"')
    for number, item in enumerate(items, start=1):
        _check_item(item, f"`{path}`, line {number}")
    return items


def read_rows(path: str | Path, *, wanted: str = "that is a training row") -> list[dict[str, Any]]:
    """The objects of a file with one JSON object per line; nothing is known of their fields.

    Args:
        path: Of the file.
        wanted: What an object should be, for messages.

    Raises:
        FileNotFoundError: No such file.
        ValueError: An empty file, or a line that is no object; names file and line.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"The data file `{path}` does not exist. Pass a JSONL file.")
    lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if lines[-1] in (b"", b"\r"):
        lines.pop()  # what follows the last line's end is no line
    if not lines:
        raise ValueError(f"`{path}` is empty: expected one JSON object {wanted} per line.")
    return [_parse_line(line, f"`{path}`, line {number}", wanted) for number, line in enumerate(lines, start=1)]


def _parse_line(line: bytes, where: str, wanted: str) -> dict[str, Any]:
    """One object."""
    if not line.strip():
        raise ValueError(f"{where}: the line is empty. Remove it, or check what was lost there.")
    try:
        item = json.loads(line)
    except ValueError as error:  # bad JSON or bad UTF-8
        raise ValueError(f"{where}: no JSON: {error}. Write one object per line.") from error
    if not isinstance(item, dict):
        raise ValueError(f"{where}: expected an object {wanted}, got {item!r}.")
    return item


def _check_item(item: dict[str, Any], where: str) -> None:
    """Refuses what is no evaluation item."""
    for name in ("prompt", "target"):
        if name not in item:
            raise ValueError(f'{where}: the field "{name}" is missing; there are {sorted(item)}.')
    for name in ("prompt", "target", "group"):
        if name in item and not isinstance(item[name], str):
            raise ValueError(f'{where}: "{name}" must be a string, got {item[name]!r}. Put it in quotation marks.')
    if not item["prompt"].strip():
        raise ValueError(f'{where}: "prompt" is empty.')
