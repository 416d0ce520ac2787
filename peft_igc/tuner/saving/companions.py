"""Adapters that were trained together are saved and loaded together: a calculator and, for example, a LoRA.

`IGCConfig.trained_with` names the companions. PEFT (0.21) saves the adapters of a model in one folder, `default` in
the folder itself and others in subfolders of their names, but loads one of them at a time and knows of no others:

    FOLDER/adapter_config.json           the calculator, with `"trained_with": ["low_rank"]`
    FOLDER/low_rank/adapter_config.json  the LoRA
"""

import json
import os
import warnings
from pathlib import Path
from typing import Any

from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import CONFIG_NAME
from torch import nn

from ..base_model import without_peft
from ..config import IGC_PEFT_TYPE, IGCConfig
from ..config_values import are_entries, name_of


# Name and folder of the LoRA below a calculator in `peft-igc sft`; PEFT (0.21) warns about the name "lora".
LOW_RANK = "low_rank"
# Beginnings of PEFT's (0.21) warnings about several methods in one model, where these are intended.
NESTED = (
    "You are trying to modify a model with PEFT for a second time",
    "Already found a `peft_config` attribute in the model",
)


def active_adapters(model: nn.Module) -> set[str]:
    """Names of the active adapters of all methods, on all layers of a model, also while they are disabled."""
    layers = (module for module in model.modules() if isinstance(module, BaseTunerLayer))
    return {name for layer in layers for name in layer.active_adapters}


def record_companions(model: PeftModel, name: str) -> None:
    """Sets `trained_with` of a trainable calculator to the active adapters of other methods.

    The record of a calculator that was loaded for inference stays as it is: other adapters may be used with it that
    it was not trained with.
    """
    configs, config = model.peft_config, model.peft_config[name]
    if not config.inference_mode:
        others = sorted(n for n in active_adapters(model) & configs.keys() if not isinstance(configs[n], IGCConfig))
        paths = [other if name == "default" else ".." if other == "default" else f"../{other}" for other in others]
        config.trained_with = paths or None


def with_companions(model: nn.Module, config: IGCConfig) -> nn.Module:
    """The causal LM, or a PEFT model around one, into which the adapters are loaded that the calculator of a saved
    config was trained with and that it lacks. One that is missing, or cannot be loaded on it, is a ValueError."""
    source = config.loaded_from or ""
    for entry in (source and config.trained_with) or []:
        name = name_of(entry)
        if name in getattr(model, "peft_config", {}):
            continue
        options: dict[str, Any] = {"is_trainable": not config.inference_mode}
        if os.path.isdir(source):
            folder = os.path.normpath(os.path.join(source, entry))
            if not os.path.isfile(os.path.join(folder, CONFIG_NAME)):
                raise ValueError(
                    f"The calculator in `{source}` was trained with the adapter {name!r}, which is missing: "
                    f"`{folder}` contains no `{CONFIG_NAME}`. Copy the whole folder, subfolders included. To load the "
                    "calculator alone, which is not what was trained, pass `config=` with `trained_with=[]`."
                )
        else:  # on the hub
            folder, subfolder, hub_options = config.source
            options |= hub_options | {"subfolder": os.path.normpath(os.path.join(subfolder, entry))}
        # PEFT (0.21) makes a LoRA on the device of its base layer, so its weights would be on the meta device.
        if any(p.device.type == "meta" for p in model.parameters()):
            raise ValueError(
                f"The adapter {name!r}, with which the calculator in `{source}` was trained, cannot be loaded onto a "
                "base with off-loaded weights. Load the base without `device_map`."
            )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", NESTED[1])
            model = PeftModel.from_pretrained(without_peft(model), folder, adapter_name=name, **options)
    return model


def warn_of_absent(base: nn.Module, name: str, config: IGCConfig) -> None:
    """Warns if an adapter with which a calculator was trained is not active in the model `base`."""
    if not config.trained_with:
        return
    absent = sorted({name_of(entry) for entry in config.trained_with} - active_adapters(base))
    if absent:
        folder = config.loaded_from or "FOLDER"
        warnings.warn(
            f"The calculator {name!r} was trained with the adapter {absent[0]!r}, which is not active, so its "
            f"answers are unreliable. Load both with `PeftModel.from_pretrained(base, {folder!r})`.",
            stacklevel=3,
        )


def companions_in(folder: Path) -> list[Path]:
    """The folders of the adapters that were trained with the calculator in a local folder."""
    try:
        saved = json.loads((folder / CONFIG_NAME).read_bytes())
        entries: Any = saved.get("trained_with") if saved.get("peft_type") == IGC_PEFT_TYPE else None
    except (OSError, ValueError, RecursionError, AttributeError):  # reported where that folder is loaded
        return []
    return [Path(os.path.normpath(folder / entry)) for entry in entries] if are_entries(entries) else []
