"""Engines of vLLM: in this process, one at a time, and served in processes of their own. Needs the environment of
`make test-vllm`; nothing of vLLM is imported before the first engine is made.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peft_igc.tuner.base_model import TINY_FOLDER


WAIT = 1500.0  # seconds for a server to start, or to answer; three processes load vLLM, one after the other
SIZES = {"dtype": "float32", "max_model_len": 512, "block_size": 32, "enforce_eager": True}
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}


@contextmanager
def engine(
    adapter: Any, model: Path | str = TINY_FOLDER, igc: dict[str, Any] | None = None, **settings: Any
) -> Iterator[Any]:
    """An engine; `adapter` is None for one without the calculator, `igc` has further settings of it."""
    # vLLM (0.32) repeats tokens, with and without the plugin, in engines that follow one with drafts in its process.
    own_process = "speculative_config" in settings
    os.environ.update(ENVIRONMENT, VLLM_ENABLE_V1_MULTIPROCESSING=str(int(own_process)))
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory

    given = {**SIZES, "max_num_seqs": 64, "disable_log_stats": False}
    if adapter is not None:
        given["additional_config"] = {"igc": {"adapter": str(adapter)} | (igc or {})}
        given["worker_extension_cls"] = "peft_igc.engines.vllm.required.Calculator"  # else it may serve the base alone
    # vLLM (0.32) looks into every object of every module, which fails at those of llvmlite once it is imported.
    hidden = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith("llvmlite")}
    made = None
    try:
        made = LLM(str(model), **{**given, **settings})  # type: ignore[arg-type]
        sys.modules.update(hidden)
        yield made
    finally:
        sys.modules.update(hidden)
        if made is not None:
            made.llm_engine.engine_core.shutdown()  # now: a later finalizer would end the next engine's groups
        cleanup_dist_env_and_memory()
        gc.collect()


def ask(llm: Any, texts: Sequence[list[int]], **options: Any) -> list[list[list[int]]]:
    """The answers of an engine: lists of token ids, several per prompt with `n`."""
    from vllm import SamplingParams

    sampling = SamplingParams(**{"temperature": 0, "max_tokens": 24, "detokenize": False, **options})
    found = llm.generate([{"prompt_token_ids": ids} for ids in texts], sampling, use_tqdm=False)
    return [[list(one.token_ids) for one in output.outputs] for output in found]


def log_probabilities(llm: Any, texts: Sequence[list[int]], tokens: int) -> list[dict[int, float]]:
    """Those of the three best tokens at each place of the answers, which do not end before that many tokens."""
    from vllm import SamplingParams

    sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, logprobs=3)
    outputs = llm.generate([{"prompt_token_ids": ids} for ids in texts], sampling, use_tqdm=False)
    places = [place for output in outputs for place in output.outputs[0].logprobs]
    return [{token: value.logprob for token, value in place.items()} for place in places]


def metric(llm: Any, name: str) -> float:
    """A counter of an engine."""
    return sum(one.value for one in llm.get_metrics() if one.name == f"vllm:{name}")


def cached_tokens(llm: Any) -> int:
    """How many tokens fit into the KV cache."""
    cache = llm.llm_engine.vllm_config.cache_config
    return int(cache.num_gpu_blocks * cache.block_size)


class Server:
    """vLLM's OpenAI server with an adapter of the embedded base.

    Args:
        adapter: its folder.
        log: the file of its output.

    Attributes:
        address: the beginning of its URLs.
        process: the server; the engine and its workers are its children.
    """

    def __init__(self, adapter: Path, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address, self._log = f"http://127.0.0.1:{self.port}", log
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(TINY_FOLDER)]
        command += ["--served-model-name", "tiny", "--dtype", "float32", "--max-model-len", "512"]
        command += ["--block-size", "32", "--max-num-seqs", "16", "--enforce-eager"]
        command += ["--port", str(self.port), "--host", "127.0.0.1"]
        command += ["--worker-extension-cls", "peft_igc.engines.vllm.required.Calculator"]
        command += ["--additional-config", json.dumps({"igc": {"adapter": str(adapter)}})]
        environment = {k: v for k, v in os.environ.items() if k != "VLLM_ENABLE_V1_MULTIPROCESSING"}
        environment |= ENVIRONMENT | {"VLLM_PLUGINS": "igc"}
        with log.open("a") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)

    def wait(self) -> None:
        """Returns when the server is ready.

        Raises:
            RuntimeError: if it ends, or is not ready in time.
        """
        until = time.monotonic() + WAIT
        while True:
            try:
                get(self.address + "/igc/metrics")
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"The server did not start:\n{self._log.read_text()[-3000:]}") from None
                time.sleep(0.5)

    def stop(self) -> None:
        """Ends the server and its processes."""
        self.process.terminate()
        self.process.wait(WAIT)


def get(address: str, body: dict[str, Any] | None = None) -> str:
    """What a server answers; with a body it is posted."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=WAIT) as answer:
        return str(answer.read().decode())


def completion(ids: list[int], **options: Any) -> dict[str, Any]:
    """The body of a request for the best answer to some ids."""
    return {"model": "tiny", "prompt": ids, "temperature": 0, "max_tokens": 24, "return_token_ids": True, **options}
