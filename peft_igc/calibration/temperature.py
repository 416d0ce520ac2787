"""Fits one temperature, so that the probability of a reading is how often it is right.

In: readings of prompts and their targets. Out: the temperature of `TEMPERATURES` with the least negative
log-likelihood of "this calculation answers the request", over prompts on which the calculator would speak and rules
alone do not decide. Which reading is the most probable one does not change.
Try it: `pytest tests/calibration/test_calibrate.py`
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .prompt_readings import TEMPERATURES, PromptReading


__all__ = ["fit_temperature", "is_right"]

_LEAST = 1e-6  # a probability of 0 or 1 in float32 has no logarithm


def is_right(reading: PromptReading, target: str | None) -> bool:
    """Whether what would be written is the target; a target of None asks for silence."""
    return target is not None and reading.result == target


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
    used = [(one, is_right(one, target)) for one, target in pairs if one.result is not None and not one.by_rule]
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
