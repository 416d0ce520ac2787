"""A summary of the operand columns of a dataset: what its rows teach the calculator, and what they lack.

In: a dataset, or another source of rows with `column_names`. Out: the number of steps per label, and warnings in
words about rows that would train without an error and teach too little: no refusals, an operation that never occurs, a
column whose name is almost right. Values are counted as they are; `columns` checks them.
Try it: `pytest tests/data/test_dataset.py`
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..numbers.calculator import NO_ARITHMETIC
from .columns import ALL_COLUMNS, COLUMNS, EXPRESSION, EXPRESSION_COLUMN, REFUSALS


__all__ = ["LabelSummary", "row_labels", "similar_columns", "summarize"]

PREFIX = "igc_"
SIMILAR = 0.8  # least ratio of `difflib` at which a name is taken for a misspelled one


@dataclass(frozen=True)
class LabelSummary:
    """The labels of a dataset.

    Args:
        rows: Number of rows.
        annotated: Number of rows with at least one supervised step.
        labels: Number of supervised steps by label: a symbol of an operation; the name of a refusal in `igc_result`,
            such as `"overflow"`; `"expression"`; or `"none"`.
    """

    rows: int
    annotated: int
    labels: Counter[str]

    def format(self) -> str:
        """The summary in one line."""
        counted = ", ".join(f"{label} {count:,}" for label, count in sorted(self.labels.items()))
        unknown = self.rows - self.annotated
        return f"Labels of {self.rows:,} rows: {counted or 'none at all'}; {unknown:,} rows not supervised."

    def warnings(self, operations: Sequence[str]) -> list[str]:
        """What the rows lack for an adapter with these operations; each warning names a cure.

        Args:
            operations: The configured symbols.
        """
        if not self.annotated:
            # The trainer adds what an untrained reading means.
            return ["No row has an operator: the reading learns nothing. Add operands, or generated rows."]
        found: list[str] = []
        if lacking := [symbol for symbol in operations if not self.labels[symbol]]:
            found.append(
                f"No row asks for {', '.join(f'`{symbol}`' for symbol in lacking)}, so the reading does not learn it. "
                "Add such rows, or leave it out of `operations`."
            )
        if not self.labels[NO_ARITHMETIC]:
            found.append(
                'No row has the operator "none": the calculator does not learn when to be silent, and will calculate '
                'wherever there are two numbers. Add rows like those that need no calculation, with "none".'
            )
        return found


def summarize(dataset: Any) -> LabelSummary | None:
    """Counts the labels of a dataset; None for a stream, whose rows cannot be counted in advance.

    Args:
        dataset: A dataset with a length and `column_names`.
    """
    if not hasattr(dataset, "__len__") or getattr(dataset, "column_names", None) is None:
        return None
    names, labels, annotated = dataset.column_names, Counter[str](), 0
    if COLUMNS[0] in names or EXPRESSION_COLUMN in names:
        wanted = (COLUMNS[0], COLUMNS[2], EXPRESSION_COLUMN)
        columns = (dataset[name] if name in names else [None] * len(dataset) for name in wanted)
        for operators, given, expressions in zip(*columns, strict=True):
            of_row = row_labels(operators, given, expressions)
            labels.update(of_row)
            annotated += bool(of_row)
    return LabelSummary(len(dataset), annotated, labels)


def row_labels(operators: Any, results: Any, expressions: Any) -> list[str]:
    """The labels of the supervised steps of a row, as in `LabelSummary`.

    Columns that contradict each other are left to `check_columns`.

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
    absent = {name.removeprefix(PREFIX): name for name in ALL_COLUMNS if name not in names}
    found = {}
    for name in names:
        bare = re.sub(r"[^a-z]", "", name.lower())
        is_ours = bare.startswith("igc")
        close = difflib.get_close_matches(bare.removeprefix("igc"), absent, n=1, cutoff=SIMILAR)
        # `result` and `expression` are ordinary names of optional columns: without the prefix no misspelling of ours.
        if name not in ALL_COLUMNS and close and (is_ours or absent[close[0]] in COLUMNS[:2]):
            found[name] = absent[close[0]]
    return found
