"""The command line: `peft-igc demo`, `sft`, `eval`, `audit`, `trace`, `chat`, `calibrate`, `profile`, `annotate`,
`check`, `convert`, `autoload`.

The program is `peft-igc`, or `python -m peft_igc`.

In: arguments. Out: text on the terminal, files, and the exit code: 0; 1 if the demo missed a target, if `sft` taught
nothing, or if `check` found an untrue calculation; 2 with one line on stderr for an error that the user can correct (a
missing folder, a malformed line); 130 after an interrupt. A defect of the package keeps its traceback.

Parsing only: `commands` has what runs. It imports torch when a command runs, so `--help`, `--version` and errors in
arguments take a fraction of a second (except in `sft`, whose arguments TRL parses).

Try it: `peft-igc trace --help`, `pytest tests/test_cli.py`
"""

from __future__ import annotations

import argparse
import importlib
import logging as python_logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import commands


__all__ = ["build_parser", "in_options", "main", "without_rank"]

EXAMPLES = """\
examples:
  peft-igc demo --output demo-output
  peft-igc demo --base smollm2 --output build/smollm2                  # a real model; see `make demo-smollm2`
  peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens
  peft-igc trace --base tiny --adapter demo-output/adapter "What is 58 times 36?"
  peft-igc trace --base tiny --adapter demo-output/adapter --prompts prompts.txt --html trace.html
  peft-igc chat --base tiny --adapter demo-output/adapter
  peft-igc eval --base tiny --adapter demo-output/adapter --data items.jsonl --output results.json
  peft-igc eval --base tiny --data items.jsonl --output base.json      # the base model alone
  peft-igc audit --base tiny --adapter tiny --data items.jsonl --html audit.html  # why answers are wrong
  peft-igc profile tiny                                                # how a tokenizer splits numbers
  peft-igc profile tiny --anchors "="                                  # and which tokens end in "="
  peft-igc calibrate --base tiny --adapter demo-output/adapter --data items.jsonl
  peft-igc annotate --model tiny --data rows.jsonl --output annotated.jsonl
  peft-igc check report.md invoices.csv answers.jsonl                  # untrue calculations; exit code 1
  peft-igc convert old-adapter --tokenizer tiny                        # an adapter of version 0.1 or 0.2
  peft-igc autoload on                                                 # PEFT finds the method without an import
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

    _add_demo(subparsers.add_parser("demo", help="train IGC on the embedded base model and evaluate it"))

    # TRL parses the arguments of `sft`: without prefix characters this parser takes each of them as a value.
    sft = subparsers.add_parser("sft", help="fine-tune with TRL, from a YAML file", prefix_chars="\0", add_help=False)
    sft.add_argument("arguments", nargs="*")
    sft.set_defaults(run=commands.sft)

    _add_evaluate(subparsers.add_parser("eval", help="exact match of generated answers on a JSONL or CSV file"))
    _add_audit(subparsers.add_parser("audit", help="sort the wrong answers on a file by cause"))
    _add_trace(subparsers.add_parser("trace", help="show the calculator's part in the answers to prompts"))
    chat = subparsers.add_parser("chat", help="talk to the model, with every step in the margin")
    _add_model(chat, adapter_required=True)
    chat.add_argument(
        "--max-new-tokens", type=_positive, default=256, metavar="N", help="tokens per answer (default: %(default)s)"
    )
    chat.set_defaults(run=commands.chat)

    profile = subparsers.add_parser("profile", help="show how a tokenizer splits numbers and which interface suits it")
    profile.add_argument("tokenizer", metavar="TOKENIZER", help='folder, hub id, or "tiny" for the embedded base')
    profile.add_argument(
        "--anchors", nargs="+", default=[], metavar="TEXT", help='also show which tokens end in a text, such as "="'
    )
    profile.add_argument("--json", action="store_true", help="print the profile as JSON")
    profile.set_defaults(run=commands.profile)
    _add_calibrate(subparsers.add_parser("calibrate", help="fit the confidence of an adapter to texts of yours"))
    _add_annotate(subparsers.add_parser("annotate", help="add operand columns to training rows, using a model"))
    check = subparsers.add_parser("check", help="find untrue calculations in finished texts; needs no model")
    check.add_argument("files", nargs="+", metavar="FILE", help="text, Markdown, JSONL or CSV, also with .gz")
    check.add_argument("--all", action="store_true", help="show true calculations and those not understood, too")
    check.add_argument("--json", action="store_true", help="print every calculation as a JSON line")
    check.set_defaults(run=commands.check)
    convert = subparsers.add_parser("convert", help="change saved adapters of earlier versions to the present format")
    convert.add_argument("adapters", nargs="+", metavar="DIR", help="folder of an adapter, which is changed in place")
    convert.add_argument("--tokenizer", metavar="NAME", help='its tokenizer: folder, hub id, or "tiny"')
    convert.set_defaults(run=commands.convert)
    autoload = subparsers.add_parser("autoload", help="whether PEFT finds the method without `import peft_igc`")
    autoload.add_argument(
        "state",
        choices=("on", "off", "status"),
        help="on: a file in the site-packages of this environment makes every Python process import the package when "
        "it starts; off: that file is removed; status: whether it is there",
    )
    autoload.set_defaults(run=commands.autoload)
    return parser


def _add_demo(demo: argparse.ArgumentParser) -> None:
    """Adds the arguments of `peft-igc demo`."""
    demo.add_argument("--output", default="demo-output", metavar="DIR", help="folder to write (default: %(default)s)")
    demo.add_argument(
        "--base",
        default="tiny",
        metavar="NAME_OR_DIR",
        help="`tiny` (embedded), `smollm2` (fetched by `make demo-smollm2`), or a folder with a causal LM",
    )
    demo.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the training (default: %(default)s)")
    demo.add_argument(
        "--interface",
        choices=("tokens", "hidden"),
        default="tokens",
        help="how numbers pass between text and calculator; `hidden` is the paper's (default: %(default)s)",
    )
    demo.add_argument(
        "--layer",
        type=int,
        metavar="N",
        help="decoder layer after which the calculator reads and writes (default: 1). A deeper one understands texts "
        "better, and is trained more slowly",
    )
    demo.add_argument("--minutes", type=float, metavar="M", help="end the reading's training after M minutes")
    demo.add_argument("--per-group", type=_positive, metavar="N", help="test items per subtask (default: 200)")
    demo.add_argument(
        "--device",
        metavar="NAME",
        help="`cpu` or `cuda` (default: `cpu` for `tiny`, else `cuda` if there is one)",
    )
    demo.set_defaults(run=commands.demo)


def _add_evaluate(evaluate: argparse.ArgumentParser) -> None:
    """Adds the arguments of `peft-igc eval`."""
    _add_model(evaluate, adapter_required=False)
    _add_data(evaluate)
    evaluate.add_argument("--output", required=True, metavar="FILE", help="file for the results, as JSON")
    evaluate.add_argument(
        "--predictions", metavar="FILE", help="file for every answer, as JSON lines: `answer`, `right`, `cut`, `steps`"
    )
    _add_decoding(evaluate)
    _add_batch_size(evaluate)
    evaluate.set_defaults(run=commands.evaluate)


def _add_audit(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `peft-igc audit`."""
    _add_model(parser, adapter_required=True)
    _add_data(parser)
    parser.add_argument("--output", metavar="FILE", help="file for the counts and the examples, as JSON")
    parser.add_argument("--html", metavar="FILE", help="file for one page with all of it, without scripts and network")
    parser.add_argument(
        "--examples", type=int, default=5, metavar="N", help="wrong answers shown per cause (default: %(default)s)"
    )
    _add_decoding(parser)
    _add_batch_size(parser)
    parser.set_defaults(run=commands.audit)


def _add_data(parser: argparse.ArgumentParser) -> None:
    """Adds the argument that names the items."""
    parser.add_argument(
        "--data",
        required=True,
        metavar="FILE",
        help="JSON lines or, if it ends in .csv, CSV, with `prompt`, `target`, optional `group`; also .gz",
    )


def _add_batch_size(parser: argparse.ArgumentParser) -> None:
    """Adds the number of prompts per batch."""
    parser.add_argument(
        "--batch-size", type=_positive, default=64, metavar="N", help="prompts per batch (default: %(default)s)"
    )


def _add_trace(trace: argparse.ArgumentParser) -> None:
    """Adds the arguments of `peft-igc trace`."""
    _add_model(trace, adapter_required=True)
    trace.add_argument("prompt", nargs="*", help='user messages, such as "What is 58 times 36?"')
    trace.add_argument("--prompts", metavar="FILE", help="more of them: one per line, or JSON lines with `prompt`")
    _add_decoding(trace)
    trace.add_argument("--html", metavar="FILE", help="write the traces as one page; it contains the prompts")
    trace.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write the traces as JSON lines; without FILE print them"
    )
    trace.set_defaults(run=commands.trace)


def _add_calibrate(calibrate: argparse.ArgumentParser) -> None:
    """Adds the arguments of `peft-igc calibrate`."""
    _add_model(calibrate, adapter_required=True)
    calibrate.add_argument(
        "--data",
        required=True,
        metavar="FILE",
        help="JSON lines with `prompt` and `target`, which is null where the calculator should be silent; also .gz",
    )
    calibrate.add_argument(
        "--wrong",
        type=float,
        default=0.01,
        metavar="SHARE",
        help="share of the texts that may be answered wrongly (default: %(default)s)",
    )
    calibrate.add_argument(
        "--least",
        type=float,
        default=0.0,
        metavar="P",
        help="smallest `confidence` that may be chosen (default: %(default)s)",
    )
    calibrate.set_defaults(run=commands.calibrate)


def _add_annotate(annotate: argparse.ArgumentParser) -> None:
    """Adds the arguments of `peft-igc annotate`, whose defaults are those of `self_annotation.Settings`."""
    annotate.add_argument(
        "--model", required=True, metavar="DIR_OR_ID", help='folder, hub id, or "tiny" for the embedded base model'
    )
    annotate.add_argument(
        "--data", required=True, metavar="FILE", help="one row per line: `prompt` and `completion`, or `messages`"
    )
    annotate.add_argument(
        "--output", required=True, metavar="FILE", help="file for the rows, as JSONL; the report is written next to it"
    )
    options: dict[str, tuple[Any, str, str]] = {
        "--margin": (float, "NATS", "nats per token by which a result must lower the answer's loss (default: 1.0)"),
        "--max-numbers": (int, "N", "pair the last N numbers of a prompt; 0: none (default: 4)"),
        "--proposals": (int, "K", "calculations per row that the model proposes (default: 0)"),
        "--num-digits": (int, "D", "maximum digits of operands and results, as in the adapter (default: 10)"),
        "--batch-size": (_positive, "N", "texts per forward pass (default: 32)"),
        "--seed": (int, "N", "seed for the example rows of the report (default: 0)"),
    }
    for name, (kind, metavar, text) in options.items():
        annotate.add_argument(name, type=kind, metavar=metavar, help=text)
    annotate.add_argument(
        "--check", action="store_true", help="hide the rows' own operand columns, and compare the found ones with them"
    )
    annotate.set_defaults(run=commands.annotate)


def _add_model(parser: argparse.ArgumentParser, adapter_required: bool) -> None:
    """Adds the arguments that name the model and the adapter."""
    parser.add_argument(
        "--base", required=True, metavar="DIR_OR_ID", help='folder, hub id, or "tiny" for the embedded base model'
    )
    left_out = "" if adapter_required else "; without it the base model alone is evaluated"
    parser.add_argument(
        "--adapter",
        required=adapter_required,
        metavar="DIR",
        help=f'saved adapter, or "tiny" for the trained one of the embedded base{left_out}',
    )
    parser.add_argument(
        "--dtype",
        choices=("auto", "float32", "bfloat16", "float16"),
        help="dtype of the base model (default: that of its config; tiny: float32)",
    )
    parser.add_argument(
        "--device", metavar="NAME", help="such as `cpu` or `cuda:1` (default: `cuda` if there is one, else `cpu`)"
    )


def _add_decoding(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that control how prompts are tokenized and answered."""
    parser.add_argument("--raw", action="store_true", help="use prompts without the chat template")
    parser.add_argument(
        "--max-new-tokens", type=_positive, default=24, metavar="N", help="tokens per answer (default: %(default)s)"
    )


def _positive(text: str) -> int:
    """Argument type: an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 1")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        argv: arguments without the program's name. None: those of the process.

    Returns:
        The exit code.
    """
    arguments = build_parser().parse_args(argv)
    if arguments.run is commands.demo:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the demo needs no hub; read when its client is imported
    _quieten()
    try:
        return int(arguments.run(arguments))
    except KeyboardInterrupt as error:  # that of `sft` says how to go on
        print(str(error) or "Interrupted: results are written at the end only.", file=sys.stderr)
        return int(getattr(error, "code", 130))
    except (ValueError, OSError) as error:
        if not _is_for_users(error):
            raise
        print(f"peft-igc: error: {in_options(' '.join(str(error).split()), arguments)}", file=sys.stderr)
        return 2


def in_options(text: str, arguments: argparse.Namespace) -> str:
    """An error message with the options of a command in place of the package's own names.

    `max_new_tokens=9` becomes `--max-new-tokens 9`, and `IGCConfig(layer=...)` becomes `--layer`. A name alone is
    replaced only if it has an underscore: others, such as `base`, mean more than an option.

    Args:
        text: the message.
        arguments: those of the command.
    """
    options = {name: f"--{name.replace('_', '-')}" for name in vars(arguments)}
    if arguments.run is commands.sft:
        options = commands.sft_options()
    if arguments.run is commands.demo:  # it sets the arguments of a recipe
        options |= {f"igc_{name}": option for name, option in options.items()}

    def option(match: re.Match[str]) -> str:
        name, value = match["inner"] or match["name"], match["given"] or match["value"]
        if name not in options or (value is None and "_" not in name):
            return match[0]
        plain = value in (None, "...") or (value == "True" and getattr(arguments, name, None) in (True, False))
        return f"`{options[name]}`" if plain else f"`{options[name]} {value}`"

    setting = r"IGC\w*Config\((?P<inner>\w+)=(?P<given>[^`]*)\)"
    return re.sub(rf"`(?:{setting}|(?P<name>\w+)(?:=(?P<value>[^`]*))?)`", option, text)


def without_rank(record: python_logging.LogRecord) -> bool:
    """Logging filter: accelerate (1.15) prefixes `[RANK 0]`, which tells nothing where there is one process."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        record.msg = str(record.msg).removeprefix("[RANK 0] ")
    return True


def _quieten() -> None:
    """Silences messages of other packages that are meant for developers."""
    for handler in (*python_logging.getLogger().handlers, python_logging.lastResort):
        if handler is not None:
            handler.addFilter(without_rank)
    warnings.simplefilter("ignore", FutureWarning)
    python_logging.getLogger("bitsandbytes").setLevel(python_logging.ERROR)  # PEFT 0.21 imports it if installed
    from transformers.utils import logging

    logging.disable_progress_bar()


def _is_for_users(error: Exception) -> bool:
    """Whether an error is meant for users: about a file, or raised by code of this package."""
    if isinstance(error, OSError):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    # The last frame is where the error was raised: this folder has the package's own checks.
    return Path(frames[-1].filename).resolve().is_relative_to(Path(__file__).resolve().parent)


if __name__ == "__main__":
    sys.exit(main())
