"""Adapters on bases whose weights are on the disk or on another device than they run on (accelerate's hooks).

In: a mapping of ours. Out: the same with its weights on the device where its decoder layer runs. Accelerate (1.15)
keeps weights away from their modules and gives them back around each module's `forward`. Ours are also used outside
of it, are small, and are in no index of a file on the disk, so they are never off-loaded.

Try it: `pytest tests/tuner/test_offloaded.py`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelerate.hooks import remove_hook_from_module
from torch import nn


__all__ = ["bring_back", "check_dispatched"]


def bring_back(mapping: nn.Module, device: Any) -> None:
    """Ends the off-loading of a mapping's weights, and puts them on a device. Without off-loading nothing is done."""
    offloaded = [module for module in mapping.modules() if hasattr(module, "_hf_hook")]
    if offloaded and any(p.device.type == "meta" for p in mapping.parameters()):
        for module in offloaded:
            remove_hook_from_module(module)  # it restores the weights
        mapping.to(device)


def check_dispatched(model: nn.Module, configs: Mapping[str, Any]) -> None:
    """Refuses to load calculators where PEFT (0.21) has ended the off-loading of the base and cannot take it up again.

    Raises:
        ValueError: if weights of the base are on the disk and have no hook that fetches them.
    """
    folder = next((config.loaded_from for config in configs.values() if config.loaded_from), None)
    if folder is None or not hasattr(model, "hf_device_map") or any(hasattr(m, "_hf_hook") for m in model.modules()):
        return
    if any(p.device.type == "meta" for p in model.parameters()):
        raise ValueError(
            f"`PeftModel.from_pretrained` cannot load `{folder}` onto a base with weights on the disk. Load the base "
            f"again, and then the adapter with transformers: `base.load_adapter({folder!r})`."
        )
