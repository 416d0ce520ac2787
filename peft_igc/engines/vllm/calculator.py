"""One forward pass of the calculator in vLLM: `begin`, `take`, `act`.

Before the pass the records of its tokens are written, and their ids go to the host; there is no synchronization but at
the layer that is written, which waits for these ids while the layers before it run, and where the network reads. What
the host knows of a text is kept under the serial number of its last record; a text that it does not know, because its
beginning was in the prefix cache or it was preempted, is made again from the ids in its records.

Shapes: N tokens of a pass, R requests, A tokens that are written, H hidden size.
"""

from __future__ import annotations

import functools
import time
from collections import Counter, OrderedDict, deque
from typing import Any

import torch
from vllm.forward_context import get_forward_context

from ...mappings.decisions import Decision
from ..texts import Known, Step, Text
from .records import RecordLayer, Seen


REMEMBERED = 1000  # steps in a report


class Calculator:
    """An adapter in an engine.

    Args:
        adapter: an `Adapter`.
        records: the layer with the records.
        name: its name.
        model: the causal LM.
        vllm_config: of the engine.
    """

    def __init__(self, adapter: Any, records: RecordLayer, name: str, model: Any, vllm_config: Any) -> None:
        self.reader, self.writer, self.layer = adapter.reader, adapter.writer, adapter.config.layer
        self.known = Known(adapter, reads=records.dim > 0)
        self._reads_own = self.layer in adapter.config.layers_read
        self._records, self._name, self._model = records, name, [model]
        # A connector loads the records of a layer while the layers before it run.
        self._is_deferred = vllm_config.kv_transfer_config is not None
        drafts = vllm_config.speculative_config
        self._ends = 1 if drafts is None else 1 + (drafts.num_speculative_tokens or 0)  # any of these may be rejected
        self._most_texts = 4 * self._ends * vllm_config.scheduler_config.max_num_seqs
        self._texts: OrderedDict[int, Text] = OrderedDict()
        self._ids: torch.Tensor | None = None
        self._seen: Seen | None = None
        self._taken: list[torch.Tensor] = []
        self._rows: dict[int, int] = {}  # of `_table`, by token
        self._table: torch.Tensor | None = None
        self._steps: deque[dict[str, Any]] = deque(maxlen=REMEMBERED)
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0

    def report(self, last: int) -> dict[str, Any]:
        """What has happened: steps by status, seconds spent at the layer, and the last steps."""
        steps = [*self._steps][-last:] if last else []
        return {"steps_by_status": dict(self._counts), "seconds": self._seconds, "steps": steps}

    # ------------------------------------------------------------------------------------------ called by the model
    def begin(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Hook before the forward pass of the causal LM, outside of what is compiled."""
        if self._table is None:
            self._embed_tokens()
        self._ids = kwargs.get("input_ids", args[0] if args else None)
        self._seen, self._taken = None, []
        if not self._is_deferred:
            self._see()

    def take(self, hidden: torch.Tensor, residual: torch.Tensor | None) -> None:
        """Keeps the input [N, H] of the first decoder layer, or the output of one that is read before the layer that
        is written; a copy, because layers change it in place."""
        self._taken.append(hidden.clone() if residual is None else hidden + residual)

    def act(self, hidden: torch.Tensor, residual: torch.Tensor | None) -> None:
        """Stores the compressed tokens, decides the steps of the pass, and adds the update to `hidden` in place.

        Args:
            hidden: [N, H], padding included.
            residual: [N, H]; the output of the layer is the sum of both. None counts as 0.
        """
        begun = time.perf_counter()
        if self._is_deferred:
            self._see()
        seen, self._seen = self._seen, None
        if seen is None:
            return
        new = seen.starts[-1]
        hidden, residual = hidden[:new], None if residual is None else residual[:new]
        if self.known.reads:
            self._store(seen, hidden if residual is None else hidden + residual)
        found = self._continuations(seen)
        if found:
            self._write(hidden, residual, found)
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

    def _store(self, seen: Seen, h: torch.Tensor) -> None:
        """Compresses the tokens of the pass; h [N, H] is the output of the layer."""
        embedded, *read = (one[: len(h)] for one in self._taken)
        read += [h] if self._reads_own else []
        states = read[0] if self.reader.mix is None else self.reader.mix(read)
        features = self.reader.compress(states, embedded)
        self._records.features[seen.block, seen.offset] = features.to(self._records.dtype)

    # ------------------------------------------------------------------------------------------ the host's half
    def _continuations(self, seen: Seen) -> list[tuple[int, int, int]]:
        """Index, next token and `Spelled` of every token of the pass that is written."""
        ids, before, serials = seen.on_host()
        starts = seen.starts
        texts, asked = self._texts_before(seen, before, serials)
        for one, text in texts.items():
            texts[one], steps = self.known.extended(text, ids[starts[one] : starts[one + 1]])
            asked += [(one, step) for step in steps]
        gather = functools.partial(self._records.compressed, seen.table)
        decisions = self.known.decide(texts, asked, gather, seen.table.device)
        for (one, step), decision in zip(asked, decisions, strict=True):
            if step.anchor >= before[one]:  # else it was decided in an earlier pass, too
                self._note(step, decision)
        written = []
        for one, text in texts.items():
            text, found = self.known.continued(text, before[one])
            for at, more in enumerate(found, starts[one]):
                if more is not None:
                    written.append((at, more.token, int(more.state)))
            for at in range(max(starts[one], starts[one + 1] - self._ends), starts[one + 1]):
                self._texts[seen.serial + at] = text
        while len(self._texts) > self._most_texts:
            self._texts.popitem(last=False)
        return written

    def _texts_before(
        self, seen: Seen, before: list[int], serials: list[int]
    ) -> tuple[dict[int, Text], list[tuple[int, Step]]]:
        """The texts before this pass by request, and the steps in them that have to be decided again."""
        texts: dict[int, Text] = {}
        for one, length in enumerate(before):
            if seen.starts[one + 1] > seen.starts[one]:
                known = self._texts.get(serials[one]) if length else None
                texts[one] = Text([]) if known is None else known.cropped(length)
        unknown = [one for one, text in texts.items() if text.length < before[one]]
        again: list[tuple[int, Step]] = []
        if unknown:
            lengths = [before[one] for one in unknown]
            for one, ids in zip(unknown, self._records.ids(seen.table, unknown, lengths), strict=True):
                texts[one], step = self.known.made(ids)
                again += [] if step is None else [(one, step)]
        return texts, again

    def _note(self, step: Step, decision: Decision) -> None:
        """Counts a step, and keeps it for the report."""
        status = decision.status.name.lower()
        self._counts[status] += 1
        self._steps.append(
            {
                "time": time.time(),
                "position": step.anchor,
                "status": status,
                "result": getattr(decision.found, "text", None) if decision.silence is None else None,
                "reason": decision.silence,
                "by_rule": decision.by_rule,
            }
        )

    # ------------------------------------------------------------------------------------------ writing
    def _write(self, hidden: torch.Tensor, residual: torch.Tensor | None, found: list[tuple[int, int, int]]) -> None:
        """Adds the update to the rows of `hidden` [N, H] that are found."""
        assert self._table is not None
        told = [[at, self._rows[token], state] for at, token, state in found]
        index, row, state = torch.tensor(told).T.to(hidden.device, non_blocking=True)
        h = hidden[index] if residual is None else hidden[index] + residual[index]
        update, _ = self.writer(h, self._table[row], state)
        hidden.index_add_(0, index, update.to(hidden.dtype))

    def _embed_tokens(self) -> None:
        """The embeddings of the tokens that results are written with, of all ranks: taken once, in the first pass."""
        tokens = self.known.style.table.written_with
        device = next(self.reader.parameters()).device
        self._table = self._model[0].embed_input_ids(torch.tensor(tokens, device=device)).detach()
        self._rows = {token: row for row, token in enumerate(tokens)} | {-1: 0}
