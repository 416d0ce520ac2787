"""Changes adapters that earlier versions saved to the present format; their weights stay as they are.

The folder of an adapter of format 1 or 2 gets the vocabulary in the file of the weights, and a config without token
table and symbol table. Nothing else reads earlier formats.
Try it: `peft-igc convert DIR --tokenizer TOKENIZER`
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft.utils import CONFIG_NAME, SAFETENSORS_WEIGHTS_NAME, WEIGHTS_NAME
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ...mappings.hidden_interface import HiddenInputMapping, HiddenOutputMapping
from ...mappings.places import MOST
from ...numbers.tokenizer_profile import TokenizerProfile
from ..config import IGCConfig
from .saved_fields import FORMAT, OLD_FIELDS
from .vocabulary_file import VOCABULARY


_ANCHOR_FIELDS = {"anchor_token_ids": "turns", "inline_token_ids": "inline", "end_token_ids": "ends"}
_HEAD = ".unrelated_head."  # in the keys of weights that `excuse_confidence` had


def convert(folder: Path, tokenizer: Any) -> bool:
    """Converts the adapter in a folder, in place, and returns whether it has not the present format already.

    Adapters in subfolders are left as they are. The hidden interface needs no tokenizer; one that differs, or a folder
    without an adapter of an earlier format, is a ValueError.
    """
    try:
        saved = json.loads((folder / CONFIG_NAME).read_bytes())
        method = saved["peft_type"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"`{folder / CONFIG_NAME}` cannot be read: {error}. Copy the folder again.") from error
    if method != "IGC":
        raise ValueError(f"`{folder}` holds an adapter of the method {method}, which needs no conversion.")
    version = saved.get("format_version", 1)
    if version == FORMAT and not OLD_FIELDS & saved.keys():
        return False
    if version not in range(1, FORMAT + 1):
        raise ValueError(f"The adapter in `{folder}` has the format {version!r}. Upgrade peft-igc to load it.")
    fields, larger = _present(saved)
    path = folder / SAFETENSORS_WEIGHTS_NAME
    try:
        if path.is_file():
            weights = load_file(path)
        else:
            path = folder / WEIGHTS_NAME
            weights = torch.load(path, map_location="cpu", weights_only=True)
    except SafetensorError as error:
        raise ValueError(f"`{path}` cannot be read: {error}. Copy the folder again.") from error
    weights = {key: value for key, value in weights.items() if _HEAD not in key}
    if version < FORMAT and fields.get("number_tokens") is not None:
        if tokenizer is None:
            raise ValueError(f"The adapter in `{folder}` reads tokens. Name its tokenizer with `--tokenizer`.")
        profile = TokenizerProfile.from_tokenizer(tokenizer)
        point = fields["number_tokens"].get("point")
        if (difference := _difference(profile, fields["number_tokens"])) is not None:
            raise ValueError(difference)
        fields["number_tokens"] = profile.facts | {"point": point}
        reader = VOCABULARY.rpartition(".")[0]
        place = next((key.partition(reader)[0] for key in weights if reader in key), "")
        weights[place + VOCABULARY] = torch.tensor(list(profile.vocabulary.to_bytes()), dtype=torch.uint8)
    _enlarge(weights, larger)
    config = IGCConfig(**fields | {"format_version": FORMAT})  # refuses what does not go together
    # The weights first: with these and the old config, the folder can be converted again.
    save_file(weights, folder / "converting", metadata={"format": "pt"})
    shutil.copymode(path, folder / "converting")
    os.replace(folder / "converting", folder / SAFETENSORS_WEIGHTS_NAME)
    config.save_pretrained(str(folder))
    if path.name == WEIGHTS_NAME:
        path.unlink()
    return True


def _present(saved: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """The fields of a saved config under the names of today, and the sizes that have to be larger. A value that is no
    longer implemented is a ValueError."""
    found = {name: value for name, value in saved.items() if name not in OLD_FIELDS}
    larger: dict[str, int] = {}
    sizes = {"max_distance": MOST, "max_offset": HiddenOutputMapping.max_offset}
    if saved.get("interface", "hidden") == "hidden":
        sizes["max_distance"] = HiddenInputMapping.max_distance
        larger = {name: most for name, most in sizes.items() if 0 < (saved.get(name) or most) < most}
    has_point = (saved.get("number_tokens") or {}).get("point") is not None
    only: dict[str, tuple[Any, ...]] = {name: (None, most) for name, most in sizes.items() if name not in larger}
    only |= {"alignment": ("left",), "fixed_inputs": (None,), "reading_dropout": (0.0,), "shortcut": (None,)}
    only |= {"decimals": (None, True)} if has_point else {}
    for name, values in only.items():
        if saved.get(name, values[0]) not in values:
            raise ValueError(
                f"The adapter has `{name}={saved[name]!r}`, which is no longer implemented. Use the version of "
                "peft-igc that saved it."
            )
    if (others := saved.get("trained_beside")) is not None:
        found["trained_with"] = others
    if (anchor := saved.get("anchor")) is not None:
        rules = {new: saved.get(old) for old, new in _ANCHOR_FIELDS.items()}
        rules["prompt_end"] = anchor == "prompt_end"
        found["anchors"] = {name: rule for name, rule in rules.items() if rule}
    if (division := saved.get("division", "exact")) != "exact":
        found["rounding"] = division
    elif (places := saved.get("decimal_places")) is not None:
        found["rounding"] = f"{saved.get('rounding')}:{places}"
    return found, larger


def _difference(profile: TokenizerProfile, saved: Any) -> str | None:
    """How a tokenizer differs from the token table of an earlier format; None if it is the same."""
    try:
        numbers = {int(token): " " * (int(token) in saved["spaced"]) + text for token, text in saved["digits"].items()}
        return profile.difference(
            numbers, {"group": saved["group"], "minus": saved["minus"], "point": saved.get("point")}
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"The saved `number_tokens` are damaged ({error!r}). Copy the folder again.") from error


def _enlarge(weights: dict[str, torch.Tensor], sizes: Mapping[str, int]) -> None:
    """Gives embeddings more rows: copies of the last, which larger distances shared, so that answers stay the same."""
    for name, most in sizes.items():
        ending = f".{name.removeprefix('max_')}.weight"
        for key in [key for key in weights if key.endswith(ending)]:
            last = weights[key][-1:].expand(most - len(weights[key]), -1)
            weights[key] = torch.cat([weights[key], last])
