"""Do sixteen clients of vLLM's server get the answers of `generate` for minutes, and does memory stay flat?

Clients ask for answers to the texts of `vllm_answers` by HTTP; some read a part of a streamed answer and close the
connection. Half-way the engine's process is killed; the server ends with it, and is started again. Each whole answer
is compared with that of `generate`; a difference is a tie, or it is wrong (`vllm_answers.compared`). Memory is the
resident set of the server and its children: in each life, the median of the last third may exceed that of the middle
third by at most `RESIDENT` bytes. Otherwise the exit code is 1; the JSON is written all the same.

    .cache/vllm/bin/python -m benchmarks.cost.vllm_soak --minutes 10 --output build/vllm_soak.json
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import statistics
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common.measuring import facts, write
from benchmarks.common.vllm_engines import Server, completion, get
from benchmarks.cost.vllm_answers import compared, parser_of, prepared


CLIENTS = 16
ABORTED = 0.2  # of the requests
RESIDENT = 64 * 2**20  # bytes
EVERY = 5.0  # seconds between two samples of memory


class Clients:
    """Threads that ask a server until they are told to stop.

    Args:
        server: the server; another one takes its place while they run.
        texts: what they ask.

    Attributes:
        answers: index of the text and answer, of all whole answers.
        counts: how many requests were answered, aborted, or failed while there was no engine.
        errors: of requests that failed while there was one.
        down: set while there is no engine.
    """

    def __init__(self, server: Server, texts: list[list[int]]) -> None:
        self.server, self.texts = server, texts
        self.answers: list[tuple[int, list[int]]] = []
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self._done, self.down = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(CLIENTS)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _run(self, seed: int) -> None:
        rng = random.Random(seed)
        while not self._done.is_set():
            at, is_aborted = rng.randrange(len(self.texts)), rng.random() < ABORTED
            try:
                if is_aborted:
                    self._abort(self.texts[at], rng)
                else:
                    told = json.loads(get(self.server.address + "/v1/completions", completion(self.texts[at])))
                    self.answers.append((at, told["choices"][0]["token_ids"]))
                self.counts["aborted" if is_aborted else "answered"] += 1
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                if not self.down.is_set():
                    self.errors.append(repr(error))
                self.counts["failed"] += 1
                time.sleep(0.5)

    def _abort(self, ids: list[int], rng: random.Random) -> None:
        """Reads a few bytes of a long streamed answer, and closes the connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        body = completion(ids, stream=True, max_tokens=400 - len(ids), ignore_eos=True)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        connection.getresponse().read(rng.randrange(1, 2000))
        connection.close()


def engine_of(server: Server) -> psutil.Process:
    """The engine's process."""
    children = psutil.Process(server.process.pid).children(recursive=True)
    return next(one for one in children if any("EngineCore" in part for part in one.cmdline()))


def resident(server: Server) -> tuple[int, int]:
    """Bytes of the resident sets of a server, and of its children."""
    first = psutil.Process(server.process.pid)
    return first.memory_info().rss, sum(one.memory_info().rss for one in first.children(recursive=True))


def watched(server: Server, seconds: float) -> dict[str, Any]:
    """Samples of memory, and the steps of a server, after some seconds."""
    samples, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        samples.append(resident(server))
        time.sleep(EVERY)
    third, sums = len(samples) // 3, [sum(one) for one in samples]
    growth = statistics.median(sums[2 * third :]) - statistics.median(sums[third : 2 * third])
    steps = json.loads(get(server.address + "/igc/steps?last=0"))["steps_by_status"]
    mebibytes = [[round(part / 2**20) for part in one] for one in samples]
    return {"seconds": seconds, "growth": growth, "MiB of server and engine": mebibytes, "steps": steps}


def soak(adapter: Path, log: Path, texts: list[list[int]], minutes: float) -> tuple[Clients, list[dict[str, Any]]]:
    """The clients after two lives of a server, and what was seen of each life."""
    server = Server(adapter, log)
    try:
        server.wait()
        with Clients(server, texts) as clients:
            lives = [watched(server, 30 * minutes)]
            clients.down.set()
            os.kill(engine_of(server).pid, signal.SIGKILL)
            server.process.wait()  # it ends without its engine
            clients.server = server = Server(adapter, log)
            server.wait()
            clients.down.clear()
            lives.append(watched(server, 30 * minutes))
    finally:
        server.stop()
    return clients, lives


def main() -> None:
    """Runs the clients, and writes the results."""
    parser = parser_of(__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="of both lives of the server together")
    args = parser.parse_args()
    with prepared(args.n, args.expected) as (adapter, _, model, texts, wanted):
        clients, lives = soak(adapter, args.output.with_suffix(".log"), texts, args.minutes)
        asked, answers = zip(*clients.answers, strict=True)
        told = compared(model, [texts[at] for at in asked], list(answers), [wanted[at] for at in asked])
    counts = dict(clients.counts) | {"errors": clients.errors}
    write(args.output, {**facts(), "requests": counts, "answers": told, "lives": lives})
    grown = any(life["growth"] > RESIDENT for life in lives)
    raise SystemExit(int(bool(told["others"] or clients.errors or grown)))


if __name__ == "__main__":
    main()
