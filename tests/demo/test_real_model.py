"""The demonstration on a saved model: a tiny folder goes through all of it."""

import dataclasses
import json

import pytest

from peft_igc.cli import main
from peft_igc.demo import settings
from peft_igc.demo.real_report import report_table
from peft_igc.inference.loading import TINY_FOLDER


def small(interface):
    """The settings of an interface, for a training of no consequence."""
    whole = settings.LANGUAGE_MODELS[interface]
    return dataclasses.replace(
        whole,
        reading=dataclasses.replace(
            whole.reading, reading_dim=32, reading_ffn=32, num_heads=2, writing_ffn=16, steps=2,
            batch_size=4, distinct_rows=60, warmup_steps=1, log_every=1,
            writing=settings.WritingSettings(rows=8, steps=2, batch_size=4), calibration_items=12,
        ),
        per_set=3, base_per_group=1,
        base_new_tokens=4, max_new_tokens=4, harm_prompts=2, harm_answers=1,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("interface", ["tokens", "hidden"])
def test_a_folder_goes_through_the_whole_command(interface, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(settings.LANGUAGE_MODELS, interface, small(interface))
    monkeypatch.delenv("PEFT_IGC_DATA", raising=False)
    output = tmp_path / "out"
    line = ["demo", "--base", str(TINY_FOLDER), "--output", str(output), "--per-group", "1"]
    layer = {"tokens": 2, "hidden": 1}[interface]  # 1 is the default
    code = main([*line, "--interface", interface, *(["--layer", str(layer)] if layer > 1 else [])])
    said = capsys.readouterr().out
    assert code == 1  # two steps miss the target
    assert "not measured" in said
    assert {"adapter", "results.json", "operating_curve.png"} <= {path.name for path in output.iterdir()}
    results = json.loads((output / "results.json").read_text())
    assert results["sets"]["word_problems"] is None
    assert results["sets"]["bigbench"]["n"] == 20
    assert results["training"]["writing"]["steps"] == 2
    assert results["calibration"]["confidence"] >= 0
    assert results["base_model"]["weights"] is None
    saved = json.loads((output / "adapter" / "adapter_config.json").read_text())
    assert saved["temperature"] == results["calibration"]["temperature"]
    assert saved["interface"] == interface
    assert saved["layer"] == layer


def test_a_layer_that_the_model_does_not_have_is_refused_before_rows_are_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("peft_igc.demo.real_model.generated_sets", None)  # an error if it is called
    assert main(["demo", "--base", str(TINY_FOLDER), "--output", str(tmp_path / "out"), "--layer", "99"]) == 2
    assert "`layer=99` is out of range: the model has 5 decoder layers" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_table_says_what_was_not_measured_and_which_weights():
    groups = {"1_digit_addition": {"n": 4, "exact_match": 0.75}}
    found = {"n": 4, "right": 3, "wrong": 0, "silent": 1}
    results = {
        "sets": {
            "bigbench": {**found, "groups": groups},
            "word_problems": None,
            "harm": {
                "prompts": 2, "logits_bit_identical": 2, "answers": 1, "same_answers": 1,
                "bits_per_byte": {"igc": 1.0, "base": 1.0},
            },
        },
        "base": {"bigbench": {"groups": groups, "whole_answer": 0.1, "number_only": 0.25}},
        "base_model": {"weights": "Q4_1 weights"},
    }  # fmt: skip
    table = report_table(results)
    assert "10.0 / 25.0    75.0     0.0    25.0" in table
    assert "not measured" in next(line for line in table.splitlines() if line.startswith("MAWPS with one step"))
    assert "Q4_1 weights" in table
    assert "2 of 2" in table
