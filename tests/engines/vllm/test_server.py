"""The server answers sixteen clients at a time as `generate` does, and tells them what became of each step."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.common.vllm_engines import WAIT, Server, completion, get


@pytest.fixture(scope="module")
def server(adapter, tmp_path_factory):
    log = tmp_path_factory.mktemp("server") / "log"
    server = Server(adapter, log)
    try:
        server.wait()
        yield server.address, log
    finally:
        server.stop()


@pytest.mark.timeout(2 * WAIT)
def test_sixteen_clients_at_a_time_get_the_answers_of_generate(server, texts, expected, tokenizer):
    address, log = server

    def ask(ids):
        return json.loads(get(address + "/v1/completions", completion(ids)))

    with ThreadPoolExecutor(16) as clients:
        answers = [*clients.map(ask, texts * 2)]
    assert [one["choices"][0]["token_ids"] for one in answers] == expected * 2
    steps = [json.loads(get(f"{address}/igc/steps?id={one['id']}"))["steps"] for one in answers]
    assert not json.loads(get(f"{address}/igc/steps?id={answers[0]['id'][:-1]}"))["steps"]  # a part of an id is none
    assert all(one["id"] in step["request"] for one, found in zip(answers, steps, strict=True) for step in found)
    assert sum(map(len, steps)) == sum(json.loads(get(address + "/igc/steps?last=0"))["steps_by_status"].values())
    report = json.loads(get(address + "/igc/steps?last=3"))
    assert report["steps_by_status"]["ok"] > len(texts)
    assert len(report["steps"]) == 3
    fields = "request time position status expression result reason by_rule"
    assert {*report["steps"][0]} == {*fields.split()}
    counters = get(address + "/igc/metrics")
    assert f'igc_steps_total{{status="ok"}} {report["steps_by_status"]["ok"]}\n' in counters
    assert "bytes per token in the KV cache" in log.read_text()
