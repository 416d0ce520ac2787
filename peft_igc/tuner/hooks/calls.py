"""`model(...)`: takes the `igc_*` arguments, pushes and pops the `Call`, adds the loss to the output.

In: `model(..., igc_anchors, igc_operands, igc_signs, igc_operator, igc_result, igc_result_sign, igc_result_status,
igc_result_scale, igc_add_loss)`. Out: outputs of a subclass of their class, with the fields of `call.Fields`. Extra
keys would not be enough: distributed wrappers rebuild outputs from their declared fields, so a loss under an extra key
would lose its gradient.
"""

import dataclasses
import functools
from typing import Any

import torch
from torch import nn
from transformers.utils import ModelOutput

from ...mappings.readings import Targets
from ..anchors import check_anchors
from ..call import EMBEDDINGS, Call, Fields, current_call, current_generation, thread
from ..passes import read_early
from ..state.cache import find_cache
from .notices import tell_of_bypass
from .wrapper import Wrapper, active_config, active_layer


TARGETS = tuple(f"igc_{field}" for field in Targets._fields)


class CallWrapper(Wrapper):
    """What `model(...)` runs: removes the `igc_*` arguments, and adds the loss and metrics to the output.

    Not `forward`, which TRL (1.16) and accelerate (1.15) replace. `_call_impl` (torch 2.13) runs `forward` with all
    hooks; a class method `__call__` cannot be shadowed by an instance.
    """

    name = "_call_impl"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = Call(model=self.model)
        thread.calls.append(call)
        try:
            _take_arguments(call, args, kwargs)
            output = self.original(*args, **kwargs)
            if call.ran is None and not torch.compiler.is_compiling():
                tell_of_bypass(call)
            if call.report is None or output is None:
                return output
            return with_fields(output, call.report, call.add_to_loss)
        finally:
            thread.calls.pop()


def _take_arguments(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Removes the `igc_*` arguments from `kwargs`, and fills the call."""
    ids = kwargs.get("input_ids", args[0] if args and torch.is_tensor(args[0]) else None)
    mask = kwargs.get("attention_mask", args[1] if len(args) > 1 and torch.is_tensor(args[1]) else None)
    call.input_ids = ids
    call.attention_mask = mask if torch.is_tensor(mask) and mask.dim() == 2 else None
    call.labels, call.use_cache = kwargs.get("labels"), kwargs.get("use_cache")
    call.cache = find_cache(args, kwargs)
    call.anchors = kwargs.pop("igc_anchors", None)
    call.targets = _take_targets(kwargs)
    call.add_to_loss = kwargs.pop("igc_add_loss", True)
    packing = getattr(kwargs.get("cache"), "igc_packing", None)
    call.packed = None if packing is None or active_config(call.model) is None else packing(ids)
    _check_arguments(call, kwargs)
    tokens = kwargs.get("inputs_embeds") if ids is None else ids
    if call.anchors is not None and torch.is_tensor(tokens):
        check_anchors(call.anchors, tokens.shape, call.attention_mask)
    generation = current_generation(call.model)
    if generation is not None and generation.owns(call):
        call.generation = generation


def _take_targets(kwargs: dict[str, Any]) -> Targets | None:
    """Removes the targets from `kwargs`; None if there are none."""
    given = {name: one for name in TARGETS if (one := kwargs.pop(name, None)) is not None}
    if not given:
        return None
    if "igc_result_status" in given:  # without it all results are integers
        given.setdefault("igc_result_scale", torch.zeros_like(given["igc_result_status"]))
    missing = [name for name in TARGETS if name not in given]
    if missing:
        raise ValueError(
            f"`{'`, `'.join(missing)}` is missing next to `{'`, `'.join(given)}`: targets must be passed together. "
            "Use the collator of `IGCTrainer`, or `columns.encode_steps`."
        )
    return Targets(**{name.removeprefix("igc_"): given[name] for name in TARGETS})


def _check_arguments(call: Call, kwargs: dict[str, Any]) -> None:
    """Refuses arguments with which the adapter would silently do the wrong thing."""
    unknown = [name for name in kwargs if name.startswith("igc_")]
    if unknown:
        raise ValueError(
            f"`{unknown[0]}` is not an argument of the calculator. Use `igc_anchors`, `igc_add_loss` or "
            f"`{'`, `'.join(TARGETS)}`."
        )
    if call.packed is not None:
        return
    if kwargs.get("cu_seq_lens_q") is not None and active_config(call.model) is not None:
        raise ValueError(
            "`cu_seq_lens_q` packs several texts into one row, so a calculation would read across texts. Use a padded "
            "batch (`padding_free=False`), or `generate_batch` of a model whose calculator is active."
        )
    positions = kwargs.get("position_ids")
    if kwargs.get("attention_mask") is None and isinstance(positions, torch.Tensor) and positions.dim() == 2:
        # Packing and padding-free training without `cu_seq_lens_q` show only in the positions.
        if positions.shape[1] > 1 and bool((positions[:, 1:] <= positions[:, :-1]).any()):
            raise ValueError(
                "`position_ids` restart within a row: several texts are packed into it, so a calculation would read "
                "across texts. Set `packing=False` and `padding_free=False`."
            )


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
            "Leave out `return_dict=False`, in the call and in the model's config, or pass no `igc_*` targets."
        )
    made: Any = extended(output, {f"igc_{name}": value for name, value in fields._asdict().items()})
    if add_to_loss and made.loss is not None:
        made.loss = made.loss + fields.loss.to(made.loss.device) / fields.count.clamp(min=1)
    return made


class Capture:
    """Hook of a decoder layer: stores its output in the call, for calculators that read it at a later one.

    With the index `EMBEDDINGS` it is a pre-hook of the first layer, and stores that layer's input: embeddings as the
    architecture and NEFTune change them. An object instead of a closure, for copies and pickles of the model.
    """

    def __init__(self, model: nn.Module, index: int) -> None:
        self.model, self.index = model, index

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], given: Any) -> None:
        """`given` is the layer's output, or before it runs its keyword arguments."""
        call = current_call(self.model)
        if call is None:
            return
        if self.index == EMBEDDINGS:
            call.outputs[EMBEDDINGS] = args[0] if args else given["hidden_states"]
            return
        call.outputs[self.index] = given[0] if isinstance(given, tuple) else given
        reader, name = active_layer(self.model) if thread.reading_alone else (None, "")
        if reader is not None and self.index == reader.igc_config[name].layers_read[-1]:
            read_early(reader.adapter(name), call)  # a pass for the reading alone ends with the last layer it reads
