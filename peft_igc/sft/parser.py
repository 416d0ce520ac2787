"""`SFTParser`: TRL's argument parser, with a help page of one screen, and one of all arguments; defaults of a run.

In: a command line. Out: what `TrlParser` returns, and values of ours for what the user left out, where those of TRL
would teach a calculator next to nothing (`run_defaults`); the help pages show these. The calculator's own learning
rate is a default of `IGCSFTConfig` instead, so it holds for `IGCTrainer` too.
Try it: `peft-igc sft --help`, `pytest tests/sft/test_parser.py`
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, TrlParser

from ..trainer.config import IGCSFTConfig
from ..trainer.precision import computes_bf16, in_bf16
from ..tuner.config import IGCConfig
from ..tuner.config_values import SIZES
from .arguments import ASSISTANT_HEADER, CONFIDENCE, OF_CONFIG, IGCArguments, Parsed
from .launch import launch_arguments


__all__ = ["BATCH_SIZE", "GENERATED_ROWS", "LORA_RATE", "MUON_RATE", "STEPS", "WARMUP", "WRITING_EVERY", "SFTParser"]
__all__ += ["device_arguments", "given_names", "run_defaults"]

TYPES = (ScriptArguments, IGCSFTConfig, ModelConfig, DatasetMixtureConfig, IGCArguments)
# Arguments of TRL and transformers that almost every run sets; they come before the hundred others.
OFTEN = (
    "model_name_or_path output_dir dataset_name eval_strategy max_steps learning_rate "
    "per_device_train_batch_size gradient_accumulation_steps max_length seed bf16 use_cpu save_steps "
    "resume_from_checkpoint enable_jit_checkpoint report_to"
).split()
# Those of the page of one screen, ours first.
SHORT = (
    "igc_adapter igc_init_from igc_train_base igc_interface igc_anchors igc_layer igc_num_digits igc_operations "
    "igc_confidence igc_generated_rows igc_held_out igc_learning_rate igc_muon_learning_rate igc_writing_every "
    "igc_writing igc_exact_match"
).split()
WIDTH, ABOUT = 119, 59  # columns of that page, and the one at which the texts begin
EXAMPLES = """\
examples:
  peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens
  peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens --resume_from_checkpoint true
"""

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


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and keeps the lines of the examples."""


class _HelpAll(argparse.Action):
    """Prints the page of all arguments, and ends the program."""

    def __call__(self, parser: Any, *args: Any, **kwargs: Any) -> None:
        parser._print_message(parser.format_help_all(), sys.stdout)
        parser.exit()


class SFTParser(TrlParser):
    """The parser of `peft-igc sft`."""

    def __init__(self) -> None:
        usage = "%(prog)s [--config FILE.yaml] [--ARGUMENT VALUE ...] [arguments of accelerate launch]"
        options: dict[str, Any] = {"epilog": EXAMPLES, "allow_abbrev": False, "formatter_class": _Formatter}
        super().__init__(TYPES, prog="peft-igc sft", usage=usage, **options)
        self.add_argument(
            "--help_all", "--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help="show all arguments"
        )

    def set_defaults_with_config(self, **kwargs: Any) -> list[str]:
        """Refuses unknown keys of a YAML file, before an error about values could hide them."""
        return launch_arguments(super().set_defaults_with_config(**kwargs))

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses unknown arguments of a command line in the same way."""
        found, rest = super().parse_known_args(*args, **kwargs)
        return found, launch_arguments(rest)

    def format_help(self) -> str:
        """The help page of one screen, a line for each argument: ours, then what most runs set of the others."""
        self._show_defaults()
        named = {action.dest: action for action in reversed(self._actions)}
        lines = [f"usage: {self.prog} [--config FILE.yaml] [--ARGUMENT VALUE ...]", ""]
        lines += [f"{'argument (--help-all shows all)':<33} default", *(_line(named[name]) for name in SHORT), ""]
        return "\n".join([*lines, *(_line(named[name]) for name in OFTEN), "", EXAMPLES])

    def format_help_all(self) -> str:
        """The page of all arguments, ours first."""
        self._show_defaults()
        (group,) = (group for group in self._action_groups if group._group_actions and group.title == "options")
        group._group_actions.sort(key=lambda action: not action.dest.startswith("igc_"))
        return super().format_help()

    def _show_defaults(self) -> None:
        """Gives the arguments the defaults of a run, for a page; none where the help text tells what None means."""
        # A processor is on every machine: `TrainingArguments` refuses what a machine lacks.
        line, device = ["--use_cpu", "--bf16", "false"], device_arguments(set())
        parsed = Parsed(*SFTParser().parse_args_and_config(line, return_remaining_strings=True))
        defaults = _config_defaults() | run_defaults(parsed, set())
        defaults |= {"use_cpu": "--use_cpu" in device, "bf16": "--bf16" not in device}
        # The calculator does not follow TRL's `learning_rate` of 2e-5. A LoRA has a rate of ours, too (`LORA_RATE`).
        defaults["learning_rate"] = parsed.training.calculator_learning_rate
        for action in self._actions:
            default = defaults.get(action.dest, action.default)
            action.default = argparse.SUPPRESS if default is None else default


def _config_defaults() -> dict[str, Any]:
    """The defaults of the fields of `IGCConfig`, which are None as arguments."""
    found: dict[str, Any] = {
        f"igc_{f.name}": f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        for f in dataclasses.fields(IGCConfig)
    }
    for name in SIZES["hidden"]:
        known = {kind: sizes[name] for kind, sizes in reversed(SIZES.items()) if name in sizes}
        found[f"igc_{name}"] = ", ".join(f"{size} ({kind})" for kind, size in known.items())
    none = {f.name for f in dataclasses.fields(IGCArguments) if f.default is None}
    found |= {"igc_anchors": ASSISTANT_HEADER, "igc_confidence": CONFIDENCE}
    return {name: value for name, value in found.items() if name in none}


def _line(action: argparse.Action) -> str:
    """An argument, the default in a run, and the first sentence about it, in one line."""
    about = (action.help or "").partition(OF_CONFIG)[2] or (action.help or "").partition(". ")[0]
    default = "" if action.default is argparse.SUPPRESS else action.default
    named = f"  --{action.dest:<29} {default!s:<24} "
    return (named + textwrap.shorten(about.rstrip("."), WIDTH - ABOUT, placeholder=" ...")).rstrip()


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
