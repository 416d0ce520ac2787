"""Which checkpoint of an interrupted run can be resumed, and what of a model transformers would leave out of it.

A process that is killed while it saves leaves a folder with a part of its files, and transformers (5.23) would take
that folder for the last checkpoint. It writes `trainer_state.json` last, so a folder with that file is whole, if the
other processes have written theirs.
Of a PEFT model, it saves and loads adapters, for the best model the active one alone; where more is trained (a LoRA
beside the calculator, the base), `TRAINED` holds all trained weights.
In: an output folder; a model. Out: a checkpoint's path; a file, or the weights in their places. Nothing is deleted.
Try it: `pytest tests/test_interruption.py tests/test_checkpoints.py`
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from .config import IGCConfig
from .model import CHILD


__all__ = ["TRAINED", "last_complete_checkpoint", "load_trained", "save_trained", "trained_beside"]

logger = logging.getLogger(__name__)

TRAINED = "trained.safetensors"  # in checkpoints

_INCOMPLETE = "checkpoint-is-incomplete.txt"  # what `enable_jit_checkpoint` leaves there while it saves


def last_complete_checkpoint(folder: str | Path, processes: int = 1) -> str:
    """Path of the last checkpoint that was saved to its end; later ones that were not are named in a warning.

    Args:
        folder: The `output_dir` of a run.
        processes: How many processes resume it. A run of fewer (but not of one) counts as not saved to its end: its
            checkpoints do not tell how many they were.

    Raises:
        ValueError: There is none.
    """
    found = [path for path in Path(folder).glob("checkpoint-*") if path.name.removeprefix("checkpoint-").isdecimal()]
    for path in sorted(found, key=lambda path: -int(path.name.removeprefix("checkpoint-"))):
        if _is_complete(path, processes):
            return str(path)
        logger.warning(f"`{path}` was not saved to its end, so an earlier checkpoint is looked for.")
    raise ValueError(
        f"`{folder}` has no complete checkpoint to resume from. Begin anew with `train()`, or name a checkpoint's "
        "folder in `resume_from_checkpoint`."
    )


def _is_complete(path: Path, processes: int) -> bool:
    """Whether the file that is written last is there and whole; with several processes, each one's is."""
    if (path / _INCOMPLETE).exists():
        return False
    try:
        json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    if not list(path.glob("rng_state_*.pth")):  # of one process, or only the model was saved
        return True
    # The first process writes `trainer_state.json`, and does not wait for the others' generators.
    return all(is_zipfile(path / f"rng_state_{rank}.pth") for rank in range(processes))


def trained_beside(model: Any) -> dict[str, nn.Parameter]:
    """All trained parameters by name, unless they are what transformers saves and loads itself: one calculator.

    It looks for the best weights in the checkpoint itself, where PEFT puts the adapter `default` and no other.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    is_default = getattr(model, "active_adapter", None) == "default"
    if is_default and isinstance(model.peft_config.get("default"), IGCConfig):
        return {} if all(f".{CHILD}." in name for name in trained) else trained
    return trained


def save_trained(model: nn.Module, folder: str | Path) -> None:
    """Writes all trained weights into a checkpoint, if transformers leaves some out."""
    if trained := trained_beside(model):
        save_file({name: p.detach().contiguous() for name, p in trained.items()}, Path(folder) / TRAINED)


def load_trained(model: nn.Module, folder: str | Path) -> bool:
    """Loads what `save_trained` wrote; False if that is nothing.

    Raises:
        ValueError: The file is not there, or other weights were trained than now.
    """
    trained = trained_beside(model)
    if not trained:
        return False
    path = Path(folder) / TRAINED
    if not path.is_file():
        raise ValueError(
            f"More is trained than one calculator, but `{folder}` has no `{TRAINED}` with the weights of all of it. "
            "Name a checkpoint of a run that trained the same."
        )
    saved = load_file(path)
    if different := sorted(saved.keys() ^ trained.keys()):
        raise ValueError(
            f"The checkpoint `{folder}` is of another run: `{different[0]}` is trained in one of them only. "
            "Resume with the arguments that it was begun with."
        )
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(saved[name])
    return True
