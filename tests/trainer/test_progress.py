"""Promises of `progress`: what is told is what the trainer logged, and a time limit ends the run after a step."""

from types import SimpleNamespace

import pytest

from peft_igc.trainer import progress as module
from peft_igc.trainer.progress import Progress


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 1000.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def run(progress, clock, steps=10, seconds=1.0, log_every=2, logs=None):
    """Plays a trainer of `steps` steps; returns the number of steps run."""
    args = SimpleNamespace(igc_loss_weight=0.5)
    state = SimpleNamespace(global_step=0, max_steps=steps, log_history=[])
    control = SimpleNamespace(should_training_stop=False)
    progress.on_train_begin(args, state, control)
    while state.global_step < steps and not control.should_training_stop:
        state.global_step += 1
        clock.now += seconds
        progress.on_step_end(args, state, control)
        if state.global_step % log_every == 0:
            default = {"loss": 2.0, "igc/loss_read": 3.0, "igc/read_accuracy": 0.25, "igc/gate_mean": 0.5}
            progress.on_log(args, state, control, logs=default if logs is None else logs)
    progress.on_train_end(args, state, control)
    clock.now += 1000
    return state.global_step


def test_logs_become_history_with_the_losses_taken_apart(clock):
    lines = []
    progress = Progress(lines.append, lambda: 0.0, checks=1)
    run(progress, clock)
    assert [entry["step"] for entry in progress.history] == [2, 4, 6, 8, 10]
    assert progress.history[0] == {
        "step": 2,
        "loss_lm": 0.5,
        "loss_read": 3.0,
        "read_accuracy": 0.25,
        "gate_mean": 0.5,
        "seconds": 2.0,
    }
    assert lines[0] == "step 2/10  loss 0.500  reading 3.000  read right 25.0%  8 s left"


def test_exact_match_is_measured_as_often_as_asked_and_told_from_then_on(clock):
    lines, scores = [], iter((0.25, 0.75))

    def measure():
        clock.now += 7
        return next(scores)

    progress = Progress(lines.append, measure, checks=2)
    run(progress, clock, log_every=6)
    first, second = progress.checks
    assert first == {"step": 5, "exact_match": 0.25, "seconds": 5.0}
    assert second == {"step": 10, "exact_match": 0.75, "seconds": 10.0}
    assert (progress.seconds, progress.check_seconds) == (24.0, 14.0)
    assert "exact match so far 25.0%" in lines[1]


def test_the_time_limit_stops_after_a_step_and_says_so(clock):
    lines = []
    progress = Progress(lines.append, lambda: 0.0, checks=1, minutes=0.1)
    assert run(progress, clock) == 6
    assert progress.stopped_early
    assert progress.seconds == 6.0
    assert "Stopped at the time limit after step 6 of 10" in lines[-1]
    assert lines[0].endswith("4 s left")  # no more than the limit leaves
    progress = Progress(lines.append, lambda: 0.0, checks=1, minutes=10 / 60)  # the last step reaches it
    assert run(progress, clock) == 10
    assert not progress.stopped_early
