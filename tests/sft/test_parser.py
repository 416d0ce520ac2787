"""Promises of the arguments of `peft-igc sft`: what is unknown is said first, the help page begins with ours, and
defaults fill in what the user left out, and nothing else."""

import re

import pytest
import torch
from tiny_training import WARNINGS

from peft_igc import cli
from peft_igc.sft import parser
from peft_igc.sft import run as sft
from peft_igc.sft.arguments import CONFIDENCE
from peft_igc.sft.parser import SFTParser, given_names
from tests.sft.test_sft import _no_launch  # noqa: F401 - a fixture


pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]
LINE = ["--model_name_or_path", "tiny", "--output_dir", "out", "--use_cpu", "true", "--bf16", "false"]


def test_an_unknown_argument_of_the_line_or_of_the_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=re.escape("Unknown: `--foo`. See `peft-igc sft --help`.")):
        sft.parse([*LINE, "--foo", "1"])
    (tmp_path / "run.yaml").write_text("lerning_rate: 1\n")
    with pytest.raises(ValueError, match=re.escape("Unknown: `--lerning_rate`.")):
        sft.parse([*LINE, "--config", str(tmp_path / "run.yaml")])


def test_what_is_unknown_is_named_before_a_value_that_cannot_be_used(tmp_path):
    with pytest.raises(ValueError, match="Unknown: `--foo`"):
        sft.parse([*LINE, "--foo", "1", "--igc_loss_weight", "-1"])
    (tmp_path / "run.yaml").write_text("lerning_rate: 1\nigc_loss_weight: -1\n")
    with pytest.raises(ValueError, match="Unknown: `--lerning_rate`"):
        sft.parse([*LINE, "--config", str(tmp_path / "run.yaml")])


def test_a_file_that_is_not_there_or_no_yaml_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="`nowhere.yaml` of `--config` does not exist"):
        sft.parse([*LINE, "--config", "nowhere.yaml"])
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="bytes.yaml` cannot be read as YAML"):
        sft.parse([*LINE, "--config", str(tmp_path / "bytes.yaml")])


# ------------------------------------------------------------------------------------------ help
def test_the_page_of_all_arguments_begins_with_ours_and_has_the_default_that_applies():
    page = SFTParser().format_help_all()
    names = re.findall(r"\n  --(\w+)", page)
    ours = [name.startswith("igc_") for name in names if not name.startswith("no_")]
    assert ours == sorted(ours, reverse=True)
    assert {action.dest for action in SFTParser()._actions if action.dest != "help"} <= set(names)
    assert len(names) == len(set(names))
    texts = " ".join(page.split())
    assert "maximum number of digits of an operand (default: 10 (hidden), 40 (tokens))." in texts
    assert f"probability of a reading that is used (default: {CONFIDENCE})." in texts
    assert "default: None" not in texts


def test_the_page_of_one_screen_has_the_arguments_to_know_and_leads_to_all():
    page = SFTParser().format_help()
    lines = page.splitlines()
    assert len(lines) <= 42
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


# ------------------------------------------------------------------------------------------ defaults
def parsed(tmp_path, *more):
    line = ["--model_name_or_path", "tiny", "--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false", *more]
    return sft.parse(line)


def test_a_calculator_is_trained_with_rows_steps_and_a_rate_that_teach_it(tmp_path):
    _, training, _, _, igc, _ = parsed(tmp_path)
    assert igc.igc_generated_rows == parser.GENERATED_ROWS
    assert training.max_steps == parser.STEPS
    assert training.per_device_train_batch_size == parser.BATCH_SIZE
    assert training.warmup_steps == parser.WARMUP
    assert training.calculator_learning_rate == 1e-3
    assert (training.igc_writing_every, training.igc_muon_learning_rate) == (4, parser.MUON_RATE)


@pytest.mark.parametrize(
    ("line", "every", "muon"),
    [
        (["--max_steps", "2"], 1, None),
        (["--igc_writing_every", "1"], 1, parser.MUON_RATE),
        (["--learning_rate", "1e-3"], 4, None),
        (["--optim", "sgd"], 4, None),
        (["--igc_train_base"], 1, parser.MUON_RATE),
        (["--igc_adapter", "igc+lora"], 1, parser.MUON_RATE),
        (["--accelerate_config", "ddp", "--num_processes", "2"], 1, None),
    ],
)
def test_the_reading_has_steps_of_its_own_and_muon_where_both_are_possible(tmp_path, line, every, muon):
    training = parsed(tmp_path, *line)[1]
    assert (training.igc_writing_every, training.igc_muon_learning_rate) == (every, muon)


def test_machines_with_several_gpus_launch_processes_as_before(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    training = parsed(tmp_path)[1]
    assert (training.igc_writing_every, training.igc_muon_learning_rate) == (1, None)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (["--max_steps", "-1"], "max_steps", -1),
        (["--num_train_epochs", "3"], "max_steps", -1),  # TRL's default, but given
        (["--num-train-epochs=3"], "max_steps", -1),
        (["--per_device_train_batch_size", "8"], "per_device_train_batch_size", 8),
        (["--gradient_accumulation_steps", "2"], "per_device_train_batch_size", 8),
        (["--warmup_steps", "0"], "warmup_steps", 0),
        (["--max_steps", "2"], "warmup_steps", 0),  # a warm-up would leave one step of the two
        (["--max_steps", "200"], "warmup_steps", parser.WARMUP),
        (["--learning_rate", "3e-3"], "calculator_learning_rate", 3e-3),
        (["--igc_learning_rate", "4e-3"], "calculator_learning_rate", 4e-3),
    ],
)
def test_what_is_given_stays(tmp_path, line, name, value):
    assert getattr(parsed(tmp_path, *line)[1], name) == value


@pytest.mark.parametrize(
    ("line", "count"),
    [
        (["--max_steps", "3"], 3 * parser.BATCH_SIZE),
        (["--max_steps", "3", "--gradient_accumulation_steps", "2"], 3 * 2 * 8),
        (["--max_steps", "3", "--igc_writing", '{"steps": 9, "rows": 300}', "--activation_checkpointing", "no"], 300),
        (["--max_steps", "9999"], parser.GENERATED_ROWS),
        (["--num_train_epochs", "1"], parser.GENERATED_ROWS),
        (["--max_steps", "3", "--igc_generated_rows", "500"], 500),
    ],
)
def test_no_more_rows_are_generated_by_default_than_the_steps_read(tmp_path, line, count):
    assert parsed(tmp_path, *line)[4].igc_generated_rows == count


def test_data_of_ones_own_are_not_mixed_with_generated_rows(tmp_path):
    assert parsed(tmp_path, "--dataset_name", "mine")[4].igc_generated_rows == 0
    assert parsed(tmp_path, "--igc_generated_rows", "64")[4].igc_generated_rows == 64


def test_a_lora_has_its_own_rate_and_the_calculator_beside_it_too(tmp_path):
    training = parsed(tmp_path, "--igc_adapter", "igc+lora")[1]
    assert (training.learning_rate, training.calculator_learning_rate) == (parser.LORA_RATE, 1e-3)
    training = parsed(tmp_path, "--igc_adapter", "igc+lora", "--learning_rate", "5e-4")[1]
    assert (training.learning_rate, training.calculator_learning_rate) == (5e-4, 5e-4)
    training = parsed(tmp_path, "--igc_adapter", "igc+lora", "--igc_learning_rate", "3e-3")[1]
    assert (training.learning_rate, training.calculator_learning_rate) == (parser.LORA_RATE, 3e-3)


def test_baselines_keep_the_steps_and_batches_of_trl(tmp_path):
    for adapter, rate in (("lora", parser.LORA_RATE), ("none", 2e-5)):
        _, training, _, _, igc, _ = parsed(tmp_path, "--igc_adapter", adapter)
        assert (training.max_steps, training.per_device_train_batch_size, igc.igc_generated_rows) == (-1, 8, 0)
        assert training.learning_rate == rate


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
    file.write_text("learning_rate: 2.0e-5\nmax_steps: 7\n")
    assert given_names(["--config", str(file), "--seed", "1", "--use-cpu"]) == {
        "config", "learning_rate", "max_steps", "seed", "use_cpu",
    }  # fmt: skip
    assert parsed(tmp_path, "--config", str(file))[1].max_steps == 7
