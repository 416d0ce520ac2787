"""What IGC costs on a GPU: decoding, prefill and the reading, beside the base and LoRA of equal size.

Models of one shape on one set of weights. A KV cache of random keys and values replaces a text of each length, and
the adapters have read all of it; so no time goes into prefills of long texts, and every method has the same tensors.
What is compared takes turns. `base_again` is the base once more and shows the noise.

Parts:

* `decode`: a run of tokens, `silent` (anchors by token sequences, of which none comes) or after a step with a
  `result`, as a CUDA graph on a static cache; without a GPU the same pass is eager. Each token is read on the host, as
  every loop does that ends at a special token. The time of `choose_graph` before each token is in IGC's; `_unasked`
  does without it.
* `prefill`: a prompt of 1,024 tokens without an anchor, with one after words (`plain`), and with one after a
  calculation; the differences to the base in milliseconds, and the kernels that a pass starts.

Before anything is timed, the logits of a graph are compared with those of an eager pass.

    python -m benchmarks.cost.gpu --output benchmarks/results/gpu.json
"""

from __future__ import annotations

import argparse
import copy
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch.profiler import ProfilerActivity, profile
from transformers import StaticCache

from benchmarks.common.measuring import Progress, alternating, command, facts, overhead, seconds, summary, write
from benchmarks.common.shapes import (
    DEMO_SIZES,
    LARGEST,
    SHAPES,
    RandomConfig,
    adapter_memory,
    lora_rank,
    made_base,
    missing,
    twin,
)
from peft_igc import choose_graph
from peft_igc.numbers.calculator import Status
from peft_igc.text.spelling import Row
from peft_igc.tuner.state.cache import states_of
from peft_igc.tuner.state.text_state import Steps
from peft_igc.tuner.state.told import begun


BASE, AGAIN, LORA, HIDDEN, IGC = "base", "base_again", "lora", "igc_hidden", "igc_tokens_512"
SMALL, UNASKED = "igc_tokens_128", "igc_tokens_128_unasked"
SILENT, RESULT = STATES = ("silent", "result")
PROMPT = 1024
TOKENS = 16  # decoded in a repetition
TOKEN = 1406  # the word " and" of the embedded vocabulary
CALCULATION = " 12 + 5 ="


@dataclass
class Method:
    """A model and what its adapter adds."""

    name: str
    model: Any
    reads: bool = False
    memory: dict[str, int] = field(default_factory=dict)

    @property
    def inner(self) -> Any:
        """The causal LM, without PEFT around it."""
        return self.model.get_base_model() if isinstance(self.model, PeftModel) else self.model


def filled_cache(model: Any, length: int, room: int, rows: int) -> Any:
    """A static KV cache of random keys and values for texts of `length` tokens, with room for some more."""
    config, weight = model.config, next(model.parameters())
    shape = (rows, config.num_key_value_heads, length, config.hidden_size // config.num_attention_heads)
    cache = StaticCache(config=config, max_cache_len=length + room)
    for layer in range(config.num_hidden_layers):
        keys, values = (0.1 * torch.randn(shape, dtype=weight.dtype, device=weight.device) for _ in range(2))
        cache.update(keys, values, layer)
    return cache


def read_all(model: Any, cache: Any, length: int, case: str) -> Any:
    """The states on a cache, with that of the whole text; in the case `result` with a step at its end."""
    layer = next(m for m in model.modules() if hasattr(m, "igc_config"))
    adapter = layer.adapter("default")
    rows, device = len(cache.layers[0].keys), cache.layers[0].keys.device
    with torch.no_grad():
        model(input_ids=torch.full((rows, 1), TOKEN, device=device), past_key_values=cache)  # makes the state
    states = states_of(cache, layer.layer_index)
    state = states.get("default")
    features = torch.randn(rows, length, adapter.config.reading_dim, dtype=torch.bfloat16, device=device)
    ids = torch.full((rows, length), TOKEN, device=device)
    state.room.write(torch.arange(length, device=device), ids, features)
    state = state.changed(length=length, real=torch.full((rows,), length, device=device))
    if case == RESULT:
        at = torch.full((rows, 1), length - 1, device=device)
        steps = Steps.silent(at, torch.ones_like(at), adapter.config.result_digits)
        steps.digits[..., :3] = 7
        steps = steps._replace(ranks=at + 1, status=torch.full_like(at, int(Status.OK)))
        known = () if adapter.style is None else begun((Row(),) * rows, adapter.style, steps, True)
        state = state.changed(steps=steps, write_from=length - 1, rows=known)
    states.set("default", state)
    return states


def told_to(states: Any) -> list[torch.Tensor]:
    """The tensors that a graph of the planned pass reads."""
    told = states.plan.told
    return [] if told is None else [told.active, *told.arguments]


def made_methods(base: Any, tokenizer: Any, names: list[str]) -> list[Method]:
    """The base, and adapters with random weights on copies of it that share its tensors."""
    width = min(512, base.config.hidden_size)
    sizes: dict[str, dict[str, Any]] = {
        IGC: {"interface": "tokens", "reading_dim": width},
        SMALL: {"interface": "tokens", **DEMO_SIZES},
        HIDDEN: {"interface": "hidden", "reading_dim": width, "writing_dim": width},
    }
    made = {BASE: Method(BASE, base), AGAIN: Method(AGAIN, base)}
    for name, fields in sizes.items():
        config = RandomConfig.from_tokenizer(tokenizer, anchors=["="], **fields)
        model = get_peft_model(twin(base), config)
        made[name] = Method(name, model, True, adapter_memory(model, base))
    rank = lora_rank(base, made[IGC].memory["parameters"])
    model = get_peft_model(twin(base), LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))
    made[UNASKED] = Method(UNASKED, made[SMALL].model, True, made[SMALL].memory)
    made[LORA] = Method(LORA, model, memory=adapter_memory(model, base))
    for method in made.values():
        method.model.eval().requires_grad_(False)
    return [made[name] for name in names]


def shared_copy(cache: Any) -> Any:
    """A cache with the same keys and values in the same memory, and a length of its own."""
    made = copy.copy(cache)
    made.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in made.layers:
        if hasattr(layer, "cumulative_length"):
            layer.cumulative_length = layer.cumulative_length.clone()
            torch._dynamo.mark_static_address(layer.cumulative_length)  # or it could be in no CUDA graph
    return made


class Decoding:
    """Decodes `TOKENS` tokens after a text in a cache, again and again.

    Args:
        method: the model.
        cache: of the text.
        state: `SILENT` or `RESULT`.
        captured: whether the pass is recorded as a CUDA graph.
        length: of the text.
    """

    def __init__(self, method: Method, cache: Any, state: str, captured: bool, length: int) -> None:
        self.method, self.cache, self.length = method, cache, length
        self.states = read_all(method.model, cache, length, state) if method.reads else None
        self.text = None if self.states is None else self.states.get("default")
        self.told: list[torch.Tensor] = []  # where the graph reads what continues a result
        keys = cache.layers[0].keys
        self.token = torch.full((len(keys), 1), TOKEN, device=keys.device)
        self.back()
        self.graph: Any = None
        self.logits = torch.empty(0)
        self.step: Callable[[], torch.Tensor] = self._step
        if captured:
            self._capture()

    def back(self) -> None:
        """Sets the cache back to the text."""
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(self.length)
        if self.states is not None:
            self.states.set("default", self.text)

    def _step(self) -> torch.Tensor:
        """An eager pass."""
        return self.method.inner(input_ids=self.token, past_key_values=self.cache, logits_to_keep=1).logits

    @property
    def _asks(self) -> bool:
        """Whether the host says what a graph writes."""
        return self.states is not None and not (self.graph and self.method.name == UNASKED)

    def _choose(self) -> None:
        """Chooses the graph of the next pass."""
        if self._asks:
            choose_graph(self.method.inner, self.token, self.cache)
            for kept, new in zip(self.told, told_to(self.states), strict=False):
                kept.copy_(new)

    def _capture(self) -> None:
        """Records a pass as a CUDA graph."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._choose()
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        self.back()
        self._choose()
        self.told = [] if self.states is None else told_to(self.states)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = self._step()
        self.back()

        def replayed() -> torch.Tensor:
            self.graph.replay()
            if self._asks:
                self.states.plan.ran = True  # as an eager pass says it
            return self.logits

        self.step = replayed

    @torch.no_grad()
    def first(self) -> torch.Tensor:
        """The logits [B, V] of one pass."""
        self._choose()
        logits = self.step()[:, -1].clone()
        self.back()
        return logits

    @torch.no_grad()
    def __call__(self) -> dict[str, float]:
        """Seconds of a token."""
        whole = seconds(self._run, self.token.device)
        self.back()
        return {"token": whole / TOKENS}

    def _run(self) -> None:
        for _ in range(TOKENS):
            self._choose()
            self.step()[:, -1].argmax(-1).tolist()


def check_logits(found: torch.Tensor, wanted: torch.Tensor, name: str) -> float:
    """The largest difference of logits; `SystemExit` if it is more than another order of sums in bfloat16 explains.

    Args:
        found, wanted: [B, V].
        name: of the method, for the message.
    """
    difference = float((found.float() - wanted.float()).abs().max())
    if not difference <= 0.05 * float(wanted.abs().max()):
        raise SystemExit(f"{name}: the logits differ by {difference:.2e} from those of an eager pass.")
    return difference


@torch.no_grad()
def decode_cell(methods: list[Method], state: str, length: int, rows: int, rounds: int) -> dict[str, Any]:
    """One cell: milliseconds of a token by method."""
    base = methods[0].model
    cuda = base.device.type == "cuda"
    text = filled_cache(base, length, 4 * TOKENS, rows)
    made = {m.name: Decoding(m, shared_copy(text), state, cuda, length) for m in methods}
    checks = {}
    if cuda:
        for method in methods:
            eager = Decoding(method, shared_copy(text), state, False, length)
            checks[method.name] = check_logits(made[method.name].first(), eager.first(), method.name)
        torch.cuda.reset_peak_memory_stats()
    found = alternating(made, rounds)["token"]
    mode = "graph" if cuda else "eager"
    cell: dict[str, Any] = {"part": "decode", "mode": mode, "state": state, "length": length, "rows": rows}
    cell |= {"milliseconds": {name: summary([1e3 * x for x in values]) for name, values in found.items()}}
    cell |= {"overhead": {name: overhead(x, found[BASE]) for name, x in found.items() if name != BASE}}
    cell |= {"logits_differ_by": checks, "peak_bytes": torch.cuda.max_memory_allocated() if cuda else None}
    return cell


def prompt(tokenizer: Any, end: str, rows: int, device: torch.device, length: int) -> torch.Tensor:
    """[rows, length] ids of words that end in a text."""
    ids = tokenizer(end, add_special_tokens=False)["input_ids"] if end else []
    return torch.tensor([[TOKEN] * (length - len(ids)) + ids] * rows, device=device)


def kernels(model: Any, ids: torch.Tensor) -> int:
    """Kernels that a pass starts; on a CPU its operators."""
    cuda = ids.device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as seen:
        model(input_ids=ids, use_cache=True, logits_to_keep=1)
    wanted = "LaunchKernel" if cuda else "aten::"
    return sum(event.count for event in seen.key_averages() if wanted in event.key)


@torch.no_grad()
def prefill_cell(methods: list[Method], tokenizer: Any, end: str, rows: int, rounds: int, length: int) -> Any:
    """One cell: milliseconds of a prompt by method, and the kernels that it starts."""
    device = methods[0].model.device
    ids = prompt(tokenizer, end, rows, device, length)

    def timed(model: Any) -> Callable[[], dict[str, float]]:
        return lambda: {
            "prompt": seconds(lambda: model(input_ids=ids, use_cache=True, logits_to_keep=1), device),
        }

    found = alternating({m.name: timed(m.model) for m in methods}, rounds)["prompt"]
    return {
        "part": "prefill",
        "end": end,
        "length": length,
        "rows": rows,
        "milliseconds": {name: summary([1e3 * x for x in values]) for name, values in found.items()},
        "overhead": {name: overhead(x, found[BASE]) for name, x in found.items() if name != BASE},
        "kernels": {m.name: kernels(m.model, ids) for m in methods},
    }


def line(cell: dict[str, Any]) -> str:
    """A cell as one line: the base's milliseconds, and the overheads of the others in per cent."""
    over = ", ".join(f"{name} {100 * found['median']:+.1f}%" for name, found in cell["overhead"].items())
    where = ", ".join(str(cell[key]) for key in ("part", "mode", "state", "end", "length", "rows") if key in cell)
    return f"{where}: base {cell['milliseconds'][BASE]['median']:.2f} ms; {over}"


def left_out(length: int, rows: int, base: Any) -> str | None:
    """Why a decoding cell is not measured; None if it is."""
    if base.device.type != "cuda":
        return None
    config = base.config
    heads = config.num_key_value_heads * (config.hidden_size // config.num_attention_heads)
    needed = 2 * config.num_hidden_layers * heads * base.dtype.itemsize * rows * length + 2**31
    free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return f"{needed / 2**30:.0f} GiB are needed, {free / 2**30:.0f} are free" if needed > free else None


def parsed(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = command(__doc__)
    parser.add_argument("--shape", default=LARGEST, choices=[*SHAPES])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 8192], metavar="L")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 64], metavar="B")
    parser.add_argument("--prompt", type=int, default=PROMPT, help="tokens of a prefill (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="that count (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="no cell begins after them")
    parser.add_argument("--seed", type=int, default=0, help="of random weights (default: %(default)s)")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> None:
    """Measures all cells and writes the results after each."""
    arguments = parsed(given)
    reason = missing(arguments.shape)
    if reason:
        raise SystemExit(f"`--shape {arguments.shape}` cannot be measured: {reason}.")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    base, tokenizer = made_base(arguments.shape, arguments.seed, device)
    base.config.max_position_embeddings = 2 * max(arguments.lengths)
    methods = made_methods(base, tokenizer, [BASE, AGAIN, LORA, HIDDEN, IGC, SMALL, UNASKED])
    settings = vars(arguments) | {"output": arguments.output.name}
    results: dict[str, Any] = {**facts(), "settings": settings, "cells": [], "left_out": []}
    results["memory"] = {method.name: method.memory for method in methods}
    cells: list[tuple[dict[str, Any], Callable[[], dict[str, Any]]]] = []
    for length, rows, state in itertools.product(arguments.lengths, arguments.rows, STATES):
        more = (methods, state, length, rows, arguments.rounds)
        cells.append(({"length": length, "rows": rows}, lambda more=more: decode_cell(*more)))
    for end, rows in itertools.product(("", " and so on =", CALCULATION), arguments.rows[:2]):
        more = (methods, tokenizer, end, rows, arguments.rounds, arguments.prompt)
        cells.append(({"part": "prefill", "end": end}, lambda more=more: prefill_cell(*more)))
    progress, begun = Progress(len(cells), every=0.0), time.monotonic()
    for where, measure in cells:
        late = time.monotonic() - begun > arguments.seconds
        reason = "no time" if late else left_out(**where, base=base) if "length" in where else None
        if reason:
            results["left_out"].append({**where, "reason": reason})
            print(f"left out: {where}: {reason}", flush=True)
        else:
            results["cells"].append(measure())
            print(line(results["cells"][-1]), flush=True)
        progress.step(str(where))
        write(arguments.output, results)


if __name__ == "__main__":
    main()
