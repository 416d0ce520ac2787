"""Promises about the arguments of `peft-igc sft`: what is unknown or without effect is refused, the rest applies."""

import dataclasses
import re
from pathlib import Path

import pytest
from tiny_training import tokenizer as make_tokenizer

from peft_igc import IGCConfig
from peft_igc.data.files import read_rows
from peft_igc.sft import run as sft
from peft_igc.sft.arguments import IGCArguments, igc_config
from tests.sft.test_sft import arguments


def test_the_command_line_overrides_the_file_and_the_file_the_defaults(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(
        "model_name_or_path: tiny\nigc_layer: 2\nigc_anchors: [assistant_header, '=']\nlearning_rate: 3e-3\n"
    )
    line = ["--config", str(file), "--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false", "--igc_layer", "3"]
    _, training, model, _, igc, _ = sft.parse(line)
    assert (igc.igc_layer, igc.igc_anchors, training.learning_rate) == (3, ["assistant_header", "="], 3e-3)
    assert (igc.igc_interface, igc.igc_adapter, model.dtype) == ("tokens", "igc", "float32")


LINES = read_rows(Path(__file__).with_name("arguments.jsonl"))


@pytest.mark.parametrize("given", LINES, ids=lambda given: " ".join(given.get("line", [given.get("file", "")])))
def test_arguments_that_are_unknown_or_without_effect_are_refused_and_others_are_let_through(given, tmp_path):
    """A line has arguments of the `line` or of a `file` of `--config`, and why they are `refused`, if they are."""
    file = tmp_path / "run.yaml"
    file.write_text(given.get("file", ""))
    line = arguments("tiny", tmp_path, *given.get("line", ["--config", str(file)]))
    if "refused" in given:
        with pytest.raises((ValueError, FileNotFoundError), match=re.escape(given["refused"])):
            sft.parse(line)
    else:
        assert sft.parse(line).launch == []


def test_a_model_has_to_be_named(tmp_path):
    with pytest.raises(ValueError, match="No model is named"):
        sft.parse(["--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false"])


def test_what_is_set_reaches_the_config_and_the_rest_is_left_to_it():
    tokenizer = make_tokenizer()
    wanted = IGCConfig.from_tokenizer(tokenizer, interface="tokens", confidence=0.5)
    assert igc_config(IGCArguments(), tokenizer) == wanted
    given = {"interface": "hidden", "layer": 2, "num_digits": 7, "teacher_forcing": False, "confidence": 0.0}
    made = IGCArguments(**{f"igc_{name}": value for name, value in given.items()}, igc_anchors=["=", "prompt_end"])
    config = igc_config(made, tokenizer)
    assert {name: getattr(config, name) for name in given} == given
    assert config.anchors["prompt_end"]
    assert config.anchors["inline"] == [[tokenizer.convert_tokens_to_ids("=")]]
    assert "turns" not in config.anchors


def test_every_setting_of_the_config_can_be_given_or_is_left_out_on_purpose():
    own = {f.name for f in dataclasses.fields(IGCConfig)} & set(IGCConfig.__annotations__)
    otherwise = {"number_tokens"}
    otherwise |= {"symbols", "target_modules", "exclude_modules", "modules_to_save", "trainable_token_indices"}
    otherwise |= {"trained_with", "temperature"}
    arguments_of = {f.name.removeprefix("igc_") for f in dataclasses.fields(IGCArguments)}
    assert own - otherwise <= arguments_of
