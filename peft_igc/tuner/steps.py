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

from ..mappings.readings import IGNORE, Choice, Pointing, Reading, Targets, reading_loss
from ..mappings.requests import Context, signed_by_rule, wording
from ..mappings.symbol_reading import read_steps
from ..mappings.symbol_steps import Ruling, decided, decided_by_rule, ruling
from ..numbers.calculator import Result, Status, calculate
from ..numbers.digits import PAD
from ..numbers.token_table import PADDING, UNSEEN
from .anchors import FEW, Rules, context_starts
from .call import Call, ReadingDone, thread
from .config import IGCConfig
from .config_values import ONLY, ROW
from .outputs import Fields
from .state.cache import State
from .state.text_state import StaticText, Steps


class Step(NamedTuple):
    """Event: the readings and calculations of one call.

    Attributes:
        anchors: [B, A] int64 positions in the text, -1 for none.
        reading: the distributions.
        choice: the operands and operator chosen from them.
        result: the calculator's result, before any teacher forcing.
        ruling: what the rules for symbols say of the B * A steps; None without a symbol table, and in training.
        first: position in the text of the token with index 0 in `ruling` and `ids`.
        ids: [B, n] int64 ids of the tokens that were at hand, or `EMBEDDED`, `UNSEEN` or `PADDING`.
        rows: [B] int64, the rows of the pass that these are; None: all of them, as for every observer.
    """

    anchors: torch.Tensor
    reading: Reading | Pointing
    choice: Choice
    result: Result
    ruling: Ruling | None = None
    first: int | torch.Tensor = 0
    ids: torch.Tensor | None = None
    rows: torch.Tensor | None = None


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
    config: IGCConfig,
    reader: Any,
    state: State,
    features: torch.Tensor,
    anchors: torch.Tensor,
    kinds: torch.Tensor,
    call: Call,
) -> tuple[Reading | Pointing | None, Steps]:
    """Runs the steps of this call.

    Args:
        config: the adapter's config.
        reader: its input mapping.
        state: the state of the text with this call's tokens, but with the steps of earlier calls only.
        features: [B, T, d] of this call, for their dtype.
        anchors: [B, A] int64 positions of this call's anchors, -1 for none.
        kinds: [B, A] int64, of `anchors.kinds_of`.
        call: receives the report if it has targets.

    Returns:
        The reading, None if no text has two numbers, and the steps, with the correct results under teacher forcing.

    Raises:
        ReadingDone: inside of `reading_alone`, if the call has targets.
    """
    since = context_starts(config.reading_context, Rules.of(config), anchors, kinds, state.earlier_anchors())
    longest = _longest(config, reader, state, anchors, since)
    silent = Steps.silent(anchors, kinds, config.result_digits or 0, features)
    if _has_no_operands(config, reader, state, anchors, since, longest, call):
        return None, silent
    (kept, ids, first), real = state.readable(longest, features), state.real
    rows = None if config.shortcut or not call.is_lean else _rows_with_anchors(anchors)
    if rows is not None:  # in a batch each row has its anchors at other steps of the decoding
        kept, ids, real, anchors, kinds, since = (x[rows] for x in (kept, ids, real, anchors, kinds, since))
    at = torch.where(anchors >= 0, anchors - first, -1)
    since = (since - first).clamp(min=0)
    read = reader(kept, ids != PADDING, at, ids, since)
    reading, shortcut = read if config.shortcut else (read, features.new_empty(*anchors.shape, 0, 0))
    if not reader.training:
        reading = reading.cooled(config.temperature)
    legible = (anchors >= 0) & ~_any_unseen(ids, at, since) if config.interface == "hidden" else anchors >= 0
    # In training correct results replace these, so that no rule is asked.
    forced = call.targets is not None and reader.training and config.teacher_forcing
    text = Context.of(ids, ids != PADDING, at, since)
    reading, choice, result, said = result_of_step(config, reader, text, reading, legible, by_rule=not forced)
    _tell(call, anchors, reading, choice, result, said, first, ids, rows)
    if call.targets is not None:
        correct, call.report = supervise(config, call.targets, reading, choice, result, anchors)
        if thread.reading_alone:
            raise ReadingDone(call.report)
        # Teacher forcing. In eval mode the ground truth is used for the loss and the metrics, never as the result.
        if reader.training and config.teacher_forcing:
            result = correct
    rank = (ids != PADDING).cumsum(1)  # [B, n], counted from the end: earlier tokens may not be at hand
    ranks = real[:, None] - rank[:, -1:] + rank.gather(1, at.clamp(min=0))
    never = torch.full_like(at, -1)
    steps = Steps(anchors, kinds, ranks, *result, never, shortcut.to(features.dtype))
    return reading, steps if rows is None else silent.replaced(rows, steps)


def _tell(call: Call, *read: Any) -> None:
    """Gives the event of a call, made of the fields of `Step`, to observers and to the log of its `generate`."""
    if thread.observers or call.is_logged:
        call.event = Step(*read)
        for observer in thread.observers:
            observer(call.event)


def _has_no_operands(
    config: IGCConfig,
    reader: Any,
    state: State,
    anchors: torch.Tensor,
    since: torch.Tensor,
    longest: int,
    call: Call,
) -> bool:
    """Whether no step of the token interface can have a result: no context has two numbers, or a function of one.

    Costs a synchronization, and saves the reading of most texts without arithmetic.
    """
    if config.interface != "tokens" or not longest or not call.is_lean:
        return False
    ids, first = state.recent(longest)
    numeric = F.pad((reader.tokens.look_up(ids, ids >= 0).size > 0).cumsum(1), (1, 0))  # [B, n + 1], before each token
    until, begin = ((x - first).clamp(0, longest) for x in (anchors + 1, since))
    most = int((numeric.gather(1, until) - numeric.gather(1, begin)).max())
    if most != 1 or not config.has_vocabulary:
        return most < 2
    at = torch.where(anchors >= 0, anchors - first, -1)
    said, _ = read_steps(config, reader.vocabulary, ids, at.flatten(), (since - first).clamp(min=0).flatten())
    return not any(one.ruled for one in said if one is not None)  # `sqrt(16) =`


def _longest(config: IGCConfig, reader: Any, state: State, anchors: torch.Tensor, since: torch.Tensor) -> int:
    """How many of the last tokens the steps read, as far as the host knows; a synchronization in a long text."""
    lead, context = reader.LEAD, config.reading_context
    if isinstance(state, StaticText):
        return 0  # it returns all of its memory
    whole = context == ROW or (isinstance(context, str) and not Rules.of(config).sequences)
    if whole or state.embedded:
        return state.length
    if state.length <= 2 * lead + FEW or torch.compiler.is_compiling():
        return state.length
    return state.length - int(torch.where(anchors >= 0, since, state.length).min()) + lead


def _rows_with_anchors(anchors: torch.Tensor) -> torch.Tensor | None:
    """[b] int64, the rows of anchors [B, A] that have any; None if all or none have. Costs a synchronization."""
    if len(anchors) < 2:
        return None
    rows = (anchors >= 0).any(1).nonzero().squeeze(1)
    return rows if 0 < len(rows) < len(anchors) else None


def _any_unseen(ids: torch.Tensor, anchors: torch.Tensor, since: torch.Tensor) -> torch.Tensor:
    """Whether a step reads past tokens that the adapter has not seen, [B, A] bool. For the hidden interface: the token
    interface counts unseen text as a number.

    Args:
        ids: [B, n] int64.
        anchors, since: [B, A] int64, indices of the last and the first token that each step reads; -1 for no anchor.
    """
    unseen = F.pad((ids == UNSEEN).cumsum(1), (1, 0))  # [B, n + 1], number before each token
    return unseen.gather(1, anchors.clamp(min=-1) + 1) > unseen.gather(1, since)


def result_of_step(
    config: IGCConfig,
    reader: Any,
    text: Context,
    reading: Reading | Pointing,
    legible: torch.Tensor,
    by_rule: bool,
) -> tuple[Reading | Pointing, Choice, Result, Ruling | None]:
    """The results of [B, A] steps, by rule where the text says it in symbols.

    Args:
        config: the adapter's config.
        reader: its input mapping.
        text: the text of the steps.
        reading: what was read.
        legible: [B, A] bool, False where there is no anchor, or where the text before it is not known.
        by_rule: whether rules are asked, if the adapter has them.

    Returns:
        The reading, with the odds of texts that state a calculation; the operands and operator chosen from it; the
        results; and what the rules say, None if they were not asked.
    """
    if not config.has_vocabulary or not by_rule or not isinstance(reading, Pointing):
        choice = reading.choose()
        return reading, choice, calculate_step(config, choice, legible), None
    legible = legible & text.known.view(legible.shape)
    said = ruling(config, reader, text)
    ruled = reading.leaning(said.ruled.view(legible.shape), config.stated_odds)
    if (result := decided_by_rule(config, said, ruled, legible)) is not None:
        return ruled, ruled.choose(), result, said
    words = wording(config, reader, text, reading)
    said = said._replace(stated=said.stated | words.stated)
    reading = reading.leaning(said.stated.view(legible.shape), config.stated_odds)
    choice = reading.choose()
    signed, around = signed_by_rule(config, reader, reading, choice, words, said.culprit)
    result = calculate_step(config, signed, legible)
    return reading, choice, *decided(config, said, reading, result, legible, around)


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
        division=config.division,  # type: ignore[arg-type]
    )
    # A digit in the place D + 1 means that the operand is longer than D digits.
    too_long = (choice.digits[..., -1] != PAD).any(-1) & (choice.operator < len(config.operations))
    status = torch.where(too_long, int(Status.OVERFLOW), result.status)
    # `shortcut="only"` has no calculator: every status is NONE.
    absent = ~legible | (choice.probability < config.confidence) | (config.shortcut == ONLY)
    status = torch.where(absent, int(Status.NONE), status)
    ok = status == int(Status.OK)
    digits, sign = torch.where(ok[..., None], result.digits, PAD), torch.where(ok, result.sign, 0)
    return Result(digits, sign, status, result.scale)


def supervise(
    config: IGCConfig,
    targets: Targets,
    reading: Reading | Pointing,
    choice: Choice,
    result: Result,
    anchors: torch.Tensor,
) -> tuple[Result, Fields]:
    """Compares the readings with the ground truth.

    With `shortcut="only"` no step is supervised, so the loss is 0 (and still part of the graph).

    Args:
        config: the adapter's config.
        targets: ground truth of each anchor.
        reading: the distributions.
        choice: `reading.choose()`.
        result: the calculator's results.
        anchors: [B, A] int64, -1 for none.

    Returns:
        The correct results where the step is supervised and the calculator's elsewhere, for teacher forcing; and the
        loss and metrics.

    Raises:
        ValueError: if a target has another shape than the tensor it is compared with.
    """
    targets = Targets(*(t if t is None else t.to(anchors.device) for t in targets))  # type: ignore[arg-type]
    _check_targets(targets, anchors, choice, result)
    if config.shortcut == ONLY:
        targets = targets._replace(operator=torch.full_like(targets.operator, IGNORE))
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
    for name, target, shape in zip(Targets._fields, targets, wanted, strict=False):  # all but the last one
        if target is not None and target.shape != shape:
            raise ValueError(
                f"`igc_{name}` has shape {tuple(target.shape)}, but this adapter needs {tuple(shape)}. "
                "Encode the targets with the adapter's own `num_digits` and `result_digits`."
            )
