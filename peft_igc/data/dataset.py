"""Rows as `datasets` objects, and what the operand columns of a dataset teach.

`to_dataset` turns rows into a `datasets.Dataset` with explicit features. `summarize` counts the labels of a dataset,
and warns of rows that would train without an error and teach too little: an operation that never occurs, no silence;
`similar_columns` finds a column whose name is almost right. Rows are not tokenized, and their operand columns are not
checked (`columns`). `datasets` is imported only inside the functions that need it.
Try it: `python -c "from peft_igc.data import *; print(to_dataset(ArithmeticRows().take(100)))"`.
"""

import difflib
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..numbers.calculator import NO_ARITHMETIC
from .columns import ALL_COLUMNS, COLUMNS, EXPRESSION_COLUMN, REFUSALS
from .exact_values import EXPRESSION


if TYPE_CHECKING:
    from datasets import Dataset, Features


_SIMILAR = 0.8  # least ratio of `difflib` at which a name is taken for a misspelled one
_TEXTS = ("prompt", "completion")  # strings, or messages in conversational rows
_STRINGS = ("text", "target", "group")


def _features(columns: Sequence[str], conversational: bool, several_anchors: bool = False) -> "Features":
    """The types of a dataset with these columns and those of operands.

    They must be given: by default `datasets` takes the columns from the first row, so a first row that is not
    supervised would drop the operand columns of all others.
    """
    from datasets import Features, List, Value

    string = Value("string")
    messages = List({"role": string, "content": string})
    known = dict.fromkeys(_TEXTS, messages if conversational else string)
    known |= {"messages": messages} | dict.fromkeys(_STRINGS, string)
    known[EXPRESSION_COLUMN] = List(string) if several_anchors else string
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
    features = _features(list(columns), conversational, several)
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


def shuffled(rows: Sequence[Any], seed: int) -> Iterator[Any]:
    """The rows without end; each epoch has another order."""
    rng = random.Random(f"Shuffled/{seed}")
    while rows:
        yield from rng.sample(rows, len(rows))


def summarize(dataset: Any, operations: Sequence[str]) -> tuple[str, list[str]] | None:
    """Counts the labels of a dataset.

    Args:
        dataset: A dataset with a length and `column_names`.
        operations: The symbols of the adapter.

    Returns:
        The number of steps by label in one line, and what the rows lack for such an adapter, each time with a cure;
        None for a stream, whose rows cannot be counted in advance.
    """
    if not hasattr(dataset, "__len__") or getattr(dataset, "column_names", None) is None:
        return None
    wanted = (COLUMNS[0], COLUMNS[2], EXPRESSION_COLUMN)
    columns = (dataset[one] if one in dataset.column_names else [None] * len(dataset) for one in wanted)
    of_rows = [row_labels(*row) for row in zip(*columns, strict=True)]
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


def row_labels(operators: Any, results: Any, expressions: Any) -> list[str]:
    """The labels of the supervised steps of a row: a symbol of an operation; the name of a refusal in `igc_result`,
    such as `"overflow"`; `"expression"`; or `"none"`. Columns that contradict each other are left to `check_columns`.

    Args:
        operators, results, expressions: The row's values in these columns: lists with an entry per anchor, or entries.
    """
    columns = ([*one] if isinstance(one, (list, tuple)) else [one] for one in (operators, results, expressions))
    labels = []
    for operator, result, expression in itertools.zip_longest(*columns):
        label = EXPRESSION if operator is None and expression is not None else operator
        if label is not None:
            labels.append(str(result if result in REFUSALS else label))
    return labels


def similar_columns(names: Iterable[str]) -> dict[str, str]:
    """The columns that were probably meant as operand columns, such as `igc_operand` or `operands`.

    Args:
        names: All columns of a dataset.

    Returns:
        The operand column that was probably meant, by name. An operand column that is there was not misspelled.
    """
    names = list(names)
    absent = {name.removeprefix("igc_"): name for name in ALL_COLUMNS if name not in names}
    found = {}
    for name in names:
        bare = re.sub(r"[^a-z]", "", name.lower())
        is_ours = bare.startswith("igc")
        close = difflib.get_close_matches(bare.removeprefix("igc"), absent, n=1, cutoff=_SIMILAR)
        # `result` and `expression` are ordinary names of optional columns: without the prefix no misspelling of ours.
        if name not in ALL_COLUMNS and close and (is_ours or absent[close[0]] in COLUMNS[:2]):
            found[name] = absent[close[0]]
    return found
