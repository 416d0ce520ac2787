"""The paper's comparison of methods on the embedded base: same rows and budget, a measurement in every cell.

Methods: the base model; a LoRA with as many parameters as IGC; tool use (a LoRA that writes a call, Python calculates,
the model goes on in the same KV cache; in `tool_spliced` the reply is the answer itself); IGC with both interfaces.
All train by a recipe on the same 10,000 rows for equally many steps; all but IGC take the best of three or more
learning rates on validation items. Tested are cells of operation, length and phrasing: BIG-bench's form, which
training rows have, or phrasings that none of them has. Whole answers are generated (`tool_use`), by all methods in
turn. The paper's rows of other models are quoted. No tested calculation is trained, but for one-digit ones.

    python -m benchmarks.methods.methods --output benchmarks/results/methods.json
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks.common.measuring import command, facts, summary, write
from benchmarks.common.shapes import lora_rank
from benchmarks.common.trainings import ONE_STAGE, best_rate, trained
from benchmarks.methods.tool_use import RESTATED, SPLICED, Answer, Tool, answered
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.bigbench import (
    OPERATION_NAMES,
    bigbench_items,
    bigbench_size,
    bigbench_test_set,
    draw_operands,
    item_of,
)
from peft_igc.data.files import write_rows
from peft_igc.data.mixture import TOKENS_MIXTURE, Mixture
from peft_igc.data.wording.phrases import BIGBENCH
from peft_igc.data.wording.wording import HELD_OUT, TRAINING
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.inference.loading import tiny_base
from peft_igc.text import Limits


TRAINED = range(1, 6)  # digits
LONGER = range(6, 13)
_ATTEMPTS = 50  # per item, before a cell counts as exhausted: there are 23 exact divisions of one digit
TEST_SEED, VALIDATION_SEED = 0, 1
RATES = [5e-4, 1e-3, 3e-3]  # of a LoRA, where a search begins
WARM = 0.14  # part of the steps in which the learning rate rises, as in the demonstrations
KEPT = 20  # mistakes
MEANS = ("generated_tokens", "calls")
LORA = "tiny_lora"
# Of the paper, nothing of which was measured here: all, addition, subtraction, multiplication, division.
QUOTED = {
    name: dict(zip(("all", *OPERATION_NAMES.values()), shares, strict=True))
    for name, shares in (
        ("PaLM 535B, n-shot", (0.94, 0.94, 0.96, 0.91, 0.97)),
        ("best below 100B, n-shot", (0.49, 0.49, 0.69, 0.35, 0.71)),
    )
}
# What both interfaces can do; a division with a remainder has a value in one of them only.
LIMITS, MIXTURE = Limits(5, 10, 2, decimals=False), replace(TOKENS_MIXTURE, inexact=0.0)


def cells(per_cell: int, seed: int, lengths: Iterable[int] = (*TRAINED, *LONGER)) -> dict[str, list[dict[str, Any]]]:
    """All cells by name, with `per_cell` distinct items each, or as many as there are."""
    made: dict[str, list[dict[str, Any]]] = {}
    for digits, (operator, name) in itertools.product(lengths, OPERATION_NAMES.items()):
        group = f"{digits}_digit_{name}"
        for phrasing in ("seen", "held out"):
            found = _drawn(operator, digits, per_cell, phrasing, seed)
            made[f"{phrasing.replace(' ', '_')}/{group}"] = found
        if digits in TRAINED:  # the task's own items
            made[f"seen/{group}"] = bigbench_items(group, min(per_cell, bigbench_size(group)), seed)
    return {cell: [item | {"group": cell} for item in items] for cell, items in made.items()}


def _drawn(operator: str, digits: int, n: int, phrasing: str, seed: int) -> list[dict[str, Any]]:
    """Up to `n` items with different prompts."""
    rng, found = random.Random(f"{phrasing}/{operator}/{digits}/{seed}"), dict[str, dict[str, Any]]()
    for _ in range(_ATTEMPTS * n):
        a, b = map(str, draw_operands(operator, digits, rng))
        seen = phrasing == "seen"
        prompt = BIGBENCH[operator].format(a=a, b=b) if seen else HELD_OUT.request(operator, a, b, rng, Mixture()).text
        found.setdefault(prompt, item_of(prompt, "", (a, operator, b)))
        if len(found) == n:
            break
    return list(found.values())


class Kind(NamedTuple):
    """A method: the recipe by which it is trained, settings that differ, and its tool."""

    recipe: str | None
    changes: Mapping[str, Any] = {}
    tool: Tool | None = None


KINDS = {
    "base": Kind(None),
    "igc_tokens": Kind("tiny_tokens", ONE_STAGE | {"igc_writing_every": 4}),
    "igc_hidden": Kind("tiny_hidden", ONE_STAGE),
    "lora": Kind(LORA),
    "tool": Kind(LORA, tool=RESTATED),
    "tool_spliced": Kind(LORA, tool=SPLICED),
}


class Method(NamedTuple):
    """A method that answers questions."""

    model: Any
    tokenizer: Any
    tool: Tool | None = None

    def ask(self, question: str) -> Answer:
        """The answer to a question."""
        (prompt,) = prompt_tokens(self.tokenizer, [question], raw=False)
        return answered(self.model, self.tokenizer, prompt, self.tool)


class Comparison:
    """One run of the command: the questions, the rows, and the methods as they become ready."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments, self.folder = arguments, folder
        self.tested = cells(arguments.per_cell, TEST_SEED, range(1, arguments.longest + 1))
        self.validation = bigbench_test_set(arguments.validation, VALIDATION_SEED)
        excluded = [*(item for part in self.tested.values() for item in part), *self.validation]
        made: dict[str, Any] = {"limits": LIMITS, "mixture": MIXTURE, "wording": TRAINING, "distinct": True}
        rows = ArithmeticRows(arguments.seed, max_digits=TRAINED[-1], exclude=excluded, **made)
        self.rows = rows.take(arguments.rows)
        self.parameters = 0  # of a calculator
        self.ready: dict[str, Method] = {}

    def train(self, name: str) -> dict[str, Any] | None:
        """Makes a method ready, and tells how it was trained."""
        kind = KINDS[name]
        if kind.recipe is None:
            self.ready[name] = Method(*tiny_base())
            return None
        changes = dict(kind.changes)
        if kind.recipe != LORA:
            self.ready[name], told = self._trained(name, changes, self.arguments.steps)
            self.parameters = self.parameters or told["parameters"]
            return told
        rank = lora_rank(tiny_base()[0], self.parameters) if self.parameters else None
        changes |= {"lora_r": rank, "lora_alpha": 2 * rank} if rank else {}

        def exact_match(rate: float) -> float:
            method, _ = self._trained(name, changes | {"learning_rate": rate}, self.arguments.search_steps)
            answers = [method.ask(item["prompt"]) for item in self.validation]
            return sum(map(is_right, answers, self.validation)) / len(answers)

        search = {"steps": self.arguments.search_steps, **best_rate(RATES, exact_match)}
        rate = {"learning_rate": search["chosen"]}
        method, told = self._trained(name, changes | rate, self.arguments.steps)
        self.ready[name] = method._replace(model=method.model.merge_and_unload())  # so that it costs nothing in use
        return told | {"search": search}

    def _trained(self, name: str, changes: Mapping[str, Any], steps: int) -> tuple[Method, dict[str, Any]]:
        """One run, on the rows in the form of the method."""
        kind, path = KINDS[name], self.folder / f"{name}.jsonl"
        write_rows(path, self.rows if kind.tool is None else map(kind.tool.used_in, self.rows))
        generated = dict.fromkeys(f"igc_generated_{name}" for name in ("rows", "max_digits", "mixture"))
        shared = generated | {"dataset_name": str(path), "max_steps": steps, "warmup_steps": WARM}
        shared |= {"seed": self.arguments.seed, "per_device_train_batch_size": self.arguments.batch_size}
        model, tokenizer, told = trained(str(kind.recipe), shared | changes, self.folder / name)
        return Method(model, tokenizer, kind.tool), told

    def measure(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What all methods answer, and the seconds of answers to questions of trained lengths."""
        rng = random.Random("timed")
        given: dict[str, dict[str, list[Answer]]] = {name: {cell: [] for cell in self.tested} for name in self.ready}
        for cell, item in tqdm(
            [(cell, item) for cell, items in self.tested.items() for item in items], mininterval=20
        ):
            for name in rng.sample(list(self.ready), len(self.ready)):
                given[name][cell].append(self.ready[name].ask(item["prompt"]))
        runs = {name: counted(answers, self.tested) for name, answers in given.items()}
        timed = [cell for cell in self.tested if re.search(GROUPS["all"], cell)]
        timing = {
            name: {"seconds": summary([one.seconds for cell in timed for one in answers[cell]])}
            for name, answers in given.items()
        }
        return runs, timing


def is_right(answer: Answer, item: Mapping[str, Any]) -> bool:
    """Whether the whole answer is the target; one that was cut never is."""
    return answer.text == item["target"] and not answer.cut


def counted(answers: Mapping[str, Sequence[Answer]], tested: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Counts of every cell, exact match and mean tokens of groups of cells, and the first mistakes of a method."""
    found, mistakes = {}, []
    for cell, items in tested.items():
        right = [is_right(*pair) for pair in zip(answers[cell], items, strict=True)]
        found[cell] = {"n": len(items), "right": sum(right)}
        found[cell] |= {key: sum(getattr(one, key) for one in answers[cell]) for key in MEANS}
        mistakes += [
            {"prompt": item["prompt"], "target": item["target"], "answer": answer.text}
            for item, answer, hit in zip(items, answers[cell], right, strict=True)
            if not hit
        ]
    totals = {
        key: total([one for cell, one in found.items() if re.search(cells, cell)]) for key, cells in GROUPS.items()
    }
    print(totals["all"], flush=True)
    return {"measured": {"cells": found, "mistakes": mistakes[:KEPT]}, "totals": totals}


# Groups of cells; of trained lengths and of both phrasings, unless the name says otherwise.
GROUPS = {
    "all": "/[1-5]_",
    **{name: f"/[1-5]_.*{name}" for name in OPERATION_NAMES.values()},
    **{phrasing: f"{phrasing}/[1-5]_" for phrasing in ("seen", "held_out")},
    "longer": "/([6-9]|1[0-2])_",
}


def total(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Exact match and means of some cells, every item counting alike; None without a cell."""
    n, right = (sum(part[key] for part in parts) for key in ("n", "right"))
    if not n:
        return None
    means = {key: sum(part[key] for part in parts) / n for key in MEANS}
    return {"n": n, "right": right, "exact_match": right / n, **means}


def main() -> None:
    """Trains all methods, measures them, and writes the results."""
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
    arguments = parser.parse_args()
    settings = {key: value for key, value in vars(arguments).items() if key not in ("output", "methods")}
    results: dict[str, Any] = {**facts(), "settings": settings, "quoted": QUOTED}
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(arguments, Path(folder))
        training = {name: comparison.train(name) for name in arguments.methods}
        runs, results["timing"] = comparison.measure()
    results["runs"] = {name: {"training": training[name], **run} for name, run in runs.items()}
    write(arguments.output, results)


if __name__ == "__main__":
    main()
