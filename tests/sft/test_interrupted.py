"""Promises about runs of `peft-igc sft` that are interrupted: a non-zero exit, and a command that goes on."""

import json
import os
import shlex
import signal

import pytest
from tiny_training import rows
from transformers.trainer_jit_checkpoint import CheckpointManager

from peft_igc import cli
from peft_igc.sft import run as sft
from peft_igc.sft.run import how_to_go_on
from peft_igc.trainer.trainer import IGCTrainer
from tests.sft.test_sft import SMALL, arguments, write


STAGE = ["--igc_writing", '{"steps": 1, "batch_size": 2}']  # a second stage, which a signal in the first one ends too


@pytest.fixture
def line(base, tmp_path):
    """The arguments of a short run."""
    given = {"dataset_name": write(tmp_path / "rows", rows(8)), "max_steps": 6, "save_strategy": "steps"}
    return arguments(base, tmp_path / "an output", *SMALL, "--save_steps", "2", **given)


def stops(monkeypatch, step, how):
    """Lets a run meet `how` while it computes a step."""

    class Stops(IGCTrainer):
        def training_step(self, *args, **kwargs):
            if self.state.global_step == step:
                how()
            return super().training_step(*args, **kwargs)

    monkeypatch.setattr(sft, "IGCTrainer", Stops)


def interrupt():
    raise KeyboardInterrupt


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


def said_by(capsys):
    shown = capsys.readouterr()
    assert "Saved" not in shown.out
    return shown.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("how", "more", "code", "step"),
    [
        pytest.param(interrupt, [], 130, 2, id="ctrl-c"),
        pytest.param(terminate, ["--enable_jit_checkpoint", *STAGE], 143, 4, id="sigterm", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_run_says_how_to_go_on_and_that_command_ends_it(
    line, monkeypatch, capsys, tmp_path, how, more, code, step
):
    # transformers (5.23) waits for three seconds whether a SIGKILL follows.
    request = lambda self, number, frame: setattr(self, "is_checkpoint_requested", True)  # noqa: E731
    monkeypatch.setattr(CheckpointManager, "_sigterm_handler", request)
    stops(monkeypatch, 3, how)
    assert cli.main(["sft", *line, *more]) == code
    said = said_by(capsys)
    assert f"checkpoint-{step}` is complete. Go on with: peft-igc sft --model_name_or_path" in said
    assert not (tmp_path / "an output" / "adapter_config.json").exists()
    command = shlex.split(said.partition("Go on with: peft-igc ")[2])
    assert command[-2:] == ["--resume_from_checkpoint", "true"]
    stops(monkeypatch, -1, interrupt)
    assert cli.main(command) == 0
    assert "Saved" in capsys.readouterr().out
    state = json.loads((tmp_path / "an output" / "checkpoint-6" / "trainer_state.json").read_text())
    assert state["global_step"] == 6


def test_a_run_without_a_checkpoint_says_so(line, monkeypatch, capsys):
    stops(monkeypatch, 1, interrupt)
    assert cli.main(["sft", *line]) == 130
    said = said_by(capsys)
    assert said.startswith("Interrupted before the first checkpoint, so nothing is saved. `--save_steps N`")


@pytest.mark.parametrize("resume", [["--resume_from_checkpoint", "x"], ["--resume_from_checkpoint", "true"], []])
def test_the_command_resumes_from_the_latest_checkpoint_whatever_was_given(resume, tmp_path):
    (tmp_path / "checkpoint-2").mkdir()
    (tmp_path / "checkpoint-2" / "trainer_state.json").write_text("{}")
    line = ["--model_name_or_path", "tiny", "--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false", *resume]
    command = how_to_go_on(line, str(tmp_path)).partition("Go on with: peft-igc sft ")[2]
    assert command.endswith(" --resume_from_checkpoint true")
    assert sft.parse(shlex.split(command)).training.resume_from_checkpoint == "true"
