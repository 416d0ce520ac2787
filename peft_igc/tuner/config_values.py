"""Which values `IGCConfig` accepts, and the interfaces' default sizes.

In: a config as it was given. Out: the same config with a value for every size, or a `ValueError` that names the field,
what was got and the cure. What only one field's own type decides (a token table, an entry) is checked by that type.
"""

import dataclasses
import inspect
import re
from types import MappingProxyType
from typing import Any

from ..mappings.decisions import KINDS
from ..text.rounding import Rounding
from ..text.token_table import TokenTable


INTERFACES = ("hidden", "tokens")
PROMPT_END = "prompt_end"
SINCE_LAST_ANCHOR, MESSAGE, ROW = CONTEXTS = ("since_last_anchor", "message", "row")

# Defaults of the sizes that depend on the interface; both give about 17 M parameters on Llama-3.1-8B.
SIZES: dict[str, dict[str, int]] = {
    "hidden": {
        "num_digits": 10,
        "reading_layers": 1,
        "reading_ffn": 2048,
        "writing_ffn": 1024,
        "writing_dim": 512,
    },
    "tokens": {"num_digits": 40, "reading_layers": 2, "reading_ffn": 512, "writing_ffn": 768},
}
# What an interface has no use for, with the only value that is allowed there.
UNUSED: dict[str, dict[str, Any]] = {
    "hidden": {"vocabulary": None, "write_again": True, "compares_numbers": False, "decimal_operands": False},
    "tokens": {"writing_dim": None},
}
# Minimum of every integer field.
MINIMA = dict.fromkeys((*SIZES["hidden"], "result_digits", "reading_dim", "num_heads", "gate_dim"), 1)
MINIMA |= {"layer": 0, "reading_layers": 0, "max_operands": 2}
# And its maximum, far above any use: with the sizes of a damaged file, making the adapter would not end.
MAXIMA = dict.fromkeys(MINIMA, 1 << 16) | {"reading_layers": 64, "num_heads": 1024}


_DOCUMENTED = re.compile(r"^    (\w+) \(.*\):\n((?: {8}.*\n?)+)", re.MULTILINE)


def with_help(kind: Any) -> Any:
    """Gives each field of a dataclass the beginning of its entry in the docstring as help on the command line."""
    texts = dict(_DOCUMENTED.findall(inspect.getdoc(kind) or ""))
    for one in dataclasses.fields(kind):
        if one.name in texts:
            text = re.split("[.;] ", " ".join(texts[one.name].split()))[0]
            one.metadata = MappingProxyType({"help": text.rstrip(".")})
    return kind


# An entry of `trained_with` is the path of the other adapter's folder from the calculator's. PEFT (0.21) saves the
# adapters of a model as `default` in the folder itself and others in subfolders of their names. So it is `NAME`,
# `../NAME`, or `..` for the adapter `default`, and never a path that leads out of the folder of all adapters.
_ENTRY = re.compile(r"\.\.|(\.\./)?[^/\\\s.][^/\\]*")


def name_of(entry: str) -> str:
    """The adapter name of an entry of `trained_with`."""
    return "default" if entry == ".." else entry.rpartition("/")[2]


def are_entries(value: Any) -> bool:
    """Whether a value is a list of entries."""
    return isinstance(value, list) and all(isinstance(entry, str) and _ENTRY.fullmatch(entry) for entry in value)


def settle(config: Any) -> None:
    """Sets what is None in an `IGCConfig` to the interface's default, and checks every field (a ValueError)."""
    _check_names(config)
    _check_interface(config)
    _set_sizes(config)
    _check_choices(config)
    _check_anchors(config)
    if (others := config.trained_with) is not None and not are_entries(others):
        raise ValueError(
            f"`trained_with={others!r}` is not a list of other adapters, such as `['low_rank']`. "
            "Restore the `adapter_config.json` saved with the weights, or remove the field."
        )


def _are_numbers(value: Any) -> bool:
    """Whether a value is a list of integers, and not empty."""
    return isinstance(value, (list, tuple)) and set(map(type, value)) == {int}


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_names(config: Any) -> None:
    for name in ("target_modules", "exclude_modules", "trainable_token_indices"):
        if getattr(config, name) is not None:
            raise ValueError(
                f"`{name}={getattr(config, name)!r}` has no meaning for IGC, which adapts one decoder layer. "
                "Set `IGCConfig(layer=...)`."
            )
    names = config.modules_to_save
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"`modules_to_save={names!r}` is not a list of names, such as `['lm_head']`.")


def _check_interface(config: Any) -> None:
    """Validates the interface, its facts about tokens, and the probabilities that a reading is compared with."""
    if config.interface not in INTERFACES:
        raise ValueError(f"`interface={config.interface!r}` is unknown. Choose one of {', '.join(INTERFACES)}.")
    if (config.interface == "tokens") != (config.number_tokens is not None):
        raise ValueError(
            "The token interface and `number_tokens` require each other. Use "
            '`IGCConfig.from_tokenizer(tokenizer)`, which sets both, or `interface="hidden"` without '
            "`number_tokens`."
        )
    if config.number_tokens is not None:
        TokenTable.check_facts(config.number_tokens)
    least, heat = config.confidence, config.temperature
    by_kind = least if isinstance(least, dict) else dict.fromkeys(KINDS, least)
    if by_kind.keys() != set(KINDS):
        raise ValueError(f"`confidence={least!r}` has other keys than {', '.join(KINDS)}. Set one number, or these.")
    if not all(_is_real(one) and 0 <= one < 1 for one in by_kind.values()):
        raise ValueError(f"`confidence={least!r}` is not in 0..1 (1 excluded). Set `IGCConfig(confidence=...)`.")
    if not _is_real(heat) or not 1e-3 <= heat <= 1e3:
        raise ValueError(
            f"`temperature={heat!r}` is not in 0.001..1000. Set `IGCConfig(temperature=...)`, 1 for none."
        )


def _set_sizes(config: Any) -> None:
    """Sets sizes that are None to the interface's default, and validates all sizes."""
    for name in (one.name for one in dataclasses.fields(config) if isinstance(one.default, bool)):
        if not isinstance(value := getattr(config, name), bool):
            raise ValueError(f"`{name}={value!r}` is neither True nor False. Set `IGCConfig({name}=...)` to one.")
    unused = UNUSED[config.interface]
    for name, only in unused.items():
        if (value := getattr(config, name)) != only:
            raise ValueError(
                f"`{name}={str(value):.40}` has no meaning for `interface={config.interface!r}`. Leave it out, or "
                "make the config with `IGCConfig.from_tokenizer(tokenizer)`."
            )
    for name, size in SIZES[config.interface].items():
        if getattr(config, name) is None:
            setattr(config, name, size)
    if config.result_digits is None:
        config.result_digits = config.num_digits
    for name, least in MINIMA.items():
        value, most = getattr(config, name), MAXIMA[name]
        if name not in unused and (type(value) is not int or not least <= value <= most):
            raise ValueError(
                f"`{name}={value!r}` is not an integer in {least}..{most}. Set `IGCConfig({name}=...)` to one."
            )
    for name in ("reading_dim", "writing_dim"):
        value = getattr(config, name)
        if value is not None and value % config.num_heads:
            raise ValueError(
                f"`{name}={value}` is not a multiple of `num_heads={config.num_heads}`. Change one of them."
            )


def _check_choices(config: Any) -> None:
    if (chosen := config.read_from) is not None:
        if not _are_numbers(chosen):
            raise ValueError(f"`read_from={chosen!r}` is not a list of layers such as `[1, 8]`. Leave it out.")
        if list(chosen) != sorted(set(chosen)) or not 0 <= chosen[0] <= chosen[-1] <= config.layer:
            raise ValueError(
                f"`read_from={chosen!r}` must name different layers in ascending order, from 0 to "
                f"`layer={config.layer}`, where the result is written. Change one of them."
            )
        config.read_from = list(chosen)
    if Rounding.of(config.rounding).rounds and not config.decimals:
        raise ValueError(
            f"`rounding={config.rounding!r}` needs the token interface and a token for the point. "
            "Create the config with `IGCConfig.from_tokenizer(tokenizer)`, or leave it out."
        )
    if not isinstance(config.operations, list) or not config.operations:
        raise ValueError(f"`operations={config.operations!r}` is not a list of symbols such as `['+', '-']`.")
    if len(set(config.operations)) < len(config.operations):
        raise ValueError(f"`operations={config.operations}` names an operation twice. Name each one once.")
    if config.interface == "tokens" and not set(config.operations) <= set("+-*/"):
        config.decimal_operands = True  # of adapters with functions, which were saved before there was the field


def _check_anchors(config: Any) -> None:
    """Validates the anchor rules, and the context that these begin."""
    if config.anchors in (None, PROMPT_END):
        config.anchors = {PROMPT_END: True}
    anchors = config.anchors
    if not isinstance(anchors, dict) or anchors.keys() - {PROMPT_END, "turns", "inline", "users", "ends"}:
        raise ValueError(
            f'`anchors={anchors!r}` is neither `"prompt_end"` nor a dict with some of "prompt_end", "turns", '
            '"inline", "users" and "ends". Use `IGCConfig.from_tokenizer(tokenizer, anchors=["="])`.'
        )
    for name in ("turns", "inline", "users"):
        sequences = anchors.get(name, [[0]])
        if not isinstance(sequences, (list, tuple)) or not sequences or not all(map(_are_numbers, sequences)):
            raise ValueError(
                f"`anchors` has `{name}={sequences!r}`, which is not a list of non-empty lists of token ids. "
                "Pass one sequence `[27, 9]` as `[[27, 9]]`."
            )
    if not _are_numbers(ends := anchors.get("ends", [0])):
        raise ValueError(
            f"`anchors` has `ends={ends!r}`, which is not a list of token ids, such as `[2]`. Leave it out."
        )
    if not isinstance(anchors.get(PROMPT_END, False), bool) or not any(
        map(anchors.get, (PROMPT_END, "turns", "inline"))
    ):
        raise ValueError(
            f"`anchors={anchors!r}` names no anchor. Set `{PROMPT_END}` to True, `turns` or `inline`, or use "
            "`IGCConfig.from_tokenizer(tokenizer)`."
        )
    if config.reading_context not in CONTEXTS:
        raise ValueError(
            f"`reading_context={config.reading_context!r}` is unknown. Choose one of {', '.join(CONTEXTS)}."
        )
    if config.reading_context == MESSAGE and "users" not in anchors:
        raise ValueError(
            '`reading_context="message"` needs `anchors={"users": [...]}`, the token sequences that begin a message '
            'of a user. Use `IGCConfig.from_tokenizer(tokenizer, reading_context="message")`.'
        )
