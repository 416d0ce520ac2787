"""Engines in this process, one at a time, and what `generate` answers."""

import pytest

from benchmarks.common import vllm_engines
from benchmarks.common.engine_texts import answers, prompts
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.tuner.base_model import TINY


pytest.importorskip("vllm", reason="vLLM is not installed: `make test-vllm` makes an environment with it")

COUNT, TOKENS = 60, 24


@pytest.fixture(scope="session")
def texts(tokenizer):
    return prompts(tokenizer, COUNT)


@pytest.fixture(scope="session")
def expected(adapter, texts):
    return answers(load_adapter(load_base(TINY)[0], adapter), texts, TOKENS)


@pytest.fixture(scope="session")
def engine():
    return vllm_engines.engine


@pytest.fixture(scope="session")
def ask():
    return vllm_engines.ask
