"""Promises of the arguments of `peft-igc sft`: what is unknown is said first, the help page begins with ours, and
defaults fill in what the user left out, and nothing else."""

import re
from pathlib import Path

import pytest
import torch

from peft_igc import cli
from peft_igc.data.files import read_rows
from peft_igc.sft import parser
from peft_igc.sft import run as sft
from peft_igc.sft.arguments import CONFIDENCE
from peft_igc.sft.parser import MUON_RATE, WRITING_EVERY, SFTParser, given_names


def test_the_page_of_all_arguments_begins_with_ours_and_has_the_default_that_applies():
    page = SFTParser().format_help_all()
    names = re.findall(r"\n  --(\w+)", page)
    ours = [name.startswith("igc_") for name in names if not name.startswith("no_")]
    assert ours == sorted(ours, reverse=True)
    assert {action.dest for action in SFTParser()._actions if action.dest != "help"} <= set(names)
    assert len(names) == len(set(names))
    texts = " ".join(page.split())
    assert "Maximum number of digits of an operand, at least 1 (default: 10 (hidden), 40 (tokens))." in texts
    assert f"(operands, signs and operator together), in 0..1 without 1 (default: {CONFIDENCE})." in texts
    assert "default: None" not in texts


def test_the_page_of_one_screen_has_the_arguments_to_know_and_leads_to_all():
    page = SFTParser().format_help()
    lines = page.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 119
    names = re.findall(r"\n  --(\w+)", page)
    assert {"igc_confidence", "model_name_or_path", "dataset_name", "output_dir", "learning_rate"} <= set(names)
    assert "--help-all" in page
    assert "--output_dir build/tokens --resume_from_checkpoint true" in page


@pytest.mark.parametrize("option", ["--help", "-h", "--help-all", "--help_all"])
def test_both_pages_end_the_program(option, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["sft", option])
    assert ended.value.code == 0
    assert ("--lora_alpha" in capsys.readouterr().out) == ("all" in option)


def parsed(tmp_path, *more):
    line = ["--model_name_or_path", "tiny", "--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false", *more]
    return sft.parse(line)


# What the user gives, and the values of a run.
USED = {one["line"]: one["used"] for one in read_rows(Path(__file__).with_name("defaults.jsonl"))}


def test_the_page_of_all_arguments_shows_the_defaults_of_a_run():
    page = " ".join(SFTParser().format_help_all().split())
    for name, value in USED[""].items():
        name = name.replace("calculator", "igc")
        (shown,) = re.findall(rf" --{name} (?:(?! --\w+ ).)*?\(default: (\S+)\)", page)
        assert float(shown) == value, name


@pytest.mark.parametrize("line", USED)
def test_what_is_given_stays_and_the_rest_teaches_a_calculator(tmp_path, line):
    found = parsed(tmp_path, *line.split())
    values = {
        name: getattr(found.igc if name == "igc_generated_rows" else found.training, name) for name in USED[line]
    }
    assert values == USED[line]


def test_machines_with_several_gpus_launch_processes_as_before(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for used, expected in (("false", (1, None)), ("true", (WRITING_EVERY, MUON_RATE))):
        training = parsed(tmp_path, "--use_cpu", used, "--bf16", "false").training
        assert (training.igc_writing_every, training.igc_muon_learning_rate) == expected


def test_a_machine_without_an_accelerator_trains_on_its_processor(tmp_path, monkeypatch):
    line = ["--model_name_or_path", "tiny", "--output_dir", str(tmp_path)]
    monkeypatch.setattr(parser.torch.accelerator, "is_available", lambda: False)
    for supported in (True, False):
        monkeypatch.setattr(parser, "computes_bf16", lambda supported=supported: supported)
        training = sft.parse(line).training
        assert (training.use_cpu, training.bf16) == (True, supported)
        assert sft.parse([*line, "--use_cpu"]).training.bf16 == supported
    assert sft.parse([*line, "--use_cpu", "--bf16", "true"]).training.bf16
    monkeypatch.setattr(parser.torch.accelerator, "is_available", lambda: True)
    assert parser.device_arguments(set()) == []
    assert parser.device_arguments({"use_cpu"}) == ["--bf16", "false"]  # as the recipes for a processor


def test_the_names_in_a_file_count_as_given(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("learning_rate: 2.0e-5\nmax_steps: 7\nrun_name:\n")
    assert given_names(["--config", str(file), "--seed", "1", "--use-cpu"]) == {
        "config", "learning_rate", "max_steps", "seed", "use_cpu",
    }  # fmt: skip
    assert parsed(tmp_path, "--config", str(file))[1].max_steps == 7
