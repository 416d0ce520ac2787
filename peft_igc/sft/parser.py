"""`SFTParser`: TRL's argument parser, with a help page that begins with the calculator and with early refusals.

In: a command line. Out: what `TrlParser` returns. Unknown arguments are looked for before any value is checked:
`TrainingArguments` looks at the machine in its `__post_init__`, and its message about a missing GPU would come first.
Try it: `peft-igc sft --help`, `pytest tests/sft/test_parser.py`
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, TrlParser

from ..trainer.config import IGCSFTConfig
from ..tuner.config import IGCConfig
from ..tuner.config_values import SIZES
from .arguments import ASSISTANT_HEADER, IGCArguments


__all__ = ["SFTParser"]

TYPES = (ScriptArguments, IGCSFTConfig, ModelConfig, DatasetMixtureConfig, IGCArguments)
# Arguments of TRL and transformers that almost every run sets; they come before the hundred others.
OFTEN = (
    "model_name_or_path output_dir dataset_name eval_strategy max_steps num_train_epochs learning_rate "
    "per_device_train_batch_size gradient_accumulation_steps max_length seed bf16 use_cpu save_steps "
    "resume_from_checkpoint enable_jit_checkpoint report_to"
).split()
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


def _default(action: argparse.Action) -> str:
    """The default of an argument as text; empty for None, of which the help text tells the meaning."""
    name = action.dest.removeprefix("igc_")
    fields = {f.name: f for f in dataclasses.fields(IGCConfig)}
    if action.default is not None or not action.dest.startswith("igc_"):
        return "" if action.default is None else str(action.default)
    if name == "anchors":
        return ASSISTANT_HEADER
    if name in SIZES["tokens"] or name in SIZES["hidden"]:
        held = {interface: sizes[name] for interface, sizes in reversed(SIZES.items()) if name in sizes}
        return ", ".join(f"{size} ({interface})" for interface, size in held.items())
    if name not in fields:
        return ""
    field = fields[name]
    value = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
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
        """The help page: the calculator, what most runs set, then everything else by its origin."""
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


def _field_names(kind: Any) -> set[str]:
    """Names of the fields of a dataclass."""
    return {field.name for field in dataclasses.fields(kind)}
