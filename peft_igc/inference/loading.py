"""Loads a base model with its tokenizer, and an adapter of any PEFT method onto a base model.

Errors name the folder and the cure. Nothing is moved to a device.
Try it: `python -c "from peft_igc import tiny_base; print(tiny_base()[0])"`
"""

import json
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig, PeftModel
from peft.utils import CONFIG_NAME, SAFETENSORS_WEIGHTS_NAME, WEIGHTS_NAME
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from ..tuner.base_model import TINY, TINY_ADAPTER_FOLDER, TINY_FOLDER
from ..tuner.config import IGCConfig
from ..tuner.saving.saved_fields import OldFormatError


MOST_CONFIG = 1 << 26  # bytes of a config; it has some ten thousand at most
LONGEST_ERROR = 400  # characters of another package's error, which may quote a value of any size
_COMPLETION = Path(__file__).parents[1] / "assets" / "templates" / "completion.jinja"
_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)  # `name` or `organization/name`


def tiny_base() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Loads the base model inside the package: a Llama of 2.8 million parameters, in float32.

    It copies numbers and knows some English, but cannot calculate. Each call loads a new copy.
    """
    return load_base(TINY)


def tiny_igc() -> tuple[PeftModel, PreTrainedTokenizerBase]:
    """Loads the base model inside the package with the trained adapter inside the package, in eval mode.

    It calculates with two integers of up to 40 digits. Each call loads a new copy.
    """
    base, tokenizer = load_base(TINY)
    return load_adapter(base, TINY), tokenizer


def load_base(
    name_or_path: str | Path, dtype: torch.dtype | str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Loads a causal LM and its tokenizer.

    The tokenizer pads on the left. Without a padding token it uses its end token, and without a chat template it asks
    `Q: ...`, `A:`, as completion models are asked.

    Args:
        name_or_path: `"tiny"` for the embedded base, a folder, or a hub id such as `"org/name"`.
        dtype: dtype of the weights, for example `torch.bfloat16` or `"bfloat16"`. `None` uses the dtype of the model's
            own config, but float32 for the embedded base, which is stored in bfloat16 only to be small.

    Raises:
        FileNotFoundError: if a path does not exist or the folder contains no model.
        ValueError: if the folder contains an adapter, the weights cannot be read, `dtype` is unknown, or the tokenizer
            has neither a padding nor an end token.
        OSError: if a hub id cannot be loaded.
    """
    source = find_base(name_or_path)
    if dtype is None:
        dtype = torch.float32 if source is TINY_FOLDER else "auto"
    elif isinstance(dtype, str) and dtype != "auto" and not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise ValueError(f'`dtype="{dtype}"` is not a torch dtype. Use "float32", "bfloat16", "float16" or "auto".')
    try:
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(source)
    except SafetensorError as error:
        raise ValueError(f"The weights in `{source}` cannot be read: {error}. Copy the folder again.") from error
    except OSError as error:
        if isinstance(source, Path):  # a file in the folder is missing: the error names it
            raise
        raise OSError(
            f"`{source}` is not a local folder and could not be loaded from the hub: {error} "
            'Check the name, or pass a local folder or "tiny".'
        ) from error
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise ValueError(
                f"The tokenizer of `{source}` has neither a padding nor an end token. Set `pad_token` in its "
                "`tokenizer_config.json`."
            )
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
    return model.eval(), with_template(tokenizer)


def find_base(name_or_path: str | Path) -> Path | str:
    """Location of a base: a `Path` for a local folder, a string for a possible hub id. Errors as in `load_base`."""
    cure = 'Pass a folder written by `model.save_pretrained`, a hub id, or "tiny".'
    folder = Path(name_or_path).expanduser()
    if str(name_or_path) == TINY:
        folder = TINY_FOLDER
        cure = "Install the package again, or make one with `python recipes/pretrain_tiny_base.py --output DIR`."
    elif isinstance(name_or_path, str) and not folder.exists() and is_hub_id(name_or_path):
        return name_or_path
    if (folder / "config.json").is_file():
        return folder
    if (folder / CONFIG_NAME).is_file():
        raise ValueError(
            f"`{folder}` contains an adapter, not a base model. Load the base that it was trained on, "
            "then add it with `PeftModel.from_pretrained(base, folder)`."
        )
    problem = "contains no `config.json`" if folder.is_dir() else "is a file" if folder.exists() else "does not exist"
    raise FileNotFoundError(f"The folder `{folder}` of a base model {problem}. {cure}")


def is_hub_id(name: str) -> bool:
    """Whether a name can be one of the hub: `name` or `organization/name`."""
    return _HUB_ID.fullmatch(name) is not None


def with_template(tokenizer: Any) -> Any:
    """The tokenizer; one without a chat template gets that of a completion model, `Q: ...`, `A: ...`."""
    if tokenizer.chat_template is None:
        tokenizer.chat_template = _COMPLETION.read_text(encoding="utf-8")
    return tokenizer


def find_adapter(folder: str | Path) -> Path:
    """The folder of an adapter, which has to be there; `"tiny"` names the one inside the package."""
    if str(folder) == TINY:
        folder, cure = TINY_ADAPTER_FOLDER, "Install the package again, or make the adapter with `peft-igc demo`."
    else:
        folder, cure = Path(folder).expanduser(), "Pass a folder written by `model.save_pretrained`."
    if not folder.is_dir():
        raise FileNotFoundError(f"The adapter folder `{folder}` does not exist. {cure}")
    if not (folder / CONFIG_NAME).is_file():
        raise FileNotFoundError(f"The folder `{folder}` contains no `{CONFIG_NAME}`. {cure}")
    if not any((folder / name).is_file() for name in (SAFETENSORS_WEIGHTS_NAME, WEIGHTS_NAME)):
        raise FileNotFoundError(f"The folder `{folder}` contains no `{SAFETENSORS_WEIGHTS_NAME}`. Copy it again.")
    return folder


def load_adapter(
    base: Any, folder: str | Path, *, config: PeftConfig | None = None, is_trainable: bool = False, **options: Any
) -> PeftModel:
    """Adds the adapter in `folder` to a base model, in eval mode, with the adapters that were trained with it.

    Args:
        base: the base model, or a PEFT model around it.
        folder: a folder written by `save_pretrained`, or `"tiny"` for the trained adapter of the embedded base.
        config: its config, if it is read already.
        is_trainable: whether to load it for further training.
        options: further arguments of `PeftModel.from_pretrained`.

    Warns:
        UserWarning: if the folder also contains the base that was trained with the adapter, and `base` is another one.

    Raises:
        FileNotFoundError: if the folder does not exist or contains no adapter.
        ValueError: if the config or the weights cannot be read or do not fit this base model, or if an adapter that
            was trained with this one is missing.
    """
    folder = find_adapter(folder)
    config = read_config(folder) if config is None else config
    _warn_of_base(folder, config, base)
    try:
        return PeftModel.from_pretrained(base, str(folder), config=config, is_trainable=is_trainable, **options).eval()
    except (SafetensorError, EOFError) as error:
        raise ValueError(f"The weights in `{folder}` cannot be read: {error}. Copy the folder again.") from error
    except pickle.UnpicklingError as error:  # PEFT (0.21) lets torch unpickle tensors only
        raise ValueError(
            f"`{folder / WEIGHTS_NAME}` cannot be read, or holds more than tensors, which could be a program. Save "
            "the adapter again with `save_pretrained`, which writes safetensors."
        ) from error
    except RuntimeError as error:
        # Torch's error for other methods' adapters; those of IGC are checked in `tuner.saving.adapter_files`.
        if "size mismatch" not in str(error):
            raise
        first = next(line.strip() for line in str(error).splitlines() if "size mismatch" in line)
        named = f", `{config.base_model_name_or_path}`" if config.base_model_name_or_path else ""
        raise ValueError(
            f"The adapter in `{folder}` does not fit this base model: {first.rstrip('.')}. "
            f"Load it onto the base that it was trained on{named}."
        ) from error


def _warn_of_base(folder: Path, config: PeftConfig, base: Any) -> None:
    """Warns if the folder also has the base that was trained with the adapter, and `base` is another one."""
    own = folder / "base"  # saved there, and named in the config, by `peft-igc sft --igc_train_base`
    trained_too = own.is_dir() and Path(str(config.base_model_name_or_path)).name == own.name
    if trained_too and Path(str(base.config.name_or_path)).resolve() != own.resolve():
        warnings.warn(
            f"The adapter in `{folder}` was trained together with the base in `{own}`, but is loaded onto "
            f"`{base.config.name_or_path}`, where its answers are unreliable. Load `{own}` as the base.",
            stacklevel=3,
        )


def read_config(folder: Path) -> PeftConfig:
    """The config of the adapter in a folder, which may be of any PEFT method.

    The file is read here first: PEFT (0.21) lets through the errors of a file in another encoding or nested too deep,
    and would read one of any size.
    """
    path = folder / CONFIG_NAME
    if (size := path.stat().st_size) > MOST_CONFIG:
        raise ValueError(f"`{path}` has {size:,} bytes, which no config has. Copy the folder again.")
    try:
        if not isinstance(json.loads(path.read_bytes()), dict):
            raise TypeError("it is no JSON object")
        config = PeftConfig.from_pretrained(str(folder))
        if config.peft_type is None:
            raise KeyError("peft_type")
    except OldFormatError as error:
        raise OldFormatError(error.what, str(folder)) from None
    except (ValueError, TypeError, KeyError, AttributeError, ImportError, RecursionError) as error:
        text = f"{type(error).__name__} {error}" if isinstance(error, KeyError) else str(error)
        text = text if len(text) <= LONGEST_ERROR else text[:LONGEST_ERROR] + "..."
        raise ValueError(f"`{path}` cannot be read: {text.rstrip('.')}. Copy the folder again.") from error
    return IGCConfig.from_pretrained(str(folder)) if isinstance(config, IGCConfig) else config
