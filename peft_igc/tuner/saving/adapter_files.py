"""Keys of adapter weights in a file and in a model, and checks that both fit.

An error names the file and the cure. In a model, a key contains the adapter name; in a file it does not. Reading and
writing files is PEFT's work.
"""

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
    """Pattern for the names of a mapping and of its adapter in the key of a model; a file has `.\\1.` there."""
    return re.compile(rf"{FILE_KEY.pattern}{re.escape(adapter_name)}\.")


def bare_key(key: str) -> str:
    """`key` without PEFT's prefix."""
    return key.removeprefix(PREFIX)


# Matches the name of the adapter that trains a whole module, in the key of a model.
_OWNER = re.compile(r"(?<=\.modules_to_save\.)[^.]+\.")

Weights = dict[str, torch.Tensor]


# ---------------------------------------------------------------------------------------------- attaching
def check_beside(name: str, config: PeftConfig, others: dict[str, PeftConfig]) -> None:
    """Refuses an adapter that PEFT 0.21 could not save separately from other methods' adapters on the same base model:
    another method's adapter has the `name`, or one of the two trains whole modules or tokens."""
    for other_name, other in others.items():
        if other.peft_type == config.peft_type:
            continue
        if other_name == name:
            method = getattr(other.peft_type, "value", other.peft_type)
            article = "an" if method[0] in "AEIO" else "a"
            raise ValueError(
                f"The adapter name {name!r} is taken by {article} {method} adapter of the same base model, and the "
                "files of both would contain the weights of both. Pass another `adapter_name`."
            )
        for owner, fields in ((name, config), (other_name, other)):
            for field in ("modules_to_save", "trainable_token_indices"):
                if getattr(fields, field, None):
                    raise ValueError(
                        f"Adapter {owner!r} has `{field}`, which PEFT cannot save separately from adapters of another "
                        "method. Remove it, or first train a LoRA that has it and `merge_and_unload` it."
                    )


def check_names(base: nn.Module, configs: Mapping[str, PeftConfig]) -> None:
    """Refuses calculators whose name is in the path of a weight that is not theirs: PEFT 0.21 would leave that weight
    out of the files of other adapters."""
    calculators = {name for name, config in configs.items() if config.peft_type == IGC_PEFT_TYPE}
    for path, _ in itertools.chain(base.named_parameters(prefix=PREFIX[:-1]), base.named_buffers(prefix=PREFIX[:-1])):
        parts = () if ".igc." in path else _OWNER.sub("", path).split(".")
        for name in calculators.intersection(parts):
            raise ValueError(
                f"The name {name!r} of a calculator is in the path of the weight `{bare_key(path)}`, which PEFT would "
                "leave out when it saves another adapter. Pass another `adapter_name`."
            )


def check_size(config: Any, hidden_size: int, embeddings: nn.Module) -> None:
    """Refuses a config of more weights than its file has bytes, before the adapter is made (a ValueError)."""
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


# ---------------------------------------------------------------------------------------------- saving
def check_complete(model: nn.Module, adapter_name: str, keys: Iterable[str]) -> None:
    """Refuses to save a calculator if one of its weights is not among the `keys`, which are those of the model."""
    own = own_key(adapter_name)

    def places(names: Iterable[str]) -> set[str]:
        """Keys from the mapping's name on, as an adapter is on one layer, without the names of FSDP's wrappers."""
        bare = (name.replace("_fsdp_wrapped_module.", "") for name in names)
        return {name[match.start() :] for name in bare if (match := own.search(name))}

    saved = itertools.chain(model.named_parameters(), model.named_buffers())  # a vocabulary is a buffer
    if missing := sorted(places(name for name, _ in saved) - places(keys)):
        raise ValueError(
            f"{len(missing)} of the weights of the calculator {adapter_name!r} are missing in the state dict that is "
            f"to be saved, such as `{missing[0].removeprefix('.')}`, so it could not be loaded. Pass no `state_dict`, "
            "or the whole one (with DeepSpeed ZeRO-3 set `stage3_gather_16bit_weights_on_model_save`), and rename "
            "adapters that are named like a module, such as `layers`: PEFT drops all weights within such a module."
        )


# ---------------------------------------------------------------------------------------------- loading
def checked_weights(model: nn.Module, config: Any, adapter_name: str, saved: Weights) -> Weights:
    """The weights of a file under the keys of the model, which takes the vocabulary among them.

    Raises:
        ValueError: if a weight is missing, unexpected, of another shape or not finite, or if the vocabulary is damaged
            or has tokens that the model lacks. PEFT 0.21 would load the weights that fit and leave the rest random.
    """
    pattern = own_key(adapter_name)
    own = {k: v for k, v in model.state_dict().items() if pattern.search(k)}
    places = {bare_key(pattern.sub(r".\1.", k)): k for k in own}
    given = {bare_key(k): v for k, v in saved.items() if FILE_KEY.search(k)}
    source = getattr(config, "loaded_from", None)
    _check_values(given, source)
    base = innermost_model(model)
    trained_on = config.to_dict()["base_model_name_or_path"]  # the embedded base by its name
    name = f"`{type(base).__name__}`" + (f" (`{base.config.name_or_path}`)" if base.config.name_or_path else "")
    weights = f"The weights in `{source}`" if source else f"The weights for adapter {adapter_name!r}"
    cure = f"Load them onto the base model that they were trained on{f', `{trained_on}`' if trained_on else ''}."
    problem = f"{weights} are not those of the adapter that its config describes on {name}"
    missing, unknown = sorted({*places} - {*given}), sorted({*given} - {*places})
    if missing or unknown:
        both = (missing, "are missing"), (unknown, "are unexpected")
        found = "; ".join(f"{len(names)} {what}, such as `{names[0]}`" for names, what in both if names)
        raise ValueError(f"{problem}: {found}. {cure}")
    wrong = [k for k, place in places.items() if own[place].shape != given[k].shape and not k.endswith(VOCABULARY)]
    for key in wrong:
        # This norm has one weight per hidden unit, so its shape shows for which hidden size the adapter was trained.
        if key.endswith(".igc_input_mapping.norm.weight") and given[key].dim() == 1:
            raise ValueError(
                f"{weights} are for a base model of hidden size {len(given[key])}, but {name} has "
                f"{len(own[places[key]])}. {cure}"
            )
    if wrong:
        shapes = tuple(given[wrong[0]].shape), tuple(own[places[wrong[0]]].shape)
        raise ValueError(
            f"{weights} do not fit the adapter's config: `{wrong[0]}` has shape {shapes[0]}, the config requires "
            f"{shapes[1]} ({len(wrong)} such weights). Restore the `adapter_config.json` saved with them."
        )
    for key, value in given.items():
        if key.endswith(VOCABULARY):
            _take_vocabulary(model, config, adapter_name, value)
    return {places.get(bare_key(k), k): v for k, v in saved.items()}


def _check_values(weights: Weights, source: str | None) -> None:
    """Refuses weights that are no finite floating-point numbers, which PEFT 0.21 would cast and load."""
    for key, tensor in weights.items():
        reason = None
        if key.endswith(VOCABULARY):  # no weight
            continue
        if not tensor.dtype.is_floating_point:
            reason = f"is of dtype {tensor.dtype}"
        elif not (tensor.float() if tensor.element_size() == 1 else tensor).isfinite().all():  # float8 has no test
            reason = "is not finite: the training diverged, or the file is damaged"
        if reason is not None:
            raise ValueError(
                f"The weight `{key}`{f' in `{source}`' if source else ''} {reason}. Load an earlier checkpoint, or "
                "copy the folder again."
            )


def _take_vocabulary(model: nn.Module, config: Any, adapter_name: str, saved: torch.Tensor) -> None:
    """Makes the vocabulary in a file, [n] uint8, that of the adapter, before the weights in the file are loaded."""
    known = vocabulary_of(saved, config.loaded_from)
    config.vocabulary = known
    table = config.token_table
    table.check_vocabulary(innermost_model(model).config.get_text_config(decoder=True).vocab_size)
    for layer in model.modules():
        if isinstance(layer, IGCLayer) and adapter_name in layer.igc_config:
            layer.igc_config[adapter_name].vocabulary = known
            reader: Any = layer.igc_input_mapping[adapter_name]
            reader.know(table)
