"""Fits a temperature, and counts right, wrong and silent prompts against the threshold `confidence`.

In: readings of prompts and their targets. Out: the temperature with which the probability of a reading is how often it
is right; an `OperatingPoint` per threshold, the smallest threshold that keeps wrong answers below a share, and a PNG.
Rules alone decide some prompts, which no threshold silences. Which reading is the most probable one does not change.
Try it: `pytest tests/calibration/test_calibrate.py`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .prompt_readings import TEMPERATURES, PromptReading


__all__ = ["THRESHOLDS", "OperatingPoint", "choose_confidence", "draw_curve", "fit_temperature", "operating_curve"]

_LEAST = 1e-6  # a probability of 0 or 1 in float32 has no logarithm

THRESHOLDS = (
    0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.9925, 0.995,
    0.9975, 0.999, 0.9995, 0.9999,
)  # fmt: skip


def fit_temperature(
    readings: Sequence[PromptReading], targets: Sequence[str | None]
) -> tuple[float, dict[str, float | int]]:
    """The temperature, and the negative log-likelihood in nats per prompt with it and without.

    Args:
        readings: of held-out prompts.
        targets: the result that answers each prompt, or None if the calculator should be silent.

    Returns:
        The temperature, and `{"n", "right", "nats_before", "nats_after"}` of the prompts that were used. 1.0 if there
        are none.
    """
    pairs = zip(readings, targets, strict=True)
    used = [(one, one.is_right(target)) for one, target in pairs if one.result is not None and not one.by_rule]
    if not used:
        return 1.0, {"n": 0, "right": 0, "nats_before": 0.0, "nats_after": 0.0}
    nats = []
    for index in range(len(TEMPERATURES)):
        chances = [min(max(one.probabilities[index], _LEAST), 1 - _LEAST) for one, _ in used]
        logs = (-math.log(p if hit else 1 - p) for p, (_, hit) in zip(chances, used, strict=True))
        nats.append(sum(logs) / len(used))
    best = min(range(len(nats)), key=nats.__getitem__)
    right = sum(hit for _, hit in used)
    found = {"n": len(used), "right": right, "nats_before": nats[TEMPERATURES.index(1.0)], "nats_after": nats[best]}
    return TEMPERATURES[best], found


class OperatingPoint(NamedTuple):
    """Numbers of prompts with one threshold.

    Attributes:
        confidence: the threshold.
        right: answered with their target.
        wrong: answered with anything else.
        silent: not answered.
    """

    confidence: float
    right: int
    wrong: int
    silent: int


def operating_curve(
    readings: Sequence[PromptReading], targets: Sequence[str | None], temperature: float
) -> list[OperatingPoint]:
    """A point for each of `THRESHOLDS`; arguments as in `fit_temperature`."""
    index = TEMPERATURES.index(temperature)
    points = []
    for threshold in THRESHOLDS:
        right = wrong = 0
        for one, target in zip(readings, targets, strict=True):
            if one.result is not None and (one.by_rule or one.probabilities[index] >= threshold):
                right += one.is_right(target)
                wrong += not one.is_right(target)
        points.append(OperatingPoint(threshold, right, wrong, len(readings) - right - wrong))
    return points


def choose_confidence(curve: Sequence[OperatingPoint], most_wrong: float, least: float = 0.0) -> OperatingPoint:
    """The first point from the threshold `least` on whose wrong answers are at most this share of all prompts.

    Wrong answers that no threshold silences do not count: they would drive it up in vain, and silence right ones.

    Raises:
        ValueError: `least` is above all thresholds.
    """
    if least > (last := curve[-1].confidence):
        raise ValueError(f"A least threshold of {least:g} is above {last:g}, the last one of the curve. Lower it.")
    total = curve[0].right + curve[0].wrong + curve[0].silent
    floor = curve[-1].wrong
    allowed = [point for point in curve if point.confidence >= least]
    return next(point for point in allowed if point.wrong - floor <= most_wrong * total)


def draw_curve(curves: dict[str, Sequence[OperatingPoint]], chosen: float, path: Path) -> None:
    """Plots curves side by side, with a line at the chosen threshold.

    Args:
        curves: a curve per set of prompts, by name.
        chosen: the threshold in use.
        path: of the PNG.
    """
    # Imported here, without `pyplot`, whose state belongs to the caller.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(curves), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(curves), squeeze=False)[0]
    places = range(len(THRESHOLDS))
    for axis, (name, curve) in zip(axes, curves.items(), strict=True):
        total = max(curve[0].right + curve[0].wrong + curve[0].silent, 1)
        for field, colour in (("right", "tab:green"), ("wrong", "tab:red"), ("silent", "tab:gray")):
            shares = [100 * getattr(point, field) / total for point in curve]
            axis.plot(places, shares, color=colour, label=field)
        at = sum(threshold < chosen for threshold in THRESHOLDS)
        axis.axvline(min(at, len(THRESHOLDS) - 1), color="black", linewidth=0.8, linestyle="--")
        shown = range(0, len(THRESHOLDS), 3)
        axis.set_xticks(list(shown), [f"{THRESHOLDS[place]:g}" for place in shown], rotation=60)
        axis.set(title=f"{name} ({total:,})", xlabel="confidence", ylabel="per cent", ylim=(-2, 102))
    axes[0].legend()
    figure.savefig(path, dpi=120)
