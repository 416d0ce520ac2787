"""Engines in this process, one at a time, and what `generate` answers."""

import gc
import os
import sys
from contextlib import contextmanager

import pytest
from engine_texts import answers, prompts, with_equals_signs

from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.tuner.base_model import TINY, TINY_FOLDER


pytest.importorskip("vllm", reason="vLLM is not installed: `make test-vllm` makes an environment with it")
os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND="nobind")

COUNT, TOKENS = 60, 24


@pytest.fixture(scope="session")
def tokenizer():
    return load_base(TINY)[1]


@pytest.fixture(scope="session")
def adapter(tmp_path_factory, tokenizer):
    """The shipped adapter, which calculates after `=` too."""
    return with_equals_signs(tmp_path_factory.mktemp("adapter"), tokenizer)


@pytest.fixture(scope="session")
def texts(tokenizer):
    return prompts(tokenizer, COUNT)


@pytest.fixture(scope="session")
def expected(adapter, texts):
    return answers(load_adapter(load_base(TINY)[0], adapter), texts, TOKENS)


@contextmanager
def engine(adapter, model=TINY_FOLDER, **settings):
    """An engine; `adapter` is None for one without the calculator."""
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory

    given = {"dtype": "float32", "max_model_len": 512, "block_size": 32, "max_num_seqs": 64, "enforce_eager": True}
    config = {} if adapter is None else {"additional_config": {"igc": {"adapter": str(adapter)}}}
    # vLLM (0.32) looks into every object of every module, which those of llvmlite, once imported, do not stand.
    hidden = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith("llvmlite")}
    made = LLM(str(model), disable_log_stats=False, **(given | config | settings))
    sys.modules.update(hidden)
    try:
        yield made
    finally:
        del made
        cleanup_dist_env_and_memory()
        gc.collect()


@pytest.fixture(scope="session", name="engine")
def _engine():
    return engine


def ask(llm, texts, **options):
    """The answers of an engine: lists of token ids, several per prompt with `n`."""
    from vllm import SamplingParams

    sampling = SamplingParams(**{"temperature": 0, "max_tokens": TOKENS, "detokenize": False} | options)
    found = llm.generate([{"prompt_token_ids": ids} for ids in texts], sampling, use_tqdm=False)
    return [[list(one.token_ids) for one in output.outputs] for output in found]


@pytest.fixture(scope="session", name="ask")
def _ask():
    return ask
