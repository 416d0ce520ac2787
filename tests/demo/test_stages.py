"""The two stages of a training: each trains its own mapping, and the record joins them."""

import dataclasses
import json
from collections import Counter

import pytest
import torch
from peft import get_peft_model

from peft_igc.demo.batches import has_number
from peft_igc.demo.run import demo_config, run_demo, training_rows
from peft_igc.demo.settings import SETTINGS, WritingSettings
from peft_igc.demo.stages import train_reading, train_results, written_rows
from peft_igc.inference import loading


SMALL = dataclasses.replace(
    SETTINGS["tokens"], reading_dim=16, reading_ffn=16, num_heads=2, writing_ffn=16, gate_dim=8, steps=3, batch_size=4,
    distinct_rows=48, warmup_steps=1, log_every=1, checks=2, per_group=1, check_per_group=1, max_new_tokens=2,
    calibration_items=10, writing=WritingSettings(rows=8, steps=2, batch_size=4, warmup_steps=1),
)  # fmt: skip


def changed(model, before):
    return {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}


def test_each_stage_trains_its_own_mapping_alone():
    base, tokenizer = loading.tiny_base()
    model = get_peft_model(base, demo_config(tokenizer, SMALL))
    rows = training_rows([], 0, SMALL).rows
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    record = train_reading(model, tokenizer, rows, 0, None, SMALL, lambda line: None)
    read = changed(model, before)
    assert record["steps"] == 3
    assert read
    assert all("igc_input_mapping" in name for name in read)
    assert [entry["loss_lm"] for entry in record["history"]] == [None, None, None]
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    scores = iter((0.25, 0.5))
    written_on = written_rows(rows, [], 0, SMALL)
    record = train_results(model, tokenizer, written_on, 0, SMALL, lambda line: None, lambda: next(scores))
    written = changed(model, before)
    assert written
    assert all("igc_output_mapping" in name for name in written)
    assert [(check["step"], check["exact_match"]) for check in record["checks"]] == [(1, 0.25), (2, 0.5)]
    assert record["rows"] == 8
    assert all(weight.requires_grad for name, weight in model.named_parameters() if "igc_" in name)


def test_half_of_the_rows_of_the_writing_have_longer_numbers():
    settings = dataclasses.replace(SMALL, writing=WritingSettings(rows=200, steps=1, batch_size=4))
    rows = training_rows([], 0, dataclasses.replace(settings, distinct_rows=300)).rows
    made = written_rows(rows, [], 0, settings)
    assert len(made) == 200
    results = [row["igc_result"] for row in made]
    assert all(has_number(result) for result in results)
    digits = [len(result.lstrip("-").replace(".", "")) for result in results]
    longest = [max(digits[:100]), max(digits[100:])]
    assert longest[0] <= 20 < longest[1]
    assert sum("." in result for result in results[100:]) > 10
    excluded = [row for row in made[100:] if row["igc_operands"]]
    again = written_rows(rows, excluded, 0, settings)
    long = {tuple(row["igc_operands"]) for row in excluded if max(map(len, row["igc_operands"])) > 2}
    assert not long & {tuple(row["igc_operands"]) for row in again[100:] if row["igc_operands"]}


def test_longer_rows_can_have_results_of_all_lengths_equally_often():
    writing = WritingSettings(rows=80, steps=1, batch_size=4, equal_lengths=True)
    settings = dataclasses.replace(SETTINGS["hidden"], writing=writing)
    made = written_rows([], [], 0, settings)
    assert Counter(len(row["igc_result"].lstrip("-")) for row in made) == dict.fromkeys(range(1, 11), 4)
    shorter = dataclasses.replace(settings, num_digits=4, max_digits=4)  # no product has ten digits
    made = written_rows([], [], 0, shorter)
    assert Counter(len(row["igc_result"].lstrip("-")) for row in made) == dict.fromkeys(range(1, 9), 5)


@pytest.mark.slow
def test_the_demonstrations_record_has_both_stages(tmp_path):
    lines = []
    done = run_demo(tmp_path / "out", seed=1, settings=SMALL, say=lines.append)
    training = json.loads((tmp_path / "out" / "results.json").read_text())["training"]
    assert (training["steps"], training["rows"], training["writing"]["steps"]) == (3, 12, 2)
    assert [entry["step"] for entry in training["history"]] == [1, 2, 3, 5]
    assert training["history"][-1]["loss_lm"] > 0
    assert all(entry["loss_read"] > 0 for entry in training["history"][:3])
    assert [check["step"] for check in training["checks"]] == [4, 5]
    assert any(line.startswith("step 3/3  reading") for line in lines)
    assert any(line.startswith("writing, step 2/2  loss") for line in lines)
    assert done.results["igc"]["n"] == 20


@pytest.mark.slow
def test_a_time_limit_shortens_the_writing_in_proportion(tmp_path):
    done = run_demo(tmp_path / "out", seed=1, settings=SMALL, minutes=1e-6, say=lambda line: None)
    training = done.results["training"]
    assert (training["stopped_early"], training["steps"], training["writing"]["steps"]) == (True, 1, 1)
    long = dataclasses.replace(SMALL, writing=WritingSettings(rows=300, steps=90, batch_size=8, covering=100))
    short = long.shortened(1).writing
    assert (short.rows, short.steps, short.covering, short.batch_size) == (100, 30, 34, 8)
    assert long.shortened(3) is long


@pytest.mark.slow
def test_equal_seeds_give_equal_adapters_in_two_stages(tmp_path):
    files = []
    for name in ("one", "two"):
        run_demo(tmp_path / name, seed=1, settings=SMALL, say=lambda line: None)
        files.append((tmp_path / name / "adapter" / "adapter_model.safetensors").read_bytes())
    assert files[0] == files[1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_demonstration_runs_on_a_gpu(tmp_path):
    done = run_demo(tmp_path / "out", seed=1, settings=SMALL, device="cuda", say=lambda line: None)
    assert done.results["igc"]["n"] == 20
