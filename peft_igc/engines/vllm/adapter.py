"""Loads the adapter that an engine serves.

In: a folder, a hub id or `"tiny"`. Out: an `Adapter` with float32 weights, as PEFT loads them. Whether it suits the
engine is in `checks`. Try it: `pytest tests/engines/test_checks.py`, `make test-vllm`
"""

from pathlib import Path
from types import SimpleNamespace

import torch
from huggingface_hub import snapshot_download
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from safetensors.torch import load_file

from ...inference.loading import find_adapter, is_hub_id, read_config
from ...tuner.adapter import Adapter, make_mappings
from ...tuner.base_model import TINY
from ...tuner.config import IGCConfig
from ...tuner.saving.adapter_files import FILE_KEY


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
    return Adapter("default", str(folder), config, *mappings, None)
