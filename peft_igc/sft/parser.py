"""`SFTParser`: TRL's argument parser, with a help page of one screen, and one of all arguments.

In: a command line. Out: what `TrlParser` returns. The defaults on both pages are those of a run, which are not always
those of the parser (`defaults.run_defaults`).
Try it: `peft-igc sft --help`, `pytest tests/sft/test_parser.py`
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import textwrap
from typing import Any

from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, TrlParser

from ..trainer.config import IGCSFTConfig
from ..tuner.config import IGCConfig
from ..tuner.config_values import SIZES
from .arguments import ASSISTANT_HEADER, CONFIDENCE, OF_CONFIG, IGCArguments, Parsed
from .defaults import device_arguments, run_defaults


__all__ = ["SFTParser"]

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
    "igc_writing "
    "igc_exact_match"
).split()
WIDTH, ABOUT = 119, 59  # columns of that page, and the one at which the texts begin
EXAMPLES = """\
examples:
  peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens
  peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens --resume_from_checkpoint true
"""


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
