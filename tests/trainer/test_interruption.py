"""Runs that are killed, terminated or broken off, and what comes of them when they are resumed: the same bits.

Each run is a process of its own, forked from a server that has imported everything once. A kill comes at a seeded
number of Python calls, so that it may hit anything, a half-written checkpoint included, and hits the same each time.
"""

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from peft import get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import WARNINGS, rows, trainer
from transformers import TrainerCallback

from peft_igc.trainer.checkpoints import last_complete_checkpoint


pytestmark = pytest.mark.filterwarnings(*WARNINGS)

STEPS, KILLS = 12, 5
OPTIONS = {"max_steps": STEPS, "save_strategy": "steps", "save_steps": 2, "per_device_train_batch_size": 2}


def made_trainer(folder, dropout=0.0, **more):
    """Three epochs of four steps: checkpoints fall into epochs and between them; both optimizers have a state."""
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = get_peft_model(tiny_model("llama", attention_dropout=dropout), small_config(init_weights=True))
    return trainer(folder, rows(8), model, igc_muon_learning_rate=1e-2, **{**OPTIONS, **more})


def end_of(made):
    """All that a run comes to."""
    parts = {
        "weights": {name: p.detach() for name, p in made.model.named_parameters()},
        "optimizer": made.optimizer.state_dict(),
        "scheduler": made.lr_scheduler.state_dict(),
    }
    return dict(leaves(parts))


def leaves(tree, path=()):
    """(path, value) of a nest of dicts and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, (list, tuple)) else None
    if items is None:
        yield path, tree
    else:
        for key, value in items:
            yield from leaves(value, (*path, key))


def assert_same_bits(one, other):
    assert set(one) == set(other)
    assert len(one) > 100
    for path, value in one.items():
        same = torch.equal(value, other[path]) if torch.is_tensor(value) else value == other[path]
        assert same, path


def train_until(folder, calls):
    """A run, resumed where it can be, that kills itself after so many calls of Python functions."""
    made = made_trainer(folder, dropout=0.1)
    try:
        resume = last_complete_checkpoint(folder)
    except ValueError:
        resume = None
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"
        if count == calls:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(profile)
    made.train(resume_from_checkpoint=resume)
    sys.setprofile(None)
    torch.save((end_of(made), count), folder / "end.pt")


class Terminate(TrainerCallback):
    """Sends SIGTERM when a step begins, and waits until transformers has taken note of it."""

    def __init__(self, step):
        self.step, self.manager = step, None

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)
            while not self.manager.is_checkpoint_requested:
                time.sleep(0.01)


def train_until_terminated(folder, step):
    """A run that is sent SIGTERM when it has done `step` steps."""
    made = made_trainer(folder, enable_jit_checkpoint=True, save_strategy="no")
    terminate = Terminate(step)
    made.add_callback(terminate)
    jit = next(c for c in made.callback_handler.callbacks if type(c).__name__ == "JITCheckpointCallback")
    jit.jit_manager.kill_wait = 0  # it waits for three seconds, for a SIGKILL that may follow
    terminate.manager = jit.jit_manager
    made.train()


def in_a_process(target, *args):
    """The exit code of `target(*args)`, negative for a signal."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tiny_training"])
    process = context.Process(target=target, args=args)
    process.start()
    process.join()
    return process.exitcode


@pytest.fixture
def _imports_here(monkeypatch):
    """Lets the server find the tests' modules."""
    root = Path(__file__).parents[2]
    paths = [str(root / "tests" / "helpers"), str(root), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))


@pytest.mark.slow
@pytest.mark.usefixtures("_imports_here")
def test_a_run_that_is_killed_five_times_ends_with_the_bits_of_one_that_is_not(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
    assert in_a_process(train_until, whole, -1) == 0
    expected, calls = torch.load(whole / "end.pt", weights_only=True)
    moments = random.Random(0)
    for _ in range(KILLS):
        assert in_a_process(train_until, broken, round(moments.uniform(2.0, 4.0) * calls / STEPS)) == -signal.SIGKILL
    assert list(broken.glob("checkpoint-*")), "nothing was saved, so nothing was resumed"
    assert in_a_process(train_until, broken, -1) == 0
    found, calls_of_the_rest = torch.load(broken / "end.pt", weights_only=True)
    assert calls_of_the_rest < calls
    assert_same_bits(expected, found)


@pytest.mark.slow
@pytest.mark.usefixtures("_imports_here")
def test_a_run_that_is_terminated_saves_and_goes_on_with_the_same_bits(tmp_path):
    made = made_trainer(tmp_path / "whole", save_strategy="no")
    made.train()
    expected = end_of(made)
    folder = tmp_path / "terminated"
    assert in_a_process(train_until_terminated, folder, 5) == 0
    assert [path.name for path in folder.glob("checkpoint-*")] == ["checkpoint-5"]
    made = made_trainer(folder, save_strategy="no")
    made.train(resume_from_checkpoint=True)
    assert_same_bits(expected, end_of(made))


# ------------------------------------------------------------------------------------------ which checkpoint
def saved(folder, step, state='{"global_step": 1}', *more):
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    if state is not None:
        (path / "trainer_state.json").write_text(state)
    for name in more:
        (path / name).write_text("")
    return str(path)


def test_the_last_checkpoint_that_was_saved_to_its_end_is_found_and_others_are_told(tmp_path, caplog):
    saved(tmp_path, 2)
    wanted = saved(tmp_path, 10)
    saved(tmp_path, 12, json.dumps({"global_step": 12})[:-4])
    saved(tmp_path, 14, None)
    saved(tmp_path, 16, "{}", "checkpoint-is-incomplete.txt")
    (tmp_path / "checkpoint-best").mkdir()
    assert last_complete_checkpoint(tmp_path) == wanted
    for step in (12, 14, 16):
        assert f"checkpoint-{step}` was not saved to its end" in caplog.text
    assert "checkpoint-2`" not in caplog.text


def generators(path, *ranks):
    for rank in ranks:
        torch.save({"cpu": torch.zeros(1)}, Path(path) / f"rng_state_{rank}.pth")


def test_a_checkpoint_of_several_processes_is_whole_when_each_has_written_its_own(tmp_path):
    only_the_model = saved(tmp_path, 2)
    both = saved(tmp_path, 4)
    generators(both, 0, 1)
    half = saved(tmp_path, 6)
    generators(half, 0, 1)
    file = Path(half) / "rng_state_1.pth"
    file.write_bytes(file.read_bytes()[:-30])
    generators(saved(tmp_path, 8), 0)
    assert last_complete_checkpoint(tmp_path, processes=2) == both
    (Path(both) / "rng_state_1.pth").unlink()
    assert last_complete_checkpoint(tmp_path, processes=2) == only_the_model
    assert last_complete_checkpoint(tmp_path) == str(tmp_path / "checkpoint-8")


@pytest.mark.parametrize("exists", [True, False])
def test_nothing_to_resume_from_is_an_error(tmp_path, exists):
    if exists:
        saved(tmp_path, 3, None)
    made = trainer(tmp_path)
    with pytest.raises(ValueError, match="has no complete checkpoint to resume from. Begin anew with `train"):
        made.train(resume_from_checkpoint=True)
