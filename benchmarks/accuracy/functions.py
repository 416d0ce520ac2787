"""How often is a function of given numbers right, in lists of unseen layouts and in texts that nobody here wrote?

In: an adapter with functions among its operations (`recipes/many_operands.yaml`), and texts with slots whose answers
are expressions (`--texts`). Lists and tables of 3 to 50 numbers have layouts that were trained, held-out ones whose
failures were looked at, and unseen ones that were chosen before. Of the texts every third of each kind was held out;
an answer is right if it is the author's. Texts and lists of one more author, whom no training saw, are measured as
they are. The `confidence` of each kind of operations is fitted on texts and lists by authors of whom none was trained,
and on generated rows of the four operations.

    python -m benchmarks.accuracy.functions --adapter build/many-operands --output benchmarks/results/functions.json
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.common.measuring import DATA, command, facts, write
from peft_igc.calibration.calibrate import calibrate, read_results
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.data.columns import has_number
from peft_igc.data.files import read_rows
from peft_igc.data.functions import function_rows, row_of
from peft_igc.data.mixture import TOKENS_MIXTURE
from peft_igc.data.wording.wording import TRAINING
from peft_igc.inference.evaluation import evaluate
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.numbers.calculator import NO_ARITHMETIC
from peft_igc.text.values import Limits, written
from recipes.many_operands import TEXTS, answer_rows, author_rows, list_rows, satisfying, settings


MOST_WRONG = 0.005  # of each kind of operations, the share that is accepted in people's texts
Row = dict[str, Any]


def sets_of(texts: Path, operations: Sequence[str], count: int) -> dict[str, list[Row]]:
    """The rows of each test set."""
    streams: dict[str, Iterable[Row]] = {
        "lists, trained layouts": list_rows(200),
        "lists, held-out layouts": list_rows(300, "held_out_layouts"),
        "lists, unseen layouts": list_rows(400, "unseen_layouts"),
        "phrasings of the functions": function_rows(200),
        "texts by hand, held out": answer_rows(texts, True, 200, operations),
        "texts by another author": other_texts(DATA / "functions.jsonl"),
        "lists by another author": other_lists(DATA / "lists.jsonl"),
    }
    return {name: list(islice(stream, count)) for name, stream in streams.items()}


def fitted_on(operations: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Items, half of which fit `confidence`: by authors of whom none is trained, and generated ones."""
    mixture = replace(TOKENS_MIXTURE, **settings()["igc_generated_mixture"], system=0)  # a prompt is one message
    generated = ArithmeticRows(100, limits=Limits(), mixture=mixture, wording=TRAINING)
    streams = (other_texts(DATA / "fitted_functions.jsonl"), author_rows(100, "calibrated", operations), generated)
    rows = [row for stream in streams for row in islice(stream, 2 * count)]
    rows += other_lists(DATA / "fitted_lists.jsonl")
    return [{"prompt": row["prompt"][0]["content"], "target": due_of(row)} for row in rows]


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
    return row["due"] if "due" in row else result if has_number(result) else None


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


def counts(rows: Sequence[Row], results: Sequence[str | None]) -> dict[str, Any]:
    """Right and wrong results, of the texts that ask for a number and of the others."""
    found: Counter[str] = Counter()
    groups: dict[str, Counter[str]] = {}
    for row, result in zip(rows, results, strict=True):
        kind = "silent" if result is None else "right" if is_right(row, result) else "wrong"
        found[f"{'others' if due_of(row) is None else 'asked'} {kind}"] += 1
        if due_of(row) is not None:
            for group in (group_of(row), row["igc_operator"]):
                groups.setdefault(group, Counter())[kind] += 1
    asked = sum(found[f"asked {kind}"] for kind in ("right", "wrong", "silent"))
    wrong = found["asked wrong"] + found["others wrong"]
    shares = {"right": found["asked right"] / max(asked, 1), "wrong": wrong / len(rows)}
    return {"texts": len(rows), "asked": asked, **shares, **found, "groups": dict(sorted(groups.items()))}


def measure(model: Any, tokenizer: Any, texts: Path, count: int, per_group: int) -> dict[str, Any]:
    """The counts of all sets at the thresholds that were fitted."""
    config = model.peft_config["default"]
    items = fitted_on(config.operations, count)
    fitted = calibrate(model, tokenizer, items, most_wrong=MOST_WRONG, batch_size=16)
    found: dict[str, Any] = {"temperature": fitted.temperature, "confidence": fitted.confidence, "sets": {}}
    config.temperature, config.confidence = fitted.temperature, fitted.confidence
    rows = sets_of(texts, config.operations, count)
    for name, listed in rows.items():
        prompts = [row["prompt"][0]["content"] for row in listed]
        found["sets"][name] = counts(listed, read_results(model, tokenizer, prompts, batch_size=16))
        print(name, {k: v for k, v in found["sets"][name].items() if k != "groups"}, flush=True)
    found["bigbench"] = evaluate(model, tokenizer, bigbench_test_set(per_group))["exact_match"]
    asked = [row for row in rows["lists, unseen layouts"] if due_of(row) is not None][:per_group]
    items = [{"prompt": row["prompt"][0]["content"], "target": due_of(row)} for row in asked]
    found["written answers of lists"] = evaluate(model, tokenizer, items)["exact_match"]
    return found


def main() -> None:
    """Measures an adapter."""
    parser = command(__doc__)
    parser.add_argument("--texts", type=Path, default=TEXTS, metavar="FILE", help="texts with slots and answers")
    parser.add_argument("--base", default="tiny", metavar="DIR", help="(default: %(default)s)")
    parser.add_argument("--adapter", type=Path, default=Path("build/many-operands"), metavar="DIR")
    parser.add_argument("--count", type=int, default=1000, help="texts of each stream (default: %(default)s)")
    parser.add_argument("--per_group", type=int, default=20, help="items of a subtask (default: %(default)s)")
    arguments = parser.parse_args()
    model, tokenizer = load_base(arguments.base)
    model = load_adapter(model, arguments.adapter).eval()
    write(arguments.output, facts() | measure(model, tokenizer, arguments.texts, arguments.count, arguments.per_group))


if __name__ == "__main__":
    main()
