"""The commands of the command line: what `peft-igc demo`, `eval`, `trace` and the others do with their arguments.

In: parsed arguments (`cli`). Out: text on the terminal, files, and the exit code. The work is in `sft`,
`inference`, `numbers` and `annotation`, which each command imports, with torch, when it runs.
"""

import argparse
import collections
import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def demo(arguments: argparse.Namespace) -> int:
    """`peft-igc demo`."""
    _need_training_packages()
    from .sft.demo import run_demo

    given = _given(arguments, "base", "interface", "seed", "minutes", "layer", "per_group", "device")
    _device(arguments.device)  # one that is not there is an error
    results = run_demo(arguments.output, **given)
    folder, base = Path(arguments.output), results["base_model"]["name"]
    _say_written(*(folder / name for name in ("results.json", "learning_curves.png", "adapter")))
    print(f'Now try: peft-igc trace --base {base} --adapter {folder / "adapter"} "What is 58 times 36?"')
    return 1 if results["summary"]["targets_missed"] and not results["training"]["stopped_early"] else 0


def calibrate(arguments: argparse.Namespace) -> int:
    """`peft-igc calibrate`."""
    _need_training_packages()
    from .calibration.calibrate import CURVE, calibrate, save_calibration
    from .data.files import read_rows
    from .inference.loading import find_adapter
    from .tuner.base_model import TINY

    for name, share in _given(arguments, "wrong", "least").items():
        if not 0 <= share < 1:
            raise ValueError(f"`--{name} {share:g}` is not a share. Pass 0 or more, and less than 1.")
    if arguments.adapter == TINY:
        raise ValueError(
            "`--adapter tiny` is part of the package, and its config is not changed. Name a folder of yours, such as "
            "one made by `peft-igc demo` or by `peft_igc.tiny_igc()[0].save_pretrained(FOLDER)`."
        )
    items = read_rows(arguments.data, wanted='with "prompt" and "target"')
    model, tokenizer = _load(arguments)
    found = calibrate(model, tokenizer, items, most_wrong=arguments.wrong, least=arguments.least)
    facts = {"texts": Path(arguments.data).name, **_given(arguments, "wrong", "least")}
    save_calibration(found, find_adapter(arguments.adapter), facts)
    print(f"temperature {found.temperature:g}; of the texts that were not fitted:")
    for kind, least in found.kinds.items():
        for point in (point for point in found.tested[kind] if point.confidence in (0.0, least)):
            counts = f"right {point.right:,}, wrong {point.wrong:,}, silent {point.silent:,}"
            more = point.confidence == least and point.wrong > arguments.wrong * sum(point[1:])
            doubt = f"; more than {arguments.wrong:.1%} wrong: give more texts" if more else ""
            print(f"  {kind} with confidence {point.confidence:g}: {counts}{doubt}")
    print(f"Written: the config in `{arguments.adapter}`, and `{CURVE}` next to it")
    return 0


def sft(arguments: argparse.Namespace) -> int:
    """`peft-igc sft`."""
    _need_training_packages()
    from .sft.run import run

    return run(arguments.arguments)


def _need_training_packages() -> None:
    """Refuses a training command before anything is loaded, if the `train` extra is not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("trl", "datasets", "accelerate", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ValueError(f"`{'`, `'.join(missing)}` is not installed. Run `pip install 'peft-igc[train]'`.")


def evaluate(arguments: argparse.Namespace) -> int:
    """`peft-igc eval`."""
    from .data.files import read_items
    from .inference.evaluation import evaluate

    output = Path(arguments.output)
    _check_outputs(arguments, "output", "predictions")
    items = read_items(arguments.data)
    model, tokenizer = _load(arguments)
    options = _given(arguments, "batch_size", "max_new_tokens", "raw", "predictions")
    report = evaluate(model, tokenizer, items, progress=True, **options)
    report |= _given(arguments, "base", "adapter", "data")
    output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"{report['exact_match']:.2%} of {report['n']:,} answers are exactly right.")
    for group, score in sorted(report["groups"].items()):
        print(f"  {group}: {score['exact_match']:.2%} of {score['n']:,}")
    if report["steps"]:
        print("Steps by status: " + ", ".join(f"{name} {count:,}" for name, count in report["steps"].items()))
    if report["truncated"]:
        print(f"{report['truncated']:,} answers were cut after {arguments.max_new_tokens} tokens.")
    if report["without_anchor"]:
        print(
            f"{report['without_anchor']:,} prompts have no anchor, so the calculator had no part in their answers. "
            "The adapter's anchors are token sequences, such as the assistant header of the chat template. Omit "
            "`--raw`, or include the sequences in the prompts."
        )
    _say_written(output, arguments.predictions)
    return 0


def audit(arguments: argparse.Namespace) -> int:
    """`peft-igc audit`."""
    from .data.files import read_items
    from .inference.audit import audit
    from .inference.pages import write

    _check_outputs(arguments, "output", "html")
    items = read_items(arguments.data)
    model, tokenizer = _load(arguments)
    decoding = _given(arguments, "batch_size", "max_new_tokens", "raw")
    found = audit(model, tokenizer, items, progress=True, **decoding)
    if arguments.output is not None:
        facts = found.as_dict(arguments.examples) | _given(arguments, "base", "adapter", "data")
        text = json.dumps(facts, indent=2, ensure_ascii=False)
        Path(arguments.output).write_text(text + "\n", encoding="utf-8")
    if arguments.html is not None:
        title = f"Audit of {arguments.adapter} on {arguments.data}"
        write(found.page(title, arguments.examples), arguments.html)
    print(found.format())
    _say_written(arguments.output, arguments.html)
    return 0


def trace(arguments: argparse.Namespace) -> int:
    """`peft-igc trace`."""
    from .data.files import read_prompts
    from .inference.evaluation import trace
    from .inference.pages import trace_page, write
    from .inference.records import json_lines

    _check_outputs(arguments, "html", "json")
    prompts = [*arguments.prompt, *([] if arguments.prompts is None else read_prompts(arguments.prompts))]
    if not prompts:
        before = "" if arguments.json is None else " before `--json`, which takes a FILE"
        raise ValueError(f"There is no prompt. Write one{before}, or use `--prompts FILE`.")
    model, tokenizer = _load(arguments)
    # For a file what the base would have said is worth a forward pass; the text shows the calculator's part alone.
    printed, to_file = arguments.json == "-", not (arguments.html is None and arguments.json is None)
    options = _given(arguments, "raw", "max_new_tokens") | ({"base": True} if to_file else {})
    found = [trace(model, tokenizer, prompt, **options) for prompt in prompts]
    texts = [one.record for one in found if one.record is not None]
    if arguments.html is not None:
        write(trace_page(texts), arguments.html)
    if printed:
        print(json_lines(texts, prompts=True), end="")
    elif arguments.json is not None:
        Path(arguments.json).write_text(json_lines(texts, prompts=True), encoding="utf-8")
    elif not to_file:
        print("\n\n".join(one.format() for one in found))
    _say_written(arguments.html, None if printed else arguments.json, file=sys.stderr if printed else None)
    return 0


def chat(arguments: argparse.Namespace) -> int:
    """`peft-igc chat`."""
    from .inference.chat import Chat

    model, tokenizer = _load(arguments)
    chat = Chat(model, tokenizer, sys.stdout, max_new_tokens=arguments.max_new_tokens)
    if sys.stdin.isatty():
        print("Write a message. /help shows the commands, /quit ends.")
    chat.run(_lines())
    return 0


def _lines() -> Iterator[str]:
    """The lines of stdin, up to its end; on a terminal after a prompt."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    with contextlib.suppress(EOFError):
        while True:
            yield input("> ")
    print("")


def profile(arguments: argparse.Namespace) -> int:
    """`peft-igc profile`."""
    from .numbers.tokenizer_profile import TokenizerProfile
    from .tuner.anchor_rules import text_rule

    tokenizer = _tokenizer(arguments.tokenizer)
    rules = [text_rule(tokenizer, text) for text in arguments.anchors]
    profile = dataclasses.replace(TokenizerProfile.from_tokenizer(tokenizer), name=arguments.tokenizer)
    if arguments.json:
        found = profile.as_dict() | {"anchors": {rule.text: rule.as_dict() for rule in rules}}
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        print("\n".join([profile.report(), *(rule.report() for rule in rules)]))
    return 0


def check(arguments: argparse.Namespace) -> int:
    """`peft-igc check`: 1 if a claim is untrue."""
    from .data.files import check_file, find_files
    from .text.claims import Verdict

    counts: collections.Counter[str] = collections.Counter()
    for name, path in zip(arguments.files, find_files(arguments.files), strict=True):
        for found in check_file(path):
            claim = found.claim
            counts[claim.verdict] += 1
            if arguments.json:
                print(json.dumps({"file": name} | found.as_dict(), ensure_ascii=False))
            elif arguments.all or claim.verdict is Verdict.UNTRUE:
                place = ":".join([name, str(found.line), *filter(None, [found.field]), str(claim.span[0] + 1)])
                said = claim.reason.text if claim.value is None else f"the value is {claim.value}"
                print(f"{place}: {claim.verdict.value}: {found.text[slice(*claim.span)]} ({said})")
    total = ", ".join(f"{counts[verdict]} {verdict.replace('_', ' ')}" for verdict in Verdict)
    hidden = counts[Verdict.NOT_UNDERSTOOD] and not (arguments.all or arguments.json)
    print(f"{sum(counts.values())} calculations: {total}{' (shown with --all)' if hidden else ''}", file=sys.stderr)
    return 1 if counts[Verdict.UNTRUE] else 0


def convert(arguments: argparse.Namespace) -> int:
    """`peft-igc convert`."""
    from .inference.loading import find_adapter
    from .tuner.saving.conversion import convert

    folders = [find_adapter(name) for name in arguments.adapters]  # all of them, before one is changed
    tokenizer = None if arguments.tokenizer is None else _tokenizer(arguments.tokenizer)
    for name, folder in zip(arguments.adapters, folders, strict=True):
        done = convert(folder, tokenizer)
        print(f"Converted: `{name}`" if done else f"`{name}` has the present format already.")
    return 0


def autoload(arguments: argparse.Namespace) -> int:
    """`peft-igc autoload`."""
    from .plugin import AUTOLOAD, autoload_file

    file = autoload_file()
    if arguments.state == "on":
        file.write_text(AUTOLOAD, encoding="utf-8")
    elif arguments.state == "off":
        file.unlink(missing_ok=True)
    if file.is_file():
        print(f"on: every Python process of this environment imports peft_igc when it starts, because of `{file}`.")
    else:
        print("off: PEFT finds the method IGC in programs that `import peft_igc`.")
    return 0


def _tokenizer(name: str) -> Any:
    """The tokenizer of a folder, a hub id, or the embedded base."""
    from transformers import AutoTokenizer

    from .inference.loading import is_hub_id
    from .tuner.base_model import TINY, TINY_FOLDER

    folder = TINY_FOLDER if name == TINY else Path(name).expanduser()
    if not folder.is_dir() and (folder.exists() or not is_hub_id(name)):
        raise FileNotFoundError(f'`{name}` is not a folder. Pass the folder of a tokenizer, a hub id, or "tiny".')
    return AutoTokenizer.from_pretrained(folder if folder.is_dir() else name)


def annotate(arguments: argparse.Namespace) -> int:
    """`peft-igc annotate`."""
    from .annotation.self_annotation import Settings, annotate, report_path, write
    from .data.files import read_rows
    from .inference.loading import load_base

    output = Path(arguments.output)
    _check_outputs(arguments, "output")
    if Path(arguments.data).resolve() == report_path(output).resolve():
        raise ValueError(f"`--data` names the report of `--output`, `{arguments.data}`. Name another file to write.")
    settings = Settings(**_given(arguments, *(field.name for field in dataclasses.fields(Settings))))
    rows = read_rows(arguments.data)
    model, tokenizer = load_base(arguments.model)
    annotated = annotate(rows, model.to(_device(None)), tokenizer, settings, progress=True)
    write(annotated, output, _given(arguments, "model", "data") | {"settings": dataclasses.asdict(settings)})
    print(annotated.report.format())
    _say_written(output, report_path(output))
    return 0


def _load(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Loads the model that the arguments name, on the device that they name, and its tokenizer."""
    from .inference.loading import find_adapter, load_adapter, load_base

    device = _device(arguments.device)
    if arguments.adapter is not None:
        find_adapter(arguments.adapter)  # before a large base is loaded
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


def _given(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in names}


def _check_outputs(arguments: argparse.Namespace, *options: str) -> None:
    """Refuses output files that cannot be written or that another option names, too, before the work is done; `-` is
    the terminal."""
    given = {name: getattr(arguments, name, None) for name in ("data", "prompts")}
    taken = {Path(name).resolve(): option for option, name in given.items() if name is not None}
    for option, name in _given(arguments, *options).items():
        if name in (None, "-"):
            continue
        path, shown = Path(name), f"--{option} {name}"
        if path.is_dir():
            raise ValueError(f"`{shown}` is a folder. Pass the name of a file, such as `{path / 'results.json'}`.")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"The folder `{path.parent}` of `{shown}` does not exist. Make it first.")
        if (other := taken.setdefault(path.resolve(), option)) != option:
            raise ValueError(f"`--{other}` and `--{option}` both name `{name}`. Name another file to write.")


def _say_written(*names: Any, file: Any = None) -> None:
    """Names the files that were written, those that are not None."""
    if written := [f"`{name}`" for name in names if name is not None]:
        print(f"Written: {', '.join(written)}", file=file, flush=True)
