"""Records of a trace: what one step read and calculated, and one token with what was written before it.

In: a `Step` event of a forward pass. Out: a `TracedStep` of texts and Python numbers, without tensors. Also texts of
single tokens (`token_texts`) and the explanation of a step that wrote nothing. Collecting is in `recording`.

Shapes: B rows, A anchors per row, n tokens at hand, W places of a reading.
Try it: `pytest tests/inference/test_recording.py`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..mappings.decisions import Decision
from ..mappings.readings import Choice, Pointing, Reading
from ..numbers.calculator import NO_ARITHMETIC, Status
from ..numbers.digits import PAD, canonical
from ..numbers.places import Run, number_runs
from ..numbers.token_table import TokenTable
from ..tuner.config import IGCConfig
from ..tuner.step_log import EXPLANATIONS, number_text, reason_of
from ..tuner.steps import Step


Spell = Callable[[Sequence[int]], str]  # the text of token ids
Span = tuple[int, int]  # the positions of a first and a last token

_SHOWN = 10  # number of tokens shown up to an anchor
_MOST_PIECES = 8  # tokens of one character: UTF-8 has four bytes, and some tokenizers add one in front

__all__ = [
    "Pieces",
    "Span",
    "Spell",
    "TracedNumber",
    "TracedStep",
    "TracedToken",
    "explanation",
    "percent",
    "step_record",
    "token_texts",
]


@dataclass(frozen=True)
class TracedNumber:
    """An operand as it was read.

    Attributes:
        text: its sign and digits. `_` is a placeholder followed by a digit, and a final `...` means that the number is
            longer than the adapter's `num_digits`; the calculator refuses both.
        probability: probability of the number, in 0..1: the product over all its digit places and the sign.
        weakest: the smallest of these factors. In the token interface a number is read as a whole, so both are equal.
        runner_up: the most probable other number, None if the text has no other one.
        runner_up_probability: its probability, in 0..1.
    """

    text: str
    probability: float
    weakest: float
    runner_up: str | None = None
    runner_up_probability: float | None = None


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
        refusal: why there is no result although one may have been asked for, or None.
        culprit: the text that caused the refusal, or None.
        row: the text's row in its batch.
        anchor: the text of the anchor's token.
        operator_runner_up: the second most probable operator.
        operator_runner_up_probability: its probability, in 0..1.
        reason: why nothing is written, a key of `tuner.step_log.EXPLANATIONS`; None if the status is `ok`.
        culprit_position: position of its first token, or None.
        expression_span: positions of the first and the last token of the expression, or None.
        spans: the same of each number that was read; empty in the hidden interface, which reads no tokens.
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
    row: int = 0
    anchor: str = ""
    operator_runner_up: str | None = None
    operator_runner_up_probability: float | None = None
    reason: str | None = None
    culprit_position: int | None = None
    expression_span: Span | None = None
    spans: tuple[Span, ...] = ()

    @property
    def calculation(self) -> str:
        """The calculation in one line, such as `58 * 36 = 2088`."""
        if self.operator == NO_ARITHMETIC and self.result is None:  # rules may answer what the network did not ask
            return "no arithmetic"
        left, right = self.operands
        asked = self.expression or f"{left.text} {self.operator} {right.text}"
        return f"{asked} = {self.result}" if self.result is not None else asked


@dataclass(frozen=True)
class TracedToken:
    """One token of a text.

    Attributes:
        text: the text that it adds.
        gate: gate, in 0..1, at the position that predicted the token; None if nothing was written there.
        size: norm of the update at that position, relative to that of the hidden state; None as the gate.
        position: its place in the text, counted in tokens.
        id: its id; None if it is not known (given as an embedding, or read while the adapter was off).
        generated: whether `generate` made it.
        base: the token that is most probable there without the calculator; None if it was not asked.
        base_probability: its probability without the calculator, in 0..1.
    """

    text: str
    gate: float | None
    size: float | None = None
    position: int = 0
    id: int | None = None
    generated: bool = True
    base: str | None = None
    base_probability: float | None = None


def percent(probability: float) -> str:
    """In per cent, rounded down so that 100.00% means certainty."""
    return f"{math.floor(probability * 10_000) / 100:.2f}%"


def explanation(step: TracedStep) -> str:
    """Why a step wrote nothing, as a sentence without its end; empty for the status `ok`."""
    if step.reason is None:
        return ""
    return EXPLANATIONS[step.reason] + ("" if step.culprit is None else f" (at {step.culprit!r})")


class Pieces:
    """The text that each token adds to those before it, so that the texts together are the whole text.

    Tokens decoded alone lose their leading space (SentencePiece), and parts of a character have no text. So each is
    decoded after its predecessor, and a character belongs to its last token; the others have an empty text.

    Args:
        spell: decodes tokens.
    """

    def __init__(self, spell: Spell) -> None:
        self._spell = spell
        self._before: list[int] = []  # decoded with the next ones, for their spaces
        self._open: list[int] = []  # not finished

    def push(self, token: int) -> str:
        """The text that `token` adds."""
        self._open.append(token)
        return "" if self._text().endswith("\ufffd") and len(self._open) < _MOST_PIECES else self.rest()

    def rest(self) -> str:
        """The text of the tokens that are not finished, at the end of a text."""
        if not self._open:
            return ""
        text = self._text()
        self._before, self._open = self._open, []
        return text

    def _text(self) -> str:
        """What the open tokens add."""
        return self._spell([*self._before, *self._open])[len(self._spell(self._before)) :]


def token_texts(spell: Spell, ids: Sequence[int]) -> list[str]:
    """The text that each of n tokens adds, as in `Pieces`."""
    pieces = Pieces(spell)
    texts = [pieces.push(token) for token in ids]
    return [*texts[:-1], texts[-1] + pieces.rest()] if texts else []


def step_record(
    step: Step, row: int, index: int, config: IGCConfig, table: TokenTable | None, spell: Spell
) -> TracedStep:
    """Step `index` of row `row` of an event with [B, A] steps, as texts and Python numbers.

    Args:
        step: the event.
        row, index: in 0..B-1 and 0..A-1.
        config: the adapter's config.
        table: its token table; None in the hidden interface.
        spell: decodes tokens.
    """
    assert step.ids is not None
    assert step.reading is not None  # observers see all readings
    first, position = int(step.first), int(step.anchors[row, index])
    window = step.ids[row].tolist()  # [n]
    real = [token if token >= 0 else None for token in window[: position - first + 1]]
    choice = Choice(*(x[row, index].cpu() for x in step.reading.choose()))
    asked = step.reading.operator[row, index].float().softmax(-1).cpu()
    decision = step.decision(row, index)
    ruled = decision is not None and decision.said.ruled
    operator = int(asked.argmax()) if ruled else int(choice.operator)  # the network decides only whether it is asked
    second = int(torch.where(torch.arange(len(asked)) == operator, -1.0, asked).argmax())
    none, status = len(asked) - 1, Status(int(step.result.status[row, index]))
    result = (x[row, index : index + 1].cpu() for x in (step.result.digits, step.result.sign, step.result.scale))
    runs = None if table is None else number_runs(table, window)
    by_rule = {} if decision is None else _by_rule(decision, first, real, spell)
    reason = reason_of(config, step, row, index)
    return TracedStep(
        position=position,
        text=spell([token for token in real[-_SHOWN:] if token is not None]),
        operands=(_number(step.reading, choice, (row, index), 0), _number(step.reading, choice, (row, index), 1)),
        operator=_symbol(config, operator),
        operator_probability=float(1 - asked[-1]) if ruled else float(choice.operator_chance),
        result=canonical(*result)[0] if status == Status.OK else None,
        status=status.name.lower(),
        refusal=None if reason in (None, "no_arithmetic") else EXPLANATIONS[str(reason)],
        reason=reason,
        row=row,
        anchor="" if real[-1] is None else spell([real[-1]]),
        operator_runner_up=None if ruled else _symbol(config, second),
        operator_runner_up_probability=None if ruled else float(asked[second]),
        spans=_spans(step.reading, runs, (row, index), first, by_rule.get("expression_span"), asked=operator < none),
        **by_rule,
    )


def _symbol(config: IGCConfig, operator: int) -> str:
    """An operator's symbol, or "none"."""
    return config.operations[operator] if operator < len(config.operations) else NO_ARITHMETIC


def _by_rule(decision: Decision, start: int, window: Sequence[int | None], spell: Spell) -> dict[str, Any]:
    """The fields of a `TracedStep` that the text gives; `start` is the position of the window's first token."""
    said, culprit = decision.said, decision.culprit
    found: dict[str, Any] = {}
    if said.ruled:
        first, last = said.first, said.last
        found["expression"] = spell([token for token in window[first : last + 1] if token is not None]).strip()
        found["expression_span"] = (start + first, start + last)
        found["reductions"] = tuple(
            f"{one} = refused" if one.result is None else str(one) for one in said.found.reductions
        )
    if culprit[1] >= 0:
        tokens = [token for token in window[culprit[0] : culprit[1] + 1] if token is not None]
        found["culprit"] = spell(tokens) if tokens else None
        found["culprit_position"] = start + culprit[0]
    return found


def _spans(
    reading: Reading | Pointing,
    runs: list[Run] | None,
    at: tuple[int, int],
    first: int,
    expression: Span | None,
    asked: bool,
) -> tuple[Span, ...]:
    """Where the numbers that a step read stand; those of the expression, or else the two that were pointed at.

    Args:
        reading: the distributions of [B, A] steps.
        runs: the numbers of the row; None in the hidden interface.
        at: row and index of the step.
        first: position of the row's first token at hand.
        expression: the expression that the rules read, or None.
        asked: whether arithmetic is read.
    """
    if runs is None or not isinstance(reading, Pointing):
        return ()
    if expression is not None:
        chosen = [run for run in runs if expression[0] <= first + run.first <= expression[1]]
    elif asked:
        begins = {run.first: run for run in runs}
        places = [int(reading.positions[at][place]) for place in reading.places[at].tolist()]
        chosen = [begins[place] for place in places if place in begins]
    else:
        chosen = []
    return tuple((first + run.first, first + run.last) for run in chosen)


def _number(reading: Reading | Pointing, choice: Choice, at: tuple[int, int], which: int) -> TracedNumber:
    """Operand `which` (0 or 1) of the step `at`, with its `choice` without the dimensions B and A."""
    other = _other_place if isinstance(reading, Pointing) else _other_digit
    return TracedNumber(
        number_text(choice.digits[which].tolist(), int(choice.signs[which])),
        float(choice.operand_chances[which].prod()),
        float(choice.operand_chances[which].min()),
        *other(reading, choice, at, which),  # type: ignore[arg-type]
    )


def _other_place(
    reading: Pointing, choice: Choice, at: tuple[int, int], which: int
) -> tuple[str | None, float | None]:
    """The most probable other number of the text: its text, and the probability of all places that have it."""
    chances = reading.scores[at][which].exp().cpu()  # [W, 2]
    digits, chosen = reading.digits[at].cpu(), tuple(choice.digits[which].tolist())
    numbers: dict[tuple[int, ...], torch.Tensor] = {}
    for place in (digits[:, 0] != PAD).nonzero().flatten().tolist():
        value = tuple(digits[place].tolist())
        if value != chosen:
            numbers[value] = numbers.get(value, torch.zeros(2)) + chances[place]
    if not numbers:
        return None, None
    value, found = max(numbers.items(), key=lambda pair: float(pair[1].sum()))
    return number_text(list(value), int(found.argmax())), float(found.sum())


def _other_digit(reading: Reading, choice: Choice, at: tuple[int, int], which: int) -> tuple[str | None, float | None]:
    """The number with the second most probable class in the one slot where this costs the least."""
    slots = [*reading.digits[at][which].float().softmax(-1).cpu(), reading.signs[at][which].float().softmax(-1).cpu()]
    chances, classes = zip(*(slot.topk(2) for slot in slots), strict=True)
    ratios = [float(chance[1] / chance[0]) for chance in chances]
    slot = max(range(len(slots)), key=lambda one: ratios[one])
    values = [*choice.digits[which].tolist(), int(choice.signs[which])]
    values[slot] = int(classes[slot][1])
    return number_text(values[:-1], values[-1]), float(choice.operand_chances[which].prod()) * ratios[slot]
