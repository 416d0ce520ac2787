"""`Progress`: a trainer callback that prints progress, records it, and ends the run at a time limit."""

import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from ..inference.evaluation import duration


class Progress(TrainerCallback):
    """Reports the progress of a training run, a line of text for `say` at a time, and ends it after `minutes`."""

    def __init__(self, say: Callable[[str], None], *, minutes: float | None = None) -> None:
        self.say = say
        self.limit = None if minutes is None else 60 * minutes
        self.history: list[dict[str, Any]] = []  # losses, accuracy and seconds of each log
        self.stopped_early = False  # by the time limit
        self._begin: float | None = None
        self._writing: tuple[int, float] | None = None  # its first step, and the seconds before it

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return 0.0 if self._begin is None else time.perf_counter() - self._begin

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Starts the clock."""
        self._begin = time.perf_counter()

    def begin_writing(self, step: int) -> None:
        """Goes on with a second stage after `step`."""
        self._writing = step, self.seconds

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Ends the run at its time limit."""
        step, steps = state.global_step, state.max_steps
        if self._writing is None and self.limit is not None and self.seconds >= self.limit and step < steps:
            self.stopped_early = True
            control.should_training_stop = True
            self.say(
                f"Stopped at the time limit after step {step} of {steps}: the schedule of the learning rate was not "
                "completed."
            )

    def _only_reads(self, args: Any) -> bool:
        """Whether this is the first of two stages, in which nothing is written."""
        return self._writing is None and getattr(args, "igc_writing", None) is not None

    def on_log(
        self, args: Any, state: TrainerState, control: Any, logs: dict[str, float] | None = None, **kwargs: Any
    ) -> None:
        """Records and prints a log of the trainer."""
        if not logs or "loss" not in logs:  # such as the summary at the end, which has no loss of a step
            return
        read, step = logs.get("igc/loss_read"), state.global_step
        # The logged loss contains the reading loss and is a mean over all steps; with `igc_writing_every` only
        # one step in as many has a language-model loss, and of two stages the first has none.
        loss = logs["loss"] - getattr(args, "igc_loss_weight", 0.0) * (read or 0.0)
        loss_lm = None if self._only_reads(args) else loss * getattr(args, "igc_writing_every", 1)
        entry = {"step": step, "loss_lm": loss_lm, "loss_read": read, "read_accuracy": logs.get("igc/read_accuracy")}
        self.history.append(entry | {"gate_mean": logs.get("igc/gate_mean"), "seconds": round(self.seconds, 2)})
        shown = {"loss_lm": "loss {:.3f}", "loss_read": "reading {:.3f}", "read_accuracy": "read right {:.1%}"}
        parts = [f"{'writing, ' * (self._writing is not None)}step {step}/{state.max_steps}"]
        parts += [text.format(entry[name]) for name, text in shown.items() if entry[name] is not None]
        first, before = self._writing or (0, 0.0)
        left = (self.seconds - before) / max(step - first, 1) * (state.max_steps - step)
        if self.limit is not None and self._writing is None:
            left = min(left, max(self.limit - self.seconds, 0.0))
        most = "at most " * self._only_reads(args)  # frozen layers run in the first steps only
        self.say("  ".join([*parts, f"{most}{duration(left)} left"]))
