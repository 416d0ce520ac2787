"""A LoRA that was trained with a calculator, added to the base's weights while an engine reads them.

In: the folder of a calculator (`trained_with` in its config) and the weights of the base by their names in its
checkpoint. Out: the same weights, with the updates of the LoRA. So every request has it, as in training; an engine's
own LoRAs are chosen per request.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from peft import LoraConfig, PeftConfig
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from peft.utils.other import get_pattern_key
from safetensors.torch import load_file

from ..tuner.saving.adapter_files import bare_key


Updates = dict[str, torch.Tensor]

_LORA = re.compile(r"(.+)\.lora_([AB])\.weight")
_CURE = "Merge it into the base (`merge_and_unload`, `save_pretrained`) and serve that base."


def updates_of(folders: Iterable[Path]) -> Updates:
    """What the LoRAs in some folders add to the weights of the base, by the weights' names.

    Raises:
        ValueError: for an adapter of another method, or a LoRA that is more than two matrices per weight.
    """
    found: Updates = {}
    for folder in folders:
        config = PeftConfig.from_pretrained(str(folder))
        if not isinstance(config, LoraConfig) or config.use_dora or config.bias != "none" or config.fan_in_fan_out:
            raise ValueError(f"The adapter in `{folder}`, trained with the calculator, is no plain LoRA. {_CURE}")
        factors: dict[str, dict[str, torch.Tensor]] = {}
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


def added(updates: Updates, weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
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
