"""Puts the wrappers and hooks on a causal LM, and takes them off."""

import os
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from peft import set_peft_model_state_dict
from peft.utils import load_peft_weights
from torch import nn
from transformers.utils.loading_report import LoadStateDictInfo

from ..call import EMBEDDINGS
from ..config import IGCConfig
from ..saving.companions import with_companions
from .calls import CallWrapper, Capture
from .generation import ContinuousBatchingWrapper, GenerateWrapper, PrepareInputsWrapper
from .wrapper import Wrapper


class LoadWeightsWrapper(Wrapper):
    """`_load_pretrained_model`, with which `load_adapter` of transformers loads the weights of an injected adapter.

    A calculator's are loaded as PEFT does it, with its vocabulary, checks and companions. Transformers (5.23) does not
    tell the config its folder, and leaves weights random where the base has its own on the disk.
    """

    name = "_load_pretrained_model"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name, config = list(self.model.peft_config.items())[-1]  # what is loaded was added last
        if not isinstance(config, IGCConfig):
            # Not `original`: this method of the class is static.
            return (self.replaced or type(self.model)._load_pretrained_model)(*args, **kwargs)
        weights = kwargs["state_dict"]
        if weights is None:
            config.loaded_from = os.path.dirname(kwargs["checkpoint_files"][0])
            weights = load_peft_weights(config.loaded_from, device="cpu")
        set_peft_model_state_dict(self.model, weights, name)
        with_companions(self.model, config)
        nothing: dict[str, Any] = {"error_msgs": [], "conversion_errors": {}}
        return LoadStateDictInfo(**{f.name: nothing.get(f.name, set()) for f in fields(LoadStateDictInfo)}), {}


_WRAPPERS = (CallWrapper, PrepareInputsWrapper, GenerateWrapper, ContinuousBatchingWrapper, LoadWeightsWrapper)


def install(model: nn.Module) -> None:
    """Installs the wrappers on a causal LM. A second call does nothing."""
    if "_igc_layers" in model.__dict__:
        return
    model.__dict__.update(_igc_layers=[], _igc_captured={})
    # The instance gets attributes that shadow the methods of its class: `generate` has no hooks, and a forward hook
    # does not run after a `KeyboardInterrupt` (torch 2.13), so the call would stay on its thread's stack.
    for kind in _WRAPPERS:
        if hasattr(type(model), kind.name):
            model.__dict__[kind.name] = kind(model, model.__dict__.get(kind.name))


def capture(model: nn.Module, layers: nn.ModuleList, indices: Iterable[int]) -> None:
    """Makes decoder layers of a causal LM, on which the wrappers are installed, give their outputs to the calls; for
    `EMBEDDINGS` the first one its input."""
    captured = model.__dict__["_igc_captured"]
    for index in {*indices} - captured.keys():
        hook = Capture(model, index)
        if index == EMBEDDINGS:
            captured[index] = layers[0].register_forward_pre_hook(hook, with_kwargs=True)
        else:
            captured[index] = layers[index].register_forward_hook(hook)


def release(model: nn.Module, needed: Iterable[int]) -> None:
    """Removes the hooks of `capture` but for those of the layers `needed`."""
    captured = model.__dict__["_igc_captured"]
    for index in set(captured).difference(needed):
        captured.pop(index).remove()


def uninstall(model: nn.Module) -> None:
    """Removes the hooks and restores the model's own methods."""
    release(model, ())
    for name in ("_igc_captured", "_igc_layers"):
        del model.__dict__[name]
    for kind in _WRAPPERS:
        wrapper = model.__dict__.get(kind.name)
        if isinstance(wrapper, kind):
            del model.__dict__[kind.name]
            if wrapper.replaced is not None:
                model.__dict__[kind.name] = wrapper.replaced
