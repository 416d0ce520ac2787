"""The record of a training: learning curves, and data, steps and metrics for the model card.

In: what a trainer has logged, and its datasets. Out: a PNG of the logged values against the step (`draw_curves`), and
a section of the card (`extend_card`), which `tuner.saving.model_card.write_card` writes. Nothing is raised if
matplotlib is not installed or the plot cannot be written: this is logged as a warning.
Try it: `pytest tests/trainer/test_learning_curves.py`, `pytest tests/trainer/test_trainer.py -k card`
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..data.columns import ALL_COLUMNS, supervised_rows
from ..tuner.saving.model_card import RECORD, write_card


logger = logging.getLogger(__name__)

FILE_NAME = "learning_curves.png"
_LOSSES, _PARTS = "loss (nats)", "part right"
# Panel and title of the values that are plotted, by the end of their logged names.
_DRAWN = {
    "igc/loss_read": (_LOSSES, "reading loss"),
    "loss": (_LOSSES, "loss"),
    "igc/read_accuracy": (_PARTS, "read accuracy"),
    "exact_match": (_PARTS, "exact match"),
}
_PLOTTED = re.compile(rf"(?:eval(?P<set>_|_.*_))?(?P<end>{'|'.join(_DRAWN)})")

# Ends of the names of logged values that describe the machine and the run instead of the adapter.
_NOT_METRICS = ("_runtime", "_per_second", "_num_tokens", "_preparation_time", "_jit_compilation_time")

Series = list[tuple[int, float]]  # (step, value)


def series(history: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Series]]:
    """The values of a log that can be plotted: `{panel: {title: [(step, value), ...]}}`, without empty panels.

    Names of an evaluation begin with `eval_`, followed by the name of the eval set if there are several.
    """
    found: dict[str, dict[str, Series]] = {_LOSSES: {}, _PARTS: {}}
    for entry in history:
        for name, value in entry.items():
            match = _PLOTTED.fullmatch(name)
            # Exact match exists in evaluations only.
            if match is None or not isinstance(value, int | float) or name == "exact_match":
                continue
            panel, title = _DRAWN[match["end"]]
            if match["set"] is not None:
                title = f"{title}, eval {match['set'].strip('_')}".strip()
            found[panel].setdefault(title, []).append((int(entry["step"]), float(value)))
    return {panel: lines for panel, lines in found.items() if lines}


def draw_curves(history: Iterable[Mapping[str, Any]], path: Path) -> bool:
    """Plots the curves of a log, as in `series`, into a PNG, and returns whether it was written."""
    panels = series(history)
    if not panels:
        return False
    if find_spec("matplotlib") is None:
        logger.warning(
            "matplotlib is not installed, so no learning curves are drawn. `pip install matplotlib`, or set "
            "`igc_curves=False`."
        )
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.5 * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)  # renders without a display, and without pyplot's global state
    for index, (panel, lines) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(len(panels), 1, index, xlabel="step", ylabel=panel)
        for title, points in sorted(lines.items()):
            steps, values = zip(*points, strict=True)
            axes.plot(steps, values, "o--" if "eval" in title else "-", markersize=3, label=title)
        if panel == _PARTS:
            axes.set_ylim(-0.02, 1.02)
        elif all(value > 0 for points in lines.values() for _, value in points):
            axes.set_yscale("log")  # would drop values that are not positive
        axes.legend()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    except OSError as error:  # a plot must not end a training of days
        logger.warning(f"The learning curves could not be written to `{path}`: {error}.")
        return False
    return True


def extend_card(trainer: Any, folder: Path, adapter: str | None, kept_step: int | None) -> None:
    """Adds our quick start and the training record to the card in a folder; `kept_step` as in `training_record`."""
    evaluated = trainer.eval_dataset if isinstance(trainer.eval_dataset, dict) else {"": trainer.eval_dataset}
    named = {f"evaluation{f' ({name})' if name else ''}": one for name, one in evaluated.items() if one is not None}
    sets = {"training": trainer.train_dataset} | named
    record = training_record(trainer.state.log_history, trainer.state.global_step, kept_step, sets)
    write_card(folder, trainer.model.config.name_or_path, adapter, record)


def training_record(
    history: Iterable[Mapping[str, Any]], steps: int, kept_step: int | None, sets: Mapping[str, Any]
) -> str:
    """The section with the training data (by purpose, `training` first), the number of steps done and the metrics of
    the evaluation. `kept_step` is that of the best weights, if they were loaded at the end, or None."""
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
    """The number of rows with at least one supervised step; None for a stream, or rows that are no dataset."""
    counts = getattr(dataset, "column_names", None) is not None and hasattr(dataset, "__len__")
    return len(supervised_rows(dataset)) if counts else None


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
