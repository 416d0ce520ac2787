"""One forward pass of the calculator in vLLM: `begin`, `take`, `act`.

Before the pass the records of its tokens are written, and their ids go to the host; there is no synchronization but at
the layer that is written, which waits for these ids while the layers before it run, and where the network reads. What
the host knows of a text is kept under the serial number of its last record; a text that it does not know, because its
beginning was in the prefix cache or it was preempted, is made again from the ids in its records.

Shapes: N tokens of a pass, R requests, A tokens that are written, H hidden size.
"""

import functools
import re
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from vllm.forward_context import get_forward_context

from ...mappings.decisions import Decision
from ...text.values import spelled
from ..texts import Asked, Known, Step, Text
from .fused import Compression, Update
from .records import RecordLayer, Seen, first, to_device


REMEMBERED = 1000  # steps in a report

Rows = tuple[int, int, int]


class Calculator:
    """An `Adapter` in an engine that runs a causal LM; `name` is that of the layer with the records."""

    def __init__(self, adapter: Any, records: RecordLayer, name: str, model: Any, vllm_config: Any) -> None:
        self.reader, self.writer, self.layer = adapter.reader, adapter.writer, adapter.config.layer
        self.known = Known(adapter, reads=records.dim > 0)
        self._reads_own = self.layer in adapter.config.layers_read
        self._mix = adapter.reader.mix  # a module looks its parts up in three dictionaries
        self._records, self._name, self._model = records, name, [model]
        # A connector loads the records of a layer while the layers before it run.
        self._is_deferred = vllm_config.kv_transfer_config is not None
        drafts = vllm_config.speculative_config
        self._ends = 1 if drafts is None else 1 + (drafts.num_speculative_tokens or 0)  # any of these may be rejected
        self._most_texts = 4 * self._ends * vllm_config.scheduler_config.max_num_seqs
        self._texts: OrderedDict[int, Text] = OrderedDict()
        self._ids: Tensor | None = None
        self._seen: Seen | None = None
        self._both: Any = None  # [N, 2, H] of `Compression`, or None
        self._taken: list[Tensor] = []
        self._update: Any = None
        self._steps: deque[dict[str, Any]] = deque(maxlen=REMEMBERED)
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0
        # The ids of the requests of a pass; the first report that is asked of a worker sets it.
        self.requests: Callable[[], Sequence[str]] = tuple

    def report(self, last: int, of: str = "") -> dict[str, Any]:
        """Steps by status, seconds spent at the layer, and the last steps, or those of a request with the id `of`."""
        named = re.compile(rf"(?<![^_-]){re.escape(of)}(?![^_-])")  # the engine adds to ids: `cmpl-ID-0-8a3f`
        steps = [step for step in self._steps if not of or named.search(step["request"])][-last:] if last else []
        return {"steps_by_status": dict(self._counts), "seconds": self._seconds, "steps": steps}

    # ------------------------------------------------------------------------------------------ called by the model
    def begin(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Hook before the forward pass of the causal LM, outside of what is compiled."""
        if self._update is None:  # the embeddings are those of all ranks, so they are taken in a pass
            tokens = self.known.style.table.written_with
            device = self.reader.compression.weight.device
            embedded = self._model[0].embed_input_ids(torch.tensor(tokens, device=device)).detach()
            self._compression, self._update = Compression(self.reader), Update(self.writer, tokens, embedded)
        self._ids = kwargs.get("input_ids", args[0] if args else None)
        self._seen, self._both, self._taken = None, None, []
        if not self._is_deferred:
            self._see()

    def take(self, hidden: Tensor, residual: Tensor | None) -> None:
        """Keeps the input [N, H] of the first decoder layer, or the output of one that is read before the layer that
        is written; a copy, because layers change it in place."""
        if self._both is None:
            (count, size), dtype = hidden.shape, self._compression.weight.dtype
            self._both = hidden.new_empty((count, 2, size), dtype=dtype)
            self._states, embedded = self._both.unbind(1)
            embedded.copy_(hidden)
        else:
            self._taken.append(hidden.clone() if residual is None else hidden + residual)

    def act(self, hidden: Tensor, residual: Tensor | None) -> None:
        """Stores the compressed tokens, decides the steps of the pass, and adds the update to `hidden` in place.

        The output of the layer is `hidden` + `residual`, [N, H] with padding; None counts as 0.
        """
        begun = time.perf_counter()
        if self._is_deferred:
            self._see()
        seen, self._seen = self._seen, None
        if seen is None:
            return
        new = seen.starts[-1]
        hidden, residual = first(hidden, new), None if residual is None else first(residual, new)
        h = self._store(seen, hidden, residual) if self.known.reads else None
        found = self._continuations(seen)
        if found:
            self._write(hidden, residual, found, h)
        self._seconds += time.perf_counter() - begun

    def _see(self) -> None:
        """Writes the records of the pass; none in a pass without texts."""
        context = get_forward_context().attn_metadata
        metadata = context.get(self._name) if isinstance(context, dict) else None
        if metadata is None:
            return
        if self._ids is None:
            raise ValueError("The engine passes embeddings without token ids, which the calculator does not know.")
        self._seen = self._records.see(metadata, self._ids)

    def _store(self, seen: Seen, hidden: Tensor, residual: Tensor | None) -> Tensor | None:
        """Compresses the tokens of the pass; the output [N, H] of the layer, if that alone is read."""
        new, mix = hidden.shape[0], self._mix
        both, states, taken = first(self._both, new), first(self._states, new), [first(x, new) for x in self._taken]
        if mix is not None:
            own = [hidden if residual is None else hidden + residual] if self._reads_own else []
            states.copy_(mix([*taken, *own]))
        elif self._reads_own:
            torch.add(hidden, 0 if residual is None else residual, out=states)
        else:
            states.copy_(taken[0])
        features = self._compression(both).to(self._records.dtype)
        self._records.features.index_put_((seen.block, seen.offset), features)
        return states if mix is None and self._reads_own else None

    # ------------------------------------------------------------------------------------------ the host's half
    def _continuations(self, seen: Seen) -> list[Rows]:
        """Where the pass is written, and with which rows of `Update`."""
        ids, before, serials = seen.on_host()
        tokens = {one: ids[start:end] for one, (start, end) in enumerate(pairwise(seen.starts)) if end > start}
        texts, again = self._texts_before(seen, tokens, before, serials)
        gather = functools.partial(self._records.compressed, seen.table)
        told, decided = self.known.told(texts, tokens, gather, again)
        requests = self.requests() if decided else ()
        for (one, step), decision in decided:
            if step.anchor >= before[one]:  # else it was decided in an earlier pass, too
                self._note(requests[one] if one < len(requests) else "", step, decision)
        found = []
        for one, text in texts.items():
            start, end = seen.starts[one], seen.starts[one + 1]
            if told[one]:
                found += [(at, *self._update.rows(*to)) for at, to in enumerate(told[one], start) if to is not None]
            for at in range(max(start, end - self._ends), end):
                self._texts[seen.serial + at] = text
        while len(self._texts) > self._most_texts:
            self._texts.popitem(last=False)
        return found

    def _texts_before(
        self, seen: Seen, requests: Iterable[int], before: list[int], serials: list[int]
    ) -> tuple[dict[int, Text], list[Asked]]:
        """The texts before this pass by request, and the steps in them that have to be decided again."""
        texts: dict[int, Text] = {}
        for one in requests:
            known = self._texts.get(serials[one]) if before[one] else None
            texts[one] = Text([]) if known is None else known.cropped(before[one])
        unknown = [one for one, text in texts.items() if text.length < before[one]]
        again: list[Asked] = []
        if unknown:
            lengths = [before[one] for one in unknown]
            for one, ids in zip(unknown, self._records.ids(seen.table, unknown, lengths), strict=True):
                texts[one], step = self.known.made(ids)
                again += [] if step is None else [(one, step)]
        return texts, again

    def _note(self, request: str, step: Step, decision: Decision) -> None:
        """Counts a step, and keeps it for the report."""
        status = decision.status.name.lower()
        self._counts[status] += 1
        self._steps.append(
            {
                "request": request,
                "time": time.time(),
                "position": step.anchor,
                "status": status,
                "expression": None if decision.found is None else spelled(decision.found.items),
                "result": getattr(decision.found, "text", None) if decision.silence is None else None,
                "reason": decision.silence,
                "by_rule": decision.by_rule,
            }
        )

    # ------------------------------------------------------------------------------------------ writing
    def _write(self, hidden: Tensor, residual: Tensor | None, found: list[Rows], h: Tensor | None) -> None:
        """Adds the update to the rows of `hidden` [N, H] that are found; h [N, H] is the sum, if that is known."""
        index, up, gate = to_device([*zip(*found, strict=True)], hidden.device)
        if h is not None:
            h = h[index]
        else:
            h = hidden[index] if residual is None else hidden[index] + residual[index]
        hidden.index_add_(0, index, self._update(h, up, gate).to(hidden.dtype))
