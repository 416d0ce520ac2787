"""Promises of `peft-igc sft` about several processes: when accelerate launches them, with which arguments."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from peft.utils import SAFETENSORS_WEIGHTS_NAME as WEIGHTS
from safetensors.torch import load_file
from tiny_training import rows

from peft_igc.sft import launch as launching
from peft_igc.sft import run as sft
from tests.sft.test_sft import ROOT, SMALL, arguments, trained, write


@pytest.fixture
def launched(monkeypatch):
    """What accelerate would be told to launch."""
    calls = []
    monkeypatch.setattr(launching, "launch_command", calls.append)
    return calls


def test_launch_arguments_go_to_accelerate_and_all_arguments_to_the_processes(launched, tmp_path):
    line = arguments("tiny", tmp_path, "--accelerate_config", "ddp", "--num_processes", "2", "--igc_layer", "2")
    assert sft.run(line) == 0
    (wanted,) = launched
    assert (wanted.num_processes, wanted.module, wanted.training_script) == (2, True, "peft_igc.sft")
    assert Path(wanted.config_file) == ROOT / "peft_igc" / "assets" / "accelerate" / "ddp.yaml"
    assert wanted.training_script_args == line
    alone = sft.parse(arguments("tiny", tmp_path, "--igc_layer", "2"))
    assert sft.parse(line).igc == alone.igc  # the processes ignore those of accelerate


def test_launch_happens_by_itself_where_there_are_several_gpus_or_a_default(launched, tmp_path, monkeypatch):
    monkeypatch.setattr(sft, "has_default", lambda: True)
    line = arguments("tiny", tmp_path, use_cpu="false")
    assert sft.run(line) == 0
    monkeypatch.setattr(sft, "has_default", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert sft.run(line) == 0
    assert len(launched) == 2


@pytest.mark.parametrize("alone", [["--igc_writing_every", "2"], ["--igc_writing", '{"steps": 1}'], []])
def test_launch_does_not_happen_by_itself_where_one_process_is_wanted(launched, tmp_path, monkeypatch, alone):
    calls = []
    monkeypatch.setattr(sft, "main", calls.append)
    monkeypatch.setattr(sft, "has_default", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    line = arguments("tiny", tmp_path, *alone, use_cpu="false" if alone else "true")
    assert sft.run(line) == 0
    assert (len(calls), launched) == (1, [])
    assert sft.run([*line, "--accelerate_config", "ddp"]) == 0  # but where it is asked for
    assert (len(calls), len(launched)) == (1, 1)


def test_launch_flags_of_the_file_are_true_or_false(launched, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("multi_gpu: true\nuse_fsdp: false\nnum_processes: 2\n")
    assert sft.run(arguments("tiny", tmp_path, "--config", str(file))) == 0
    (wanted,) = launched
    assert (wanted.multi_gpu, wanted.use_fsdp, wanted.num_processes) == (True, False, 2)
    file.write_text("multi_gpu: false\n")
    assert sft.parse(arguments("tiny", tmp_path, "--config", str(file))).launch == []


def test_one_process_uses_one_gpu(base, tmp_path):
    line = arguments(base, tmp_path / "o", *SMALL, dataset_name=write(tmp_path / "d", rows(8)))
    parsed = sft.parse(line)
    parsed.training._n_gpu = (
        2  # what a machine with two of them sets; the parent would wrap the model in `nn.DataParallel`
    )
    assert sft.main(parsed).args.n_gpu == 1


def test_launch_of_processes_that_would_not_start_is_refused(launched, tmp_path):
    with pytest.raises(ValueError, match="`--num_processes 2` would start one process"):
        sft.run(arguments("tiny", tmp_path, "--num_processes", "2"))
    with pytest.raises(ValueError, match="`--accelerate_config fdsp2` is neither a file nor one of ours: ddp, "):
        sft.run(arguments("tiny", tmp_path, "--accelerate_config", "fdsp2"))
    assert launched == []


def test_launch_failures_are_the_exit_code(monkeypatch, tmp_path):
    def fail(_):
        raise subprocess.CalledProcessError(1, "x")

    monkeypatch.setattr(launching, "launch_command", fail)
    assert sft.run(arguments("tiny", tmp_path, "--accelerate_config", "ddp", "--num_processes", "2")) == 1


@pytest.mark.slow
def test_launch_of_two_processes_gives_the_weights_of_one(base, tmp_path):
    data = write(tmp_path / "d", rows(8))
    more = [*SMALL, "--optim", "sgd", "--train_sampling_strategy", "sequential"]
    options = {"dataset_name": data, "max_steps": 2}
    trained(arguments(base, tmp_path / "one", *more, **options, gradient_accumulation_steps=2))
    line = [*arguments(base, tmp_path / "two", *more, **options), "--accelerate_config", "ddp", "--num_processes", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "peft_igc.cli", "sft", *line], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = (load_file(tmp_path / name / WEIGHTS) for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=1e-6, rtol=0, msg=name)
