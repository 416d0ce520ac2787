"""Which saved `adapter_config.json` this version of the package loads: not of another format, no unknown fields."""

import dataclasses
import functools
from typing import Any


# Version of what a saved adapter means. It grows when an adapter of an earlier version would be read in another way.
FORMAT = 3
# Fields that earlier versions saved; `conversion` knows what they mean.
OLD_FIELDS = frozenset(
    "alignment anchor anchor_token_ids decimal_places decimals division end_token_ids excuse_confidence fixed_inputs "
    "init_weights inline_token_ids max_distance max_offset reading_dropout shortcut stated_odds symbols "
    "trained_beside".split()
)


class OldFormatError(ValueError):
    """A saved adapter has an earlier format, or a field of one, which `peft-igc convert` changes to this one."""

    def __init__(self, what: str, folder: str = "DIR") -> None:
        self.what = what
        super().__init__(
            f"The adapter{'' if folder == 'DIR' else f' in `{folder}`'} has {what}, and this version of peft-igc "
            f"loads format {FORMAT}. Run `peft-igc convert {folder} --tokenizer TOKENIZER`, which keeps the answers "
            "as they are."
        )


def check_saved_fields(init: Any) -> Any:
    """Wraps `IGCConfig.__init__`, which PEFT 0.21 calls with the fields of any saved config, to check them. PEFT would
    drop unknown ones with a warning that advises upgrading PEFT, and the adapter would do something else."""

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **values: Any) -> None:
        is_saved = "peft_type" in values
        if "peft_version" in values and "anchors" not in values:  # a file, no `dataclasses.replace` or dict of a user
            values.setdefault("format_version", 1)  # which had no number
        version = values.pop("format_version", FORMAT)
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise ValueError(f"`format_version={version!r}` is not an integer of at least 1. Leave it out.")
        if version < FORMAT:
            raise OldFormatError(f"format {version}")
        if is_saved and version > FORMAT:
            raise ValueError(
                f"The adapter has `format_version={version}`, but this version of peft-igc knows formats up to "
                f"{FORMAT}. Upgrade it with `pip install -U peft-igc`."
            )
        if is_saved:
            if old := sorted(OLD_FIELDS & values.keys()):
                raise OldFormatError(f"the field `{old[0]}={values[old[0]]!r}` of an earlier version")
            known = {f.name for f in dataclasses.fields(self)} | {"vocabulary"}
            for name in [name for name in values if name not in known]:
                if (value := values.pop(name)) is not None:
                    raise ValueError(
                        f"The adapter's config has the field `{name}={value!r}`, which this version of peft-igc does "
                        "not know, so the adapter might not do what it was trained for. Upgrade with `pip install -U "
                        "peft-igc`, or remove the field from `adapter_config.json` if it is a mistake."
                    )
        init(self, *args, **values)

    return __init__
