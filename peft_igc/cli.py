"""The command line: `peft-igc demo`, `sft`, `eval`, `trace`, `profile`, `annotate`; as `python -m peft_igc.cli`.

In: arguments. Out: text on the terminal and files; exit code 0, 1 if the demo missed a target, 2 with one line on
stderr where a user can help (a missing folder, a malformed line), 130 after an interrupt. A defect of the package
keeps its traceback.
Parsing only: the work is in `demo`, `sft`, `evaluation`, `tracing`, `profile` and `self_annotation`, which the
commands import when they run: `--help` and errors in arguments need no trainer (`sft` does: all its arguments are
TRL's to parse). Try it: `peft-igc trace --help`; tests: `pytest tests/test_cli.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging as python_logging
import os
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any


__all__ = ["build_parser", "main"]

EXAMPLES = """\
examples:
  peft-igc demo --output demo-output
  peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens
  peft-igc trace --base tiny --adapter demo-output/adapter "What is 58 times 36?"
  peft-igc eval --base tiny --adapter demo-output/adapter --data items.jsonl --output results.json
  peft-igc eval --base tiny --data items.jsonl --output base.json      # the base model alone
  peft-igc profile tiny                                                # how a tokenizer splits numbers
  peft-igc profile tiny --anchors "="                                  # and where texts are anchors
  peft-igc annotate --model tiny --data rows.jsonl --output annotated.jsonl
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each sets `run`, a function that takes the arguments and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="peft-igc",
        description="An exact calculator inside the forward pass of a language model.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="train IGC on the embedded base model and evaluate it")
    demo.add_argument("--output", default="demo-output", metavar="DIR", help="folder to write (default: %(default)s)")
    demo.add_argument("--seed", type=int, default=0, metavar="N", help="of the training (default: %(default)s)")
    demo.add_argument(
        "--interface",
        choices=("tokens", "hidden"),
        default="tokens",
        help="how numbers pass between text and calculator; `hidden` is the paper's (default: %(default)s)",
    )
    demo.add_argument("--minutes", type=float, metavar="CAP", help="stop the training early after so long")
    demo.add_argument("--per-group", type=_positive, metavar="N", help="test items per subtask (default: 200)")
    demo.set_defaults(run=_demo)

    # All that follows is TRL's to parse: without prefix characters every argument is a value to this parser.
    sft = commands.add_parser("sft", help="fine-tune with TRL, from a YAML file", prefix_chars="\0", add_help=False)
    sft.add_argument("arguments", nargs="*")
    sft.set_defaults(run=_sft)

    evaluate = commands.add_parser("eval", help="exact match of generated answers on a JSONL file")
    _add_model(evaluate, adapter_required=False)
    evaluate.add_argument(
        "--data", required=True, metavar="FILE", help="one object per line: `prompt`, `target`, optional `group`"
    )
    evaluate.add_argument("--output", required=True, metavar="FILE", help="results as JSON")
    evaluate.add_argument("--raw", action="store_true", help="use prompts as they stand, without chat template")
    evaluate.add_argument("--batch-size", type=_positive, default=64, metavar="N", help="(default: %(default)s)")
    evaluate.add_argument("--max-new-tokens", type=_positive, default=24, metavar="N", help="(default: %(default)s)")
    evaluate.set_defaults(run=_evaluate)

    trace = commands.add_parser("trace", help="show what the calculator reads and writes for one prompt")
    _add_model(trace, adapter_required=True)
    trace.add_argument("prompt", help='such as "What is 58 times 36?"')
    trace.add_argument("--raw", action="store_true", help="use the prompt as it stands, without chat template")
    trace.add_argument("--max-new-tokens", type=_positive, default=24, metavar="N", help="(default: %(default)s)")
    trace.add_argument("--json", action="store_true", help="print JSON")
    trace.set_defaults(run=_trace)

    profile = commands.add_parser("profile", help="show how a tokenizer splits numbers, and which interface suits it")
    profile.add_argument("tokenizer", metavar="TOKENIZER", help='folder, hub id, or "tiny" for the embedded base')
    profile.add_argument(
        "--anchors", nargs="+", default=[], metavar="TEXT", help='also show where anchor rules hold, such as "="'
    )
    profile.add_argument("--json", action="store_true", help="print JSON")
    profile.set_defaults(run=_profile)
    _add_annotate(commands.add_parser("annotate", help="operand columns for training rows, found by a model itself"))
    return parser


def _add_annotate(annotate: argparse.ArgumentParser) -> None:
    """The arguments of `peft-igc annotate`; the defaults are those of `self_annotation.Settings`."""
    annotate.add_argument(
        "--model", required=True, metavar="DIR_OR_ID", help='folder, hub id, or "tiny" for the embedded base model'
    )
    annotate.add_argument(
        "--data", required=True, metavar="FILE", help="one row per line: `prompt` and `completion`, or `messages`"
    )
    annotate.add_argument("--output", required=True, metavar="FILE", help="rows as JSONL; a report comes beside it")
    options: dict[str, tuple[Any, str, str]] = {
        "--margin": (float, "NATS", "per token by which a result has to lower the answer's loss (default: 1.0)"),
        "--max-numbers": (int, "N", "last numbers of a prompt to pair; 0: none (default: 4)"),
        "--proposals": (int, "K", "calculations to ask of the model itself for each row (default: 0)"),
        "--num-digits": (int, "D", "longest operand and result, as the adapter's (default: 10)"),
        "--batch-size": (_positive, "N", "(default: 32)"),
        "--seed": (int, "N", "of the rows that the report shows (default: 0)"),
    }
    for name, (kind, metavar, text) in options.items():
        annotate.add_argument(name, type=kind, default=argparse.SUPPRESS, metavar=metavar, help=text)
    annotate.add_argument(
        "--check", action="store_true", help="the rows have operand columns: hide them, then compare with them"
    )
    annotate.set_defaults(run=_annotate)


def _add_model(parser: argparse.ArgumentParser, adapter_required: bool) -> None:
    """The arguments that name a model."""
    parser.add_argument(
        "--base", required=True, metavar="DIR_OR_ID", help='folder, hub id, or "tiny" for the embedded base model'
    )
    left_out = "" if adapter_required else "; without it the base model alone is evaluated"
    parser.add_argument("--adapter", required=adapter_required, metavar="DIR", help=f"saved adapter{left_out}")


def _positive(text: str) -> int:
    """An integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 1")
    return int(text)


def _demo(arguments: argparse.Namespace) -> int:
    """`peft-igc demo`."""
    _need_training_packages()
    from .demo import run_demo
    from .demo_settings import SETTINGS

    changes = {} if arguments.per_group is None else {"per_group": arguments.per_group}
    outcome = run_demo(
        arguments.output,
        seed=arguments.seed,
        minutes=arguments.minutes,
        settings=dataclasses.replace(SETTINGS[arguments.interface], **changes),
        say=_say,
    )
    _say(f"\nExact match of whole answers, per cent:\n\n{outcome.table}\n")
    if outcome.missed:
        _say("Targets missed:\n" + "\n".join(f"  {sentence}" for sentence in outcome.missed))
    else:
        _say("All targets are reached.")
    files = ", ".join(f"`{outcome.folder / name}`" for name in ("results.json", "learning_curve.png", "adapter"))
    _say(f"Written: {files}")
    _say(f'Now try: peft-igc trace --base tiny --adapter {outcome.folder / "adapter"} "What is 58 times 36?"')
    return 1 if outcome.missed and not outcome.results["training"]["stopped_early"] else 0


def _sft(arguments: argparse.Namespace) -> int:
    """`peft-igc sft`."""
    _need_training_packages()
    from .sft import run

    return run(arguments.arguments, prog="peft-igc sft")


def _need_training_packages() -> None:
    """Refuses before anything is loaded, if what only training needs is not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("trl", "datasets", "accelerate", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ValueError(f"`{'`, `'.join(missing)}` is not installed. Run `pip install 'peft-igc[train]'`.")


def _evaluate(arguments: argparse.Namespace) -> int:
    """`peft-igc eval`."""
    from .data import read_jsonl
    from .evaluation import evaluate

    output = Path(arguments.output)
    _check_output(output)
    items = read_jsonl(arguments.data)
    model, tokenizer = _load(arguments)
    report = evaluate(
        model,
        tokenizer,
        items,
        batch_size=arguments.batch_size,
        max_new_tokens=arguments.max_new_tokens,
        raw=arguments.raw,
        progress=_Counter(),
    )
    names = {"base": arguments.base, "adapter": arguments.adapter, "data": arguments.data}
    output.write_text(json.dumps(report | names, indent=2) + "\n", encoding="utf-8")
    _say(f"{report['exact_match']:.2%} of {report['n']:,} answers are exactly right.")
    for group, score in sorted(report["groups"].items()):
        _say(f"  {group}: {score['exact_match']:.2%} of {score['n']:,}")
    if report["truncated"]:
        _say(f"{report['truncated']:,} answers were cut: they had not ended after {arguments.max_new_tokens} tokens.")
    if report["without_anchor"]:
        _say(
            f"{report['without_anchor']:,} prompts have no anchor, so the calculator had no part in their answers. "
            "The adapter anchors on token sequences, such as the assistant header of the chat template: leave out "
            "`--raw`, or write them."
        )
    _say(f"Written: `{output}`")
    return 0


def _trace(arguments: argparse.Namespace) -> int:
    """`peft-igc trace`."""
    from .tracing import trace

    model, tokenizer = _load(arguments)
    found = trace(model, tokenizer, arguments.prompt, raw=arguments.raw, max_new_tokens=arguments.max_new_tokens)
    _say(json.dumps(found.as_dict(), indent=2) if arguments.json else found.format())
    return 0


def _profile(arguments: argparse.Namespace) -> int:
    """`peft-igc profile`."""
    from transformers import AutoTokenizer

    from .profile import TokenizerProfile

    name = arguments.tokenizer
    folder = Path(__file__).parent / "tiny_base" if name == "tiny" else Path(name).expanduser()
    if folder.is_dir() and not any((folder / file).is_file() for file in ("tokenizer_config.json", "tokenizer.json")):
        raise FileNotFoundError(f"The folder `{name}` holds no `tokenizer_config.json`. Pass a tokenizer's folder.")
    if not folder.is_dir() and (folder.exists() or name[:1] in "./~" or name.count("/") > 1):
        raise FileNotFoundError(f'`{name}` is no folder. Pass the folder of a tokenizer, a hub id, or "tiny".')
    tokenizer = AutoTokenizer.from_pretrained(folder if folder.is_dir() else name)
    profile = dataclasses.replace(TokenizerProfile.from_tokenizer(tokenizer, arguments.anchors), name=name)
    _say(json.dumps(profile.as_dict(), indent=2, ensure_ascii=False) if arguments.json else profile.report())
    return 0


def _annotate(arguments: argparse.Namespace) -> int:
    """`peft-igc annotate`."""
    import torch

    from .data import read_rows
    from .loading import load_base
    from .self_annotation import Settings, annotate, report_path, write

    output = Path(arguments.output)
    _check_output(output)
    names = [field.name for field in dataclasses.fields(Settings)]
    settings = Settings(**{name: getattr(arguments, name) for name in names if hasattr(arguments, name)})
    rows = read_rows(arguments.data)
    model, tokenizer = load_base(arguments.model)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    annotated = annotate(rows, model, tokenizer, settings, check=arguments.check, progress=_Counter())
    facts = {"model": arguments.model, "data": arguments.data, "settings": dataclasses.asdict(settings)}
    write(annotated, output, facts)
    _say(annotated.report.format())
    _say(f"Written: `{output}`, `{report_path(output)}`")
    return 0


def _load(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The model that the arguments name, on an accelerator if there is one, and its tokenizer."""
    import torch

    from .adapters import check_folder, load_adapter
    from .loading import load_base

    if arguments.adapter is not None:
        check_folder(arguments.adapter)  # before a large base is loaded
    model, tokenizer = load_base(arguments.base)
    if arguments.adapter is not None:
        model = load_adapter(model, arguments.adapter)
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def _check_output(path: Path) -> None:
    """Refuses a file that could not be written, before the work is done."""
    if path.is_dir():
        raise ValueError(f"`--output {path}` is a folder. Pass the name of a file, such as `{path / 'results.json'}`.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder `{path.parent}` of `--output {path}` does not exist. Make it first.")


class _Counter:
    """Prompts or rows done and the time left, on one line of a terminal; silent where nobody watches."""

    def __init__(self) -> None:
        self.begin = time.perf_counter()

    def __call__(self, done: int, total: int) -> None:
        from .progress import duration

        if sys.stderr.isatty():
            left = duration((time.perf_counter() - self.begin) / done * (total - done))
            end = "\n" if done == total else ""
            print(f"\r{done:,}/{total:,}  {left} left   ", end=end, file=sys.stderr, flush=True)


def _say(text: str) -> None:
    """A line on the terminal at once, also through a pipe."""
    print(text, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        argv: Arguments without the program's name. None: those of the process.

    Returns:
        The exit code.
    """
    arguments = build_parser().parse_args(argv)
    if arguments.run is _demo:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the hub's client is imported; the demo needs no hub
    _quieten()
    try:
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        print("Interrupted: results are written at the end only.", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        if not _is_for_users(error):
            raise
        print(f"peft-igc: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def _quieten() -> None:
    """Keeps messages for developers of other packages out of the way."""
    from transformers.utils import logging

    warnings.simplefilter("ignore", FutureWarning)
    python_logging.getLogger("bitsandbytes").setLevel(python_logging.ERROR)  # PEFT imports it wherever it is installed
    logging.disable_progress_bar()


def _is_for_users(error: Exception) -> bool:
    """Whether an error was written for users: about a file, or raised by this package on purpose."""
    if isinstance(error, OSError):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return Path(frames[-1].filename).resolve().parent == Path(__file__).resolve().parent


if __name__ == "__main__":
    sys.exit(main())
