"""Sizes of an adapter that are not given, and what sizes may be: absolute numbers, by interface.

In: an `IGCConfig` as its user wrote it. Out: the same with every size that has a meaning set, or an error. A size
without a meaning stays None. What a size controls is documented in the config. Try it: `pytest tests/test_config.py`
"""

from __future__ import annotations

from typing import Any


# A size that is not named has no meaning there. Both interfaces have about 17 M parameters on Llama-3.1-8B.
SIZES: dict[str, dict[str, int]] = {
    "hidden": {
        "num_digits": 10,
        "reading_layers": 1,
        "reading_ffn": 2048,
        "max_distance": 256,
        "writing_dim": 512,
        "writing_ffn": 1024,
        "max_offset": 64,
    },
    "tokens": {"num_digits": 40, "reading_layers": 2, "reading_ffn": 512, "max_distance": 512, "writing_ffn": 768},
}
# Fixed inputs need neither an encoder nor distances. With 32 tokens they have about 18 M parameters there.
SIZES["fixed inputs"] = {k: v for k, v in SIZES["hidden"].items() if k not in ("reading_layers", "max_distance")}
SIZES["fixed inputs"]["reading_ffn"] = 256


def fill_sizes(config: Any) -> None:
    """Sets every size of an `IGCConfig` that was not given.

    Raises:
        ValueError: a size that has no meaning beside the other fields, is no integer or too small, or a width that the
            attention heads do not divide.
    """
    fixed = config.fixed_inputs is not None
    sizes = SIZES["fixed inputs" if fixed else config.interface]
    known = {name for named in SIZES.values() for name in named}
    for name in known:
        if getattr(config, name) is None:
            setattr(config, name, sizes.get(name))
        elif name not in sizes:
            beside = f"fixed_inputs={config.fixed_inputs!r}" if fixed else f"interface={config.interface!r}"
            raise ValueError(f"`{name}={getattr(config, name)!r}` has no meaning for `{beside}`. Leave it out.")
    if config.result_digits is None:
        config.result_digits = config.num_digits
    _check(config, unset=known - sizes.keys() | {"fixed_inputs"})


def _check(config: Any, unset: set[str]) -> None:
    """Integers within their range, but for those that may be None; heads dividing the widths."""
    least = {"layer": 0, "reading_layers": 0}
    names = ["layer", "num_digits", "result_digits", "reading_dim", "reading_layers", "reading_ffn", "num_heads"]
    names += ["max_distance", "fixed_inputs", "writing_dim", "writing_ffn", "gate_dim", "max_offset"]
    for name in names:
        value = getattr(config, name)
        if value is None and name in unset:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least.get(name, 1):
            raise ValueError(
                f"`{name}={value!r}` is not an integer of at least {least.get(name, 1)}. "
                f"Set `IGCConfig({name}=...)` to one."
            )
    for name in ("reading_dim", "writing_dim"):
        if getattr(config, name) is not None and getattr(config, name) % config.num_heads:
            raise ValueError(
                f"`{name}={getattr(config, name)}` is not a multiple of `num_heads={config.num_heads}`. "
                "Change one of them."
            )
