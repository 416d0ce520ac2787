"""Load a base model and its tokenizer: the one inside the package, a folder, or an id on the hub.

In: a name. Out: `(model, tokenizer)` in eval mode, the tokenizer ready for left-padded generation.
It attaches nothing (see `peft.get_peft_model`) and moves nothing to a device (see `model.to`).
Try it: `python -c "from peft_igc.loading import tiny_base; print(tiny_base()[0])"`, `pytest tests/test_loading.py`.
"""

import re
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase


TINY = "tiny"
_TINY_FOLDER = Path(__file__).parent / "tiny_base"
_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)

__all__ = ["TINY", "find_base", "load_base", "tiny_base"]


def tiny_base() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The base model that ships with the package: a Llama of 2.8 million parameters, in float32.

    It copies numbers, speaks some English, and is as bad at arithmetic as models are. Each call loads a new copy.

    Raises:
        FileNotFoundError: the package was installed without its data.
    """
    return load_base(TINY)


def load_base(
    name_or_path: str | Path, dtype: torch.dtype | str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a causal language model and its tokenizer.

    A tokenizer without a padding token pads with its end token; padding goes to the left, where generation needs it.

    Args:
        name_or_path: `"tiny"` for the embedded base, a folder, or an id on the hub such as `"org/name"`.
        dtype: the weights' type, for example `torch.bfloat16` or `"bfloat16"`. `None` keeps the type that the model's
            own config names; the embedded base, which is stored in bfloat16 only to be small, comes in float32.

    Raises:
        FileNotFoundError: a path that does not exist, or a folder without a model.
        ValueError: a folder that holds an adapter, weights that cannot be read, an unknown `dtype`, or a tokenizer
            that cannot pad.
        OSError: a hub id that cannot be fetched.
    """
    source = find_base(name_or_path)
    if dtype is None:
        dtype = torch.float32 if source is _TINY_FOLDER else "auto"
    elif isinstance(dtype, str):
        dtype = _parse_dtype(dtype)
    try:
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(source)
    except SafetensorError as error:
        raise ValueError(f"The weights in `{source}` cannot be read: {error}. Copy the folder again.") from error
    except OSError as error:
        if isinstance(source, Path):
            raise
        raise OSError(
            f"`{source}` is no folder here and could not be loaded from the hub: {error} "
            'Check the name, or pass a local folder or "tiny".'
        ) from error
    _prepare_padding(tokenizer, source)
    return model.eval(), tokenizer


def find_base(name_or_path: str | Path) -> Path | str:
    """Where a base model is: a `Path` for what is on this machine, a string for what may be on the hub.

    Args:
        name_or_path: As for `load_base`.

    Raises:
        FileNotFoundError: a path that does not exist, or a folder without a model.
        ValueError: a folder that holds an adapter.
    """
    source = _TINY_FOLDER if str(name_or_path) == TINY else _find(name_or_path)
    if isinstance(source, Path):
        _check_folder(source)
    return source


def _find(name_or_path: str | Path) -> Path | str:
    """A folder on this machine, or what may be an id on the hub."""
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise FileNotFoundError(f"`{path}` is a file, not a model's folder. Pass the folder that holds `config.json`.")
    if isinstance(name_or_path, Path) or not _HUB_ID.fullmatch(name_or_path):
        raise FileNotFoundError(f'The folder `{path}` does not exist. Pass an existing folder, a hub id, or "tiny".')
    return name_or_path


def _check_folder(folder: Path) -> None:
    """Refuse a folder in which no model can be, before Transformers asks the hub about it."""
    if (folder / "config.json").is_file():
        return
    if (folder / "adapter_config.json").is_file():
        raise ValueError(
            f"`{folder}` holds an adapter, not a base model. Load the base that it was trained on, "
            "then attach it with `PeftModel.from_pretrained(base, folder)`."
        )
    if folder == _TINY_FOLDER:
        raise FileNotFoundError(
            f"The embedded base model is missing from `{folder}`. Install the package again, "
            "or make the model with `python recipes/pretrain_tiny_base.py --output DIR` and load that folder."
        )
    raise FileNotFoundError(
        f"The folder `{folder}` holds no `config.json`. Pass a folder written by `model.save_pretrained`."
    )


def _parse_dtype(name: str) -> torch.dtype | str:
    if name == "auto":
        return name
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f'`dtype="{name}"` is no torch type. Use "float32", "bfloat16", "float16" or "auto".')
    return dtype


def _prepare_padding(tokenizer: PreTrainedTokenizerBase, source: Path | str) -> None:
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise ValueError(
                f"The tokenizer of `{source}` has neither a padding nor an end token. Set `pad_token` in its "
                "`tokenizer_config.json`."
            )
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
