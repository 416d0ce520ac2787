"""The command line: `peft-igc demo`, `sft`, `eval`, `audit`, `trace`, `chat`, `calibrate`, `profile`, `annotate`.

The program is `peft-igc`, or `python -m peft_igc`.

In: arguments. Out: text on the terminal, files, and the exit code: 0; 1 if the demo missed a target, or if `sft`
taught nothing; 2 with one line on stderr for an error that the user can correct (a missing folder, a malformed line);
130 after an interrupt. A defect of the package keeps its traceback.

Parsing only: the work is in `demo`, `sft`, `inference`, `numbers` and `annotation`. Commands import them, and torch,
when they run, so `--help`, `--version` and errors in arguments take a fraction of a second (except in `sft`, whose
arguments TRL parses).

Try it: `peft-igc trace --help`, `pytest tests/test_cli.py`
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import logging as python_logging
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


__all__ = ["build_parser", "main"]

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
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="train IGC on the embedded base model and evaluate it")
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
    demo.add_argument("--minutes", type=float, metavar="M", help="stop the training after M minutes")
    demo.add_argument("--per-group", type=_positive, metavar="N", help="test items per subtask (default: 200)")
    demo.set_defaults(run=_demo)

    # TRL parses the arguments of `sft`: without prefix characters this parser takes each of them as a value.
    sft = commands.add_parser("sft", help="fine-tune with TRL, from a YAML file", prefix_chars="\0", add_help=False)
    sft.add_argument("arguments", nargs="*")
    sft.set_defaults(run=_sft)

    _add_evaluate(commands.add_parser("eval", help="exact match of generated answers on a JSONL or CSV file"))
    _add_audit(commands.add_parser("audit", help="sort the wrong answers on a file by cause"))
    _add_trace(commands.add_parser("trace", help="show the calculator's part in the answers to prompts"))
    chat = commands.add_parser("chat", help="talk to the model, with every step in the margin")
    _add_model(chat, adapter_required=True)
    chat.add_argument(
        "--max-new-tokens", type=_positive, default=256, metavar="N", help="tokens per answer (default: %(default)s)"
    )
    chat.set_defaults(run=_chat)

    profile = commands.add_parser("profile", help="show how a tokenizer splits numbers and which interface suits it")
    profile.add_argument("tokenizer", metavar="TOKENIZER", help='folder, hub id, or "tiny" for the embedded base')
    profile.add_argument(
        "--anchors", nargs="+", default=[], metavar="TEXT", help='also show which tokens end in a text, such as "="'
    )
    profile.add_argument("--json", action="store_true", help="print the profile as JSON")
    profile.set_defaults(run=_profile)
    _add_calibrate(commands.add_parser("calibrate", help="fit the confidence of an adapter to texts of yours"))
    _add_annotate(commands.add_parser("annotate", help="add operand columns to training rows, using a model"))
    return parser


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
    evaluate.set_defaults(run=_evaluate)


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
    parser.set_defaults(run=_audit)


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
    trace.set_defaults(run=_trace)


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
    calibrate.set_defaults(run=_calibrate)


def _add_annotate(annotate: argparse.ArgumentParser) -> None:
    """Adds the arguments of `peft-igc annotate`, whose defaults are those of `self_annotation.Settings`."""
    annotate.add_argument(
        "--model", required=True, metavar="DIR_OR_ID", help='folder, hub id, or "tiny" for the embedded base model'
    )
    annotate.add_argument(
        "--data", required=True, metavar="FILE", help="one row per line: `prompt` and `completion`, or `messages`"
    )
    annotate.add_argument(
        "--output", required=True, metavar="FILE", help="file for the rows, as JSONL; the report is written beside it"
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
        annotate.add_argument(name, type=kind, default=argparse.SUPPRESS, metavar=metavar, help=text)
    annotate.add_argument(
        "--check", action="store_true", help="hide the rows' own operand columns, and compare the found ones with them"
    )
    annotate.set_defaults(run=_annotate)


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


def _demo(arguments: argparse.Namespace) -> int:
    """`peft-igc demo`."""
    _need_training_packages()
    if arguments.base != "tiny":
        return _demo_on(arguments)
    from .demo.run import run_demo
    from .demo.settings import SETTINGS

    changes = {} if arguments.per_group is None else {"per_group": arguments.per_group}
    outcome = run_demo(
        arguments.output,
        seed=arguments.seed,
        minutes=arguments.minutes,
        settings=dataclasses.replace(SETTINGS[arguments.interface], **changes),
        say=_say,
    )
    _say(f"\nExact match of whole answers, per cent:\n\n{outcome.table}\n")
    return _end_of_demo(outcome, "tiny")


def _demo_on(arguments: argparse.Namespace) -> int:
    """`peft-igc demo --base` with a saved model."""
    from .demo.real_model import run_language_model
    from .demo.settings import LANGUAGE_MODEL
    from .demo.smollm2 import NAME, smollm2_base

    if arguments.interface != "tokens":
        raise ValueError("`--interface hidden` is for the embedded base. Leave it out with `--base`.")
    folder = smollm2_base(say=_say) if arguments.base == NAME else Path(arguments.base)
    changes = {} if arguments.per_group is None else {"per_group": arguments.per_group}
    outcome = run_language_model(
        folder,
        arguments.output,
        name=arguments.base,
        seed=arguments.seed,
        minutes=arguments.minutes,
        settings=dataclasses.replace(LANGUAGE_MODEL, **changes),
        say=_say,
    )
    _say(f"\n{outcome.table}\n")
    return _end_of_demo(outcome, str(folder))


def _end_of_demo(outcome: Any, base: str) -> int:
    """Says which targets were missed and what was written; returns the exit code."""
    if outcome.missed:
        _say("Targets missed:\n" + "\n".join(f"  {sentence}" for sentence in outcome.missed))
    else:
        _say("All targets are reached.")
    files = ", ".join(f"`{outcome.folder / name}`" for name in ("results.json", "learning_curve.png", "adapter"))
    _say(f"Written: {files}")
    _say(f'Now try: peft-igc trace --base {base} --adapter {outcome.folder / "adapter"} "What is 58 times 36?"')
    return 1 if outcome.missed and not outcome.results["training"]["stopped_early"] else 0


def _calibrate(arguments: argparse.Namespace) -> int:
    """`peft-igc calibrate`."""
    _need_training_packages()
    from .calibration.run import CURVE, calibrate, save_calibration
    from .data.files import read_rows

    if not 0 <= arguments.wrong < 1:
        raise ValueError(f"`--wrong {arguments.wrong:g}` is not a share. Pass 0 or more, and less than 1.")
    items = read_rows(arguments.data, wanted='with "prompt" and "target"')
    model, tokenizer = _load(arguments)
    found = calibrate(model, tokenizer, items, most_wrong=arguments.wrong)
    save_calibration(found, arguments.adapter, {"texts": Path(arguments.data).name, "wrong": arguments.wrong})
    _say(f"temperature {found.temperature:g}, confidence {found.confidence:g}; of the texts that were not fitted:")
    for name, confidence in (("without a threshold", 0.0), ("with it", found.confidence)):
        point = found.at(confidence, found.tested)
        _say(f"  {name}: right {point.right:,}, wrong {point.wrong:,}, silent {point.silent:,}")
    _say(f"Written: the config in `{arguments.adapter}`, and `{CURVE}` beside it")
    return 0


def _sft(arguments: argparse.Namespace) -> int:
    """`peft-igc sft`."""
    _need_training_packages()
    from .sft.run import run

    return run(arguments.arguments, prog="peft-igc sft")


def _need_training_packages() -> None:
    """Refuses a training command before anything is loaded, if the `train` extra is not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("trl", "datasets", "accelerate", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ValueError(f"`{'`, `'.join(missing)}` is not installed. Run `pip install 'peft-igc[train]'`.")


def _evaluate(arguments: argparse.Namespace) -> int:
    """`peft-igc eval`."""
    from .data.files import read_items
    from .inference.evaluation import evaluate

    output = Path(arguments.output)
    _check_output(output)
    if arguments.predictions is not None:
        _check_output(Path(arguments.predictions), "--predictions")
        if Path(arguments.predictions).resolve() == output.resolve():
            raise ValueError(f"`--predictions` and `--output` both name `{output}`. Name two files.")
    items = read_items(arguments.data)
    model, tokenizer = _load(arguments)
    report = evaluate(
        model,
        tokenizer,
        items,
        batch_size=arguments.batch_size,
        max_new_tokens=arguments.max_new_tokens,
        raw=arguments.raw,
        progress=_Counter(),
        predictions=arguments.predictions,
    )
    names = {"base": arguments.base, "adapter": arguments.adapter, "data": arguments.data}
    output.write_text(json.dumps(report | names, indent=2) + "\n", encoding="utf-8")
    _say(f"{report['exact_match']:.2%} of {report['n']:,} answers are exactly right.")
    for group, score in sorted(report["groups"].items()):
        _say(f"  {group}: {score['exact_match']:.2%} of {score['n']:,}")
    if report["steps"]:
        _say("Steps by status: " + ", ".join(f"{name} {count:,}" for name, count in report["steps"].items()))
    if report["truncated"]:
        _say(f"{report['truncated']:,} answers were cut after {arguments.max_new_tokens} tokens.")
    if report["without_anchor"]:
        _say(
            f"{report['without_anchor']:,} prompts have no anchor, so the calculator had no part in their answers. "
            "The adapter's anchors are token sequences, such as the assistant header of the chat template. Omit "
            "`--raw`, or include the sequences in the prompts."
        )
    _say("Written: " + ", ".join(f"`{name}`" for name in (output, arguments.predictions) if name is not None))
    return 0


def _audit(arguments: argparse.Namespace) -> int:
    """`peft-igc audit`."""
    from .data.files import read_items
    from .inference.audit import audit
    from .inference.audit_page import page

    for option, name in (("--output", arguments.output), ("--html", arguments.html)):
        if name is not None:
            _check_output(Path(name), option)
    items = read_items(arguments.data)
    model, tokenizer = _load(arguments)
    decoding = {name: getattr(arguments, name) for name in ("batch_size", "max_new_tokens", "raw")}
    found = audit(model, tokenizer, items, progress=_Counter(), **decoding)
    names = {"base": arguments.base, "adapter": arguments.adapter, "data": arguments.data}
    if arguments.output is not None:
        text = json.dumps(found.as_dict(arguments.examples) | names, indent=2, ensure_ascii=False)
        Path(arguments.output).write_text(text + "\n", encoding="utf-8")
    if arguments.html is not None:
        title = f"Audit of {arguments.adapter} on {arguments.data}"
        Path(arguments.html).write_text(page(found, title=title, examples=arguments.examples), encoding="utf-8")
    _say(found.format())
    written = [f"`{name}`" for name in (arguments.output, arguments.html) if name is not None]
    if written:
        _say(f"Written: {', '.join(written)}")
    return 0


def _trace(arguments: argparse.Namespace) -> int:
    """`peft-igc trace`."""
    from .data.files import read_prompts
    from .inference.recording import json_lines
    from .inference.trace_page import write_page
    from .inference.tracing import trace

    files = {"--html": arguments.html, "--json": None if arguments.json == "-" else arguments.json}
    for option, file in files.items():
        if file is not None:
            _check_output(Path(file), option)
    prompts = [*arguments.prompt, *([] if arguments.prompts is None else read_prompts(arguments.prompts))]
    if not prompts:
        raise ValueError("There is no prompt. Write one before `--json`, which takes a FILE, or use `--prompts FILE`.")
    model, tokenizer = _load(arguments)
    # For a file what the base would have said is worth a forward pass; the text shows the calculator's part alone.
    options = {} if arguments.html is None and arguments.json is None else {"base": True}
    given = {"raw": arguments.raw, "max_new_tokens": arguments.max_new_tokens, **options}
    found = [trace(model, tokenizer, prompt, **given) for prompt in prompts]
    texts = [one.text for one in found if one.text is not None]
    if arguments.html is not None:
        write_page(texts, arguments.html)
    if arguments.json == "-":
        _say(json_lines(texts, prompts=True).removesuffix("\n"))
    elif arguments.json is not None:
        Path(arguments.json).write_text(json_lines(texts, prompts=True), encoding="utf-8")
    if not options:
        _say("\n\n".join(one.format() for one in found))
    if written := [f"`{file}`" for file in files.values() if file is not None]:
        print(f"Written: {', '.join(written)}", file=sys.stderr if arguments.json == "-" else sys.stdout)
    return 0


def _chat(arguments: argparse.Namespace) -> int:
    """`peft-igc chat`."""
    import shutil

    from .inference.chat import Chat

    model, tokenizer = _load(arguments)
    notes = 40
    width = max(shutil.get_terminal_size((100, 24)).columns - notes - 4, 20)  # 4: the line between, and one free
    chat = Chat(model, tokenizer, sys.stdout, max_new_tokens=arguments.max_new_tokens, width=width, notes=notes)
    if sys.stdin.isatty():
        _say("Write a message. /help shows the commands, /quit ends.")
    chat.run(_lines())
    return 0


def _lines() -> Iterator[str]:
    """The lines of stdin, up to its end; on a terminal after a prompt."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    while True:
        try:
            yield input("> ")
        except EOFError:
            _say("")
            return


def _profile(arguments: argparse.Namespace) -> int:
    """`peft-igc profile`."""
    from transformers import AutoTokenizer

    from .inference.loading import TINY, TINY_FOLDER
    from .numbers.tokenizer_profile import TokenizerProfile
    from .tuner.anchor_rules import text_rule

    name = arguments.tokenizer
    folder = TINY_FOLDER if name == TINY else Path(name).expanduser()
    if folder.is_dir() and not any((folder / file).is_file() for file in ("tokenizer_config.json", "tokenizer.json")):
        raise FileNotFoundError(f"The folder `{name}` contains no `tokenizer_config.json`. Pass a tokenizer's folder.")
    if not folder.is_dir() and (folder.exists() or name[:1] in "./~" or name.count("/") > 1):
        raise FileNotFoundError(f'`{name}` is not a folder. Pass the folder of a tokenizer, a hub id, or "tiny".')
    tokenizer = AutoTokenizer.from_pretrained(folder if folder.is_dir() else name)
    rules = [text_rule(tokenizer, text) for text in arguments.anchors]
    profile = dataclasses.replace(TokenizerProfile.from_tokenizer(tokenizer), name=name)
    if arguments.json:
        found = profile.as_dict() | {"anchors": {rule.text: rule.as_dict() for rule in rules}}
        _say(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _say("\n".join([profile.report(), *(rule.report() for rule in rules)]))
    return 0


def _annotate(arguments: argparse.Namespace) -> int:
    """`peft-igc annotate`."""
    import torch

    from .annotation.self_annotation import Settings, annotate, report_path, write
    from .data.files import read_rows
    from .inference.loading import load_base

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
    """Loads the model that the arguments name, on the device that they name, and its tokenizer."""
    from .inference.loading import check_adapter_folder, load_adapter, load_base

    device = _device(arguments.device)
    if arguments.adapter is not None:
        check_adapter_folder(arguments.adapter)  # before a large base is loaded
    model, tokenizer = load_base(arguments.base, arguments.dtype)
    if arguments.adapter is not None:
        model = load_adapter(model, arguments.adapter)
    return model.to(device), tokenizer


def _device(name: str | None) -> str:
    """A device that is there. None: a GPU, or else the CPU."""
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch (2.13) raises all three
        first = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"`--device {name}` cannot be used: {first}. Name another one, such as `cpu`.") from error
    return name


def _check_output(path: Path, option: str = "--output") -> None:
    """Refuses an output file that cannot be written, before the work is done."""
    if path.is_dir():
        raise ValueError(f"`{option} {path}` is a folder. Pass the name of a file, such as `{path / 'results.json'}`.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder `{path.parent}` of `{option} {path}` does not exist. Make it first.")


class _Counter:
    """Progress callback: a bar with the items done and the time left; where stderr is no terminal, a line at times."""

    WIDTH = 30  # characters of the bar
    EVERY = 30.0  # seconds between two lines

    def __init__(self) -> None:
        self.begin = self.said = time.perf_counter()

    def __call__(self, done: int, total: int) -> None:
        from .demo.progress import duration

        now = time.perf_counter()
        text = f"{done:,}/{total:,}  {duration((now - self.begin) / done * (total - done))} left"
        if sys.stderr.isatty():
            bar = ("#" * (self.WIDTH * done // total)).ljust(self.WIDTH, "-")
            end = "\n" if done == total else ""
            print(f"\r[{bar}] {done / total:4.0%}  {text}   ", end=end, file=sys.stderr, flush=True)
        elif now - self.said >= self.EVERY:
            self.said = now
            print(text, file=sys.stderr, flush=True)


def _say(text: str) -> None:
    """Prints a line and flushes it, so that a pipe shows it at once."""
    print(text, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        argv: arguments without the program's name. None: those of the process.

    Returns:
        The exit code.
    """
    arguments = build_parser().parse_args(argv)
    if arguments.run is _demo:
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
        print(f"peft-igc: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def _quieten() -> None:
    """Silences messages of other packages that are meant for developers."""
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
