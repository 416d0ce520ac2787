"""The paper's comparison of methods on the embedded base, same rows and budget, a measurement in every cell.

Methods: the base model; a LoRA with as many parameters as IGC; a scratchpad (a LoRA that writes steps); tool use (a
LoRA that writes a call, Python calculates, the model goes on in the same KV cache; `tool_spliced` is leaner than the
Toolformer's form); IGC with the hidden and the token interface; the fixed parser as what rules can do. Options: the
same with all weights of the base trained. All train on the same 10,000 rows (another answer's text for scratchpad and
tool), for as many steps of as many rows, with the same schedule; where it is not IGC, with the best of three or more
learning rates on validation items. Tested are cells of operation, length and phrasing (`method_items`), all by greedy
generation of whole answers through one loop (`answer_loop`); tokens, passes and seconds are counted there, methods in
turn. The paper's published rows stand beside, marked as quoted. Before training and before each test come the gates of
`method_gates`; where one is red, nothing is reported.

    python -m benchmarks.methods.methods --output benchmarks/results/methods.json \\
        --figure benchmarks/results/methods.png

Methods may be trained apart: with `--keep DIR` weights stay there and are taken again, with `--with FILE` runs of
other results are taken, made alike but for the methods. Times are of methods whose weights are at hand.
"""

from __future__ import annotations

import argparse
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.accuracy.suites import suites
from benchmarks.common.measuring import facts
from benchmarks.join import joined
from benchmarks.methods.gates import before_training, cached_alike
from benchmarks.methods.items import LONGER, TRAINED, cells
from benchmarks.methods.measures import Method, by_cell, timed
from benchmarks.methods.probes import calculation_shown, host_reads, new_operation, result_followed, unharmed
from benchmarks.methods.totals import shown, total, totals
from benchmarks.methods.training import KINDS, Budget, kept_file, trained, training_set
from benchmarks.methods.traits import QUOTED_ACCURACY, QUOTED_TRAITS, UPPER_BOUND, table, traits, verdict
from peft_igc.data.bigbench import GROUPS, OPERATION_NAMES, bigbench_items, bigbench_size
from peft_igc.inference import loading
from peft_igc.inference.decoding import eval_mode


TEST_SEED, VALIDATION_SEED = 0, 1
FEW, SOME_TOKENS = 12, 64  # items of a gate, and tokens of an answer that is written again without a cache
PROBED = 40  # items of a probe
ROUNDS = 10  # batches whose time is taken
BATCH_ROWS = 32
BASE = "base"
DEFAULT = [BASE, UPPER_BOUND, "igc_tokens", "igc_hidden", "lora", "tool", "tool_spliced", "scratchpad"]
RUN_ONLY = ("output", "figure", "others", "keep", "methods")  # arguments that a joined result may differ in


class Comparison:
    """One run of the command: what is asked, and the methods as they become ready.

    Args:
        arguments: Of the command.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.tested = cells(arguments.per_cell, TEST_SEED, range(1, arguments.longest + 1))
        self.items = [item for items in self.tested.values() for item in items]
        self.validation = {
            group: bigbench_items(group, min(arguments.validation, bigbench_size(group)), VALIDATION_SEED)
            for group in GROUPS
        }
        self.silent = [item["prompt"] for item in suites(arguments.silent, TEST_SEED)["silent"]]
        base, tokenizer = loading.tiny_base()
        self.base = Method(BASE, base, tokenizer)
        self.ready: list[Method] = []
        ordinary = [item for name, items in self.tested.items() if name.startswith(("seen", "held")) for item in items]
        short = [item for item in ordinary if int(item["group"].split("/")[1].split("_")[0]) in TRAINED]
        self.timed_items = random.Random("timed items").sample(short, min(arguments.timed, len(short)))
        validation = [item for items in self.validation.values() for item in items]
        self.rows = cache(lambda seed: training_set([*self.items, *validation], seed, arguments.rows))

    def gate(self) -> None:
        """Refuses to go on where a gate is red."""
        few = random.Random("few").sample(self.items, min(FEW, len(self.items)))
        refuse(before_training(self.base.tokenizer, self.rows(self.arguments.seed), self.items, few))

    def is_at_hand(self, name: str) -> bool:
        """Whether a method needs no training, or its weights were kept."""
        keep = self.arguments.keep
        return name in (BASE, UPPER_BOUND) or (
            keep is not None and kept_file(keep, name, self.arguments.seed).exists()
        )

    def method(self, name: str) -> tuple[Method, dict[str, Any] | None]:
        """A method, trained where it has to be, and how its training went."""
        if name == UPPER_BOUND:
            return Method(name, None, self.base.tokenizer), None
        if name == BASE:
            return self.base, None
        arguments = self.arguments
        budget = Budget(arguments.steps, arguments.search_steps, arguments.batch_size, arguments.rows)
        model, tokenizer, told = trained(name, arguments.seed, budget, self.rows, self.check, arguments.keep)
        return Method(name, model, tokenizer, KINDS[name].form), told

    def check(self, name: str, model: Any, tokenizer: Any) -> float:
        """Exact match on the validation items."""
        method = Method(name, model, tokenizer, KINDS[name].form)
        with eval_mode(model):
            found = total(by_cell(method, self.validation, lambda line: None), lambda group: True)
        assert found is not None
        assert found["n"] == found["of"], found  # every form has room for trained lengths
        return found["exact_match"]

    def measure(self, name: str) -> dict[str, Any]:
        """One method: trained, checked, tested, probed."""
        method, training = self.method(name)
        some = self.timed_items[: self.arguments.probed]
        prompts = [item["prompt"] for item in some[:FEW]]
        if method.model is not None:
            limit = min(method.limit(some[:FEW]), SOME_TOKENS)
            refuse(cached_alike(method.model, method.tokenizer, prompts, limit, method.form.tool))
        self.ready.append(method)
        found = by_cell(method, self.tested, lambda line: print(f"{name}  {line}", flush=True))
        probes = {
            "calculation_shown": calculation_shown(method, some),
            "result_followed": result_followed(method, some),
            "unharmed": unharmed(method, self.base, self.silent),
            "host_reads": host_reads(method, some[:FEW]),
            "new_operation": new_operation(method),
        }
        if probes["host_reads"] is not None:
            probes["host_reads"] -= host_reads(self.base, some[:FEW]) or 0.0
        run = {"training": training, "measured": found, "totals": totals(found), "probes": probes}
        print(f"{name}  { ({key: shown(t) for key, t in run['totals'].items()}) }", flush=True)
        return run

    def timing(self) -> dict[str, Any]:
        """Seconds and passes of the methods whose weights are at hand."""
        return timed(self.ready, self.timed_items, BATCH_ROWS, ROUNDS)


def refuse(wrong: list[str]) -> None:
    """Ends the command where a gate gave sentences."""
    if wrong:
        raise SystemExit("Nothing is reported, because a gate is red:\n" + "\n".join(wrong))


def draw(results: dict[str, Any], path: Path) -> None:
    """Exact match against the length of operands, an operation per panel; seconds per answer in the last."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 3).flatten()
    for axes, name in zip(panels, OPERATION_NAMES.values(), strict=False):
        axes.set(title=name, xlabel="digits", ylabel="exact match (%)", ylim=(-3, 103))
        axes.axvspan(0.5, TRAINED[-1] + 0.5, color="0.93")
        for colour, (method, run) in enumerate(results["runs"].items()):
            for phrasing, style in (("seen", "-"), ("held_out", ":")):
                found = run["measured"]["cells"]
                keys = {d: f"{phrasing}/{d}_digit_{name}" for d in (*TRAINED, *LONGER)}
                points = [(d, 100 * found[key]["exact_match"]) for d, key in keys.items() if key in found]
                label = method.replace("_", " ") if phrasing == "seen" else None
                axes.plot([d for d, _ in points], [y for _, y in points], f"C{colour}{style}", label=label)
    *_, times, legend = panels
    legend.axis("off")
    legend.legend(
        *panels[0].get_legend_handles_labels(), loc="center", title="dotted: held-out phrasings\ngrey: trained"
    )
    names = list(results["timing"])
    values = [1e3 * results["timing"][name]["seconds"]["median"] for name in names]
    times.barh([name.replace("_", " ") for name in names], values, color="0.6")
    times.set(title="one answer, one row", xlabel="milliseconds, median", xscale="log")
    figure.savefig(path, dpi=120)


def parsed() -> argparse.Namespace:
    """The command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--figure", type=Path, metavar="FILE")
    parser.add_argument("--with", type=Path, nargs="+", default=[], metavar="FILE", dest="others")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder for trained weights (default: not kept)")
    parser.add_argument("--methods", nargs="+", default=DEFAULT, choices=[*KINDS, UPPER_BOUND])
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--rows", type=int, default=10_000, help="of the training set (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1000, help="of a training (default: %(default)s)")
    parser.add_argument("--search-steps", type=int, default=250, help="at each learning rate (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="rows of a step (default: %(default)s)")
    parser.add_argument("--per-cell", type=int, default=25, help="test items (default: %(default)s)")
    parser.add_argument("--validation", type=int, default=10, help="items per subtask (default: %(default)s)")
    parser.add_argument("--longest", type=int, default=LONGER[-1], help="digits of an operand (default: %(default)s)")
    parser.add_argument("--timed", type=int, default=60, help="answers whose time is taken (default: %(default)s)")
    parser.add_argument("--probed", type=int, default=PROBED, help="items of a probe (default: %(default)s)")
    parser.add_argument("--silent", type=int, default=100, help="texts without arithmetic (default: %(default)s)")
    arguments = parser.parse_args()
    if len(set(arguments.methods)) < len(arguments.methods):
        parser.error("argument --methods: one is named twice")
    return arguments


def main() -> None:
    """Runs all methods, times them, and writes results after each part."""
    arguments = parsed()
    results: dict[str, Any] = {
        **facts(),
        "settings": {key: value for key, value in vars(arguments).items() if key not in RUN_ONLY},
        "quoted": {"accuracy": QUOTED_ACCURACY, "traits": QUOTED_TRAITS},
    }
    others = {str(path): json.loads(path.read_text(encoding="utf-8")) for path in arguments.others}
    alike = {path: {key: other[key] for key in (*results, "runs")} for path, other in others.items()}
    results = joined({"this run": json.loads(json.dumps(results)) | {"runs": {}}, **alike})
    comparison = Comparison(arguments)
    comparison.gate()
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    results["timing"] = {}
    for number, name in enumerate(arguments.methods, start=1):
        print(f"{name}: method {number} of {len(arguments.methods)}", flush=True)
        if name in results["runs"]:
            if comparison.is_at_hand(name):
                comparison.ready.append(comparison.method(name)[0])
            continue
        results["runs"][name] = comparison.measure(name)
        write(arguments.output, results)
    results["timing"] = comparison.timing()
    results["traits"], results["must_show"] = traits(results), verdict(results)
    write(arguments.output, results)
    print(table(results))
    print(json.dumps(results["must_show"], indent=1))
    if arguments.figure is not None:
        draw(results, arguments.figure)


def write(path: Path, results: dict[str, Any]) -> None:
    """Results so far."""
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
