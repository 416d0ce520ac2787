"""From a reading to a result: the discrete choice, exact arithmetic, and what is known to be right in training.

In: what was read at the anchors of a call. Out: the calculator's results with their status, for a training call also
the loss and metrics. `Step` and `Writing` are what those who watch a forward pass are handed
(`state.thread.observers`, see `tracing`). No weights and no hidden states here.

Shapes: B rows, A anchors per row, D digits of an operand, T positions of a call.
Try it: `pytest tests/test_layer.py`
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from .calculator import Result, Status, calculate
from .config import ONLY, IGCConfig
from .digits import PAD
from .outputs import Fields
from .reading import IGNORE, Choice, Pointing, Reading, Targets, reading_loss


class Step(NamedTuple):
    """One reading and calculation of a batch, as handed to those who watch (see `tracing`).

    Attributes:
        anchors: [B, A] int64 positions in the text, -1 for none.
        reading: distributions.
        choice: what was chosen from them.
        result: what the calculator made of the reading, before any teacher forcing.
    """

    anchors: torch.Tensor
    reading: Reading | Pointing
    choice: Choice
    result: Result


class Writing(NamedTuple):
    """What was written in one call, as handed to those who watch.

    Attributes:
        start: position in the text of the call's first token.
        active: [B, T] bool, positions that were written.
        gate: [B, T] float.
    """

    start: int
    active: torch.Tensor
    gate: torch.Tensor


def calculate_step(config: IGCConfig, choice: Choice, anchors: torch.Tensor) -> Result:
    """Exact arithmetic on what was chosen, with the reasons not to answer; [B, A] steps.

    Args:
        config: the adapter's.
        choice: of the reading.
        anchors: [B, A] int64, -1 for none.
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
    too_long = (choice.digits[..., -1] != PAD).any(-1) & (choice.operator < len(config.operations))
    status = torch.where(too_long, int(Status.OVERFLOW), result.status)
    # Without a calculator nothing is asked of it, and its digits are all absent.
    absent = (anchors < 0) | (choice.probability < config.confidence) | (config.shortcut == ONLY)
    status = torch.where(absent, int(Status.NONE), status)
    ok = status == int(Status.OK)  # nothing of a result that does not count stays
    return Result(torch.where(ok[..., None], result.digits, PAD), torch.where(ok, result.sign, 0), status)


def supervise(
    config: IGCConfig,
    targets: Targets,
    reading: Reading | Pointing,
    choice: Choice,
    result: Result,
    anchors: torch.Tensor,
) -> tuple[Result, Fields]:
    """The right results where they are known, the calculator's elsewhere; and the reading's loss and metrics.

    Without a calculator (`shortcut="only"`) no step counts as supervised: the loss is a zero that gradients reach.

    Raises:
        ValueError: targets of another shape than what they are compared with.
    """
    targets = Targets(*(t.to(anchors.device) for t in targets))
    _check_targets(targets, anchors, choice, result)
    if config.shortcut == ONLY:
        targets = targets._replace(operator=torch.full_like(targets.operator, IGNORE))
    loss, supervised, correct = reading_loss(reading, targets, anchors, choice)
    report = Fields(loss.sum(), supervised.sum().float(), correct.sum().float(), loss.new_zeros(()))
    right = Result(
        torch.where(supervised[..., None], targets.result, result.digits),
        torch.where(supervised, targets.result_sign, result.sign),
        torch.where(supervised, targets.result_status, result.status),
    )
    return right, report


def _check_targets(targets: Targets, anchors: torch.Tensor, choice: Choice, result: Result) -> None:
    """Refuses targets of another shape than what they are compared with, which would broadcast."""
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
