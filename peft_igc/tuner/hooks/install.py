"""Puts the wrappers and hooks on a causal LM, and takes them off."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from .calls import CallWrapper, Capture, CaptureOutput
from .files import LoadWeightsWrapper
from .generation import ContinuousBatchingWrapper, GenerateWrapper, PrepareInputsWrapper
from .wrapper import Wrapper


_WRAPPERS: dict[str, type[Wrapper]] = {
    kind.name: kind
    for kind in (
        CallWrapper,
        PrepareInputsWrapper,
        GenerateWrapper,
        ContinuousBatchingWrapper,
        LoadWeightsWrapper,
    )
}


def install(model: nn.Module, first_layer: nn.Module) -> None:
    """Installs the hooks on a causal LM and on its first decoder layer. A second call does nothing."""
    model.__dict__.pop("_igc_layers", None)
    if "_igc_handles" in model.__dict__:
        return
    model.__dict__["_igc_handles"] = [first_layer.register_forward_pre_hook(Capture(model), with_kwargs=True)]
    # The instance gets attributes that shadow the methods of its class: `generate` has no hooks, and a forward hook
    # does not run after a `KeyboardInterrupt` (torch 2.13), so the call would stay on its thread's stack.
    for name, wrapper in _WRAPPERS.items():
        if hasattr(type(model), name):
            model.__dict__[name] = wrapper(model, model.__dict__.get(name))


def capture(model: nn.Module, layers: nn.ModuleList, indices: Iterable[int]) -> None:
    """Makes decoder layers of a causal LM, on which the hooks are installed, give their outputs to the calls."""
    captured = model.__dict__.setdefault("_igc_captured", {})
    for index in indices:
        if index not in captured:
            captured[index] = layers[index].register_forward_hook(CaptureOutput(model, index))


def release(model: nn.Module, needed: Iterable[int]) -> None:
    """Removes the hooks of `capture` but for those of the layers `needed`."""
    captured = model.__dict__.get("_igc_captured", {})
    for index in set(captured).difference(needed):
        captured.pop(index).remove()


def uninstall(model: nn.Module) -> None:
    """Removes the hooks and restores the model's own methods."""
    release(model, ())
    model.__dict__.pop("_igc_captured", None)
    model.__dict__.pop("_igc_layers", None)
    for handle in model.__dict__.pop("_igc_handles", []):
        handle.remove()
    for name, kind in _WRAPPERS.items():
        wrapper = model.__dict__.get(name)
        if isinstance(wrapper, kind):
            del model.__dict__[name]
            if wrapper.replaced is not None:
                model.__dict__[name] = wrapper.replaced


def wrapped_model(model: nn.Module) -> nn.Module | None:
    """The causal LM in `model` on which the hooks are installed, the `model` of its calls; None if there is none."""
    return next((module for module in model.modules() if "_igc_handles" in module.__dict__), None)
