"""Model outputs with additional fields: the adapter's loss and metrics, or the steps of a `generate`.

In: any `ModelOutput`. Out: an instance of a subclass of its class with more declared fields. Extra keys on the
output would not be enough: distributed wrappers rebuild outputs from their declared fields, so a loss under an extra
key would lose its gradient. The loss and the metrics are computed in `steps`, not here.

Try it: `pytest tests/tuner/test_hooks.py`
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from transformers.utils import ModelOutput

from ..call import Fields


@functools.cache
def output_class(cls: Any, *names: str) -> Any:
    """The subclass of the output class `cls` with more fields, all None by default."""
    fields = [(name, Any, dataclasses.field(default=None)) for name in names]
    made = dataclasses.make_dataclass(f"IGC{cls.__name__}", fields, bases=(cls,))
    made.__module__ = __name__
    made.__doc__ = f"`{cls.__name__}` with the fields `{'`, `'.join(names)}`."
    return made


def extended(output: ModelOutput, fields: dict[str, Any]) -> ModelOutput:
    """A copy of `output` with more `fields`, as an instance of a subclass of its class."""
    values = {f.name: getattr(output, f.name) for f in dataclasses.fields(output)}
    cls: Any = type(output)
    return output_class(cls, *fields)(**values, **fields)


def with_fields(output: Any, fields: Fields, add_to_loss: bool) -> ModelOutput:
    """A copy of a base model's output with `fields`, as an instance of a subclass of its class.

    With `add_to_loss` the mean reading loss is added to `loss`, if there is one. `transformers.Trainer` optimizes
    `loss` alone; `IGCTrainer` passes `igc_add_loss=False` and weights the reading loss itself.
    """
    if not isinstance(output, ModelOutput):
        raise ValueError(
            f"The model returned a `{type(output).__name__}`, which has no place for the reading loss. "
            "Set `model.config.return_dict = True`, or pass no `igc_*` targets."
        )
    made: Any = extended(output, {f"igc_{name}": value for name, value in fields._asdict().items()})
    if add_to_loss and made.loss is not None:
        made.loss = made.loss + fields.loss.to(made.loss.device) / fields.count.clamp(min=1)
    return made
