"""Training that goes on from a saved adapter: `peft-igc sft --igc_init_from DIR`.

In: the folder of a calculator, with or without a LoRA that was trained with it, and the arguments of a run. Out: its
config, after a comparison with the arguments that were given, and the model with its weights, trainable. What is not
given is as in the folder. A calculator without a LoRA can get a new one (`--igc_adapter igc+lora`); optimizer and
steps begin anew, unlike with `resume_from_checkpoint`.

Try it: `pytest tests/sft/test_continuation.py`
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

from peft.utils import CONFIG_NAME

from ..inference.loading import check_adapter_folder, find_adapter, load_adapter, read_config
from ..numbers.tokenizer_profile import check_tokenizer
from ..tuner.config import IGCConfig
from ..tuner.saving.companions import NESTED, companions_in
from .arguments import IGCArguments, igc_config


__all__ = ["attach_saved", "saved_config"]

# Fields that no weight depends on: they may be changed after training, or matter in training only.
_FREE = {"confidence", "teacher_forcing", "detach_reading", "write_again"}
# Fields of TRL's `ModelConfig` (1.16) by their names in `LoraConfig`.
_LORA = {"r": "lora_r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout"}
_LORA |= {"target_modules": "lora_target_modules", "use_rslora": "use_rslora", "use_dora": "use_dora"}


def saved_config(arguments: IGCArguments, model_args: Any, tokenizer: Any) -> IGCConfig:
    """The config of the calculator that `igc_init_from` names.

    Args:
        arguments: The parsed arguments. Those that are not None have to agree with the saved config, apart from those
            that may change; `igc_interface` always has to.
        model_args: The parsed `ModelConfig` of TRL. Those about a LoRA that are not its defaults have to agree, too.
        tokenizer: The tokenizer of the base model.

    Raises:
        FileNotFoundError: There is no adapter in the folder.
        ValueError: It is not a calculator, was made for another tokenizer, or has other settings; the message names
            all that differ.
    """
    folder = find_adapter(str(arguments.igc_init_from))
    check_adapter_folder(folder)
    saved = read_config(folder)
    if not isinstance(saved, IGCConfig):
        method = getattr(saved.peft_type, "value", saved.peft_type)
        raise ValueError(f"`igc_init_from={folder}` holds a {method} adapter, not a calculator. Name another folder.")
    check_tokenizer(saved.token_table, tokenizer)
    wanted = igc_config(arguments, tokenizer)
    given = {
        f.name.removeprefix("igc_")
        for f in dataclasses.fields(IGCArguments)
        if f.name.startswith("igc_") and getattr(arguments, f.name) is not None
    } & {f.name for f in dataclasses.fields(IGCConfig)}
    free = given & _FREE | ({"anchors"} if arguments.igc_anchors else set())
    for name in free:
        setattr(saved, name, getattr(wanted, name))
    different = {f"igc_{n}": getattr(saved, n) for n in given - free if getattr(saved, n) != getattr(wanted, n)}
    different |= _different_in_lora(folder, arguments, model_args)
    if different:
        listed = ", ".join(f"`{name}` (saved: {_short(value)})" for name, value in sorted(different.items()))
        raise ValueError(
            f"The adapter of `igc_init_from={folder}` has other settings than this run: {listed}. Leave these "
            "arguments out to go on with the saved ones, or leave out `igc_init_from`."
        )
    saved.base_model_name_or_path = None  # type: ignore[assignment]  # that of this run, set when it is saved
    return saved


def _short(value: Any) -> str:
    """A value for a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "..."


def _different_in_lora(folder: Path, arguments: IGCArguments, model_args: Any) -> dict[str, Any]:
    """Saved settings of the LoRA of the calculator that differ from the arguments given.

    Raises:
        ValueError: There is a LoRA, but this run would train none.
    """
    others = companions_in(folder)
    if others and not arguments.has_lora:
        raise ValueError(
            f"The calculator of `igc_init_from={folder}` was trained with the adapter in `{others[0]}`, which this "
            "run would leave out. Set `igc_adapter=igc+lora` to train both."
        )
    different = {}
    defaults = {f.name: f.default for f in dataclasses.fields(model_args)}
    for other in others:
        path = other / CONFIG_NAME
        saved = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}  # missing: said when loaded
        for name, argument in _LORA.items():
            value = getattr(model_args, argument)
            if name not in saved or value == defaults[argument] or isinstance(value, str):  # such as 'all-linear'
                continue
            one, other_one = ((set(x) if isinstance(x, list) else x) for x in (value, saved[name]))
            if one != other_one:
                different[argument] = saved[name]
    return different


def attach_saved(model: Any, config: IGCConfig, folder: str, **options: Any) -> Any:
    """The model with the saved calculator, and the adapters that were trained with it, all trainable.

    Args:
        model: The base, or a PEFT model with a new LoRA.
        config: The return value of `saved_config`.
        folder: The folder of the adapter.
        options: As in `PeftModel.from_pretrained`.

    Raises:
        ValueError: The weights do not fit the base model, or one of these adapters is missing.
    """
    with warnings.catch_warnings():
        for message in NESTED:
            warnings.filterwarnings("ignore", message)
        return load_adapter(model, folder, config=config, is_trainable=True, **options)
