"""Tracing: `igc_trace` records every step and every token while a model runs.

    with igc_trace(model, tokenizer) as trace:
        model.generate(**batch, max_new_tokens=20)
    trace.print(); trace.save_html("trace.html")

In: the events of `call.observing`. Out: a `TextRecord` per row, with tokens and with steps that have all fields of a
`StepRecord`. The events belong to a thread, so a block sees what its own thread runs, of its own model.

Shapes: B rows, A anchors per row, n tokens at hand, W places of a reading, K operations.
Try it: `peft-igc trace --base tiny --adapter tiny "What is 58 times 36?"`
"""

import dataclasses
import inspect
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import torch

from ..mappings.decisions import Said
from ..mappings.places import number_runs
from ..mappings.readings import Choice, Mark, Pointing
from ..numbers.calculator import NO_ARITHMETIC, Result
from ..numbers.digits import PAD
from ..numbers.tokenizer_profile import check_tokenizer
from ..text.vocabulary import PADDING
from ..tuner.call import Call, current_call, observing, repeat_rows, text_ids
from ..tuner.config import IGCConfig
from ..tuner.hooks.wrapper import active_config, wrapped_model
from ..tuner.records import NumberRecord, Place, Span, StepRecord, number_text, record_of
from ..tuner.steps import Generated, Step, Writing
from .pages import trace_page, write
from .records import Spell, TextRecord, TokenRecord, json_lines, token_texts


_SHOWN = 10  # number of tokens shown up to an anchor


class _Batch:
    """The texts of one `generate`, or of the forward passes of one KV cache, while they grow.

    Positions are those of the events: padding is counted.
    """

    def __init__(self) -> None:
        # By row and position; a text that is read repeatedly (without a KV cache) has each step once.
        self.steps: dict[tuple[int, int], StepRecord] = {}
        self.written: dict[tuple[int, int], tuple[float, float]] = {}  # gate and relative size of the update
        self.ids: dict[int, dict[int, int]] = {}  # also `EMBEDDED`, `UNSEEN` and `PADDING`
        self.generated: int | None = None  # position of the first token that `generate` made, if it did

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
    """What `igc_trace`, whose arguments it has, has recorded.

    `texts` are all texts, in the order in which they were begun; empty before the end of the block.
    """

    def __init__(self, model: Any, tokenizer: Any, on_step: Callable[[StepRecord], object] | None) -> None:
        self.texts: list[TextRecord] = []
        self._model, self._on_step = model, on_step
        self._causal_lm: Any = wrapped_model(model)
        self._spell: Spell = lambda ids: tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
        self._batches: list[_Batch] = []
        # The batches that may go on, by the generation, the KV cache or the call, which are not kept alive.
        self._open: weakref.WeakKeyDictionary[Any, _Batch] = weakref.WeakKeyDictionary()

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
        for row, place in event.active.nonzero().tolist():
            values = float(event.gate[row, place]), float(event.size[row, place])
            batch.written[row, event.start + place] = values

    def _batch_of(self, key: object) -> _Batch:
        """The texts of a generation, a KV cache, or of a forward pass without either."""
        if key not in self._open:
            self._open[key] = _Batch()
            self._batches.append(self._open[key])
        return self._open[key]

    def _add_steps(self, batch: _Batch, event: Any, call: Call) -> None:
        anchored = (event.anchors >= 0).nonzero().tolist()
        if not anchored:
            return
        batch.add_ids(event.ids, event.first)
        if call.generation is None and call.cache is None and call.input_ids is not None:
            batch.add_ids(text_ids(call, call.input_ids[..., None], 0), 0)
        config: Any = active_config(self._model)
        for row, index in anchored:
            step = _detailed(config, Place(event, row, index), self._spell)
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

    def add_base(self) -> None:
        """Asks the model without the calculator what it would have said in place of each generated token.

        One forward pass per text, over prompt and answer, without anchors: there the output is bit for bit that of
        the base (with its other adapters, such as LoRA), and no switch is touched that another thread may depend on.
        """
        model = self._causal_lm
        for index, text in enumerate(self.texts):
            ids, new = [token.id for token in text.tokens], len(text.generated)
            if None in ids or not 0 < new < len(ids):
                continue
            tokens = torch.tensor([ids[:-1]], device=model.device)  # the last one predicts nothing that is needed
            arguments: dict[str, Any] = {"use_cache": False, "attention_mask": torch.ones_like(tokens)}
            if "logits_to_keep" in inspect.signature(model.forward).parameters:
                arguments["logits_to_keep"] = new
            with torch.no_grad():
                output = model(tokens, igc_anchors=torch.full_like(tokens[:, :1], -1), **arguments)
            chances, best = output.logits[0, -new:].float().softmax(-1).max(-1)
            made = [
                dataclasses.replace(token, base=self._spell([other]), base_probability=chance)
                for token, other, chance in zip(text.generated, best.tolist(), chances.tolist(), strict=True)
            ]
            self.texts[index] = dataclasses.replace(text, tokens=(*text.tokens[:-new], *made))


@contextmanager
def igc_trace(
    model: Any, tokenizer: Any, *, base: bool = False, on_step: Callable[[StepRecord], object] | None = None
) -> Iterator[Recording]:
    """Records what the calculator reads and writes while the block runs `generate` or forward passes.

    Args:
        model, tokenizer: a causal LM with an active IGC adapter, and its tokenizer.
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


# ------------------------------------------------------------------------------------------ what a step has read
def _detailed(config: IGCConfig, place: Place, spell: Spell) -> StepRecord:
    """The record of a step with the fields of a trace, its position counted as in the event."""
    event: Any = place.event  # observers see all readings
    decision = place.decision
    ids = event.ids[place.row].tolist()  # [n]
    last = int(place.of(event.anchors)) - event.first
    choice = Choice(*(place.of(x).cpu() for x in event.reading.choose()))
    asked = place.of(event.reading.operator).float().softmax(-1).cpu()  # [K + 1], the last class is "none"
    by_rule = decision.said if decision is not None and decision.said.ruled else None
    culprit = None if decision is None or decision.culprit[1] < 0 else decision.culprit
    operator = int(asked.argmax()) if by_rule else int(choice.operator)  # the network decides only whether it is asked
    second = int(torch.where(torch.arange(len(asked)) == operator, -1.0, asked).argmax())
    symbols = [*config.operations, NO_ARITHMETIC]
    at = _places(place, operator)
    reductions = () if by_rule is None else by_rule.found.reductions  # such as `4 * 5 = 20`

    def text(span: Span) -> str:
        return spell([token for token in ids[span[0] : span[1] + 1] if token >= 0])

    found = dataclasses.replace(
        record_of(config, last, Result(*(place.of(x).cpu() for x in event.result)), place),
        row=place.row,
        anchor=text((last, last)),
        before=text((max(last - _SHOWN + 1, 0), last)),
        operands=_operands(place, choice, operator, at),
        operator=symbols[operator],
        operator_probability=float(1 - asked[-1]) if by_rule else float(choice.operator_chance),
        operator_runner_up=None if by_rule else symbols[second],
        operator_runner_up_probability=None if by_rule else float(asked[second]),
        expression_span=None if by_rule is None else by_rule.tokens,
        reductions=tuple(f"{one} = refused" if one.result is None else str(one) for one in reductions),
        spans=_spans(config, place, by_rule, () if operator == len(config.operations) else at),
        culprit=None if culprit is None else text(culprit) or None,
        culprit_position=None if culprit is None else culprit[0],
    )
    return found.moved(lambda at: at + event.first)


def _places(place: Place, operator: int) -> list[int]:
    """The places of the numbers that an operation takes; in the hidden interface its two slots."""
    reading = place.event.reading
    if not isinstance(reading, Pointing):
        return [0, 1]
    count = reading.takes[operator] if operator < len(reading.takes) else 2
    pair: list[int] = place.of(reading.places).tolist()
    return pair[:count] if count else place.of(reading.marks).argmax(-1).nonzero().flatten().tolist()


def _spans(config: IGCConfig, place: Place, by_rule: Said | None, at: Sequence[int]) -> tuple[Span, ...]:
    """First and last index of the numbers that a step read: those of the expression, or those pointed at."""
    event: Any = place.event  # as in `_detailed`
    if (table := config.token_table) is None:  # the hidden interface
        return ()
    runs = number_runs(table, event.ids[place.row].tolist())
    if by_rule is not None:
        chosen = [run for run in runs if by_rule.tokens[0] <= run.first <= by_rule.tokens[1]]
    else:
        begins, positions = {run.first: run for run in runs}, place.of(event.reading.positions).tolist()
        chosen = [begins[positions[one]] for one in at if positions[one] in begins]
    return tuple((run.first, run.last) for run in chosen)


def _operands(place: Place, choice: Choice, operator: int, at: Sequence[int]) -> tuple[NumberRecord, ...]:
    """The operands of a step, with its `choice` without the dimensions B and A."""
    reading: Any = place.event.reading
    points = isinstance(reading, Pointing)
    if points and operator < len(reading.takes) and not reading.takes[operator]:  # marks say which ones are operands
        chances, marks = place.of(reading.marks).max(-1)
        digits = place.of(reading.digits).tolist()
        chosen = [(number_text(digits[one], int(marks[one] == Mark.NEGATED)), float(chances[one].exp())) for one in at]
        return tuple(NumberRecord(text, chance, chance) for text, chance in chosen)
    return tuple(
        NumberRecord(
            number_text(choice.digits[which].tolist(), int(choice.signs[which])),
            float(choice.operand_chances[which].prod()),
            float(choice.operand_chances[which].min()),
            *(_other_place if points else _other_digit)(place, choice, which),
        )
        for which in range(len(at))
    )


def _other_place(place: Place, choice: Choice, which: int) -> tuple[str | None, float | None]:
    """The most probable other number of the text: its text, and the probability of all places that have it."""
    reading: Any = place.event.reading
    chances = place.of(reading.scores)[which].exp().cpu()  # [W, 2]
    digits, chosen = place.of(reading.digits).cpu(), tuple(choice.digits[which].tolist())
    numbers: dict[tuple[int, ...], torch.Tensor] = {}
    for at in (digits[:, 0] != PAD).nonzero().flatten().tolist():
        value = tuple(digits[at].tolist())
        if value != chosen:
            numbers[value] = numbers.get(value, torch.zeros(2)) + chances[at]
    if not numbers:
        return None, None
    value, found = max(numbers.items(), key=lambda pair: float(pair[1].sum()))
    return number_text(list(value), int(found.argmax())), float(found.sum())


def _other_digit(place: Place, choice: Choice, which: int) -> tuple[str | None, float | None]:
    """The number with the second most probable class in the one slot where this costs the least."""
    reading: Any = place.event.reading
    digits, signs = (place.of(x)[which].float().softmax(-1).cpu() for x in reading[:2])
    chances, classes = zip(*(slot.topk(2) for slot in [*digits, signs]), strict=True)
    ratios = [float(chance[1] / chance[0]) for chance in chances]
    slot = max(range(len(ratios)), key=lambda one: ratios[one])
    values = [*choice.digits[which].tolist(), int(choice.signs[which])]
    values[slot] = int(classes[slot][1])
    return number_text(values[:-1], values[-1]), float(choice.operand_chances[which].prod()) * ratios[slot]
