"""What the fields of a saved `adapter_config.json` mean to this version of the package.

In: `IGCConfig.__init__`. Out: the same, which refuses a config of a newer version, fields that were removed and fields
that it does not know. Try it: `pytest tests/tuner/test_config.py -k "saved or format or field"`
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from typing import Any


__all__ = ["FORMAT", "REMOVED_FIELDS", "check_saved_fields"]

logger = logging.getLogger(__name__)

# Version of what a saved adapter means. It grows when an adapter of an earlier version would be read in another way.
FORMAT = 2
# Fields that earlier versions saved, with the only value that this version still implements.
REMOVED_FIELDS: dict[str, Any] = {"alignment": "left", "fixed_inputs": None, "reading_dropout": 0.0}


def check_saved_fields(init: Any) -> Any:
    """Wraps `IGCConfig.__init__` to check the fields of a saved config: of an older version, or of a newer one.

    Every way in which PEFT 0.21 loads a config calls `__init__` with the saved fields. Without this wrapper PEFT would
    drop unknown fields with a warning that advises upgrading PEFT, and the adapter would silently do something else.
    """

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **values: Any) -> None:
        is_saved = "peft_type" in values
        if is_saved:
            values.setdefault("format_version", 1)  # which had no number
        version = values.get("format_version", FORMAT)
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise ValueError(f"`format_version={version!r}` is not an integer of at least 1. Leave it out.")
        if is_saved and version > FORMAT:
            raise ValueError(
                f"The adapter has `format_version={version}`, but this version of peft-igc knows formats up to "
                f"{FORMAT}. Upgrade it with `pip install -U peft-igc`."
            )
        for name, default in REMOVED_FIELDS.items():
            if name in values and values.pop(name) != default:
                raise ValueError(
                    f"`{name}` is no longer a field of `IGCConfig`: only adapters with `{name}={default!r}` can be "
                    "loaded. Use the version of peft-igc that saved this adapter (0.1.0 has the field)."
                )
        if is_saved:
            known = {f.name for f in dataclasses.fields(self)}
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
        if is_saved and self.interface == "tokens" and self.symbols is None:
            _warn_of_learned_signs()

    return __init__


@functools.cache
def _warn_of_learned_signs() -> None:
    """Says once per process that an adapter has no symbol table."""
    logger.warning(
        "This adapter was made by an earlier version of peft-igc and has no symbol table: signs and operators are "
        "learned, not read by rule, so expressions such as `796 -229` may be misread. Train it again to change that."
    )
