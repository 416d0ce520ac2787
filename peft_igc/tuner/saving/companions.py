"""Adapters that were trained together are saved and loaded together: a calculator and, for example, a LoRA.

In: a PEFT model that is saved, or a folder that is loaded. Out: `IGCConfig.trained_beside`, and the companions loaded
onto the same base. PEFT (0.21) saves the adapters of a model in one folder, `default` in the folder itself and others
in subfolders of their names, but loads one of them at a time and does not know that there are others:

    FOLDER/adapter_config.json           the calculator, with `"trained_beside": ["low_rank"]`
    FOLDER/low_rank/adapter_config.json  the LoRA

An adapter that is used without its companion is reported, whichever of the two it is.

Try it: `pytest tests/tuner/test_companions.py`
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from peft import PeftConfig, PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import CONFIG_NAME
from torch import nn
from transformers import PreTrainedModel

from ..base_model import innermost_model
from ..config import IGCConfig
from .beside import LOW_RANK, check_entries, entry_of, name_of
from .offloaded import kept_in_place


__all__ = ["NESTED", "active_adapters", "companions_in", "keeping_together", "load_companions"]
__all__ += ["load_companions_of_base", "record_companions", "warn_of_absent"]

logger = logging.getLogger(__name__)

# Beginnings of PEFT's (0.21) warnings about nested adapters, where these are intended.
NESTED = (
    "You are trying to modify a model with PEFT for a second time",
    "Already found a `peft_config` attribute in the model",
)


def active_adapters(model: nn.Module) -> set[str]:
    """Names of the active adapters of all methods, on all layers of a model, also while they are disabled."""
    layers = (module for module in model.modules() if isinstance(module, BaseTunerLayer))
    return {name for layer in layers for name in layer.active_adapters}


def record_companions(model: PeftModel) -> None:
    """Sets `trained_beside` of each trainable calculator to the active adapters of other methods.

    The record of a calculator that was loaded for inference stays as it is: other adapters may be used beside it that
    it was not trained with. Configs that PEFT (0.21) leaves without the name of their base, because they were added to
    another PEFT model, get it, so that `AutoPeftModelForCausalLM` finds the base.
    """
    configs: dict[str, PeftConfig] = model.peft_config
    others = sorted(n for n in active_adapters(model) & configs.keys() if not isinstance(configs[n], IGCConfig))
    base = innermost_model(model).name_or_path or None
    for name, config in configs.items():
        if config.base_model_name_or_path is None:
            config.base_model_name_or_path = base
        if isinstance(config, IGCConfig) and not config.inference_mode:
            config.trained_beside = [entry_of(name, other) for other in others] or None


def load_companions(model: PeftModel, adapter_name: str, given: dict[str, Any]) -> None:
    """Loads the adapters beside which a calculator was trained, below it, where they are not there yet.

    Args:
        model: the PEFT model of the calculator.
        adapter_name: name of the calculator.
        given: the arguments of `PeftModel.load_adapter` with which the calculator is loaded.

    Raises:
        ValueError: if a companion is missing, or if a calculator has its name.
    """
    config: Any = model.peft_config[adapter_name]
    source, subfolder = str(given["model_id"]), given.get("kwargs", {}).get("subfolder") or ""
    _recall(config, os.path.normpath(os.path.join(source, subfolder)))
    for entry in config.trained_beside or []:
        name = name_of(entry)
        if name not in model.peft_config:
            _load(model, _source(source, subfolder, entry), name, given)
        elif isinstance(model.peft_config[name], IGCConfig):
            raise ValueError(
                f"The calculator in `{source}` was trained beside an adapter {name!r} of another method, and that "
                f"name is taken by a calculator. Pass another `adapter_name` than {name!r}."
            )


def load_companions_of_base(model: PreTrainedModel, config: IGCConfig, options: Any) -> None:
    """As `load_companions`, for a calculator that transformers loads onto a model without a PEFT model around it.

    Args:
        model: the causal LM.
        config: the calculator's config.
        options: the `LoadStateDictConfig` with which transformers (5.23) loads it.

    Raises:
        ValueError: if a companion is missing or cannot be loaded.
    """
    source, subfolder = str(options.pretrained_model_name_or_path), options.download_kwargs.get("subfolder") or ""
    _recall(config, os.path.normpath(os.path.join(source, subfolder)))
    for entry in config.trained_beside or []:
        name = name_of(entry)
        if name in model.peft_config:
            continue
        folder, inner = _source(source, subfolder, entry)
        _check_companion(model, name, folder, inner, source)
        given = options.download_kwargs | {"subfolder": inner or ""}
        with warnings.catch_warnings():
            for message in NESTED:
                warnings.filterwarnings("ignore", message)
            model.load_adapter(folder, name, is_trainable=not config.inference_mode, adapter_kwargs=given)


def _recall(config: IGCConfig, folder: str) -> None:
    """Sets `trained_beside` where the config does not have it, but a local folder does."""
    if config.trained_beside is not None:
        return  # an empty list, too: with it a calculator is loaded alone
    entries, is_recorded = _recorded(Path(folder))
    if entries and not is_recorded:
        logger.warning(
            "`%s` has no record of the adapter in its subfolder `%s`, which is used with it, because `peft-igc sft` "
            "of version 0.2.0 saved both like that. Remove the subfolder if it is of another run.",
            folder,
            LOW_RANK,
        )
    config.trained_beside = entries or None


def _source(source: str, subfolder: str, entry: str) -> tuple[str, str | None]:
    """Where a companion is: a folder, or a hub id with a subfolder."""
    if os.path.isdir(source):
        return os.path.normpath(os.path.join(source, subfolder, entry)), None
    return source, os.path.normpath(os.path.join(subfolder, entry))


def _check_companion(model: nn.Module, name: str, folder: str, subfolder: str | None, source: Any) -> None:
    """Refuses a companion that is not in its local folder, or whose weights would get lost on off-loaded ones.

    Raises:
        ValueError: the message names the companion. A subfolder of a hub id is not looked at.
    """
    if subfolder is None and not os.path.isfile(os.path.join(folder, CONFIG_NAME)):
        raise ValueError(
            f"The calculator in `{source}` was trained beside the adapter {name!r}, which is missing: "
            f"`{folder}` contains no `{CONFIG_NAME}`. Copy the whole folder, subfolders included. To load the "
            "calculator alone, which is not what was trained, pass `config=` with `trained_beside=[]`."
        )
    # PEFT (0.21) makes a LoRA on the device of its base layer, so its weights would be on the meta device.
    if any(p.device.type == "meta" for key, p in model.named_parameters() if "igc_" not in key):
        raise ValueError(
            f"The adapter {name!r}, with which the calculator in `{source}` was trained, cannot be loaded onto a base "
            "with off-loaded weights. Load the base without `device_map`."
        )


def _load(model: PeftModel, source: tuple[str, str | None], name: str, given: dict[str, Any]) -> None:
    """Loads one companion onto the model within the calculator's PEFT model, as in training."""
    folder, subfolder = source
    names = ("is_trainable", "torch_device", "autocast_adapter_dtype")
    options: dict[str, Any] = {name: given[name] for name in names if name in given}
    options |= {k: v for k, v in given.get("kwargs", {}).items() if k != "subfolder"}
    if subfolder is not None:
        options["subfolder"] = subfolder
    _check_companion(model, name, folder, subfolder, given["model_id"])
    tuner: Any = model.base_model
    with warnings.catch_warnings():
        for message in NESTED:
            warnings.filterwarnings("ignore", message)
        tuner.model = PeftModel.from_pretrained(tuner.model, folder, adapter_name=name, **options)
    if hasattr(model, "base_model_prepare_inputs_for_generation"):
        # Taken from the tuner when the outer model was made, before there was a model in between (PEFT 0.21).
        model.base_model_prepare_inputs_for_generation = tuner.prepare_inputs_for_generation


def warn_of_absent(base: nn.Module, name: str, config: IGCConfig) -> None:
    """Warns if an adapter beside which a calculator was trained is not active in the model `base`."""
    if not config.trained_beside:
        return
    absent = sorted({name_of(entry) for entry in config.trained_beside} - active_adapters(base))
    if absent:
        folder = config.loaded_from or "FOLDER"
        warnings.warn(
            f"The calculator {name!r} was trained beside the adapter {absent[0]!r}, which is not active, so its "
            f"answers are unreliable. Load both with `PeftModel.from_pretrained(base, {folder!r})`.",
            stacklevel=3,
        )


def _warn_of_calculator(model: PeftModel, adapter_name: str, source: str) -> None:
    """Warns if an adapter of another method is loaded without the calculator that was trained beside it.

    Args:
        model: the PEFT model of the adapter.
        adapter_name: its name.
        source: the folder that it is loaded from; hub ids are not looked at.
    """
    if any(isinstance(config, IGCConfig) for config in model.peft_config.values()):
        return
    folder = Path(source).resolve()
    for calculator in (folder.parent, *_subfolders(folder), *_subfolders(folder.parent)):
        if any((calculator / entry).resolve() == folder for entry in _recorded(calculator)[0]):
            warnings.warn(
                f"The adapter {adapter_name!r} in `{source}` was trained beside the calculator in `{calculator}`, "
                "which is not loaded with it. Load both with `PeftModel.from_pretrained(base, "
                f"{str(calculator)!r})`.",
                stacklevel=4,
            )
            return


def _subfolders(folder: Path) -> Iterator[Path]:
    """The subfolders that contain a config."""
    return (path.parent for path in folder.glob(f"*/{CONFIG_NAME}"))


def companions_in(folder: Path) -> list[Path]:
    """The folders of the adapters that were trained beside the calculator in a local folder."""
    return [Path(os.path.normpath(folder / entry)) for entry in _recorded(folder)[0]]


def _recorded(folder: Path) -> tuple[list[str], bool]:
    """`trained_beside` of the calculator in a local folder, empty without one; and whether its config has it."""
    try:
        saved = json.loads((folder / CONFIG_NAME).read_bytes())
        if saved["peft_type"] != "IGC":
            return [], False
        entries = saved.get("trained_beside")
        if entries is None:  # `peft-igc sft` of version 0.2.0 kept no record
            return [LOW_RANK] if (folder / LOW_RANK / CONFIG_NAME).is_file() else [], False
        check_entries(entries)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):  # reported where that folder is loaded
        return [], False
    return list(entries), True


def keeping_together(load: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `PeftModel.load_adapter`, so that adapters are loaded together, or the lack of one is reported."""
    signature = inspect.signature(load)

    @functools.wraps(load)
    def load_adapter(self: PeftModel, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        name, source = given["adapter_name"], str(given["model_id"])
        folder = os.path.normpath(os.path.join(source, given.get("kwargs", {}).get("subfolder") or ""))
        # `PeftModel.from_pretrained` (PEFT 0.21) makes the adapter before it calls this. Without that a further one
        # is loaded by hand: whether its companions are there is asked when it is used (`warn_of_absent`).
        if isinstance(self.peft_config.get(name), IGCConfig):
            load_companions(self, name, given)
            with kept_in_place(self, given.get("kwargs", {})):
                result = load(self, *args, **kwargs)
        else:
            result = load(self, *args, **kwargs)
        config = self.peft_config[name]
        if isinstance(config, IGCConfig):
            _recall(config, folder)
        elif os.path.isdir(folder):
            _warn_of_calculator(self, name, folder)
        return result

    return load_adapter
