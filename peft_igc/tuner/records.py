"""The record of a step: what was read, what came of it, and why nothing was written.

`record_of` makes a `StepRecord` of texts and Python numbers wherever steps are shown: in `igc_steps`, answers, traces,
chats and audits; `inference.tracing` adds what only a trace has.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..mappings.decisions import ARITHMETIC, Decision, least_of, needed
from ..numbers.calculator import NO_ARITHMETIC, Result, Status
from ..numbers.digits import PAD, POINT, canonical
from ..text.values import Reason, Value
from ..text.vocabulary import UNSEEN
from .config import IGCConfig
from .steps import Step


Span = tuple[int, int]  # the positions of a first and a last token
# What each `StepRecord.reason` means, as a sentence without its end.
EXPLANATIONS: dict[str, str] = {reason.name.lower(): reason.text for reason in Reason} | {
    "no_arithmetic": "no arithmetic is read",
    "unsure": "the reading is less probable than `confidence`",
    "few_numbers": "fewer than two numbers that can be read",
    "unseen": "a part of the text is not known to the calculator",
    "overflow": "an operand or the result has more digits than are kept",
    "undefined": "a division by zero, or an operand that is no number",
    "inexact": "a division with a remainder, or one that does not end",
    "no_anchor": "the text has no anchor",
    "no_adapter": "no adapter is active",
}


@dataclass(frozen=True)
class NumberRecord:
    """An operand as it was read."""

    # its sign and digits. `_` is a placeholder followed by a digit, and a final `...` means that the number is longer
    # than the adapter's `num_digits`; the calculator refuses both.
    text: str
    probability: float  # probability of the number, in 0..1: the product over all its digit places and the sign
    # the smallest of these factors. In the token interface a number is read as a whole, so both are equal.
    weakest: float
    runner_up: str | None = None  # the most probable other number, None if the text has no other one
    runner_up_probability: float | None = None  # its probability, in 0..1


@dataclass(frozen=True)
class StepRecord:
    """One step of a text or of an answer. Only traces and audits have the fields after `confidence`."""

    # position of its anchor. In `igc_steps` the column of the returned `sequences`, negative in text from an earlier
    # call; in a trace counted in tokens from the beginning of the text, without padding.
    position: int
    status: str  # `ok`, `none`, `overflow`, `undefined` or `inexact`. Only a step with `ok` writes.
    # whether the answer spells the whole result after the anchor, and no longer number. None if that is not known: in
    # a trace, and in the hidden interface, which does not know the tokens of numbers.
    written: bool | None = None
    result: str | None = None  # the calculated number, None if the status is not `ok`
    # what was read, such as `58 * 36`; None if no arithmetic was read, for steps of an earlier call, and outside of
    # traces for two numbers whose calculation was refused
    expression: str | None = None
    reason: str | None = None  # why the step is silent, a key of `EXPLANATIONS`; None if the status is `ok`
    # whether `result` is another number than the exact value; False also where only the digits are known, in steps of
    # an earlier call
    rounded: bool = False
    # the probability in 0..1 of the reading, whose last bits depend on the batch, so that it is not compared, and the
    # `confidence` that it has to reach; None of rules and of steps of an earlier call
    probability: float | None = dataclasses.field(default=None, compare=False)
    confidence: float | None = None
    row: int = 0  # the text's row in its batch
    anchor: str = ""  # the text of the anchor's token
    before: str = ""  # the last tokens up to the anchor
    # the two operands that the network chose; meaningless if the operator is `"none"`
    operands: tuple[NumberRecord, ...] = ()
    operator: str = NO_ARITHMETIC  # a symbol, or `"none"`
    # its probability, in 0..1; for an expression in symbols that arithmetic is asked
    operator_probability: float | None = None
    operator_runner_up: str | None = None  # the second most probable operator
    operator_runner_up_probability: float | None = None  # its probability, in 0..1
    # first and last position of an expression in symbols, which rules read; None if the network pointed at the
    # operands
    expression_span: Span | None = None
    reductions: tuple[str, ...] = ()  # the steps in which that expression was evaluated, such as `4 * 5 = 20`
    # first and last position of each number that was read; empty in the hidden interface, which reads no tokens
    spans: tuple[Span, ...] = ()
    culprit: str | None = None  # the text that caused the refusal, or None
    culprit_position: int | None = None  # position of its first token, or None

    @property
    def by_rule(self) -> bool:
        """Whether rules read an expression in symbols."""
        return self.expression_span is not None

    @property
    def refusal(self) -> str | None:
        """Why there is no result although one may have been asked for, or None."""
        return None if self.reason in (None, "no_arithmetic") else EXPLANATIONS[str(self.reason)]

    @property
    def explanation(self) -> str:
        """Why the step wrote nothing, as a sentence without its end; empty for the status `ok`."""
        at = "" if self.culprit is None else f" (at {self.culprit!r})"
        if self.reason == "unsure" and self.confidence is not None and self.probability is not None:
            at = f" ({percent(self.probability)} of {100 * self.confidence:g}%){at}"
        return "" if self.reason is None else EXPLANATIONS[self.reason] + at

    @property
    def calculation(self) -> str:
        """The calculation in one line, such as `58 * 36 = 2088`, or `10 / 3 ≈ 3.33` if it is rounded."""
        read = self.expression or "no arithmetic"
        return read if self.result is None else f"{read} {'≈' if self.rounded else '='} {self.result}"

    @property
    def summary(self) -> str:
        """The step in one line: the calculation and how sure it is, or why the calculator is silent."""
        if self.status != "ok":
            read = "" if self.expression is None else f" on {self.expression}"
            return f"silent{read}: {self.explanation}"
        if self.by_rule:
            return f"{self.calculation} (by rule)"
        return self.calculation if self.probability is None else f"{self.calculation} ({percent(self.probability)})"

    def moved(self, move: Callable[[int], int]) -> StepRecord:
        """The step with all positions changed by a function."""
        spans = tuple((move(first), move(last)) for first, last in self.spans)
        whole, culprit = self.expression_span, self.culprit_position
        return dataclasses.replace(
            self,
            position=move(self.position),
            expression_span=None if whole is None else (move(whole[0]), move(whole[1])),
            spans=spans,
            culprit_position=None if culprit is None else move(culprit),
        )


def percent(probability: float) -> str:
    """In per cent, rounded down so that 100.00% means certainty."""
    return f"{math.floor(probability * 10_000) / 100:.2f}%"


@dataclass(frozen=True, eq=False)
class Place:
    """One step among the [B, A] steps of an event."""

    event: Step
    row: int
    index: int

    def of(self, x: torch.Tensor) -> torch.Tensor:
        """The part of a tensor [B, A, ...] that belongs to the step."""
        return x[self.row, self.index]

    @property
    def decision(self) -> Decision | None:
        """What was decided on the host, None where the network alone decides."""
        return self.event.decision(self.row, self.index)


def record_of(
    config: IGCConfig, position: int, outcome: Result, place: Place | None, written: bool | None = None
) -> StepRecord:
    """The record of a step with a result, which has no dimensions B and A.

    `place` is the step in its event; None for a step of an earlier call. `written` is for the status `ok`.
    """
    status, decision = Status(int(outcome.status)), None if place is None else place.decision
    ok, probability, least = status == Status.OK, None, None
    if decision is None and place is not None:
        choice, least = place.event.choice, least_of(config.confidence, ARITHMETIC)
        probability = None if choice is None else float(place.of(choice.probability))
    elif decision is not None and not decision.said.is_final:
        # The token interface never writes what is rather not asked.
        probability, least = decision.probability, needed(config.confidence, decision.kind)
    return StepRecord(
        position=position,
        status=status.name.lower(),
        written=written if ok else False,
        result=canonical(outcome.digits[None], outcome.sign[None], outcome.scale[None])[0] if ok else None,
        expression=None if place is None else _expression(config, place),
        reason=None if ok else _reason(config, status, place),
        rounded=ok and decision is not None and isinstance(decision.found, Value) and decision.found.rounded,
        probability=probability,
        confidence=least,
    )


def _reason(config: IGCConfig, status: Status, place: Place | None) -> str:
    """Why a step without a result is silent, a key of `EXPLANATIONS`."""
    if place is None:
        return "few_numbers" if status == Status.NONE else status.name.lower()
    if place.decision is not None:
        return place.decision.silence or status.name.lower()
    if status != Status.NONE:
        return status.name.lower()
    event: Any = place.event  # of the hidden interface
    before = event.ids[place.row, : int(place.of(event.anchors)) - event.first + 1]
    if bool((before == UNSEEN).any()):
        return "unseen"
    none = int(place.of(event.reading.operator).argmax()) == len(config.operations)
    return "no_arithmetic" if none else "unsure"


def _expression(config: IGCConfig, place: Place) -> str | None:
    """What a step has read as text: the expression in symbols, or two numbers and an operator."""
    decision = place.decision
    found = None if decision is None else decision.said.found if decision.said.ruled else decision.found
    if found is not None:
        return "".join(_spaced([item.plain for item in found.items])).strip() or None
    choice = place.event.choice
    operator = len(config.operations) if choice is None else int(place.of(choice.operator))
    if choice is None or operator >= len(config.operations):
        return None
    digits, signs = place.of(choice.digits).tolist(), place.of(choice.signs).tolist()
    left, right = (number_text(number, sign) for number, sign in zip(digits, signs, strict=True))
    return f"{left} {config.operations[operator]} {right}"


def _spaced(texts: Sequence[str]) -> Iterator[str]:
    """Items with spaces around operators, none inside of brackets, and none after a sign."""
    before = "("
    for text in texts:
        if text in "+-" and before in "(+-*/^of":  # a sign
            yield text
        else:
            yield f" {text} " if text in ("+", "-", "*", "/", "of") else text + " " * (text == ",")
        before = text


def number_text(digits: Sequence[int], sign: int) -> str:
    """A number of D + 1 digit classes as text; `_` is a placeholder before a digit, and a final `...` means that the
    number is longer than D digits."""
    *found, last = digits
    while found and found[-1] == PAD:
        found.pop()
    text = "".join({PAD: "_", POINT: "."}.get(digit, str(digit)) for digit in found)
    return ("-" if sign else "") + text + ("..." if last != PAD else "")
