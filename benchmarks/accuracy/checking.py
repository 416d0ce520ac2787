"""Are changed digits found in the calculations of finished texts, and are untouched ones left alone?

In: solutions of GSM8K, whose annotations `48/2 = <<48/2=24>>24` say which calculations they state, and derivations of
TAT-QA with their answers. A second evaluator (Python's `ast` on the annotation, with fractions) chooses those that are
true. In each of these one digit of the result is changed; `check` has to call it untrue, and the untouched one not.
Calculations that it does not understand count as not found.

    python -m benchmarks.accuracy.checking --gsm8k gsm8k_train.jsonl --tatqa tatqa_derivations.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.accuracy.symbols_gsm8k import value_of
from benchmarks.common.measuring import facts
from peft_igc.text import Verdict, check


_MARK = re.compile(r"<<(.*?)>>")
_RESULT = re.compile(r"\s*\$?\s*(-?\d[\d,]*(?:\.\d+)?|-?\.\d+)(?![\d,./]*\d)")
_PLACES = 8  # of an answer that is compared


class Stated(NamedTuple):
    """A true calculation: the text, and the first and last character of its result."""

    text: str
    start: int
    end: int


def stated_in_solutions(rows: list[dict[str, Any]]) -> Iterator[Stated]:
    """The true calculations of annotated solutions, without their annotations."""
    for row in rows:
        text, at, places = "", 0, []
        for match in _MARK.finditer(row["answer"]):
            text, at = text + row["answer"][at : match.start()], match.end()
            if re.search(r"=[ $]*\Z", text):
                places.append((len(text), match[1]))
        text += row["answer"][at:]
        for start, annotation in places:
            found = _RESULT.match(text, start)
            expression = annotation.replace("$", "").rpartition("=")[0]
            if found is not None and _is_true(expression, found[1]):
                yield Stated(text, *found.span(1))


def stated_in_derivations(rows: list[dict[str, Any]]) -> Iterator[Stated]:
    """The derivations of financial analysts, each followed by its answer."""
    for row in rows:
        if not isinstance(row["answer"], int | float):
            continue
        percent, answer = row["scale"] == "percent", f"{row['answer']}"
        expression = row["derivation"].replace("$", "").replace(",", "").replace("%", "/100")
        shown = Fraction(answer) / (100 if percent else 1)
        value = _value(expression)
        if value is None or abs(value - shown) > Fraction(1, 200) / (100 if percent else 1):
            continue
        text = f"{row['derivation']} = {answer}{'%' * percent}"
        start = len(text) - len(answer) - percent
        yield Stated(text, start, start + len(answer))


def _value(expression: str) -> Fraction | None:
    try:
        return value_of(expression)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None


def _is_true(expression: str, number: str) -> bool:
    """Whether a number is the value of an expression, rounded to its places."""
    value, places = _value(expression), len(number.partition(".")[2])
    if value is None or places > _PLACES:
        return False
    difference = abs(value - Fraction(number.replace(",", "")))
    return difference == 0 or (places > 0 and difference * 2 * 10**places <= 1)


def changed(stated: Stated, rng: random.Random) -> str:
    """The text with another digit in the result; the first one of several is no zero."""
    digits = [at for at in range(stated.start, stated.end) if stated.text[at].isdigit()]
    at = rng.choice(digits)
    others = [digit for digit in "0123456789" if digit != stated.text[at]]
    if at == digits[0] and len(digits) > 1:
        others = [digit for digit in others if digit != "0"]
    return stated.text[:at] + rng.choice(others) + stated.text[at + 1 :]


def verdict_at(text: str, start: int) -> str:
    """The verdict on the number that begins at a character; `none` without a claim."""
    for claim in check(text):
        if claim.span[1] - len(claim.number) <= start < claim.span[1]:
            return claim.verdict.value
    return "none"


def measure(found: list[Stated], rng: random.Random) -> dict[str, Any]:
    """Counts of verdicts on untouched and on changed calculations, and the missed ones and false alarms."""
    untouched, faulty = Counter[str](), Counter[str]()
    alarms, missed = [], []
    for stated in found:
        verdict = verdict_at(stated.text, stated.start)
        untouched[verdict] += 1
        if verdict == Verdict.UNTRUE:
            alarms.append(stated.text[max(stated.start - 60, 0) : stated.end + 20])
        text = changed(stated, rng)
        verdict = verdict_at(text, stated.start)
        faulty[verdict] += 1
        if verdict != Verdict.UNTRUE:
            missed.append([verdict, text[max(stated.start - 60, 0) : stated.end + 20]])
    return {
        "calculations": len(found),
        "untouched": dict(untouched),
        "changed": dict(faulty),
        "found": faulty[Verdict.UNTRUE] / len(found),
        "false_alarms": untouched[Verdict.UNTRUE] / len(found),
        "alarms": alarms,
        "missed": missed[:200],
    }


def main(argv: list[str] | None = None) -> None:
    """Measures both sources and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gsm8k", type=Path, required=True)
    parser.add_argument("--tatqa", type=Path, required=True)
    parser.add_argument("--most", type=int, default=5000, help="calculations of each source (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("build/checking.json"))
    arguments = parser.parse_args(argv)
    rows = {
        name: list(map(json.loads, getattr(arguments, name).open(encoding="utf-8"))) for name in ("gsm8k", "tatqa")
    }
    rng, results = random.Random(0), {}
    sources = {"gsm8k": stated_in_solutions(rows["gsm8k"]), "tatqa": stated_in_derivations(rows["tatqa"])}
    for name, stated in sources.items():
        listed = list(stated)
        rng.shuffle(listed)
        results[name] = measure(listed[: arguments.most], rng)
        print(name, {key: value for key, value in results[name].items() if key not in ("alarms", "missed")})
    lines = [line for row in rows["gsm8k"] for line in _MARK.sub("", row["answer"]).split("\n")]
    start = time.process_time()
    for line in lines:
        check(line)
    speed = {"lines": len(lines), "cpu_seconds_per_100000_lines": (time.process_time() - start) / len(lines) * 1e5}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    report = {"facts": facts(), "seed": 0, "sources": results, "speed": speed}
    arguments.output.write_text(json.dumps(report, indent=1, ensure_ascii=False), encoding="utf-8")
    print(speed)


if __name__ == "__main__":
    main()
