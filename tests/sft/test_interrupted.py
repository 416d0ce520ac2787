"""Promises about runs of `peft-igc sft` that are interrupted: a non-zero exit, and a command that goes on."""

import json
import os
import shlex
import signal

import pytest
import torch
from tiny_models import tiny_model
from tiny_training import WARNINGS, rows
from tiny_training import tokenizer as make_tokenizer
from transformers.trainer_jit_checkpoint import CheckpointManager

from peft_igc import cli
from peft_igc.sft import run as sft
from peft_igc.sft.run import how_to_go_on
from peft_igc.trainer.trainer import IGCTrainer


pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]
LINE = (
    "--use_cpu true --bf16 false --max_steps 6 --per_device_train_batch_size 2 --save_strategy steps --save_steps 2 "
    "--disable_tqdm true --activation_checkpointing false --dataloader_pin_memory false --report_to none "
    "--igc_num_digits 4 --igc_reading_dim 32 --igc_reading_ffn 64 --igc_num_heads 4 --igc_writing_ffn 64 "
    "--igc_gate_dim 16 --igc_anchors prompt_end"
)


@pytest.fixture
def line(tmp_path, monkeypatch):
    """The arguments of a short run."""
    monkeypatch.setattr(sft, "has_default", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    tiny_model("llama", max_position_embeddings=1024).save_pretrained(tmp_path / "base")
    make_tokenizer().save_pretrained(tmp_path / "base")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(8)))
    names = {"model_name_or_path": "base", "dataset_name": "rows.jsonl", "output_dir": "an output"}
    return [text for name, value in names.items() for text in (f"--{name}", str(tmp_path / value))] + LINE.split()


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
        pytest.param(terminate, ["--enable_jit_checkpoint"], 143, 4, id="sigterm", marks=pytest.mark.slow),
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
