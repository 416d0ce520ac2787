"""Tracing: what the calculator read, calculated and wrote while one prompt was answered.

In: a model with an IGC adapter, its tokenizer, a prompt. Out: a `Trace`: the greedy answer, every step (operands,
operator and result, with the probabilities of what was read) and every generated token with the gate that wrote it.
`Observer` can be used alone, around any forward pass or `generate` of one row. Nothing is changed by watching, and
nothing is compared with a right answer; see `evaluation` for that.

Shapes: A anchors, D digits of an operand, C = 11 digit classes, K operations, T positions; always one row.
Try it: `peft-igc trace --base tiny --adapter demo-output/adapter "What is 58 times 36?"`
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import torch

from . import state
from .adapters import check_tokenizer
from .calculator import Status
from .columns import NO_ARITHMETIC
from .config import IGCConfig
from .decoding import eval_mode, greedy, prompt_tokens
from .digits import PAD, decode
from .hooks import active_config
from .reading import Choice
from .steps import Step, Writing


_SHOWN = 10  # tokens before an anchor

__all__ = ["Observer", "Trace", "TracedNumber", "TracedStep", "TracedToken", "trace"]


@dataclass(frozen=True)
class TracedNumber:
    """An operand as read.

    Attributes:
        text: Its digits. `_` is a placeholder with a digit behind it, `...` stands behind a number that goes on
            after the last digit that is read; both are refused by the calculator.
        probability: Of the whole number: the product over its digits, the placeholders behind them and the sign.
        weakest: The least probable of these. In the token interface a number is read as a whole, so both are equal.
    """

    text: str
    probability: float
    weakest: float


@dataclass(frozen=True)
class TracedStep:
    """One reading and calculation.

    Attributes:
        position: Of the anchor, counted in tokens from the start of the text.
        text: What stands before it and at it, the last tokens of it.
        operands: As read; they mean nothing if the operator is `"none"`.
        operator: A symbol, or `"none"`.
        operator_probability: Of the operator.
        result: The number that was written, or None if the status is not `ok`.
        status: In lower case: `ok`, `none`, `overflow`, `undefined` or `inexact`.
    """

    position: int
    text: str
    operands: tuple[TracedNumber, TracedNumber]
    operator: str
    operator_probability: float
    result: str | None
    status: str


@dataclass(frozen=True)
class TracedToken:
    """One generated token.

    Attributes:
        text: The token, decoded alone.
        gate: Of what was written at the position that produced it; None if nothing was written there.
    """

    text: str
    gate: float | None


@dataclass(frozen=True)
class Trace:
    """What happened while one prompt was answered."""

    prompt: str
    answer: str
    steps: list[TracedStep] = field(default_factory=list)
    tokens: list[TracedToken] = field(default_factory=list)

    def format(self) -> str:
        """A page of text."""
        lines = [f"prompt     {self.prompt}"]
        for step in self.steps:
            lines.append(f"step       at token {step.position}, behind {step.text!r}, status {step.status}")
            if step.operator == NO_ARITHMETIC:
                lines.append(f"  operator   {NO_ARITHMETIC}  {_percent(step.operator_probability)}")
                continue
            first, second = step.operands
            width = max(len(first.text), len(second.text))
            lines.append(_number_line("operand 1", first, width))
            lines.append(f"  operator   {step.operator:<{width}}  {_percent(step.operator_probability)}")
            lines.append(_number_line("operand 2", second, width))
            lines.append(f"  result     {step.result if step.result is not None else 'no number is written'}")
        if not self.steps:
            lines.append("step       none: the text has no anchor")
        lines.append("tokens     gate of what was written to produce each one")
        for token in self.tokens:
            gate = "    -" if token.gate is None else f"{token.gate:5.3f}"
            lines.append(f"  {gate}      {token.text!r}")
        lines.append(f"answer     {self.answer}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return dataclasses.asdict(self)


def _number_line(title: str, number: TracedNumber, width: int) -> str:
    """An operand with its probabilities."""
    sure = _percent(number.probability)
    if number.weakest != number.probability:
        sure += f", least certain place {_percent(number.weakest)}"
    return f"  {title}  {number.text:<{width}}  {sure}"


def _percent(probability: float) -> str:
    """Rounded down, so that 100.00% means certainty."""
    return f"{math.floor(probability * 10_000) / 100:.2f}%"


class Observer:
    """Watches the calculator in this thread: `with Observer() as seen: model(...)`; for one row.

    Attributes:
        steps: By position of the anchor; a text that is read again without a cache gives each step once.
        gates: By position of the text, where something was written.
    """

    def __init__(self) -> None:
        self.steps: dict[int, tuple[Step, int]] = {}
        self.gates: dict[int, float] = {}

    def __enter__(self) -> Observer:
        state.thread.observers.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        state.thread.observers.remove(self)

    def __call__(self, seen: Step | Writing) -> None:
        """Keeps what the layer hands out.

        Raises:
            ValueError: More than one row.
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


def trace(model: Any, tokenizer: Any, prompt: str, *, raw: bool = False, max_new_tokens: int = 24) -> Trace:
    """Answers one prompt greedily and tells what the calculator did.

    Args:
        model: A causal LM with an active IGC adapter.
        tokenizer: Its tokenizer.
        prompt: A user message, or with `raw` a text to go on with.
        raw: Take the prompt as it stands instead of putting it through the chat template.
        max_new_tokens: Longest answer.

    Raises:
        ValueError: No active IGC adapter; no chat template and not `raw`; a prompt without a token.
    """
    config = _active_config(model)
    check_tokenizer(config, tokenizer)
    ids = torch.tensor(prompt_tokens(tokenizer, [prompt], raw), device=model.device)  # [1, T]
    with torch.no_grad(), eval_mode(model), Observer() as seen:
        output = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            generation_config=greedy(model, tokenizer, max_new_tokens),
        )
    steps = sorted(seen.steps.items())
    new = output[0, ids.shape[1] :].tolist()
    # The state at a position decides the token behind it.
    gates = [seen.gates.get(ids.shape[1] - 1 + index) for index in range(len(new))]
    return Trace(
        prompt=prompt,
        answer=tokenizer.decode(new, skip_special_tokens=True).strip(),
        steps=[
            _traced(step, index, position, _before(tokenizer, output[0], position), config.operations)
            for position, (step, index) in steps
        ],
        tokens=[TracedToken(tokenizer.decode([token]), gate) for token, gate in zip(new, gates, strict=True)],
    )


def _active_config(model: Any) -> IGCConfig:
    """The config of the active adapter."""
    config = active_config(model)
    if config is None:
        raise ValueError(
            f"`{type(model).__name__}` has no active IGC adapter, so there is nothing to trace. "
            "Load one with `PeftModel.from_pretrained(model, folder)`."
        )
    return config


def _before(tokenizer: Any, text: torch.Tensor, position: int) -> str:
    """The last tokens of a text [L] up to a position."""
    return tokenizer.decode(text[max(position - _SHOWN + 1, 0) : position + 1])


def _traced(step: Step, index: int, position: int, text: str, operations: list[str]) -> TracedStep:
    """Step `index` of [1, A] steps as text and floats."""
    choice = step.choice._replace(**{name: x[0, index].cpu() for name, x in step.choice._asdict().items()})
    operator = int(choice.operator)
    status = Status(int(step.result.status[0, index]))
    return TracedStep(
        position=position,
        text=text,
        operands=(_number(choice, 0), _number(choice, 1)),
        operator=operations[operator] if operator < len(operations) else NO_ARITHMETIC,
        operator_probability=float(choice.operator_chance),
        result=decode(step.result.digits[0, index], step.result.sign[0, index])[0] if status == Status.OK else None,
        status=status.name.lower(),
    )


def _number(choice: Choice, which: int) -> TracedNumber:
    """One of the two operands of a choice without leading dimensions."""
    found = choice.digits[which].tolist()
    more = found.pop() != PAD  # the place behind the last digit only tells that the number goes on
    while found and found[-1] == PAD:
        found.pop()
    text = "".join("_" if digit == PAD else str(digit) for digit in found)
    return TracedNumber(
        text=("-" if int(choice.signs[which]) else "") + text + ("..." if more else ""),
        probability=float(choice.operand_chances[which].prod()),
        weakest=float(choice.operand_chances[which].min()),
    )
