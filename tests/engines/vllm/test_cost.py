"""What the calculator adds to a pass of the engine, in operators: that count has no noise. And the other commands."""

import sys

import pytest

from benchmarks.cost import vllm_answers, vllm_engine, vllm_soak
from peft_igc.tuner.base_model import TINY_FOLDER


@pytest.mark.slow
def test_a_silent_pass_costs_few_operators_and_a_reading_some_more(monkeypatch):
    from peft_igc.engines.texts import Known
    from peft_igc.engines.vllm.calculator import Calculator

    wrapped = [(Calculator, name) for name in (*vllm_engine.METHODS, "_write")] + [(Known, "decide")]
    for owner, name in wrapped:  # by the benchmark
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(vllm_engine, "BATCHES", (1, 8))
    passes = vllm_engine.measure(str(TINY_FOLDER), "tiny", rounds=1)["passes"]
    for cells in passes.values():
        assert cells["silent"]["operators"] <= 30
        assert cells["silent"]["launches"] <= 18
        assert cells["after"]["operators"] <= 60
        assert cells["after"]["launches"] <= 36
        assert cells["reading"]["operators"] <= 650  # whatever the number of texts
        assert cells["silent"]["added"] > 0


@pytest.mark.slow
@pytest.mark.timeout(3000)  # the server starts twice
def test_the_commands_find_the_answers_of_generate_and_flat_memory(tmp_path, monkeypatch):
    arguments = {
        vllm_answers: ["-n", "20", "--silent", "200", "--ways", "eager"],
        vllm_soak: ["-n", "20", "--minutes", "0.5"],
    }
    for module, given in arguments.items():
        files = ["--expected", str(tmp_path / "expected.json"), "--output", str(tmp_path / f"{module.__name__}.json")]
        monkeypatch.setattr(sys, "argv", [module.__name__, *files, *given])
        with pytest.raises(SystemExit) as ended:
            module.main()
        assert ended.value.code == 0
