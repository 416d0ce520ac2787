"""Are changed digits found in the calculations of finished texts, and are untouched ones left alone?

In: solutions of GSM8K, whose annotations `48/2 = <<48/2=24>>24` say which calculations they state, others of a large
model, in LaTeX and Markdown, and derivations of TAT-QA with their answers. A second evaluator (`written_calculations`)
chooses the true ones. In each of these a digit of the result is changed; `check` has to call it untrue, and the
untouched one not. What it does not understand counts as not found. Annotations such as `x = <<25=25>>25` have no
operation: results are also given without them. What `check` reads was chosen by looking at the solutions of even
index, and at the first half of the model's, which is left out; those of odd index were not looked at.

    python -m benchmarks.accuracy.checking --gsm8k gsm8k_train.jsonl --tatqa tatqa_derivations.jsonl \
        --output benchmarks/results/checking.json
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.accuracy.expressions import MARK, sites_of
from benchmarks.common.measuring import DATA, command, facts, write
from benchmarks.common.written_calculations import agrees, calculations, value_of
from peft_igc.data.files import read_rows
from peft_igc.text import Verdict, check


_RESULT = re.compile(r"[\s$\\*]*(-?\d[\d,]*(?:\.\d+)?|-?\.\d+)(?![\d,./]*\d)")
_PLACES = 8  # of an answer that is compared


class Stated(NamedTuple):
    """A true calculation: the text, the first and last character of its result, and whether it has an operation."""

    text: str
    start: int
    end: int
    operates: bool = True


def stated_in_solutions(rows: list[dict[str, Any]]) -> Iterator[Stated]:
    """The true calculations of annotated solutions, without their annotations."""
    for row in rows:
        text = MARK.sub("", row["answer"])
        for site in sites_of(row["answer"]):
            found = None if site.text is None else _RESULT.match(text, len(site.text))
            expression = re.sub("[$,]", "", site.written).rpartition("=")[0]
            if found is not None and _is_true(expression, found[1]):
                yield Stated(text, *found.span(1), re.search(r"[-+*/]", expression.strip()[1:]) is not None)


def stated_by_models(rows: list[dict[str, Any]]) -> Iterator[Stated]:
    """The true calculations of solutions without annotations."""
    for text in (row["solution"] for row in rows):
        for one in calculations(text):
            if one.is_true and (found := _RESULT.match(text, one.place + 1)) is not None:
                yield Stated(text, *found.span(1))


def stated_in_derivations(rows: list[dict[str, Any]]) -> Iterator[Stated]:
    """The derivations of financial analysts, each followed by its answer."""
    for row in rows:
        if not isinstance(row["answer"], int | float):
            continue
        percent, answer = row["scale"] == "percent", f"{row['answer']}"
        expression = row["derivation"].replace("$", "").replace(",", "").replace("%", "/100")
        shown = Fraction(answer) / (100 if percent else 1)
        value = value_of(expression)
        if value is None or abs(value - shown) > Fraction(1, 200) / (100 if percent else 1):
            continue
        text = f"{row['derivation']} = {answer}{'%' * percent}"
        start = len(text) - len(answer) - percent
        yield Stated(text, start, start + len(answer))


def _is_true(expression: str, number: str) -> bool:
    """Whether a number is the value of an expression, rounded to its places."""
    value, places = value_of(expression), len(number.partition(".")[2])
    if value is None or places > _PLACES:
        return False
    return agrees(value, Fraction(number.replace(",", "")), places)


def changed(stated: Stated, rng: random.Random) -> str:
    """The text with another digit in the result; the first one of several is no zero."""
    digits = [at for at in range(stated.start, stated.end) if stated.text[at].isdigit()]
    at = rng.choice(digits)
    others = [digit for digit in "0123456789" if digit != stated.text[at]]
    if at == digits[0] and len(digits) > 1:
        others = [digit for digit in others if digit != "0"]
    return stated.text[:at] + rng.choice(others) + stated.text[at + 1 :]


def verdict_at(text: str, start: int) -> str:
    """The verdict on the number that begins at a character, which may be the result of one calculation and part of the
    next one (`= 24 * 5 = 120`): untrue if one of the two is. `none` without a claim."""
    found = [claim.verdict for claim in check(text) if claim.span[0] <= start < claim.span[1]]
    return Verdict.UNTRUE if Verdict.UNTRUE in found else found[0] if found else "none"


def measure(found: list[Stated], rng: random.Random) -> dict[str, Any]:
    """Counts of verdicts on untouched and on changed calculations, and the missed ones and false alarms."""
    untouched, faulty, operating = Counter[str](), Counter[str](), Counter[str]()
    alarms, missed = [], []
    for stated in found:
        verdict = verdict_at(stated.text, stated.start)
        untouched[verdict] += 1
        if verdict == Verdict.UNTRUE:
            alarms.append(stated.text[max(stated.start - 60, 0) : stated.end + 20])
        text = changed(stated, rng)
        verdict = verdict_at(text, stated.start)
        faulty[verdict] += 1
        operating[verdict] += stated.operates
        if verdict != Verdict.UNTRUE:
            missed.append([verdict, text[max(stated.start - 60, 0) : stated.end + 20]])
    return {
        "calculations": len(found),
        "untouched": dict(untouched),
        "changed": dict(faulty),
        "found": faulty[Verdict.UNTRUE] / len(found),
        "with_operation": operating.total(),
        "found_with_operation": operating[Verdict.UNTRUE] / operating.total(),
        "false_alarms": untouched[Verdict.UNTRUE] / len(found),
        "alarms": alarms,
        "missed": missed[:200],
    }


def main() -> None:
    """Measures both sources and writes the results."""
    parser = command(__doc__)
    parser.add_argument("--gsm8k", type=Path, required=True, metavar="FILE")
    parser.add_argument("--tatqa", type=Path, required=True, metavar="FILE")
    parser.add_argument("--solutions", type=Path, default=DATA / "solutions.jsonl", metavar="FILE", help="of a model")
    parser.add_argument("--most", type=int, default=5000, help="calculations of each source (default: %(default)s)")
    arguments = parser.parse_args()
    solutions, derivations = read_rows(arguments.gsm8k), read_rows(arguments.tatqa)
    written = read_rows(arguments.solutions)
    rng = random.Random(0)
    results: dict[str, Any] = {**facts(), "seed": 0, "sources": {}}
    sources = {
        "gsm8k, even": stated_in_solutions(solutions[::2]),
        "gsm8k, odd": stated_in_solutions(solutions[1::2]),
        "a large model": stated_by_models(written[len(written) // 2 :]),
        "tatqa": stated_in_derivations(derivations),
    }
    for name, stated in sources.items():
        listed = list(stated)
        rng.shuffle(listed)
        results["sources"][name] = told = measure(listed[: arguments.most], rng)
        print(name, {key: value for key, value in told.items() if key not in ("alarms", "missed")}, flush=True)
    lines = [line for row in solutions for line in MARK.sub("", row["answer"]).split("\n")]
    start = time.process_time()
    for line in lines:
        check(line)
    taken = time.process_time() - start
    results["speed"] = {"lines": len(lines), "cpu_seconds_per_100000_lines": taken / len(lines) * 1e5}
    write(arguments.output, results)


if __name__ == "__main__":
    main()
