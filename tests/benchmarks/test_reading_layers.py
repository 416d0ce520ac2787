"""The benchmark of the reading's layer: sets are counted at both thresholds, behind the layers asked for."""

import json
import sys

import pytest

from benchmarks.accuracy import reading_layers
from benchmarks.accuracy.real_model import changed
from benchmarks.tables import reading_layers as reading_layers_table
from peft_igc import tiny_base
from peft_igc.demo.settings import LANGUAGE_MODEL


@pytest.mark.slow
def test_the_reading_is_measured_behind_each_layer(tmp_path, monkeypatch):
    monkeypatch.delenv("PEFT_IGC_DATA", raising=False)
    base, tokenizer = tiny_base()
    base.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    output = tmp_path / "layers.json"
    small = ("per_group=1", "per_set=8", "reading.batch_size=8", "reading.distinct_rows=16")
    call = ["", "--base", str(tmp_path / "base"), "--output", str(output), "--layers", "1", "2", "--steps", "2"]
    monkeypatch.setattr(sys, "argv", [*call, "--device", "cpu", "--set", *small, "reading.calibration_items=30"])
    trained = []
    train = reading_layers.train_reading

    def watched(model, *arguments):
        trained.append(model.peft_config["default"].layer)
        return train(model, *arguments)

    monkeypatch.setattr(reading_layers, "train_reading", watched)
    reading_layers.main()
    found = json.loads(output.read_text())
    assert list(found["layers"]) == ["1", "2"]
    for layer in found["layers"].values():
        assert layer["steps"] == 2
        assert layer["sets"]["word_problems"] == {"calibrated": None, "no threshold": None}
        for counts in layer["sets"]["plain_requests"].values():
            assert counts["right"] + counts["wrong"] + counts["silent"] == counts["n"] == 300
    assert trained == [1, 2]


def test_mawps_cannot_be_trained_without_the_texts(tmp_path, monkeypatch):
    monkeypatch.delenv("PEFT_IGC_DATA", raising=False)
    small = changed(LANGUAGE_MODEL, ["per_group=1", "per_set=2"])
    with pytest.raises(ValueError, match="`--mawps` needs the folder of texts. Name it in `PEFT_IGC_DATA`"):
        reading_layers.layer_read(tmp_path, 1, small, 0, "cpu", mawps=True)


def test_the_table_has_each_layer_with_and_without_a_threshold():
    def told(right):
        return {"n": 9, "right": right, "wrong": 1, "silent": 8 - right}

    sets = {at: {"plain_requests": {"calibrated": told(at), "no threshold": told(at + 1)}} for at in (1, 6)}
    layers = {str(at): {"sets": sets[at]} for at in sets}
    table = reading_layers_table({"layers": layers}).splitlines()
    assert table[0].count("layer") == 4
    assert table[2] == "| plain requests | 9 | 1 / 1 / 7 | 2 / 1 / 6 | 6 / 1 / 2 | 7 / 1 / 1 |"
    for told_of in sets.values():
        del told_of["plain_requests"]["no threshold"]  # a column less for each layer
    table = reading_layers_table({"layers": layers}).splitlines()
    assert table[::2] == ["| texts | n | layer 1 | layer 6 |", "| plain requests | 9 | 1 / 1 / 7 | 6 / 1 / 2 |"]
