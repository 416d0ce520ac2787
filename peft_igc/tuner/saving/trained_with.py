"""Entries of `IGCConfig.trained_with`: where the adapters are that were trained together with a calculator.

An entry is the path of the other adapter's folder from the calculator's, in the layout in which PEFT (0.21) saves the
adapters of a model: `default` in the folder itself, any other in a subfolder of its name. So it is `NAME`, `../NAME`,
or `..` for the adapter `default`. Nothing is loaded here; see `companions`.
Try it: `pytest tests/tuner/test_companions.py -k entry`
"""

from __future__ import annotations

import re
from typing import Any


__all__ = ["LOW_RANK", "check_entries", "entry_of", "name_of"]

# Name and folder of the LoRA below a calculator in `peft-igc sft`; PEFT (0.21) warns about the name "lora".
LOW_RANK = "low_rank"

_DEFAULT = "default"
_ENTRY = re.compile(r"\.\.|(\.\./)?[^/\\\s.][^/\\]*")  # no path that leads out of the folder of all adapters


def entry_of(name: str, other: str) -> str:
    """The path of the folder of the adapter `other` from that of the adapter `name`."""
    if name == _DEFAULT:
        return other
    return ".." if other == _DEFAULT else f"../{other}"


def name_of(entry: str) -> str:
    """The adapter name of an entry."""
    return _DEFAULT if entry == ".." else entry.rpartition("/")[2]


def check_entries(value: Any) -> None:
    """Refuses what is neither None nor a list of entries.

    Raises:
        ValueError: the message has the value.
    """
    listed = isinstance(value, list) and all(isinstance(entry, str) and _ENTRY.fullmatch(entry) for entry in value)
    if value is not None and not listed:
        raise ValueError(
            f"`trained_with={value!r}` is not a list of other adapters, such as `['low_rank']`. "
            "Restore the `adapter_config.json` saved with the weights, or remove the field."
        )
