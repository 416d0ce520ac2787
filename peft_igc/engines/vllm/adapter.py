"""Loads the adapter that an engine serves: its config, its two mappings, and the LoRA that was trained with it.

In: a folder, a hub id or `"tiny"`. Out: an `Adapter` with float32 weights, as PEFT loads them. Whether it suits the
engine is in `checks`. Try it: `pytest tests/engines/test_lora.py`, `make test-vllm`
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from huggingface_hub import snapshot_download
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from safetensors.torch import load_file

from ...inference.loading import check_adapter_folder, find_adapter, is_hub_id, read_config
from ...tuner.build import make_mappings
from ...tuner.config import IGCConfig
from ...tuner.saving.adapter_files import FILE_KEY
from ...tuner.saving.companions import companions_in
from ..lora import Updates, updates_of


__all__ = ["Adapter", "load", "load_config"]


class Adapter(NamedTuple):
    """What is served.

    Attributes:
        config: its config, which knows its folder.
        reader, writer: its input and its output mapping.
        lora: what the LoRA that was trained with it adds to the weights of the base.
    """

    config: IGCConfig
    reader: Any
    writer: Any
    lora: Updates


def load_config(source: str) -> IGCConfig:
    """The config of the adapter in a folder, or of that name on the hub.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it is one of another method.
    """
    folder = find_adapter(source)
    if not folder.exists() and is_hub_id(source):
        try:
            folder = Path(snapshot_download(source))
        except OSError as error:  # no such repository, or no network
            raise FileNotFoundError(
                f"The adapter `{source}` is no folder, and was not found on the hub ({error}). Check the name."
            ) from error
    check_adapter_folder(folder)
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
    weights: dict[str, dict[str, torch.Tensor]] = {}
    for key, value in load_file(folder / SAFETENSORS_WEIGHTS_NAME).items():
        match = FILE_KEY.search(key)
        if match is not None:
            weights.setdefault(match[1], {})[key[match.end() :]] = value
    trained = weights["igc_input_mapping"]["norm.weight"].shape[0]
    if trained != hidden_size:
        raise ValueError(
            f"The adapter in `{folder}` is for a base model of hidden size {trained}, but this one has {hidden_size}. "
            f"Serve the base that it was trained on, `{config.base_model_name_or_path}`."
        )
    mappings = make_mappings(config, hidden_size, SimpleNamespace(embedding_dim=hidden_size))  # type: ignore[arg-type]
    for mapping, name in zip(mappings, ("igc_input_mapping", "igc_output_mapping"), strict=True):
        mapping.load_state_dict(weights[name])
        mapping.requires_grad_(False).eval()
    return Adapter(config, *mappings, updates_of(companions_in(folder)))
