"""Writes the results of benchmarks into pages: tables between `<!-- NAME -->` and `<!-- /NAME -->`.

In: `benchmarks/results/*.json`. Out: `README.md` and `benchmarks/README.md` with the tables of these files. Shares are
rounded down, so that 100.0 means that nothing was wrong. Several numbers in a cell are several seeds, in order.
`--check` changes nothing and fails where a table is not that of the results (`tests/benchmarks/test_tables.py`).

    python -m benchmarks.tables
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any


ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md")
OPERATIONS = {"addition": "+", "subtraction": "-", "multiplication": "×", "division": "÷"}
TITLES = {
    "tiny": "right / wrong / silent",
    "smollm2": "layer 1",
    "smollm2_layer_18": "layer 18, 68 authors",
    "gemma": "Gemma 270M",
    "smollm2_hidden": "hidden interface",
    "smollm2_lora": "LoRA alone",
}
VERDICTS = ("right", "wrong", "silent")
UNREAD = ("eleventh_plain_requests", "twelfth_plain_requests")
PARTLY_READ = tuple(f"{author}_plain_requests" for author in ("third", "sixth", "seventh", "eighth"))
MERGED = {  # sets of several authors that are one row
    "requests that were read, four authors": tuple(
        f"{author}plain_requests" for author in ("", "new_", "fourth_", "fifth_")
    ),
    "requests that were partly read, four authors": PARTLY_READ,
    "calculations only mentioned, three authors": tuple(
        f"{author}mentioned_calculations" for author in ("", "more_", "new_")
    ),
    "requests that nobody has read, two authors": UNREAD,
    "their texts that ask for nothing": ("eleventh_other_texts", "twelfth_other_texts"),
}


def load(name: str) -> dict[str, Any]:
    """The results of a file."""
    return dict(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


Columns = Mapping[str, str | Callable[[Any], str]]  # by title the key of a number, or what makes a cell of an item


def cells(told: Any, columns: Columns) -> list[str]:
    """The cells of an item."""
    return [one(told) if callable(one) else f"{told[one]:,}" for one in columns.values()]


def listed(name: str, key: str, title: str, columns: Columns) -> str:
    """A table of one entry of a file, a row per item of it; the first column, with a title, has the items' names."""
    return lines([title, *columns], [[item, *cells(told, columns)] for item, told in load(name)[key].items()])


def percent(share: float) -> str:
    """A share in per cent, rounded down to a tenth."""
    return f"{math.floor(1000 * share + 1e-9) / 10:.1f}"


def signed(cost: dict[str, float]) -> str:
    """The median of an overhead in per cent."""
    return f"{100 * cost['median']:+.1f}"


def merged(sets: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Counts by set, those of several authors summed; sets that were not measured are left out."""
    told = {name: {key: one[key] for key in ("n", *VERDICTS)} for name, one in sets.items() if one and "right" in one}
    for name, parts in MERGED.items():
        if all(part in told for part in parts):
            counts = [told.pop(part) for part in parts]
            told[name] = {key: sum(one[key] for one in counts) for key in counts[0]}
    return told


def adapter_on_sets(*names: str) -> str:
    """Right / wrong / silent answers by set; a column per file, a line per seed."""
    files = [[merged(run["sets"]) for run in load(name)["runs"].values()] for name in names]
    rows = []
    for name, counts in files[0][0].items():
        cells = [
            "<br>".join("/".join(f"{run[name][verdict]:,}" for verdict in VERDICTS) for run in runs if name in run)
            for runs in files
        ]
        rows.append([name.replace("_", " "), f"{counts['n']:,}", *cells])
    return lines(["texts", "n", *(TITLES[name] for name in names)], rows)


GSM8K = (
    ("human solutions up to each `=`: the annotated number", "given", "right"),
    ("another number, although the step is `ok`", "given", "wrong_though_ok"),
    ("human solutions up to `####`: the final answer", "copied", "right"),
    ("own solutions: calculations with an `ok` step, true", "own", "true_though_ok"),
    ("own solutions: all calculations that can be checked, true", "own", "true"),
    ("own solutions: final answers right", "own", "answers_right"),
)


def gsm8k() -> str:
    """GSM8K's solutions, with a LoRA and a calculator, and with a LoRA alone."""
    runs = [
        [run for file in files for run in load(file)["runs"].values() if "training" in run]
        for files in (("gsm8k_solutions", "gsm8k_seeds"), ("gsm8k_lora", "gsm8k_lora_seeds"))
    ]

    def cell(run: dict[str, Any], part: str, share: str) -> str:
        of = run[part].get(f"{share}_n", run[part]["n"])
        shown = f"{100 * run[part][share]:.2f}" if share == "wrong_though_ok" else percent(run[part][share])
        return f"{shown} of {of:,}" if of else "-"

    rows = [
        [name, *(", ".join(cell(run, part, share) for run in column if part in run) or "-" for column in runs)]
        for name, part, share in GSM8K
    ]
    return lines(["per cent", "LoRA and IGC", "LoRA alone"], rows)


BY_HAND_AT = 0.9  # the `confidence` of the table
BY_HAND = {
    "four authors": "unread_requests",
    "authors held out": "unread_authors",
    "a further author": "further_author",
    "with decimals": "decimal_plain_requests",
    "only mentioned": "mentions",
    "word problems": "word_problems",
    "6 to 20 digits": "six_to_twenty_digits",
}


def by_hand() -> str:
    """Right and wrong readings at a `confidence` of runs with texts by many hands."""
    rows, runs = [], load("by_hand")["runs"]
    sizes = {one: told["n"] for run in runs.values() for one, told in run["sets"].items()}
    for name, run in runs.items():
        curves = [run["sets"].get(one, {"curve": ()})["curve"] for one in BY_HAND.values()]
        cells = [next((f"{right}/{wrong}" for at, right, wrong in curve if at == BY_HAND_AT), "") for curve in curves]
        rows.append([name.replace("_", " "), *cells])
    heads = [f"{name}, {sizes[one]:,}" for name, one in BY_HAND.items()]
    return lines(["run", *heads], rows)


def functions() -> str:
    """Right answers in per cent of the texts that ask for one / wrong ones / silence; a column per base."""
    bases = [load(name)["sets"] for name in ("functions", "smollm2_functions")]
    rows = [[name, f"{told['asked']:,}"] for name, told in bases[0].items()]
    for row, told in ((row, base[row[0]]) for row in rows for base in bases):
        wrong = told.get("asked wrong", 0) + told.get("others wrong", 0)
        row.append(f"{percent(told['right'])}/{wrong:,}/{told.get('asked silent', 0):,}")
    return lines(["texts", "asked", "embedded base", "SmolLM2-135M"], rows)


def rules() -> str:
    """How many requests are answered wrongly without one of the rules about requests."""
    (found,) = (rules.values() for rules in load("leave_one_out_tiny")["confidences"].values())
    asked = [[told["wrong"] for part, told in sets.items() if part.endswith("requests")] for sets in found]
    wrong, *without = map(sum, asked)
    least, most = min(without), max(without)
    return f"* Wrong of 1,620 requests: {wrong} with all rules about them, {least} to {most} without one."


def first_token() -> str:
    """How much longer the first token of a real model takes than the base's, with the interval of the median."""
    rows = []
    for cell in (cell for told in load("first_token")["shapes"].values() for cell in told["cells"]):
        for method in cell["parts"]["first token"].keys() - {"base"}:
            row = [cell["text"], f"{cell['prompt']:,}"]
            for part in ("first token", "first token, CPU"):
                cost = cell["parts"][part][method]["overhead"]
                row.append(f"{signed(cost)} ({' to '.join(f'{100 * one:+.1f}' for one in cost['interval'])})")
            rows.append(row)
    return lines(["text", "tokens", "first token, %", "of the processor's time, %"], rows)


def host_reading() -> str:
    """Milliseconds in which the host reads the text of an anchor, in a sentence."""
    (told,) = (found for one in load("first_token")["shapes"].values() for found in one["host reading"].values())
    shown = [f"{int(n):,} tokens {one['CPU']['p50']:.2f} and {one['CPU']['p99']:.2f} ms" for n, one in told.items()]
    return f"The host reads, at the median and the 99th percentile of the processor's time, {', '.join(shown)}."


def engine_op() -> str:
    """What the operator in vLLM adds to a decoding step whose tokens are read one step late."""
    rows: dict[int, list[str]] = {}
    for cell in load("engine_op")["cells"]:
        row = rows.setdefault(cell["rows"], [str(cell["rows"]), f"{cell['milliseconds']['base_late']['median']:.2f}"])
        row.append(f"{100 * cell['overhead']['late']['median']:+.1f}")
    return lines(["texts", "base, ms", "silent", "after an answer"], list(rows.values()))


def ablations() -> str:
    """The paper's architectures: the least and the largest share of several seeds."""
    found, rows = load("ablations"), []
    for method, runs in {"base model": {"": found["base"]}, **found["runs"]}.items():
        shares = [[run["exact_match"], *(run["operations"][name] for name in OPERATIONS)] for run in runs.values()]
        ends = [(percent(min(one)), percent(max(one))) for one in zip(*shares, strict=True)]
        rows.append([method.replace("_", " "), *(low if len(runs) == 1 else f"{low}..{high}" for low, high in ends)])
    return lines(["", "all", *OPERATIONS.values()], rows)


def methods() -> str:
    """The paper's comparison of methods."""
    found = load("methods")
    groups = ("all", *OPERATIONS, "held_out", "longer")
    rows = []
    for method, run in found["runs"].items():
        timing, total = found["timing"][method], run["totals"]
        cells = [percent(total[key]["exact_match"]) for key in groups]
        cells += [f"{total['all']['generated_tokens']:.1f}", f"{1e3 * timing['seconds']['median']:.1f}"]
        rows.append([method.replace("_", " "), *cells])
    for name, scores in found["quoted"].items():
        cells = [f"{100 * scores[key]:.0f}" for key in ("all", *OPERATIONS)]
        rows.append([f"*quoted: {name}*", *cells, *[""] * 4])
    head = ["", "all", *OPERATIONS.values(), "held-out phrasings", "longer operands", "tokens", "ms"]
    return lines(head, rows)


def harm() -> str:
    """What adapters do to prompts that ask for no calculation."""
    columns = {"n": "n", "with two numbers": "with_two_numbers", "activated": "activated"}
    columns |= {"all logits the base's": "bit_identical", "other greedy text": "texts_changed"}
    found = load("harm")["adapters"].items()
    rows = [[name, kind, *cells(told, columns)] for name, kinds in found for kind, told in kinds.items()]
    return lines(["adapter", "prompts", *columns], rows)


def hostile_folders() -> str:
    """Changed adapter folders of all kinds."""
    found, kinds = load("hostile_folders"), ("refused", "loaded", "unclean")
    numbers = [found["count"], *(sum(told[one] for told in found["kinds"].values()) for one in kinds)]
    row = [*(f"{number:,}" for number in numbers), str(found["slowest_seconds"])]
    return lines(["folders", *kinds, "slowest, s"], [row])


COUNTS = ("operators", "launches")


def vllm_engine() -> str:
    """What the calculator adds to a pass of vLLM's engine, for 1 and 32 texts; and the tokens that fit less."""
    found, kinds = load("vllm_engine"), ("silent", "after", "reading")
    names = []
    for name, part, scale in (("added ms", "added", 1e3), ("other ms", "rest", 1e3), *((x, x, 1) for x in COUNTS)):
        values = [[scale * found["passes"][batch][kind][part] for batch in ("1", "32")] for kind in kinds]
        names.append([name, *("/".join(f"{x:,.{int(scale > 1)}f}" for x in pair) for pair in values)])
    fits = {
        name: "/".join(f"{100 * (counts[case] / counts['without'] - 1):+.1f}" for case in ("with", "no reading"))
        for name, counts in found["capacity"].items()
    }
    told = ", ".join(f"{name} {change}" for name, change in fits.items())
    return f"{lines(['1/32 texts', *kinds], names)}\n\nTokens that fit, in per cent, with and without reading: {told}."


def vllm_answers() -> str:
    """How many answers of vLLM's engine, and of its server, are those of `generate`, in a sentence."""
    found, smollm2, soak = (load(name) for name in ("vllm_answers", "vllm_answers_smollm2", "vllm_soak"))
    silent, minutes = found["silent"], sum(life["seconds"] for life in soak["lives"]) / 60
    grown = "/".join(f"{life['growth'] / 2**20:+.0f}" for life in soak["lives"]) + " MiB"
    return (
        f"The same: {_same(_runs(found))}, of SmolLM2 {_same(_runs(smollm2))}; served for {minutes:.0f} minutes, "
        f"{_same([soak['answers']])}, {soak['requests']['aborted']:,} aborted, {grown}; bit for bit, "
        f"{silent['equal']:,} of {silent['tokens']:,} silent places."
    )


def _runs(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The comparisons of all ways of running an engine."""
    return [run for way in found["ways"].values() for run in way.values() if "same" in run]


def _same(runs: list[dict[str, Any]]) -> str:
    """How many answers are the same, and how many others are ties."""
    texts, same = (sum(run[name] for run in runs) for name in ("texts", "same"))
    return f"{same:,} of {texts:,} ({sum(len(run['ties']) for run in runs)} ties)"


def soak() -> str:
    """Wrong answers and memory."""
    columns: Columns = {
        **{"answers": "generations", "ties": "ties", "wrong": "wrong"},
        "heap, MiB": lambda told: f"{told['heap_growth'] / 2**20:+.2f}",
        "resident set, MiB": lambda told: f"{told['resident_growth'] / 2**20:+.2f}",
    }
    return lines(["", *columns], [[phase, *cells(load("soak")[phase], columns)] for phase in ("alone", "together")])


def written_by_others() -> str:
    """What is read at the `=` of a large model's solutions, in a sentence."""
    due, others = (load("written_by_others")["sites"][kind] for kind in ("due", "others"))
    told = [f"{one['right']} of {one['n']} right, {one['wrong']} wrong" for one in (due, others)]
    return f"{told[0]}; where no second reader tells the value, {told[1]}."


def scenarios() -> str:
    """The three cases in which a calculator pays, for the README."""
    names = ("smollm2_layer_18", "gsm8k_solutions", "gsm8k_lora")
    plain, *steps = (next(iter(load(name)["runs"].values())) for name in names)
    own, lora = (one["own"] for one in steps)
    n, right, wrong = (sum(plain["sets"][name][key] for name in UNREAD) for key in ("n", "right", "wrong"))
    return lines(["case", "with the calculator", "without"], [
        ["A model that writes its steps (SmolLM2-135M with a LoRA, on GSM8K): calculations that are true",
         f"{percent(own['true'])}% of {own['true_n']:,}", f"{percent(lora['true'])}% of {lora['true_n']:,}"],
        [f"Plain requests that no developer had read, {n} (SmolLM2-135M, `make demo-smollm2`, one seed)",
         f"{percent(right / n)}% right, {wrong} wrong, the others silent",
         "not measured"],
        ["Audited numbers: true calculations among those with status `ok` in the first row's solutions",
         f"{percent(own['true_though_ok'])}% of {own['true_though_ok_n']:,}", "no status"],
    ])  # fmt: skip


TABLES: dict[str, Callable[[], str]] = {
    "scenarios": scenarios,
    "tiny": partial(adapter_on_sets, "tiny"),
    "smollm2": partial(adapter_on_sets, *(name for name in TITLES if name != "tiny")),
    "expressions": partial(
        listed, "expressions", "sets", "texts",
        {one: one for one in ("n", "right", "wrong", "refused", "rightly refused", "open")},
    ),
    "checking": partial(
        listed, "checking", "sources", "texts",
        {
            "calculations": "calculations",
            "untouched and called untrue": lambda told: f"{told['untouched'].get('untrue', 0):,}",
            "changed digits found, %": lambda told: percent(told["found"]),
            "of those with an operation": lambda told: percent(told["found_with_operation"]),
        },
    ),
    "written_by_others": written_by_others,
    "functions": functions,
    "by_hand": by_hand,
    "gsm8k": gsm8k,
    "ablations": ablations,
    "methods": methods,
    "harm": harm,
    "hostile_folders": hostile_folders,
    "operators": partial(listed, "operators", "operators", "pass", {"beyond the base": "beyond", "base": "base"}),
    "vllm_engine": vllm_engine,
    "vllm_answers": vllm_answers,
    "rules": rules,
    "first_token": first_token,
    "host_reading": host_reading,
    "engine_op": engine_op,
    "soak": soak,
}  # fmt: skip


def filled(page: str) -> str:
    """A page with the tables of the results that it names."""
    for name in re.findall(r"<!-- (\w+) -->", page):
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, rest = page.split(begin)
        if end not in rest:
            raise SystemExit(f"`{begin.strip()}` has no `{end}`. Write it where the table ends.")
        try:
            table = TABLES[name]()
        except FileNotFoundError:
            table = "Not recorded yet."
        page = before + begin + table + "\n" + rest[rest.index(end) :]
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
                f"Tables of `{page.name}` are not those of the results. Run `python -m benchmarks.tables`."
            )
        page.write_text(filled(text), encoding="utf-8")


if __name__ == "__main__":
    main()
