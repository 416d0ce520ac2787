"""What IGC costs at inference: prefill, first token, decoding and memory, beside the base and LoRA of equal size.

All methods share one set of weights in one process and take turns, repetition by repetition (see `measuring`). Two
texts: one that asks for a calculation, which is read, calculated and written at every token behind it, and one without
arithmetic, in which an anchor is read as well, but nothing is written. Decoding is measured twice, by a plain loop of
forward calls with a cache that grows, and through `generate`; on a GPU also compiled, as CUDA graphs, with a static
cache. Before anything is timed, IGC has to be right (`checked`), and in the round of each cell that does not count it
has to read the very text that is timed as it should (`check_read`), or the run ends.

Shapes: `tiny` is the embedded base, `100m` a random Llama of 110 M parameters, `8b` one of Llama-3.1-8B's dimensions
in bfloat16, which needs a GPU. What this machine cannot run is left out and named in the results. Texts are built of
the embedded tokenizer's tokens. Says nothing about quality.

    python -m benchmarks.cost.overhead --output benchmarks/results/overhead.json \\
        --figure benchmarks/results/overhead.png
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from torch.profiler import ProfilerActivity, profile
from transformers import GenerationConfig, StaticCache

from benchmarks.common.measuring import Progress, alternating, facts, overhead, seconds, summary
from benchmarks.common.shapes import BASE, SHAPES, TINY, Subject, made_base, missing, subjects
from benchmarks.cost.overhead_checks import (
    CALCULATION,
    OPERATIONS,
    TEXTS,
    check_compiled,
    check_read,
    checked,
    checked_memory,
    fed_tokens,
    logits_of,
    record_bytes,
    statuses,
    text_of,
)


EAGER, COMPILED = MODES = ("eager", "compiled")
# Of one repetition; the last one is what `generate` took for all tokens but the first.
PREFILL, DECODE, FIRST, GENERATE, LATER = PARTS = (
    "prefill",
    "decode",
    "first_token",
    "generate",
    "decode_in_generate",
)
PROMPTS_READ = 3  # of a repetition by forward calls and `generate`
LOOKED_AT = 48  # tokens before the decoding steps whose operators are counted
NOT_SETTINGS = ("output", "figure", "adapter")


# ---------------------------------------------------------------------------------------------- what is timed
def greedy_tokens(count: int, unwanted: int) -> GenerationConfig:
    """Settings of a `generate` that gives exactly so many tokens, none of them the unwanted one."""
    return GenerationConfig(
        max_new_tokens=count,
        min_new_tokens=count,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
        suppress_tokens=[unwanted],
    )


@torch.inference_mode()
def eager_parts(subject: Subject, ids: torch.Tensor, fed: torch.Tensor) -> dict[str, float]:
    """Seconds of prefill and decoding by forward calls, and of `generate` for one token and for as many as are fed."""
    model, device = subject.model, ids.device
    header = int(ids[0, -1])  # of the assistant, with which a prompt ends; one in the answer would be read again
    out = []

    def prefill() -> None:
        out[:] = [model(input_ids=ids, use_cache=True, logits_to_keep=1)]

    def decode() -> None:
        for at in range(fed.shape[1]):
            step = model(input_ids=fed[:, at : at + 1], past_key_values=out[0].past_key_values, logits_to_keep=1)
            step.logits.argmax(-1)

    def generate(count: int) -> None:
        mask = torch.ones_like(ids)
        settings = greedy_tokens(count, header)
        model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)

    parts = {PREFILL: seconds(prefill, device), DECODE: seconds(decode, device)}
    out.clear()
    parts[FIRST] = seconds(lambda: generate(1), device)
    parts[GENERATE] = seconds(lambda: generate(fed.shape[1] + 1), device)
    return parts | {LATER: max(parts[GENERATE] - parts[FIRST], 1e-9)}  # of a few tokens noise may take all


class CompiledDecoding:
    """Decoding steps as a compiled graph with a static cache, which is used again in each repetition.

    Args:
        subject: the method.
        ids: [B, T] the prompt.
        fed: [B, N] what follows.
        backend, mode: of `torch.compile`.
    """

    def __init__(
        self,
        subject: Subject,
        ids: torch.Tensor,
        fed: torch.Tensor,
        backend: str = "inductor",
        mode: str | None = None,
    ) -> None:
        self.subject, self.ids, self.fed = subject, ids, fed
        model = subject.model
        self.model = model.get_base_model() if isinstance(model, PeftModel) else model
        self.cache = StaticCache(config=self.model.config, max_cache_len=ids.shape[1] + fed.shape[1])
        self.step = torch.compile(self.model.__call__, backend=backend, mode=mode, dynamic=False)

    @torch.no_grad()
    def __call__(self) -> dict[str, float]:
        """Seconds of the decoding; the prompt is read before."""
        self._prefill()
        return {DECODE: seconds(lambda: [logits.argmax(-1) for logits in self._decoded()], self.ids.device)}

    @torch.no_grad()
    def logits(self) -> torch.Tensor:
        """[B, N, V] behind each token that is fed."""
        self._prefill()
        return torch.cat([logits.clone() for logits in self._decoded()], 1)  # a graph writes over its outputs

    @torch.no_grad()
    def read(self) -> list[torch.Tensor]:
        """The statuses of the steps in the prompt; no graph is watched, or it would be another one than is timed."""
        with statuses() as seen:
            self._prefill()
        return seen

    def _prefill(self) -> None:
        """Reads the prompt into an empty cache, without a graph."""
        self.cache.reset()
        self.model(input_ids=self.ids, past_key_values=self.cache, logits_to_keep=1)

    def _decoded(self) -> Iterator[torch.Tensor]:
        """Logits [B, 1, V] of one step after the other."""
        for at in range(self.fed.shape[1]):
            torch.compiler.cudagraph_mark_step_begin()
            token = self.fed[:, at : at + 1].clone()
            yield self.step(input_ids=token, past_key_values=self.cache, logits_to_keep=1).logits


@torch.inference_mode()
def operators(subject: Subject, ids: torch.Tensor, fed: torch.Tensor) -> dict[str, Any]:
    """Operators of one decoding step and those that take the most time of their own."""
    out = subject.model(input_ids=ids, use_cache=True, logits_to_keep=1)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for at in range(fed.shape[1]):
            subject.model(input_ids=fed[:, at : at + 1], past_key_values=out.past_key_values, logits_to_keep=1)
    steps = fed.shape[1]
    events = sorted(
        (e for e in seen.key_averages() if e.key.startswith("aten::")), key=lambda e: -e.self_cpu_time_total
    )
    longest = {e.key: {"calls": e.count / steps, "us": round(e.self_cpu_time_total / steps, 1)} for e in events[:8]}
    return {"calls": sum(e.count for e in events) / steps, "longest": longest}


# ---------------------------------------------------------------------------------------------- cells
def left_out(base: Any, mode: str, length: int, batch: int, arguments: argparse.Namespace) -> str | None:
    """Why a cell is not measured; None if it is."""
    config, device = base.config, next(base.parameters()).device
    if mode == COMPILED and device.type != "cuda":
        return "CUDA graphs need a GPU"
    if length + arguments.steps + 1 > config.max_position_embeddings:
        return f"the model takes {config.max_position_embeddings} tokens"
    if device.type == "cpu" and batch * length > arguments.most_tokens:
        return f"batch times prompt is over --most-tokens {arguments.most_tokens}"
    heads = config.num_key_value_heads * (config.hidden_size // config.num_attention_heads)
    size = next(base.parameters()).element_size()
    caches = 3 if mode == EAGER else 5  # one is copied as it grows; or each method keeps its own
    needed = caches * 2 * config.num_hidden_layers * heads * size * batch * (length + arguments.steps)
    needed += 4 * config.intermediate_size * size * batch * length  # within a layer of the prefill
    free = torch.cuda.mem_get_info()[0] if device.type == "cuda" else _free_memory()
    return f"{needed / 2**30:.1f} GiB are needed, {free / 2**30:.1f} are free" if needed > free else None


def _free_memory() -> int:
    """Bytes of main memory that nothing uses."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def not_counted(
    subject: Subject, kind: str, ids: torch.Tensor, fed: torch.Tensor, graph: CompiledDecoding | None
) -> tuple[dict[str, float], dict[str, int]]:
    """A method's first round of a cell, and how it read the text; `SystemExit` if that is not what is to be timed."""
    if graph is None:
        with statuses() as seen:
            parts = eager_parts(subject, ids, fed)
        return parts, check_read(subject, kind, seen, *ids.shape, PROMPTS_READ)
    read = check_read(subject, kind, graph.read(), *ids.shape, 1)
    graph()  # this round is still too early for a graph
    with torch.inference_mode():
        eager = logits_of(subject.model, ids, fed, True)[:, 1:]
    check_compiled(subject, graph.logits(), eager)
    return graph(), read


def measured(
    made: list[Subject], tokenizer: Any, kind: str, mode: str, length: int, batch: int, arguments: Any
) -> dict[str, Any]:
    """One cell: seconds and tokens per second of every part and method, and what they cost more than the base."""
    device = next(made[0].model.parameters()).device
    ids = text_of(tokenizer, kind, batch, length).to(device)
    fed = fed_tokens(tokenizer, batch, arguments.steps, device)
    if mode == COMPILED:  # each cell has graphs of its own, and to run without one in silence would be no result
        torch._dynamo.reset()
        torch._dynamo.config.recompile_limit = 64
        torch._dynamo.config.fail_on_recompile_limit_hit = True
    graphs: dict[str, CompiledDecoding] = {}
    read: dict[str, dict[str, int]] = {}
    peaks: dict[str, int] = {}

    def run(subject: Subject) -> dict[str, float]:
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        with subject.told(OPERATIONS[kind]):
            if mode == COMPILED and subject.method not in graphs:
                graphs[subject.method] = CompiledDecoding(subject, ids, fed, mode="reduce-overhead")
            graph = graphs.get(subject.method)
            if subject.method not in read:
                parts, read[subject.method] = not_counted(subject, kind, ids, fed, graph)
            else:
                parts = eager_parts(subject, ids, fed) if graph is None else graph()
        if device.type == "cuda":
            peaks[subject.method] = torch.cuda.max_memory_allocated()
        return parts

    turns = {s.method: lambda s=s: run(s) for s in made}
    runs = alternating(turns, arguments.repetitions, most_seconds=60 * arguments.minutes)
    tokens = {PREFILL: batch * length, FIRST: batch * length, GENERATE: batch * (arguments.steps + 1)}
    parts: dict[str, Any] = {}
    for part, by_method in runs.items():
        parts[part] = {}
        for method, values in by_method.items():
            found: dict[str, Any] = {"seconds": summary(values)}
            found["tokens_per_second"] = tokens.get(part, batch * arguments.steps) / max(
                summary(values)["median"], 1e-9
            )
            if method != BASE:
                found["overhead"] = overhead(values, by_method[BASE])
            parts[part][method] = found
    cell = {"text": kind, "mode": mode, "batch": batch, "prompt": length, "read": read, "parts": parts}
    return cell | ({"peak_bytes": peaks} if peaks else {})


def measure_shape(shape: str, arguments: argparse.Namespace, results: dict[str, Any], save: Any) -> None:
    """Everything about one shape, written into `results` cell by cell."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    base, tokenizer = made_base(shape, arguments.seed, device)
    made = subjects(base, tokenizer, arguments.seed, arguments.adapter if shape == TINY else None)
    entry: dict[str, Any] = {
        "parameters": base.num_parameters(),
        "bytes": sum(x.nbytes for x in base.parameters()),
        "memory": {s.method: checked_memory(s, base) | record_bytes(s, tokenizer) for s in made},
        "checks": {s.method: checked(s, base, tokenizer) for s in made if s.calculators},
        "decoding_step": steps_of(made, tokenizer) if device.type == "cpu" else None,
        "cells": [],
    }
    results["shapes"][shape] = entry
    cells = []
    for cell in itertools.product(arguments.modes, arguments.prompts, arguments.batches):
        reason = left_out(base, *cell, arguments)
        if reason is None:
            cells.append(cell)
        else:
            where = dict(zip(("mode", "prompt", "batch"), cell, strict=True))
            results["left_out"].append({"shape": shape, **where, "reason": reason})
    progress = Progress(len(cells) * len(TEXTS), every=0.0)
    for cell, kind in itertools.product(cells, TEXTS):
        entry["cells"].append(measured(made, tokenizer, kind, *cell, arguments))
        progress.step(f"{shape}, {', '.join(map(str, cell))}, {kind}")
        save()


def steps_of(made: list[Subject], tokenizer: Any) -> dict[str, Any]:
    """The operators of a decoding step, by text and method."""
    device = next(made[0].model.parameters()).device
    fed = fed_tokens(tokenizer, 1, 4, device)
    found: dict[str, Any] = {}
    for kind in TEXTS:
        ids = text_of(tokenizer, kind, 1, LOOKED_AT).to(device)
        for subject in made:
            with subject.told(OPERATIONS[kind]):
                found.setdefault(kind, {})[subject.method] = operators(subject, ids, fed)
    return found


# ---------------------------------------------------------------------------------------------- what comes out
def table(results: dict[str, Any]) -> str:
    """Overheads in per cent, median with quartiles, a line per cell, part and method."""
    lines = [f"{'shape, mode, batch x prompt, text':<46}{'part':<20}{'method':<18}{'overhead':>8}  quartiles"]
    for shape, entry in results["shapes"].items():
        for cell in entry["cells"]:
            where = f"{shape}, {cell['mode']}, {cell['batch']} x {cell['prompt']}, {cell['text']}"
            for part, methods in cell["parts"].items():
                for method, found in methods.items():
                    if method != BASE:
                        cost = {key: 100 * found["overhead"][key] for key in ("median", "low", "high")}
                        shown = f"{cost['median']:>7.1f}%  {cost['low']:.1f} to {cost['high']:.1f}"
                        more = cell["read"][method]["in_generated_text"]
                        if more and part in (GENERATE, LATER):
                            shown += f"  with {more} steps in generated text"
                        lines.append(f"{where:<46}{part:<20}{method:<18}{shown}")
    return "\n".join(lines)


def draw(results: dict[str, Any], path: Path) -> None:
    """Overheads of prefill and decoding, median and quartiles; a panel per shape and text, a bar per method."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shapes = [shape for shape, entry in results["shapes"].items() if entry["cells"]]
    figure = Figure(figsize=(11, 3.2 * len(shapes) * len(TEXTS)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(shapes) * len(TEXTS), 1, squeeze=False)[:, 0]
    for axes, (shape, text) in zip(panels, ((s, t) for s in shapes for t in TEXTS), strict=True):
        cells = [cell for cell in results["shapes"][shape]["cells"] if cell["text"] == text]
        bars = [(cell, part) for part in (PREFILL, DECODE) for cell in cells if part in cell["parts"]]
        methods = [method for method in bars[0][0]["parts"][bars[0][1]] if method != BASE]
        for number, method in enumerate(methods):
            costs = [cell["parts"][part][method]["overhead"] for cell, part in bars]
            middle = [100 * cost["median"] for cost in costs]
            spread = [[100 * abs(cost[end] - cost["median"]) for cost in costs] for end in ("low", "high")]
            places = [bar + (number - (len(methods) - 1) / 2) * 0.8 / len(methods) for bar in range(len(bars))]
            axes.bar(places, middle, 0.8 / len(methods), yerr=spread, label=method.replace("_", " "))
        names = [f"{part}\n{cell['mode']}\n{cell['batch']} x {cell['prompt']}" for cell, part in bars]
        axes.set_xticks(range(len(bars)), names, fontsize=7)
        axes.set_ylabel("longer than the base (%)")
        axes.set_title(f"{shape}, {'with a calculation' if text == CALCULATION else 'without arithmetic'}")
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=120)


def parsed(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--figure", type=Path, metavar="FILE")
    parser.add_argument("--shapes", nargs="+", default=[*SHAPES], choices=[*SHAPES])
    parser.add_argument("--modes", nargs="+", default=[*MODES], choices=[*MODES])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 64], metavar="B")
    parser.add_argument("--prompts", type=int, nargs="+", default=[16, 128, 1024], metavar="T")
    parser.add_argument("--steps", type=int, default=32, help="tokens that are decoded (default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=15, help="at most (default: %(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=3.0, help="of a cell; at least 3 repetitions (default: %(default)s)"
    )
    parser.add_argument(
        "--most-tokens", type=int, default=1024, help="batch times prompt, on a CPU (default: %(default)s)"
    )
    parser.add_argument("--adapter", type=Path, metavar="DIR", help="a trained one for the embedded base")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random weights")
    return parser.parse_args(given)


def main() -> None:
    """Measures all shapes, and writes results after each cell."""
    arguments = parsed()
    settings = {key: value for key, value in vars(arguments).items() if key not in NOT_SETTINGS}
    settings |= {"trained_adapter": arguments.adapter is not None, "config_of_shapes": SHAPES}
    results: dict[str, Any] = {**facts(), "settings": settings, "shapes": {}, "left_out": []}

    def save() -> None:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    for shape in arguments.shapes:
        reason = missing(shape)
        if reason is None:
            measure_shape(shape, arguments, results, save)
        else:
            results["left_out"].append({"shape": shape, "reason": reason})
            print(f"{shape} is left out: {reason}", flush=True)
        save()
    print(table(results))
    if arguments.figure is not None and any(entry["cells"] for entry in results["shapes"].values()):
        draw(results, arguments.figure)


if __name__ == "__main__":
    main()
