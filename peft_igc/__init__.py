"""An exact calculator inside the forward pass of any causal language model, as a PEFT adapter.

    from peft import get_peft_model
    from peft_igc import IGCConfig
    model = get_peft_model(model, IGCConfig(layer=1))

Importing the package makes PEFT know the method, so that `PeftModel.from_pretrained` and all of PEFT's other ways load
its adapters. Everything else, torch included, is imported when a name below is first used. Training with operand
columns is in `peft_igc.trainer` (needs TRL), the command line in `peft_igc.cli`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from .plugin import activate


if TYPE_CHECKING:
    from .inference.evaluation import evaluate, generate_answers, trace
    from .inference.loading import load_base, tiny_base, tiny_igc
    from .inference.tracing import igc_trace
    from .text.operations import register_operation
    from .tuner.anchor_rules import assistant_header
    from .tuner.config import IGCConfig
    from .tuner.hooks.generation import choose_graph
    from .tuner.layer import IGCLayer
    from .tuner.model import IGCModel
    from .tuner.register import register


__version__ = "0.2.0"
__all__ = ["IGCConfig", "IGCLayer", "IGCModel", "assistant_header", "choose_graph", "evaluate", "generate_answers"]
__all__ += ["igc_trace", "load_base", "register", "register_operation", "tiny_base", "tiny_igc", "trace"]

# The names that each module defines. `peft-igc --help` would take seconds if they were imported here.
_NAMES = {
    "inference.evaluation": ("evaluate", "generate_answers", "trace"),
    "inference.loading": ("load_base", "tiny_base", "tiny_igc"),
    "inference.tracing": ("igc_trace",),
    "text.operations": ("register_operation",),
    "tuner.anchor_rules": ("assistant_header",),
    "tuner.config": ("IGCConfig",),
    "tuner.hooks.generation": ("choose_graph",),
    "tuner.layer": ("IGCLayer",),
    "tuner.model": ("IGCModel",),
    "tuner.register": ("register",),
}


def __getattr__(name: str) -> Any:
    """A public name or a room of the model, imported at its first use."""
    if name in ("numbers", "mappings", "operations", "tuner", "inference"):
        return importlib.import_module(f".{name}", __name__)
    for module, names in _NAMES.items():
        if name in names:
            return globals().setdefault(name, getattr(importlib.import_module(f".{module}", __name__), name))
    raise AttributeError(f"module `peft_igc` has no attribute `{name}`")


def __dir__() -> list[str]:
    """All names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})


activate()
