"""Model outputs with the calculator's fields: how its losses and metrics leave the model.

`with_fields` turns any model output into an instance of a sub-type of its own class that has four more real fields.
Extra keys on the output would not do: distributed wrappers rebuild outputs from their declared fields, so a loss that
is no field loses its gradient there. Nothing here computes anything.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import torch
from transformers.utils import ModelOutput


class Fields(NamedTuple):
    """What one forward pass with targets reports; all scalars.

    Attributes:
        loss: float32, sum of the reading's cross-entropy over the supervised anchors, with gradient.
        count: float32, number of supervised anchors.
        correct: float32, number of supervised anchors read completely right (operator, operands and signs).
        gate: float32, mean gate over the positions that were written; 0 if there is none.
    """

    loss: torch.Tensor
    count: torch.Tensor  # type: ignore[assignment]  # hides `tuple.count`
    correct: torch.Tensor
    gate: torch.Tensor


@functools.cache
def output_class(cls: Any) -> Any:
    """The sub-type of the output class `cls` with the fields `igc_loss`, `igc_count`, `igc_correct`, `igc_gate`."""
    fields = [(f"igc_{name}", torch.Tensor | None, dataclasses.field(default=None)) for name in Fields._fields]
    made = dataclasses.make_dataclass(f"IGC{cls.__name__}", fields, bases=(cls,))
    made.__module__ = __name__
    made.__doc__ = f"`{cls.__name__}` with the fields of [`Fields`]."
    return made


def with_fields(output: ModelOutput, fields: Fields, add_to_loss: bool) -> ModelOutput:
    """`output` with `fields`, as an instance of a sub-type of its class.

    Args:
        output: what the base model returned.
        fields: what the calculator reports.
        add_to_loss: whether `loss` gains the mean reading loss (plain trainers look at `loss` alone).
    """
    values = {f.name: getattr(output, f.name) for f in dataclasses.fields(output)}
    values.update({f"igc_{name}": value for name, value in fields._asdict().items()})
    if add_to_loss and values.get("loss") is not None:
        values["loss"] = values["loss"] + fields.loss.to(values["loss"].device) / fields.count.clamp(min=1)
    cls: Any = type(output)
    return output_class(cls)(**values)
