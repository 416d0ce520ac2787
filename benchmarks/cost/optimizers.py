"""How fast the reading learns: Muon for the calculator's matrices against AdamW for everything, on equal rows.

The demonstration's own run, cut short, once per optimizer and seed; AdamW gets three learning rates, so that it is not
beaten by a bad one. Out: JSON with the reading's accuracy on fresh training rows against the step, and the seconds.
It measures the reading on its training distribution only; answers are measured by `peft-igc demo`.

    python -m benchmarks.cost.optimizers --output benchmarks/results/optimizers.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from peft_igc.demo.run import run_demo
from peft_igc.demo.settings import SETTINGS, DemoSettings


ADAMW_RATES = (1e-3, 3e-3, 6e-3)


def variants(steps: int) -> dict[str, DemoSettings]:
    """The settings of each run: the demonstration's, of `steps` steps, without its tests."""
    often = max(steps // 6, 1)
    changes = {"steps": steps, "per_group": 1, "checks": 1, "check_per_group": 1, "log_every": often}
    short = dataclasses.replace(SETTINGS["hidden"], **changes)
    adamw = {
        f"AdamW {rate:g}": dataclasses.replace(short, muon_learning_rate=None, learning_rate=rate)
        for rate in ADAMW_RATES
    }
    return {f"Muon {short.muon_learning_rate:g} + AdamW {short.learning_rate:g}": short, **adamw}


def measure(settings: DemoSettings, seed: int) -> dict[str, Any]:
    """One run."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_demo(Path(folder) / "run", seed=seed, minutes=None, settings=settings, say=print)
    training = outcome.results["training"]
    keys = ("step", "loss_read", "read_accuracy", "seconds")
    return {
        "seed": seed,
        "seconds": training["seconds"],
        "curve": [{key: entry[key] for key in keys} for entry in training["history"]],
        "versions": outcome.results["versions"],
        "hardware": outcome.results["hardware"],
    }


def commit() -> str:
    """The commit that is measured, marked if files differ from it."""
    git = ["git", "-C", str(Path(__file__).parent)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    dirty = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True).stdout.strip()
    return head + (" with changes" if dirty else "")


def main() -> None:
    """Runs all variants and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--steps", type=int, default=300, metavar="N")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="N")
    arguments = parser.parse_args()
    batch_size = SETTINGS["hidden"].batch_size
    results: dict[str, Any] = {"commit": commit(), "steps": arguments.steps, "batch_size": batch_size}
    results["runs"] = {
        name: [measure(settings, seed) for seed in arguments.seeds]
        for name, settings in variants(arguments.steps).items()
    }
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name, runs in results["runs"].items():
        last = [f"{run['curve'][-1]['read_accuracy']:.1%} in {run['seconds']:.0f} s" for run in runs]
        print(f"{name:28s} read right after {arguments.steps} steps: {', '.join(last)}")


if __name__ == "__main__":
    main()
