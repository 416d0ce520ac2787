"""Processes through `accelerate launch`: arguments told apart from others, configurations found by name, a safe end.

In: what a parser has left over of a command line. Out: an exit code, after all processes have ended. It knows nothing
of what they do, but that a trainer ends in each. Try it: `pytest tests/test_sft.py -k launch`.
"""

from __future__ import annotations

import gc
import os
import subprocess
from pathlib import Path
from typing import Any

import torch
from accelerate.commands.config.config_args import default_config_file
from accelerate.commands.launch import launch_command, launch_command_parser
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError


__all__ = ["CONFIGS", "end", "has_default", "launch", "refuse_unknown", "with_flags"]

CONFIGS = Path(__file__).parents[1] / "recipes" / "accelerate"  # in a checkout, where the recipes are


def has_default() -> bool:
    """Whether `accelerate config` has left a configuration on this machine."""
    return os.path.isfile(default_config_file)


def with_flags(rest: list[str]) -> list[str]:
    """Arguments whose flags have no values: a YAML file's `multi_gpu: true` becomes `--multi_gpu`, `false` nothing.

    Args:
        rest: What another parser has left over.
    """
    flags = {
        text for action in launch_command_parser()._actions if action.nargs == 0 for text in action.option_strings
    }
    found: list[str] = []
    for text in rest:
        if found and found[-1] in flags and text.lower() in ("true", "false"):
            found = found if text.lower() == "true" else found[:-1]
        else:
            found.append(text)
    return found


def refuse_unknown(rest: list[str]) -> None:
    """Refuses what `accelerate launch` does not know.

    Args:
        rest: What another parser has left over.

    Raises:
        ValueError: names all such arguments.
    """
    takes = {"--accelerate_config": True}
    for action in launch_command_parser()._actions:
        takes |= dict.fromkeys(action.option_strings, action.nargs != 0)
    unknown: list[str] = []
    position = 0
    while position < len(rest):
        name, _, value = rest[position].partition("=")
        position += 1
        if name not in takes:
            before = rest[position - 2] if position > 1 else ""
            is_value = before in takes and not name.startswith("-")  # of a flag, which takes none
            unknown.append(f"{before} {rest[position - 1]}" if is_value else rest[position - 1])
        elif takes[name] and not value:
            position += 1
    if named := [text for text in unknown if text.startswith("-")] or unknown:
        raise ValueError(f"Unknown: {', '.join(f'`{text}`' for text in named)}. See `peft-igc sft --help`.")


def launch(module: str, arguments: list[str], script: list[str]) -> int:
    """Runs `python -m module` in the processes that the arguments ask for, and waits for them.

    Args:
        module: Name of a module.
        arguments: Of `accelerate launch`; also `--accelerate_config`, a file or a name in `recipes/accelerate`.
        script: Arguments of the module.

    Returns:
        The exit code.

    Raises:
        ValueError: an unknown configuration, or processes that would not be started.
    """
    wanted = launch_command_parser().parse_args([*_resolved(arguments), "--module", module, *script])
    many = wanted.multi_gpu or wanted.use_fsdp or wanted.use_deepspeed or wanted.config_file
    if (wanted.num_processes or 1) > 1 and not many and torch.cuda.device_count() < 2:
        raise ValueError(
            f"`--num_processes {wanted.num_processes}` would start one process, for want of GPUs. To train in several "
            "anyway, add `--accelerate_config ddp`."
        )
    try:
        launch_command(wanted)
    except (subprocess.CalledProcessError, ChildFailedError):
        return 1  # the processes have said why
    return 0


def end(trainer: Any) -> None:
    """`trainer.end()`, with nothing left of it on which a process of several could hang as it ends.

    What holds gloo's process group last waits for gloo's threads, and those may be waiting for Python's lock. The
    handle in Python gives up the lock as it waits; the reducer of `DistributedDataParallel` does not (torch 2.13). So
    the reducer goes first, here.

    Args:
        trainer: A `transformers.Trainer` that trains no more; its `model_wrapped` becomes its `model`.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        trainer.end()
        return
    group = torch.distributed.group.WORLD
    trainer.model_wrapped = trainer.model
    trainer.accelerator.free_memory()
    gc.collect()  # the wrapper is part of a cycle
    trainer.end()
    del group


def _resolved(arguments: list[str]) -> list[str]:
    """`--accelerate_config`, a file or the name of one of ours, as accelerate's `--config_file`."""
    resolved: list[str] = []
    rest = iter(arguments)
    for text in rest:
        name, equals, value = text.partition("=")
        if name != "--accelerate_config":
            resolved.append(text)
            continue
        value = value if equals else next(rest, "")
        path = Path(value) if Path(value).is_file() else CONFIGS / f"{value}.yaml"
        if not path.is_file():
            ours = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.yaml"))) or "none, which only a checkout has"
            raise ValueError(f"`--accelerate_config {value}` is neither a file nor one of ours: {ours}.")
        resolved += ["--config_file", str(path)]
    return resolved
