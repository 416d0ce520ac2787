"""The steps of a call: reading, exact arithmetic with a status, and the comparison with the ground truth.

In: the state of a text with this call's tokens, and the call's anchors. Out: what was read, the calculator's results,
and for a call with targets the reading loss and metrics. What cannot change a result is not computed: steps without
two numbers, and rows without an anchor. `Step`, `Writing` and `Generated` are the events that an observer receives
(see `call.observing`). The weights are in `mappings`.
Try it: `pytest tests/tuner/test_layer.py tests/tuner/test_silent_steps.py`
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from ..mappings.decisions import ARITHMETIC, Decision, decided, least_of, results_of
from ..mappings.places import LEAD, StepTexts
from ..mappings.readings import Choice, Pointing, Reading, Targets, reading_loss
from ..numbers.calculator import Result, Status, calculate
from ..numbers.digits import PAD
from ..text.rounding import Rounding
from ..text.values import Limits
from ..text.vocabulary import UNSEEN
from .adapter import Adapter
from .anchors import Anchors, context_starts, positions
from .call import Call, Fields, ReadingDone, thread
from .config import IGCConfig
from .state.text_state import TextState


NOTHING_ASKED = (0,) * 9  # the integers of a reading that is sure that nothing is asked for
SHORT = 2 * LEAD + 256  # tokens of a text of which all are kept at hand


class Step(NamedTuple):
    """Event: the readings and calculations of one call."""

    anchors: torch.Tensor  # [B, A] int64 positions in the text, -1 for none
    reading: Reading | Pointing | None  # the distributions; None where no network was asked, which no observer sees
    result: Result  # the calculator's result, before any teacher forcing
    # what was decided on the host for the B * A steps, None for one without an anchor; empty in the hidden interface,
    # and in training
    decisions: tuple[Decision | None, ...] = ()
    first: int = 0  # position in the text of the token with index 0 in `decisions` and `ids`
    # [B, n] int64 ids of the tokens that were at hand, or `EMBEDDED`, `UNSEEN` or `PADDING`
    ids: torch.Tensor | None = None

    @property
    def choice(self) -> Choice | None:
        """The operands and the operator that the network alone would choose."""
        return None if self.reading is None else self.reading.choose()

    def decision(self, row: int, index: int) -> Decision | None:
        """What was decided at one step."""
        return self.decisions[row * self.anchors.shape[1] + index] if self.decisions else None


class Writing(NamedTuple):
    """Event: the writing of one call."""

    start: int  # position in the text of the call's first token
    active: torch.Tensor  # [B, T] bool, positions that were written
    gate: torch.Tensor  # [B, T] float in 0..1, the gate of each position
    size: torch.Tensor  # [B, T] float32, `writing.relative_size` of the update of each position


class Generated(NamedTuple):
    """Event: the end of a `generate`, for observers with a method `finish`."""

    generation: Any  # the generation, the same object as `Call.generation` of its forward passes
    sequences: torch.Tensor  # [B, n] int64, prompts and answers, or the answers alone after a prompt of embeddings
    start: int  # position in the text of the first of the n columns
    prompt: int  # number of columns that belong to the prompt
    ends: tuple[int, ...]  # tokens that end an answer; a row is padded after the first of them
    beams: int  # number of beams; with more than one the rows of the forward passes are not those of `sequences`


class _Context(NamedTuple):
    """The tokens that the steps of a call read."""

    # [2, B, A] int64 on the CPU: indices of the last and the first token that each step reads, -1 and 0 for no anchor
    ends: torch.Tensor
    kept: torch.Tensor  # [B, n, d] features
    ids: torch.Tensor  # [B, n] int64 token ids
    first: int  # position in the text of the first of these tokens
    texts: StepTexts | None  # the same on the host, for the token interface

    @classmethod
    def of(cls, adapter: Adapter, state: TextState, anchors: Anchors) -> _Context:
        """That of anchors in a text."""
        context, rules = adapter.config.reading_context, adapter.rules
        both = zip(anchors, state.anchors, strict=True)
        starts = [context_starts(context, rules, row, earlier) for row, earlier in both]
        count = state.length  # of the last tokens that are read
        if count > SHORT:
            each = (pair for rows in zip(anchors, starts, strict=True) for pair in zip(*rows, strict=True))
            count += LEAD - min((start for one, start in each if one.at >= 0), default=count)
        kept, ids, first = state.readable(count)
        last = [[one.at - first if one.at >= 0 else -1 for one in row] for row in anchors]
        since = [[max(at - first, 0) for at in row] for row in starts]
        rows, texts = None, None
        if rules.users:  # their tokens are known only here
            rows = ids.tolist()
            since = [
                [rules.first_read(row, *step) for step in zip(begins, ends, strict=True)]
                for row, begins, ends in zip(rows, since, last, strict=True)
            ]
        if adapter.config.interface == "tokens":
            steps = sum(last, []), sum(since, [])
            texts = StepTexts.of_lists(adapter.reader.tokens, rows or ids.tolist(), *steps)
        return cls(torch.tensor([last, since]), kept, ids, first, texts)

    def read(self, adapter: Adapter) -> Reading | Pointing:
        """What the network reads in all steps."""
        if self.texts is None:
            reading = adapter.reader(self.kept, self.ids, *self.ends.to(self.ids.device))
        else:
            reading = adapter.reader(self.kept, self.texts)
        return reading if adapter.reader.training else reading.cooled(adapter.config.temperature)

    @property
    def legible(self) -> torch.Tensor:
        """[B, A] bool, steps with an anchor. In the hidden interface they read past no unseen token, which the token
        interface counts as a number."""
        last, since = self.ends.to(self.ids.device)
        if self.texts is not None:
            return last >= 0
        unseen = F.pad((self.ids == UNSEEN).cumsum(1), (1, 0))  # [B, n + 1], number before each token
        return (last >= 0) & (unseen.gather(1, last + 1) == unseen.gather(1, since))


def read_and_calculate(
    adapter: Adapter, state: TextState, anchors: Anchors, call: Call
) -> tuple[Reading | Pointing | None, Result, bool]:
    """Runs the steps of this call, at its `anchors`.

    The `state` has this call's tokens, but only the steps of earlier calls. A call with targets gets a report, and
    ends in a `ReadingDone` inside of `reading_alone`.

    Returns:
        The reading, None if the network was not asked about all steps; the results, correct ones under teacher
        forcing; and whether any of them may be written, as far as the host knows.
    """
    config, context = adapter.config, _Context.of(adapter, state, anchors)
    at = positions(anchors).to(context.ids.device)
    # Under teacher forcing correct results replace what the texts decide, so that no text is asked.
    forced = call.targets is not None and adapter.reader.training and config.teacher_forcing
    texts = None if forced else context.texts
    reading: Any = None if texts is not None and call.is_lean else context.read(adapter)
    decisions: tuple[Decision | None, ...] = ()
    if texts is not None:
        decisions = decisions_of(adapter, context.kept, texts, reading)
        result = results_of(decisions, at.shape, config.result_digits or 0, at.device)
    else:
        result = calculate_step(config, reading.choose(), context.legible)
    if thread.observers or call.log is not None:
        call.event = Step(at, reading, result, decisions, context.first, context.ids)
    for observer in thread.observers:
        observer(call.event)
    if call.targets is not None:
        correct, call.report = supervise(call.targets, reading, result, at)
        if thread.reading_alone:
            raise ReadingDone(call.report)
        # Teacher forcing. In eval mode the ground truth is used for the loss and the metrics, never as the result.
        result = correct if forced else result
    speaks = reading is not None or any(one and one.status == Status.OK for one in decisions)
    return reading, result, speaks


def decisions_of(adapter: Adapter, kept: Any, texts: StepTexts, reading: Any = None) -> tuple[Decision | None, ...]:
    """What is decided of B * A steps, None for one without an anchor.

    Without a `reading` of all steps the network reads those that their `texts` do not decide, from the features `kept`
    [B, n, d], a tensor or what is indexed like one. If these are None, it asks for nothing.
    """
    config = adapter.config

    def read(steps: list[int]) -> Any:
        if reading is not None:
            return reading.summary().flatten(0, 1)[steps].tolist()
        if kept is None:
            return [NOTHING_ASKED] * len(steps)
        some = adapter.reader(kept, texts, steps)
        return some.cooled(config.temperature).summary().tolist()

    return decided(Limits.of(config), config.confidence, texts, read)


def calculate_step(config: IGCConfig, choice: Choice, legible: torch.Tensor) -> Result:
    """Exact arithmetic on the chosen operands of D + 1 digits, for [B, A] steps at once: integers of R digits.

    `legible` [B, A] bool is False where there is no anchor, or where the text before it is not known. Where the status
    is not `OK`, all digits are PAD and the sign is 0.
    """
    assert config.result_digits is not None
    result = calculate(
        choice.digits[..., :-1],
        choice.signs,
        choice.operator,
        operations=config.operations,
        result_digits=config.result_digits,
        division=Rounding.of(config.rounding).division,
    )
    # A digit in the place D + 1 means that the operand is longer than D digits.
    too_long = (choice.digits[..., -1] != PAD).any(-1) & (choice.operator < len(config.operations))
    status = torch.where(too_long, int(Status.OVERFLOW), result.status)
    absent = ~legible | (choice.probability < least_of(config.confidence, ARITHMETIC))
    status = torch.where(absent, int(Status.NONE), status)
    ok = status == int(Status.OK)
    digits, sign = torch.where(ok[..., None], result.digits, PAD), torch.where(ok, result.sign, 0)
    return Result(digits, sign, status, result.scale)


def supervise(
    targets: Targets, reading: Reading | Pointing, result: Result, anchors: torch.Tensor
) -> tuple[Result, Fields]:
    """The correct results where a step at `anchors` [B, A] is supervised and the calculator's elsewhere, for teacher
    forcing; and the loss and metrics."""
    targets, choice = Targets(*(t.to(anchors.device) for t in targets)), reading.choose()
    pairs = targets  # more operands than two are compared with marks, which have their own shape
    if isinstance(reading, Pointing) and reading.has_marks:
        pairs = targets._replace(operands=targets.operands[:, :, :2], signs=targets.signs[:, :, :2])
    _check_targets(pairs, anchors, choice, result)
    loss, supervised, correct = reading_loss(reading, targets, anchors, choice)
    report = Fields(loss.sum(), supervised.sum().float(), correct.sum().float(), loss.new_zeros(()))
    right = Result(
        torch.where(supervised[..., None], targets.result, result.digits),
        torch.where(supervised, targets.result_sign, result.sign),
        torch.where(supervised, targets.result_status, result.status),
        torch.where(supervised, targets.result_scale, result.scale),
    )
    return right, report


def _check_targets(targets: Targets, anchors: torch.Tensor, choice: Choice, result: Result) -> None:
    """Refuses targets whose shape differs from the readings', because comparing them would broadcast."""
    if targets.operator.shape != anchors.shape:
        raise ValueError(
            f"`igc_operator` has shape {tuple(targets.operator.shape)}, but this pass has anchors of shape "
            f"{tuple(anchors.shape)} (rows, anchors). Pass `igc_anchors` with one position per target."
        )
    wanted = (choice.digits.shape, choice.signs.shape, anchors.shape, *(t.shape for t in result))
    for name, target, shape in zip(Targets._fields, targets, wanted, strict=True):
        if target.shape != shape:
            raise ValueError(
                f"`igc_{name}` has shape {tuple(target.shape)}, but this adapter needs {tuple(shape)}. "
                "Encode the targets with the adapter's own `num_digits` and `result_digits`."
            )
