"""How long a model takes to its first token, with calculators behind different layers, beside the base alone.

In: a base, adapters that were trained on it. Out: JSON with the seconds of a prompt's pass by adapter and prompt, and
their ratios to the base in the same round. Prompts: two requests, which every adapter has to answer, and two without a
calculation, one of them with numbers. Methods take turns.

    python -m benchmarks.cost.first_token --base .cache/smollm2/base --adapters build/layer-1 build/layer-12 \
        --output benchmarks/results/smollm2_first_token.json
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.measuring import alternating, facts, overhead, seconds, summary
from peft_igc.calibration.prompt_readings import read_results
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.trainer.precision import in_bf16
from peft_igc.tuner.hooks import active_config


ASKED = ("What is 5817 times 364?", "Please add 48213 and 977 for me.")
SILENT = (
    "Name three rivers in Europe, one per line, please.",
    "I was born in 1987 and moved to Oslo in 2004. Write a short text about that year.",
)
BASE = "base"


def first_token(model: Any, ids: torch.Tensor) -> Callable[[], dict[str, float]]:
    """A function that measures the pass over a prompt [1, T] with the logits of its last position alone."""

    def run() -> object:
        with torch.no_grad():
            return model(input_ids=ids, use_cache=True, logits_to_keep=1)

    return lambda: {"first token": seconds(run, ids.device)}


def measured(base: Path, adapters: list[Path], rounds: int) -> list[dict[str, Any]]:
    """A cell per prompt and adapter.

    Raises:
        ValueError: an adapter is named twice, does not answer a request, or answers another prompt, so that times
            cannot be compared.
    """
    if len(set(adapters)) < len(adapters):
        raise ValueError(f"`--adapters` names a folder twice: {sorted(map(str, adapters))}. Name each once.")
    alone, tokenizer = load_base(base, "bfloat16" if in_bf16("cpu") else "float32")
    models = {str(one): load_adapter(copy.deepcopy(alone), one).eval() for one in adapters}
    cells = []
    for prompt in (*ASKED, *SILENT):
        for name, model in models.items():
            (said,) = read_results(model, tokenizer, [prompt])
            if (said is None) == (prompt in ASKED):
                raise ValueError(f"`{name}` reads {said!r} in {prompt!r}. Train it longer, or leave it out.")
        ids = torch.tensor(prompt_tokens(tokenizer, [prompt], False))
        functions = {name: first_token(model, ids) for name, model in {BASE: alone.eval(), **models}.items()}
        times = alternating(functions, rounds)["first token"]
        for name, model in models.items():
            config = active_config(model)
            cells.append({
                "prompt": prompt, "tokens": ids.shape[1], "adapter": name, "layer": config and config.layer,
                "answered": prompt in ASKED, "base": summary(times[BASE]), "seconds": summary(times[name]),
                "overhead": overhead(times[name], times[BASE]),
            })  # fmt: skip
            print(f"{name}: {100 * cells[-1]['overhead']['median']:+.1f}% {prompt}", flush=True)
    return cells


def main() -> None:
    """Measures and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, metavar="DIR")
    parser.add_argument("--adapters", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=31, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    results = {**facts(), "rounds": arguments.rounds}
    results["cells"] = measured(arguments.base, arguments.adapters, arguments.rounds)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
