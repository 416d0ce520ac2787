"""Rows as `datasets` objects, and what the operand columns of a dataset teach.

`summarize` warns of rows that would train without an error and teach too little: an operation that never occurs, no
silence. Operand columns are not checked here (`columns`).
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..numbers.calculator import NO_ARITHMETIC
from .columns import COLUMNS, EXPRESSION_COLUMN, REFUSALS, check_names, spelled
from .exact_values import EXPRESSION


if TYPE_CHECKING:
    from datasets import Dataset


def to_dataset(rows: Iterable[Mapping[str, Any]]) -> "Dataset":
    """A `datasets.Dataset` of conversational, plain or tokenized rows, supervised or not, with one anchor or with
    lists for several; a column that only some rows have is None in the others.

    Raises:
        ValueError: No rows, a column that looks like an operand column and is none, or, with the name of the row, a
            number that is not exact or another format than that of other rows.
    """
    from datasets import Dataset

    rows = list(rows)
    if not rows:
        raise ValueError("There are no rows to make a dataset of. Check the generator or the file of the rows.")
    _agree(rows, ("prompt", "completion"), "messages or strings")
    _agree(rows, (COLUMNS[0], EXPRESSION_COLUMN), "lists with one entry per anchor or single entries")
    columns = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    check_names(columns, "The dataset")
    made = {name: [row.get(name) for row in rows] for name in columns}
    # By default `datasets` takes the columns from the first row, and integers of up to 64 bits.
    for name in COLUMNS:
        made[name] = [spelled(row.get(name), name, f"row {index}") for index, row in enumerate(rows)]
    return Dataset.from_dict(made)


def _agree(rows: list[Mapping[str, Any]], columns: Iterable[str], formats: str) -> None:
    """Refuses rows of which some hold lists in these columns, and others single values."""
    found: dict[bool, str] = {}
    for index, row in enumerate(rows):
        for name in columns:
            if (value := row.get(name)) is not None:
                found.setdefault(isinstance(value, (list, tuple)), f"row {index} has `{name}` = {value!r}")
    if len(found) > 1:
        raise ValueError(f"Rows of one dataset must all hold {formats}: {found[True]}, but {found[False]}.")


def shuffled(rows: Sequence[Any], seed: int) -> Iterator[Any]:
    """The rows without end; each epoch has another order."""
    return in_turn(rows, random.Random(f"Shuffled/{seed}"))


def in_turn(rows: Sequence[Any], rng: random.Random) -> Iterator[Any]:
    """The rows without end, in random order: each occurs once before one is repeated."""
    while rows:
        yield from rng.sample(rows, len(rows))


def summarize(dataset: Any, operations: Sequence[str]) -> tuple[str, list[str]] | None:
    """The number of steps of a dataset by label in one line, and what its rows lack for an adapter with these
    operations, each time with a cure; None for a stream, whose rows cannot be counted in advance."""
    if not hasattr(dataset, "__len__") or getattr(dataset, "column_names", None) is None:
        return None
    of_rows = labels_of(dataset)
    labels = Counter(itertools.chain.from_iterable(of_rows))
    counted = ", ".join(f"{label} {count:,}" for label, count in sorted(labels.items()))
    unknown = sum(not one for one in of_rows)
    line = f"Labels of {len(of_rows):,} rows: {counted or 'none at all'}; {unknown:,} rows not supervised."
    if not labels:  # the trainer adds what an untrained reading means
        return line, ["No row has an operator: the reading learns nothing. Add operands, or generated rows."]
    lacks = []
    if lacking := [f"`{symbol}`" for symbol in operations if not labels[symbol]]:
        lacks.append(
            f"No row asks for {', '.join(lacking)}, so the reading does not learn it. Add such rows, or leave it out "
            "of `operations`."
        )
    if not labels[NO_ARITHMETIC]:
        lacks.append(
            'No row has the operator "none": the calculator does not learn when to be silent, and will calculate '
            'wherever there are two numbers. Add rows like those that need no calculation, with "none".'
        )
    return line, lacks


def labels_of(dataset: Any) -> list[list[str]]:
    """For each row of a dataset the labels of its supervised steps: a symbol of an operation; the name of a refusal in
    `igc_result`, such as `"overflow"`; `"expression"`; or `"none"`. Values are not checked (`check_columns`)."""
    wanted = (COLUMNS[0], COLUMNS[2], EXPRESSION_COLUMN)
    columns = [dataset[one] if one in dataset.column_names else [None] * len(dataset) for one in wanted]
    found: list[list[str]] = []
    for row in zip(*columns, strict=True):
        found.append([])
        entries = ([*one] if isinstance(one, (list, tuple)) else [one] for one in row)  # one per anchor
        for operator, result, expression in itertools.zip_longest(*entries):
            label = EXPRESSION if operator is None and expression is not None else operator
            if label is not None:
                found[-1].append(result if isinstance(result, str) and result in REFUSALS else str(label))
    return found


def supervised_rows(dataset: Any) -> list[int]:
    """The indices of the rows of a dataset that have a supervised step."""
    return [index for index, labels in enumerate(labels_of(dataset)) if labels]
