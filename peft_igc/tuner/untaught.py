"""Warns of a training in which an adapter learns nothing: its reading never gets a target, or nothing is trained.

In: the training passes of a layer with gradients. Out: one warning for each adapter. A `Trainer` that removes the
columns which it does not know, `igc_operands` among them, and an adapter that was loaded without `is_trainable=True`
train to the end without an error, with a loss that looks like any other.
Try it: `pytest tests/tuner/test_untaught.py`
"""

from __future__ import annotations

import logging
from typing import Any

from torch import nn

from .call import Call


__all__ = ["Untaught"]

logger = logging.getLogger(__name__)

# The pass at which it is known. A model sees neither an optimizer's steps (a fused one leaves no trace in the
# parameters) nor accumulation windows. But a loop that makes targets makes them for every batch, so a few passes
# without any are enough; the first ones may be trials of a model in training mode.
PASSES = 4


class Untaught:
    """The training passes of the adapters of a layer that have not had a target yet."""

    def __init__(self) -> None:
        self._passes: dict[str, int] = {}  # by adapter; `PASSES` where nothing is left to say

    def watch(self, name: str, call: Call, reading: nn.Module, base: Any) -> None:
        """Counts a pass in training mode with gradients, and warns at the last one that is counted.

        Args:
            name: the active adapter.
            call: the pass.
            reading: the adapter's input mapping.
            base: the causal LM, adapters included.
        """
        passes = self._passes.get(name, 0)
        if passes >= PASSES:
            return
        reads = any(p.requires_grad for p in reading.parameters())
        if call.targets is not None and reads:
            self._passes[name] = PASSES
            return
        self._passes[name] = passes + 1
        if passes + 1 < PASSES:
            return
        if reads:
            logger.warning(
                "The reading of the calculator %r is trained and got no targets in %d training passes, so it learns "
                "nothing. Pass the `igc_*` targets: use `IGCTrainer`, or with another trainer its collator and "
                "`remove_unused_columns=False`. To train the writing alone, freeze the parameters of "
                "`igc_input_mapping`.",
                name,
                PASSES,
            )
        elif not any(p.requires_grad for p in base.parameters()):  # else the calculator is frozen on purpose
            logger.warning(
                "%d training passes with gradients, and no parameter of the model is trained: the calculator %r was "
                "loaded for inference. Load it with `is_trainable=True` to train it.",
                PASSES,
                name,
            )

    def forget(self, name: str) -> None:
        """Starts again for an adapter, which was replaced."""
        self._passes.pop(name, None)
