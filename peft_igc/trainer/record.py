"""The record of a training: learning curves, and data, steps and metrics for the model card.

Try it: `pytest tests/trainer/test_trainer.py -k "card or curves"`
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..data.dataset import supervised_rows
from ..tuner.saving.model_card import RECORD, write_card


logger = logging.getLogger(__name__)

CURVES = "learning_curves.png"
_LOSSES = "loss (nats)"
_DRAWN = {_LOSSES: ("igc/loss_read", "_loss"), "part right": ("igc/read_accuracy", "exact_match")}
# Ends of the names of logged values that describe the machine and the run instead of the adapter.
_NOT_METRICS = ("_runtime", "_per_second", "_num_tokens", "_preparation_time", "_jit_compilation_time")


def draw_curves(history: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Plots the logged losses, and the parts that are right, against the step. Whatever prevents it is a warning,
    because a plot must not end a training of days."""
    panels: dict[str, dict[str, list[tuple[int, float]]]] = {panel: {} for panel in _DRAWN}
    for entry in history:
        for name, value in entry.items():
            for panel, ends in _DRAWN.items():
                if f"_{name}".endswith(ends) and name != "train_loss" and isinstance(value, int | float):
                    panels[panel].setdefault(name, []).append((entry.get("step", 0), value))
    if not any(panels.values()):
        return
    try:
        from matplotlib.figure import Figure  # without a display, and without pyplot's global state

        figure = Figure(figsize=(8, 7), layout="constrained")
        for axes, (panel, curves) in zip(figure.subplots(len(panels)), panels.items(), strict=True):
            for name, points in sorted(curves.items()):
                style = "o--" if name.startswith("eval") else "-"
                axes.plot(*zip(*points, strict=True), style, markersize=3, label=name)
            is_log = panel == _LOSSES and all(value > 0 for points in curves.values() for _, value in points)
            axes.set(xlabel="step", ylabel=panel, yscale="log" if is_log else "linear")
            if curves:
                axes.legend()
        figure.savefig(path, dpi=120)
    except Exception as error:
        logger.warning(f"The learning curves could not be written to `{path}`: {error}.")


def extend_card(trainer: Any, folder: Path, adapter: str | None, kept_step: int | None) -> None:
    """Adds our quick start, and the record of steps, data and metrics, to the card in a folder. `kept_step` is that of
    the best weights, if they were loaded at the end, or None."""
    steps = trainer.state.global_step
    lines = [f"Trained for {steps:,} steps."]
    if kept_step is not None and kept_step != steps:
        lines[0] += f" The weights are those of step {kept_step:,}, the best evaluated."
    lines.append(f"Data for training: {_size(trainer.train_dataset)}.")
    evaluated = trainer.eval_dataset if isinstance(trainer.eval_dataset, dict) else {"": trainer.eval_dataset}
    for name, dataset in evaluated.items():
        if dataset is not None:
            lines.append(f"Data for evaluation{f' ({name})' if name else ''}: {_size(dataset)}.")
    found: dict[int, dict[str, float]] = {}  # metrics on all eval sets by step
    for entry in trainer.state.log_history:
        for name, value in entry.items():
            if name.startswith("eval_") and not name.endswith(_NOT_METRICS) and isinstance(value, (int, float)):
                found.setdefault(int(entry["step"]), {})[name] = value
    # The card describes the weights that are saved: the best ones if they were loaded, else the last ones.
    step = max(found, default=0) if kept_step is None else kept_step
    if metrics := found.get(step):
        rows = [f"| `{name}` | {value:.6g} |" for name, value in metrics.items()]
        table = "\n".join(["| metric | value |", "|---|---|", *rows])
        lines.append(f"Evaluated after step {step:,}:\n\n{table}")
    else:
        lines.append("It has not been evaluated.")
    record = f"{RECORD}\n\n" + "\n\n".join(lines) + "\n\n"
    write_card(folder, trainer.model.config.name_or_path, adapter, record)


def annotated_rows(dataset: Any) -> int | None:
    """The number of rows with at least one supervised step; None for a stream, or rows that are no dataset."""
    counts = getattr(dataset, "column_names", None) is not None and hasattr(dataset, "__len__")
    return len(supervised_rows(dataset)) if counts else None


def _size(dataset: Any) -> str:
    """The number of rows, as far as it is known, and of those with operands."""
    annotated = annotated_rows(dataset)
    return "rows that are not counted" if annotated is None else f"{len(dataset):,} rows, {annotated:,} annotated"
