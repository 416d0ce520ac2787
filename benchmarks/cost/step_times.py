"""Seconds of every training step, and what a training holds in memory: callbacks for a trainer of Transformers.

A step's seconds go from the end of the step before (batch and logging included) to the end of the optimizer's step;
what other callbacks do between two steps, such as measuring exact match, is not in them. On a GPU the clock is read
when all work is done. Used by `training_speed.py`.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from benchmarks.common.measuring import summary
from peft_igc.trainer.reading_only import reads_alone


# `time.process_time` counts the seconds of all threads of this process, so other work on the machine hardly matters.
clock = time.perf_counter
ALONE, WHOLE = "reading_alone", "whole"  # passes of a step: they end behind the reading, or do not
GPU_PEAK = "gpu_peak"  # beside the bytes of tensors in what `Held` keeps


def now() -> float:
    """Seconds, with nothing left to do on a GPU."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return clock()


class StepTimes(TrainerCallback):
    """Keeps `{"step", "kind", "seconds", "optimizer"}` of each step, counted from 0.

    Add it behind the callbacks whose time is not to count.
    """

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self._mark = self._before = 0.0

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Starts the first step."""
        self._mark = now()

    def on_pre_optimizer_step(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Notes when the gradients are there."""
        self._before = now()

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Ends a step; `global_step` does not count it yet."""
        end = now()
        kind = ALONE if reads_alone(args, state.global_step) else WHOLE
        times = {"seconds": end - self._mark, "optimizer": end - self._before}
        self.steps.append({"step": state.global_step, "kind": kind, **times})

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Starts the next step, when the callbacks before this one have done their work."""
        self._mark = now()

    def by_kind(self, warmup: int = 1) -> dict[str, Any]:
        """Steps and seconds of each kind of pass; steps per second without the first `warmup` of all steps."""
        told: dict[str, Any] = {}
        for kind in (ALONE, WHOLE):
            steps = [one for one in self.steps if one["kind"] == kind]
            timed = [one["seconds"] for one in steps if one["step"] >= warmup]
            told[kind] = {"steps": len(steps), "seconds": sum(one["seconds"] for one in steps)}
            if timed:
                told[kind]["steps_per_second"] = summary([1 / seconds for seconds in timed])
        return told


class Held(TrainerCallback):
    """Bytes in memory at the last step: counted from tensors, and on a GPU the peak behind the warm-up.

    Activations are in the peak only. Frozen weights count as they are stored.
    """

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.bytes: dict[str, int] = {}

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Counts while the gradients are there."""
        if state.global_step + 1 < state.max_steps:
            return
        parameters = list(kwargs["model"].parameters())
        trained = [p for p in parameters if p.requires_grad]
        states = [t for one in kwargs["optimizer"].state.values() for t in one.values() if torch.is_tensor(t)]
        self.bytes = {
            "frozen_parameters": size([p for p in parameters if not p.requires_grad]),
            "trained_parameters": size(trained),
            "gradients": size([p.grad for p in trained if p.grad is not None]),
            "optimizer": size(states),
        }

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Forgets the peak of the warm-up."""
        if torch.cuda.is_available() and state.global_step == self.warmup:
            torch.cuda.reset_peak_memory_stats()

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Takes the peak."""
        if torch.cuda.is_available():
            self.bytes[GPU_PEAK] = torch.cuda.max_memory_allocated()


def size(tensors: list[torch.Tensor]) -> int:
    """Bytes of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
