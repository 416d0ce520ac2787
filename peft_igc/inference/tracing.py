"""Tracing: `igc_trace` records every step and every token while a model runs.

    with igc_trace(model, tokenizer) as trace:
        model.generate(**batch, max_new_tokens=20)
    trace.print(); trace.save_html("trace.html")

In: the events of `call.observing`, the only hook there is: without a recorder nothing is asked per token. Out: a
`TextRecord` per row, with steps and tokens. Recording changes no output. The events belong to a thread, so a block
sees what its own thread runs, of its own model. Texts are kept in memory only, until `save_html` or `to_json`.

Shapes: B rows, T positions of a call, A anchors per row, n tokens at hand.
Try it: `peft-igc trace --base tiny --adapter tiny "What is 58 times 36?"`, `pytest tests/inference/test_tracing.py`
"""

from __future__ import annotations

import dataclasses
import inspect
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import torch

from ..numbers.token_table import PADDING
from ..numbers.tokenizer_profile import check_tokenizer
from ..tuner.call import Call, current_call, observing, repeat_rows, text_ids
from ..tuner.hooks.install import wrapped_model
from ..tuner.hooks.wrapper import active_config, active_layer
from ..tuner.records import Place
from ..tuner.steps import Generated, Step, Writing
from .details import detailed
from .pages import trace_page, write
from .records import Spell, StepRecord, TextRecord, TokenRecord, json_lines, token_texts


__all__ = ["Recording", "igc_trace"]


class _Batch:
    """The texts of one `generate`, or of the forward passes of one KV cache, while they grow.

    Positions are those of the events: padding is counted.

    Attributes:
        steps: by row and position of the anchor. A text that is read repeatedly (without a KV cache) has each once.
        written: gate and relative size of the update, by row and position.
        ids: token ids, by row and position, also `EMBEDDED`, `UNSEEN` and `PADDING`.
        generated: position of the first token that `generate` made; None for a forward pass.
    """

    def __init__(self) -> None:
        self.steps: dict[tuple[int, int], StepRecord] = {}
        self.written: dict[tuple[int, int], tuple[float, float]] = {}
        self.ids: dict[int, dict[int, int]] = {}
        self.generated: int | None = None

    def add_ids(self, ids: torch.Tensor, start: int, replace: bool = False) -> None:
        """Adds ids [B, n] from the position `start` on, where none are known; with `replace` everywhere."""
        for row, line in enumerate(ids.tolist()):
            new, known = dict(enumerate(line, start=start)), self.ids.get(row, {})
            self.ids[row] = known | new if replace else new | known

    def text(self, row: int, spell: Spell) -> TextRecord:
        """One row, its positions counted without padding."""
        places = sorted(place for place, token in self.ids[row].items() if token != PADDING)
        index = {place: i for i, place in enumerate(places)}
        ids = [self.ids[row][place] for place in places]
        tokens = []
        for place, token, text in zip(places, ids, token_texts(spell, ids), strict=True):
            gate, size = self.written.get((row, place - 1), (None, None))
            new = self.generated is not None and place >= self.generated
            known = token if token >= 0 else None
            tokens.append(TokenRecord(text, gate, size, index[place], known, generated=new))
        steps = (step for (of, place), step in sorted(self.steps.items()) if of == row and place in index)
        return TextRecord(row, tuple(tokens), tuple(step.moved(lambda at: index.get(at, at)) for step in steps))


class Recording:
    """What `igc_trace` has recorded.

    Args:
        model: the causal LM that is watched, with or without PEFT around it.
        tokenizer: its tokenizer.
        on_step: called with each step at once.

    Attributes:
        texts: all texts, in the order in which they were begun; empty before the end of the block.
    """

    def __init__(self, model: Any, tokenizer: Any, on_step: Callable[[StepRecord], object] | None = None) -> None:
        self.texts: list[TextRecord] = []
        self._model, self._on_step = model, on_step
        self._causal_lm: Any = wrapped_model(model)
        self._spell: Spell = lambda ids: tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
        self._batches: list[_Batch] = []
        # The batches that may go on, by the generation, the KV cache or the call, which are not kept alive.
        self._open: weakref.WeakKeyDictionary[Any, _Batch] = weakref.WeakKeyDictionary()

    # ------------------------------------------------------------------------------------------ what was recorded
    @property
    def steps(self) -> list[StepRecord]:
        """The steps of all texts."""
        return [step for text in self.texts for step in text.steps]

    def to_json(self, *, prompts: bool = False) -> str:
        """The records as in `records.json_lines`."""
        return json_lines(self.texts, prompts=prompts)

    def print(self, file: TextIO | None = None) -> None:
        """Prints texts and steps to a file, by default stdout."""
        print("\n\n".join(text.format() for text in self.texts), file=file)  # noqa: T201 - what it is for

    def save_html(self, path: str | Path, title: str = "Trace") -> None:
        """Writes one page that needs no other file and no network; it contains the whole texts."""
        write(trace_page(self.texts, title), path)

    # ------------------------------------------------------------------------------------------ events
    def __call__(self, event: Step | Writing) -> None:
        """Stores one event; called by the forward passes of this thread."""
        if torch.compiler.is_compiling():  # a compiled graph has no place for Python objects: see `docs/tracing.md`
            return
        call = current_call(self._causal_lm)
        if call is None:  # another model's, or a second run in the backward pass
            return
        keys = (call.generation, call.cache, call)
        batch = self._batch_of(next(key for key in keys if key is not None))
        if isinstance(event, Step):
            self._add_steps(batch, event, call)
            return
        if call.generation is None:
            batch.add_ids(text_ids(call, event.gate[..., None], event.start), event.start)
        assert event.size is not None
        for row, place in event.active.nonzero().tolist():
            values = float(event.gate[row, place]), float(event.size[row, place])
            batch.written[row, event.start + place] = values

    def _batch_of(self, key: object) -> _Batch:
        """The texts of a generation, a KV cache, or of a forward pass without either."""
        if key not in self._open:
            self._open[key] = _Batch()
            self._batches.append(self._open[key])
        return self._open[key]

    def _add_steps(self, batch: _Batch, event: Step, call: Call) -> None:
        """Stores the steps of one call."""
        assert event.ids is not None
        layer, name = active_layer(self._model)
        anchored = (event.anchors >= 0).nonzero().tolist()
        if not anchored:
            return
        batch.add_ids(event.ids, int(event.first))
        if call.generation is None and call.cache is None and call.input_ids is not None:
            batch.add_ids(text_ids(call, call.input_ids[..., None], 0), 0)
        for row, index in anchored:
            step = detailed(layer.igc_config[name], Place(event, row, index), self._spell)
            batch.steps[row, step.position] = step
            if self._on_step is not None:
                self._on_step(step)

    def finish(self, event: Generated) -> None:
        """Stores the finished texts of a `generate`."""
        if event.generation.model is not self._causal_lm:
            return
        batch = self._batch_of(event.generation)
        if event.beams > 1:
            warnings.warn(
                "Beam search reorders the rows of a batch, so only the steps of prompts are recorded, no gates. "
                "Trace with `num_beams=1`.",
                stacklevel=5,
            )
            copies, prompt_end = len(event.sequences) // len(event.generation.mask), event.start + event.prompt
            batch.steps = {
                (to, place): dataclasses.replace(step, row=to)
                for (row, place), step in batch.steps.items()
                if place < prompt_end and row % event.beams == 0
                for to in range(row // event.beams * copies, (row // event.beams + 1) * copies)
            }
            batch.written, batch.ids = {}, {}
        batch.generated = event.start + event.prompt
        batch.add_ids(_unpadded(event), event.start, replace=True)

    def close(self) -> None:
        """Ends the recording, which completes `texts`."""
        self._open.clear()
        self.texts = [batch.text(row, self._spell) for batch in self._batches for row in sorted(batch.ids)]

    # ------------------------------------------------------------------------------------------ the base
    def add_base(self) -> None:
        """Asks the model without the calculator what it would have said in place of each generated token.

        One forward pass per text, over prompt and answer, without anchors: there the output is bit for bit that of
        the base (with its other adapters, such as LoRA), and no switch is touched that another thread may depend on.
        """
        self.texts = [self._with_base(text) for text in self.texts]

    def _with_base(self, text: TextRecord) -> TextRecord:
        """A text with the most probable token, and its probability, in place of each of its generated ones."""
        model = self._causal_lm
        ids, new = [token.id for token in text.tokens], len(text.generated)
        if None in ids or not 0 < new < len(ids):
            return text
        tokens = torch.tensor([ids[:-1]], device=model.device)  # the last one predicts nothing that is needed
        arguments: dict[str, Any] = {"use_cache": False, "attention_mask": torch.ones_like(tokens)}
        arguments["igc_anchors"] = torch.full_like(tokens[:, :1], -1)
        if "logits_to_keep" in inspect.signature(model.forward).parameters:
            arguments["logits_to_keep"] = new
        with torch.no_grad():
            output = model(tokens, **arguments)
        chances, best = output.logits[0, -new:].float().softmax(-1).max(-1)
        made = [
            dataclasses.replace(token, base=self._spell([other]), base_probability=chance)
            for token, other, chance in zip(text.generated, best.tolist(), chances.tolist(), strict=True)
        ]
        return dataclasses.replace(text, tokens=(*text.tokens[:-new], *made))


@contextmanager
def igc_trace(
    model: Any, tokenizer: Any, *, base: bool = False, on_step: Callable[[StepRecord], object] | None = None
) -> Iterator[Recording]:
    """Records what the calculator reads and writes while the block runs `generate` or forward passes.

    Args:
        model: a causal LM with an active IGC adapter.
        tokenizer: its tokenizer.
        base: at the end also ask what the model would have said without the calculator (`Recording.add_base`).
        on_step: called with each `StepRecord` at once, within the forward pass.

    Yields:
        The `Recording`, which is complete at the end of the block.

    Raises:
        ValueError: if no IGC adapter is active, or if the adapter was made for another tokenizer.
    """
    config = active_config(model)
    if config is None:
        raise ValueError(
            f"`{type(model).__name__}` has no active IGC adapter, so there is nothing to trace. "
            "Load one with `PeftModel.from_pretrained(model, folder)`."
        )
    check_tokenizer(config.token_table, tokenizer)
    recording = Recording(model, tokenizer, on_step)
    try:
        with observing(recording):
            yield recording
    finally:
        recording.close()
    if base:
        recording.add_base()


def _unpadded(event: Generated) -> torch.Tensor:
    """The sequences [B, n] of a `generate` with `PADDING` before the prompt, in it, and after the end of an answer."""
    ids, prompt = event.sequences.cpu().clone(), event.prompt
    if prompt:
        mask = repeat_rows(event.generation.mask.cpu()[:, -prompt:].bool(), len(ids))
        ids[:, :prompt].masked_fill_(~mask, PADDING)
    if event.ends:
        ended = torch.isin(ids[:, prompt:], torch.tensor(event.ends)).long()
        ids[:, prompt:].masked_fill_(ended.cumsum(1) - ended > 0, PADDING)
    return ids
