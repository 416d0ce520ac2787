"""The time of a decoded token against the length of the context, with the adapter on and off, in turns.

One model of the `100m` shape with a KV cache of random keys and values stands for a text of each length; the adapter
has read all of it. A step feeds one token and takes it back, so the length stays. Measured by the difference of the
two arms in the same round, and beside it the base against itself, which shows the noise. Cases:

* `prompt_end`: inside of a `generate` whose prompt has passed without a result: nothing is left to read;
* `tokens`: anchors by token sequences, of which none comes;
* `result`: the same after a step with a result, which each token may continue.

Out: JSON with medians, quartiles and the 99th percentile. Says nothing about quality.

    python -m benchmarks.cost.context --output benchmarks/results/context.json
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from transformers import DynamicCache, StaticCache

from benchmarks.common.measuring import facts
from benchmarks.common.shapes import DEMO_SIZES, RandomConfig, made_base, twin
from peft_igc import IGCConfig, assistant_header
from peft_igc.numbers.calculator import Status
from peft_igc.numbers.digits import PAD
from peft_igc.text.row import Row
from peft_igc.tuner.call import Generation, generating
from peft_igc.tuner.state.cache import states_of
from peft_igc.tuner.state.text_state import StaticText, TextState
from peft_igc.tuner.state.told import begun


CASES = ("prompt_end", "tokens", "result")
CACHES = ("dynamic", "static")
TOKEN = 1406  # the word " and" of the embedded vocabulary


def filled_cache(model: Any, length: int, kind: str, room: int, rows: int = 1) -> Any:
    """A KV cache of random keys and values for texts of `length` tokens, with room for some more."""
    config, weight = model.config, next(model.parameters())
    shape = (rows, config.num_key_value_heads, length, config.hidden_size // config.num_attention_heads)
    if kind == "dynamic":
        cache: Any = DynamicCache(config=config)
    else:
        cache = StaticCache(config=config, max_cache_len=length + room)
    for layer in range(config.num_hidden_layers):
        keys, values = (0.1 * torch.randn(shape, dtype=weight.dtype, device=weight.device) for _ in range(2))
        cache.update(keys, values, layer)
    return cache


def read_all(model: Any, cache: Any, length: int, case: str) -> None:
    """Lets the adapter have read the whole text; in the case `result` with a step at its end."""
    layer = next(m for m in model.modules() if hasattr(m, "igc_config"))
    config = layer.igc_config["default"]
    rows, device = len(cache.layers[0].keys), cache.layers[0].keys.device
    with torch.no_grad():
        model(input_ids=torch.full((rows, 1), TOKEN, device=device), past_key_values=cache)  # makes the state
    states = states_of(cache, layer.layer_index)
    state = states.get("default")
    features = torch.randn(rows, length, config.reading_dim, dtype=torch.bfloat16, device=device)
    if isinstance(state, StaticText):
        if state.features is not None:
            state.features[:, :length] = features
        state.ids[:, :length] = TOKEN
    elif isinstance(state, TextState) and case != "prompt_end":
        ids = torch.full((rows, length + 1), TOKEN, device=device)
        states.set("default", state.cropped(0).appended(ids, torch.cat([features, features[:, :1]], 1)))
    if case == "result":
        state = states.get("default")
        steps = state.steps
        ones = torch.full((rows, 1), length - 1, device=device)
        digits = torch.full((rows, 1, config.result_digits), PAD, device=device)
        digits[..., :3] = 7
        made = steps._replace(
            anchors=ones,
            kinds=torch.ones_like(ones),
            ranks=ones + 1,
            digits=digits,
            signs=torch.zeros_like(ones),
            status=torch.full_like(ones, int(Status.OK)),
            scale=torch.zeros_like(ones),
            ended_at=torch.full_like(ones, -1),
        )
        if isinstance(state, StaticText):
            state.latest, state.write_from = made, 0
        else:
            style = layer.style_of("default")
            progress = () if style is None else begun((Row(),) * rows, style, made)
            states.set("default", state.with_steps(made).changed(write_from=length - 1, rows=progress))


def step_of(model: Any, cache: Any, back: Callable[[], None]) -> Callable[[], float]:
    """A function that decodes one token, takes it back, and gives the seconds of the former."""
    token = torch.tensor([[TOKEN]])

    def step() -> float:
        start = time.perf_counter()
        model(input_ids=token, past_key_values=cache)
        seconds = time.perf_counter() - start
        back()
        return seconds

    return step


def taking_back(cache: Any, kind: str) -> Callable[[], None]:
    """A function that removes the last token."""
    if kind == "dynamic":
        return lambda: cache.crop(-1)

    def back() -> None:
        for layer in cache.layers:
            layer.cumulative_length.sub_(1)

    return back


def measured(base: Any, config: IGCConfig, length: int, case: str, kind: str, rounds: int) -> dict[str, Any]:
    """Milliseconds of a token in three arms, and their differences in the same round."""
    model = get_peft_model(twin(base), config).eval().requires_grad_(False)
    arms: dict[str, Callable[[], float]] = {}
    for arm in ("base", "base_again", "igc"):
        used = model if arm == "igc" else base
        cache = filled_cache(base, length, kind, 4)
        if arm == "igc":
            read_all(model, cache, length, case)
            taking_back(cache, kind)()
        arms[arm] = step_of(used, cache, taking_back(cache, kind))
    prompt, mask = torch.full((1, 1), TOKEN), torch.ones(1, length, dtype=torch.int64)
    generation = Generation(model.base_model.model, prompt, mask, torch.tensor([[length - 1]]))
    generation.reused, generation.passed, generation.owns = False, True, lambda call: True  # type: ignore[method-assign]
    found: dict[str, list[float]] = {arm: [] for arm in arms}
    with torch.no_grad(), generating(generation) if case == "prompt_end" else nullcontext():
        for number in range(rounds + 5):
            order = list(arms) if number % 2 else list(arms)[::-1]
            for arm in order:
                seconds = arms[arm]()
                if number >= 5:
                    found[arm].append(seconds)
    result: dict[str, Any] = {arm: described(values) for arm, values in found.items()}
    for arm in ("base_again", "igc"):
        over = [a - b for a, b in zip(found[arm], found["base"], strict=True)]
        result[f"{arm}_over_base"] = described(over) | {
            "percent": 100 * statistics.median(over) / statistics.median(found["base"])
        }
    return result


def described(seconds: list[float]) -> dict[str, float]:
    """Median, quartiles and 99th percentile in milliseconds."""
    ordered = sorted(1e3 * value for value in seconds)
    low, median, high = statistics.quantiles(ordered, n=4, method="inclusive")
    last = ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))]
    return {"median": median, "low": low, "high": high, "p99": last, "n": len(ordered)}


def main() -> None:
    """Measures every cell and writes the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--shape", default="100m", help="as in `benchmarks.common.shapes` (default: %(default)s)")
    parser.add_argument("--lengths", nargs="+", type=int, default=[1024, 8192, 32768])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--caches", nargs="+", default=list(CACHES), choices=CACHES)
    parser.add_argument("--widths", nargs="+", default=["demo", "512"], choices=["demo", "512"])
    parser.add_argument("--rounds", type=int, default=60, help="rounds that count (default: %(default)s)")
    arguments = parser.parse_args()
    base, tokenizer = made_base(arguments.shape, 0, torch.device("cpu"))
    base.config.max_position_embeddings = 2 * max(arguments.lengths)
    results: dict[str, Any] = {**facts(), "settings": vars(arguments) | {"output": arguments.output.name}, "cells": []}
    for width in arguments.widths:
        sizes = DEMO_SIZES if width == "demo" else {"reading_dim": 512}
        for case in arguments.cases:
            anchors: list[Any] = ["prompt_end"] if case == "prompt_end" else ["=", assistant_header(tokenizer)]
            fields = {"interface": "tokens", **sizes}
            config = RandomConfig.from_tokenizer(tokenizer, anchors=anchors, **fields)
            for kind in arguments.caches:
                for length in arguments.lengths:
                    cell = {"width": width, "case": case, "cache": kind, "length": length}
                    cell |= measured(base, copy.deepcopy(config), length, case, kind, arguments.rounds)
                    results["cells"].append(cell)
                    over, noise = (cell[f"{arm}_over_base"] for arm in ("igc", "base_again"))
                    print(
                        f"{width:>4} {case:<10} {kind:<7} {length:>6}: base {cell['base']['median']:7.2f} ms, "
                        f"igc {1e3 * over['median']:+7.0f} us ({over['percent']:+.1f}%), "
                        f"base again {1e3 * noise['median']:+7.0f} us ({noise['percent']:+.1f}%)",
                        flush=True,
                    )
                    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
