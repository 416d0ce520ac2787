"""Saving and loading by transformers' own methods: nothing of an adapter gets lost.

Try it: `pytest tests/tuner/test_offloaded.py tests/tuner/test_companions.py`
"""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

from peft import set_peft_model_state_dict
from peft.utils import load_peft_weights
from transformers.utils.loading_report import LoadStateDictInfo

from ..config import IGCConfig
from ..saving.companions import active_adapters, load_companions_of_base
from .wrapper import Wrapper


__all__ = ["LoadWeightsWrapper", "SaveWrapper"]


class SaveWrapper(Wrapper):
    """`save_pretrained` of transformers, which saves one of the adapters that it has loaded.

    It (5.23) takes the active one of the first adapted layer, and would lose a calculator next to a LoRA.
    """

    name = "save_pretrained"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        active = sorted(active_adapters(self.model).intersection(getattr(self.model, "peft_config", ())))
        if getattr(self.model, "_hf_peft_config_loaded", False) and len(active) > 1:
            raise ValueError(
                f"The adapters {', '.join(map(repr, active))} are active, and transformers saves one of them. Save "
                "each in its own folder, after `model.set_adapter(name)`, or use `PeftModel`, which saves all."
            )
        return self.original(*args, **kwargs)


class LoadWeightsWrapper(Wrapper):
    """`_load_pretrained_model`, with which `load_adapter` of transformers loads the weights of an injected adapter.

    A calculator's are loaded as PEFT does it, which checks them. Transformers (5.23) leaves them random where the base
    has its own weights on the disk, and where the file has none.
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
        if kwargs["state_dict"] is None:
            load_companions_of_base(self.model, config, kwargs["load_config"])
        nothing: dict[str, Any] = {"error_msgs": [], "conversion_errors": {}}
        return LoadStateDictInfo(**{f.name: nothing.get(f.name, set()) for f in fields(LoadStateDictInfo)}), {}
