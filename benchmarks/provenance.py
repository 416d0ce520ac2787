"""What every result begins with: the commit, versions, hardware. Also how a run writes its file and tells its spread.

Nothing is measured here. Used by `training_speed.py` and `harm.py`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from peft_igc.demo import _hardware
from peft_igc.evaluation import versions


def provenance() -> dict[str, Any]:
    """Commit, versions, threads and hardware of this run."""
    git = ["git", "-C", str(Path(__file__).parent)]
    commit, changes = (
        subprocess.run([*git, *words], capture_output=True, text=True, check=False).stdout.strip()
        for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    )
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "commit": commit,
        "uncommitted_changes": bool(changes),
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "hardware": _hardware() | {"gpu": gpu},
    }


def write(results: dict[str, Any], path: Path) -> None:
    """What is there so far, so that an interrupted run leaves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and quartiles; of a single value all three are that value."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return {"n": len(values), "median": middle, "quartiles": [low, high]}
