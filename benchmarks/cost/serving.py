"""Serving: transformers' own server with an adapter, many clients at once, and its answers against those made offline.

    pip install 'transformers[serving]'
    python -m benchmarks.cost.serving --output benchmarks/results/serving.json --seconds 300 --clients 16

The server is `transformers serve FOLDER` in a process of its own; the folder has the files of the base and of the
adapter. Each client asks one question after the other over HTTP (`/v1/chat/completions`, temperature 0). The questions
are BIG-bench arithmetic and talk without it. Measured are answers per second, latencies, the resident memory of the
server over time, and how many answers differ from those of `evaluation.generate_answers`, which must be none.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common.measuring import facts
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.inference.evaluation import generate_answers
from peft_igc.inference.loading import find_adapter, find_base, load_adapter, load_base


LONGEST = 24  # tokens of an answer
TALK = ["Hello!", "Repeat 4711.", "Who are you?", "Tell me of the sea.", "In 1984 I was 12."]
BOOT, PATIENCE, EVERY = 300.0, 120.0, 5.0  # seconds: for the start, for an answer, between two looks at the memory


def serving_folder(base: str, adapter: str, folder: Path) -> None:
    """Puts base and adapter into one folder, which transformers loads as a model with an adapter."""
    for source in (find_base(base), find_adapter(adapter)):
        for path in Path(source).iterdir():
            if path.is_file():
                shutil.copy(path, folder / path.name)
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = str(folder)
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")


def ask(url: str, model: str, prompt: str) -> str:
    """One answer over HTTP."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": LONGEST,
    }
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
        return str(json.load(reply)["choices"][0]["message"]["content"])


def resident(pid: int) -> float:
    """Resident memory of a process in MiB (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextmanager
def server(folder: Path, log: Path) -> Iterator[tuple[str, int]]:
    """A server on a free port of this machine: its address and process id.

    Raises:
        RuntimeError: if it ends, or does not answer within `BOOT` seconds; with the end of what it said.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    program = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder)]
    options = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    with log.open("wb") as output, subprocess.Popen([*program, *options], stdout=output, stderr=output) as process:
        try:
            begin = time.monotonic()
            while not _answers(url):
                if process.poll() is not None or time.monotonic() - begin > BOOT:
                    raise RuntimeError(f"The server did not start: {log.read_text(errors='replace')[-2000:]}")
                time.sleep(0.5)
            yield url, process.pid
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(url: str) -> bool:
    """Whether the server is there."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class Client(threading.Thread):
    """Asks one question after the other until a point in time.

    Attributes:
        asked: (index of the question, answer, seconds) of each; the answer is an error's text where there was one.
    """

    def __init__(self, url: str, model: str, prompts: Sequence[str], first: int, until: float) -> None:
        super().__init__(daemon=True)
        self.url, self.model, self.prompts, self.first, self.until = url, model, prompts, first, until
        self.asked: list[tuple[int, str, float]] = []

    def run(self) -> None:
        """Asks."""
        at = self.first
        while time.monotonic() < self.until:
            begin = time.monotonic()
            try:
                answer = ask(self.url, self.model, self.prompts[at % len(self.prompts)])
            except (OSError, KeyError, ValueError) as error:
                answer = f"error: {error}"
            self.asked.append((at % len(self.prompts), answer, time.monotonic() - begin))
            at += 1


def summary(asked: Sequence[tuple[int, str, float]], expected: Sequence[str], seconds: float) -> dict[str, Any]:
    """Counts, speed and latencies of the answers."""
    differ = [
        {"question": at, "served": answer, "offline": expected[at]}
        for at, answer, _ in asked
        if answer.strip() != expected[at].strip()
    ]
    times = sorted(one for *_, one in asked)
    return {
        "answers": len(asked),
        "questions": len({at for at, *_ in asked}),
        "errors": sum(answer.startswith("error: ") for _, answer, _ in asked),
        "differ": len(differ),
        "examples": differ[:10],
        "answers_per_second": round(len(asked) / seconds, 2),
        "latency": {f"p{p}": round(times[min(len(times) * p // 100, len(times) - 1)], 3) for p in (50, 90, 99)},
    }


def run(base: str, adapter: str, seconds: float, clients: int, questions: int) -> dict[str, Any]:
    """Serves, asks, and compares."""
    prompts = [*(item["prompt"] for item in bigbench_test_set(questions, 7)), *TALK]
    model, tokenizer = load_base(base)
    expected = generate_answers(load_adapter(model, adapter), tokenizer, prompts, max_new_tokens=LONGEST)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        folder.mkdir()
        serving_folder(base, adapter, folder)
        with server(folder, Path(place) / "log.txt") as (url, pid):
            ask(url, str(folder), prompts[0])
            begin = time.monotonic()
            threads = [Client(url, str(folder), prompts, 7 * n, begin + seconds) for n in range(clients)]
            for thread in threads:
                thread.start()
            memory = []
            while any(thread.is_alive() for thread in threads):
                memory.append(round(resident(pid), 1))
                time.sleep(min(EVERY, seconds / 4))
            took = time.monotonic() - begin
    found = summary([one for thread in threads for one in thread.asked], expected, took)
    settings = {"base": base, "adapter": adapter, "clients": clients, "seconds": seconds, "max_tokens": LONGEST}
    return {**found, "resident_mib": memory, "settings": settings, **facts()}


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", required=True, metavar="FILE", help="file for the results, as JSON")
    parser.add_argument("--base", default="tiny", help="folder or `tiny` (default)")
    parser.add_argument("--adapter", default="tiny", help="folder or `tiny` (default)")
    parser.add_argument("--seconds", type=float, default=300.0, help="default: %(default)s")
    parser.add_argument("--clients", type=int, default=16, help="default: %(default)s")
    parser.add_argument("--questions", type=int, default=5, help="per operation and length (default: %(default)s)")
    arguments = parser.parse_args(argv)
    found = run(arguments.base, arguments.adapter, arguments.seconds, arguments.clients, arguments.questions)
    Path(arguments.output).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"{found['answers']:,} answers, {found['differ']} differ from offline ones, {found['errors']} errors")
    return 1 if found["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
