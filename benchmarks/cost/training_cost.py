"""What training costs: both interfaces' demonstrations, one after the other, with exact match measured on the way.

Exact match is that of generated answers to a sample of questions of the 20 BIG-bench-form subtasks, whose calculations
are kept out of training (but those of the one-digit subtasks, which are complete sets). Samples are rows that were
trained on, repeats included; seconds are without those of the measurements. Writes JSON, and a figure beside it.

    python -m benchmarks.cost.training_cost --minutes 3.4 --per-group 10 --output benchmarks/results/training_cost.json
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
from peft_igc.demo.settings import SETTINGS


TARGET = 0.99
NAMES = {"hidden": "hidden interface, fresh rows", "tokens": "token interface, 10,000 distinct rows"}


def measure(interface: str, seed: int, every: int, per_group: int, minutes: float | None) -> dict[str, Any]:
    """One demonstration, measured every so many steps, and ended after so many minutes."""
    settings = SETTINGS[interface]
    settings = dataclasses.replace(settings, checks=settings.steps // every, check_per_group=per_group)
    with tempfile.TemporaryDirectory() as folder:
        results = run_demo(Path(folder) / "run", seed=seed, minutes=minutes, settings=settings).results
    training = results["training"]
    points = [check | {"samples": check["step"] * settings.batch_size} for check in training["checks"]]
    reached = next((point for point in points if point["exact_match"] >= TARGET), None)
    kept = ("steps", "steps_planned", "stopped_early", "rows", "seconds", "seconds_of_checks", "trainable_parameters")
    return {
        "distinct_rows": settings.distinct_rows,
        "points": points,
        "first_at_target": reached,
        "exact_match_of_the_test_set": results["igc"]["exact_match"],
        "training": {key: training[key] for key in kept},
        "versions": results["versions"],
        "hardware": results["hardware"],
    }


def draw(path: Path, runs: dict[str, dict[str, Any]]) -> None:
    """Exact match against samples, and against seconds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, key, label in zip(panels, ("samples", "seconds"), ("samples trained on", "seconds"), strict=True):
        axes.set_xlabel(label)
        axes.set_ylim(0, 102)
        axes.axhline(100 * TARGET, color="0.6", linestyle=":")
        for name, run in runs.items():
            points = run["points"]
            axes.plot([p[key] for p in points], [100 * p["exact_match"] for p in points], "o-", label=NAMES[name])
    panels[0].set_ylabel("exact match (%)")
    panels[0].legend(loc="lower right")
    figure.suptitle("Training on the embedded base model, two CPU cores")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Runs both and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--every", type=int, default=50, metavar="STEPS", help="(default: %(default)s)")
    parser.add_argument("--per-group", type=int, default=20, metavar="N", help="questions per subtask")
    parser.add_argument("--minutes", type=float, metavar="CAP", help="stop each training early after so long")
    arguments = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    sizes = (arguments.seed, arguments.every, arguments.per_group, arguments.minutes)
    runs = {name: measure(name, *sizes) for name in NAMES}
    results = {
        "commit": commit,
        "seed": arguments.seed,
        "minutes": arguments.minutes,
        "per_group": arguments.per_group,
        "target": TARGET,
        "runs": runs,
    }
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    draw(arguments.output.with_suffix(".png"), runs)
    print(json.dumps({name: run["first_at_target"] for name, run in runs.items()}, indent=1))


if __name__ == "__main__":
    main()
