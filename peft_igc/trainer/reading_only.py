"""Training steps, and rows of a step, that end after the reading; a recorder of the outputs of complete passes.

In: a model and a batch with anchors and targets. Out: the reading's loss and metrics, or the batch in two parts.
Losses are not weighted here. The reading learns nothing from later layers (paper, "Modified Training Process"), so a
pass that trains only the reading can end after it. The writing learns from the language-model loss at positions that
the calculator writes: a row that asks for no calculation has none, so this loss gives the calculator a gradient of
exactly zero, and if nothing else is trained, the later layers would run in vain. Also decides which steps train only
the reading, and validates those options.
Try it: `pytest tests/trainer/test_reading_only.py tests/trainer/test_silent_rows.py`

Shapes: B rows, T positions, A anchors per row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from peft import PeftModel
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from ..mappings.readings import IGNORE
from ..numbers.calculator import Status
from ..tuner.call import ReadingDone, reading_alone
from ..tuner.config import IGCConfig
from ..tuner.hooks.calls import TARGETS
from ..tuner.layer import IGCLayer
from ..tuner.outputs import Fields


__all__ = ["Recorder", "check_reading_alone", "only_calculators_train", "read_alone", "reads_alone", "silent_rows"]
__all__ += ["split", "zero_loss"]

# The options with steps that train only the reading, and the value of each without such steps.
_OPTIONS: dict[str, Any] = {"igc_writing_every": 1, "igc_writing": None}


def reads_alone(args: Any, step: int) -> bool:
    """Whether a training step trains only the reading.

    Args:
        args: An `IGCSFTConfig`, or other training arguments, with which no step does.
        step: Index of the step, counted from 0.
    """
    return getattr(args, "igc_writing", None) is not None or bool(step % getattr(args, "igc_writing_every", 1))


def check_reading_alone(args: Any, has_adapter: bool, has_operands: bool) -> None:
    """Refuses steps that train only the reading if the reading could not learn in them.

    Args:
        args: An `IGCSFTConfig`, or other training arguments.
        has_adapter: Whether the model has an IGC adapter.
        has_operands: Whether the training rows have operands.

    Raises:
        ValueError: There are such steps, but no adapter, no operands, or no weight of the reading loss.
    """
    for name, none in _OPTIONS.items():
        value = getattr(args, name, none)
        if value == none:
            continue
        for fails, reason in (
            (not has_adapter, "the model has no IGC adapter. Attach one"),
            (not has_operands, "the training rows have no operands. Add `igc_operator` and the other operand columns"),
            (not args.igc_loss_weight, "with `igc_loss_weight=0` it learns nothing. Set the weight above 0"),
        ):
            if fails:
                raise ValueError(
                    f"`{name}={value}` trains the reading in separate steps, but {reason}, or set `{name}={none}`."
                )


def read_alone(model: Any, inputs: Mapping[str, Any]) -> Fields:
    """Runs the layers that the calculator reads, and the reading.

    Args:
        model: A causal LM with an active IGC adapter, in training mode.
        inputs: A batch of `IGCDataCollator`.

    Returns:
        The loss and the metrics of the reading.

    Raises:
        ValueError: The model is wrapped (DDP, FSDP, DeepSpeed), no adapter is active, or the adapter has no reading
            loss.
    """
    # The pass ends by an exception, which a wrapper does not expect: DDP would not average the gradients any more.
    if not isinstance(model, PeftModel | PreTrainedModel):
        raise ValueError(
            "`igc_writing_every` above 1 and `igc_writing` end forward passes early, which is not supported for a "
            f"model wrapped in `{type(model).__name__}`. Leave both out, or train in one process."
        )
    # No labels: there is no language-model loss, and the anchors are given.
    names = ("input_ids", "attention_mask", "igc_anchors", *TARGETS)
    try:
        with reading_alone():  # makes the calculator's layer raise after the reading
            model(**{name: inputs[name] for name in names if name in inputs}, use_cache=False)
    except ReadingDone as done:
        return done.report
    raise ValueError(
        "No IGC adapter is active, so nothing was read. Leave `igc_writing_every` and `igc_writing` out."
    )


class Recorder:
    """Replaces the model in `SFTTrainer.compute_loss`, and keeps the outputs of its forward passes."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.outputs: list[ModelOutput] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.model(*args, **kwargs)
        # The fields are declared on the output's class (`tuner.outputs`), so they survive DDP's rebuilding of outputs.
        if getattr(output, "igc_loss", None) is not None:
            self.outputs.append(output)
        return output

    def __getattr__(self, name: str) -> Any:  # for TRL, which also reads attributes of the model
        return getattr(self.model, name)

    def chosen(self) -> ModelOutput | None:
        """The output of the trained pass, or None if the calculator did not run."""
        # For some losses TRL runs a second pass without gradients, for its metrics.
        with_grad = (output for output in self.outputs if output.igc_loss.requires_grad)
        return next(with_grad, self.outputs[0] if self.outputs else None)


def only_calculators_train(model: nn.Module) -> bool:
    """Whether all trainable parameters of a model belong to its calculators."""
    own = {id(p) for m in model.modules() if isinstance(m, IGCLayer) for p in m.parameters()}
    return all(id(p) in own for p in model.parameters() if p.requires_grad)


def silent_rows(inputs: Mapping[str, torch.Tensor], config: IGCConfig) -> torch.Tensor:
    """The rows whose language-model loss gives the calculator no gradient, [B] bool.

    Args:
        inputs: A batch with `labels` [B, T], `igc_anchors`, `igc_operator` and `igc_result_status`, all [B, A].
        config: The config of the adapter that is trained.
    """
    silent: torch.Tensor = (inputs["labels"][:, 1:] == IGNORE).all(1)  # [B]
    # Without teacher forcing a calculation may be read where none is asked.
    if config.teacher_forcing:
        known = inputs["igc_operator"] != IGNORE  # [B, A]; what is not supervised may be written
        refused = known & (inputs["igc_result_status"] != int(Status.OK))
        silent = silent | (refused | (inputs["igc_anchors"] < 0)).all(1)
    return silent


def split(inputs: Mapping[str, Any], silent: torch.Tensor) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """A batch in two parts, without the columns at the end that are padding in all rows of a part.

    Args:
        inputs: A batch. Tensors have the rows in their first dimension.
        silent: [B] bool.

    Returns:
        The rows that are not silent, and the silent ones; None for a part without rows.
    """
    if not silent.any():
        return dict(inputs), None
    return (None if silent.all() else _part(inputs, ~silent)), _part(inputs, silent)


def _part(inputs: Mapping[str, Any], chosen: torch.Tensor) -> dict[str, Any]:
    """The chosen rows [B] of a batch."""
    part = {name: x[chosen.to(x.device)] if torch.is_tensor(x) else x for name, x in inputs.items()}
    width = inputs["input_ids"].shape[1]
    used = int(part["attention_mask"].any(0).nonzero().max()) + 1  # padding before a text stays: anchors are positions
    per_token = ("input_ids", "attention_mask", "labels", "position_ids")
    return part | {name: part[name][:, :used] for name in per_token if name in part and part[name].shape[1] == width}


def zero_loss(model: nn.Module) -> torch.Tensor:
    """A loss of 0, with a gradient of 0 for every trainable parameter.

    A whole pass gives the writing zero gradients if nothing is written. Optimizers treat these and absent ones
    differently: AdamW's momentum and weight decay move parameters with a zero gradient.
    """
    return torch.stack([0.0 * p.sum().float() for p in model.parameters() if p.requires_grad]).sum()
