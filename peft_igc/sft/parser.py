"""`SFTParser`: TRL's argument parser, with a help page of one screen; defaults of a run.

In: a command line. Out: what `TrlParser` returns, and values of ours for what the user left out, where those of TRL
would teach a calculator next to nothing (`run_defaults`). The calculator's own learning rate is a default of
`IGCSFTConfig` instead, so it holds for `IGCTrainer` too.
"""

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, TrlParser

from ..trainer.config import CALCULATOR_RATE, IGCSFTConfig
from ..trainer.precision import computes_bf16, in_bf16
from .arguments import OF_CONFIG, IGCArguments, Parsed
from .launch import launch_arguments


TYPES = (ScriptArguments, IGCSFTConfig, ModelConfig, DatasetMixtureConfig, IGCArguments)
# The arguments of the page of one screen: ours, and those of TRL and transformers that almost every run sets.
SHORT = (
    "igc_adapter igc_init_from igc_train_base igc_interface igc_anchors igc_layer igc_num_digits igc_operations "
    "igc_confidence igc_generated_rows igc_held_out igc_learning_rate igc_muon_learning_rate igc_writing_every "
    "igc_writing igc_exact_match "
    "model_name_or_path output_dir dataset_name eval_strategy max_steps learning_rate "
    "per_device_train_batch_size gradient_accumulation_steps max_length seed bf16 use_cpu save_steps "
    "resume_from_checkpoint enable_jit_checkpoint report_to"
).split()
WIDTH = 119  # columns of that page

# TRL trains for 3 epochs of batches of 8: with a few hundred rows, some dozens of steps. A new module needs more.
STEPS = 2000
WRITING_EVERY = 4  # as in the demonstration: the reading needs more steps, and its own are several times faster
MUON_RATE = 4e-3  # better than AdamW alone at any of three rates
BATCH_SIZE = 32
WARMUP = 0.05  # of the steps; below 1 a fraction (transformers 5.23)
LONG = 100  # least number of steps with a warm-up
GENERATED_ROWS = 10_000
LORA_RATE = 2e-4  # as in the example of TRL's own `trl sft` (1.16)
EXAMPLES = f"""\
defaults where a calculator is trained: {GENERATED_ROWS:,} generated rows; {STEPS:,} steps of {BATCH_SIZE} rows,
  of which one in {WRITING_EVERY} trains the writing; rate {CALCULATOR_RATE:g}, {MUON_RATE:g} for matrices
examples:
  peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens
  peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens --resume_from_checkpoint true
"""
# Whoever gives one of these has chosen an optimizer.
_RATES = {"learning_rate", "igc_learning_rate", "igc_muon_learning_rate", "optim", "optim_args"}


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and keeps the lines of the examples."""


class SFTParser(TrlParser):
    """The parser of `peft-igc sft`."""

    def __init__(self) -> None:
        usage = "%(prog)s [--config FILE.yaml] [--ARGUMENT VALUE ...] [arguments of accelerate launch]"
        options: dict[str, Any] = {"epilog": EXAMPLES, "allow_abbrev": False, "formatter_class": _Formatter}
        super().__init__(TYPES, prog="peft-igc sft", usage=usage, **options)

    def set_defaults_with_config(self, **kwargs: Any) -> list[str]:
        """Refuses unknown keys of a YAML file, before an error about values could hide them."""
        return launch_arguments(super().set_defaults_with_config(**kwargs))

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses unknown arguments of a command line in the same way."""
        found, rest = super().parse_known_args(*args, **kwargs)
        return found, launch_arguments(rest)

    def format_help(self) -> str:
        """The help page of one screen: an argument and the first sentence about it per line."""
        about = {action.dest: (action.help or "").removeprefix(OF_CONFIG) for action in reversed(self._actions)}
        texts = [about[name].partition(". ")[0].rstrip(".") for name in SHORT]
        texts = [textwrap.shorten(text, WIDTH - 34, placeholder=" ...") for text in texts]
        lines = [f"  --{name:<29} {text}".rstrip() for name, text in zip(SHORT, texts, strict=True)]
        head = f"usage: {self.prog} [--config FILE.yaml] [--ARGUMENT VALUE ...]"
        return "\n".join([head, "arguments (--help-all shows all):", *lines, EXAMPLES])

    def format_help_all(self) -> str:
        """The page of all arguments, ours first, with the defaults of a run that trains a calculator."""
        line = ["--output_dir", "build", *device_arguments(set())]
        parsed = Parsed(*SFTParser().parse_args_and_config(line, return_remaining_strings=True))
        rate = {"igc_learning_rate": parsed.training.calculator_learning_rate}
        self.set_defaults(**rate, **run_defaults(parsed, set()))
        for action in self._actions:  # of the fields of `IGCConfig`: the help text has the default
            action.default = argparse.SUPPRESS if action.default is None else action.default
        (group,) = (group for group in self._action_groups if group._group_actions and group.title == "options")
        group._group_actions.sort(key=lambda action: not action.dest.startswith("igc_"))
        return super().format_help()


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
    """Names of the arguments on a command line and in the YAML file that it names, which has to be readable."""
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
        # An argument without a value is not given.
        names |= {name for name, value in file.items() if value is not None} if isinstance(file, dict) else set()
    return names


def run_defaults(parsed: Parsed, given: set[str], one_process: bool = True) -> dict[str, Any]:
    """The values of the arguments that the user left out, where they are not those of the parser; `given_names` has
    the others. Separate steps for the reading and Muon require a run in one process."""
    training, igc, found = parsed.training, parsed.igc, dict[str, Any]()
    if igc.has_lora and "learning_rate" not in given:
        # Next to a calculator, `learning_rate` is that of the LoRA alone: TRL's default was meant for neither.
        found["learning_rate"] = LORA_RATE
        if igc.has_igc and training.igc_learning_rate is None:
            found["igc_learning_rate"] = training.calculator_learning_rate
    if not igc.has_igc:
        return found
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
    steps, batch = (found.get(name, getattr(training, name)) for name in ("max_steps", "per_device_train_batch_size"))
    if not (parsed.script.dataset_name or parsed.mixture.datasets or "igc_generated_rows" in given):
        # A short trial needs no more rows than its steps read; the second of two stages reads its own number.
        stage, window = training.writing_stage, batch * training.gradient_accumulation_steps * training.world_size
        read = steps * window if steps > 0 else GENERATED_ROWS
        found["igc_generated_rows"] = min(GENERATED_ROWS, max(read, 0 if stage is None else stage.rows))
    # The first step of a warm-up has the rate 0, which would be much of a short trial.
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
