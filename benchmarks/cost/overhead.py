"""What a calculator costs at inference: prefill, first token and decoding, compared with the base and LoRA.

All methods share one set of weights in one process and take turns, round by round (see `measuring`). Texts ask for a
calculation, or have two numbers, or none. The first is in symbols: rules know what it says, and the network whether it
is asked, which a random reading can be made to find; in the round that does not count, each text has to be read as its
kind says. The shapes have adapters of random weights whose reading is forced, and a LoRA with as many parameters. A
folder is a real model with trained adapters, for which also the host's reading of texts is timed.

    python -m benchmarks.cost.overhead --output benchmarks/results/overhead.json
    python -m benchmarks.cost.overhead --shapes .cache/smollm2/base --adapters build/layer-1 build/layer-12 \\
        --output build/first_token.json
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from benchmarks.accuracy.adapter_on_sets import plain_requests
from benchmarks.common.measuring import alternating, command, facts, overhead, seconds, summary, write
from benchmarks.common.shapes import BASE, SHAPES, TINY, Subject, made_base, missing, subjects, twin
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.mappings.places import StepTexts
from peft_igc.numbers.calculator import Status
from peft_igc.trainer.precision import in_bf16
from peft_igc.tuner.call import observing
from peft_igc.tuner.hooks.wrapper import active_layer
from peft_igc.tuner.steps import Step, decisions_of


CALCULATION, NUMBERS, PLAIN = "calculation", "numbers", "plain"
# The first one is not joined to the filler before it, which may be cut within a word.
TEXTS = {CALCULATION: " What is 58 * 36?", NUMBERS: "It is 58 or 36.", PLAIN: "What is the name of it?"}
READ_LENGTHS = (64, 512, 4096)  # tokens of texts that the host reads
FILLER = "The house was old and it stood in a green garden near the river. "


def text_of(tokenizer: Any, kind: str, rows: int, length: int) -> torch.Tensor:
    """Ids [rows, length] of a chat that ends in an assistant header; words fill it up in front of the question."""
    asked, other = prompt_tokens(tokenizer, [TEXTS[kind], FILLER], raw=False)
    opening = next(at for at, (one, two) in enumerate(zip(asked, other, strict=False)) if one != two)
    if length < len(asked):
        raise ValueError(f"`length={length}` is too short for the question, which has {len(asked)} tokens.")
    return torch.tensor([*asked[:opening], *words(tokenizer, length - len(asked)), *asked[opening:]]).repeat(rows, 1)


def words(tokenizer: Any, count: int) -> list[int]:
    """Ids of words that ask for nothing."""
    return list(itertools.islice(itertools.cycle(tokenizer(FILLER, add_special_tokens=False)["input_ids"]), count))


@torch.inference_mode()
def parts_of(model: Any, ids: torch.Tensor, fed: torch.Tensor) -> dict[str, float]:
    """Seconds of the prompt's pass, of `generate` for one token, and of decoding the tokens that are fed; and those of
    the processor meanwhile, which other work on the machine changes less."""
    out: list[Any] = []
    one = GenerationConfig(max_new_tokens=1, do_sample=False, pad_token_id=0, eos_token_id=None)

    def prefill() -> None:
        out[:] = [model(input_ids=ids, use_cache=True, logits_to_keep=1)]

    def decode() -> None:
        for at in range(fed.shape[1]):
            step = model(input_ids=fed[:, at : at + 1], past_key_values=out[0].past_key_values, logits_to_keep=1)
            step.logits.argmax(-1)

    def first() -> None:
        model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=one)

    found = {}
    for name, run in (("prefill", prefill), ("decode", decode), ("first token", first)):
        begin = time.process_time()
        found[name] = seconds(run, ids.device)
        found[f"{name}, CPU"] = time.process_time() - begin
    return found


def host_reading(model: Any, tokenizer: Any, n: int) -> dict[str, Any]:
    """Milliseconds in which the host reads the text of an anchor, by its number of tokens.

    The texts end in a request of an author, after others. All are read three times, and the fastest counts.
    """
    adapter, requests, found = active_layer(model)[0].adapter("default"), plain_requests(), dict[str, Any]()
    for length in READ_LENGTHS:
        rng, best = random.Random(length), [(math.inf, math.inf)] * n
        chats = ["\n".join(rng.choice(requests)["prompt"] for _ in range(1 + length // 8)) for _ in range(n)]
        rows = [ids[-length:] for ids in prompt_tokens(tokenizer, chats, raw=False)]
        for at in [*range(n)] * 3:
            wall, cpu = time.perf_counter(), time.process_time()
            texts = StepTexts.of_lists(adapter.reader.tokens, [rows[at]], [len(rows[at]) - 1], [0])
            decisions_of(adapter, None, texts)
            taken = time.perf_counter() - wall, time.process_time() - cpu
            best[at] = min(best[at][0], taken[0]), min(best[at][1], taken[1])
        for name, times in zip(("wall", "CPU"), zip(*best, strict=True), strict=True):
            p50, p99 = (1e3 * sorted(times)[(n - 1) * part // 100] for part in (50, 99))
            found.setdefault(str(length), {})[name] = {"p50": p50, "p99": p99}
    return found


def check_read(subject: Subject, kind: str, seen: list[Any], rows: int) -> None:
    """Sees that the timed text is read as its kind says, by the events meanwhile."""
    steps = [event for event in seen if isinstance(event, Step)]
    ok = [int((one.result.status[one.anchors >= 0] == int(Status.OK)).sum()) for one in steps]
    if subject.calculators and (ok[:1] != [rows] if kind == CALCULATION else any(ok)):
        raise SystemExit(f"{subject.method}: the {kind} text has {ok} steps with the status ok in {rows} rows.")


def cell_of(made: list[Subject], tokenizer: Any, kind: str, batch: int, length: int, arguments: Any) -> dict[str, Any]:
    """One cell: seconds of every part and method, and what they cost more than the base in the same round."""
    device = next(made[0].model.parameters()).device
    ids = text_of(tokenizer, kind, batch, length).to(device)
    fed = torch.tensor(words(tokenizer, arguments.steps), device=device).repeat(batch, 1)  # whatever is generated
    checked: set[str] = set()

    def run(subject: Subject) -> dict[str, float]:
        with subject.told("*" if kind == CALCULATION else None):
            if subject.method in checked:
                return parts_of(subject.model, ids, fed)
            checked.add(subject.method)
            seen: list[Any] = []
            with observing(seen.append):
                parts = parts_of(subject.model, ids, fed)
            check_read(subject, kind, seen, batch)
            return parts

    turns = {subject.method: lambda subject=subject: run(subject) for subject in made}
    runs = alternating(turns, arguments.rounds, most_seconds=60 * arguments.minutes)
    parts: dict[str, Any] = {}
    for part, by_method in runs.items():
        parts[part] = {method: {"seconds": summary(values)} for method, values in by_method.items()}
        for method in parts[part].keys() - {BASE}:
            parts[part][method]["overhead"] = overhead(by_method[method], by_method[BASE])
    return {"text": kind, "batch": batch, "prompt": length, "parts": parts}


def measure_shape(shape: str, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Everything about one shape, or about the base in a folder and its trained adapters, after each cell."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if shape in SHAPES:
        base, tokenizer = made_base(shape, arguments.seed, device)
        made = subjects(base, tokenizer, arguments.seed)
    else:
        base, tokenizer = load_base(shape, "bfloat16" if in_bf16(device) else "float32")
        base = base.to(device).eval().requires_grad_(False)
        adapters = {one.name: load_adapter(twin(base), one).to(device).eval() for one in arguments.adapters}
        made = [Subject(name, model, False) for name, model in ({BASE: base} | adapters).items()]
    entry: dict[str, Any] = {"parameters": base.num_parameters(), "cells": []}
    if shape not in SHAPES:
        entry["host reading"] = {name: host_reading(one, tokenizer, 400) for name, one in adapters.items()}
    cells = list(itertools.product(arguments.batches, arguments.prompts, TEXTS))
    for batch, length, kind in cells:
        if device.type == "cpu" and batch * length > arguments.most_tokens:
            continue
        entry["cells"].append(cell_of(made, tokenizer, kind, batch, length, arguments))
        print(f"{shape}, {batch} x {length}, {kind}", flush=True)
        yield entry


def main() -> None:
    """Measures, and writes results after each cell."""
    parser = command(__doc__)
    parser.add_argument(
        "--shapes", nargs="+", default=[TINY, "100m"], help=f"{', '.join(SHAPES)}, or folders of bases"
    )
    parser.add_argument("--adapters", type=Path, nargs="+", default=[], metavar="DIR", help="trained ones of a folder")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8], metavar="B")
    parser.add_argument("--prompts", type=int, nargs="+", default=[16, 128, 1024], metavar="T")
    parser.add_argument("--steps", type=int, default=32, help="tokens that are decoded (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="at most (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=1.0, help="of a cell, at least 3 rounds")
    parser.add_argument("--most-tokens", type=int, default=1024, help="batch times prompt, on a CPU")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random weights")
    arguments = parser.parse_args()
    results: dict[str, Any] = {**facts(), "rounds": arguments.rounds}
    for shape in arguments.shapes:
        if reason := missing(shape):
            print(f"{shape} is left out: {reason}", flush=True)
            continue
        for entry in measure_shape(shape, arguments):
            results.setdefault("shapes", {})[shape] = entry
            write(arguments.output, results)


if __name__ == "__main__":
    main()
