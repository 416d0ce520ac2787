"""The training record of a model card: data, steps and metrics.

In: what a trainer has logged, and its datasets. Out: a section of the card, which
`tuner.saving.model_card.write_card` writes.
Try it: `pytest tests/trainer/test_trainer.py -k card`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..data.columns import ALL_COLUMNS, supervised_rows
from ..tuner.saving.model_card import RECORD


# Ends of the names of logged values that describe the machine and the run instead of the adapter.
_NOT_METRICS = ("_runtime", "_per_second", "_num_tokens", "_preparation_time", "_jit_compilation_time")


def training_record(
    history: Iterable[Mapping[str, Any]], steps: int, kept_step: int | None, sets: Mapping[str, Any]
) -> str:
    """The section with the training data, the number of steps and the metrics of the evaluation.

    Args:
        history: The trainer's log.
        steps: Number of training steps done.
        kept_step: The step whose weights were loaded at the end as the best ones. None: those of the last step.
        sets: Datasets by purpose, `training` first. A dataset without a length is a stream.
    """
    lines = [f"Trained for {steps:,} steps."]
    if kept_step is not None and kept_step != steps:
        lines[0] += f" The weights are those of step {kept_step:,}, the best evaluated."
    for purpose, dataset in sets.items():
        lines.append(f"Data for {purpose}: {_size(dataset)}.")
    step, metrics = _last_evaluation(history, kept_step)
    if metrics:
        rows = [f"| `{name}` | {value:.6g} |" for name, value in metrics.items()]
        table = "\n".join(["| metric | value |", "|---|---|", *rows])
        lines.append(f"Evaluated after step {step:,}:\n\n{table}")
    else:
        lines.append("It has not been evaluated.")
    return f"{RECORD}\n\n" + "\n\n".join(lines) + "\n\n"


def annotated_rows(dataset: Any) -> int | None:
    """The number of rows with at least one supervised step, or None for a stream.

    Args:
        dataset: A dataset with a length and `column_names`, or any other source of rows.
    """
    names = getattr(dataset, "column_names", None)
    if names is None or not hasattr(dataset, "__len__"):
        return None
    return len(supervised_rows(dataset))


def _size(dataset: Any) -> str:
    """The number of rows, as far as it is known, and of those with operands."""
    if (annotated := annotated_rows(dataset)) is not None:
        return f"{len(dataset):,} rows, {annotated:,} annotated"
    names = getattr(dataset, "column_names", None)
    columns = "" if names is None else f" with{'' if set(names) & set(ALL_COLUMNS) else 'out'} operand columns"
    return (f"{len(dataset):,} rows" if hasattr(dataset, "__len__") else "a stream of rows") + columns


def _last_evaluation(history: Iterable[Mapping[str, Any]], kept_step: int | None) -> tuple[int, dict[str, float]]:
    """The step of the evaluation of the kept weights, and its metrics on all eval sets."""
    found: dict[int, dict[str, float]] = {}
    for entry in history:
        for name, value in entry.items():
            if name.startswith("eval_") and not name.endswith(_NOT_METRICS) and isinstance(value, (int, float)):
                found.setdefault(int(entry["step"]), {})[name] = value
    # The card describes the weights that are saved: the best ones if they were loaded, else the last ones.
    step = max(found, default=0) if kept_step is None else kept_step
    return step, found.get(step, {})
