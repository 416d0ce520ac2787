"""How often is a function of given numbers right, in lists of unseen layouts and in texts that nobody here wrote?

In: an adapter with functions among its operations (`recipes/many_operands.yaml`), and texts with slots whose answers
are expressions (`--texts`). Lists and tables of 3 to 50 numbers have layouts that were trained, held-out ones whose
failures were looked at, and unseen ones that were chosen before. Of the texts every third of each kind was held out;
an answer is right if it is the author's. Texts and lists of one more author, whom no training saw, are measured as
they are. `confidence` is fitted on rows like those that were trained.

    python -m benchmarks.accuracy.functions --adapter build/many-operands --output benchmarks/results/functions.json
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.common.measuring import command, facts, write
from peft_igc.calibration.calibrate import TEMPERATURES, PromptReading, read_prompts
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.data.files import read_rows
from peft_igc.data.functions import function_rows, row_of
from peft_igc.inference.evaluation import evaluate
from peft_igc.inference.loading import load_adapter, tiny_base
from peft_igc.numbers.calculator import NO_ARITHMETIC
from peft_igc.text.values import written
from recipes.many_operands import TEXTS, answer_rows, list_rows, satisfying


OTHERS = Path(__file__).parents[1] / "data"  # `functions.jsonl`, with slots, and `lists.jsonl`
THRESHOLDS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999)
MOST_WRONG = 0.001
AT_ONE = TEMPERATURES.index(1.0)
Row = dict[str, Any]


def sets_of(texts: Path, operations: Sequence[str], count: int) -> dict[str, list[Row]]:
    """The rows of each test set, and those that `confidence` is fitted on."""
    streams = {
        "fitted on": (list_rows(100), function_rows(100), answer_rows(texts, False, 100, operations)),
        "lists, trained layouts": (list_rows(200),),
        "lists, held-out layouts": (list_rows(300, "held_out_layouts"),),
        "lists, unseen layouts": (list_rows(400, "unseen_layouts"),),
        "phrasings of the functions": (function_rows(200),),
        "texts by hand, held out": (answer_rows(texts, True, 200, operations),),
        "texts by another author": (other_texts(OTHERS / "functions.jsonl"),),
        "lists by another author": (other_lists(OTHERS / "lists.jsonl"),),
    }
    return {name: [row for one in many for row in islice(one, count)] for name, many in streams.items()}


def other_texts(path: Path, seed: int = 500) -> Iterator[Row]:
    """An endless stream of texts whose slots have numbers for which the author's answer ends, with this answer."""
    rng, lines = random.Random(seed), read_rows(path)
    for line in itertools.chain.from_iterable(itertools.repeat(lines)):
        answer = line["answer"]
        operation = ("sqrt", "cbrt")["3" in answer] if line["kind"] == "root" else NO_ARITHMETIC
        for _ in range(1000):
            numbers = satisfying(set(line["constraints"]), operation, rng)
            known = {name: int(number) for name, number in numbers.items()}
            value = eval(answer or "0", {"math": math} | known)  # noqa: S307 - a text of the repository
            if value < 1e15 and math.isclose(value * 10_000, round(value * 10_000), rel_tol=1e-13):
                break
        text = re.sub(r"\{([abcd])\}", lambda match: numbers[match[1]], line["text"])  # noqa: B023 - called at once
        due = written(Fraction(round(value * 10_000), 10_000)) if answer else None
        yield row_of(text, NO_ARITHMETIC) | {"kind": line["kind"], "due": due}


def other_lists(path: Path) -> list[Row]:
    """Lists, each with the author's answer or None."""
    rows = []
    for line in read_rows(path):
        due = line["answer"] and written(Fraction(line["answer"].replace(",", "")))
        rows.append(row_of(line["text"], NO_ARITHMETIC) | {"kind": line["function"], "due": due})
    return rows


def due_of(row: Row) -> str | None:
    """The number that a row asks for, None if it asks for none."""
    result: str | None = row["igc_result"]
    return row["due"] if "due" in row else result if row["completion"][0]["content"] == result else None


def is_right(row: Row, result: str | None) -> bool:
    """Whether a result is the one that is asked for, or the author's answer to a text that no function is."""
    if due_of(row) is not None or not row.get("answer"):
        return result == due_of(row)
    known = {name: int(row[name]) for name in "abcd"}
    answer = eval(row["answer"], {"math": math} | known)  # noqa: S307 - the package's own texts
    return result is not None and math.isclose(float(result), answer, rel_tol=1e-12)


def group_of(row: Row) -> str:
    """The kind of a text, or the length of a list."""
    length = len(row["igc_operands"] or ())
    return str(row.get("kind", next((f"up to {most}" for most in (5, 10, 20, 30, 50) if length <= most), "more")))


def counts(rows: Sequence[Row], readings: Sequence[PromptReading], least: float) -> dict[str, Any]:
    """Right and wrong answers at a threshold, of those that ask for a number and of the others."""
    found: Counter[str] = Counter()
    groups: dict[str, Counter[str]] = {}
    for row, reading in zip(rows, readings, strict=True):
        speaks = reading.result is not None and (reading.by_rule or reading.probabilities[AT_ONE] >= least)
        kind = "silent" if not speaks else "right" if is_right(row, reading.result) else "wrong"
        if kind == "wrong" and due_of(row) is None and reading.by_rule:  # an expression in symbols, such as `3*4+5=`
            kind = "by rule"
        found[f"{'others' if due_of(row) is None else 'asked'} {kind}"] += 1
        if due_of(row) is not None:
            for group in (group_of(row), row["igc_operator"]):
                groups.setdefault(group, Counter())[kind] += 1
    asked = sum(found[f"asked {kind}"] for kind in ("right", "wrong", "silent"))
    wrong = found["asked wrong"] + found["others wrong"]
    shares = {"right": found["asked right"] / max(asked, 1), "wrong": wrong / len(rows)}
    return {"texts": len(rows), "asked": asked, **shares, **found, "groups": dict(sorted(groups.items()))}


def measure(adapter: Path, texts: Path, count: int, per_group: int) -> dict[str, Any]:
    """The counts of all sets at the threshold that was fitted, and at others."""
    base, tokenizer = tiny_base()
    model = load_adapter(base, adapter).eval()
    config = model.peft_config["default"]
    rows = sets_of(texts, config.operations, count)
    readings = {}
    for name, listed in rows.items():
        readings[name] = read_prompts(model, tokenizer, [row["prompt"][0]["content"] for row in listed], batch_size=16)
        print(name, {k: v for k, v in counts(listed, readings[name], 0.9).items() if k != "groups"}, flush=True)
    fitted = rows.pop("fitted on"), readings.pop("fitted on")
    within = [one for one in THRESHOLDS if counts(*fitted, one)["wrong"] <= MOST_WRONG]
    config.confidence = least = min(within, default=THRESHOLDS[-1])
    found: dict[str, Any] = {"confidence": least, "sets": {}}
    for name, listed in rows.items():
        found["sets"][name] = told = counts(listed, readings[name], least)
        at = {one: counts(listed, readings[name], one) for one in THRESHOLDS}
        told["curve"] = [[one, found_at["right"], found_at["wrong"]] for one, found_at in at.items()]
    items = bigbench_test_set(per_group)
    found["bigbench"] = evaluate(model, tokenizer, items)["exact_match"]
    written = [row for row in rows["lists, unseen layouts"] if due_of(row) is not None][:per_group]
    items = [{"prompt": row["prompt"][0]["content"], "target": row["completion"][0]["content"]} for row in written]
    found["written answers of lists"] = evaluate(model, tokenizer, items)["exact_match"]
    return found


def main() -> None:
    """Measures an adapter."""
    parser = command(__doc__)
    parser.add_argument("--texts", type=Path, default=TEXTS, metavar="FILE", help="texts with slots and answers")
    parser.add_argument("--adapter", type=Path, default=Path("build/many-operands"), metavar="DIR")
    parser.add_argument("--lookup", type=Path, metavar="FILE", help="also record the results of `recipes/lookup.py`")
    parser.add_argument("--count", type=int, default=1000, help="texts of each stream (default: %(default)s)")
    parser.add_argument("--per_group", type=int, default=20, help="items of a subtask (default: %(default)s)")
    arguments = parser.parse_args()
    results = facts() | measure(arguments.adapter, arguments.texts, arguments.count, arguments.per_group)
    if arguments.lookup is not None:
        results["look-up"] = json.loads(arguments.lookup.read_text(encoding="utf-8"))
    told = {name: one["groups"] for name, one in results["sets"].items()}
    print(json.dumps({"confidence": results["confidence"], "bigbench": results["bigbench"]} | told, indent=1))
    write(arguments.output, results)


if __name__ == "__main__":
    main()
