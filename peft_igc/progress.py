"""Progress of a training run: a line from time to time, the history for a plot, and an end at a time limit.

`Progress` is a callback for a trainer of Transformers or TRL. In: what the trainer logs. Out: lines of text through
`say`, `history` (one entry per log) and `checks` (one per measurement of exact match). It changes nothing of the
training but its end: when the time limit is reached the run stops after the step in progress.
Try it: `pytest tests/test_cli.py -k progress`
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


__all__ = ["Progress", "duration"]


class Progress(TrainerCallback):
    """Tells how far a training run is.

    Args:
        say: Takes a line of text.
        measure: Exact match (0..1) of the model as it is now, on a small sample.
        checks: How often that is measured, evenly spread, the last time at the end.
        minutes: Time limit of the run, measurements included. None: none.

    Attributes:
        history: `{"step", "loss_lm", "loss_read", "read_accuracy", "gate_mean", "seconds"}` per log.
        checks: `{"step", "exact_match", "seconds"}` per measurement, without the time that measurements took.
        seconds: Of the run so far.
        check_seconds: The part of it that measurements took.
        stopped_early: Whether the time limit ended the run.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        measure: Callable[[], float],
        *,
        checks: int = 5,
        minutes: float | None = None,
    ) -> None:
        self.say = say
        self.measure = measure
        self.count = checks
        self.limit = None if minutes is None else 60 * minutes
        self.history: list[dict[str, Any]] = []
        self.checks: list[dict[str, Any]] = []
        self.check_seconds = 0.0
        self.stopped_early = False
        self._begin: float | None = None
        self._end: float | None = None

    @property
    def seconds(self) -> float:
        """Since the run began, or of the whole run once it has ended."""
        if self._begin is None:
            return 0.0
        return (self._end or time.perf_counter()) - self._begin

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts the clock."""
        self._begin, self._end = time.perf_counter(), None

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measures when it is due, and ends the run at its time limit."""
        step, steps = state.global_step, state.max_steps
        if any(step == round(steps * (i + 1) / self.count) for i in range(self.count)):
            before = self.seconds
            seconds = round(before - self.check_seconds, 2)
            self.checks.append({"step": step, "exact_match": self.measure(), "seconds": seconds})
            self.check_seconds += self.seconds - before
            self.say(f"step {step}/{steps}  exact match {self.checks[-1]['exact_match']:.1%} on a small sample")
        if self.limit is not None and self.seconds >= self.limit and step < steps:
            self.stopped_early = True
            control.should_training_stop = True

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Keeps and tells what the trainer logged; its closing summary has no loss of a step and is passed over."""
        if not logs or "loss" not in logs:
            return
        loss_read = logs.get("igc/loss_read")
        added = getattr(args, "igc_loss_weight", 0.0) * (loss_read or 0.0)
        entry = {
            "step": state.global_step,
            # the trainer logs the sum, and a mean over all steps
            "loss_lm": (logs["loss"] - added) * getattr(args, "igc_writing_every", 1),
            "loss_read": loss_read,
            "read_accuracy": logs.get("igc/read_accuracy"),
            "gate_mean": logs.get("igc/gate_mean"),
            "seconds": round(self.seconds, 2),
        }
        self.history.append(entry)
        self.say(self._line(entry, state.max_steps))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Stops the clock."""
        self._end = time.perf_counter()
        if self.stopped_early:
            self.say(
                f"Stopped at the time limit after step {state.global_step} of {state.max_steps}: "
                "the learning rate had not reached its end."
            )

    def _line(self, entry: dict[str, Any], steps: int) -> str:
        """One entry as a line."""
        parts = [f"step {entry['step']}/{steps}", f"loss {entry['loss_lm']:.3f}"]
        if entry["loss_read"] is not None:
            parts.append(f"reading {entry['loss_read']:.3f}")
        if entry["read_accuracy"] is not None:
            parts.append(f"read right {entry['read_accuracy']:.1%}")
        if self.checks:
            parts.append(f"exact match so far {self.checks[-1]['exact_match']:.1%}")
        left = self.seconds / entry["step"] * (steps - entry["step"])
        if self.limit is not None:
            left = min(left, max(self.limit - self.seconds, 0.0))
        return "  ".join([*parts, f"{duration(left)} left"])


def duration(seconds: float) -> str:
    """`75` as `1 min 15 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
