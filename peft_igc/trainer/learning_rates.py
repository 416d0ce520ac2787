"""The learning rates of Muon and AdamW in a trainer's log, under two names.

In: a trainer whose optimizer may be a `MuonAdamW`. Out: in each log with `learning_rate`, AdamW's under that name,
which is that of the argument, and Muon's as `learning_rate_muon`. Transformers (5.23) logs the rate of the first
parameter group, which is Muon's, as `learning_rate`. Nothing is changed with one optimizer.
Try it: `pytest tests/trainer/test_learning_rates.py`
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from .optimizer import MuonAdamW


__all__ = ["LearningRates", "name_rates"]


def name_rates(trainer: Any) -> None:
    """Makes a trainer log the two rates. Before its other callbacks, which print and report the log."""
    trainer.callback_handler.callbacks.insert(0, LearningRates())


class LearningRates(TrainerCallback):
    """Gives the learning rates in a log their names."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        optimizer: Any = None,
        **kwargs: Any,
    ) -> None:
        """Corrects the log and its copy in the trainer's history."""
        made = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
        if not logs or "learning_rate" not in logs or not isinstance(made, MuonAdamW) or len(made.parts) < 2:
            return
        muon, adamw = (part.param_groups[0] for part in made.parts)
        # The rate was taken before the scheduler's last step. A schedule multiplies both by the same factor.
        factor = adamw.get("initial_lr", adamw["lr"]) / muon.get("initial_lr", muon["lr"])
        found = {"learning_rate": logs["learning_rate"] * factor, "learning_rate_muon": logs["learning_rate"]}
        for entry in (logs, state.log_history[-1]):
            entry.update(found)
