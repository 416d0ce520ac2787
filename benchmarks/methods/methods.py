"""The paper's comparison of methods on the embedded base: same rows and budget, a measurement in every cell.

Methods: the base model; a LoRA with as many parameters as IGC; tool use (a LoRA that writes a call, Python calculates,
the model goes on in the same KV cache; in `tool_spliced` the reply is the answer itself); IGC with both interfaces.
All train on the same 10,000 rows for equally many steps; all but IGC take the best of three or more learning rates on
validation items. Tested are cells of operation, length and phrasing (`items`), by greedy generation of whole answers
through one loop (`answer_loop`); tokens and seconds are counted there, methods in turn. The paper's rows of
other models are quoted in the results. No tested calculation is trained, but for one-digit ones.

    python -m benchmarks.methods.methods --output benchmarks/results/methods.json
"""

from __future__ import annotations

import argparse
import random
from functools import cache
from typing import Any

from benchmarks.common.measuring import command, facts, write
from benchmarks.methods.items import LONGER, TRAINED, apart, cells
from benchmarks.methods.measures import Method, by_cell, timed, totals
from benchmarks.methods.training import KINDS, Budget, trained, training_set
from peft_igc.data.bigbench import GROUPS, OPERATION_NAMES, bigbench_items, bigbench_size
from peft_igc.inference import loading
from peft_igc.inference.decoding import eval_mode


TEST_SEED, VALIDATION_SEED = 0, 1
BASE = "base"
SHOWN = 5  # sentences about a test set that is not apart from training
# Of the paper, nothing of which was measured here: all, addition, subtraction, multiplication, division.
QUOTED = {
    name: dict(zip(("all", *OPERATION_NAMES.values()), shares, strict=True))
    for name, shares in (
        ("PaLM 535B, n-shot", (0.94, 0.94, 0.96, 0.91, 0.97)),
        ("best below 100B, n-shot", (0.49, 0.49, 0.69, 0.35, 0.71)),
    )
}


class Comparison:
    """One run of the command: the questions, and the methods as they become ready.

    Args:
        arguments: of the command.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.tested = cells(arguments.per_cell, TEST_SEED, range(1, arguments.longest + 1))
        items = [item for part in self.tested.values() for item in part]
        self.validation = {
            group: bigbench_items(group, min(arguments.validation, bigbench_size(group)), VALIDATION_SEED)
            for group in GROUPS
        }
        base, tokenizer = loading.tiny_base()
        self.base = Method(BASE, base, tokenizer)
        self.ready: list[Method] = []
        short = [item for item in items if int(item["group"].split("/")[1].split("_")[0]) in TRAINED]
        self.timed_items = random.Random("timed items").sample(short, min(arguments.timed, len(short)))
        validation = [item for part in self.validation.values() for item in part]
        self.rows = cache(lambda seed: training_set([*items, *validation], seed, arguments.rows))
        if wrong := apart(self.rows(arguments.seed), items):
            raise SystemExit("Nothing is reported, because the test is not apart:\n" + "\n".join(wrong[:SHOWN]))

    def check(self, name: str, model: Any, tokenizer: Any) -> float:
        """Exact match on the validation items."""
        method = Method(name, model, tokenizer, KINDS[name].form)
        with eval_mode(model):
            found = by_cell(method, self.validation, lambda line: None)["cells"].values()
        return float(sum(cell["right"] for cell in found) / sum(cell["n"] for cell in found))

    def measure(self, name: str) -> dict[str, Any]:
        """One method, trained and tested."""
        method, training = self.base, None
        if name != BASE:
            given = self.arguments
            budget = Budget(given.steps, given.search_steps, given.batch_size, given.rows)
            model, tokenizer, training = trained(name, given.seed, budget, self.rows, self.check)
            method = Method(name, model, tokenizer, KINDS[name].form)
        self.ready.append(method)
        found = by_cell(method, self.tested, lambda line: print(f"{name}  {line}", flush=True))
        return {"training": training, "measured": found, "totals": totals(found)}


def main() -> None:
    """Runs all methods, times them, and writes results after each part."""
    parser = command(__doc__)
    parser.add_argument("--methods", nargs="+", default=[*KINDS], choices=[*KINDS])
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--rows", type=int, default=10_000, help="of the training set (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1000, help="of a training (default: %(default)s)")
    parser.add_argument("--search-steps", type=int, default=250, help="at each learning rate (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="rows of a step (default: %(default)s)")
    parser.add_argument("--per-cell", type=int, default=25, help="test items (default: %(default)s)")
    parser.add_argument("--validation", type=int, default=10, help="items per subtask (default: %(default)s)")
    parser.add_argument("--longest", type=int, default=LONGER[-1], help="digits of an operand (default: %(default)s)")
    parser.add_argument("--timed", type=int, default=60, help="answers whose time is taken (default: %(default)s)")
    arguments = parser.parse_args()
    settings = {key: value for key, value in vars(arguments).items() if key not in ("output", "methods")}
    results: dict[str, Any] = {**facts(), "settings": settings, "quoted": QUOTED, "runs": {}}
    comparison = Comparison(arguments)
    for number, name in enumerate(arguments.methods, start=1):
        print(f"{name}: method {number} of {len(arguments.methods)}", flush=True)
        results["runs"][name] = comparison.measure(name)
        write(arguments.output, results)
    results["timing"] = timed(comparison.ready, comparison.timed_items)
    write(arguments.output, results)


if __name__ == "__main__":
    main()
