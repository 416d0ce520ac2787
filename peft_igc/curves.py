"""Learning curves of a training run: what the trainer has logged, drawn over the steps.

In: `trainer.state.log_history`. Out: series by panel (`series`), and a PNG of them (`draw_curves`). Drawing never ends
a program: where matplotlib is not installed or the file cannot be written, that is said in a warning.
Try it: `pytest tests/test_curves.py`
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any


__all__ = ["FILE_NAME", "draw_curves", "series"]

logger = logging.getLogger(__name__)

FILE_NAME = "learning_curves.png"
_LOSSES, _PARTS = "loss (nats)", "part right"
# Ends of the names that are drawn, the panel of each, and how they are called there.
_DRAWN = {
    "igc/loss_read": (_LOSSES, "reading loss"),
    "loss": (_LOSSES, "loss"),
    "igc/read_accuracy": (_PARTS, "read accuracy"),
    "exact_match": (_PARTS, "exact match"),
}

Series = list[tuple[int, float]]  # (step, value)


def series(history: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Series]]:
    """What can be drawn of a log: {panel: {title: [(step, value), ...]}}, with empty panels left out.

    Args:
        history: Entries with a `step`; names of an evaluation begin with `eval_`, then with the eval set's if it has
            one, which both show in the title.
    """
    found: dict[str, dict[str, Series]] = {}
    for entry in history:
        for name, value in entry.items():
            placed = _place(name)
            if placed is not None and isinstance(value, (int, float)):
                found.setdefault(placed[0], {}).setdefault(placed[1], []).append((int(entry["step"]), float(value)))
    return {panel: found[panel] for panel in (_LOSSES, _PARTS) if panel in found}


def _place(name: str) -> tuple[str, str] | None:
    """Panel and title of a logged value, or None if it is not drawn."""
    if name in _DRAWN and name != "exact_match":
        return _DRAWN[name]
    for end, (panel, title) in _DRAWN.items():
        if name.startswith("eval_") and name.endswith(f"_{end}"):
            eval_set = name.removeprefix("eval").removesuffix(f"_{end}").removeprefix("_")
            return panel, f"{title}, eval{' ' if eval_set else ''}{eval_set}"
    return None


def draw_curves(history: Iterable[Mapping[str, Any]], path: Path) -> bool:
    """Draws the curves of a log into a PNG; returns whether there is one now.

    Args:
        history: As in `series`.
        path: Of the file.
    """
    panels = series(history)
    if not panels:
        return False
    if find_spec("matplotlib") is None:
        _say_that_matplotlib_is_missing()
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.5 * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)  # draws into a file whatever screen there is
    for index, (panel, lines) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(len(panels), 1, index, xlabel="step", ylabel=panel)
        for title, points in sorted(lines.items()):
            steps, values = zip(*points, strict=True)
            axes.plot(steps, values, "o--" if "eval" in title else "-", markersize=3, label=title)
        if panel == _PARTS:
            axes.set_ylim(-0.02, 1.02)
        elif all(value > 0 for points in lines.values() for _, value in points):
            axes.set_yscale("log")
        axes.legend()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    except OSError as error:  # days of training do not end in a traceback because of a picture
        logger.warning(f"The learning curves could not be written to `{path}`: {error}.")
        return False
    return True


@functools.cache
def _say_that_matplotlib_is_missing() -> None:
    """Once per process."""
    logger.warning(
        "matplotlib is not installed, so no learning curves are drawn. `pip install matplotlib`, or set "
        "`igc_curves=False`."
    )
