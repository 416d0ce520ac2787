"""Forward passes of a training step: whole ones, whose outputs are kept, and ones that end behind the reading.

The reading learns from nothing above its layer (paper, "Modified Training Process"), so a pass for it alone need not
go on. In: a model and a batch with anchors and targets. Out: what the reading reports; no loss is weighted here.
Which steps are for the reading alone, and what refuses them, is here too.
Try it: `pytest tests/test_trainer.py -k alone`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peft import PeftModel
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from .config import ONLY
from .hooks import TARGETS, active_config
from .outputs import Fields
from .state import ReadingDone, reading_alone


__all__ = ["Recorder", "check_reading_alone", "check_writing_comes", "read_alone", "reads_alone"]

# The options whose steps end behind the reading, and the value of each that asks for none.
_OPTIONS = {"igc_writing_every": 1, "igc_reading_steps": 0}


def reads_alone(args: Any, step: int) -> bool:
    """Whether a training step ends behind the reading.

    Args:
        args: An `IGCSFTConfig`, or other training arguments, which ask for none.
        step: The number of steps done.
    """
    return step < getattr(args, "igc_reading_steps", 0) or bool(step % getattr(args, "igc_writing_every", 1))


def check_writing_comes(args: Any, steps: int) -> None:
    """Refuses a run of so many steps if `igc_reading_steps` leaves none for the writing.

    Raises:
        ValueError: So it is.
    """
    reading, every = args.igc_reading_steps, args.igc_writing_every
    first = -(-reading // every) * every  # the first step of the writing, counted from 0
    if 0 < steps <= first:  # outside of training no steps are planned
        raise ValueError(
            f"`igc_reading_steps={reading}` leaves none of the {steps} planned steps for the writing, which is first "
            f"trained in step {first + 1}. Train for more steps or epochs, or set `igc_reading_steps` lower."
        )


def check_reading_alone(args: Any, has_adapter: bool, has_operands: bool) -> None:
    """Refuses steps for the reading alone where it could learn nothing.

    Raises:
        ValueError: Such steps are asked for, and there is no adapter, there are no operands, or the reading loss has
            no weight.
    """
    for name, none in _OPTIONS.items():
        value = getattr(args, name, none)
        if value == none:
            continue
        if not has_adapter:
            raise ValueError(
                f"`{name}={value}` trains the reading in steps of its own, but the model has no IGC adapter. Attach "
                f"one, or set `{name}={none}`."
            )
        if not has_operands:
            raise ValueError(
                f"`{name}={value}` trains the reading in steps of its own, but the training rows have no operands to "
                "learn it from. Add the columns `igc_operator`, `igc_operands` and `igc_result`, or set "
                f"`{name}={none}`."
            )
        if not args.igc_loss_weight:
            raise ValueError(
                f"`{name}={value}` trains the reading in steps of its own, but `igc_loss_weight=0` lets it learn "
                f"nothing. Set the weight above 0, or `{name}={none}`."
            )


def read_alone(model: Any, inputs: Mapping[str, Any]) -> Fields:
    """Runs the layers up to the calculator's and reads.

    Args:
        model: A causal LM with an active IGC adapter, in training mode.
        inputs: A batch of `IGCDataCollator`.

    Raises:
        ValueError: The model is wrapped (DDP, FSDP, DeepSpeed): a wrapper loses track of a pass that ends early, and
            the gradients of several processes would not be brought together; or nothing was read, or nothing would
            be learned.
    """
    if not isinstance(model, PeftModel | PreTrainedModel):
        raise ValueError(
            "`igc_writing_every` above 1 ends forward passes early, as `igc_reading_steps` does, which a model "
            f"wrapped in `{type(model).__name__}` does not follow. Set it to 1 "
            "and the other to 0, or train in one process."
        )
    config = active_config(model)
    if config is not None and config.shortcut == ONLY:
        raise ValueError(
            '`igc_writing_every` above 1 trains the reading alone in the other steps, but with `shortcut="only"` it '
            "learns from the language-model loss. Set it to 1."
        )
    names = ("input_ids", "attention_mask", "igc_anchors", *TARGETS)
    try:
        with reading_alone():
            model(**{name: inputs[name] for name in names}, use_cache=False)
    except ReadingDone as done:
        return done.report
    raise ValueError(
        "No IGC adapter is switched on, so nothing was read. Set `igc_writing_every=1`, `igc_reading_steps=0`."
    )


class Recorder:
    """Stands in for the model in `SFTTrainer.compute_loss` and keeps the outputs of its forward passes."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.outputs: list[ModelOutput] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.model(*args, **kwargs)
        if getattr(output, "igc_loss", None) is not None:
            self.outputs.append(output)
        return output

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def chosen(self) -> ModelOutput | None:
        """The output of the pass that is trained: TRL runs a further one without gradients for its metrics."""
        with_grad = (output for output in self.outputs if output.igc_loss.requires_grad)
        return next(with_grad, self.outputs[0] if self.outputs else None)
