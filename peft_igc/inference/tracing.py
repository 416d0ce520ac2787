"""Tracing: shows how the calculator took part in the answer to one prompt.

In: a model with an IGC adapter, its tokenizer, a prompt. Out: a `Trace` with the greedy answer, every step (operands,
operator and result, with the probabilities of the reading) and every generated token with its gate. `Observer` can be
used alone, around any forward pass or `generate` of one row. Observing changes nothing. Answers are not compared with
targets; see `evaluation` for that.

Shapes: L tokens of the text so far, A anchors per row, P tokens of a prompt; there is always one row.
Try it: `peft-igc trace --base tiny --adapter demo-output/adapter "What is 58 times 36?"`, `pytest
tests/inference/test_tracing.py`
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import torch

from ..expressions.grammar import reductions
from ..expressions.items import Items
from ..expressions.reasons import REASON_TEXTS, Reason
from ..mappings.readings import Choice
from ..mappings.symbol_steps import Ruling
from ..numbers.calculator import NO_ARITHMETIC, Status
from ..numbers.digits import PAD, decode
from ..numbers.tokenizer_profile import check_tokenizer
from ..tuner.call import observing
from ..tuner.config import IGCConfig
from ..tuner.hooks import active_config
from ..tuner.steps import Step, Writing
from .decoding import eval_mode, greedy, prompt_tokens
from .equals import Equals, equals_of, format_equals


_SHOWN = 10  # number of tokens shown up to an anchor

__all__ = ["Observer", "Trace", "TracedNumber", "TracedStep", "TracedToken", "trace"]


@dataclass(frozen=True)
class TracedNumber:
    """An operand as it was read.

    Attributes:
        text: its sign and digits. `_` is a placeholder followed by a digit, and a final `...` means that the number is
            longer than the adapter's `num_digits`; the calculator refuses both.
        probability: probability of the number, in 0..1: the product over all its digit places and the sign.
        weakest: the smallest of these factors. In the token interface a number is read as a whole, so both are equal.
    """

    text: str
    probability: float
    weakest: float


@dataclass(frozen=True)
class TracedStep:
    """One reading and calculation.

    Attributes:
        position: position of the anchor, counted in tokens from the beginning of the text.
        text: the last tokens up to the anchor.
        operands: the two operands; meaningless if the operator is `"none"`.
        operator: a symbol, or `"none"`.
        operator_probability: probability of the operator, in 0..1.
        result: the number that was calculated, or None if the status is not `ok`.
        status: `ok`, `none`, `overflow`, `undefined` or `inexact`.
        expression: the expression in symbols that the rules read, or None if the network pointed at the operands.
        reductions: the steps in which it was evaluated, such as `4 * 5 = 20`.
        refusal: why the rules gave no result, or None if they did not refuse.
        culprit: the text of the token that caused the refusal, or None.
    """

    position: int
    text: str
    operands: tuple[TracedNumber, TracedNumber]
    operator: str
    operator_probability: float
    result: str | None
    status: str
    expression: str | None = None
    reductions: tuple[str, ...] = ()
    refusal: str | None = None
    culprit: str | None = None


@dataclass(frozen=True)
class TracedToken:
    """One generated token.

    Attributes:
        text: the token, decoded alone.
        gate: gate, in 0..1, at the position that predicted the token; None if nothing was written there.
    """

    text: str
    gate: float | None


@dataclass(frozen=True)
class Trace:
    """The answer to one prompt, with all steps, generated tokens, and every `=` of the text."""

    prompt: str
    answer: str
    steps: list[TracedStep] = field(default_factory=list)
    tokens: list[TracedToken] = field(default_factory=list)
    equals: list[Equals] = field(default_factory=list)

    def format(self) -> str:
        """The trace as text for a terminal."""
        lines = [f"prompt     {self.prompt}"]
        for step in self.steps:
            lines.append(f"step       at token {step.position}, after {step.text!r}, status {step.status}")
            if step.refusal is not None:
                cause = "" if step.culprit is None else f" (at {step.culprit!r})"
                lines.append(f"  refused    {step.refusal}{cause}")
            if step.operator == NO_ARITHMETIC:
                lines.append(f"  operator   {NO_ARITHMETIC}  {_percent(step.operator_probability)}")
                continue
            if step.expression is not None:
                lines.append(f"  expression {step.expression}  by rule; asked: {_percent(step.operator_probability)}")
                lines += [f"  reduced    {reduction}" for reduction in step.reductions]
                lines.append(f"  result     {step.result if step.result is not None else 'no number is written'}")
                continue
            first, second = step.operands
            width = max(len(first.text), len(second.text))
            lines.append(_number_line("operand 1", first, width))
            lines.append(f"  operator   {step.operator:<{width}}  {_percent(step.operator_probability)}")
            lines.append(_number_line("operand 2", second, width))
            lines.append(f"  result     {step.result if step.result is not None else 'no number is written'}")
        if not self.steps:
            lines.append("step       none: the text has no anchor")
        lines.append("tokens     gate at the position that predicted each one (-: nothing written)")
        for token in self.tokens:
            gate = "    -" if token.gate is None else f"{token.gate:5.3f}"
            lines.append(f"  {gate}      {token.text!r}")
        if self.equals:
            lines.append(format_equals(self.equals))
        lines.append(f"answer     {self.answer}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The trace as a dictionary for JSON."""
        return dataclasses.asdict(self)


def _number_line(title: str, number: TracedNumber, width: int) -> str:
    """A line with an operand and its probabilities."""
    sure = _percent(number.probability)
    if number.weakest != number.probability:
        sure += f", least certain place {_percent(number.weakest)}"
    return f"  {title}  {number.text:<{width}}  {sure}"


def _percent(probability: float) -> str:
    """In per cent, rounded down so that 100.00% means certainty."""
    return f"{math.floor(probability * 10_000) / 100:.2f}%"


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


def trace(model: Any, tokenizer: Any, prompt: str, *, raw: bool = False, max_new_tokens: int = 24) -> Trace:
    """Answers one prompt greedily and records the calculator's part in it.

    Args:
        model: a causal LM with an active IGC adapter.
        tokenizer: the model's tokenizer.
        prompt: a user message, or with `raw` a text to continue.
        raw: tokenize the prompt without the chat template.
        max_new_tokens: maximum length of the answer.

    Raises:
        ValueError: if no IGC adapter is active, if the adapter was made for another tokenizer, if there is no chat
            template and `raw` is not set, or if the prompt has no tokens.
    """
    config = _active_config(model)
    check_tokenizer(config.token_table, tokenizer)
    ids = torch.tensor(prompt_tokens(tokenizer, [prompt], raw), device=model.device)  # [1, P]
    with torch.no_grad(), eval_mode(model), observing(Observer()) as seen:
        output = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            generation_config=greedy(model, tokenizer, max_new_tokens),
        )
    steps = sorted(seen.steps.items())
    new = output[0, ids.shape[1] :].tolist()
    # The hidden state at a position predicts the next token, so the first gate is that of the prompt's last token.
    gates = [seen.gates.get(ids.shape[1] - 1 + index) for index in range(len(new))]
    traced = [_traced(step, index, position, tokenizer, output[0], config) for position, (step, index) in steps]
    outcomes = {step.position: (step.status, step.result) for step in traced}
    return Trace(
        prompt=prompt,
        answer=tokenizer.decode(new, skip_special_tokens=True).strip(),
        steps=traced,
        tokens=[TracedToken(tokenizer.decode([token]), gate) for token, gate in zip(new, gates, strict=True)],
        equals=equals_of(tokenizer, output[0].tolist(), outcomes),
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
    """The last tokens of a text [L] up to a position, decoded."""
    return tokenizer.decode(text[max(position - _SHOWN + 1, 0) : position + 1])


def _traced(
    step: Step, index: int, position: int, tokenizer: Any, ids: torch.Tensor, config: IGCConfig
) -> TracedStep:
    """Step `index` of an event with [1, A] steps, as text and Python numbers; `ids` [L] is the whole text."""
    choice = step.choice._replace(**{name: x[0, index].cpu() for name, x in step.choice._asdict().items()})
    operator = int(choice.operator)
    status = Status(int(step.result.status[0, index]))
    asked = step.reading.operator[0, index].softmax(-1)
    ruled = step.ruling is not None and bool(step.ruling.ruled[index])
    if ruled:  # the network decides only whether arithmetic is asked
        operator = int(asked.argmax())
    return TracedStep(
        position=position,
        text=_before(tokenizer, ids, position),
        operands=(_number(choice, 0), _number(choice, 1)),
        operator=config.operations[operator] if operator < len(config.operations) else NO_ARITHMETIC,
        operator_probability=float(1 - asked[-1]) if ruled else float(choice.operator_chance),
        result=decode(step.result.digits[0, index], step.result.sign[0, index])[0] if status == Status.OK else None,
        status=status.name.lower(),
        **({} if step.ruling is None else _by_rule(step.ruling, index, int(step.first), tokenizer, ids, config)),
    )


def _by_rule(
    ruling: Ruling, index: int, start: int, tokenizer: Any, ids: torch.Tensor, config: IGCConfig
) -> dict[str, Any]:
    """The fields of a `TracedStep` that the rules give; `start` is the position of the ruling's first token."""
    reason, culprit = Reason(int(ruling.reason[index])), int(ruling.culprit[index])
    found: dict[str, Any] = {}
    if bool(ruling.ruled[index]):
        first, last = (start + int(x[index]) for x in (ruling.expression.first, ruling.expression.last))
        found["expression"] = tokenizer.decode(ids[first : last + 1]).strip()
        items = Items(*(x[index : index + 1] for x in ruling.expression.items))
        settings: dict[str, Any] = {"result_digits": config.result_digits, "division": config.division}
        steps = reductions(items, max_operands=config.max_operands, **settings)[0]
        found["reductions"] = tuple(
            f"{one.left} {one.symbol} {one.right} = {'refused' if one.result is None else one.result}" for one in steps
        )
    if reason not in (Reason.NONE, Reason.NO_EXPRESSION):
        found["refusal"] = REASON_TEXTS[reason]
        found["culprit"] = tokenizer.decode(ids[start + culprit : start + culprit + 1]) if culprit >= 0 else None
    return found


def _number(choice: Choice, which: int) -> TracedNumber:
    """Operand `which` (0 or 1) of a choice without the dimensions B and A."""
    found = choice.digits[which].tolist()
    more = found.pop() != PAD  # a digit in the place D + 1: longer than `num_digits`
    while found and found[-1] == PAD:
        found.pop()
    text = "".join("_" if digit == PAD else str(digit) for digit in found)
    return TracedNumber(
        text=("-" if int(choice.signs[which]) else "") + text + ("..." if more else ""),
        probability=float(choice.operand_chances[which].prod()),
        weakest=float(choice.operand_chances[which].min()),
    )
