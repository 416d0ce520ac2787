"""`peft-igc calibrate`: a temperature and a threshold for texts of yours, saved with the adapter.

In: a model with an adapter, and items `{"prompt", "target"}`; a target of null asks for silence. Out: the config of
the adapter with `temperature` and `confidence`, a record of how they were found, and a plot of the operating curve.
Half of the items fit the temperature and choose the threshold; the curve of the other half is reported.
Try it: `pytest tests/calibration/test_calibrate.py`
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from peft.utils import CONFIG_NAME

from .operating_curve import OperatingPoint, choose_confidence, draw_curve, fit_temperature, operating_curve
from .prompt_readings import read_prompts


__all__ = ["CURVE", "RECORD", "Calibration", "calibrate", "check_items", "save_calibration"]

RECORD, CURVE = "calibration.json", "operating_curve.png"


class Calibration(NamedTuple):
    """What was fitted, and what it gives.

    Attributes:
        temperature, confidence: for the adapter's config.
        fit: of `fit_temperature`.
        fitted: operating curve of the items that were fitted.
        tested: of the others.
    """

    temperature: float
    confidence: float
    fit: Mapping[str, float | int]
    fitted: list[OperatingPoint]
    tested: list[OperatingPoint]

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        curves = {name: [point._asdict() for point in getattr(self, name)] for name in ("fitted", "tested")}
        return {"temperature": self.temperature, "confidence": self.confidence, "fit": dict(self.fit), **curves}

    def at(self, confidence: float, curve: Sequence[OperatingPoint]) -> OperatingPoint:
        """The point of a curve with this threshold."""
        return next(point for point in curve if point.confidence == confidence)


def check_items(items: Sequence[Mapping[str, Any]]) -> None:
    """Refuses items that cannot calibrate.

    Raises:
        ValueError: an item without a prompt, with a target that is neither text nor null, or fewer than 20 items.
    """
    for number, item in enumerate(items, start=1):
        if not isinstance(item.get("prompt"), str):
            raise ValueError(f"Item {number}: `prompt` must be a string, got {item.get('prompt')!r}.")
        if "target" not in item or not isinstance(item["target"], str | int | None):
            raise ValueError(
                f"Item {number}: `target` must be the result as a string, or null where the calculator should be "
                f"silent, got {item.get('target', 'no `target`')!r}."
            )
    if len(items) < 20:
        raise ValueError(f"{len(items)} items are too few for a temperature. Give 20 or more, hundreds if you can.")


def calibrate(
    model: Any,
    tokenizer: Any,
    items: Sequence[Mapping[str, Any]],
    *,
    most_wrong: float = 0.01,
    least: float = 0.0,
    batch_size: int = 64,
) -> Calibration:
    """Fits temperature and threshold of the active adapter; `save_calibration` puts them into its config.

    Args:
        model: a model with an active IGC adapter.
        tokenizer: its tokenizer.
        items: held-out prompts with targets, as `check_items` accepts. Every second one is fitted.
        most_wrong: share of all items that may be answered wrongly.
        least: smallest threshold that may be chosen, for users' texts that are misread more often than these.
        batch_size: prompts per pass.
    """
    check_items(items)
    targets = [None if item["target"] is None else str(item["target"]).strip() for item in items]
    readings = read_prompts(model, tokenizer, [item["prompt"] for item in items], batch_size=batch_size)
    temperature, fit = fit_temperature(readings[::2], targets[::2])
    fitted, tested = (operating_curve(readings[start::2], targets[start::2], temperature) for start in (0, 1))
    confidence = choose_confidence(fitted, most_wrong, least).confidence
    return Calibration(temperature, confidence, fit, fitted, tested)


def save_calibration(found: Calibration, folder: str | Path, facts: Mapping[str, Any]) -> None:
    """Writes temperature and confidence into the saved config of an adapter, with the record and the plot next to it.

    Args:
        found: of `calibrate`.
        folder: of the adapter.
        facts: what else the record says, such as the name of the texts.
    """
    folder = Path(folder)
    path = folder / CONFIG_NAME
    config = json.loads(path.read_text(encoding="utf-8"))
    config |= {"temperature": found.temperature, "confidence": found.confidence}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    record = {**facts, **found.as_dict()}
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    draw_curve({"fitted": found.fitted, "other half": found.tested}, found.confidence, folder / CURVE)
