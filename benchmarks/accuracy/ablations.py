"""The paper's comparison of architectures on the embedded base: IGC and LoRA.

IGC is the hidden interface by `recipes/tiny_ablations.yaml`. LoRA is on every linear layer, by `tiny_lora.yaml` with
the same rows and steps, about as many parameters, and the best of several learning rates, which runs with a seed of
their own choose on other items. All are tested by greedy generation of whole answers to items of BIG-bench's form.

    python -m benchmarks.accuracy.ablations --steps 600 --search-steps 300 --per-group 50 \\
        --output benchmarks/results/ablations.json
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common.measuring import command, facts, write
from benchmarks.common.shapes import lora_rank
from benchmarks.common.trainings import best_rate, trained
from peft_igc.data.bigbench import OPERATION_NAMES, bigbench_test_set
from peft_igc.inference.evaluation import evaluate
from peft_igc.inference.loading import tiny_base


IGC, LORA = "igc", "lora"
RECIPES = {IGC: "tiny_ablations", LORA: "tiny_lora"}
SAME_ROWS = {"igc_interface": "hidden", "igc_generated_max_digits": 5, "igc_num_digits": 5, "igc_result_digits": 10}
RATES = [5e-4, 1e-3, 3e-3]  # where a search begins
VALIDATION_SEED, SEARCH_SEED, TEST_SEED = 1, 1_000_000, 0
VALIDATION_ITEMS = 20  # per subtask, of what chooses the learning rate


def tested(model: Any, tokenizer: Any, items: list[Any]) -> dict[str, Any]:
    """Exact match, in all and of each operation, whose items weigh equally."""
    report = evaluate(model, tokenizer, items, max_new_tokens=16)
    operations = {}
    for name in OPERATION_NAMES.values():
        parts = [score for group, score in report["groups"].items() if group.endswith(name)]
        right, n = sum(one["exact_match"] * one["n"] for one in parts), sum(one["n"] for one in parts)
        operations[name] = right / n
    return {"operations": operations} | {key: report[key] for key in ("n", "exact_match", "groups", "mistakes")}


def measured(method: str, seed: int, changes: dict[str, Any], items: list[Any], folder: Path) -> dict[str, Any]:
    """One run and its test."""
    model, tokenizer, told = trained(RECIPES[method], changes | {"seed": seed}, folder / f"{method}-{seed}")
    found = tested(model, tokenizer, items)
    print(f"{method}, seed {seed}  {found['exact_match']:.2%}  {found['operations']}", flush=True)
    return {"training": told, **found}


def baseline(parameters: int, changes: dict[str, Any], search_steps: int, folder: Path) -> tuple[dict[str, Any], Any]:
    """The settings of a LoRA with about as many parameters, and the search for its learning rate."""
    rank = lora_rank(tiny_base()[0], parameters)
    changes = SAME_ROWS | changes | {"lora_r": rank, "lora_alpha": 2 * rank}
    items = bigbench_test_set(VALIDATION_ITEMS, VALIDATION_SEED)

    def exact_match(rate: float) -> float:
        short = changes | {"learning_rate": rate, "max_steps": search_steps}
        return float(measured(LORA, SEARCH_SEED, short, items, folder)["exact_match"])

    search = {"steps": search_steps, **best_rate(RATES, exact_match)}
    return changes | {"learning_rate": search["chosen"]}, search


def main() -> None:
    """Runs both methods and all seeds; the results are written after each."""
    parser = command(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="N")
    parser.add_argument("--rows", type=int, default=10_000, help="of the training set (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1200, help="of 128 rows (default: %(default)s)")
    parser.add_argument("--search-steps", type=int, default=1200, help="of a search for a learning rate")
    parser.add_argument("--per-group", type=int, default=100, help="test items per subtask (default: %(default)s)")
    arguments = parser.parse_args()
    items = bigbench_test_set(arguments.per_group, TEST_SEED)
    results: dict[str, Any] = {**facts(), "settings": vars(arguments) | {"output": arguments.output.name}}
    results |= {"base": tested(*tiny_base(), items), "runs": {}}
    changes = {"igc_generated_rows": arguments.rows, "max_steps": arguments.steps, "warmup_steps": 0.1}
    with tempfile.TemporaryDirectory() as name:
        for method in RECIPES:
            if method == LORA:
                parameters = next(iter(results["runs"][IGC].values()))["training"]["parameters"]
                changes, results["search"] = baseline(parameters, changes, arguments.search_steps, Path(name))
            for seed in arguments.seeds:
                run = measured(method, seed, changes, items, Path(name))
                results["runs"].setdefault(method, {})[str(seed)] = run
                write(arguments.output, results)


if __name__ == "__main__":
    main()
