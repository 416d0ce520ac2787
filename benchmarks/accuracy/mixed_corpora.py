"""Training rows that are not all annotated, and not all rightly: what that does to the token interface.

The demonstration's run (`peft-igc demo`) on equal rows in equal batches, changed in their operand columns only: all
annotated; a part of them; and 5% of all rows with another operator and its result, so that the columns say one thing
and the answer another. Rows are tokenized and put into batches by the columns that they had at first. The test is
BIG-bench's form, whole answers, greedy.

    python -m benchmarks.accuracy.mixed_corpora --output benchmarks/results/mixed_corpora.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peft import get_peft_model
from transformers import set_seed

from benchmarks.common.measuring import facts
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.data.columns import COLUMNS
from peft_igc.data.dataset import Shuffled
from peft_igc.demo.batches import tokenized
from peft_igc.demo.progress import Progress
from peft_igc.demo.run import demo_config, training_rows
from peft_igc.demo.settings import SETTINGS, DemoSettings
from peft_igc.demo.training import made_trainer
from peft_igc.inference import loading
from peft_igc.inference.evaluation import evaluate
from peft_igc.numbers.calculator import evaluate_exactly


Rows = list[dict[str, Any]]
NUMBER = "number"  # of a row
VARIANTS = {  # part of the rows that is annotated, part of the rows that is annotated wrongly
    "all annotated": (1.0, 0.0),
    "half annotated": (0.5, 0.0),
    "a tenth annotated": (0.1, 0.0),
    "5% wrong": (1.0, 0.05),
}


def changes(rows: Rows, annotated: float, wrong: float, seed: int) -> list[dict[str, Any]]:
    """What becomes of the operand columns of each row; {} where they stay."""
    rng = random.Random(f"mixed_corpora/{seed}")
    made: list[dict[str, Any]] = [{} for _ in rows]
    for at in rng.sample(range(len(rows)), round((1 - annotated) * len(rows))):
        made[at] = dict.fromkeys(COLUMNS)
    others = {at: other for at, row in enumerate(rows) if (other := other_operator(row, rng)) is not None}
    for at in rng.sample(sorted(others), round(wrong * len(rows))):
        made[at] = others[at]
    return made


class Numbered:
    """Tokenized rows with their numbers, epoch after epoch."""

    def __init__(self, rows: Rows, tokenizer: Any, seed: int) -> None:
        made = [row | {NUMBER: at} for at, row in enumerate(tokenized(rows, tokenizer))]
        self.rows = Shuffled(made, seed)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)


def other_operator(row: dict[str, Any], rng: random.Random) -> dict[str, str] | None:
    """Another operator for a row's operands, with its result; None where the row has no result, or there is none."""
    if not (row["igc_result"] or "").lstrip("-").isdigit():
        return None
    for operator in rng.sample([symbol for symbol in "+-*/" if symbol != row["igc_operator"]], 3):
        result = evaluate_exactly(operator, *row["igc_operands"])
        if isinstance(result, str) and result != row["igc_result"]:
            return {"igc_operator": operator, "igc_result": result}
    return None


def measure(name: str, seed: int, settings: DemoSettings, tested: Rows) -> dict[str, Any]:
    """One run."""
    base, tokenizer = loading.tiny_base()
    set_seed(seed)
    model = get_peft_model(base, demo_config(tokenizer, settings))
    stream = training_rows(tested, seed, settings)
    assert isinstance(stream, Shuffled)
    columns = changes(stream.rows, *VARIANTS[name], seed)
    base.set_attn_implementation("eager")
    progress = Progress(
        lambda line: print(f"{name}, seed {seed}  {line}", flush=True),
        lambda: evaluate(model, tokenizer, tested[::50], max_new_tokens=settings.max_new_tokens)["exact_match"],
        checks=1,
    )
    with tempfile.TemporaryDirectory() as scratch:
        numbered = Numbered(stream.rows, tokenizer, seed)
        trainer = made_trainer(model, tokenizer, numbered, Path(scratch), seed, settings, progress)
        trainer.train_dataset = trainer.train_dataset.map(lambda row: row | columns[row[NUMBER]])
        trainer.train()
    base.set_attn_implementation("sdpa")
    report = evaluate(model, tokenizer, tested, max_new_tokens=settings.max_new_tokens)
    print(f"{name}, seed {seed}  {report['exact_match']:.2%}", flush=True)
    keys = ("n", "exact_match", "groups", "mistakes")
    counts = {
        "rows": len(columns),
        "without_annotation": sum(change.get("igc_operator", "") is None for change in columns),
        "wrong": sum(bool(change.get("igc_operator")) for change in columns),
    }
    return {**counts, "seconds": round(progress.seconds, 1), **{key: report[key] for key in keys}}


def main() -> None:
    """Runs all variants and seeds, and writes results after each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="N")
    parser.add_argument("--steps", type=int, default=SETTINGS["tokens"].steps, help="(default: %(default)s)")
    parser.add_argument("--per-group", type=int, default=100, help="test items per subtask (default: %(default)s)")
    arguments = parser.parse_args()
    settings = dataclasses.replace(SETTINGS["tokens"], steps=arguments.steps)
    tested = bigbench_test_set(arguments.per_group)
    runs: dict[str, Any] = {name: {} for name in arguments.variants}
    results = {
        **facts(),
        "settings": dataclasses.asdict(settings) | {"per_group": arguments.per_group},
        "runs": runs,
    }
    for seed in arguments.seeds:
        for name in arguments.variants:
            runs[name][str(seed)] = measure(name, seed, settings, tested)
            arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
