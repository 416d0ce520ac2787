"""What the fields of a saved `adapter_config.json` mean to this version of the package.

In: `IGCConfig.__init__`. Out: the same, which refuses a config of another format, and fields that it does not know.
Try it: `pytest tests/tuner/test_config.py -k "saved or format or field"`
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from ...mappings.hidden_interface import HiddenInputMapping, HiddenOutputMapping
from ...mappings.token_interface import TokenInputMapping


__all__ = ["FORMAT", "REMOVED_FIELDS", "OldFormatError", "check_saved_fields", "present_fields", "sizes_of"]

# Version of what a saved adapter means. It grows when an adapter of an earlier version would be read in another way.
FORMAT = 3
# Fields that earlier versions saved, with the only value that is still implemented.
_ANCHOR_FIELDS = {"anchor_token_ids": "turns", "inline_token_ids": "inline", "end_token_ids": "ends"}
REMOVED_FIELDS: dict[str, Any] = {"alignment": "left", "fixed_inputs": None, "reading_dropout": 0.0}


class OldFormatError(ValueError):
    """A saved adapter has an earlier format, which `peft-igc convert` changes to this one.

    Args:
        version: the format.
        folder: of the adapter.
    """

    def __init__(self, version: int, folder: str = "DIR") -> None:
        self.version = version
        super().__init__(
            f"The adapter{'' if folder == 'DIR' else f' in `{folder}`'} has format {version}, and this version of "
            f"peft-igc loads format {FORMAT}. Run `peft-igc convert {folder} --tokenizer TOKENIZER`, which keeps the "
            "weights as they are."
        )


def sizes_of(saved: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that were fields, of the interface of a saved config."""
    reader = TokenInputMapping if saved.get("interface", "hidden") == "tokens" else HiddenInputMapping
    return {"max_distance": reader.max_distance, "max_offset": HiddenOutputMapping.max_offset}


def present_fields(saved: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a saved config under the names that they have today; their meaning is the same.

    Raises:
        ValueError: a field has a value that is no longer implemented.
    """
    found = dict(saved)
    for name, default in (REMOVED_FIELDS | {"shortcut": None}).items():
        if found.pop(name, default) != default:
            raise ValueError(
                f"The adapter has `{name}={saved[name]!r}`, which is no longer implemented. Use the version of "
                "peft-igc that saved it."
            )
    found.pop("init_weights", None)  # of a new adapter
    found.pop("stated_odds", None)  # the same for all adapters now, see `mappings.decisions`
    if found.pop("excuse_confidence", None) is not None:
        raise ValueError(
            f"The adapter has `excuse_confidence={saved['excuse_confidence']!r}`, and with it weights that this "
            "version does not have. Run `peft-igc convert DIR`, which removes them."
        )
    for name, most in sizes_of(found).items():
        if found.pop(name, None) not in (None, most):
            raise ValueError(
                f"The adapter has `{name}={saved[name]!r}`, and this version of peft-igc has {most or 'none'}. Run "
                "`peft-igc convert DIR`, which enlarges a smaller one, or use the version that saved it."
            )
    if (others := found.pop("trained_beside", None)) is not None:
        found["trained_with"] = others
    rules = {new: found.pop(old, None) for old, new in _ANCHOR_FIELDS.items()}
    if (anchor := found.pop("anchor", None)) is not None:
        rules["prompt_end"] = anchor == "prompt_end"
        found["anchors"] = {name: rule for name, rule in rules.items() if rule}
    division, places = found.pop("division", "exact"), found.pop("decimal_places", None)
    if division != "exact":
        found["rounding"] = division
    elif places is not None:
        found["rounding"] = f"{found.get('rounding')}:{places}"
    if found.pop("decimals", None) is False and (found.get("number_tokens") or {}).get("point") is not None:
        raise ValueError(
            "The adapter has `decimals=False` although its tokenizer has a token for the point, which is no longer "
            "implemented. Use the version of peft-igc that saved it."
        )
    return found


def check_saved_fields(init: Any) -> Any:
    """Wraps `IGCConfig.__init__` to check the fields of a saved config: of an older version, or of a newer one.

    Every way in which PEFT 0.21 loads a config calls `__init__` with the saved fields. Without this wrapper PEFT would
    drop unknown fields with a warning that advises upgrading PEFT, and the adapter would silently do something else.
    """

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **values: Any) -> None:
        is_saved = "peft_type" in values
        if "peft_version" in values and "anchors" not in values:  # a file, no `dataclasses.replace` or dict of a user
            values.setdefault("format_version", 1)  # which had no number
        version = values.pop("format_version", FORMAT)
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise ValueError(f"`format_version={version!r}` is not an integer of at least 1. Leave it out.")
        if version < FORMAT:
            raise OldFormatError(version)
        if is_saved and version > FORMAT:
            raise ValueError(
                f"The adapter has `format_version={version}`, but this version of peft-igc knows formats up to "
                f"{FORMAT}. Upgrade it with `pip install -U peft-igc`."
            )
        if is_saved:
            values = present_fields(values)
            known = {f.name for f in dataclasses.fields(self)} | {"vocabulary"}
            unknown = {name: values.pop(name) for name in list(values) if name not in known}
            effective = [name for name, value in unknown.items() if value is not None]
            if effective:
                name = effective[0]
                raise ValueError(
                    f"The adapter's config has the field `{name}={unknown[name]!r}`, which this version of peft-igc "
                    "does not know, so the adapter might not do what it was trained for. Upgrade with `pip install -U "
                    "peft-igc`, or remove the field from `adapter_config.json` if it is a mistake."
                )
        init(self, *args, **values)

    return __init__
