"""Load a saved adapter from a folder onto a base model, with errors that name the folder and the cure.

In: a base model and a folder written by `save_pretrained`. Out: a `PeftModel` in eval mode. PEFT's own
`from_pretrained` does the work; alone it would look for a missing folder on the hub, and its errors for files that do
not belong to the model are long. Any PEFT method can be loaded, so that IGC is compared with others the same way.
Try it: `pytest tests/test_adapters.py`
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from peft import PeftConfig, PeftModel
from safetensors import SafetensorError

from .config import IGCConfig
from .profile import TokenizerProfile
from .tokens import TokenTable


__all__ = ["check_folder", "check_tokenizer", "load_adapter"]

# The profile of each tokenizer that was compared, as long as it lives: making one takes a second or two.
_profiles: WeakKeyDictionary[Any, TokenizerProfile] = WeakKeyDictionary()


def load_adapter(base: Any, folder: str | Path) -> PeftModel:
    """The base model with the adapter of a folder, in eval mode.

    Warns:
        UserWarning: The folder also holds the base that was trained with the adapter, and this is another one.

    Raises:
        FileNotFoundError: No such folder, or no adapter in it.
        ValueError: A configuration or weights that cannot be read, or that do not belong to this base model.
    """
    folder = Path(folder).expanduser()
    check_folder(folder)
    config = _read_config(folder)
    own = folder / "base"  # `peft-igc sft --igc_train_base` saves it there, and names it
    trained_too = own.is_dir() and Path(str(config.base_model_name_or_path)).name == own.name
    if trained_too and Path(str(base.config.name_or_path)).resolve() != own.resolve():
        warnings.warn(
            f"The adapter in `{folder}` was trained together with the base in `{own}`, but is loaded onto "
            f"`{base.config.name_or_path}`. Its answers mean little there: load `{own}` as the base.",
            stacklevel=2,
        )
    try:
        return PeftModel.from_pretrained(base, str(folder), config=config).eval()
    except SafetensorError as error:
        raise ValueError(f"The weights in `{folder}` cannot be read: {error}. Copy the folder again.") from error
    except RuntimeError as error:
        if "size mismatch" not in str(error):
            raise
        first = next(line.strip() for line in str(error).splitlines() if "size mismatch" in line)
        named = f", `{config.base_model_name_or_path}`" if config.base_model_name_or_path else ""
        raise ValueError(
            f"The adapter in `{folder}` does not fit this base model: {first.rstrip('.')}. "
            f"Load it onto the base that it was trained on{named}."
        ) from error


def check_tokenizer(config: IGCConfig, tokenizer: Any) -> None:
    """Refuses a tokenizer that spells numbers in other tokens than the one that an adapter was made for.

    Args:
        config: The adapter's. The hidden interface takes any tokenizer.
        tokenizer: A Hugging Face tokenizer; further tokens, as for padding, are fine.

    Raises:
        ValueError: It differs; names the first token concerned.
    """
    if config.number_tokens is None:
        return
    profile = _profiles.get(tokenizer)
    if profile is None or profile.size != len(tokenizer):
        profile = _profiles[tokenizer] = TokenizerProfile.from_tokenizer(tokenizer)
    difference = profile.compare(TokenTable.from_json(config.number_tokens))
    if difference is not None:
        raise ValueError(difference)


def _read_config(folder: Path) -> PeftConfig:
    """The adapter's configuration."""
    try:
        config = PeftConfig.from_pretrained(str(folder))
        if config.peft_type is None:
            raise KeyError("peft_type")
    except (json.JSONDecodeError, TypeError, KeyError) as error:
        path = folder / "adapter_config.json"
        raise ValueError(f"`{path}` cannot be read: {type(error).__name__} {error}. Copy the folder again.") from error
    return config


def check_folder(folder: str | Path) -> None:
    """Refuses what is no adapter's folder, before PEFT asks the hub about it.

    Raises:
        FileNotFoundError: No such folder, or no adapter in it.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(
            f"The adapter folder `{folder}` does not exist. Pass a folder written by `model.save_pretrained`."
        )
    if not (folder / "adapter_config.json").is_file():
        raise FileNotFoundError(
            f"The folder `{folder}` holds no `adapter_config.json`. Pass a folder written by `model.save_pretrained`."
        )
    if not any((folder / name).is_file() for name in ("adapter_model.safetensors", "adapter_model.bin")):
        raise FileNotFoundError(f"The folder `{folder}` holds no `adapter_model.safetensors`. Copy the folder again.")
