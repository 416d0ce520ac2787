"""Keys of adapter weights in a file and in a model, and checks that both fit.

In: keys, shapes and values of weights, configs. Out: renamed keys, or an error that names the file and the cure. In a
model, a key contains the adapter name; in a file it does not. Reading and writing files is PEFT's work.

Try it: `pytest tests/tuner/test_model_refusals.py`
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from peft import PeftConfig
from peft.utils import SAFETENSORS_WEIGHTS_NAME, WEIGHTS_NAME
from torch import nn

from ..adapter import make_mappings
from ..base_model import innermost_model
from ..config import IGC_PEFT_TYPE
from ..layer import IGCLayer
from .vocabulary_file import VOCABULARY, vocabulary_of


PREFIX = "base_model.model."  # PEFT's, of the keys of a wrapped model

# Matches the name of a mapping in the key of a file.
FILE_KEY = re.compile(rf"\.({'|'.join(IGCLayer.adapter_layer_names)})\.")


def own_key(adapter_name: str) -> re.Pattern[str]:
    """Pattern for the names of a mapping and of its adapter in the key of a model."""
    return re.compile(rf"{FILE_KEY.pattern}{re.escape(adapter_name)}\.")


# Matches the name of the adapter that trains a whole module, in the key of a model.
_OWNER = re.compile(r"(?<=\.modules_to_save\.)[^.]+\.")

Weights = dict[str, torch.Tensor]


def check_names(base: nn.Module, configs: Mapping[str, PeftConfig]) -> None:
    """Refuses calculators with names because of which PEFT 0.21 leaves out weights of other adapters in their files.

    Args:
        base: the causal LM with its adapters.
        configs: the configs of its adapters, by name.

    Raises:
        ValueError: if a name is in the path of a weight. Own weights do not count.
    """
    calculators = {name for name, config in configs.items() if config.peft_type == IGC_PEFT_TYPE}
    for path, _ in itertools.chain(base.named_parameters(prefix=PREFIX[:-1]), base.named_buffers(prefix=PREFIX[:-1])):
        parts = () if ".igc." in path else _OWNER.sub("", path).split(".")
        for name in calculators.intersection(parts):
            raise ValueError(
                f"The name {name!r} of a calculator is in the path of the weight `{path.removeprefix(PREFIX)}`, which "
                "PEFT would leave out when it saves another adapter. Pass another `adapter_name`."
            )


def check_complete(model: nn.Module, adapter_name: str, keys: Iterable[str]) -> None:
    """Refuses to save a calculator without all of its weights.

    Args:
        model: the model with the adapter.
        adapter_name: the adapter's name.
        keys: the keys of its weights that are about to be saved, as in the model.

    Raises:
        ValueError: if a weight is missing.
    """
    own = own_key(adapter_name)

    def places(names: Iterable[str]) -> set[str]:
        """Keys from the mapping's name on, as an adapter is on one layer, without the names of FSDP's wrappers."""
        bare = (name.replace("_fsdp_wrapped_module.", "") for name in names)
        return {name[match.start() :] for name in bare if (match := own.search(name))}

    saved = itertools.chain(model.named_parameters(), model.named_buffers())  # a vocabulary is a buffer
    wanted, given = places(name for name, _ in saved), places(keys)
    if missing := sorted(wanted - given):
        raise ValueError(
            f"{len(missing)} of the weights of the calculator {adapter_name!r} are missing in the state dict that is "
            f"to be saved, such as `{missing[0].removeprefix('.')}`, so it could not be loaded. Pass no `state_dict`, "
            "or the whole one (with DeepSpeed ZeRO-3 set `stage3_gather_16bit_weights_on_model_save`), and rename "
            "adapters that are named like a module, such as `layers`: PEFT drops all weights within such a module."
        )


def is_elsewhere(state_dict: Weights) -> bool:
    """Whether a state dict is empty because another process gathers and saves the weights."""
    several = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not state_dict and several and torch.distributed.get_rank() > 0


def bare_key(key: str) -> str:
    """`key` without PEFT's prefix, as in a base model without PEFT."""
    return key.removeprefix(PREFIX)


def check_weights(
    model: nn.Module,
    config: PeftConfig,
    adapter_name: str,
    expected: dict[str, torch.Size],
    given: dict[str, torch.Size],
) -> None:
    """Refuses weights that do not fit the adapter. PEFT 0.21 would load those that fit and leave the rest random.

    Args:
        model: the model with the adapter.
        config: the adapter's config.
        adapter_name: the adapter's name.
        expected: shapes of the adapter's weights in the model, by bare key.
        given: shapes of the weights in the file, by bare key.

    Raises:
        ValueError: if a weight is missing, unexpected, or of another shape.
    """
    source = getattr(config, "loaded_from", None)
    weights = f"The weights in `{source}`" if source else f"The weights for adapter {adapter_name!r}"
    trained_on = config.to_dict()["base_model_name_or_path"]  # the embedded base by its name
    cure = f"Load them onto the base model that they were trained on{f', `{trained_on}`' if trained_on else ''}."
    base = innermost_model(model)
    name = f"`{type(base).__name__}`" + (f" (`{base.config.name_or_path}`)" if base.config.name_or_path else "")
    missing, unknown = sorted(expected.keys() - given.keys()), sorted(given.keys() - expected.keys())
    if missing or unknown:
        examples = [
            f"{len(names)} {problem}, such as `{names[0]}`"
            for names, problem in ((missing, "are missing"), (unknown, "are unexpected"))
            if names
        ]
        raise ValueError(
            f"{weights} are not those of the adapter that its config describes on {name}: "
            f"{'; '.join(examples)}. {cure}"
        )
    wrong = [key for key in expected if expected[key] != given[key] and not key.endswith(VOCABULARY)]
    for key in wrong:
        # This norm has one weight per hidden unit, so its shape shows for which hidden size the adapter was trained.
        if key.endswith(".igc_input_mapping.norm.weight") and len(given[key]) == 1:
            raise ValueError(
                f"{weights} are for a base model of hidden size {given[key][0]}, but {name} has {expected[key][0]}. "
                f"{cure}"
            )
    if wrong:
        key = wrong[0]
        raise ValueError(
            f"{weights} do not fit the adapter's config: `{key}` has shape {tuple(given[key])}, the config requires "
            f"{tuple(expected[key])} ({len(wrong)} such weights). Restore the `adapter_config.json` saved with them."
        )


def take_vocabulary(model: nn.Module, config: Any, adapter_name: str, saved: torch.Tensor) -> None:
    """Makes the vocabulary in a file that of the adapter, before the weights in the file are loaded.

    Args:
        model: the model with the adapter.
        config: the adapter's config.
        adapter_name: the adapter's name.
        saved: [n] uint8, the vocabulary as it was saved.

    Raises:
        ValueError: if it is damaged, does not fit the config, or has tokens that the model lacks.
    """
    known = vocabulary_of(saved, config.loaded_from)
    config.vocabulary = known
    table = config.token_table
    table.check_vocabulary(innermost_model(model).config.get_text_config(decoder=True).vocab_size)
    for layer in model.modules():
        if isinstance(layer, IGCLayer) and adapter_name in layer.igc_config:
            layer.igc_config[adapter_name].vocabulary = known
            reader: Any = layer.igc_input_mapping[adapter_name]
            if reader.vocabulary != known:
                reader.know(known, table)


def verify_next_load(model: nn.Module, adapter_name: str, given: Weights) -> None:
    """Makes the next `model.load_state_dict` fail if afterwards a weight of a calculator is not the one given.

    Torch and PEFT (0.21) leave a weight as it was where it has no place for the value, as on the meta device. Shards
    of weights are not compared.

    Args:
        model: the model with the adapter.
        adapter_name: the adapter's name, for messages.
        given: the weights, by their keys in the model.

    Raises:
        ValueError: later, the message names the first such weight.
    """

    def verify(module: nn.Module, _: Any) -> None:
        handle.remove()
        for key, parameter in module.named_parameters():
            value = given.get(key)
            if value is None or type(parameter.data) is not torch.Tensor or parameter.shape != value.shape:
                continue
            loaded = parameter.detach()
            if loaded.device.type == "meta" or not torch.equal(loaded, value.to(loaded.device, loaded.dtype)):
                raise ValueError(
                    f"After loading, the weight `{bare_key(key)}` of the calculator {adapter_name!r} is not the one "
                    "that was loaded. Load the base without off-loading (`device_map`), then the adapter."
                )

    handle = model.register_load_state_dict_post_hook(verify)


def check_size(config: Any, hidden_size: int, embeddings: nn.Module) -> None:
    """Refuses a saved config of a larger adapter than its file can hold, before that adapter is made.

    Args:
        config: the config; without `loaded_from` nothing is checked.
        hidden_size: H of the base model.
        embeddings: the base model's token embeddings.

    Raises:
        ValueError: if the config has more weights than the file has bytes.
    """
    files = [os.path.join(config.loaded_from or "", name) for name in (SAFETENSORS_WEIGHTS_NAME, WEIGHTS_NAME)]
    path = next((path for path in files if config.loaded_from and os.path.isfile(path)), None)
    if path is None:
        return
    with torch.device("meta"):  # shapes without memory
        mappings = make_mappings(config, hidden_size, embeddings)
    count = sum(p.numel() for mapping in mappings for p in mapping.parameters())
    if count > os.path.getsize(path):
        raise ValueError(
            f"The config in `{config.loaded_from}` describes an adapter of {count:,} weights, but its file of weights "
            f"has {os.path.getsize(path):,} bytes. Restore the `adapter_config.json` saved with them."
        )


def check_values(weights: Mapping[str, torch.Tensor], source: str | None) -> None:
    """Refuses weights that are no finite floating-point numbers, which PEFT 0.21 would cast and load. The vocabulary
    is no weight, see `take_vocabulary`.

    Args:
        weights: the weights of a file, by key.
        source: the folder, for messages.

    Raises:
        ValueError: the message names the first such weight.
    """
    for key, tensor in weights.items():
        if key.endswith(VOCABULARY):
            continue
        reason = None
        if not tensor.dtype.is_floating_point:
            reason = f"is of dtype {tensor.dtype}"
        elif not (tensor.float() if tensor.element_size() == 1 else tensor).isfinite().all():  # float8 has no test
            reason = "is not finite: the training diverged, or the file is damaged"
        if reason is not None:
            raise ValueError(
                f"The weight `{bare_key(key)}`{f' in `{source}`' if source else ''} {reason}. Load an earlier "
                "checkpoint, or copy the folder again."
            )


def check_beside(name: str, config: PeftConfig, others: dict[str, PeftConfig]) -> None:
    """Refuses an adapter that PEFT 0.21 could not save separately from other methods' adapters on the same base model.

    Args:
        name: name of the adapter.
        config: its config.
        others: configs of the adapters that are already there, by name.

    Raises:
        ValueError: if another method's adapter has the name, or if one of the two trains whole modules or tokens.
    """
    for other_name, other in others.items():
        if other.peft_type == config.peft_type:
            continue
        if other_name == name:
            method = getattr(other.peft_type, "value", other.peft_type)
            raise ValueError(
                f"The adapter name {name!r} is taken by a {method} adapter of the same base model, and the files of "
                "both would contain the weights of both. Pass another `adapter_name` to `get_peft_model`."
            )
        for owner, fields in ((name, config), (other_name, other)):
            for field in ("modules_to_save", "trainable_token_indices"):
                if getattr(fields, field, None):
                    raise ValueError(
                        f"Adapter {owner!r} has `{field}`, which PEFT cannot save separately from adapters of another "
                        "method. Remove it, or first train a LoRA that has it and `merge_and_unload` it."
                    )
