"""An engine that reads nothing, one that must have a calculator, and what a client is told without one."""

import os
import subprocess
import sys
from unittest.mock import AsyncMock

import pytest

from benchmarks.common.engine_texts import prompts
from benchmarks.common.vllm_engines import cached_tokens
from peft_igc.tuner.base_model import TINY_FOLDER


REQUIRED = "peft_igc.engines.vllm.required.Calculator"


def test_without_reading_only_symbols_are_calculated_and_nothing_is_stored_for_it(
    engine, ask, adapter, texts, expected
):
    with engine(None) as llm:
        room, of_base = cached_tokens(llm), [answers[0] for answers in ask(llm, texts)]
    with engine(adapter, igc={"reading": False}) as llm:
        assert cached_tokens(llm) > 0.99 * room
        found = [answers[0] for answers in ask(llm, texts)]
        again = [answers[0] for answers in ask(llm, texts)]  # from the prefix cache
        steps = llm.collective_rpc("igc_report", args=(1000,))[0]["steps"]
    assert found == again
    assert all(one["by_rule"] for one in steps if one["status"] == "ok")
    assert found[1::5] == of_base[1::5]
    assert found[2::5] == expected[2::5]  # `=` in running text
    assert found[2::5] != of_base[2::5]
    assert found[0::5] != expected[0::5]  # requests in words


def test_an_engine_that_must_have_a_calculator_is_refused_without_an_adapter(engine):
    with pytest.raises(ValueError, match="`additional_config` names no adapter"):
        with engine(None, worker_extension_cls=REQUIRED):
            pass


@pytest.mark.slow
def test_an_engine_that_must_have_a_calculator_has_it_where_the_plugin_is_left_out(adapter, tokenizer, expected):
    """In a process of its own, because plugins are loaded once."""
    program = f"""
from vllm import LLM, SamplingParams
llm = LLM({str(TINY_FOLDER)!r}, dtype="float32", max_model_len=512, block_size=32, enforce_eager=True,
          worker_extension_cls={REQUIRED!r}, additional_config={{"igc": {{"adapter": {str(adapter)!r}}}}})
(found,) = llm.generate([{{"prompt_token_ids": {prompts(tokenizer, 1)[0]}}}], SamplingParams(temperature=0))
print("answer:", list(found.outputs[0].token_ids))
"""
    environment = os.environ | {"VLLM_PLUGINS": ""}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert f"answer: {expected[0]}" in done.stdout, done.stderr[-3000:]


def test_clients_are_told_that_there_is_no_calculator():
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from peft_igc.engines.vllm import endpoint

    app, routes = FastAPI(), endpoint()
    routes.attach_router(app)
    app.state.igc_engine = AsyncMock()
    app.state.igc_engine.collective_rpc.return_value = [{}]
    for route in ("/igc/steps", "/igc/metrics"):
        answer = TestClient(app).get(route)
        assert answer.status_code == 503
        assert "names no adapter" in answer.json()["detail"]
