"""What balanced number tokens bring: the hidden interface on 10,000 fixed rows, as drawn and balanced.

The demonstration's adapter and training, but on a fixed set of rows, once per seed and kind of set. A set is the first
10,000 rows of the demonstration's stream, or as many that `benchmarks.accuracy.balance` takes from the same stream.
Both are
measured on the 20 BIG-bench subtasks, of which no calculation but one-digit ones is trained. Out: JSON with exact
match by subtask, the losses of training, and how unequal the number tokens of each set were.
Other sets (other tokenizers, other n) and the token interface, whose reading does not see digits, are not measured.

    python -m benchmarks.accuracy.balanced_rows --seeds 0 1 2 3 4 --output benchmarks/results/balanced_rows.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

from peft import get_peft_model
from transformers import set_seed

from benchmarks.accuracy.balance import balanced, spread
from benchmarks.common.measuring import facts
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.data.dataset import Shuffled
from peft_igc.demo.progress import Progress
from peft_igc.demo.run import demo_config, training_rows
from peft_igc.demo.settings import SETTINGS, DemoSettings
from peft_igc.demo.training import made_trainer
from peft_igc.inference import loading
from peft_igc.inference.evaluation import evaluate


KINDS = ("as drawn", "balanced")


def rows_of(kind: str, n: int, seed: int, tokenizer: Any, items: list[Any], settings: DemoSettings) -> tuple[Any, Any]:
    """A fixed set of rows without end, and what is to be told about it."""
    stream = training_rows(items, seed, settings)
    if kind == "balanced":
        made = balanced(stream, tokenizer, n, seed)
        return Shuffled(made.rows, seed), made.report
    rows = stream.take(n)
    return Shuffled(rows, seed), {"rows": n, "drawn": n, "after": spread(rows, tokenizer)}


def measure(kind: str, n: int, seed: int, settings: DemoSettings) -> dict[str, Any]:
    """One adapter: trained, then measured."""
    base, tokenizer = loading.tiny_base()
    items = bigbench_test_set(settings.per_group, settings.test_seed)
    rows, told = rows_of(kind, n, seed, tokenizer, items, settings)
    set_seed(seed)  # the adapter's initial weights
    model = get_peft_model(base, demo_config(tokenizer, settings))
    base.set_attn_implementation("eager")  # faster on a CPU for short rows
    progress = Progress(print, lambda: 0.0, checks=0)
    with tempfile.TemporaryDirectory() as scratch:
        made_trainer(model, tokenizer, rows, Path(scratch), seed, settings, progress).train()
    sizes = {"batch_size": settings.batch_size_of_test, "max_new_tokens": settings.max_new_tokens}
    report = evaluate(model, tokenizer, items, **sizes)
    print(f"seed {seed}  {kind:10s} {report['exact_match']:8.2%}", flush=True)
    kept = {key: report[key] for key in ("n", "exact_match", "groups", "mistakes")}
    return kept | {"set": told, "history": progress.history, "seconds": round(progress.seconds, 1)}


def main() -> None:
    """Runs all seeds and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], metavar="N")
    parser.add_argument("--rows", type=int, default=10_000, metavar="N", help="of a set (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=SETTINGS["hidden"].steps, metavar="N", help="(%(default)s)")
    parser.add_argument("--per-group", type=int, default=200, metavar="N", help="items per subtask (%(default)s)")
    arguments = parser.parse_args()
    settings = dataclasses.replace(
        SETTINGS["hidden"],
        steps=arguments.steps,
        per_group=arguments.per_group,
        log_every=min(SETTINGS["hidden"].log_every, arguments.steps),
    )
    results: dict[str, Any] = {
        **facts(),
        "rows": arguments.rows,
        "settings": dataclasses.asdict(settings),
        "runs": {kind: {} for kind in KINDS},
    }
    for seed in arguments.seeds:
        for kind, runs in results["runs"].items():
            runs[str(seed)] = measure(kind, arguments.rows, seed, settings)
            arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for kind, runs in results["runs"].items():
        scores = [run["exact_match"] for run in runs.values()]
        print(f"{kind:10s} worst {min(scores):.2%}, mean {sum(scores) / len(scores):.2%}")


if __name__ == "__main__":
    main()
