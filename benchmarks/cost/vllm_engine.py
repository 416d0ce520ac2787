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
SHAPES: dict[str, tuple[str, dict[str, int]]] = {  # layers, heads, those of keys, their width, longest text, window
    "SmolLM2 135M": ("Llama", {"layers": 30, "heads": 9, "kv": 3, "size": 64, "length": 8192}),
    "Llama 3.1 8B": ("Llama", {"layers": 32, "heads": 32, "kv": 8, "size": 128, "length": 131072}),
    "Gemma 3 270M": ("Gemma3Text", {"layers": 18, "heads": 4, "kv": 1, "size": 256, "length": 32768, "window": 512}),
    "Gemma 3 4B": ("Gemma3Text", {"layers": 34, "heads": 8, "kv": 4, "size": 256, "length": 131072, "window": 1024}),
}


class Launched(Counted):
    """Counts operators, and among them launches."""

    def __init__(self) -> None:
        super().__init__()
        self.launches = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = super().__torch_dispatch__(function, types, args, kwargs)
        given = {x.untyped_storage().data_ptr() for x in args if torch.is_tensor(x)}
        made = [x for x in (found if isinstance(found, (tuple, list)) else [found]) if torch.is_tensor(x)]
        is_view = all(x.untyped_storage().data_ptr() in given for x in made) or "empty" in str(function)
        self.launches += not is_view or function._schema.is_mutable
        return found


class Meter:
    """Times, or counts, the parts of every pass that are the calculator's."""

    def __init__(self) -> None:
        self.passes: list[dict[str, float]] = []
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
                self.passes.append(
                    {"seconds": 0.0, "operators": 0, "launches": 0, "tokens": 0, "asked": 0, "written": 0}
                )
                self._begun = time.thread_time()
            mine, begun = self.passes[-1], time.thread_time()
            if self.counts:
                with Launched() as counted:
                    method(calculator, *args)
                mine["operators"] += counted.count
                mine["launches"] += counted.launches
            else:
                method(calculator, *args)
            mine["seconds"] += time.thread_time() - begun
            if name == "take":
                mine["tokens"] = len(args[0])

        return run

    def ended(self, *_: Any) -> None:
        """Hook after the model's pass."""
        self.passes[-1]["whole"] = time.thread_time() - self._begun


def ask(llm: Any, meter: Meter, question: str, batch: int) -> list[dict[str, float]]:
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
        return measured(llm, meter, rounds)


def measured(llm: Any, meter: Meter, rounds: int) -> dict[str, Any]:
    """Medians by batch and kind of pass of an engine."""
    model = llm.llm_engine.model_executor.driver_worker.worker.model_runner.model
    model.register_forward_hook(meter.ended)
    ask(llm, meter, ASKED, 8)  # warm up
    found: dict[str, Any] = {"tokens": {"with": cached_tokens(llm)}, "passes": {}}
    for batch in BATCHES:
        cells: dict[str, dict[str, list[float]]] = {}
        for meter.counts in (False, True):
            for question in (SILENT, ASKED) * (rounds if not meter.counts else 1):
                for one in ask(llm, meter, question, batch):
                    kind = kind_of(one, batch)
                    if kind is not None:
                        told = {"added": one["seconds"], "rest": one["whole"] - one["seconds"]}
                        if meter.counts:
                            told = {name: one[name] for name in ("operators", "launches")}
                        values = cells.setdefault(kind, {})
                        for name, value in told.items():
                            values.setdefault(name, []).append(value)
        found["passes"][str(batch)] = {
            kind: {name: statistics.median(numbers) for name, numbers in values.items()}
            for kind, values in cells.items()
        }
    return found


def kind_of(one: dict[str, float], batch: int) -> str | None:
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

    from peft_igc.engines.vllm.records import RecordLayer

    kind, shape = SHAPES[name]
    config = getattr(transformers, f"{kind}Config")(
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv"],
        head_dim=shape["size"],
        hidden_size=shape["heads"] * shape["size"],
        max_position_embeddings=shape["length"],
        architectures=[f"{kind.removesuffix('Text')}ForCausalLM"],
    )
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        given = EngineArgs(
            folder, skip_tokenizer_init=True, dtype="bfloat16", max_model_len=shape["length"], block_size=16
        )
        planned = given.create_engine_config()
    planned.cache_config.kv_cache_layout = "LBNHC"  # each layer alone, as without a connector
    sizes = {"block_size": 16, "num_kv_heads": shape["kv"], "head_size": shape["size"], "dtype": torch.bfloat16}
    full, sliding = FullAttentionSpec(**sizes), SlidingWindowSpec(**sizes, sliding_window=shape.get("window", 1))
    found = {}
    for case, dim in {"without": None, "with": DIM, "no reading": 0}.items():
        kinds = getattr(config, "layer_types", None) or ["full_attention"] * shape["layers"]
        layers = {f"layers.{at}": sliding if one == "sliding_attention" else full for at, one in enumerate(kinds)}
        if dim is not None:
            layers[f"igc.layers.{len(kinds)}"] = RecordLayer(dim, torch.bfloat16).get_kv_cache_spec(planned)
        groups = planning.get_kv_cache_groups(planned, layers)
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
