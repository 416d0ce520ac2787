"""Registration: makes `IGCConfig` and `IGCModel` known to PEFT. It runs on `import peft_igc`; nothing else is needed.

PEFT 0.21 has three public tables and no entry point for plugins: `register_peft_method` accepts only members of its
own enum `PeftType`. So the tables get a one-member string enum of ours, which hashes and compares like the string
"IGC". Some functions of PEFT are wrapped as well, so that other tuners work beside an IGC adapter; see there.

Try it: `pytest tests/tuner/test_register.py`
"""

from __future__ import annotations

import functools
import inspect
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING, PEFT_TYPE_TO_PREFIX_MAPPING, PEFT_TYPE_TO_TUNER_MAPPING
from peft.tuners import tuners_utils
from peft.tuners.tuners_utils import BaseTuner, _get_tuner_state_dict_key_prefixes
from peft.utils import save_and_load
from torch import nn

from .base_model import innermost_model
from .config import IGC_PEFT_TYPE, IGCConfig
from .layer import IGCLayer
from .model import IGCModel
from .saving.adapter_files import GATHER, NESTED, canonical_key, is_elsewhere, without_adapters
from .saving.companions import keeping_together, record_companions
from .saving.model_card import write_card


def register() -> None:
    """Puts IGC into PEFT's tables. Calling it again changes nothing.

    Raises:
        KeyError: if another package has registered the name or the prefix.
    """
    holder = PEFT_TYPE_TO_CONFIG_MAPPING.get(IGC_PEFT_TYPE)
    if holder is not None and (holder.__module__, holder.__qualname__) != (
        IGCConfig.__module__,
        IGCConfig.__qualname__,
    ):
        raise KeyError(
            f"The PEFT type {IGC_PEFT_TYPE.value!r} is registered by `{holder.__module__}`. Import only one of the "
            "packages."
        )
    for other, prefix in PEFT_TYPE_TO_PREFIX_MAPPING.items():
        if prefix == IGCModel.prefix and other != IGC_PEFT_TYPE:
            raise KeyError(f"The PEFT prefix {prefix!r} is registered for {other!r}. Import only one of the packages.")
    PEFT_TYPE_TO_CONFIG_MAPPING[IGC_PEFT_TYPE] = IGCConfig
    PEFT_TYPE_TO_TUNER_MAPPING[IGC_PEFT_TYPE] = IGCModel
    PEFT_TYPE_TO_PREFIX_MAPPING[IGC_PEFT_TYPE] = IGCModel.prefix
    _save_nested_adapters_canonically()
    _find_linear_layers_in_the_causal_lm()
    _write_own_card()
    _keep_adapters_together()
    _say_how_methods_combine()


def _keep_adapters_together() -> None:
    """Makes PEFT save and load a calculator with the adapters that were trained beside it (see `companions`).

    `PeftModel.from_pretrained` of PEFT 0.21 loads one adapter of a folder and leaves the others there.
    """
    save, load = PeftModel.save_pretrained, PeftModel.load_adapter
    if getattr(save, "_igc", False):
        return

    @functools.wraps(save)
    def save_pretrained(self: PeftModel, *args: Any, **kwargs: Any) -> None:
        record_companions(self)
        save(self, *args, **kwargs)

    save_pretrained._igc = True  # type: ignore[attr-defined]
    PeftModel.save_pretrained = save_pretrained
    PeftModel.load_adapter = keeping_together(load)


def _say_how_methods_combine() -> None:
    """Makes `PeftModel.add_adapter` name the line that puts an adapter of another method next to a calculator.

    A `PeftModel` of PEFT 0.21 has adapters of one method and refuses others without a cure.
    """
    add = PeftModel.add_adapter
    if getattr(add, "_igc", False):
        return

    @functools.wraps(add)
    def add_adapter(self: PeftModel, adapter_name: str, peft_config: Any, *args: Any, **kwargs: Any) -> None:
        kinds = {self.peft_type, peft_config.peft_type}
        if adapter_name not in self.peft_config and len(kinds) > 1 and IGC_PEFT_TYPE in kinds:
            own, new = (getattr(kind, "value", kind) for kind in (self.peft_type, peft_config.peft_type))
            raise ValueError(
                f"A `PeftModel` has adapters of one method, here {own}, so the {new} adapter {adapter_name!r} cannot "
                f"be added to it. Put it around the model: `model = get_peft_model(model, config, "
                f"adapter_name={adapter_name!r})`, or a saved one `model = PeftModel.from_pretrained(model, folder, "
                f"adapter_name={adapter_name!r})`."
            )
        add(self, adapter_name, peft_config, *args, **kwargs)

    add_adapter._igc = True  # type: ignore[attr-defined]
    PeftModel.add_adapter = add_adapter


def _write_own_card() -> None:
    """Makes PEFT write our model card for an IGC adapter, and its own for other methods' adapters.

    The template of PEFT 0.21 consists of placeholders, and names the base by its path on this machine.
    """
    write = PeftModel.create_or_update_model_card
    if getattr(write, "_igc", False):
        return

    def create_or_update_model_card(self: PeftModel, output_dir: str) -> None:
        config = self.peft_config.get(self.active_adapter)
        if isinstance(config, IGCConfig):
            # Before PEFT saves the config itself.
            base = config.base_model_name_or_path or innermost_model(self).config.name_or_path
            write_card(Path(output_dir), base, config=config.to_dict())
        else:
            write(self, output_dir)

    create_or_update_model_card._igc = True  # type: ignore[attr-defined]
    PeftModel.create_or_update_model_card = create_or_update_model_card


def _save_nested_adapters_canonically() -> None:
    """Makes other tuners around an IGC adapter save their weights under the same keys as on the base model alone.

    PEFT 0.21 adds its prefix to the keys once for each nested PEFT model, so a LoRA saved around an IGC adapter would
    not load without one. `BaseTuner`'s methods are wrapped; models without a calculator are not affected. This can go
    when PEFT saves nested models under canonical keys.
    """
    if getattr(BaseTuner._get_adapter_state_dict, "_igc", False):
        return
    get, remap = (
        BaseTuner.__dict__["_get_adapter_state_dict"],
        BaseTuner.__dict__["_remap_adapter_state_dict_for_load"],
    )

    signature = inspect.signature(get.__func__)

    def get_adapter_state_dict(cls: type, model: nn.Module, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        found = get.__func__(cls, model, *args, **kwargs)
        if not _has_calculator(model):
            return found
        given = signature.bind(cls, model, *args, **kwargs).arguments
        if not is_elsewhere(given["state_dict"]):
            _check_not_lost(model, given["adapter_name"], found)
        return {canonical_key(k): v for k, v in found.items()}

    def remap_adapter_state_dict_for_load(
        cls: Any, model: nn.Module, config: Any, adapter_name: str, state_dict: dict[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        if _has_calculator(model):
            depth = max((_depth(k) for k, m in model.named_modules() if isinstance(m, cls.tuner_layer_cls)), default=1)
            state_dict = {
                NESTED * (depth - 1) + canonical_key(k) if k.startswith(NESTED) else k: v
                for k, v in state_dict.items()
            }
        return remap.__func__(cls, model, config, adapter_name, state_dict)

    save_and_load._filter_state_dict_for_adapter_name = without_adapters(
        save_and_load._filter_state_dict_for_adapter_name
    )
    # The mark keeps a second `register()` from wrapping the wrapper.
    get_adapter_state_dict._igc = True  # type: ignore[attr-defined]
    BaseTuner._get_adapter_state_dict = classmethod(get_adapter_state_dict)
    BaseTuner._remap_adapter_state_dict_for_load = classmethod(remap_adapter_state_dict_for_load)


def _check_not_lost(model: nn.Module, adapter_name: str, found: dict[str, torch.Tensor]) -> None:
    """Refuses to save an adapter of another method, in a model with a calculator, without any of its weights.

    Raises:
        ValueError: if none of its weights are in `found`, the weights to be saved by key.
    """
    prefixes = tuple(_get_tuner_state_dict_key_prefixes(model, adapter_name))
    own = {name for name, _ in model.named_parameters() if name.startswith(prefixes)}
    if own and own.isdisjoint(found):
        raise ValueError(
            f"None of the weights of the adapter {adapter_name!r} are left in the state dict that is to be saved. "
            f"Rename adapters that are named like a module of the model, such as `layers`. {GATHER}"
        )


def _find_linear_layers_in_the_causal_lm() -> None:
    """Makes `target_modules="all-linear"` select the same modules around an IGC adapter as on the base model alone.

    PEFT 0.21 excludes the output head only if it is given the causal LM itself. Given a PEFT model it targets the head
    too, saves that base weight with the adapter, and writes module names into the config that the base model does not
    have. This can go when PEFT looks into nested models.
    """
    find = tuners_utils._maybe_include_all_linear_layers
    if getattr(find, "_igc", False):
        return

    def include_all_linear_layers(peft_config: Any, model: nn.Module) -> Any:
        return find(peft_config, innermost_model(model) if _has_calculator(model) else model)

    include_all_linear_layers._igc = True  # type: ignore[attr-defined]
    tuners_utils._maybe_include_all_linear_layers = include_all_linear_layers


def _has_calculator(model: nn.Module) -> bool:
    return any(isinstance(module, IGCLayer) for module in model.modules())


def _depth(path: str) -> int:
    """Number of PEFT's prefixes at the beginning of a module's path; at least 1."""
    depth = 0
    while path.startswith(NESTED):
        path, depth = path.removeprefix(NESTED), depth + 1
    return max(depth, 1)


register()
