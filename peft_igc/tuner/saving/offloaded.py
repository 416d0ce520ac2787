"""Adapters on bases whose weights are on the disk or on another device than they run on (accelerate's hooks).

In: a mapping of ours, or a base. Out: a mapping has its weights where its decoder layer runs. Accelerate (1.15)
keeps weights away from their modules and gives them back around each module's `forward`. Ours are also used outside
of it, are small, and are in no index of a file on the disk, so they are never off-loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accelerate.hooks import remove_hook_from_module
from peft import PeftConfig
from torch import nn

from ..config import IGC_PEFT_TYPE


def bring_back(mapping: nn.Module, device: Any) -> None:
    """Ends the off-loading of a mapping's weights, and puts them on a device. Without off-loading nothing is done."""
    offloaded = [module for module in mapping.modules() if hasattr(module, "_hf_hook")]
    if offloaded and any(p.device.type == "meta" for p in mapping.parameters()):
        for module in offloaded:
            remove_hook_from_module(module)  # it restores the weights
        mapping.to(device)


@contextmanager
def left_in_place(model: nn.Module, source: Any, options: dict[str, Any]) -> Iterator[None]:
    """Hides from PEFT that weights of a base are off-loaded, while it loads a calculator.

    PEFT (0.21) would end the off-loading, and begin another one that includes adapters around modules of the base.
    `source` is the adapter's folder or hub id, `options` are further arguments of the loading.
    """
    placed = [module for module in model.modules() if "hf_device_map" in vars(module)]
    hub, *_ = PeftConfig._split_kwargs(options)
    if not placed or PeftConfig._get_peft_type(source, **hub) != IGC_PEFT_TYPE:
        yield
        return
    maps = [vars(module).pop("hf_device_map") for module in placed]
    try:
        yield
    finally:
        for module, places in zip(placed, maps, strict=True):
            module.hf_device_map = places
