"""Training steps that end after the reading; a recorder of the outputs of complete passes.

In: a model and a batch with anchors and targets. Out: the reading's loss and metrics, not weighted. The reading learns
nothing from later layers (paper, "Modified Training Process"), so a pass that trains only the reading can end after
it. Also decides which steps train only the reading, and validates those options.
Try it: `pytest tests/trainer/test_reading_only.py`
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from peft import PeftModel
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from ..tuner.call import ReadingDone, reading_alone
from ..tuner.hooks.calls import TARGETS
from ..tuner.layer import IGCLayer
from ..tuner.outputs import Fields
from .kept_layers import KeptOutputs


__all__ = ["Recorder", "check_reading_alone", "only_calculators_train", "read_alone", "reads_alone"]

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


def read_alone(model: Any, inputs: Mapping[str, Any], kept: KeptOutputs | None = None) -> Fields:
    """Runs the layers that the calculator reads, and the reading.

    Args:
        model: A causal LM with an active IGC adapter, in training mode.
        inputs: A batch of `IGCDataCollator`.
        kept: Of the texts whose layers have run before; None: they run.

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
    given = _up_to_anchors({name: inputs[name] for name in names if name in inputs})
    try:
        # `reading_alone` makes the calculator's layer raise after the reading.
        with reading_alone(), nullcontext() if kept is None else kept.once(given):
            model(**given, use_cache=False)
    except ReadingDone as done:
        return done.report
    raise ValueError("No IGC adapter is active, so nothing was read. Leave `igc_writing_every` and `igc_writing` out.")


def _up_to_anchors(inputs: dict[str, Any]) -> dict[str, Any]:
    """The batch without the tokens after each row's last anchor, which nothing reads."""
    if "igc_anchors" not in inputs:
        return inputs
    last = inputs["igc_anchors"].amax(1, keepdim=True).clamp(min=0)  # [B, 1]
    end, mask = int(last.max()) + 1, inputs["attention_mask"]
    mask = mask * (torch.arange(mask.shape[1], device=mask.device) <= last)
    return inputs | {"input_ids": inputs["input_ids"][:, :end], "attention_mask": mask[:, :end]}


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
