"""The server answers sixteen clients at a time as `generate` does, and tells them what became of each step."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from peft_igc.tuner.base_model import TINY_FOLDER


def get(address, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode()


@pytest.fixture(scope="module")
def server(adapter, tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(TINY_FOLDER)]
    command += ["--served-model-name", "tiny", "--dtype", "float32", "--max-model-len", "512", "--block-size", "32"]
    command += ["--max-num-seqs", "16", "--enforce-eager", "--port", str(port), "--host", "127.0.0.1"]
    command += ["--additional-config", json.dumps({"igc": {"adapter": str(adapter)}})]
    environment = {k: v for k, v in os.environ.items() if k != "VLLM_ENABLE_V1_MULTIPROCESSING"}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment | {"VLLM_PLUGINS": "igc"}
        )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1800):
            try:
                get(address + "/health")
                break
            except OSError:
                assert process.poll() is None, log.read_text()[-3000:]
                time.sleep(0.5)
        yield address, log
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.timeout(1200)  # three processes start
def test_sixteen_clients_at_a_time_get_the_answers_of_generate(server, texts, expected, tokenizer):
    address, log = server

    def ask(ids):
        body = {"model": "tiny", "prompt": ids, "temperature": 0, "max_tokens": 24, "return_token_ids": True}
        return json.loads(get(address + "/v1/completions", body))["choices"][0]["token_ids"]

    with ThreadPoolExecutor(16) as clients:
        assert [*clients.map(ask, texts * 2)] == expected * 2
    report = json.loads(get(address + "/igc/steps?last=3"))
    assert report["steps_by_status"]["ok"] > len(texts)
    assert len(report["steps"]) == 3
    assert {*report["steps"][0]} == {"time", "position", "status", "result", "reason", "by_rule"}
    counters = get(address + "/igc/metrics")
    assert f'igc_steps_total{{status="ok"}} {report["steps_by_status"]["ok"]}\n' in counters
    assert "bytes per token in the KV cache" in log.read_text()
