"""The command line, `peft-igc` or `python -m peft_igc`: the arguments of each command.

In: arguments. Out: text on the terminal, files, and the exit code: 0; 1 if the demo missed a target, if `sft` taught
nothing, or if `check` found an untrue calculation; 2 with one line on stderr for an error that the user can correct (a
missing folder, a malformed line); 130 after an interrupt. A defect of the package keeps its traceback.

Parsing only: `commands` has what runs. It imports torch when a command runs, so `--help`, `--version` and errors in
arguments take a fraction of a second (except in `sft`, whose arguments TRL parses).
"""

import argparse
import importlib
import logging as python_logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import commands


EXAMPLES = """\
examples:
  peft-igc demo --output demo-output
  peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens
  peft-igc trace --base tiny --adapter demo-output/adapter "What is 58 times 36?"
  peft-igc eval --base tiny --adapter demo-output/adapter --data items.jsonl --output results.json
  peft-igc check report.md invoices.csv answers.jsonl                  # untrue calculations; exit code 1
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Each sets `run`, a function from the arguments to the exit code."""
    parser = argparse.ArgumentParser(
        prog="peft-igc",
        description="An exact calculator inside the forward pass of a language model.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Imported by name: an `import` here would be one of the package's own face, which rooms do not use.
    version = importlib.import_module(__package__).__version__
    parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (run, text, options) in _COMMANDS.items():
        # TRL parses the arguments of `sft`: without prefix characters its parser takes each of them as a value.
        more: dict[str, Any] = {"prefix_chars": "\0", "add_help": False} if run is commands.sft else {}
        command = subparsers.add_parser(name, help=text, allow_abbrev=False, **more)
        command.set_defaults(run=run)
        for names, settings in options:
            if settings.get("default") not in (None, False, []):
                settings = {**settings, "help": f"{settings['help']} (default: %(default)s)"}
            command.add_argument(*names.split(), **settings)
    return parser


def _positive(text: str) -> int:
    """Argument type: an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 1")
    return int(text)


_Options = list[tuple[str, dict[str, Any]]]  # names, and the settings of `add_argument`


def _option(names: str, text: str, metavar: str | None = None, **settings: Any) -> tuple[str, dict[str, Any]]:
    return names, {"help": text, "metavar": metavar, **settings}


def _number(names: str, default: int | None, text: str) -> tuple[str, dict[str, Any]]:
    return _option(names, text, "N", type=_positive, default=default)


def _flag(name: str, text: str) -> tuple[str, dict[str, Any]]:
    return name, {"help": text, "action": "store_true"}


_DTYPES = ("auto", "float32", "bfloat16", "float16")
_BASE = _option("--base", 'folder, hub id, or "tiny" for the embedded base model', "DIR_OR_ID", required=True)
_DEVICE: _Options = [
    _option("--dtype", "dtype of the base model (default: that of its config; tiny: float32)", choices=_DTYPES),
    _option("--device", "such as `cpu` or `cuda:1` (default: `cuda` if there is one, else `cpu`)", "NAME"),
]
_ADAPTER = 'saved adapter, or "tiny" for that of the embedded base'
_MODEL: _Options = [_BASE, _option("--adapter", _ADAPTER, "DIR", required=True), *_DEVICE]
_DECODING: _Options = [
    _flag("--raw", "use prompts without the chat template"),
    _number("--max-new-tokens", 24, "tokens per answer"),
]
_DATA: _Options = [
    _option("--data", "JSON lines or CSV with `prompt`, `target`, optional `group`; also .gz", "FILE", required=True),
    *_DECODING,
    _number("--batch-size", 64, "prompts per batch"),
]
_COMMANDS: dict[str, tuple[Any, str, _Options]] = {
    "demo": (
        commands.demo,
        "train IGC on the embedded base model and evaluate it",
        [
            _option("--output", "folder to write", "DIR", default="demo-output"),
            _option(
                "--base", "`tiny`, `smollm2` (of `make demo-smollm2`), or a folder", "NAME_OR_DIR", default="tiny"
            ),
            _option("--seed", "seed of the training (default: 0)", "N", type=int, default=0),
            _option("--interface", "`hidden` is the paper's", choices=("tokens", "hidden"), default="tokens"),
            _option("--layer", "decoder layer; a deeper one understands more, and trains more slowly", "N", type=int),
            _option("--minutes", "end the reading's training after M minutes", "M", type=float),
            _number("--per-group", None, "test items per subtask (default: 200)"),
            _option("--device", "`cpu` or `cuda` (default: `cpu` for `tiny`, else `cuda` if there is one)", "NAME"),
        ],
    ),
    "sft": (commands.sft, "fine-tune with TRL, from a YAML file", [("arguments", {"nargs": "*"})]),
    "eval": (
        commands.evaluate,
        "exact match of generated answers on a JSONL or CSV file",
        [
            _BASE,
            _option("--adapter", f"{_ADAPTER}; without it the base is evaluated", "DIR"),
            *_DEVICE,
            *_DATA,
            _option("--output", "file for the results, as JSON", "FILE", required=True),
            _option("--predictions", "file for all answers, as JSON lines: `answer`, `right`, `cut`, `steps`", "FILE"),
        ],
    ),
    "audit": (
        commands.audit,
        "sort the wrong answers on a file by cause",
        [
            *_MODEL,
            *_DATA,
            _option("--output", "file for the counts and the examples, as JSON", "FILE"),
            _option("--html", "file for one page with all of it, without scripts and network", "FILE"),
            _option("--examples", "wrong answers shown per cause", "N", type=_positive, default=5),
        ],
    ),
    "trace": (
        commands.trace,
        "show the calculator's part in the answers to prompts",
        [
            *_MODEL,
            *_DECODING,
            _option("prompt", 'user messages, such as "What is 58 times 36?"', nargs="*"),
            _option("--prompts", "more of them: one per line, or JSON lines with `prompt`", "FILE"),
            _option("--html", "write the traces as one page; it contains the prompts", "FILE"),
            _option("--json", "write the traces as JSON lines; without FILE print them", "FILE", nargs="?", const="-"),
        ],
    ),
    "chat": (
        commands.chat,
        "talk to the model, with every step under its line",
        [*_MODEL, _number("--max-new-tokens", 256, "tokens per answer")],
    ),
    "profile": (
        commands.profile,
        "show how a tokenizer splits numbers and which interface suits it",
        [
            _option("tokenizer", 'folder, hub id, or "tiny" for the embedded base', "TOKENIZER"),
            _option("--anchors", 'also show which tokens end in a text, such as "="', "TEXT", nargs="+", default=[]),
            _flag("--json", "print the profile as JSON"),
        ],
    ),
    "calibrate": (
        commands.calibrate,
        "fit the confidence of an adapter to texts of yours",
        [
            *_MODEL,
            _option(
                "--data", "JSON lines with `prompt` and `target` (null: silence); also .gz", "FILE", required=True
            ),
            _option("--wrong", "share of the texts that may be answered wrongly", "SHARE", type=float, default=0.01),
            _option("--least", "smallest `confidence` that may be chosen (default: 0)", "P", type=float, default=0.0),
        ],
    ),
    "annotate": (
        commands.annotate,
        "add operand columns to training rows, using a model",
        [
            _option("--model", 'folder, hub id, or "tiny" for the embedded base model', "DIR_OR_ID", required=True),
            _option("--data", "one row per line: `prompt` and `completion`, or `messages`", "FILE", required=True),
            _option("--output", "file for the rows, as JSONL; the report is next to it", "FILE", required=True),
            _option("--margin", "nats per token by which a result lowers the loss", "NATS", type=float, default=1.0),
            _option("--max-numbers", "pair the last N numbers of a prompt", "N", type=int, default=4),
            _option("--num-digits", "maximum digits of operands and results", "D", type=int, default=10),
            _number("--batch-size", 32, "texts per forward pass"),
        ],
    ),
    "check": (
        commands.check,
        "find untrue calculations in finished texts; needs no model",
        [
            _option("files", "text, Markdown, JSONL or CSV, also with .gz", "FILE", nargs="+"),
            _flag("--all", "show true calculations and those not understood, too"),
            _flag("--json", "print every calculation as a JSON line"),
        ],
    ),
    "convert": (
        commands.convert,
        "change saved adapters of earlier versions to the present format",
        [
            _option("adapters", "folder of an adapter, which is changed in place", "DIR", nargs="+"),
            _option("--tokenizer", 'its tokenizer: folder, hub id, or "tiny"', "NAME"),
        ],
    ),
    "autoload": (
        commands.autoload,
        "whether PEFT finds the method without `import peft_igc`",
        [_option("state", "on: a file in site-packages imports it in every process", choices=("on", "off", "status"))],
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command, by default that of the process's arguments, and returns the exit code."""
    arguments = build_parser().parse_args(argv)
    if arguments.run is commands.demo:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the demo needs no hub; read when its client is imported
    # Messages of other packages that are meant for developers.
    warnings.simplefilter("ignore", FutureWarning)
    python_logging.getLogger("bitsandbytes").setLevel(python_logging.ERROR)  # PEFT 0.21 imports it if installed
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as error:  # that of `sft` says how to go on
        print(str(error) or "Interrupted: results are written at the end only.", file=sys.stderr)
        return int(getattr(error, "code", 130))
    except BrokenPipeError:  # of `| head`; what is left must not be written at the end of the process either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as in shells
    except (ValueError, OSError) as error:
        # For users are errors about a file, and the package's own checks: the last frame is where one was raised.
        raised = Path(traceback.extract_tb(error.__traceback__)[-1].filename).resolve()
        if not isinstance(error, OSError) and not raised.is_relative_to(Path(__file__).resolve().parent):
            raise
        print(f"peft-igc: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
