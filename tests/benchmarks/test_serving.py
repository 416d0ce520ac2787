"""Promises of `benchmarks.cost.serving`: what differs is counted; a real server answers as the model does offline."""

import importlib.util
import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from benchmarks.cost.serving import main, serving_folder, summary
from peft_igc import tiny_igc


NEEDED = ("fastapi", "uvicorn", "openai", "pydantic")
can_serve = all(importlib.util.find_spec(name) for name in NEEDED)


def test_an_answer_that_differs_is_counted_and_shown():
    asked = [(0, "12 ", 0.5), (1, "7", 1.0), (1, "error: refused", 2.0)]
    found = summary(asked, ["12", "8"], 2.0)
    assert (found["answers"], found["differ"], found["errors"], found["questions"]) == (3, 2, 1, 2)
    assert found["examples"][0] == {"question": 1, "served": "7", "offline": "8"}
    assert found["answers_per_second"] == 1.5
    assert found["latency"] == {"p50": 1.0, "p90": 2.0, "p99": 2.0}


def test_transformers_loads_the_folder_that_is_served(tmp_path):
    serving_folder("tiny", "tiny", tmp_path)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["base_model_name_or_path"] == str(tmp_path)
    served = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    model, tokenizer = tiny_igc()
    chat = [{"role": "user", "content": "What is 58 times 36?"}]
    inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        logits = served(**inputs).logits
        assert torch.equal(logits, model(**inputs).logits)  # the adapter is on
        with model.disable_adapter():
            assert not torch.equal(logits, model(**inputs).logits)


@pytest.mark.slow
@pytest.mark.skipif(not can_serve, reason="needs `pip install 'transformers[serving]'`")
def test_sixteen_clients_get_the_answers_that_are_made_offline(tmp_path, capsys):
    assert main(["--output", str(tmp_path / "out.json"), "--seconds", "5", "--questions", "1"]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["answers"] >= 16
    assert (found["differ"], found["errors"]) == (0, 0)
