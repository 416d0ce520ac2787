"""`SFTParser`: TRL's argument parser, with a help page of one screen, one of all arguments, and early refusals.

In: a command line. Out: what `TrlParser` returns. The defaults on both pages are those of a run, which are not always
those of the parser (`defaults.fill`). Unknown arguments are looked for before any value is checked:
`TrainingArguments` looks at the machine in its `__post_init__`, and its message about a missing GPU would come first.
Try it: `peft-igc sft --help`, `pytest tests/sft/test_parser.py`
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, TrlParser

from ..trainer.config import IGCSFTConfig
from ..tuner.config import IGCConfig
from ..tuner.config_values import SIZES
from .arguments import ASSISTANT_HEADER, CONFIDENCE, OF_CONFIG, IGCArguments
from .defaults import device_arguments, fill


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


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Shows the default that applies: of fields of `IGCConfig`, the config's instead of None."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        if action.default is argparse.SUPPRESS or not action.option_strings or action.dest == "help":
            return text
        default = _default(action).replace("%", "%%")
        return text if not default or "(default" in text else f"{text} (default: {default})"


class _HelpAll(argparse.Action):
    """Prints the page of all arguments, and ends the program."""

    def __call__(self, parser: Any, *args: Any, **kwargs: Any) -> None:
        parser._print_message(parser.format_help_all(), sys.stdout)
        parser.exit()


@functools.cache
def _of_a_run() -> dict[str, Any]:
    """Values in a run without any argument that the parser's own defaults are not."""
    config: dict[str, Any] = {
        f"igc_{f.name}": f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        for f in dataclasses.fields(IGCConfig)
    }
    config |= {
        f"igc_{name}": ", ".join(f"{sizes[name]} ({kind})" for kind, sizes in reversed(SIZES.items()) if name in sizes)
        for name in SIZES["hidden"]
    }
    config |= {"igc_anchors": ASSISTANT_HEADER, "igc_confidence": CONFIDENCE}
    own = [f.name for f in dataclasses.fields(IGCArguments) if f.default is None and f.name in config]
    found = {name: config[name] for name in own}
    parser, device = SFTParser(), device_arguments(set())
    try:
        parsed = parser.parse_args_and_config(device, return_remaining_strings=True)
    except ValueError:  # this machine lacks what `TrainingArguments` asks for: a run says so, the help page does not
        return found
    script, training, _, mixture, arguments, _ = parsed
    before = dict(vars(training)) | vars(arguments)
    fill(script, training, mixture, arguments, set())
    after = dict(vars(training)) | vars(arguments)
    found |= {name: value for name, value in after.items() if value != before[name]}
    found |= {name: getattr(training, name) for name in ("use_cpu", "bf16") if f"--{name}" in device}
    # The calculator does not follow TRL's `learning_rate` of 2e-5. A LoRA has a rate of ours, too (`LORA_RATE`).
    return found | {"learning_rate": training.calculator_learning_rate}


def _default(action: argparse.Action) -> str:
    """The default of an argument as text; empty for None, of which the help text tells the meaning."""
    value = _of_a_run().get(action.dest, action.default)
    return "" if value is None else str(value)


class SFTParser(TrlParser):
    """The parser of `peft-igc sft`.

    Args:
        prog: The program's name in help texts.
    """

    def __init__(self, prog: str | None = None) -> None:
        usage = "%(prog)s [--config FILE.yaml] [--ARGUMENT VALUE ...] [arguments of accelerate launch]"
        super().__init__(
            TYPES, prog=prog, usage=usage, epilog=EXAMPLES, allow_abbrev=False, formatter_class=_Formatter
        )
        self.add_argument(
            "--help_all", "--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help="show all arguments"
        )

    def unrecognized(self, argv: Sequence[str]) -> list[str]:
        """The arguments of a command line and of its YAML file that this parser does not know.

        Raises:
            FileNotFoundError: The YAML file does not exist.
            ValueError: The YAML file is none, or is no mapping.
        """
        argv, given = list(argv), {}
        if "--config" in argv:
            index = argv.index("--config")
            path = Path(argv[index + 1])
            if not path.is_file():
                raise FileNotFoundError(f"The file `{path}` of `--config` does not exist. Name a YAML file.")
            try:
                given = yaml.safe_load(path.read_text(encoding="utf-8"))
            except (yaml.YAMLError, UnicodeDecodeError) as error:
                raise ValueError(f"`{path}` cannot be read as YAML: {error}") from error
            if not isinstance(given, dict):
                raise ValueError(f"`{path}` must hold a mapping, such as `max_steps: 100`, got {given!r}.")
            del argv[index : index + 2]
        known = {action.dest for action in self._actions} | {"env"}
        in_file = [text for key, value in given.items() if key not in known for text in (f"--{key}", str(value))]
        return in_file + self.parse_known_args(argv)[1]

    @property
    def names(self) -> list[str]:
        """All names of arguments, with their hyphens."""
        return [text for action in self._actions for text in action.option_strings]

    def format_help(self) -> str:
        """The help page of one screen, a line for each argument: ours, then what most runs set of the others."""
        named = {action.dest: action for action in reversed(self._actions)}
        lines = [f"usage: {self.prog} [--config FILE.yaml] [--ARGUMENT VALUE ...]", ""]
        lines += [f"{'argument (--help-all shows all)':<33} default", *(_line(named[name]) for name in SHORT), ""]
        return "\n".join([*lines, *(_line(named[name]) for name in OFTEN), "", EXAMPLES])

    def format_help_all(self) -> str:
        """The page of all arguments: the calculator, what most runs set, then everything else by its origin."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, [])
        for title, actions in self._sections():
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _sections(self) -> list[tuple[str, list[argparse.Action]]]:
        """Every argument in one section."""
        own = [action for action in self._actions if action.dest.startswith("igc_")]
        own.sort(key=lambda action: action.dest not in _field_names(IGCArguments))
        left = [action for action in self._actions if action not in own]
        sections: list[tuple[str, list[Any]]] = [("the calculator", own)]
        for title, names in (
            ("most used", OFTEN),
            ("data (TRL)", _field_names(ScriptArguments) | _field_names(DatasetMixtureConfig)),
            ("model, LoRA, quantization (TRL)", _field_names(ModelConfig)),
        ):
            sections.append((title, [action for action in left if action.dest in names]))
            left = [action for action in left if action.dest not in names]
        return [*sections, ("training (TRL's SFTConfig, transformers' TrainingArguments)", left)]


def _line(action: argparse.Action) -> str:
    """An argument, the default in a run, and the first sentence about it, in one line."""
    about = (action.help or "").partition(OF_CONFIG)[2] or (action.help or "").partition(". ")[0]
    named = f"  --{action.dest:<29} {_default(action):<24} "
    return (named + textwrap.shorten(about.rstrip("."), WIDTH - ABOUT, placeholder=" ...")).rstrip()


def _field_names(kind: Any) -> set[str]:
    """Names of the fields of a dataclass."""
    return {field.name for field in dataclasses.fields(kind)}
