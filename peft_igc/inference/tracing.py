"""Tracing: `igc_trace` records every step and every token while a model runs; `trace` answers one prompt with it.

    with igc_trace(model, tokenizer) as trace:
        model.generate(**batch, max_new_tokens=20)
    trace.print(); trace.save_html("trace.html")

In: the events of `call.observing`, the only hook there is: without a recorder nothing is asked per token. Out: a
`TextRecord` per row, with steps and tokens. Recording changes no output. The events belong to a thread, so a block
sees what its own thread runs, of its own model. Texts are kept in memory only, until `save_html` or `to_json`.

Shapes: B rows, T positions of a call, A anchors per row, n tokens at hand, P tokens of a prompt.
Try it: `peft-igc trace --base tiny --adapter tiny "What is 58 times 36?"`, `pytest tests/inference/test_recording.py`
"""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch
from transformers import AutoTokenizer

from ..numbers.tokenizer_profile import check_tokenizer
from ..text.vocabulary import PADDING
from ..tuner.base_model import TINY, TINY_FOLDER
from ..tuner.call import Call, current_call, observing, repeat_rows, text_ids
from ..tuner.config import IGCConfig
from ..tuner.hooks.install import wrapped_model
from ..tuner.hooks.wrapper import active_config, active_layer
from ..tuner.records import Place
from ..tuner.steps import Generated, Step, Writing
from .decoding import end_tokens, eval_mode, generate_greedily, prompt_tokens
from .details import Spell, detailed
from .evaluation import answers_of
from .pages import trace_page, write
from .records import Answer, StepRecord, TextRecord, TokenRecord, equals_of, json_lines, token_texts
from .terminal import format_equals, format_steps, print_texts


__all__ = ["Recording", "Trace", "igc_trace", "trace"]


@dataclass(frozen=True)
class Trace(Answer):
    """The answer to one prompt, with all steps and tokens.

    Attributes:
        prompt: the prompt.
        record: the record of the whole text.
    """

    prompt: str = ""
    record: TextRecord = TextRecord(0, (), ())

    @property
    def answer(self) -> str:
        """The answer, without special tokens."""
        return self.text.strip()

    @property
    def tokens(self) -> list[TokenRecord]:
        """The generated tokens, in their order."""
        return self.record.generated

    def format(self) -> str:
        """The trace as text for a terminal."""
        equals = format_equals(equals_of(self.record))
        lines = [f"prompt     {self.prompt}", *format_steps(self.steps, self.tokens), *equals]
        return "\n".join([*lines, f"answer     {self.answer}", f"source     {self.source}"])


def trace(
    model: Any, tokenizer: Any, prompt: str, *, raw: bool = False, max_new_tokens: int = 24, base: bool = False
) -> Trace:
    """Answers one prompt greedily and records the calculator's part in it.

    Args:
        model: a causal LM with an active IGC adapter.
        tokenizer: the model's tokenizer.
        prompt: a user message, or with `raw` a text to continue.
        raw: tokenize the prompt without the chat template.
        max_new_tokens: maximum length of the answer.
        base: also record what the model would have said without the calculator, in one more forward pass.

    Raises:
        ValueError: if no IGC adapter is active, if the adapter was made for another tokenizer, if there is no chat
            template and `raw` is not set, or if the prompt has no tokens.
    """
    with eval_mode(model), igc_trace(model, tokenizer, base=base) as recording:
        (ids,) = prompt_tokens(tokenizer, [prompt], raw)
        output = generate_greedily(model, tokenizer, [ids], max_new_tokens)
    (answer,) = answers_of(tokenizer, output, len(ids), end_tokens(model, tokenizer))
    (text,) = recording.texts
    written = {step.position: step.written for step in answer.steps}
    steps = tuple(dataclasses.replace(step, written=written.get(step.position)) for step in text.steps)
    return Trace(answer.text, answer.cut, steps, prompt, text)


class _Batch:
    """The texts of one `generate`, or of the forward passes of one KV cache, while they grow.

    Positions are those of the events: padding is counted.

    Attributes:
        steps: by row and position of the anchor. A text that is read repeatedly (without a KV cache) has each once.
        written: gate and relative size of the update, by row and position.
        ids: token ids, by row and position, also `EMBEDDED`, `UNSEEN` and `PADDING`.
        generated: position of the first token that `generate` made; None for a forward pass.
        base: token and probability without the calculator, by row and position of the token.
    """

    def __init__(self) -> None:
        self.steps: dict[tuple[int, int], StepRecord] = {}
        self.written: dict[tuple[int, int], tuple[float, float]] = {}
        self.ids: dict[int, dict[int, int]] = {}
        self.generated: int | None = None
        self.base: dict[tuple[int, int], tuple[int, float]] = {}

    def add_ids(self, ids: torch.Tensor, start: int, replace: bool = False) -> None:
        """Adds ids [B, n] from the position `start` on, where none are known; with `replace` everywhere."""
        for row, line in enumerate(ids.tolist()):
            known = self.ids.setdefault(row, {})
            for place, token in enumerate(line, start=start):
                if replace or place not in known:
                    known[place] = token

    def places(self, row: int) -> list[int]:
        """The positions of a row that are no padding."""
        return sorted(place for place, token in self.ids[row].items() if token != PADDING)

    def text(self, row: int, spell: Spell) -> TextRecord:
        """One row, its positions counted without padding."""
        places = self.places(row)
        index = {place: i for i, place in enumerate(places)}
        ids = [self.ids[row][place] for place in places]
        tokens = []
        for place, token, text in zip(places, ids, token_texts(spell, ids), strict=True):
            gate, size = self.written.get((row, place - 1), (None, None))
            other, chance = self.base.get((row, place), (None, None))
            tokens.append(
                TokenRecord(
                    text,
                    gate,
                    size,
                    index[place],
                    token if token >= 0 else None,
                    generated=self.generated is not None and place >= self.generated,
                    base=None if other is None else spell([other]),
                    base_probability=chance,
                )
            )
        steps = (step for (of, _), step in sorted(self.steps.items()) if of == row)
        return TextRecord(row, tuple(tokens), tuple(step.moved(lambda at: index.get(at, at)) for step in steps))


class Recording:
    """What `igc_trace` has recorded.

    Args:
        model: the causal LM that is watched, with or without PEFT around it.
        tokenizer: its tokenizer; None: see `igc_trace`.
        on_step: called with each step at once.
    """

    def __init__(self, model: Any, tokenizer: Any, on_step: Callable[[StepRecord], object] | None = None) -> None:
        self._model, self._causal_lm, self._on_step = model, wrapped_model(model), on_step
        if tokenizer is None:
            tokenizer = _find_tokenizer(self._causal_lm, active_config(model))
        self._spell = _speller(tokenizer)
        self._batches: list[_Batch] = []
        self._open: list[tuple[object, _Batch]] = []  # by the generation, the KV cache or the call

    # ------------------------------------------------------------------------------------------ what was recorded
    @property
    def texts(self) -> list[TextRecord]:
        """All texts, in the order in which they were begun."""
        return [batch.text(row, self._spell) for batch in self._batches for row in sorted(batch.ids)]

    @property
    def steps(self) -> list[StepRecord]:
        """The steps of all texts."""
        return [step for text in self.texts for step in text.steps]

    def to_json(self, *, prompts: bool = False) -> str:
        """The records as in `records.json_lines`."""
        return json_lines(self.texts, prompts=prompts)

    def print(self, file: TextIO | None = None) -> None:
        """Prints texts and steps, in colours if `file` (stdout) is a terminal."""
        print_texts(self.texts, file)

    def save_html(self, path: str | Path, title: str = "Trace") -> None:
        """Writes one page that needs no other file and no network; it contains the whole texts.

        Args:
            path: the file.
            title: heading of the page.
        """
        write(trace_page(self.texts, title), path)

    # ------------------------------------------------------------------------------------------ events
    def __call__(self, event: Step | Writing) -> None:
        """Stores one event; called by the forward passes of this thread."""
        if torch.compiler.is_compiling():  # a compiled graph has no place for Python objects: see `docs/tracing.md`
            return
        call = None if self._causal_lm is None else current_call(self._causal_lm)
        if call is None:  # another model's, or a second run in the backward pass
            return
        batch = self._batch_of(call)
        if isinstance(event, Step):
            self._add_steps(batch, event, call)
            return
        if call.generation is None:
            batch.add_ids(text_ids(call, event.gate[..., None], event.start), event.start)
        assert event.size is not None
        for row, place in event.active.nonzero().tolist():
            values = float(event.gate[row, place]), float(event.size[row, place])
            batch.written[row, event.start + place] = values

    def _batch_of(self, call: Call) -> _Batch:
        """The texts that a forward pass belongs to."""
        key: object = call
        if call.generation is not None:
            key = call.generation
        elif call.cache is not None:
            key = call.cache
        for other, batch in self._open:
            if other is key:
                return batch
        self._open = [pair for pair in self._open if not isinstance(pair[0], Call)]  # a pass is over with the next
        self._open.append((key, _Batch()))
        self._batches.append(self._open[-1][1])
        return self._open[-1][1]

    def _add_steps(self, batch: _Batch, event: Step, call: Call) -> None:
        """Stores the steps of one call."""
        assert event.ids is not None
        layer, name = active_layer(self._model)
        config = layer.igc_config[name]
        anchored = (event.anchors >= 0).nonzero().tolist()
        if not anchored:
            return
        batch.add_ids(event.ids, int(event.first))
        if call.generation is None and call.cache is None and call.input_ids is not None:
            batch.add_ids(text_ids(call, call.input_ids[..., None], 0), 0)
        for row, index in anchored:
            step = detailed(config, Place(event, row, index), config.token_table, self._spell)
            batch.steps[row, step.position] = step
            if self._on_step is not None:
                self._on_step(step)

    def finish(self, event: Generated) -> None:
        """Stores the finished texts of a `generate`."""
        if event.generation.model is not self._causal_lm:
            return
        batch = next((batch for key, batch in self._open if key is event.generation), None)
        if batch is None:  # neither a step nor a writing
            batch = _Batch()
            self._batches.append(batch)
        self._open = [pair for pair in self._open if pair[0] is not event.generation]
        if event.beams > 1:
            warnings.warn(
                "Beam search reorders the rows of a batch, so only the steps of prompts are recorded, no gates. "
                "Trace with `num_beams=1`.",
                stacklevel=5,
            )
            _without_beams(batch, event)
        batch.generated = event.start + event.prompt
        batch.add_ids(_unpadded(event), event.start, replace=True)

    def close(self) -> None:
        """Forgets which texts may go on, and with it their KV caches."""
        self._open = []

    # ------------------------------------------------------------------------------------------ the base
    def add_base(self) -> None:
        """Asks the model without the calculator what it would have said in place of each generated token.

        One forward pass per text, over prompt and answer, without anchors: there the output is bit for bit that of
        the base (with its other adapters, such as LoRA), and no switch is touched that another thread may depend on.
        """
        for batch in self._batches:
            if batch.generated is None:
                continue
            for row, known in batch.ids.items():
                places = batch.places(row)
                new = sum(place >= batch.generated for place in places)
                ids = [known[place] for place in places]
                if new and new < len(ids) and min(ids) >= 0:
                    found = self._ask_base(ids, new)
                    batch.base.update({(row, p): one for p, one in zip(places[-new:], found, strict=True)})

    def _ask_base(self, ids: Sequence[int], new: int) -> list[tuple[int, float]]:
        """The most probable token, and its probability, in place of each of the last `new` tokens."""
        model: Any = self._causal_lm
        tokens = torch.tensor([ids[:-1]], device=model.device)  # the last one predicts nothing that is needed
        arguments = {"logits_to_keep": new} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
        nowhere = torch.full((1, 1), -1, device=model.device)
        with torch.no_grad():
            output = model(
                tokens, attention_mask=torch.ones_like(tokens), use_cache=False, igc_anchors=nowhere, **arguments
            )
        best = output.logits[0, -new:].float().softmax(-1).max(-1)
        return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))


@contextmanager
def igc_trace(
    model: Any,
    tokenizer: Any = None,
    *,
    base: bool = False,
    on_step: Callable[[StepRecord], object] | None = None,
) -> Iterator[Recording]:
    """Records what the calculator reads and writes while the block runs `generate` or forward passes.

    Args:
        model: a causal LM with an active IGC adapter.
        tokenizer: its tokenizer. None: the one that is saved with the base model, if it is on this machine; else
            token ids are shown.
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
    if tokenizer is not None:
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


def _without_beams(batch: _Batch, event: Generated) -> None:
    """Keeps of the rows of beams only the steps of prompts, for each returned sequence."""
    prompts = event.generation.mask.shape[0]
    returned, end = len(event.sequences) // prompts, event.start + event.prompt
    steps = {}
    for (row, place), step in batch.steps.items():
        if place < end and row % event.beams == 0:
            for copy in range(returned):
                to = row // event.beams * returned + copy
                steps[to, place] = dataclasses.replace(step, row=to)
    batch.steps, batch.written, batch.ids = steps, {}, {}


def _find_tokenizer(model: Any, config: IGCConfig | None) -> Any:
    """The tokenizer that is saved with the base model on this machine, if the adapter was made for it; else None."""
    name = getattr(model, "name_or_path", "")
    if not name:
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(TINY_FOLDER if name == TINY else name, local_files_only=True)
        check_tokenizer(None if config is None else config.token_table, tokenizer)
    except (OSError, ValueError):  # not on this machine; another one
        return None
    return tokenizer


def _speller(tokenizer: Any) -> Spell:
    """Decodes tokens exactly; without a tokenizer their ids in brackets."""
    if tokenizer is None:
        return lambda ids: "".join(f"<{token}>" for token in ids)
    return lambda ids: tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
