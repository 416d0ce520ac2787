"""Promises about the arguments of `peft-igc sft`: what is unknown or without effect is refused, the rest applies."""

import dataclasses
import re

import pytest
from tiny_training import tokenizer as make_tokenizer

from peft_igc import IGCConfig
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--igc_lair", "3"], "Unknown: `--igc_lair`"),
        (["--igc_num_digit", "3"], "Unknown: `--igc_num_digit`"),  # no abbreviations
        (["recipe.yaml"], "Unknown: `recipe.yaml`"),
        (["--lora_r", "8"], "`lora_r` is given, but `igc_adapter=igc` trains no LoRA"),
        (["--lora-r", "8"], "`lora_r` is given"),
        (["--use_dora"], "`use_dora` is given"),
        (["--use_peft"], "`use_peft` is not used here"),
        (["--igc_adapter", "lora", "--igc_layer", "2"], "`igc_layer` is given, but `igc_adapter=lora` trains no calc"),
        (["--igc_adapter", "none", "--igc_muon_learning_rate", "1e-3"], "`igc_muon_learning_rate` is given"),
        (["--igc_adapter", "igc+lora", "--igc_train_base"], "`igc_train_base` trains the base itself"),
        (["--load_in_8bit", "--igc_train_base"], "cannot be trained itself"),
        (["--load_in_4bit", "--igc_adapter", "none"], "cannot be trained itself"),
        (["--igc_generated_rows", "-1"], "`igc_generated_rows=-1` is negative"),
        (["--igc_generated_max_digits", "3"], "has no effect without `igc_generated_rows`"),
        (["--config"], "`--config` is given without a file"),
        (["--config", "nowhere.yaml"], "`nowhere.yaml` of `--config` does not exist"),
        (["--foo", "1", "--igc_loss_weight", "-1"], "Unknown: `--foo`"),
        (["--igc_exact_match", "8"], "`igc_exact_match` is given, but has no effect without an evaluation"),
        (["--igc_exact_match_tokens", "8", "--igc_held_out", "0"], "has no effect without `igc_exact_match` or `igc"),
        (["--igc_held_out", "-1"], "`igc_held_out=-1` is negative"),
        (["--igc_adapter", "lora", "--igc_init_from", "x"], "`igc_init_from` is given, but `igc_adapter=lora`"),
        (["--igc_detach_reading", "false"], "`igc_detach_reading` is given, but has no effect because nothing below"),
        (["--multi_gpu", "1"], "Unknown: `1`"),  # a flag
    ],
)
def test_arguments_that_are_unknown_or_without_effect_are_refused(line, message, tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(message)):
        sft.parse(arguments("tiny", tmp_path, *line))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("igc_lair: 3", "Unknown: `--igc_lair`"),
        ("lora_r: 8", "`lora_r` is given"),
        ("igc_adapter: ica", "`igc_adapter='ica'` is unknown"),
        ("datasets: [{path: a, fractoin: 1}]", "fractoin"),
        ("nothing", "must contain a YAML mapping"),
        ("a: [", "run.yaml` cannot be read as YAML: while parsing"),
        ("\x00", "run.yaml` cannot be read as YAML"),
        ("igc_lair: 1\nigc_loss_weight: -1", "Unknown: `--igc_lair`"),  # before a value that cannot be used
    ],
)
def test_a_file_is_held_to_the_same_rules(text, message, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        sft.parse(arguments("tiny", tmp_path, "--config", str(file)))


@pytest.mark.parametrize(
    "line",
    [
        ["--dataset_name", "d", "--dataset_train_split", "a", "--eval_strategy", "steps", "--igc_exact_match", "8"],
        ["--igc_adapter", "lora", "--igc_generated_rows", "8", "--igc_interface", "hidden", "--igc_num_digits", "5"],
        ["--load_in_4bit", "--bnb_4bit_quant_type", "fp4", "--use_bnb_nested_quant"],
        ["--igc_interface", "hidden", "--igc_teacher_forcing", "false"],
        ["--igc_train_base", "--igc_detach_reading", "false"],
        ["--igc_adapter", "igc+lora", "--igc_detach_reading", "false"],
        ["--igc_exact_match_tokens", "8"],  # of the closing evaluation
    ],
)
def test_arguments_that_have_an_effect_are_let_through(line, tmp_path):
    assert sft.parse(arguments("tiny", tmp_path, *line)).launch == []


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
    assert igc_config(IGCArguments(igc_reading_context="12"), tokenizer).reading_context == 12


def test_every_setting_of_the_config_can_be_given_or_is_left_out_on_purpose():
    own = {f.name for f in dataclasses.fields(IGCConfig)} & set(IGCConfig.__annotations__)
    otherwise = {"number_tokens"}
    otherwise |= {"symbols", "target_modules", "exclude_modules", "modules_to_save", "trainable_token_indices"}
    otherwise |= {"trained_with", "temperature"}
    arguments_of = {f.name.removeprefix("igc_") for f in dataclasses.fields(IGCArguments)}
    assert own - otherwise <= arguments_of
