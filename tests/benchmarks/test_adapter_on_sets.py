"""Promises of the measurement of saved adapters: every item of a set is counted, and names of sets are checked."""

import json
import sys
from pathlib import Path

import pytest
from peft import LoraConfig, get_peft_model

from benchmarks.accuracy import adapter_on_sets
from peft_igc import tiny_base
from peft_igc.inference.loading import TINY


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    for part in tiny_base():
        part.save_pretrained(folder)
    return folder


def test_each_adapter_is_measured_on_each_set(base, tmp_path, monkeypatch):
    output = tmp_path / "out.json"
    line = ["--base", str(base), "--adapters", TINY, "--sets", "misleading_stories", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", ["adapter_on_sets", *line])
    monkeypatch.setattr(adapter_on_sets, "generated_sets", lambda *_: {})
    adapter_on_sets.main()
    told = json.loads(output.read_text())["runs"]["0"]["sets"]["misleading_stories"]
    assert told["n"] == 100 == told["right"] + told["wrong"] + told["silent"]


def test_an_unknown_set_is_refused(base, monkeypatch):
    monkeypatch.setattr(adapter_on_sets, "generated_sets", lambda *_: {"bigbench": []})
    with pytest.raises(ValueError, match=r"There are no sets \['stories'\]. The sets are \['bigbench', "):
        adapter_on_sets.measured(base, Path(TINY), ["stories"])


def test_a_lora_is_measured_on_whole_answers_only(base, tmp_path, monkeypatch):
    item = {"prompt": "What is 2 plus 3?", "target": "5"}
    monkeypatch.setattr(adapter_on_sets, "generated_sets", lambda *_: {"bigbench": [item]})
    get_peft_model(tiny_base()[0], LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path / "lora")
    found = adapter_on_sets.measured(base, tmp_path / "lora", ["bigbench"])
    assert found["bigbench"]["n"] == 1
    with pytest.raises(ValueError, match=r"has no calculator, whose reading \['misleading_stories'\] need"):
        adapter_on_sets.measured(base, tmp_path / "lora", ["bigbench", "misleading_stories"])
