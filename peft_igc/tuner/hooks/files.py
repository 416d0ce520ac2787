"""Loading by transformers' own methods: `from_pretrained`, `load_adapter`, a pipeline."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

from peft import set_peft_model_state_dict
from peft.utils import load_peft_weights
from transformers.utils.loading_report import LoadStateDictInfo

from ..config import IGCConfig
from ..saving.companions import with_companions
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
            options = kwargs["load_config"]
            config.loaded_from = os.path.dirname(kwargs["checkpoint_files"][0])
            config.hub_options = dict(options.download_kwargs)
            config.source = str(options.pretrained_model_name_or_path), config.hub_options.pop("subfolder", None) or ""
            weights = load_peft_weights(config.loaded_from, device="cpu")
        set_peft_model_state_dict(self.model, weights, name)
        with_companions(self.model, config)
        nothing: dict[str, Any] = {"error_msgs": [], "conversion_errors": {}}
        return LoadStateDictInfo(**{f.name: nothing.get(f.name, set()) for f in fields(LoadStateDictInfo)}), {}
