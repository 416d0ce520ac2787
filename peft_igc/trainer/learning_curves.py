"""Learning curves: the values that a trainer logged, plotted against the step.

In: `trainer.state.log_history`. Out: series by panel (`series`), and a PNG of them (`draw_curves`). Nothing is raised
if matplotlib is not installed or the file cannot be written: this is logged as a warning.
Try it: `pytest tests/trainer/test_learning_curves.py`
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any


__all__ = ["FILE_NAME", "draw_curves", "series"]

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

Series = list[tuple[int, float]]  # (step, value)


def series(history: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Series]]:
    """The values of a log that can be plotted: `{panel: {title: [(step, value), ...]}}`, without empty panels.

    Args:
        history: Entries with a `step`. Names of an evaluation begin with `eval_`, followed by the name of the eval set
            if there are several; titles contain both.
    """
    found: dict[str, dict[str, Series]] = {}
    for entry in history:
        for name, value in entry.items():
            placed = _place(name)
            if placed is not None and isinstance(value, (int, float)):
                found.setdefault(placed[0], {}).setdefault(placed[1], []).append((int(entry["step"]), float(value)))
    return {panel: found[panel] for panel in (_LOSSES, _PARTS) if panel in found}


def _place(name: str) -> tuple[str, str] | None:
    """Panel and title of a logged value, or None if it is not plotted."""
    if name in _DRAWN and name != "exact_match":  # which exists in evaluations only
        return _DRAWN[name]
    for end, (panel, title) in _DRAWN.items():
        if name.startswith("eval_") and name.endswith(f"_{end}"):
            eval_set = name.removeprefix("eval").removesuffix(f"_{end}").removeprefix("_")
            return panel, f"{title}, eval{' ' if eval_set else ''}{eval_set}"
    return None


def draw_curves(history: Iterable[Mapping[str, Any]], path: Path) -> bool:
    """Plots the curves of a log into a PNG.

    Args:
        history: A log, as in `series`.
        path: The path of the PNG.

    Returns:
        Whether the file was written.
    """
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
