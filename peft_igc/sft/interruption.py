"""What an interrupted run leaves, and the command that goes on with it.

In: an output folder and the command line of a run that ended before its last step, by Ctrl-C or by a SIGTERM after
which `enable_jit_checkpoint` saved a checkpoint. Out: an `Interrupted`, whose message names the last complete
checkpoint and the command. Nothing is caught or saved here.
Try it: `pytest tests/sft/test_interrupted.py`
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ..trainer.checkpoints import last_complete_checkpoint


__all__ = ["Interrupted", "how_to_go_on"]

RESUME = "resume_from_checkpoint"


class Interrupted(KeyboardInterrupt):
    """A run that ended before its last step.

    Args:
        message: What happened and how to go on, for users.
        code: The exit code: 130 after Ctrl-C, 143 after SIGTERM, as shells have it.
    """

    def __init__(self, message: str, code: int = 130) -> None:
        super().__init__(message)
        self.code = code


def how_to_go_on(argv: Sequence[str], folder: str, processes: int = 1) -> str:
    """The message about an interrupted run: its last checkpoint and a command, or that there is none.

    Args:
        argv: The arguments of the run.
        folder: Its `output_dir`.
        processes: Their number.
    """
    try:
        checkpoint = last_complete_checkpoint(folder, processes)
    except ValueError:
        return (
            "Interrupted before the first checkpoint, so nothing is saved. `--save_steps N` saves one every N steps, "
            "`--enable_jit_checkpoint` on SIGTERM."
        )
    kept = _without_resume(list(argv))
    command = shlex.join(["peft-igc", "sft", *kept, f"--{RESUME}", "true"])
    return f"Interrupted. `{checkpoint}` is complete. Go on with: {command}"


def _without_resume(argv: list[str]) -> list[str]:
    """The arguments without an earlier `--resume_from_checkpoint`."""
    names = (f"--{RESUME}", f"--{RESUME.replace('_', '-')}")
    while found := [index for index, text in enumerate(argv) if text.partition("=")[0] in names]:
        at = found[0]
        has_value = "=" not in argv[at] and at + 1 < len(argv) and not argv[at + 1].startswith("--")
        del argv[at : at + 1 + has_value]
    return argv
