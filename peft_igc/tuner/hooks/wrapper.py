"""`Wrapper`: shadows one method of a causal LM. Also which IGC adapter is active in a model."""

import inspect
from typing import Any

from torch import nn

from ..config import IGCConfig


class Wrapper:
    """Shadows one method of a causal LM. An object instead of a closure, because copies and pickles must include it.
    `replaced` is the instance attribute of that name that was there before, or None."""

    name: str

    def __init__(self, model: nn.Module, replaced: Any) -> None:
        self.model: Any = model
        self.replaced = replaced

    @property
    def __signature__(self) -> inspect.Signature:
        """That of the original: transformers (5.23) looks there for the arguments that a model takes."""
        return inspect.signature(self.replaced or getattr(self.model.__class__, self.name).__get__(self.model))

    def original(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the shadowed method. A stored bound method would be pickled by its name, and torch (2.11) cannot
        trace how one is made."""
        if self.replaced is not None:
            return self.replaced(*args, **kwargs)
        return getattr(type(self.model), self.name)(self.model, *args, **kwargs)


def active_layer(model: nn.Module) -> tuple[Any, str]:
    """The `IGCLayer` in `model` with an active adapter that is not disabled, and its name; (None, "") for none."""
    causal_lm = wrapped_model(model)
    for layer in [] if causal_lm is None else causal_lm.__dict__["_igc_layers"]:
        if not layer.disable_adapters:
            for name in layer.active_adapters:
                if name in layer.igc_config:
                    return layer, name
    return None, ""


def wrapped_model(model: nn.Module) -> nn.Module | None:
    """The causal LM in `model` on which the hooks are installed, the `model` of its calls; None if there is none.

    Its attribute `_igc_layers` has every `IGCLayer`, because a walk over a large model takes as long as some kernels,
    and `generate` asks before each token.
    """
    return next((module for module in model.modules() if "_igc_layers" in module.__dict__), None)


def active_config(model: nn.Module) -> IGCConfig | None:
    """The config of the IGC adapter that is active and not disabled in `model`, or None."""
    layer, name = active_layer(model)
    return None if layer is None else layer.igc_config[name]
