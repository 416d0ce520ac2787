"""The paper's comparison of architectures on the embedded base: IGC and LoRA.

All methods see the same rows (a fixed set, each seed its own), the same batches, steps and schedule, and are tested on
the same items, BIG-bench's form, by greedy generation of whole answers. IGC is the hidden interface, with the settings
of `peft-igc demo --interface hidden`, which were chosen for IGC before. LoRA is put on every linear layer, with
alpha twice the rank; its rank is the one that comes nearest to IGC's number of parameters. LoRA takes the best of
several learning rates, told by a run of as many steps (seed of its own) on other items (but for those of the small
complete sets, which are in both); where the best is the highest or the lowest, the search goes on beyond it. The
recorded results also have the paper's shortcut past the calculator, which is no longer in the package.

    python -m benchmarks.accuracy.ablations --steps 600 --search-steps 300 --checks 6 --per-group 50 \\
        --output benchmarks/results/ablations.json
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from peft import LoraConfig, get_peft_model
from transformers import set_seed

from benchmarks.common.measuring import command, facts, write
from benchmarks.common.small_trainings import SETTINGS, DemoSettings, demo_config, made_trainer, training_rows
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.demo.report import OPERATIONS
from peft_igc.inference import loading
from peft_igc.inference.evaluation import evaluate
from peft_igc.trainer.progress import Progress


IGC: dict[str, dict[str, Any]] = {
    "igc": {},
}
LORA = "lora"
RATES = {LORA: [5e-4, 1e-3, 3e-3]}  # where a search begins
BEYOND = 3.0  # by what factor a search goes on
VALIDATION_SEED, SEARCH_SEED, TEST_SEED = 1, 1_000_000, 0
VALIDATION_ITEMS = 20  # per subtask, of what chooses the learning rate


def settings_of(arguments: argparse.Namespace) -> DemoSettings:
    """The demonstration's settings of the hidden interface, on a fixed set of rows."""
    return dataclasses.replace(
        SETTINGS["hidden"], steps=arguments.steps, distinct_rows=arguments.rows, checks=arguments.checks
    )


def attached(method: str, base: Any, tokenizer: Any, settings: DemoSettings) -> Any:
    """The base model with a fresh adapter."""
    if method == LORA:
        rank = lora_rank(settings)
        return get_peft_model(base, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))
    return get_peft_model(base, demo_config(tokenizer, settings, **IGC[method]))


def lora_rank(settings: DemoSettings) -> int:
    """The rank at which LoRA on every linear layer has about as many parameters as IGC."""
    counts = []
    for make in (
        lambda tokenizer: demo_config(tokenizer, settings),
        lambda _: LoraConfig(r=1, target_modules="all-linear"),
    ):
        base, tokenizer = loading.tiny_base()
        counts.append(get_peft_model(base, make(tokenizer)).num_parameters(only_trainable=True))
    return round(counts[0] / counts[1])


def train(method: str, settings: DemoSettings, validation: list[Any], tested: list[Any]) -> tuple[Any, ...]:
    """One run: the trained model, its tokenizer, and how it went."""
    base, tokenizer = loading.tiny_base()
    set_seed(settings.seed)
    model = attached(method, base, tokenizer, settings)

    def check() -> float:
        return evaluate(model, tokenizer, validation, max_new_tokens=settings.max_new_tokens)["exact_match"]

    rows = training_rows([*tested, *validation], settings)
    told = fitted(f"{method}, seed {settings.seed}", model, tokenizer, rows, settings, check)
    return model, tokenizer, told


def fitted(
    title: str,
    model: Any,
    tokenizer: Any,
    rows: Any,
    settings: DemoSettings,
    check: Callable[[], float],
) -> dict[str, Any]:
    """Trains a model on `rows`, as `made_trainer` takes them, and tells how it went; `title` begins its lines.

    `check` measures exact match on the way, `settings.checks` times. Eager attention is the fastest for short rows.
    """
    progress = Progress(lambda line: print(f"{title}  {line}", flush=True), check, checks=settings.checks)
    model.set_attn_implementation("eager")
    with tempfile.TemporaryDirectory() as scratch:
        trainer = made_trainer(model, tokenizer, rows, Path(scratch), settings, progress)
        trainer.train()
        trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)  # or all that follows is autocast
    model.set_attn_implementation("sdpa")
    return {
        "seconds": round(progress.seconds - progress.check_seconds, 1),
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "checks": [{**entry, "rows": entry["step"] * settings.batch_size} for entry in progress.checks],
    }


def searched(
    method: str, settings: DemoSettings, steps: int, validation: list[Any], tested: list[Any]
) -> dict[str, Any]:
    """The learning rate of a method: exact match on validation items after a run of `steps` at each rate."""

    def exact_match(rate: float) -> float:
        changes = {"steps": steps, "checks": 1, "seed": SEARCH_SEED}
        *_, told = train(method, dataclasses.replace(with_rate(method, settings, rate), **changes), validation, tested)
        return told["checks"][-1]["exact_match"]

    return {"steps": steps, **best_rate(RATES[method], exact_match)}


def best_rate(rates: Sequence[float], exact_match: Callable[[float], float]) -> dict[str, Any]:
    """The best of several learning rates; where that is the highest or the lowest, the search goes on beyond it."""
    found: dict[float, float] = {}
    waiting = list(rates)
    while waiting:
        rate = waiting.pop(0)
        found[rate] = exact_match(rate)
        best = max(found, key=lambda rate: found[rate])
        if not waiting and len(found) < 2 * len(rates):  # a search has an end
            waiting = [best * BEYOND] if best == max(found) else [best / BEYOND] if best == min(found) else []
    return {"exact_match": found, "chosen": max(found, key=lambda rate: found[rate])}


def with_rate(method: str, settings: DemoSettings, rate: float) -> DemoSettings:
    """Settings with another learning rate; for LoRA without what only a calculator has."""
    if method == LORA:
        return dataclasses.replace(settings, learning_rate=rate, muon_learning_rate=None, weight_decay=0.0)
    scale = rate / settings.learning_rate
    return dataclasses.replace(
        settings, learning_rate=rate, muon_learning_rate=scale * (settings.muon_learning_rate or 0.0)
    )


def measure(method: str, settings: DemoSettings, validation: list[Any], tested: list[Any]) -> dict[str, Any]:
    """One run and its test."""
    model, tokenizer, told = train(method, settings, validation, tested)
    report = evaluate(model, tokenizer, tested, max_new_tokens=settings.max_new_tokens)
    scores = by_operation(report["groups"])
    print(f"{method}, seed {settings.seed}  {report['exact_match']:.2%}  {scores}", flush=True)
    keys = ("n", "exact_match", "groups", "truncated", "mistakes")
    return {"training": told, "operations": scores, **{key: report[key] for key in keys}}


def by_operation(groups: dict[str, Any]) -> dict[str, float]:
    """Exact match of each operation, its items weighing equally."""
    parts = {name: [score for group, score in groups.items() if group.endswith(name)] for name in OPERATIONS}
    return {
        name: sum(s["exact_match"] * s["n"] for s in scores) / sum(s["n"] for s in scores)
        for name, scores in parts.items()
    }


def main() -> None:
    """Runs all methods and seeds; the results are written after each."""
    parser = command(__doc__)
    parser.add_argument("--methods", nargs="+", default=[*IGC, LORA], choices=[*IGC, LORA])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="N")
    parser.add_argument("--rows", type=int, default=10_000, help="of the training set (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1200, help="of 128 rows (default: %(default)s)")
    parser.add_argument("--search-steps", type=int, help="of a search for a learning rate (default: as --steps)")
    parser.add_argument("--per-group", type=int, default=100, help="test items per subtask (default: %(default)s)")
    parser.add_argument("--checks", type=int, default=12, help="measurements on the way (default: %(default)s)")
    arguments = parser.parse_args()
    settings = settings_of(arguments)
    tested = bigbench_test_set(arguments.per_group, TEST_SEED)
    validation = bigbench_test_set(VALIDATION_ITEMS, VALIDATION_SEED)
    results: dict[str, Any] = {
        **facts(),
        "settings": dataclasses.asdict(settings)
        | {"per_group": arguments.per_group, "lora_rank": lora_rank(settings)},
    }
    base, tokenizer = loading.tiny_base()
    report = evaluate(base, tokenizer, tested, max_new_tokens=settings.max_new_tokens)
    operations = by_operation(report["groups"])
    results["base"] = {"n": report["n"], "exact_match": report["exact_match"], "operations": operations}
    runs: dict[str, Any] = {}
    results["runs"] = runs
    for method in arguments.methods:
        chosen = settings
        if method in RATES:
            search = searched(method, settings, arguments.search_steps or arguments.steps, validation, tested)
            results.setdefault("learning_rates", {})[method] = search
            chosen = with_rate(method, settings, search["chosen"])
        for seed in arguments.seeds:
            runs.setdefault(method, {})[str(seed)] = measure(
                method, dataclasses.replace(chosen, seed=seed), validation, tested
            )
            write(arguments.output, results)


if __name__ == "__main__":
    main()
