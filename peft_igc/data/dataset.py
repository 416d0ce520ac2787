"""Rows as `datasets` objects, rows repeated in epochs, and rows read from files.

`to_dataset` and `to_iterable_dataset` turn rows into `datasets` objects with explicit features; `Shuffled` repeats a
list of rows without end; `read_jsonl` reads the evaluation files of `peft-igc eval`, `read_rows` files of training
rows. Rows are not tokenized, and their operand columns are not checked (`columns`). `datasets` is imported only inside
the functions that need it.
Try it: `python -c "from peft_igc.data import *; print(to_dataset(ArithmeticRows().take(100)))"`.
"""

import itertools
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arithmetic import ArithmeticRows, Row
from .columns import COLUMNS


if TYPE_CHECKING:
    from datasets import Dataset, Features, IterableDataset


__all__ = ["Shuffled", "igc_features", "read_jsonl", "read_rows", "to_dataset", "to_iterable_dataset"]


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
        columns: The other columns: `prompt`, `completion`, `messages`, `text`, `target`, `group`.
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
    several = _agree(rows, COLUMNS[:1], "lists with one entry per anchor or single entries")
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

    features = igc_features(conversational=rows.conversational)
    return IterableDataset.from_generator(_first, gen_kwargs={"rows": rows, "n": n}, features=features)


def _first(rows: ArithmeticRows, n: int | None) -> Iterator[Row]:
    """The first `n` rows. At module level, because `datasets` pickles it for its workers."""
    yield from itertools.islice(rows, n)


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    """Evaluation items from a file with one JSON object per line.

    The fields `prompt` and `target` are required, `group` is optional; other fields are kept.

    Raises:
        FileNotFoundError: No such file.
        ValueError: An empty file, or a line that is not such an object; the message names file and line.
    """
    items = read_rows(path, wanted='with "prompt" and "target"')
    for number, item in enumerate(items, start=1):
        _check_item(item, f"`{path}`, line {number}")
    return items


def read_rows(path: str | Path, *, wanted: str = "that is a training row") -> list[dict[str, Any]]:
    """The objects of a file with one JSON object per line; their fields are not checked.

    Args:
        path: Path of the file.
        wanted: Completes "an object" in error messages.

    Raises:
        FileNotFoundError: No such file.
        ValueError: An empty file, or a line that is not an object; the message names file and line.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"The data file `{path}` does not exist. Pass a JSONL file.")
    lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if lines[-1] in (b"", b"\r"):
        lines.pop()  # after the end of the last line
    if not lines:
        raise ValueError(f"`{path}` is empty: expected one JSON object {wanted} per line.")
    return [_parse_line(line, f"`{path}`, line {number}", wanted) for number, line in enumerate(lines, start=1)]


def _parse_line(line: bytes, where: str, wanted: str) -> dict[str, Any]:
    """One object."""
    if not line.strip():
        raise ValueError(f"{where}: the line is empty. Remove it, or restore its object.")
    try:
        item = json.loads(line)
    except ValueError as error:  # bad JSON or bad UTF-8
        raise ValueError(f"{where}: not valid JSON: {error}. Write one object per line.") from error
    if not isinstance(item, dict):
        raise ValueError(f"{where}: expected an object {wanted}, got {item!r}.")
    return item


def _check_item(item: dict[str, Any], where: str) -> None:
    """Checks that an object is an evaluation item."""
    for name in ("prompt", "target"):
        if name not in item:
            raise ValueError(f'{where}: the field "{name}" is missing; there are {sorted(item)}.')
    for name in ("prompt", "target", "group"):
        if name in item and not isinstance(item[name], str):
            raise ValueError(f'{where}: "{name}" must be a string, got {item[name]!r}. Put it in quotation marks.')
    if not item["prompt"].strip():
        raise ValueError(f'{where}: "prompt" is empty.')
