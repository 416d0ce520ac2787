"""What each rule of the reading is worth: right, wrong and silent on all sets with all rules, and without each one.

A rule that stays must prevent more wrong answers than a higher `confidence` would at as many right ones, on texts of
authors whom it was not written for. Nothing is generated: what the calculator would write is read in a pass of a few
layers. The sets are those of `adapter_on_sets`; the filled texts of `--wording DIR` (`*.jsonl` with slots) are one
set more. `--confidence` measures other thresholds than the adapter's own.

    python -m benchmarks.accuracy.leave_one_out --base tiny --adapter tiny --output build/leave_one_out.json
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.accuracy.adapter_on_sets import all_sets
from benchmarks.common.measuring import facts
from peft_igc.calibration.prompt_readings import read_results
from peft_igc.demo.text_sets import judge
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.mappings import decisions
from peft_igc.text import requests
from peft_igc.tuner.hooks.wrapper import active_config


GROUPS = {
    "plain requests": "plain_requests",
    "mentions": "mentioned_calculations",
}
_OPERATIONS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


@contextmanager
def _patched(target: Any, name: str, value: Any) -> Iterator[None]:
    with mock.patch.object(target, name, value):
        yield


RULES: dict[str, Any] = {
    "all rules": lambda: _patched(requests, "_NO_NAME", requests._NO_NAME),
    "without the stated operation's veto": lambda: _patched(requests, "vetoes", lambda *_: False),
    "without what touches an operand": lambda: _patched(requests, "STRANGE", frozenset()),
    "without the refusal of symbols": lambda: _patched(decisions.Said, "refuses_between", lambda *_: False),
    "without the odds of a stated operation": lambda: _patched(decisions, "STATED_ODDS", 1.0),
    "without the doubt's weight": lambda: _patched(decisions, "DOUBT", 1.0),
}


def filled(folder: Path, seed: int = 0) -> list[dict[str, Any]]:
    """The texts with slots, with numbers that keep their constraints; the target is None where nothing is asked."""
    rng, items = random.Random(seed), []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if "operator" not in row:
                continue
            a, b = _numbers(row, rng)
            values = {"a": a, "b": b, "c": rng.randint(2, 99), "d": rng.randint(2, 99)}
            text = row["text"]
            for slot, value in values.items():
                text = text.replace(f"{{{slot}}}", str(value))
            items.append({"prompt": text, "target": _target(row, a, b)})
    return items


def _numbers(row: dict[str, Any], rng: random.Random) -> tuple[int, int]:
    """Two numbers that keep the constraints of a text."""
    large, small, factor = (rng.randint(2, 999) for _ in range(3))
    if row["operator"] == "/":
        pair = (small * factor, small)
        return pair if row["order"] == "ab" else pair[::-1]
    if "b>a" in row["constraints"]:
        return min(large, small), max(large, small) + 1
    return (max(large, small) + 1, min(large, small)) if "a>b" in row["constraints"] else (large, small)


def _target(row: dict[str, Any], a: int, b: int) -> str | None:
    """The result of a text's calculation."""
    if row["operator"] == "none":
        return None
    left, right = (a, b) if row["order"] == "ab" else (b, a)
    return str(left // right if row["operator"] == "/" else _OPERATIONS[row["operator"]](left, right))


def grouped(sets: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The sets, those of several authors joined."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, items in sets.items():
        group = next((group for group, part in GROUPS.items() if name.endswith(part)), name)
        if items is not None:
            found.setdefault(group, []).extend(items)
    return found


def measure(model: Any, tokenizer: Any, sets: dict[str, list[dict[str, Any]]], batch_size: int) -> dict[str, Any]:
    """Counts by rule and set."""
    table: dict[str, Any] = {}
    for rule, without in RULES.items():
        with without():
            for name, items in sets.items():
                said = read_results(model, tokenizer, [item["prompt"] for item in items], batch_size=batch_size)
                counts = Counter(judge(item["target"], one) for item, one in zip(items, said, strict=True))
                found = {"n": len(items), "right": counts["right"], "wrong": counts["wrong"]}
                table.setdefault(rule, {})[name] = found
        print(rule, {name: (one["right"], one["wrong"]) for name, one in table[rule].items()}, flush=True)
    return table


def main() -> None:
    """Measures and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, metavar="DIR")
    parser.add_argument("--adapter", type=Path, required=True, metavar="DIR")
    parser.add_argument("--wording", type=Path, metavar="DIR", help="texts with slots, as JSON lines")
    parser.add_argument("--confidence", type=float, nargs="+", metavar="P", help="default: the adapter's own")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="default: all")
    parser.add_argument("--batch-size", type=int, default=64, metavar="N")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load_base(arguments.base, "float32")
    model = load_adapter(model, arguments.adapter)
    sets = grouped(all_sets()[0])
    if arguments.wording is not None:
        sets["texts with slots"] = filled(arguments.wording)
    sets = {name: items for name, items in sets.items() if name in (arguments.sets or sets)}
    config = active_config(model)
    assert config is not None
    results: dict[str, Any] = {**facts(), "adapter": arguments.adapter.name, "confidences": {}}
    for confidence in arguments.confidence or [config.confidence]:
        config.confidence = confidence
        print("confidence", confidence, flush=True)
        results["confidences"][str(confidence)] = measure(model, tokenizer, sets, arguments.batch_size)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
