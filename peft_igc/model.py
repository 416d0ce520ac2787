"""`IGCModel`: the tuner that attaches a calculator to one decoder layer of a causal LM.

It follows PEFT's contract for tuners (`BaseTuner`) and differs where a calculator must: the adapter is a child of the
decoder layer instead of a wrapper around it, it cannot be merged, and its weights are saved under the same keys
however several PEFT models are nested. All work of a forward pass is in `layer`, `hooks` and below.

Try it: `pytest tests/test_model.py`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft import PeftConfig
from peft.tuners.tuners_utils import BaseTuner
from peft.utils import ModulesToSaveWrapper
from torch import nn
from transformers import PreTrainedModel

from . import hooks
from .calculator import OPERATIONS
from .config import IGC_PEFT_TYPE, IGCConfig
from .layer import CANNOT_MERGE, IGCLayer
from .tokens import TokenTable


CHILD = "igc"  # the adapter's name within its decoder layer; PEFT's prefix `igc_` must not be part of it
NESTED = "base_model.model."


class AdapterConfigs(dict[str, PeftConfig]):
    """The adapters of nested PEFT models by name, which all of them share.

    PEFT (0.21) lets a later model take the name of an earlier one's adapter, and does not keep their whole trained
    modules apart. This refuses what a file could not be loaded from.
    """

    def __setitem__(self, name: str, config: PeftConfig) -> None:
        """Adds or replaces an adapter; see `_check_beside` for what is refused."""
        _check_beside(name, config, self)
        super().__setitem__(name, config)

    def update(self, configs: dict[str, PeftConfig]) -> None:  # type: ignore[override]
        """Adds or replaces adapters; a dict's own `update` would go past the check."""
        for name, config in configs.items():
            self[name] = config


class IGCModel(BaseTuner):
    """Attaches an Integrated Gated Calculator to a causal LM.

    Args:
        model: the causal LM, or a PEFT model around one.
        config: an [`IGCConfig`].
        adapter_name: name of the adapter.

    Raises:
        ValueError: if the model has no decoder layers, if `layer` is out of range, if an operation is unknown, or if
            the adapter could not be saved beside those of the model.
    """

    prefix: str = "igc_"
    tuner_layer_cls = IGCLayer
    target_module_mapping: dict[str, list[str]] = {}

    def __init__(self, model: nn.Module, peft_config: Any, adapter_name: str, *args: Any, **kwargs: Any) -> None:
        if any(isinstance(module, IGCModel) for module in model.modules()):
            raise ValueError(
                "The model is a PEFT model with an IGC adapter already. Add another one to it with "
                "`model.add_adapter(name, config)` or `model.load_adapter(folder, name)`."
            )
        new = peft_config if isinstance(peft_config, dict) else {adapter_name: peft_config}
        for name, config in new.items():
            _check_beside(name, config, getattr(model, "peft_config", None) or {})
        super().__init__(model, peft_config, adapter_name, *args, **kwargs)
        configs = AdapterConfigs(self.peft_config)
        for module in self.modules():  # PEFT keeps one dict on every tuner and base model of a nest
            if "peft_config" in module.__dict__:
                module.peft_config = configs

    # ------------------------------------------------------------------------------------------ injection
    def _prepare_adapter_config(self, peft_config: IGCConfig, model_config: dict[str, Any]) -> IGCConfig:
        """Nothing to prepare: the module is found by `layer`."""
        return peft_config

    def _prepare_model(self, peft_config: IGCConfig, model: nn.Module) -> None:
        """Finds the decoder layer; runs for every injection, also of further adapters."""
        unknown = [symbol for symbol in peft_config.operations if symbol not in OPERATIONS]
        if unknown:
            raise ValueError(
                f"`operations={peft_config.operations}` names the unknown operation {unknown[0]!r}. Known are "
                f"{', '.join(OPERATIONS)}; `calculator.register_operation` adds one."
            )
        base = innermost_model(model)
        path, layers = decoder_layers(model)
        if peft_config.layer >= len(layers):
            raise ValueError(
                f"`layer={peft_config.layer}` is out of range: the model has {len(layers)} decoder layers "
                f"(0..{len(layers) - 1}). Set `IGCConfig(layer=...)`."
            )
        self._target = f"{path}.{peft_config.layer}"
        self._base: list[PreTrainedModel] = [base]  # a list, or it would become a submodule
        hooks.install(base, layers[0])

    def _check_target_module_exists(self, peft_config: PeftConfig, key: str) -> bool:
        """Equality: a suffix could match a layer of another stack, such as a vision tower's."""
        return key == self._target

    def _create_and_replace(
        self,
        peft_config: IGCConfig,
        adapter_name: str,
        target: nn.Module,
        target_name: str,
        parent: nn.Module,
        current_key: str,
        parameter_name: str | None = None,
    ) -> None:
        """Attaches the adapter to the decoder layer `target`, which stays in its place."""
        text_config = self._base[0].config.get_text_config(decoder=True)
        if peft_config.number_tokens is not None:
            TokenTable.from_json(peft_config.number_tokens).check_vocabulary(text_config.vocab_size)
        layer = getattr(target, CHILD, None)
        if layer is None:
            hidden_size = text_config.hidden_size
            layer = IGCLayer(target, self._base[0], hidden_size, peft_config.layer)
            target.add_module(CHILD, layer)
        layer.update_layer(adapter_name, peft_config, inference_mode=peft_config.inference_mode)

    def delete_adapter(self, adapter_name: str) -> None:
        """Deletes an adapter. If it was the active one, the first of those that are left becomes active.

        Raises:
            ValueError: if there is no IGC adapter of this name.
        """
        config = self.peft_config.get(adapter_name)
        if config is not None and config.peft_type != IGC_PEFT_TYPE:
            raise ValueError(
                f"Adapter {adapter_name!r} is no IGC adapter. Delete it on the PEFT model that it was added to."
            )
        was_active = adapter_name in self.active_adapters
        super().delete_adapter(adapter_name)
        if was_active:
            # Each layer has picked one of its own adapters: on several layers these would be active at once.
            left = sorted(name for name, other in self.peft_config.items() if other.peft_type == IGC_PEFT_TYPE)
            self.set_adapter(left[:1])

    def set_adapter(self, adapter_name: str | list[str], inference_mode: bool = False) -> None:
        """Activates one adapter; several raise a ValueError."""
        names = [adapter_name] if isinstance(adapter_name, str) else list(adapter_name)
        own = [n for n in names if n in self.peft_config and self.peft_config[n].peft_type == IGC_PEFT_TYPE]
        if len(own) > 1:
            # Said by the layer for its own adapters; here for those on different layers.
            raise ValueError(
                f"IGC adapters {own} cannot be active at once: a text has one calculator. Activate one of them."
            )
        super().set_adapter(adapter_name, inference_mode=inference_mode)

    # ------------------------------------------------------------------------------------------ refusals
    def _check_merge_allowed(self) -> None:
        raise ValueError(CANNOT_MERGE)

    def add_weighted_adapter(self, *args: Any, **kwargs: Any) -> None:
        """Refuses: readings are discrete, so weights of two calculators have no meaningful mean."""
        raise ValueError(
            "IGC adapters cannot be combined with weights: what they read is discrete. "
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
    def _unload_and_optionally_merge(
        self,
        merge: bool = True,
        progressbar: bool = False,
        safe_merge: bool = False,
        adapter_names: list[str] | None = None,
    ) -> nn.Module:
        """Removes every trace of the method. PEFT's own version would put the decoder layer into itself."""
        if merge:
            self._check_merge_allowed()
        for module in list(self.model.modules()):
            for name, child in list(module._modules.items()):
                if isinstance(child, IGCLayer):
                    child.remove()
                    del module._modules[name]
                elif isinstance(child, ModulesToSaveWrapper):  # of ours: no other method may have one beside us
                    module._modules[name] = child.original_module
        hooks.uninstall(self._base[0])
        configs = self.model.peft_config
        for name in [n for n, c in configs.items() if c.peft_type == IGC_PEFT_TYPE]:
            del configs[name]
        if not configs and "peft_config" in self.model.__dict__:
            del self.model.peft_config
        return self.model

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
        """Only the calculator's weights, whatever other tuner is in the model.

        Raises:
            ValueError: if another adapter has the name of a part of the calculator: PEFT (0.21) takes that part's
                weights for the other adapter's and would leave them out of the file.
        """
        own = _OWN_KEY(adapter_name)
        parts = {
            part for key, _ in model.named_parameters() for part in own.split(key)[-1].split(".") if own.search(key)
        }
        taken = sorted(parts.intersection(unwanted_adapter_names))
        if taken:
            raise ValueError(
                f"Adapter {adapter_name!r} cannot be saved beside adapter {taken[0]!r}, whose name is that of a part "
                f"of the calculator. Rename that adapter, or delete it first with `delete_adapter({taken[0]!r})`."
            )
        return {k: v for k, v in state_dict.items() if _OWN_KEY(adapter_name).search(k)}

    @classmethod
    def _remove_adapter_name_from_key(cls, key: str, adapter_name: str) -> str:
        """The key in a file: `base_model.model.` once, however deep the model is nested, and no adapter name."""
        key = _OWN_KEY(adapter_name).sub(r".\1.", key)
        return canonical_key(key)

    @classmethod
    def _remap_adapter_state_dict_for_load(
        cls, model: nn.Module, config: PeftConfig, adapter_name: str, state_dict: dict[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """The keys of the model for the keys of a file. Weights that are not this adapter's raise a ValueError."""
        own = {k: v for k, v in model.state_dict().items() if _OWN_KEY(adapter_name).search(k)}
        places = {_bare_key(cls._remove_adapter_name_from_key(k, adapter_name)): k for k in own}
        given = {_bare_key(k): v.shape for k, v in state_dict.items() if _FILE_KEY.search(k)}
        _check_weights(model, config, adapter_name, {k: own[place].shape for k, place in places.items()}, given)
        return {places.get(_bare_key(k), k): v for k, v in state_dict.items()}


# The part of a key that names a mapping, in a file.
_FILE_KEY = re.compile(rf"\.({'|'.join(IGCLayer.adapter_layer_names)})\.")


def _OWN_KEY(adapter_name: str) -> re.Pattern[str]:
    """Matches the part of a key that names a mapping and its adapter, in a model."""
    return re.compile(rf"{_FILE_KEY.pattern}{re.escape(adapter_name)}\.")


def _bare_key(key: str) -> str:
    """`key` as a base model without PEFT would have it."""
    return canonical_key(key).removeprefix(NESTED)


def canonical_key(key: str) -> str:
    """`key` with PEFT's prefix `base_model.model.` at most once."""
    while key.startswith(2 * NESTED):
        key = key.removeprefix(NESTED)
    return key


def _check_weights(
    model: nn.Module,
    config: PeftConfig,
    adapter_name: str,
    expected: dict[str, torch.Size],
    given: dict[str, torch.Size],
) -> None:
    """Refuses weights that do not fit: PEFT would load what fits and leave the rest random, with a warning.

    Args:
        model: the model that is loaded into.
        config: of the adapter.
        adapter_name: its name.
        expected: shapes of the adapter in the model, by bare key.
        given: shapes in the file, by bare key.

    Raises:
        ValueError: if a weight is missing, or not expected, or of another shape.
    """
    source = getattr(config, "loaded_from", None)
    weights = f"The weights in `{source}`" if source else f"The weights for adapter {adapter_name!r}"
    trained_on = config.base_model_name_or_path
    cure = f"Load them onto the base model that they were trained on{f', `{trained_on}`' if trained_on else ''}."
    base = innermost_model(model)
    name = f"`{type(base).__name__}`" + (f" (`{base.config.name_or_path}`)" if base.config.name_or_path else "")
    missing, unknown = sorted(expected.keys() - given.keys()), sorted(given.keys() - expected.keys())
    if missing or unknown:
        examples = [
            f"{len(names)} {what}, such as `{names[0]}`"
            for names, what in ((missing, "are missing"), (unknown, "have no place"))
            if names
        ]
        raise ValueError(
            f"{weights} are not those of the adapter that its config describes on {name}: "
            f"{'; '.join(examples)}. {cure}"
        )
    wrong = [key for key in expected if expected[key] != given[key]]
    for key in wrong:
        if key.endswith(".igc_input_mapping.norm.weight"):
            raise ValueError(
                f"{weights} are for a base model of hidden size {given[key][0]}, but {name} has {expected[key][0]}. "
                f"{cure}"
            )
    if wrong:
        key = wrong[0]
        raise ValueError(
            f"{weights} do not fit the adapter's config: `{key}` has shape {tuple(given[key])}, the config asks for "
            f"{tuple(expected[key])} ({len(wrong)} such weights). Restore the `adapter_config.json` saved with them."
        )


def innermost_model(model: nn.Module) -> PreTrainedModel:
    """The causal LM within PEFT models: the only one whose `__call__` and `generate` every way of calling reaches.

    Raises:
        ValueError: if there is none.
    """
    found = next((m for m in model.modules() if isinstance(m, PreTrainedModel)), None)
    if found is None or not hasattr(found.config, "get_text_config"):
        raise ValueError(
            f"`{type(model).__name__}` is no transformers model, so there are no decoder layers to attach to. "
            "Pass a causal LM, for example from `AutoModelForCausalLM.from_pretrained(...)`."
        )
    return found


def decoder_layers(model: nn.Module) -> tuple[str, nn.ModuleList]:
    """Path and list of the decoder layers of a model.

    Args:
        model: a transformers causal LM, or a PEFT model around one.

    Raises:
        ValueError: if there is no such list, as in an encoder or in an encoder-decoder model.
    """
    base = innermost_model(model)
    if getattr(base.config, "is_encoder_decoder", False) or not base.can_generate():
        raise ValueError(
            f"`{type(base).__name__}` is no causal LM (decoder only), so a calculator cannot read a text and write on "
            "into it. Pass a model of `AutoModelForCausalLM`."
        )
    count = base.config.get_text_config(decoder=True).num_hidden_layers
    decoder = set(base.get_decoder().modules())  # without the stacks of other modalities, such as a vision tower
    named = [(k, m) for k, m in model.named_modules() if isinstance(m, nn.ModuleList) and m in decoder]
    named = [(k, m) for k, m in named if len(m) == count]
    lists = [(k, m) for k, m in named if k.rpartition(".")[2] in ("layers", "h", "blocks", "block", "layer")]
    if not lists:
        raise ValueError(
            f"`{type(base).__name__}` has no list of {count} decoder layers under a name that is known. "
            "Known are `layers`, `h`, `blocks`, `block` and `layer`."
        )
    return min(lists, key=lambda item: item[0].count("."))


def _check_beside(name: str, config: PeftConfig, others: dict[str, PeftConfig]) -> None:
    """Refuses an adapter that PEFT (0.21) could not save apart from those of another method on the same base model.

    Raises:
        ValueError: if the name is taken, or if one of them trains whole modules or tokens.
    """
    for other_name, other in others.items():
        if other.peft_type == config.peft_type:
            continue
        if other_name == name:
            method = getattr(other.peft_type, "value", other.peft_type)
            raise ValueError(
                f"The adapter name {name!r} is taken by a {method} adapter of the same base model; files of both "
                "would hold the weights of both. Pass another `adapter_name` to `get_peft_model`."
            )
        for owner, fields in ((name, config), (other_name, other)):
            for field in ("modules_to_save", "trainable_token_indices"):
                if getattr(fields, field, None):
                    raise ValueError(
                        f"Adapter {owner!r} has `{field}`, which PEFT does not keep apart from adapters of another "
                        "method. Drop it, or train a LoRA that has it first and `merge_and_unload` it."
                    )
