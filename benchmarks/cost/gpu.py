"""What IGC costs on a GPU: decoding and prefill, compared with the base and a LoRA of equal size.

Models of one shape on one set of weights, on the KV cache of a text that the calculator has read, so that every
method has the same tensors. What is compared takes turns.

Parts:

* `decode`: a run of tokens, `silent` (anchors by token sequences, of which none comes) or after a step with a
  `result`, as a CUDA graph on a static cache; without a GPU the same pass is eager. Each token is read on the host, as
  every loop does that ends at a special token. The time of `choose_graph` before each token is in IGC's. Before
  anything is timed, the logits of a graph are compared with those of an eager pass.
* `prefill`: a prompt without an anchor, with one after words, and with one after a calculation.

    python -m benchmarks.cost.gpu --output build/gpu.json
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from peft import PeftModel
from transformers import StaticCache

from benchmarks.common.measuring import alternating, command, facts, overhead, seconds, summary, write
from benchmarks.common.shapes import BASE, LARGEST, SHAPES, SMALL, made_base, missing, shallow_copy, subjects
from peft_igc import choose_graph
from peft_igc.numbers.calculator import Status
from peft_igc.tuner.hooks.wrapper import active_layer
from peft_igc.tuner.state.cache import states_of


IGC = "igc_tokens"
SILENT, RESULT = STATES = ("silent", "result")
TOKENS = 16  # decoded in a repetition
TOKEN = 1406  # the word " and" of the embedded vocabulary
CALCULATION = " 12 + 5 ="
ENDS = ("", " and so on =", CALCULATION)  # of a prompt


def told_to(states: Any) -> list[torch.Tensor]:
    """The tensors that a graph of the planned pass reads."""
    told = states.plan.told
    return [] if told is None else [told.active, *told.arguments]


def shared_copy(cache: Any) -> Any:
    """A cache with the same keys and values in the same memory, and a length of its own."""
    made = shallow_copy(cache)
    for layer in made.layers:
        if hasattr(layer, "cumulative_length"):
            layer.cumulative_length = layer.cumulative_length.clone()
            torch._dynamo.mark_static_address(layer.cumulative_length)  # or it could be in no CUDA graph
    return made


class Decoding:
    """Decodes `TOKENS` tokens after a text of `length` tokens in a cache, again and again; if `captured`, as a CUDA
    graph."""

    def __init__(self, model: Any, cache: Any, captured: bool, length: int) -> None:
        self.inner = model.get_base_model() if isinstance(model, PeftModel) else model
        self.cache, self.length = cache, length
        reads = any(hasattr(module, "igc_config") for module in model.modules())
        self.states = states_of(cache, active_layer(model)[0].layer_index) if reads else None
        self.text = None if self.states is None else self.states.get("default")
        self.told: list[torch.Tensor] = []  # where the graph reads what continues a result
        keys = cache.layers[0].keys
        self.token = torch.full((len(keys), 1), TOKEN, device=keys.device)
        self.back()
        self.graph: Any = None
        if captured:
            self._capture()

    def back(self) -> None:
        """Sets the cache back to the text."""
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(self.length)
        if self.states is not None:
            self.states.set("default", self.text)

    def _step(self) -> torch.Tensor:
        """The logits of a pass, which is eager until its graph is there."""
        if self.graph is None:
            return self.inner(input_ids=self.token, past_key_values=self.cache, logits_to_keep=1).logits
        self.graph.replay()
        if self.states is not None:
            self.states.plan.ran = True  # as an eager pass says it
        return self.logits

    def _choose(self) -> None:
        """Chooses the graph of the next pass."""
        if self.states is not None:
            choose_graph(self.inner, self.token, self.cache)
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
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.logits = self._step()
        self.back()
        self.graph = graph

    @torch.no_grad()
    def first(self) -> torch.Tensor:
        """The logits [B, V] of one pass."""
        self._choose()
        logits = self._step()[:, -1].clone()
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
            self._step()[:, -1].argmax(-1).tolist()


def prompt(tokenizer: Any, end: str, rows: int, device: torch.device, length: int) -> torch.Tensor:
    """[rows, length] ids of words that end in a text."""
    ids = tokenizer(end, add_special_tokens=False)["input_ids"] if end else []
    return torch.tensor([[TOKEN] * (length - len(ids)) + ids] * rows, device=device)


def check_logits(found: torch.Tensor, wanted: torch.Tensor, name: str) -> None:
    """Ends the command if logits [B, V] differ by more than another order of sums in bfloat16 explains."""
    difference = float((found.float() - wanted.float()).abs().max())
    if not difference <= 0.05 * float(wanted.abs().max()):
        raise SystemExit(f"{name}: the logits differ by {difference:.2e} from those of an eager pass.")


def told_of(found: dict[str, list[float]]) -> dict[str, Any]:
    """Milliseconds by method, and what they are more than the base's in the same round."""
    return {
        "milliseconds": {name: summary([1e3 * x for x in values]) for name, values in found.items()},
        "overhead": {name: overhead(x, found[BASE]) for name, x in found.items() if name != BASE},
    }


@torch.no_grad()
def decode_cell(models: dict[str, Any], state: str, ids: torch.Tensor, rounds: int) -> dict[str, Any]:
    """Milliseconds of a token after a text [B, T] by method."""
    (rows, length), cuda = ids.shape, ids.is_cuda
    text = StaticCache(config=models[BASE].config, max_cache_len=length + 4 * TOKENS)
    models[IGC](input_ids=ids, past_key_values=text, logits_to_keep=1)
    made = {name: Decoding(one, shared_copy(text), cuda, length) for name, one in models.items()}
    status = made[IGC].text.steps.status
    if bool(status.numel() and (status == Status.OK).all()) != (state == RESULT):
        raise SystemExit(f"The text of the state {state} is not read as one.")
    for name, model in models.items() if cuda else ():
        check_logits(made[name].first(), Decoding(model, shared_copy(text), False, length).first(), name)
    mode = "graph" if cuda else "eager"
    cell = {"part": "decode", "mode": mode, "state": state, "length": length, "rows": rows}
    return cell | told_of(alternating(made, rounds)["token"])


@torch.no_grad()
def prefill_cell(models: dict[str, Any], ids: torch.Tensor, rounds: int) -> dict[str, Any]:
    """Milliseconds of a prompt [B, T] by method."""
    runs = {name: partial(one, input_ids=ids, use_cache=True, logits_to_keep=1) for name, one in models.items()}
    timed = {name: lambda run=run: {"": seconds(run, ids.device)} for name, run in runs.items()}
    found = alternating(timed, rounds)[""]
    return {"part": "prefill", "length": ids.shape[1], "rows": len(ids)} | told_of(found)


def main() -> None:
    """Measures all cells and writes the results after each."""
    parser = command(__doc__)
    parser.add_argument("--shape", default=LARGEST, choices=[*SHAPES])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 8192], metavar="L")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8], metavar="B")
    parser.add_argument("--prompt", type=int, default=1024, help="tokens of a prefill (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="that count (default: %(default)s)")
    arguments = parser.parse_args()
    if reason := missing(arguments.shape):
        raise SystemExit(f"`--shape {arguments.shape}` cannot be measured: {reason}.")
    base, tokenizer = made_base(arguments.shape, 0, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    base.config.max_position_embeddings = 2 * max(arguments.lengths)
    found = subjects(base, tokenizer, 0, ("tokens",), ["="])
    models = {one.method: one.model for one in found if one.method != SMALL}
    results: dict[str, Any] = {**facts(), "settings": vars(arguments) | {"output": arguments.output.name}, "cells": []}
    cells: list[Callable[[], dict[str, Any]]] = []
    for length, rows, state in itertools.product(arguments.lengths, arguments.rows, STATES):
        ids = prompt(tokenizer, CALCULATION if state == RESULT else "", rows, base.device, length)
        cells.append(lambda state=state, ids=ids: decode_cell(models, state, ids, arguments.rounds))
    for end, rows in itertools.product(ENDS, arguments.rows):
        ids = prompt(tokenizer, end, rows, base.device, arguments.prompt)
        cells.append(lambda end=end, ids=ids: {"end": end} | prefill_cell(models, ids, arguments.rounds))
    for measure in cells:
        results["cells"].append(measure())
        cell = results["cells"][-1]
        where = {key: value for key, value in cell.items() if key not in ("milliseconds", "overhead")}
        over = {name: f"{100 * found['median']:+.1f}%" for name, found in cell["overhead"].items()}
        print(f"{where}: base {cell['milliseconds'][BASE]['median']:.2f} ms; {over}", flush=True)
        write(arguments.output, results)


if __name__ == "__main__":
    main()
