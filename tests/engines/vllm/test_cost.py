"""What the calculator adds to a pass of the engine, in operators: that count has no noise."""

import pytest

from benchmarks.cost import vllm_engine
from peft_igc.tuner.base_model import TINY_FOLDER


@pytest.mark.slow
def test_a_silent_pass_costs_few_operators_and_a_reading_some_more(monkeypatch):
    from peft_igc.engines.texts import Known
    from peft_igc.engines.vllm.calculator import Calculator

    wrapped = [(Calculator, name) for name in (*vllm_engine.METHODS, "_write")] + [(Known, "decide")]
    for owner, name in wrapped:  # by the benchmark
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(vllm_engine, "BATCHES", (1,))
    cells = vllm_engine.measure(str(TINY_FOLDER), "tiny", rounds=1)["passes"]["1"]
    assert cells["silent"]["operators"] <= 40
    assert cells["after"]["operators"] <= 100
    assert cells["reading"]["operators"] <= 300
    assert cells["silent"]["added"] > 0
