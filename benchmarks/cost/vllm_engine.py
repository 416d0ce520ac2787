"""What the calculator adds to a pass of vLLM's engine: seconds and operators, by what the pass does; and memory.

The seconds are those of the processor on one thread (`OMP_NUM_THREADS=1`), so that other work on the machine does not
count; the baseline is the rest of the same pass. A pass is silent, after an answer (every text writes), or a reading.
Of the operators, `launches` are those that compute or copy: on a GPU each is a launch, while views cost next to
nothing. The tokens that fit into the KV cache are those that vLLM plans for models of some shapes, without weights,
and texts of their longest length. The environment is that of `make test-vllm`.

    .cache/vllm/bin/python -m benchmarks.cost.vllm_engine --output build/vllm_engine.json
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
import transformers

from benchmarks.common.measuring import command, facts, write
from benchmarks.common.vllm_engines import cached_tokens, engine
from benchmarks.cost.operators import Counted
from peft_igc.inference.loading import find_base


BATCHES = (1, 8, 32)
METHODS = ("begin", "take", "act")  # of the calculator, which the model calls
ASKED = "What is {} times {}?"
SILENT = "Tell me a story about a cat."
MEMORY, DIM = 2**34, 512  # bytes of a planned KV cache, and the width of an adapter's features
FIELDS = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings")
SHAPES: dict[str, tuple[str, tuple[int, ...]]] = {  # `FIELDS` and a window
    "SmolLM2 135M": ("Llama", (30, 9, 3, 64, 8192)),
    "Llama 3.1 8B": ("Llama", (32, 32, 8, 128, 131072)),
    "Gemma 3 270M": ("Gemma3Text", (18, 4, 1, 256, 32768, 512)),
    "Gemma 3 4B": ("Gemma3Text", (34, 8, 4, 256, 131072, 1024)),
}


class Meter:
    """Times, or counts, the parts of every pass that are the calculator's."""

    def __init__(self) -> None:
        self.passes: list[defaultdict[str, float]] = []
        self.counts = False
        self._begun = 0.0

    def install(self) -> None:
        """Wraps the methods that the model calls; before the engine is made."""
        from peft_igc.engines.texts import Known
        from peft_igc.engines.vllm.calculator import Calculator

        for name in METHODS:
            setattr(Calculator, name, self._measured(getattr(Calculator, name), name))
        decide, write = Known.decide, Calculator._write

        def decided(known: Any, texts: Any, asked: Any, *rest: Any) -> Any:
            self.passes[-1]["asked"] = len(asked)
            return decide(known, texts, asked, *rest)

        def written(calculator: Any, hidden: Any, residual: Any, found: Any, h: Any) -> None:
            self.passes[-1]["written"] = len(found)
            write(calculator, hidden, residual, found, h)

        Known.decide, Calculator._write = decided, written  # type: ignore[method-assign]

    def _measured(self, method: Callable[..., None], name: str) -> Callable[..., None]:
        def run(calculator: Any, *args: Any) -> None:
            if name == "begin":
                self.passes.append(defaultdict(float))
                self._begun = time.thread_time()
            mine, begun = self.passes[-1], time.thread_time()
            if self.counts:
                with Counted() as counted:
                    method(calculator, *args)
                mine["operators"] += counted.count
                mine["launches"] += counted.launches
            else:
                method(calculator, *args)
            mine["added"] += time.thread_time() - begun
            if name == "take":
                mine["tokens"] = len(args[0])

        return run

    def ended(self, *_: Any) -> None:
        """Hook after the model's pass."""
        mine = self.passes[-1]
        mine["rest"] = time.thread_time() - self._begun - mine["added"]


def ask(llm: Any, meter: Meter, question: str, batch: int) -> list[defaultdict[str, float]]:
    """The passes of one batch of chats."""
    from vllm import SamplingParams

    meter.passes.clear()
    chats = [[{"role": "user", "content": question.format(10**15 - 7 - row, 10**15 - 11)}] for row in range(batch)]
    llm.chat(chats, SamplingParams(temperature=0, max_tokens=12, ignore_eos=True), use_tqdm=False)
    return [one for one in meter.passes if one["tokens"]]


def measure(base: str, adapter: str, rounds: int) -> dict[str, Any]:
    """Medians by batch and kind of pass."""
    meter = Meter()
    meter.install()
    with engine(adapter, base, enable_prefix_caching=False) as llm:
        model = llm.llm_engine.model_executor.driver_worker.worker.model_runner.model
        model.register_forward_hook(meter.ended)
        ask(llm, meter, ASKED, 8)  # warm up
        passes = {str(batch): medians(llm, meter, batch, rounds) for batch in BATCHES}
        return {"tokens": {"with": cached_tokens(llm)}, "passes": passes}


def medians(llm: Any, meter: Meter, batch: int, rounds: int) -> dict[str, dict[str, float]]:
    """Medians by kind of pass: of seconds in all rounds, of operators and launches in one more."""
    seen: dict[str, dict[str, list[float]]] = {}
    for meter.counts, names in ((False, ("added", "rest")), (True, ("operators", "launches"))):
        for question in (SILENT, ASKED) * (1 if meter.counts else rounds):
            for one in ask(llm, meter, question, batch):
                if (kind := kind_of(one, batch)) is not None:
                    for name in names:
                        seen.setdefault(kind, {}).setdefault(name, []).append(one[name])
    return {kind: {name: statistics.median(x) for name, x in values.items()} for kind, values in seen.items()}


def kind_of(one: defaultdict[str, float], batch: int) -> str | None:
    """What a pass does; None for one of several kinds."""
    if one["asked"]:
        return "reading" if one["asked"] == batch else None
    if one["tokens"] != batch:
        return None
    return "silent" if not one["written"] else "after" if one["written"] == batch else None


def capacity(name: str) -> dict[str, int]:
    """How many tokens vLLM plans for in a KV cache: of a shape alone, with the calculator, and without reading."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.core import kv_cache_utils as planning
    from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec

    from peft_igc.engines.vllm.records import NAME, RecordLayer, join_full_attention

    join_full_attention()
    kind, (layers, heads, kept_heads, width, length, *window) = SHAPES[name]
    config = getattr(transformers, f"{kind}Config")(
        **dict(zip(FIELDS, (layers, heads, kept_heads, width, length), strict=True)),
        hidden_size=heads * width,
        architectures=[f"{kind.removesuffix('Text')}ForCausalLM"],
    )
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        given = EngineArgs(folder, skip_tokenizer_init=True, dtype="bfloat16", max_model_len=length, block_size=16)
        planned = given.create_engine_config()
    planned.cache_config.kv_cache_layout = "LBNHC"  # each layer alone, as without a connector
    sizes = {"block_size": 16, "num_kv_heads": kept_heads, "head_size": width, "dtype": torch.bfloat16}
    full, sliding = FullAttentionSpec(**sizes), SlidingWindowSpec(**sizes, sliding_window=next(iter(window), 1))
    found = {}
    for case, dim in {"without": None, "with": DIM, "no reading": 0}.items():
        kinds = getattr(config, "layer_types", None) or ["full_attention"] * layers
        specs = {f"layers.{at}": sliding if one == "sliding_attention" else full for at, one in enumerate(kinds)}
        if dim is not None:
            specs[f"{NAME}{len(kinds)}"] = RecordLayer(dim, torch.bfloat16).get_kv_cache_spec(planned)
        groups = planning.get_kv_cache_groups(planned, specs)
        cache = planning.get_kv_cache_config_from_groups(planned, groups, MEMORY)
        found[case] = planning.get_kv_cache_capacity(planned, cache)[0]
    return found


def main() -> None:
    """Measures and writes the results."""
    parser = command(__doc__)
    parser.add_argument("--base", default="tiny", help="a folder or hub id")
    parser.add_argument("--adapter", default="tiny", help="its adapter")
    parser.add_argument("--rounds", type=int, default=5, help="batches of each kind")
    args = parser.parse_args()
    base = str(find_base(args.base))
    found = measure(base, args.adapter, args.rounds)
    with engine(None, base) as llm:
        found["tokens"]["without"] = cached_tokens(llm)
    found["capacity"] = {name: capacity(name) for name in SHAPES}
    found = {**facts(), "base": args.base, "adapter": args.adapter, **found}
    write(args.output, found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
