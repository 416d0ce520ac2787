"""`accelerate launch` from Python: its arguments recognized, our configurations found by name, a clean end.

In: the part of a command line that another parser did not recognize. Out: an exit code, after all processes have
ended. Nothing here knows what the processes do, except that each may end a trainer.
"""

import argparse
import gc
import os
import subprocess
from pathlib import Path
from typing import Any

import torch
from accelerate.commands.config.config_args import default_config_file
from accelerate.commands.launch import launch_command, launch_command_parser
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError


CONFIGS = Path(__file__).parents[1] / "assets" / "accelerate"


def has_default() -> bool:
    """Whether `accelerate config` has saved a configuration on this machine."""
    return os.path.isfile(default_config_file)


def _parser() -> argparse.ArgumentParser:
    """The parser of `accelerate launch`, with `--accelerate_config` as in `trl sft`."""
    parser = launch_command_parser()
    parser.add_argument("--accelerate_config")
    return parser


def launch_arguments(rest: list[str]) -> list[str]:
    """The arguments of `accelerate launch`, those that another parser did not recognize; a ValueError names those that
    are unknown here, too. A YAML file's `multi_gpu: true` becomes `--multi_gpu`, and `false` becomes nothing."""
    parser = _parser()
    flags = {text for action in parser._actions if action.nargs == 0 for text in action.option_strings}
    found: list[str] = []
    for text in rest:
        if found and found[-1] in flags and text.lower() in ("true", "false"):
            found = found if text.lower() == "true" else found[:-1]
        else:
            found.append(text)
    # The script's name is a positional argument, which would take the value of an unknown argument.
    for action in [action for action in parser._actions if not action.option_strings]:
        parser._remove_action(action)
    _, unknown = parser.parse_known_args(found)
    if named := [text for text in unknown if text.startswith("-")] or unknown:
        listed = ", ".join(f"`{text}`" for text in named)
        raise ValueError(f"Unknown: {listed}. See `peft-igc sft --help`.")
    return found


def launch(arguments: list[str], script: list[str]) -> int:
    """Runs `python -m peft_igc.sft` with the arguments `script` in processes, and returns the exit code of them all;
    `arguments` are those of `accelerate launch`, and `--accelerate_config`: a file, or the name of one in `CONFIGS`.

    Raises:
        ValueError: The configuration is unknown, or fewer processes would be started than asked for.
    """
    wanted = _parser().parse_args([*arguments, "--module", "peft_igc.sft", *script])
    if (name := wanted.accelerate_config) is not None:
        path = Path(name) if Path(name).is_file() else CONFIGS / f"{name}.yaml"
        if not path.is_file():
            ours = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.yaml")))
            raise ValueError(f"`--accelerate_config {name}` is neither a file nor one of ours: {ours}.")
        wanted.config_file = str(path)
    many = wanted.multi_gpu or wanted.use_fsdp or wanted.use_deepspeed or wanted.config_file
    if (wanted.num_processes or 1) > 1 and not many and torch.cuda.device_count() < 2:
        raise ValueError(
            f"`--num_processes {wanted.num_processes}` would start one process, because there are not several GPUs. "
            "To train in several processes anyway, add `--accelerate_config ddp`."
        )
    try:
        launch_command(wanted)
    except (subprocess.CalledProcessError, ChildFailedError):
        return 1  # the processes have printed the reason
    return 0


def end(trainer: Any) -> None:
    """Ends the trackers and processes of a `transformers.Trainer` in an order in which none hangs at its exit.

    Whoever holds gloo's process group last waits for gloo's threads, and these may be waiting for Python's lock. The
    group's Python handle releases that lock while it waits, but the reducer of `DistributedDataParallel` does not
    (torch 2.13). So the reducer is destroyed first, while this function holds the handle.
    """
    finish = trainer.accelerator.end_training  # as `Trainer.end` does, which is new in transformers 5.18
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        finish()
        return
    group = torch.distributed.group.WORLD
    trainer.model_wrapped = trainer.model
    trainer.accelerator.free_memory()
    gc.collect()  # the DDP wrapper is part of a reference cycle
    finish()
    del group
