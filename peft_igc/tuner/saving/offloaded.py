"""Adapters on bases whose weights are on the disk or on another device than they run on (accelerate's hooks).

In: a PEFT model, or a layer of ours. Out: the same with the adapter's weights on the device where its decoder layer
runs. Accelerate (1.15) keeps weights away from their modules and gives them back around each module's `forward`. Ours
are also used outside of it, are small, and are in no index of a file on the disk, so they are never off-loaded.

Try it: `pytest tests/tuner/test_offloaded.py`
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accelerate import dispatch_model
from accelerate.hooks import remove_hook_from_module
from peft import PeftModel
from safetensors import safe_open
from torch import nn


__all__ = ["bring_back", "kept_in_place"]

_ELSEWHERE = {"cpu", "disk"}  # places in a device map where weights are stored but perhaps not used


def bring_back(mapping: nn.Module, device: Any) -> None:
    """Ends the off-loading of a mapping's weights, and puts them on a device. Without off-loading nothing is done."""
    offloaded = [module for module in mapping.modules() if hasattr(module, "_hf_hook")]
    if offloaded and any(p.device.type == "meta" for p in mapping.parameters()):
        for module in offloaded:
            remove_hook_from_module(module)  # it restores the weights
        mapping.to(device)


@contextmanager
def kept_in_place(model: PeftModel, options: dict[str, Any]) -> Iterator[None]:
    """Around PEFT's loading of a calculator's weights: the weights of its base are dispatched again as they were.

    PEFT (0.21) removes accelerate's hooks from the base, and would dispatch base and adapter anew by a device map that
    it makes itself, with the weights of adapters that wrap a module of the base.

    Args:
        model: the PEFT model of the calculator.
        options: further arguments of `PeftModel.load_adapter`, among them `offload_index`.
    """
    maps = [(m, m.__dict__["hf_device_map"]) for m in model.modules() if "hf_device_map" in m.__dict__]
    if not any(_ELSEWHERE.intersection(places.values()) for _, places in maps):
        yield
        return
    for module, _ in maps:
        del module.hf_device_map
    try:
        yield
    finally:
        for module, places in maps:
            module.hf_device_map = places
    base = maps[0][0]
    if not any(hasattr(module, "_hf_hook") for module in base.modules()):
        _dispatch(base, dict(maps[0][1]), options)


def _dispatch(base: Any, places: dict[str, Any], options: dict[str, Any]) -> None:
    """Dispatches a base by its device map, and moves the calculators in it to where their decoder layers run."""
    layers = [(m, name, c) for m in base.modules() for name, c in m.named_children() if hasattr(c, "igc_config")]
    for parent, name, _ in layers:
        del parent._modules[name]
    try:
        dispatch_model(
            base,
            places,
            offload_dir=options.get("offload_dir") or options.get("offload_folder"),
            offload_index=_index(options.get("offload_index"), getattr(base, "all_tied_weights_keys", {})),
            skip_keys=getattr(base, "_skip_keys_device_placement", None),
        )
    finally:
        for parent, name, layer in layers:
            parent._modules[name] = layer
    for _, _, layer in layers:
        layer.follow_base_layer()


def _index(given: dict[str, dict[str, str]] | None, tied: dict[str, str]) -> dict[str, dict[str, str]] | None:
    """An index of weights on the disk, by the keys of their files, and with tied weights.

    That of PEFT (0.21) has the names of the model, which in the files of some architectures (GPT-2) begin one module
    below, and has one of several tied weights only: `tied` has the other of each.
    """
    if not given:
        return None
    index, keys = {}, {}
    for name, entry in given.items():
        path = entry["safetensors_file"]
        if path not in keys:
            with safe_open(path, framework="pt") as file:
                keys[path] = set(file.keys())
        inner = name.partition(".")[2]
        index[name] = entry if name in keys[path] or inner not in keys[path] else entry | {"weight_name": inner}
    return {name: index[other] for name, other in tied.items() if other in index} | index
