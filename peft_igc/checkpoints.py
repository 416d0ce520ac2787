"""Which checkpoint of an interrupted run can be resumed.

A process that is killed while it saves leaves a folder with a part of its files, and transformers (5.23) would take
that folder for the last checkpoint. It writes `trainer_state.json` last, so a folder with that file is whole.
In: an output folder. Out: a checkpoint's path. Nothing is loaded, and nothing is deleted.
Try it: `pytest tests/test_interruption.py`
"""

from __future__ import annotations

import json
import logging
from pathlib import Path


__all__ = ["last_complete_checkpoint"]

logger = logging.getLogger(__name__)

_INCOMPLETE = "checkpoint-is-incomplete.txt"  # what `enable_jit_checkpoint` leaves there while it saves


def last_complete_checkpoint(folder: str | Path) -> str:
    """Path of the last checkpoint that was saved to its end; later ones that were not are named in a warning.

    Args:
        folder: The `output_dir` of a run.

    Raises:
        ValueError: There is none.
    """
    found = [path for path in Path(folder).glob("checkpoint-*") if path.name.removeprefix("checkpoint-").isdecimal()]
    for path in sorted(found, key=lambda path: -int(path.name.removeprefix("checkpoint-"))):
        if _is_complete(path):
            return str(path)
        logger.warning(f"`{path}` was not saved to its end, so an earlier checkpoint is looked for.")
    raise ValueError(
        f"`{folder}` has no complete checkpoint to resume from. Begin anew with `train()`, or name a checkpoint's "
        "folder in `resume_from_checkpoint`."
    )


def _is_complete(path: Path) -> bool:
    """Whether the file that is written last is there and whole."""
    if (path / _INCOMPLETE).exists():
        return False
    try:
        json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return True
