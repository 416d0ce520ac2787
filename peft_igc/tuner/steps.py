"""The steps of a call: reading, exact arithmetic with a status, and the comparison with the ground truth.

In: the state of a text with this call's tokens, and the call's anchors. Out: what was read, the calculator's results,
and for a call with targets the reading loss and metrics. What cannot change a result is not computed: steps without
two numbers, and rows without an anchor. `Step`, `Writing` and `Generated` are the events that an observer receives
(see `call.observing`). The weights are in `mappings`.

Shapes: B rows, T positions of this call, L tokens of the text so far, n of them that are read, A anchors per row, d
mapping width, D digits of an operand, R digits of a result.
Try it: `pytest tests/tuner/test_layer.py tests/tuner/test_silent_steps.py`
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from ..mappings.decisions import Decision, Settings, decide, decided_alone, results_of, said_of
from ..mappings.places import StepTexts
from ..mappings.readings import Choice, Pointing, Reading, Targets, reading_loss
from ..numbers.calculator import Result, Status, calculate
from ..numbers.digits import PAD
from ..numbers.places import LEAD
from ..numbers.token_table import PADDING, UNSEEN
from .adapter import Adapter
from .anchors import context_starts
from .call import Call, Fields, ReadingDone, thread
from .config import IGCConfig
from .config_values import ROW
from .state.text_state import Steps, TextState


SHORT = 2 * LEAD + 256  # tokens of a text of which all are read, rather than asking the device for the first one


class Step(NamedTuple):
    """Event: the readings and calculations of one call.

    Attributes:
        anchors: [B, A] int64 positions in the text, -1 for none.
        reading: the distributions; None where no network was asked, which no observer sees.
        result: the calculator's result, before any teacher forcing.
        decisions: what was decided on the host for the B * A steps, None for one without an anchor; empty in the
            hidden interface, without a vocabulary, and in training.
        first: position in the text of the token with index 0 in `decisions` and `ids`.
        ids: [B, n] int64 ids of the tokens that were at hand, or `EMBEDDED`, `UNSEEN` or `PADDING`.
    """

    anchors: torch.Tensor
    reading: Reading | Pointing | None
    result: Result
    decisions: tuple[Decision | None, ...] = ()
    first: int = 0
    ids: torch.Tensor | None = None

    @property
    def choice(self) -> Choice | None:
        """The operands and the operator that the network alone would choose."""
        return None if self.reading is None else self.reading.choose()

    def decision(self, row: int, index: int) -> Decision | None:
        """What was decided at one step."""
        return self.decisions[row * self.anchors.shape[1] + index] if self.decisions else None


class Writing(NamedTuple):
    """Event: the writing of one call.

    Attributes:
        start: position in the text of the call's first token.
        active: [B, T] bool, positions that were written.
        gate: [B, T] float in 0..1, the gate of each position.
        size: [B, T] float32, `writing.relative_size` of the update of each position.
    """

    start: int
    active: torch.Tensor
    gate: torch.Tensor
    size: torch.Tensor | None = None


class Generated(NamedTuple):
    """Event: the end of a `generate`, for observers with a method `finish`.

    Attributes:
        generation: the generation, the same object as `Call.generation` of its forward passes.
        sequences: [B, n] int64, prompts and answers, or the answers alone after a prompt of embeddings.
        start: position in the text of the first of the n columns.
        prompt: number of columns that belong to the prompt.
        ends: tokens that end an answer; a row is padded after the first of them.
        beams: number of beams; with more than one the rows of the forward passes are not those of `sequences`.
    """

    generation: Any
    sequences: torch.Tensor
    start: int
    prompt: int
    ends: tuple[int, ...]
    beams: int


def read_and_calculate(
    adapter: Adapter,
    state: TextState,
    like: torch.Tensor,
    anchors: torch.Tensor,
    kinds: torch.Tensor,
    call: Call,
) -> tuple[Reading | Pointing | None, Steps, bool]:
    """Runs the steps of this call.

    Args:
        adapter: the adapter.
        state: the state of the text with this call's tokens, but with the steps of earlier calls only.
        like: [..., d], a tensor of the dtype and device of the features.
        anchors: [B, A] int64 positions of this call's anchors, -1 for none.
        kinds: [B, A] int64, of `anchors.kinds_of`.
        call: receives the report if it has targets.

    Returns:
        The reading, None if the network was not asked about all steps; the steps, with the correct results under
        teacher forcing; and whether any of them may be written, as far as the host knows.

    Raises:
        ReadingDone: inside of `reading_alone`, if the call has targets.
    """
    config, reader = adapter.config, adapter.reader
    since = context_starts(config.reading_context, adapter.rules, anchors, kinds, state.steps[:2])
    kept, ids, first = state.readable(_longest(adapter, state, anchors, since), like)
    texts = None
    if config.interface == "tokens":
        texts = StepTexts.of(reader.tokens, reader.max_distance, ids, anchors, since, first)
    # What the texts decide. Under teacher forcing correct results replace it, so that no text is asked.
    forced = call.targets is not None and reader.training and config.teacher_forcing
    decided = texts if config.has_vocabulary and not forced else None
    steps = Steps.silent(anchors, kinds, config.result_digits or 0)
    reading: Any = None
    decisions: tuple[Decision | None, ...] = ()
    if texts is None or not (call.is_lean and (decided is not None or _is_unreadable(texts))):
        at, begin = torch.where(anchors >= 0, anchors - first, -1), (since - first).clamp(min=0)
        reading = reader(kept, ids != PADDING, at, ids, begin, **({} if texts is None else {"texts": texts}))
        reading = reading if reader.training else reading.cooled(config.temperature)
        if decided is None:
            steps = _calculated(config, state, steps, reading, (ids, at, begin))
    if decided is not None:
        decisions = decisions_of(config, reader, kept, decided, anchors, reading)
        if any(one is not None and one.status != Status.NONE for one in decisions):
            steps = steps.with_results(results_of(decisions, anchors.shape, config.result_digits or 0, ids.device))
    if thread.observers or (call.is_logged and (reading is not None or decided is not None)):
        call.event = Step(anchors, reading, steps.results, decisions, first, ids)
        for observer in thread.observers:
            observer(call.event)
    if call.targets is not None:
        correct, call.report = supervise(config, call.targets, reading, steps.results, anchors)
        if thread.reading_alone:
            raise ReadingDone(call.report)
        # Teacher forcing. In eval mode the ground truth is used for the loss and the metrics, never as the result.
        steps = steps.with_results(correct) if forced else steps
    return reading, steps, reading is not None or any(one and one.status == Status.OK for one in decisions)


def _calculated(
    config: IGCConfig,
    state: TextState,
    steps: Steps,
    reading: Reading | Pointing,
    context: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> Steps:
    """The steps [B, A] with the results of a network that decides alone, for which `calculate_step` calculates.

    Args:
        config: the adapter's config.
        state: the state of the text.
        steps: silent ones.
        reading: the distributions.
        context: the ids [B, n], and the indices [B, A] of the last and the first of them that each step reads.
    """
    ids, at, begin = context
    legible = (at >= 0) & ~_any_unseen(ids, at, begin) if config.interface == "hidden" else at >= 0
    rank = (ids != PADDING).cumsum(1)  # [B, n], counted from the end: earlier tokens may not be at hand
    ranks = state.real[:, None] - rank[:, -1:] + rank.gather(1, at.clamp(min=0))
    return steps.with_results(calculate_step(config, reading.choose(), legible))._replace(ranks=ranks)


def _is_unreadable(texts: StepTexts) -> bool:
    """Whether no step has two numbers."""
    return not any(texts.operands_of(step) > 1 for step, anchor in enumerate(texts.anchors) if anchor >= 0)


def decisions_of(
    config: IGCConfig,
    reader: Any,
    kept: Any,
    texts: StepTexts,
    anchors: torch.Tensor,
    reading: Any = None,
) -> tuple[Decision | None, ...]:
    """What is decided of B * A steps, None for one without an anchor.

    Args:
        config: the adapter's config.
        reader: its input mapping.
        kept: [B, n, d] features, or what is indexed so.
        texts: the texts of the steps.
        anchors: [B, A] int64.
        reading: of all steps; None: the network reads those that their texts do not decide.
    """
    settings = Settings.of(config)
    said = said_of(reader.vocabulary, texts, settings.limits)
    decisions = [one and decided_alone(one, texts, step, settings.fewest) for step, one in enumerate(said)]
    asked = {step: one for step, one in enumerate(said) if one is not None and decisions[step] is None}
    if asked and reading is None:
        some = reader(kept, None, anchors, None, None, texts=texts, steps=[*asked]).cooled(config.temperature)
        found = dict(zip(asked, some.summary().tolist(), strict=True))
    elif asked:
        found = dict(enumerate(reading.summary().flatten(0, 1).tolist()))
    for step, one in asked.items():
        decisions[step] = decide(settings, one, texts, step, found[step])
    return tuple(decisions)


def _longest(adapter: Adapter, state: TextState, anchors: torch.Tensor, since: torch.Tensor) -> int:
    """How many of the last tokens the steps read, as far as the host knows; a synchronization in a long text."""
    context = adapter.config.reading_context
    whole = context == ROW or (isinstance(context, str) and not adapter.rules.sequences)
    if whole or state.embedded or state.length <= SHORT:
        return state.length
    return state.length - int(torch.where(anchors >= 0, since, state.length).min()) + LEAD


def _any_unseen(ids: torch.Tensor, anchors: torch.Tensor, since: torch.Tensor) -> torch.Tensor:
    """Whether a step reads past tokens that the adapter has not seen, [B, A] bool. For the hidden interface: the token
    interface counts unseen text as a number.

    Args:
        ids: [B, n] int64.
        anchors, since: [B, A] int64, indices of the last and the first token that each step reads; -1 for no anchor.
    """
    unseen = F.pad((ids == UNSEEN).cumsum(1), (1, 0))  # [B, n + 1], number before each token
    return unseen.gather(1, anchors.clamp(min=-1) + 1) > unseen.gather(1, since)


def calculate_step(config: IGCConfig, choice: Choice, legible: torch.Tensor) -> Result:
    """Exact arithmetic on the chosen operands, for [B, A] steps at once.

    Args:
        config: the adapter's config.
        choice: operands and operator, with D + 1 digits per operand.
        legible: [B, A] bool, False where there is no anchor, or where the text before it is not known.

    Returns:
        The results with R digits, all of them integers. Where the status is not `OK`, all digits are PAD and the sign
        is 0.
    """
    assert config.result_digits is not None
    result = calculate(
        choice.digits[..., :-1],
        choice.signs,
        choice.operator,
        operations=config.operations,
        result_digits=config.result_digits,
        division=config.division,
    )
    # A digit in the place D + 1 means that the operand is longer than D digits.
    too_long = (choice.digits[..., -1] != PAD).any(-1) & (choice.operator < len(config.operations))
    status = torch.where(too_long, int(Status.OVERFLOW), result.status)
    absent = ~legible | (choice.probability < config.confidence)
    status = torch.where(absent, int(Status.NONE), status)
    ok = status == int(Status.OK)
    digits, sign = torch.where(ok[..., None], result.digits, PAD), torch.where(ok, result.sign, 0)
    return Result(digits, sign, status, result.scale)


def supervise(
    config: IGCConfig,
    targets: Targets,
    reading: Reading | Pointing,
    result: Result,
    anchors: torch.Tensor,
) -> tuple[Result, Fields]:
    """Compares the readings with the ground truth.

    Args:
        config: the adapter's config.
        targets: ground truth of each anchor.
        reading: the distributions.
        result: the calculator's results.
        anchors: [B, A] int64, -1 for none.

    Returns:
        The correct results where the step is supervised and the calculator's elsewhere, for teacher forcing; and the
        loss and metrics.

    Raises:
        ValueError: if a target has another shape than the tensor it is compared with.
    """
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
