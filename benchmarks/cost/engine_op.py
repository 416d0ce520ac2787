"""What the calculator of `peft_igc.engines.vllm` adds to a decoding step on a GPU.

A pass runs as vLLM runs it with piecewise CUDA graphs: the layers up to the calculator's are one graph, the operator
is eager on paged records, and the rest is a second graph. The base is the same graphs without the operator, in turn
with it, on a KV cache of random keys and values. Without a GPU both pieces are eager.

Texts are `silent` (words), or end in a calculation whose result is told to each token. The host waits for each token,
or (`late`) for the one before, as vLLM does with asynchronous scheduling. Where vLLM is not installed, an empty class
is the stand-in of the names that the calculator imports of it.

Of the texts of a cell, `written` are those whose hidden state the calculator changes, `changed` those whose logits
then differ from the base's, and `base_changed` those whose logits differ between two runs of the base. So a silent
text that is `written` is the calculator's fault; one that is `changed` without it is that of the graphs, or of the
GPU's sums if there are `base_changed`.

    python -m benchmarks.cost.engine_op --output build/engine_op.json
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import itertools
import sys
from types import SimpleNamespace
from typing import Any

import torch
from peft import get_peft_model

from benchmarks.common.measuring import alternating, command, facts, overhead, seconds, summary, write
from benchmarks.common.shapes import DEMO_SIZES, LARGEST, SHAPES, RandomConfig, filled_cache, made_base, missing, twin
from benchmarks.cost.gpu import CALCULATION, RESULT, SILENT, TOKEN, TOKENS, prompt
from peft_igc.tuner.adapter import Adapter


PATHS = "forward_context model_executor.layers.attention_layer_base v1.attention.backend v1.core v1.kv_cache_interface"
NAMES = (
    "get_forward_context AttentionLayerBase AttentionBackend AttentionMetadataBuilder HiddenStateCacheSpec "
    "kv_cache_utils FullAttentionSpec MLAAttentionSpec UniformTypeKVCacheSpecs"
)
EMPTY = type("Empty", (), {"__init__": lambda *_: None, "__class_getitem__": lambda cls, _: cls})
LAYER, BLOCK, ROOM = "igc", 16, 4 * TOKENS  # the layer of the records; tokens of a block, and after a text
TARGETS = {SILENT: 0.003, RESULT: 0.02}  # of the base's time
KINDS = {"base": (False, False), "with": (True, False), "base_late": (False, True), "with_late": (True, True)}


class Step:
    """A decoding step after texts `ids` [B, L], with and without the calculator of an `IGCLayer`."""

    def __init__(self, base: Any, layer: Any, ids: torch.Tensor) -> None:
        (rows, self.length), self.base, self.asks = ids.shape, twin(base), False
        self.kept: list[torch.Tensor] | None = None
        self.token = torch.full((rows, 1), TOKEN, device=ids.device)
        blocks = -(-(self.length + ROOM) // BLOCK)  # of a text, from block 1 on: block 0 belongs to none
        self.table = 1 + torch.arange(rows * blocks, device=ids.device, dtype=torch.int32).view(rows, blocks)
        self.first, self.lengths = self.table[:, 0].long() * BLOCK, torch.full_like(self.table[:, 0], self.length)
        self._make_calculator(layer)
        shape = (ids.numel(), base.config.hidden_size)
        self.hidden = self.embedded = 0.1 * torch.randn(shape, device=ids.device).to(base.dtype)
        self._begin(ids, (self.first[:, None] + torch.arange(self.length, device=ids.device)).flatten())
        self._act()
        self.slots, self.starts = self.first.clone(), self._starts(1)
        self.cache = filled_cache(base, self.length, ROOM, rows)
        layers = self.base.model.layers
        layers[0].register_forward_pre_hook(lambda _, given: setattr(self, "embedded", given[0].flatten(0, 1)))
        layers[layer.layer_index].register_forward_hook(self._split)
        self.graphs = self._captured() if ids.is_cuda else []

    def _starts(self, new: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Of each text in a pass with `new` tokens of each: on the host and on the device."""
        found = new * torch.arange(len(self.table) + 1, dtype=torch.int32)
        return found, found.to(self.token.device)

    def _make_calculator(self, layer: Any) -> None:
        if importlib.util.find_spec("vllm") is None:
            stand_in: Any = SimpleNamespace(**dict.fromkeys(NAMES.split(), EMPTY))
            sys.modules.update({f"vllm.{path}": stand_in for path in PATHS.split()})
        module, records = (importlib.import_module(f"peft_igc.engines.vllm.{x}") for x in ("calculator", "records"))
        module.get_forward_context = lambda: SimpleNamespace(attn_metadata={LAYER: self.metadata})
        reader, writer = (mappings["default"] for mappings in (layer.igc_input_mapping, layer.igc_output_mapping))
        adapter = Adapter("default", "", layer.igc_config["default"], reader, writer, None)
        kept = records.RecordLayer(adapter.config.reading_dim, torch.bfloat16)
        size, device = (1 + self.table.numel(), 1, BLOCK, kept.size), self.token.device
        kept.bind_kv_cache(torch.zeros(size, dtype=torch.uint8, device=device))
        self.builder = kept.get_attn_backend().get_builder_cls()(None, [LAYER], None, device)
        many = SimpleNamespace(max_num_seqs=2**20)  # so that the texts before the repetitions are not forgotten
        engine = SimpleNamespace(kv_transfer_config=None, speculative_config=None, scheduler_config=many)
        model = SimpleNamespace(embed_input_ids=self.base.get_input_embeddings())
        self.calculator, self.to_host = module.Calculator(adapter, kept, LAYER, model, engine), records.to_host
        self.starts = self._starts(self.length)

    def _begin(self, ids: torch.Tensor, slots: torch.Tensor) -> None:
        told = {"query_start_loc_cpu": self.starts[0], "query_start_loc": self.starts[1], "seq_lens": self.lengths}
        told |= {"num_reqs": len(ids), "block_table_tensor": self.table, "slot_mapping": slots}
        self.metadata = self.builder.build(0, SimpleNamespace(**told))
        self.calculator.begin(None, (), {"input_ids": ids.flatten()})

    def _act(self) -> None:
        before = None if self.kept is None else self.hidden.clone()
        self.calculator.take(self.embedded, None)
        self.calculator.act(self.hidden, None)
        if before is not None:
            self.written |= (self.hidden != before).any(-1)

    def _split(self, module: Any, args: Any, output: torch.Tensor) -> None:
        """After the calculator's layer: in a capture the second graph begins, in an eager pass the operator runs."""
        self.hidden = output.flatten(0, 1)
        if output.is_cuda and torch.cuda.is_current_stream_capturing():
            self.pieces[0].capture_end()
            self.pieces[1].capture_begin(pool=self.pieces[0].pool())
        elif self.asks:
            self._act()

    def _forward(self) -> None:
        self.logits = self.base(input_ids=self.token, past_key_values=self.cache, logits_to_keep=1).logits[:, -1]
        self.lengths.add_(1)
        self.slots.add_(1)

    def _captured(self) -> list[Any]:
        """Both graphs, in one memory pool, as the second reads the results of the first."""
        self.pieces = [torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()]
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(2):
                self._forward()
            gc.collect()  # what is freed within a capture may break it
            torch.cuda.synchronize()
            self.pieces[0].capture_begin()
            self._forward()
            self.pieces[1].capture_end()
        torch.cuda.synchronize()
        return self.pieces

    def _decode(self, late: bool) -> None:
        before: Any = None
        for _ in range(TOKENS):
            if self.asks:
                self._begin(self.token, self.slots)
            if self.graphs:
                self.graphs[0].replay()
                if self.asks:
                    self._act()
                self.graphs[1].replay()
            else:
                self._forward()
            if self.kept is not None:
                self.kept.append(self.logits.clone())
            token = self.to_host(self.logits.argmax(-1))[1]
            if (arrived := before if late else token) is not None:
                arrived.synchronize()
            before = token

    def measured(self, asks: bool, late: bool) -> dict[str, float]:
        """Seconds of a token."""
        self.asks = asks
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(self.length)
        self.lengths.fill_(self.length + 1)  # with the token of the pass
        self.slots.copy_(self.first + self.length)
        return {"token": seconds(lambda: self._decode(late), self.token.device) / TOKENS}

    def logits_of(self, asks: bool) -> torch.Tensor:
        """[T, B, V] of all tokens, and in `written` [B] whether the calculator changed a hidden state."""
        self.kept, self.written = [], torch.zeros_like(self.lengths, dtype=torch.bool)
        self.measured(asks, False)
        logits, self.kept = torch.stack(self.kept), None
        return logits


def cell(step: Step, state: str, rounds: int) -> dict[str, Any]:
    """Milliseconds of a token, the part that the calculator adds, and numbers of texts that differ."""
    timed = {name: lambda kind=kind: step.measured(*kind) for name, kind in KINDS.items()}
    found = alternating(timed, rounds)["token"]
    base, again, asked = (step.logits_of(asks) for asks in (False, False, True))
    added = {end: overhead(found["with" + end], found["base" + end]) for end in ("", "_late")}
    return {
        "state": state,
        "rows": base.shape[1],
        "written": int(step.written.sum()),
        "changed": _different(base, asked),
        "base_changed": _different(base, again),
        "target": TARGETS[state],
        "overhead": {"at once": added[""], "late": added["_late"]},
        "milliseconds": {name: summary([1e3 * x for x in values]) for name, values in found.items()},
    }


def _different(one: torch.Tensor, other: torch.Tensor) -> int:
    """The number of texts with other logits [T, B, V] at some token."""
    return int((one != other).any(-1).any(0).sum())


def _wrong(cell: dict[str, Any]) -> bool:
    """Whether a cell shows a fault: other texts are written than those with a result, or others change although the
    base is the same again."""
    wanted = cell["rows"] if cell["state"] == RESULT else 0
    return cell["written"] != wanted or (cell["changed"] != wanted and not cell["base_changed"])


@torch.no_grad()
def main() -> None:
    """Measures all cells and writes the results after each."""
    parser = command(__doc__)
    parser.add_argument("--shape", default=LARGEST, choices=[*SHAPES])
    parser.add_argument("--length", type=int, default=1024, help="tokens of a text (default: %(default)s)")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32], metavar="B")
    parser.add_argument("--rounds", type=int, default=10, help="that count (default: %(default)s)")
    arguments = parser.parse_args()
    if reason := missing(arguments.shape):
        raise SystemExit(f"`--shape {arguments.shape}` cannot be measured: {reason}.")
    base, tokenizer = made_base(arguments.shape, 0, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    config = RandomConfig.from_tokenizer(tokenizer, anchors=["="], interface="tokens", **DEMO_SIZES)
    model = get_peft_model(twin(base), config).eval().requires_grad_(False)
    layer = next(module for module in model.modules() if hasattr(module, "igc_config"))
    results = {**facts(), "settings": vars(arguments) | {"output": arguments.output.name}, "cells": []}
    for rows, state in itertools.product(arguments.rows, TARGETS):
        ids = prompt(tokenizer, CALCULATION if state == RESULT else "", rows, base.device, arguments.length)
        results["cells"].append(cell(Step(base, layer, ids), state, arguments.rounds))
        told = {name: f"{100 * found['median']:+.2f}%" for name, found in results["cells"][-1]["overhead"].items()}
        counts = {name: results["cells"][-1][name] for name in ("written", "changed", "base_changed")}
        print(f"{state}, {rows} texts: {told}, {counts}", flush=True)
        write(arguments.output, results)
    if wrong := [one for one in results["cells"] if _wrong(one)]:
        raise SystemExit(f"The calculator changes other texts than those with a result: {wrong}")


if __name__ == "__main__":
    main()
