"""Tracing: shows how the calculator took part in the answer to one prompt.

In: a model with an IGC adapter, its tokenizer, a prompt. Out: a `Trace` with the greedy answer, every step (operands,
operator and result, with the probabilities of the reading) and every generated token with its gate. To record what
another program generates see `recording`. `Observer` collects the bare events of one row. Observing changes nothing.
Answers are not compared with targets; see `evaluation` for that.

Shapes: A anchors per row, P tokens of a prompt; there is always one row.
Try it: `peft-igc trace --base tiny --adapter demo-output/adapter "What is 58 times 36?"`, `pytest
tests/inference/test_tracing.py`
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch

from ..tuner.steps import Step, Writing
from .decoding import end_tokens, eval_mode, greedy, prompt_tokens
from .equals import Equals, equals_of, format_equals
from .evaluation import answers_of
from .recording import RecordedText, igc_trace
from .records import TracedNumber, TracedStep, TracedToken
from .trace_text import format_trace


__all__ = ["Observer", "Trace", "TracedNumber", "TracedStep", "TracedToken", "trace"]


@dataclass(frozen=True)
class Trace:
    """The answer to one prompt, with all steps and generated tokens.

    Attributes:
        prompt: the prompt.
        answer: the answer, without special tokens.
        steps: the steps, in the order of their anchors.
        tokens: the generated tokens, in their order.
        equals: every `=` of the text, and whether it was calculated.
        text: the record of the whole text, for `trace_page`; None if the trace was not made by `trace`.
        source: where the answer comes from (`evaluation.Answer.source`).
    """

    prompt: str
    answer: str
    steps: list[TracedStep] = field(default_factory=list)
    tokens: list[TracedToken] = field(default_factory=list)
    equals: list[Equals] = field(default_factory=list)
    text: RecordedText | None = None
    source: str = ""

    def format(self) -> str:
        """The trace as text for a terminal."""
        lines = [f"prompt     {self.prompt}", *format_trace(self.steps, self.tokens)]
        if self.equals:
            lines.append(format_equals(self.equals))
        lines += [f"answer     {self.answer}", f"source     {self.source}"]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Prompt, answer, steps and generated tokens as a dictionary for JSON."""
        fields = dataclasses.asdict(dataclasses.replace(self, text=None))
        del fields["text"]
        return fields


class Observer:
    """Collects the steps and gates of one row: `with observing(Observer()) as seen: model(...)`.

    Attributes:
        steps: event and index of each step, by position of its anchor. A text that is read repeatedly (`generate`
            without a KV cache) has each step once.
        gates: gate by position in the text, where something was written.
    """

    def __init__(self) -> None:
        self.steps: dict[int, tuple[Step, int]] = {}
        self.gates: dict[int, float] = {}

    def __call__(self, seen: Step | Writing) -> None:
        """Stores one event.

        Raises:
            ValueError: if the batch has more than one row.
        """
        rows = (seen.anchors if isinstance(seen, Step) else seen.active).shape[0]
        if rows != 1:
            raise ValueError(f"A batch of {rows} rows cannot be traced. Pass one prompt at a time, without beams.")
        if isinstance(seen, Step):
            for index, position in enumerate(seen.anchors[0].tolist()):
                if position >= 0:
                    self.steps[position] = (seen, index)
            return
        places = zip(seen.active[0].tolist(), seen.gate[0].tolist(), strict=True)
        for position, (active, gate) in enumerate(places, start=seen.start):
            if active:
                self.gates[position] = gate


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
    with torch.no_grad(), eval_mode(model), igc_trace(model, tokenizer, base=base) as recording:
        ids = torch.tensor(prompt_tokens(tokenizer, [prompt], raw), device=model.device)  # [1, P]
        settings = greedy(model, tokenizer, max_new_tokens)
        settings.return_dict_in_generate = True
        output = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings)
    (text,) = recording.texts
    (answer,) = answers_of(tokenizer, output, ids.shape[1], end_tokens(model, tokenizer))
    outcomes = {step.position: (step.status, step.result) for step in text.steps}
    equals = equals_of(tokenizer, output.sequences[0].tolist(), outcomes)
    return Trace(prompt, answer.text.strip(), list(text.steps), text.generated, equals, text, answer.source)
