"""What benchmarks of speed share: alternating runs, medians with quartiles, and what a run ran on.

What is compared takes turns (A B C A B C), so that a machine that slows down slows all of them, and overheads are
those of neighbours.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from peft_igc.inference.evaluation import versions


FEWEST = 3  # rounds, whatever they take
DATA = Path(__file__).parents[1] / "data"  # texts


def command(description: str, output: bool = True) -> argparse.ArgumentParser:
    """A parser of a benchmark's arguments, with `--output`, the file of its results."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=output, metavar="FILE")
    return parser


def write(output: Path, results: Mapping[str, Any]) -> None:
    """Writes results, also in between."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def facts() -> dict[str, Any]:
    """Commit, versions and threads of this run, the processor, and the GPU if there is one."""
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    path = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.*)", path.read_text(encoding="utf-8")) if path.exists() else None
    return {
        "commit": subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip(),
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "hardware": {
            "machine": platform.machine(),
            "processor": named[1] if named else platform.processor(),
            "cores": os.cpu_count(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
    }


def seconds(function: Callable[[], object], device: torch.device) -> float:
    """How long a call takes; a GPU has finished its work before the clock is read."""
    finish = partial(torch.cuda.synchronize, device) if device.type == "cuda" else lambda: None
    finish()
    start = time.perf_counter()
    function()
    finish()
    return time.perf_counter() - start


def alternating(
    functions: dict[str, Callable[[], dict[str, float]]],
    repetitions: int,
    most_seconds: float = math.inf,
) -> dict[str, dict[str, list[float]]]:
    """Runs all functions in turn, over and over, after one round that does not count; gives the seconds of each
    repetition by part and function.

    Each function gives seconds by the name of a part of its work. After `most_seconds` no further round begins, once
    `FEWEST` have counted.
    """
    for function in functions.values():
        function()
    found: dict[str, dict[str, list[float]]] = {}
    begin = time.perf_counter()
    for repetition in range(repetitions):
        if repetition >= FEWEST and time.perf_counter() - begin > most_seconds:
            break
        for name, function in functions.items():
            for part, value in function().items():
                found.setdefault(part, {}).setdefault(name, []).append(value)
    return found


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Median with its interval of 95%, quartiles and number of values."""
    ordered, n, below = sorted(values), len(values), 0
    # So many values are below the median, or above, with a probability of at most 2.5%; no distribution is assumed.
    while sum(math.comb(n, k) for k in range(below + 1)) <= 0.025 * 2**n:
        below += 1
    interval = [ordered[max(below - 1, 0)], ordered[n - max(below, 1)]]
    low, median, high = statistics.quantiles(ordered, n=4, method="inclusive") if n > 1 else 3 * ordered
    return {"median": median, "interval": interval, "low": low, "high": high, "n": n}


def overhead(values: Sequence[float], others: Sequence[float]) -> dict[str, Any]:
    """By what part `values` are longer than those measured in the same round: median and quartiles of the ratios."""
    return summary([value / other - 1 for value, other in zip(values, others, strict=True)])
