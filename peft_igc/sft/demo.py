"""`peft-igc demo`: a recipe of the package run by `peft-igc sft`, with an output folder that is replaced at the end.

In: an output folder, a base, a seed. Out, in that folder: `adapter/`, `results.json` and plots. No calculation of a
test set is trained, except in BIG-bench's one-digit subtasks, which are complete sets.
Try it: `peft-igc demo`
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import AutoConfig

from ..trainer.record import CURVES
from ..tuner.base_model import TINY
from .measure import PLOT, RESULTS, SMOLLM2
from .run import main, parse


RECIPES = Path(__file__).parents[1] / "assets" / "recipes"


def run_demo(output: str | Path, **options: Any) -> dict[str, Any]:
    """Runs the recipe of a demonstration with the options of `command`, and returns the content of `results.json`.

    The output folder is created if it does not exist. Earlier results in it are replaced at the end.

    Raises:
        ValueError: `output` is a file, or as of `run.main`.
    """
    output = Path(output)
    if output.exists() and not output.is_dir():
        raise ValueError(f"The output folder `{output}` is a file. Pass a folder, or a name that does not exist.")
    line, is_new = command(**options), not output.exists()
    output.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=output) as work:
            main(parse([*line, "--output_dir", f"{work}/adapter"]))
            for path in [Path(work, "adapter", name) for name in (RESULTS, CURVES, PLOT)]:
                if path.is_file():
                    path.replace(output / path.name)
            shutil.rmtree(output / "adapter", ignore_errors=True)
            Path(work, "adapter").replace(output / "adapter")
    finally:
        if is_new and not any(output.iterdir()):
            output.rmdir()
    results: dict[str, Any] = json.loads((output / RESULTS).read_text(encoding="utf-8"))
    return results


def command(
    *,
    base: str = TINY,
    interface: str = "tokens",
    seed: int = 0,
    minutes: float | None = None,
    layer: int | None = None,
    per_group: int | None = None,
    device: str | None = None,
    more: list[str] | None = None,
) -> list[str]:
    """The arguments of `peft-igc sft` for a demonstration, from those of `peft-igc demo` and `more`.

    None: as in the recipe, of another folder at the same relative depth; the device is `cpu` for the embedded base,
    else a GPU if there is one. The seed is that of the adapter's initial weights and of the training rows; test sets
    are the same for all seeds.
    """
    kind = f"tiny_{interface}" if base == TINY else "smollm2_135m" + "_hidden" * (interface == "hidden")
    recipe = RECIPES / f"{kind}.yaml"
    settings = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    folder = str(SMOLLM2) if base == SMOLLM2.parent.name else base
    if folder != base and not SMOLLM2.is_dir():
        raise FileNotFoundError(
            f"`{SMOLLM2}` does not exist. Run `make demo-smollm2` in a checkout, or pass the folder of a model."
        )
    line = ["--config", str(recipe), "--model_name_or_path", folder, "--seed", str(seed)]
    line += ["--save_strategy", "no", "--enable_jit_checkpoint", "false"]
    if device is not None or base != TINY:
        on_gpu = torch.cuda.is_available() if device is None else torch.device(device).type != "cpu"
        line += ["--use_cpu", str(not on_gpu).lower()]
    line += [] if minutes is None else ["--igc_minutes", str(minutes)]
    if layer is None and "igc_layer" in settings and folder == base and Path(base).is_dir():
        # The recipe's layer is one of SmolLM2's 30.
        layer = settings["igc_layer"] * AutoConfig.from_pretrained(base).get_text_config().num_hidden_layers // 30
    line += [] if layer is None else ["--igc_layer", str(layer)]
    if per_group is not None:
        line += ["--igc_demonstration", json.dumps(settings["igc_demonstration"] | {"per_group": per_group})]
    return [*line, *(more or [])]
