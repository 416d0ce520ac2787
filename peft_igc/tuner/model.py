"""`IGCModel`: the tuner that attaches the adapter to one decoder layer of a causal LM.

It follows PEFT's contract for tuners (`BaseTuner` of PEFT 0.21) and differs in three points: the adapter, an
`IGCLayer`, is a child of its target instead of a wrapper around it, it cannot be merged, and around a PEFT model it
attaches to that model's base (see `register`). The forward pass is in `layer` and `hooks`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft import PeftConfig, PeftModel
from peft.tuners.tuners_utils import BaseTuner
from peft.utils import ModulesToSaveWrapper
from torch import nn

from ..numbers.calculator import OPERATIONS
from ..text.operations import FUNCTIONS
from .base_model import decoder_layers, innermost_model
from .config import IGC_PEFT_TYPE, IGCConfig
from .hooks.install import capture, install, release, uninstall
from .layer import IGCLayer
from .saving import adapter_files
from .saving.companions import record_companions, with_companions


# Name of the `IGCLayer` within its decoder layer. PEFT searches names for the method's prefix `igc_`, so this one must
# not contain it.
CHILD = "igc"


class IGCModel(BaseTuner):
    """Creates an Integrated Gated Calculator on a decoder layer of a causal LM.

    Args:
        model: the causal LM, or a PEFT model around one.
        peft_config: an [`IGCConfig`], or a dict of them by adapter name.
        adapter_name: name of the adapter.
        args, kwargs: as in `BaseTuner`.

    Raises:
        ValueError: if the model already has an `IGCModel` or has no decoder layers, if `layer` is out of range, if an
            operation is unknown, or if the adapter could not be saved with the model's other adapters.
    """

    prefix: str = "igc_"
    tuner_layer_cls = IGCLayer
    target_module_mapping: dict[str, list[str]] = {}

    def __init__(self, model: nn.Module, peft_config: Any, adapter_name: str, *args: Any, **kwargs: Any) -> None:
        if any(isinstance(module, IGCModel) for module in model.modules()):
            raise ValueError(
                "The model already has an IGC adapter. Add another one with `model.add_adapter(name, config)` or "
                "`model.load_adapter(folder, name)`."
            )
        new = peft_config if isinstance(peft_config, dict) else {adapter_name: peft_config}
        for config in new.values():
            model = with_companions(model, config)
        super().__init__(model, peft_config, adapter_name, *args, **kwargs)
        self._within = [model]  # in a list, because a plain attribute would become a submodule

    # ------------------------------------------------------------------------------------------ injection
    def _prepare_adapter_config(self, peft_config: IGCConfig, model_config: dict[str, Any]) -> IGCConfig:
        """Returns the config as it is. PEFT's version requires `target_modules`, which `layer` replaces."""
        return peft_config

    def _prepare_model(self, peft_config: IGCConfig, model: nn.Module) -> None:
        """Finds the decoder layer and installs the hooks. PEFT calls it for every adapter, also for later ones."""
        is_read = peft_config.interface == "tokens"
        known = [*"+-*/", *FUNCTIONS] if is_read else OPERATIONS
        unknown = [name for name in peft_config.operations if name not in known]
        if unknown:
            cure = "Leave it out, or use the token interface, which has functions"
            if is_read:
                cure = f'Register its function first, with `@peft_igc.register_operation(name="{unknown[0]}", ...)`'
            raise ValueError(
                f"`operations={peft_config.operations}` names the unknown operation {unknown[0]!r}. Known are "
                f"{', '.join(known)}. {cure}."
            )
        base = innermost_model(model)
        path, layers = decoder_layers(model)
        if peft_config.layer >= len(layers):
            raise ValueError(
                f"`layer={peft_config.layer}` is out of range: the model has {len(layers)} decoder layers "
                f"(0..{len(layers) - 1}). Set `IGCConfig(layer=...)`."
            )
        self._target = f"{path}.{peft_config.layer}"
        install(base)
        capture(base, layers, peft_config.layers_captured)

    def _check_target_module_exists(self, peft_config: PeftConfig, key: str) -> bool:
        """Compares whole paths: a suffix could match a layer of another stack, such as a vision tower."""
        return key == self._target

    def _create_and_replace(
        self, peft_config: IGCConfig, adapter_name: str, target: nn.Module, *args: Any, **kwargs: Any
    ) -> None:
        """Adds the adapter to the `IGCLayer` of the decoder layer `target`, which is not replaced; further arguments
        say how PEFT would replace it."""
        adapter_files.check_beside(adapter_name, peft_config, self.peft_config)
        base = innermost_model(self.model)
        adapter_files.check_names(base, self.peft_config)
        text_config = base.config.get_text_config(decoder=True)
        if peft_config.vocabulary is not None and (table := peft_config.token_table) is not None:
            table.check_vocabulary(text_config.vocab_size)  # without a vocabulary, it is checked with the weights
        layer, hidden_size = getattr(target, CHILD, None), text_config.hidden_size
        adapter_files.check_size(peft_config, hidden_size, base.get_input_embeddings())
        if layer is None:
            layer = IGCLayer(target, base, hidden_size, peft_config.layer)
            target.add_module(CHILD, layer)
            base.__dict__["_igc_layers"].append(layer)
        layer.update_layer(adapter_name, peft_config, inference_mode=peft_config.inference_mode)

    def delete_adapter(self, adapter_name: str) -> None:
        """Deletes an IGC adapter; another name is a ValueError. If it was active, the first remaining IGC adapter in
        alphabetical order is activated."""
        config = self.peft_config.get(adapter_name)
        if config is not None and config.peft_type != IGC_PEFT_TYPE:
            raise ValueError(
                f"Adapter {adapter_name!r} is not an IGC adapter. Delete it on the PEFT model that it was added to."
            )
        was_active = adapter_name in self.active_adapters
        super().delete_adapter(adapter_name)
        left = {name: other for name, other in self.peft_config.items() if other.peft_type == IGC_PEFT_TYPE}
        release(innermost_model(self.model), {index for other in left.values() for index in other.layers_captured})
        if was_active:
            # PEFT activates a remaining adapter on each layer by itself; across layers that may be several.
            self.set_adapter(sorted(left)[:1])

    # ------------------------------------------------------------------------------------------ refusals
    def _check_merge_allowed(self) -> None:
        raise ValueError(
            "IGC cannot be merged into the base model, because the calculator is not a linear map of its weights. "
            "Keep the adapter and the base model apart, or remove it with `unload()`."
        )

    def add_weighted_adapter(self, *args: Any, **kwargs: Any) -> None:
        """Raises a ValueError: readings are discrete, so a weighted mean of two adapters has no meaning."""
        raise ValueError(
            "IGC adapters cannot be combined with weights, because their readings are discrete. "
            "Train one adapter on both data sets instead."
        )

    @contextmanager
    def _enable_peft_forward_hooks(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        if kwargs.get("adapter_names") is not None:
            raise ValueError(
                "IGC does not support `adapter_names` (different adapters for the rows of a batch). "
                "Run one batch per adapter with `set_adapter(name)`."
            )
        yield

    # ------------------------------------------------------------------------------------------ removal
    def _unload_and_optionally_merge(self, merge: bool = True, **kwargs: Any) -> nn.Module:
        """Removes the layers, hooks and configs of all IGC adapters, and returns the model that was given.

        Overrides PEFT's version (0.21), which replaces each tuner layer by its `base_layer`. This layer is a child of
        its base layer, which would thereby become a child of itself.
        """
        if merge:
            self._check_merge_allowed()
        for module in list(self.model.modules()):
            for name, child in list(module._modules.items()):
                if isinstance(child, IGCLayer):
                    child.remove()
                    del module._modules[name]
                elif isinstance(child, ModulesToSaveWrapper):  # ours: `check_beside` allows no other
                    module._modules[name] = child.original_module
        uninstall(innermost_model(self.model))
        for name in [n for n, c in self.peft_config.items() if c.peft_type == IGC_PEFT_TYPE]:
            del self.peft_config[name]
        if not self.peft_config and "peft_config" in self.model.__dict__:
            del self.model.peft_config
        return self._within[0]

    # ------------------------------------------------------------------------------------------ files
    @classmethod
    def _get_adapter_state_dict(
        cls,
        model: nn.Module,
        config: PeftConfig,
        adapter_name: str,
        state_dict: dict[str, torch.Tensor],
        unwanted_adapter_names: list[str],
    ) -> dict[str, torch.Tensor]:
        """The adapter's own weights, whatever other tuners are in the model; missing ones are a ValueError."""
        found = {k: v for k, v in state_dict.items() if adapter_files.own_key(adapter_name).search(k)}
        if any(v.device.type == "meta" for v in found.values()):
            _bring_back(model, adapter_name)
            found = {k: v for k, v in model.state_dict().items() if k in found}
        several = torch.distributed.is_available() and torch.distributed.is_initialized()
        if state_dict or not several or torch.distributed.get_rank() == 0:  # else another process saves the weights
            adapter_files.check_complete(model, adapter_name, found)
        if isinstance(model, PeftModel):  # what is saved after the weights is the config
            record_companions(model, adapter_name)
        return found

    @classmethod
    def _remove_adapter_name_from_key(cls, key: str, adapter_name: str) -> str:
        """The key in a file: without the adapter name."""
        return adapter_files.own_key(adapter_name).sub(r".\1.", key)

    @classmethod
    def _remap_adapter_state_dict_for_load(
        cls, model: nn.Module, config: PeftConfig, adapter_name: str, state_dict: dict[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Renames the keys of a file to those of the model (see `checked_weights`)."""
        _bring_back(model, adapter_name)
        return adapter_files.checked_weights(model, config, adapter_name, state_dict)


def _bring_back(model: nn.Module, adapter_name: str) -> None:
    """Ends the off-loading of an adapter's weights: on the meta device they can be neither saved nor loaded over."""
    for layer in model.modules():
        if isinstance(layer, IGCLayer) and adapter_name in layer.igc_config:
            layer.bring_back(adapter_name)
