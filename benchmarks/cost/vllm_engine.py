"""What the calculator adds to a pass of vLLM's engine: seconds and operators, by what the pass does; and memory.

The baseline is the rest of the same pass, so that other work on the machine meets both. A pass is silent, after an
answer (every text writes), or a reading. The environment is that of `make test-vllm`.

    .cache/vllm/bin/python -m benchmarks.cost.vllm_engine --output build/vllm_engine.json
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.common.measuring import command, facts, write
from benchmarks.common.vllm_engines import cached_tokens, engine
from benchmarks.cost.operators import Counted
from peft_igc.inference.loading import find_base


BATCHES = (1, 8, 32)
METHODS = ("begin", "take", "act")  # of the calculator, which the model calls
ASKED = "What is {} times {}?"
SILENT = "Tell me a story about a cat."


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

        def written(calculator: Any, hidden: Any, residual: Any, found: Any) -> None:
            self.passes[-1]["written"] = len(found)
            write(calculator, hidden, residual, found)

        Known.decide, Calculator._write = decided, written  # type: ignore[method-assign]

    def _measured(self, method: Callable[..., None], name: str) -> Callable[..., None]:
        def run(calculator: Any, *args: Any) -> None:
            if name == "begin":
                self.passes.append({"seconds": 0.0, "operators": 0, "tokens": 0, "asked": 0, "written": 0})
                self._begun = time.perf_counter()
            mine, begun = self.passes[-1], time.perf_counter()
            if self.counts:
                with Counted() as counted:
                    method(calculator, *args)
                mine["operators"] += counted.count
            else:
                method(calculator, *args)
            mine["seconds"] += time.perf_counter() - begun
            if name == "take":
                mine["tokens"] = len(args[0])

        return run

    def ended(self, *_: Any) -> None:
        """Hook after the model's pass."""
        self.passes[-1]["whole"] = time.perf_counter() - self._begun


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
                        values = cells.setdefault(kind, {"added": [], "rest": [], "operators": []})
                        values["operators" if meter.counts else "added"].append(
                            one["operators"] if meter.counts else one["seconds"]
                        )
                        if not meter.counts:
                            values["rest"].append(one["whole"] - one["seconds"])
        found["passes"][str(batch)] = {
            kind: {name: statistics.median(numbers) for name, numbers in values.items() if numbers}
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
    found = {**facts(), "base": args.base, "adapter": args.adapter, **found}
    write(args.output, found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
