"""Writes the results of benchmarks into their README: tables between `<!-- NAME -->` and `<!-- /NAME -->`.

In: `results/NAME.json`. Out: `benchmarks/README.md` with the tables of these files, all else unchanged. Shares are
rounded down, so that 100.0 means that nothing was wrong. Where a cell holds several numbers, they are the runs of
several seeds: shares with the worst first, other numbers in the order of the seeds. `--check` changes
nothing and fails where a table is not the file's (`tests/benchmarks/test_tables.py`).

    python -m benchmarks.tables
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common.formatting import lines, percent, seeds, signed_percent
from benchmarks.methods import answer_times
from benchmarks.methods import totals as method_totals


ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "benchmarks" / "README.md",)
OPERATIONS = {"addition": "+", "subtraction": "-", "multiplication": "×", "division": "÷"}

OF_METHODS = ("all", *OPERATIONS)
STEP_METHODS = {
    "igc_tokens": "IGC",
    "igc_tokens_skipping": "IGC, half of the rows with nothing to write",
    "igc_tokens_reading": "IGC, the reading alone",
    "lora": "LoRA",
    "igc_tokens_all_logits": "IGC, logits at all positions",
    "lora_all_logits": "LoRA, logits at all positions",
}
SOLVERS = {"igc+lora": "LoRA and IGC", "lora": "LoRA alone"}
PARTS_OF_A_PASS = {"prefill": "prefill", "first_token": "first token", "decode": "decode"}


def partial_percent(total: dict[str, Any] | None) -> str:
    """A total of compared methods in per cent, with a mark if items were skipped."""
    if total is None:
        return "-"
    return (percent(total["exact_match"]) if total["n"] else "-") + method_totals.MARK * (total["n"] < total["of"])


def ablations(found: dict[str, Any]) -> str:
    """The paper's architectures, as in its table."""
    rows = [["base model", percent(found["base"]["exact_match"])]]
    rows[0] += [percent(found["base"]["operations"][name]) for name in OPERATIONS] + ["", ""]
    for method, runs in found["runs"].items():
        told = list(runs.values())
        cells = [seeds([run["exact_match"] for run in told])]
        cells += [seeds([run["operations"][name] for run in told]) for name in OPERATIONS]
        rate = found["learning_rates"].get(method, {}).get("chosen", found["settings"]["learning_rate"])
        rows.append([method.replace("_", " "), *cells, f"{told[0]['training']['parameters']:,}", f"{rate:g}"])
    return lines(["", "all", *OPERATIONS.values(), "parameters", "learning rate"], rows)


def mixed_corpora(found: dict[str, Any]) -> str:
    """Rows without annotation, and with a wrong one."""
    rows = []
    for name, runs in found["runs"].items():
        told = list(runs.values())
        counts = [f"{told[0][key]:,}" for key in ("rows", "without_annotation", "wrong")]
        rows.append([name, *counts, seeds([run["exact_match"] for run in told])])
    return lines(["rows", "all", "not annotated", "wrongly annotated", "exact"], rows)


def pretraining(found: dict[str, Any]) -> str:
    """A base pretrained with IGC in place, and one that got it afterwards."""
    rows = []
    for arm, runs in found["runs"].items():
        told = list(runs.values())
        cells = [seeds([run[part]["exact_match"] for run in told]) for part in ("igc", "base")]
        cells += [", ".join(f"{run[part]['bits_per_byte']:.3f}" for run in told) for part in ("igc", "base")]
        seconds = [run["seconds"] + run.get("seconds_afterwards", 0) for run in told]
        rows.append([arm, *cells, ", ".join(f"{one / 60:.1f}" for one in seconds)])
    return lines(["IGC", "exact, with IGC", "exact, base", "bits per byte, with IGC", "base", "minutes"], rows)


def recipes(found: dict[str, Any]) -> str:
    """What the commands of recipes reach."""
    rows = [["base model", percent(found["base"]["exact_match"])]]
    rows += [
        [f"`{line}`", percent(run["exact_match"])] for runs in found["runs"].values() for line, run in runs.items()
    ]
    return lines(["", "exact"], rows)


def balanced_rows(found: dict[str, Any]) -> str:
    """Rows as drawn, and with number tokens that come equally often."""
    rows = [[kind, seeds([run["exact_match"] for run in runs.values()])] for kind, runs in found["runs"].items()]
    return lines(["rows", "exact"], rows)


def training_speed(found: dict[str, Any]) -> str:
    """What it saves to train the reading alone first."""
    rows = []
    for arm, runs in found["stages"]["runs"].items():
        told = list(runs.values())
        ends = [run["first_at_target"] for run in told]
        rows.append(
            [
                arm.replace("_", " "),
                ", ".join(f"{run['seconds']:.0f}" for run in told),
                ", ".join("-" if end is None else f"{end['seconds']:.0f}" for end in ends),
                seeds([run["exact_match"] for run in told]),
            ]
        )
    return lines(["", "seconds", "seconds to 99%", "exact at the end"], rows)


def training_step_135m(found: dict[str, Any]) -> str:
    """Tokens per second of one training step, and its time beside LoRA's, by method and number format."""
    shapes = [found["step"]["shapes"][name]["methods"] for name in ("135m-bf16", "135m")]
    rows = []
    for method, title in STEP_METHODS.items():
        cells = [title]
        for methods in shapes:
            told = methods[method]
            cells += [f"{told['tokens_per_second']:,.0f}", f"{told['step_beside_lora']['median']:.2f}"]
        rows.append(cells)
    return lines(["", "bf16: tokens/s", "time relative to LoRA's", "fp32: tokens/s", "time relative to LoRA's"], rows)


def harm(found: dict[str, Any]) -> str:
    """What adapters do to prompts that ask for no calculation, in prompts."""
    keys = ("n", "with_two_numbers", "activated", "bit_identical", "texts_changed")
    rows = [
        [f"{name} ({told['method']})", kind.replace("_", " "), *(f"{counts[key]:,}" for key in keys)]
        for name, told in found["adapters"].items()
        for kind, counts in told["kinds"].items()
    ]
    head = ["adapter", "prompts", "n", "with two numbers", "activated", "all logits the base's", "other greedy text"]
    return lines(head, rows)


def methods(found: dict[str, Any]) -> str:
    """The paper's two tables: accuracy by method, and traits by method."""
    rows = []
    for method, run in found["runs"].items():
        cells = [partial_percent(run["totals"][key]) for key in (*OF_METHODS, "held_out", "shifted", "longer")]
        timing, training = found["timing"].get(method), run["training"]
        written = "" if method == "parser" else method_totals.shown(run["totals"]["all"], "generated_tokens", 1.0)
        cells.append(written)
        cells += (
            ["", ""] if timing is None else [f"{timing['passes']:.1f}", f"{1e3 * timing['seconds']['median']:.1f}"]
        )
        cells += ["", ""] if training is None else [f"{training['parameters']:,}", f"{training['seconds'] / 60:.0f}"]
        rows.append([method.replace("_", " "), *cells])
    for name, scores in found["quoted"]["accuracy"].items():
        if isinstance(scores, dict):
            cells = [f"*{100 * scores[key]:.0f}*" for key in OF_METHODS]
            rows.append([f"*quoted: {name}*", *cells, *[""] * 8])
    head = ["", "all", *OPERATIONS.values(), "held-out phrasings", "shifted division", "longer operands"]
    head += ["tokens", "passes", "ms", "parameters", "minutes"]
    return f"{lines(head, rows)}\n\n{trait_table(found)}"


def trait_table(found: dict[str, Any]) -> str:
    """Whether each trait holds of each method: yes, no, or `-` where it was not measured."""
    told = {True: "yes", False: "no", None: "-"}
    named = list(found["runs"])
    rows = [[trait, *(told[cells[name]["holds"]] for name in named)] for trait, cells in found["traits"].items()]
    return lines(["", *(name.replace("_", " ") for name in named)], rows)


def overhead(found: dict[str, Any]) -> str:
    """What each method's passes take longer than the base's, median and quartiles of neighbouring runs."""
    rows = []
    for shape, told in found["shapes"].items():
        for cell in told["cells"]:
            where = [shape, f"{cell['batch']} × {cell['prompt']}", cell["text"], cell["mode"]]
            for method in next(iter(cell["parts"].values())):
                costs = [cell["parts"].get(part, {}).get(method, {}).get("overhead") for part in PARTS_OF_A_PASS]
                if any(costs):
                    rows.append([*where, method.replace("_", " "), *map(signed_percent, costs)])
    head = ["shape", "batch × prompt", "text", "mode", "", *PARTS_OF_A_PASS.values()]
    return f"{lines(head, rows)}\n\n{memory(found)}"


def operators(found: dict[str, Any]) -> str:
    """How many operators a pass dispatches beyond those of its base."""
    rows = [[name, f"{cell['beyond']:,}", str(cell["base"])] for name, cell in found["operators"].items()]
    return lines(["pass", "beyond the base", "base"], rows)


def memory(found: dict[str, Any]) -> str:
    """What methods hold in memory."""
    rows = []
    for shape, told in found["shapes"].items():
        for method, held in told["memory"].items():
            bytes_ = [held["bytes"], held["table_bytes"]]
            cells = [f"{value / 2**20:.2f}" for value in bytes_] + [f"{100 * sum(bytes_) / told['bytes']:.2f}"]
            per_token = [f"{held[key]:,.0f}" for key in ("record_bytes_per_token", "cache_bytes_per_token")]
            rows.append([shape, method.replace("_", " "), f"{held['parameters']:,}", *cells, *per_token])
    head = ["shape", "", "parameters", "MiB of weights and buffers", "MiB of tables", "% of the base"]
    return lines([*head, "bytes kept per token", "of the KV cache"], rows)


def hostile_folders(found: dict[str, Any]) -> str:
    """Changed adapter folders by the kind of change."""
    rows = [[kind, *(f"{n:,}" for n in (sum(told.values()), *told.values()))] for kind, told in found["kinds"].items()]
    totals = [sum(told[outcome] for told in found["kinds"].values()) for outcome in ("refused", "loaded", "unclean")]
    rows.append(["all", *(f"{n:,}" for n in (sum(totals), *totals))])
    return lines(["change", "n", "refused", "loaded", "unclean"], rows)


def symbol_answers(found: dict[str, Any]) -> str:
    """What adapters answer, of several seeds."""
    runs = list(found["runs"].values())
    rows = []
    for name, first in runs[0].items():
        cells = [", ".join(str(run[name].get(verdict, 0)) for run in runs) for verdict in ("right", "silent", "wrong")]
        rows.append([name.replace("_", " "), str(first["n"]), str(first["due"]), *cells])
    return lines(["texts", "n", "an answer is due", "right", "silent", "wrong"], rows)


def symbol_fuzz(found: dict[str, Any]) -> str:
    """Generated expressions, read by rule."""
    kinds = ("n", "right", "refused", "rightly_refused", "open_right", "open_refused", "wrong")
    rows = [[name, *(f"{told[kind]:,}" for kind in kinds)] for name, told in found["tokenizers"].items()]
    return lines(["tokenizer", *(kind.replace("_", " ") for kind in kinds)], rows)


def symbols_gsm8k(found: dict[str, Any]) -> str:
    """Calculations in GSM8K's solutions, read by rule."""
    rows = []
    for name, contexts in found["tokenizers"].items():
        for context, told in contexts.items():
            shares = [f"{100 * told[kind]:.2f}" for kind in ("right", "other", "refused")]
            rows.append([name, context.replace("_", " "), f"{told['n']:,}", *shares])
    return lines(["tokenizer", "read", "n", "right", "another value", "refused"], rows)


def symbols_cost(found: dict[str, Any]) -> str:
    """Milliseconds at an anchor."""
    rows = []
    for row in found["measured"]:
        cells = [f"{row[part]['median']:.2f}" for part in ("lexer", "grammar", "learned")]
        rows.append([row["expression"], str(row["tokens"]), str(row["rows"]), *cells])
    return lines(["expression", "tokens", "rows", "lexer", "grammar", "learned reading and calculation"], rows)


def real_model(found: dict[str, Any]) -> str:
    """What a real model answers, and the base alone; one number per seed."""
    runs = list(found["runs"].values())
    rows = []
    for name, told in runs[0]["sets"].items():
        if told is None or "right" not in told:  # texts that were not at hand; harm, which is no set of items
            continue
        base = runs[0]["base"].get(name)
        beside = [percent(base[one]) for one in ("whole_answer", "number_only")] if base else ["", ""]
        counts = [", ".join(f"{run['sets'][name][one]:,}" for run in runs) for one in ("right", "wrong", "silent")]
        rows.append([name.replace("_", " "), f"{told['n']:,}", *counts, *beside])
    head = ["texts", "n", "right", "wrong", "silent", "base, whole answer, %", "base, asked for the number only, %"]
    return lines(head, rows)


def reading_layers(found: dict[str, Any]) -> str:
    """What the reading at each layer gives, with the fitted threshold and, if measured, without one: right, wrong and
    silent."""
    layers = found["layers"]
    known = [told for layer in layers.values() for told in layer["sets"].values() if told["calibrated"]]
    kinds = [way for way in ("calibrated", "no threshold") if all(way in told for told in known)]
    ways = [(layer, way) for layer in layers for way in kinds]
    named = {"calibrated": ", fitted threshold" if len(kinds) > 1 else "", "no threshold": ", no threshold"}
    head = ["texts", "n", *(f"layer {layer}{named[way]}" for layer, way in ways)]
    rows = []
    for name, told in layers[next(iter(layers))]["sets"].items():
        if told["calibrated"] is None:
            continue
        cells = [layers[layer]["sets"][name][way] for layer, way in ways]
        shown = [" / ".join(f"{cell[one]:,}" for one in ("right", "wrong", "silent")) for cell in cells]
        rows.append([name.replace("_", " "), f"{told['calibrated']['n']:,}", *shown])
    return lines(head, rows)


def first_token(found: dict[str, Any]) -> str:
    """The time of a prompt's pass with calculators behind different layers, by prompt."""
    cells: dict[str, dict[int, Any]] = {}
    for cell in found["cells"]:
        cells.setdefault(cell["prompt"], {})[cell["layer"]] = cell
    layers = sorted({cell["layer"] for cell in found["cells"]})
    rows = []
    for prompt, of in cells.items():
        base = of[layers[0]]["base"]["median"]
        asked = "yes" if of[layers[0]]["answered"] else "no"
        rows.append([prompt, asked, f"{1000 * base:.0f}", *(signed_percent(of[at]["overhead"]) for at in layers)])
    return lines(["prompt", "answered", "base, ms", *(f"layer {at}, %" for at in layers)], rows)


def gsm8k_solutions(found: dict[str, Any]) -> str:
    """A LoRA with a calculator beside a LoRA alone, on GSM8K's solutions; several seeds one after the other."""
    timed = [run for name, run in found["runs"].items() if name.startswith("token times")]
    runs_of = {kind: [run for name, run in found["runs"].items() if name.startswith(f"{kind},")] for kind in SOLVERS}
    kinds = {kind: runs for kind, runs in runs_of.items() if runs}

    def counted(run: dict[str, Any], part: str, share: str) -> str:
        of = run[part].get(f"{share}_n", run[part]["n"])
        return f"{percent(run[part][share])} of {of:,}" if of else "-"

    told: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
        "human solutions up to each `=`: the annotated number": ("given", lambda run: counted(run, "given", "right")),
        "another number, although the step is `ok`": (
            "given",
            lambda run: f"{100 * run['given']['wrong_though_ok']:.2f}",
        ),
        "human solutions up to the final answer: that answer": ("copied", lambda run: counted(run, "copied", "right")),
        "own solutions: calculations with an `ok` step, true": (
            "own",
            lambda run: counted(run, "own", "true_though_ok"),
        ),
        "all that can be checked": ("own", lambda run: counted(run, "own", "true")),
        "`=` per solution (a number)": ("own", lambda run: f"{run['own']['equals_per_solution']:.2f}"),
        "final answers right": ("own", lambda run: counted(run, "own", "answers_right")),
        "final answers right if every calculation were exact": (
            "own",
            lambda run: counted(run, "own", "plans_right"),
        ),
        "weights (a number)": ("training", lambda run: f"{run['training']['parameters']:,}"),
        "training (minutes)": ("training", lambda run: f"{run['training']['seconds'] / 60:.1f}"),
    }
    rows = []
    for name, (part, cell) in told.items():
        cells = [", ".join(cell(run) for run in runs if part in run) for runs in kinds.values()]
        if any(cells):
            rows.append([name, *(one or "not measured" for one in cells)])
    for size in timed[0] if timed else ():
        cells = [", ".join(f"{one[size][kind]['median']:.1f}" for one in timed) for kind in kinds]
        rows.append([f"milliseconds per token, {size}", *cells])
    return lines(["per cent, unless it says otherwise", *(SOLVERS[kind] for kind in kinds)], rows)


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "ablations": ablations,
    "operators": operators,
    "mixed_corpora": mixed_corpora,
    "pretraining": pretraining,
    "balanced_rows": balanced_rows,
    "training_speed": training_speed,
    "training_step_135m": training_step_135m,
    "recipes": recipes,
    "recipe_smollm2_135m": recipes,
    "recipe_smollm2_135m_hidden": recipes,
    "gsm8k_solutions": gsm8k_solutions,
    "gsm8k_seeds": gsm8k_solutions,
    "gsm8k_copied": gsm8k_solutions,
    "gsm8k_layer_1": gsm8k_solutions,
    "gsm8k_layer_1_seeds": gsm8k_solutions,
    "gsm8k_lora": gsm8k_solutions,
    "gsm8k_lora_seeds": gsm8k_solutions,
    "harm": harm,
    "hostile_folders": hostile_folders,
    "methods": methods,
    "overhead": overhead,
    "answer_times": answer_times.table,
    "smollm2": real_model,
    "smollm2_command": real_model,
    "smollm2_first_token": first_token,
    "smollm2_hidden": real_model,
    "smollm2_layer_12": real_model,
    "smollm2_lora": real_model,
    "smollm2_reading_layers": reading_layers,
    "smollm2_mawps": reading_layers,
    "smollm2_mentions": real_model,
    "symbol_answers": symbol_answers,
    "symbol_fuzz": symbol_fuzz,
    "symbols_cost": symbols_cost,
    "symbols_gsm8k": symbols_gsm8k,
}


def filled(page: str) -> str:
    """A page with the tables of the results that it names."""
    for name in re.findall(r"<!-- (\w+) -->", page):
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, rest = page.split(begin)
        if end not in rest:
            raise SystemExit(f"`{begin.strip()}` has no `{end}` behind it. Write it where the table ends.")
        made = TABLES[name](json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))
        page = before + begin + made + "\n" + rest[rest.index(end) :]
    return page


def main() -> None:
    """Fills or checks the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, fail where something would change")
    check = parser.parse_args().check
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if filled(text) == text:
            continue
        if check:
            raise SystemExit(
                f"Tables of `{page.name}` are not those of the results. Run `python {Path(__file__).name}`."
            )
        page.write_text(filled(text), encoding="utf-8")


if __name__ == "__main__":
    main()
