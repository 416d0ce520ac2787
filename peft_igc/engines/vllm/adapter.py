"""Loads the adapter that an engine serves, and the LoRA that was trained with it.

In: a folder, a hub id or `"tiny"`. Out: an `Adapter` with float32 weights, as PEFT loads them; whether it suits the
engine is in `checks`. And the weights of the base, by their names in its checkpoint, with the updates of a LoRA, added
while an engine reads them: so every request has it, as in training. An engine's own LoRAs are chosen per request.
Try it: `pytest tests/engines/test_checks.py tests/engines/test_lora.py`, `make test-vllm`
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import torch
from huggingface_hub import snapshot_download
from peft import LoraConfig, PeftConfig
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from peft.utils.other import get_pattern_key
from safetensors.torch import load_file
from torch import nn

from ...inference.loading import find_adapter, is_hub_id, read_config
from ...tuner.adapter import Adapter, make_mappings
from ...tuner.base_model import TINY
from ...tuner.config import IGCConfig
from ...tuner.layer import IGCLayer
from ...tuner.saving.adapter_files import FILE_KEY, Weights, bare_key


_LORA = re.compile(r"(.+)\.lora_([AB])\.weight")
_CURE = "Merge it into the base (`merge_and_unload`, `save_pretrained`) and serve that base."


def load_config(source: str) -> IGCConfig:
    """The config of the adapter in a folder, or of that name on the hub.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it is one of another method.
    """
    if source != TINY and not Path(source).expanduser().exists() and is_hub_id(source):
        try:
            source = snapshot_download(source)
        except OSError as error:  # no such repository, or no network
            raise FileNotFoundError(
                f"The adapter `{source}` is no folder, and was not found on the hub ({error}). Check the name."
            ) from error
    folder = find_adapter(source)
    config = read_config(folder)
    if not isinstance(config, IGCConfig):
        raise ValueError(
            f"`{folder}` is an adapter of the method {config.peft_type}, not of IGC. Pass a calculator's folder; vLLM "
            "serves LoRAs with `--enable-lora`."
        )
    return config


def load(config: IGCConfig, hidden_size: int) -> Adapter:
    """The adapter with a config, on the device and of the default dtype that torch has been given.

    Raises:
        ValueError: if its weights are for another base.
    """
    folder = Path(str(config.loaded_from))
    saved = load_file(folder / SAFETENSORS_WEIGHTS_NAME)
    weights = {key[match.start(1) :]: saved[key] for key in saved if (match := FILE_KEY.search(key))}
    trained = weights["igc_input_mapping.norm.weight"].shape[0]
    if trained != hidden_size:
        raise ValueError(
            f"The adapter in `{folder}` is for a base model of hidden size {trained}, but this one has {hidden_size}. "
            f"Serve the base that it was trained on, `{config.base_model_name_or_path}`."
        )
    mappings = make_mappings(config, hidden_size, SimpleNamespace(embedding_dim=hidden_size))  # type: ignore[arg-type]
    both = nn.ModuleDict(dict(zip(IGCLayer.adapter_layer_names, mappings, strict=True)))
    both.requires_grad_(False).eval().load_state_dict(weights)
    return Adapter("default", str(folder), config, *mappings, None)


# ------------------------------------------------------------------------------------------ a LoRA
def updates_of(folders: Iterable[Path]) -> Weights:
    """What the LoRAs in some folders add to the weights of the base, by the weights' names.

    Raises:
        ValueError: for an adapter of another method, or a LoRA that is more than two matrices per weight.
    """
    found: Weights = {}
    for folder in folders:
        config = PeftConfig.from_pretrained(str(folder))
        if not isinstance(config, LoraConfig) or not _is_plain(config):
            raise ValueError(f"The adapter in `{folder}`, trained with the calculator, is no plain LoRA. {_CURE}")
        factors: dict[str, Weights] = {}
        for key, value in load_file(folder / SAFETENSORS_WEIGHTS_NAME).items():
            match = _LORA.fullmatch(bare_key(key))
            if match is None:
                raise ValueError(f"The LoRA in `{folder}` has the weight `{bare_key(key)}`, no factor. {_CURE}")
            factors.setdefault(f"{match[1]}.weight", {})[match[2]] = value.float()
        for name, pair in factors.items():
            module, rank, patterns = name.removesuffix(".weight"), len(pair["A"]), config.alpha_pattern or {}
            alpha = patterns.get(get_pattern_key([*patterns], module), config.lora_alpha)
            update = pair["B"] @ pair["A"] * (alpha / (rank**0.5 if config.use_rslora else rank))
            found[name] = found[name] + update if name in found else update
    return found


def _is_plain(config: LoraConfig) -> bool:
    """Whether a LoRA is two factors per weight, for all tokens, and PEFT (0.21) leaves the weight itself as it was,
    which PiSSA and others change."""
    changes = config.init_lora_weights not in (True, False, "gaussian", "orthogonal", "eva")
    other = config.use_dora or config.bias != "none" or config.fan_in_fan_out
    return not (changes or other or config.alora_invocation_tokens)


def added(updates: Weights, weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights, with the updates.

    Raises:
        ValueError: if a weight is quantized or of another shape, or one with an update is missing.
    """
    missing = set(updates)
    for name, weight in weights:
        update = updates.get(name)
        if update is not None:
            if not weight.is_floating_point() or weight.shape != update.shape:
                raise ValueError(
                    f"The calculator's LoRA cannot be added to the weight `{name}` of {weight.dtype} and shape "
                    f"{tuple(weight.shape)}. {_CURE}"
                )
            missing.discard(name)
            weight = (weight.float() + update.to(weight.device)).to(weight.dtype)
        yield name, weight
    if missing:
        raise ValueError(
            f"The calculator's LoRA changes `{min(missing)}`, which the base does not have. Serve the base that both "
            "were trained on."
        )
