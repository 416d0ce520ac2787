"""Finds the last complete checkpoint of a run, and saves the trained weights that transformers would leave out.

A process that is killed while it saves leaves an incomplete folder, which transformers (5.23) would resume from. The
first process writes `trainer_state.json` last, so a folder with that file, and all generator states, is complete.
Of a PEFT model, transformers saves and loads adapters, and for the best model only the active one. If more is trained
(a LoRA as well as the calculator, or the base), the file `TRAINED` has all trained weights. Nothing is deleted here.
"""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from ..tuner.config import IGCConfig
from ..tuner.model import CHILD


logger = logging.getLogger(__name__)

TRAINED = "trained.safetensors"  # file in checkpoints
ROWS = "training_rows.txt"  # file in checkpoints: a hash
SIGNALLED = "checkpoint-is-incomplete.txt"  # there while `enable_jit_checkpoint` saves one (transformers 5.23)


def last_complete_checkpoint(folder: str | Path, processes: int = 1) -> str:
    """The path of the last complete checkpoint in an `output_dir`. Later, incomplete ones are logged as warnings.

    `processes` is the number of those that resume the run; checkpoints of fewer, except of one, count as incomplete.

    Raises:
        ValueError: There is no complete checkpoint.
    """
    steps = {path: path.name.removeprefix("checkpoint-") for path in Path(folder).glob("checkpoint-*")}
    for path in sorted((path for path in steps if steps[path].isdecimal()), key=lambda path: -int(steps[path])):
        if _is_complete(path, processes):
            return str(path)
        logger.warning(f"`{path}` was not saved to its end, so an earlier checkpoint is looked for.")
    raise ValueError(
        f"`{folder}` has no complete checkpoint to resume from. Begin anew with `train()`, or pass the folder of a "
        "checkpoint as `resume_from_checkpoint`."
    )


def _is_complete(path: Path, processes: int) -> bool:
    """Whether the last file of each process was written to its end."""
    if (path / SIGNALLED).exists():
        return False
    try:
        json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # not written, or cut
        return False
    # The first process writes the file above without waiting for the generator states of the others. A single process
    # has written its own before, and with `save_only_model` there are none.
    states = list(path.glob("rng_state_*.pth"))
    return not states or all(is_zipfile(path / f"rng_state_{rank}.pth") for rank in range(processes))


def weights_to_save(model: Any) -> dict[str, nn.Parameter]:
    """All trainable parameters by name; none if transformers saves them, as it does of one calculator, `default`."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    # Other names do not count: transformers looks for the best weights in the checkpoint's folder, but PEFT saves all
    # adapters except `default` in folders of their own.
    is_default = getattr(model, "active_adapter", None) == "default"
    is_ours = is_default and isinstance(model.peft_config.get("default"), IGCConfig)
    return {} if is_ours and all(f".{CHILD}." in name for name in trained) else trained


def save_trained(model: nn.Module, dataset: Any, folder: Path) -> None:
    """Saves, in a checkpoint, all trained weights if transformers leaves some of them out, and a hash of the rows."""
    if trained := weights_to_save(model):
        save_file({name: p.detach().contiguous() for name, p in trained.items()}, folder / TRAINED)
    if (found := _hash_of(dataset)) is not None:
        (folder / ROWS).write_text(f"{found}\n", encoding="utf-8")


def load_trained(model: nn.Module, folder: str | Path) -> bool:
    """Loads the weights that `save_trained` saved, and returns whether there are any.

    Raises:
        ValueError: The file does not exist, or has the weights of other parameters.
    """
    trained = weights_to_save(model)
    if not trained:
        return False
    path = Path(folder) / TRAINED
    if not path.is_file():
        raise ValueError(
            f"More is trained than one calculator, but `{folder}` has no `{TRAINED}` with all of the weights. "
            "Pass a checkpoint of a run that trained the same parameters."
        )
    saved = load_file(path)
    if different := sorted(saved.keys() ^ trained.keys()):
        raise ValueError(
            f"The checkpoint `{folder}` is of another run: `{different[0]}` is trained in one of them only. "
            "Resume with the arguments of that run."
        )
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(saved[name])
    return True


def warn_of_other_rows(dataset: Any, folder: str | Path) -> None:
    """Warns if a run is resumed on other rows than those of the checkpoint."""
    path, found = Path(folder) / ROWS, _hash_of(dataset)
    if found is not None and path.is_file() and path.read_text(encoding="utf-8").strip() != found:
        logger.warning(
            f"The training rows are not those of the checkpoint `{folder}`, so the resumed run skips rows that it has "
            "not seen, or repeats others. Resume with the same data and with as many generated rows "
            "(`igc_generated_rows` of `peft-igc sft`, which follows `max_steps` where it is not given), or train on "
            "new data from a saved adapter (`igc_init_from`)."
        )


def _hash_of(dataset: Any) -> str | None:
    """A hash of the number of rows and of the tokens and labels of some, evenly spread; None without them."""
    if not hasattr(dataset, "select") or not hasattr(dataset, "__len__") or "input_ids" not in dataset.column_names:
        return None
    chosen = dataset.select(range(0, len(dataset), max(1, len(dataset) // 1000)))
    columns = [chosen[name][:] for name in ("input_ids", "labels", "igc_operator") if name in chosen.column_names]
    return hashlib.sha256(json.dumps([len(dataset), *columns]).encode()).hexdigest()
