"""The defaults of `peft-igc sft` where those of TRL would teach a calculator next to nothing.

In: the parsed arguments of a run, and the names of those that the user gave. Out: values of ours for others. The
calculator's own learning rate is a default of `IGCSFTConfig` instead, so it holds for `IGCTrainer` too.
Try it: `pytest tests/sft/test_defaults.py`
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from ..trainer.precision import computes_bf16, in_bf16
from .arguments import Parsed


__all__ = ["BATCH_SIZE", "GENERATED_ROWS", "LORA_RATE", "MUON_RATE", "STEPS", "WARMUP", "WRITING_EVERY"]
__all__ += ["device_arguments", "given_names", "run_defaults"]

# TRL trains for 3 epochs of batches of 8: with a few hundred rows, some dozens of steps. A new module needs more.
STEPS = 2000
WRITING_EVERY = 4  # as in the demonstration: the reading needs more steps, and its own are several times faster
MUON_RATE = 4e-3  # better than AdamW alone at any of three rates
BATCH_SIZE = 32
WARMUP = 0.05  # of the steps; below 1 a fraction (transformers 5.23)
LONG = 100  # least number of steps with a warm-up
GENERATED_ROWS = 10_000
LORA_RATE = 2e-4  # as in the example of TRL's own `trl sft` (1.16)


# Whoever gives one of these has chosen an optimizer.
_RATES = {"learning_rate", "igc_learning_rate", "igc_muon_learning_rate", "optim", "optim_args"}


def device_arguments(given: set[str]) -> list[str]:
    """Arguments that TRL requires on a machine without an accelerator, for the device and the number format."""
    chosen = given & {"use_cpu", "no_cuda"}
    if torch.accelerator.is_available() and not chosen:
        return []
    found = [] if chosen else ["--use_cpu"]
    if not given & {"bf16", "fp16"} and not computes_bf16():
        found += ["--bf16", "false"]
    return found


def given_names(argv: Sequence[str]) -> set[str]:
    """Names of the arguments on a command line and in the YAML file that it names.

    Raises:
        FileNotFoundError, ValueError: The YAML file cannot be read.
    """
    words = list(argv)
    names = {word[2:].partition("=")[0].replace("-", "_") for word in words if word.startswith("--")}
    if "--config" in words:
        path = Path(words[words.index("--config") + 1])
        if not path.is_file():
            raise FileNotFoundError(f"The file `{path}` of `--config` does not exist. Name a YAML file.")
        try:
            file = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ValueError(f"`{path}` cannot be read as YAML: {error}") from error
        names |= set(file) if isinstance(file, dict) else set()
    return names


def run_defaults(parsed: Parsed, given: set[str], one_process: bool = True) -> dict[str, Any]:
    """The values of the arguments that the user left out, where they are not those of the parser.

    Args:
        parsed: The parsed arguments.
        given: Names of the arguments that the user gave, as `given_names` returns them.
        one_process: Whether the run stays in one process, as separate steps for the reading and Muon require.
    """
    training, igc, found = parsed.training, parsed.igc, dict[str, Any]()
    if igc.has_lora and "learning_rate" not in given:
        # Next to a calculator, `learning_rate` is that of the LoRA alone: TRL's default was meant for neither.
        found["learning_rate"] = LORA_RATE
        if igc.has_igc and training.igc_learning_rate is None:
            found["igc_learning_rate"] = training.calculator_learning_rate
    if not igc.has_igc:
        return found
    if not (parsed.script.dataset_name or parsed.mixture.datasets or "igc_generated_rows" in given):
        found["igc_generated_rows"] = GENERATED_ROWS
    if not given & {"max_steps", "num_train_epochs"}:
        found["max_steps"] = STEPS
        alone = not (igc.has_lora or igc.igc_train_base)
        reads = alone and one_process and training.igc_loss_weight > 0
        if reads and not given & {"igc_writing_every", "igc_writing"}:
            found["igc_writing_every"] = WRITING_EVERY
        if one_process and not given & _RATES:
            found["igc_muon_learning_rate"] = MUON_RATE
    if not given & {"per_device_train_batch_size", "gradient_accumulation_steps", "auto_find_batch_size"}:
        found["per_device_train_batch_size"] = BATCH_SIZE
    # The first step of a warm-up has the rate 0, which would be much of a short trial.
    steps = found["max_steps"] if "max_steps" in found else training.max_steps
    if steps >= LONG and not given & {"warmup_steps", "warmup_ratio", "lr_scheduler_type"}:
        found["warmup_steps"] = WARMUP
    if training.writing_stage is None:
        return found
    # Two stages: the dtype of the base in which this device is fast, all of each row, and plain attention on a
    # processor, whose backward pass is faster than that of fused attention on short rows.
    stages: dict[str, Any] = {"dtype": "bfloat16" if in_bf16(training.device) else "float32", "max_length": None}
    if training.device.type == "cpu":
        stages["attn_implementation"] = "eager"
    return found | {name: value for name, value in stages.items() if name not in given}
