"""One forward pass of the calculator in vLLM: `begin`, `take_input`, `take_output`, `act`.

Before the pass the records of its tokens are written, and their ids go to the host; there is no synchronization but at
the layer that is written, which waits for these ids while the layers before it run, and where the network reads. What
the host knows of a text is kept under the serial number of its last record; a text that it does not know, because its
beginning was in the prefix cache or it was preempted, is made again from the ids in its records.

Shapes: N tokens of a pass, R requests, A tokens that are written, H hidden size. Try it: `make test-vllm`
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from typing import Any

import torch
from vllm.forward_context import get_forward_context

from ...mappings.decisions import Decision
from ...text.results.row import Row
from ..texts import Known, Step, Text
from .records import Kept, RecordLayer, Seen


__all__ = ["Calculator"]

REMEMBERED = 1000  # steps in a report
STEPS_KEPT = 4096  # results of steps that the host remembers in addition to those of the texts it knows

Asked = tuple[int, Text, Step, int]  # request, text and step; the serial number of the record of its anchor


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
        self.known = Known(adapter.config, adapter.reader)
        self._layers_read = adapter.config.layers_read
        self._records, self._name, self._model = records, name, [model]
        # A connector loads the records of a layer while the layers before it run.
        self.is_deferred = vllm_config.kv_transfer_config is not None
        drafts = vllm_config.speculative_config
        self._ends = 1 if drafts is None else 1 + (drafts.num_speculative_tokens or 0)  # any of these may be rejected
        self._most_texts = 4 * self._ends * vllm_config.scheduler_config.max_num_seqs
        self._texts: OrderedDict[int, Text] = OrderedDict()
        self._results: OrderedDict[int, Any] = OrderedDict()  # progress at an anchor, by the record of the anchor
        self._ids: torch.Tensor | None = None
        self._seen: Seen | None = None
        self._input: torch.Tensor | None = None
        self._outputs: list[torch.Tensor] = []
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
        self._seen, self._outputs = None, []
        if not self.is_deferred:
            self._see()

    def take_input(self, hidden: torch.Tensor) -> None:
        """Keeps the input [N, H] of the first decoder layer; a copy, because layers change it in place."""
        if self._seen is not None or self.is_deferred:
            self._input = hidden.clone()

    def take_output(self, hidden: torch.Tensor, residual: torch.Tensor | None) -> None:
        """Keeps the output of a layer that is read before the layer that is written."""
        if self._seen is not None or self.is_deferred:
            self._outputs.append(hidden.clone() if residual is None else hidden + residual)

    def act(self, hidden: torch.Tensor, residual: torch.Tensor | None) -> None:
        """Stores the compressed tokens, decides the steps of the pass, and adds the update to `hidden` in place.

        Args:
            hidden: [N, H], padding included.
            residual: [N, H]; the output of the layer is the sum of both. None counts as 0.
        """
        begun = time.perf_counter()
        if self.is_deferred:
            self._see()
        seen, self._seen = self._seen, None
        if seen is None:
            return
        new = seen.metadata.starts[-1]
        hidden, residual = hidden[:new], None if residual is None else residual[:new]
        self._store(seen, hidden if residual is None else hidden + residual)
        found = self._continuations(seen)
        if found:
            self._write(hidden, residual, found)
        self._seconds += time.perf_counter() - begun

    def _see(self) -> None:
        """Writes the records of the pass; none in a pass without texts."""
        context = get_forward_context().attn_metadata
        metadata = context.get(self._name) if isinstance(context, dict) else None
        if metadata is None or not metadata.starts[-1] or not self._records.kv_cache.numel():
            return
        if self._ids is None:
            raise ValueError("The engine passes embeddings without token ids, which the calculator does not know.")
        self._seen = self._records.see(metadata, self._ids)

    def _store(self, seen: Seen, h: torch.Tensor) -> None:
        """Compresses the tokens of the pass; h [N, H] is the output of the layer."""
        assert self._input is not None
        read = [*self._outputs, h] if self.layer in self._layers_read else self._outputs
        states = read[0] if self.reader.mix is None else self.reader.mix([one[: len(h)] for one in read])
        features = self.reader.compress(states[: len(h)], self._input[: len(h)])
        self._records.features[seen.block, seen.offset] = features.to(self._records.dtype)

    # ------------------------------------------------------------------------------------------ the host's half
    def _continuations(self, seen: Seen) -> list[tuple[int, int, int]]:
        """Index, next token and `Spelled` of every token of the pass that is written."""
        ids, slots, before, serials = seen.on_host()
        if slots[0] < 0:  # a pass without texts, to warm up
            return []
        starts = seen.metadata.starts
        requests = [one for one in range(len(starts) - 1) if starts[one + 1] > starts[one]]
        texts, asked = self._texts_before(seen, requests, before, serials)
        for one in requests:
            text, steps = self.known.extended(texts[one], ids[starts[one] : starts[one + 1]])
            texts[one] = text
            first = seen.serial + starts[one] - before[one]
            asked += [(one, text, step, first + step.anchor) for step in steps]
        self._decide(seen, asked, texts, before)
        written = []
        for one in requests:
            text, found = self.known.continued(texts[one], before[one])
            for at, more in enumerate(found, starts[one]):
                if more is not None:
                    written.append((at, more.token, int(more.state)))
            self._remember(seen.serial, starts[one], starts[one + 1], text)
        while len(self._texts) > self._most_texts:
            self._texts.popitem(last=False)
        return written

    def _remember(self, serial: int, start: int, end: int, text: Text) -> None:
        """Keeps a text under the records after which it may go on."""
        for at in range(max(start, end - self._ends), end):
            self._texts[serial + at] = text

    def _texts_before(
        self, seen: Seen, requests: list[int], before: list[int], serials: list[int]
    ) -> tuple[dict[int, Text], list[Asked]]:
        """The texts before this pass by request, and the steps in them that have to be decided again."""
        texts: dict[int, Text] = {}
        unknown = []
        for one in requests:
            text = self._texts.get(serials[one]) if before[one] else Text([])
            if text is not None and text.length >= before[one]:
                texts[one] = text.cropped(before[one])
            else:
                unknown.append(one)
        again: list[Asked] = []
        if unknown:
            lengths = [before[one] for one in unknown]
            for one, words in zip(unknown, self._records.texts(seen.metadata, unknown, lengths), strict=True):
                text, step = self.known.made([token for token, _ in words])
                if step is not None and (serial := words[step.anchor][1]) in self._results:
                    text = text._replace(row=text.row.begun([(step.anchor, self._results[serial])]))
                elif step is not None:
                    again.append((one, text, step, serial))
                texts[one] = text
        return texts, again

    def _decide(self, seen: Seen, asked: Sequence[Asked], texts: dict[int, Text], before: list[int]) -> None:
        """Decides steps at once, and begins their results in `texts`."""
        if not asked:
            return
        step_texts, firsts = self.known.texts_of([(text, step) for _, text, step, _ in asked])
        table = seen.metadata.block_table
        rows = torch.tensor([one for one, *_ in asked], device=table.device)
        decisions = self.known.decided(step_texts, Kept(self._records, table[rows], firsts))
        begun: dict[int, list[tuple[int, Any]]] = {}
        for (one, _, step, serial), decision in zip(asked, decisions, strict=True):
            progress = self.known.progress(step.anchor, decision)
            self._results[serial] = progress
            begun.setdefault(one, []).append((step.anchor, progress))
            if step.anchor >= before[one]:
                self._note(step, decision)
        for one, steps in begun.items():
            row: Row = texts[one].row
            texts[one] = texts[one]._replace(row=row.begun(steps))
        while len(self._results) > STEPS_KEPT:
            self._results.popitem(last=False)

    def _note(self, step: Step, decision: Decision) -> None:
        """Counts a step, and keeps it for the report."""
        status = decision.status.name.lower()
        self._counts[status] += 1
        value = getattr(decision.found, "text", None) if decision.silence is None else None
        self._steps.append(
            {
                "time": time.time(),
                "position": step.anchor,
                "status": status,
                "result": value,
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
        device = self._records_device()
        self._table = self._model[0].embed_input_ids(torch.tensor(tokens, device=device)).detach()
        self._rows = {token: row for row, token in enumerate(tokens)} | {-1: 0}

    def _records_device(self) -> torch.device:
        return next(self.reader.parameters()).device
