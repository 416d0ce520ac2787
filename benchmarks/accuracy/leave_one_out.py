"""What each rule of the reading is worth: right and wrong on the sets with all rules, and without each one.

A rule that stays must prevent more wrong answers than a higher `confidence` would at as many right ones, on texts of
authors whom it was not written for. Nothing is generated. The sets are those of `adapter_on_sets`.

    python -m benchmarks.accuracy.leave_one_out --base tiny --adapter tiny --output build/leave_one_out.json
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.accuracy.adapter_on_sets import SIZES, Items, chosen_sets, parser_of
from benchmarks.common.measuring import facts, write
from peft_igc.calibration.calibrate import read_results
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.mappings import decisions
from peft_igc.sft.sets import judge
from peft_igc.text import requests
from peft_igc.tuner.hooks.wrapper import active_config


RULES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "all rules": nullcontext,
    "without the stated operation's veto": partial(mock.patch.object, requests, "vetoes", lambda *_: False),
    "without what touches an operand": partial(mock.patch.object, requests, "STRANGE", frozenset()),
    "without the refusal of symbols": partial(mock.patch.object, decisions.Said, "refuses_between", lambda *_: False),
    "without the odds of a stated operation": partial(mock.patch.object, decisions, "STATED_ODDS", 1.0),
}


def measure(model: Any, tokenizer: Any, sets: dict[str, Items]) -> dict[str, Any]:
    """Counts by rule and set."""
    table: dict[str, Any] = {}
    for rule, without in RULES.items():
        with without():
            for name, items in sets.items():
                prompts = [item["prompt"] for item in items]
                said = read_results(model, tokenizer, prompts, batch_size=SIZES.batch_size)
                counts = Counter(judge(item["target"], one) for item, one in zip(items, said, strict=True))
                found = {"n": len(items), "right": counts["right"], "wrong": counts["wrong"]}
                table.setdefault(rule, {})[name] = found
        print(rule, {name: (one["right"], one["wrong"]) for name, one in table[rule].items()}, flush=True)
    return table


def main() -> None:
    """Measures and writes the results."""
    parser = parser_of(__doc__)
    parser.add_argument("--adapter", type=Path, required=True, metavar="DIR")
    parser.add_argument("--confidence", type=float, nargs="+", metavar="P", help="default: the adapter's own")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sets = chosen_sets(arguments)
    model, tokenizer = load_base(arguments.base, "float32")
    model = load_adapter(model, arguments.adapter)
    config = active_config(model)
    assert config is not None
    results: dict[str, Any] = {**facts(), "adapter": arguments.adapter.name, "confidences": {}}
    for confidence in arguments.confidence or [config.confidence]:
        config.confidence = confidence
        print("confidence", confidence, flush=True)
        results["confidences"][str(confidence)] = measure(model, tokenizer, sets)
        write(arguments.output, results)


if __name__ == "__main__":
    main()
