"""What reading an expression in symbols costs at an anchor, beside the learned reading.

Each text ends in an expression and `=`, padded with prose to a number of tokens. Timed in turns, for batches of rows:
`rules` (places and expressions, on the host), and the baseline, `learned`: the token interface's reading with
the sizes of the demonstration, and the calculation. The baseline reads two integers; it is timed on the same texts.

    python -m benchmarks.cost.symbols --threads 2 --output build/symbols_cost.json
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model

from benchmarks.common.measuring import alternating, facts, loops_for, seconds, summary
from peft_igc.demo.run import demo_config
from peft_igc.demo.settings import SETTINGS
from peft_igc.inference.loading import tiny_base
from peft_igc.mappings.decisions import said_of
from peft_igc.mappings.places import StepTexts
from peft_igc.text import Limits
from peft_igc.tuner.layer import IGCLayer
from peft_igc.tuner.steps import calculate_step


EXPRESSIONS = {
    "2 operands": "58213 * 907 =",
    "4 operands": "(12.5 + 3.25) * 8 - 120 =",
    "8 operands": "((1 + 2) * 3 - 4 / 8) * (5 + 6 * 7 - 8) =",
}
PROSE = "She went to the market in the morning and came home with many things for her friends and the house . "
LENGTHS, ROWS = (64, 256, 1024), (1, 16)
LEAST = 0.05  # seconds of one measurement
CPU = torch.device("cpu")


def text_ids(tokenizer: Any, expression: str, length: int, rows: int) -> torch.Tensor:
    """Texts [rows, length] of prose and an expression."""
    end = tokenizer(" so it is " + expression, add_special_tokens=False)["input_ids"]
    prose = tokenizer(PROSE * (length // 8 + 1), add_special_tokens=False)["input_ids"]
    return torch.tensor([prose[: length - len(end)] + end] * rows)


def functions(layer: IGCLayer, ids: torch.Tensor) -> dict[str, Callable[[], object]]:
    """What is timed, on one batch."""
    rows, length = ids.shape
    valid = torch.ones_like(ids, dtype=torch.bool)
    anchors, since = torch.full((rows,), length - 1), torch.zeros(rows, dtype=torch.int64)
    config, reader = layer.igc_config["default"], layer.igc_input_mapping["default"]
    kept = torch.randn(rows, length, config.reading_dim)

    def rules() -> Any:
        texts = StepTexts.of(reader.tokens.table, reader.max_distance, ids, anchors[:, None], since[:, None])
        return said_of(config.vocabulary, texts, Limits.of(config))

    def learned() -> Any:
        read = reader(kept, valid, anchors[:, None], ids, since[:, None])
        return calculate_step(config, read.choose(), torch.ones(rows, 1, dtype=torch.bool))

    return {"rules": rules, "learned": learned}


@torch.no_grad()
def measure(tokenizer: Any, layer: IGCLayer, repetitions: int) -> list[dict[str, Any]]:
    """Milliseconds of a call, by expression, length and number of rows."""
    found = []
    for (name, expression), length, rows in itertools.product(EXPRESSIONS.items(), LENGTHS, ROWS):
        if length > LENGTHS[0] and expression != EXPRESSIONS["2 operands"]:
            continue
        calls = functions(layer, text_ids(tokenizer, expression, length, rows))
        loops = {key: loops_for(call, CPU, LEAST) for key, call in calls.items()}
        timed = alternating(
            {key: functools.partial(_milliseconds, calls[key], loops[key]) for key in calls}, repetitions
        )["ms"]
        row = {"expression": name, "tokens": length, "rows": rows}
        row |= {key: summary(values) for key, values in timed.items()}
        print(name, length, rows, {key: round(row[key]["median"], 2) for key in calls}, flush=True)
        found.append(row)
    return found


def _milliseconds(call: Callable[[], object], loops: int) -> dict[str, float]:
    """How long one call takes."""
    return {"ms": 1e3 * seconds(call, CPU, loops)}


def main() -> None:
    """Measures and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    base, tokenizer = tiny_base()
    model = get_peft_model(base, demo_config(tokenizer, SETTINGS["tokens"])).eval()
    layer = next(module for module in model.modules() if isinstance(module, IGCLayer))
    results = {**facts(), "measured": measure(tokenizer, layer, arguments.repetitions)}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
