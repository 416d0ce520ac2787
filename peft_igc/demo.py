"""The demonstration: a language model that cannot multiply becomes one that can, from nothing but this package.

`run_demo` loads the embedded base model, evaluates it on the 20 BIG-bench subtasks, attaches IGC, trains it through
`IGCTrainer`, saves the adapter, loads it from disk onto a fresh base and evaluates that. Out, in one
folder: `adapter/`, `results.json`, `learning_curve.png`. All of them appear at the end or not at all.
Every number of the run stands in `demo_settings`. No calculation of the test set occurs in training (but those of the
one-digit subtasks, which are complete sets). Try it: `peft-igc demo`; tests: `pytest tests/test_demo.py`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from . import loading
from .adapters import load_adapter
from .config import IGCConfig
from .cpu import computes_bf16, head_at_labels_only
from .data import ArithmeticRows, Shuffled, bigbench_test_set
from .demo_settings import SETTINGS, DemoSettings
from .evaluation import accuracy_table, evaluate, versions
from .fitting import made_trainer
from .progress import Progress, duration
from .wording import TRAINING


__all__ = ["Outcome", "demo_config", "run_demo", "training_rows"]

Say = Callable[[str], None]
OPERATIONS = ("addition", "subtraction", "multiplication", "division")


@dataclass(frozen=True)
class Outcome:
    """Whether the demonstration showed what it should.

    Attributes:
        folder: Where everything was written.
        results: What `results.json` holds.
        table: Base and IGC side by side.
        missed: One sentence per target that was missed.
    """

    folder: Path
    results: dict[str, Any]
    table: str
    missed: list[str]


def demo_config(tokenizer: Any, settings: DemoSettings, **more: Any) -> IGCConfig:
    """The demonstration's adapter; `more` as in `IGCConfig.from_tokenizer`, which else takes the assistant header."""
    names = {field.name for field in dataclasses.fields(IGCConfig)}
    sizes = {name: value for name, value in vars(settings).items() if name in names and value is not None}
    return IGCConfig.from_tokenizer(tokenizer, **sizes, **more)


def training_rows(
    excluded: Iterable[Mapping[str, Any]], seed: int, settings: DemoSettings
) -> ArithmeticRows | Shuffled:
    """The demonstration's endless stream of rows, without the calculations of `excluded`."""
    rows = ArithmeticRows(
        seed,
        max_digits=settings.max_digits,
        num_digits=settings.num_digits,
        result_digits=settings.result_digits,
        mixture=settings.mixture,
        exclude=excluded,
        wording=TRAINING if settings.many_phrasings else None,
        distinct=settings.distinct_rows is not None,
    )
    return rows if settings.distinct_rows is None else Shuffled(rows.take(settings.distinct_rows), seed)


def run_demo(
    output: str | Path,
    *,
    seed: int = 0,
    minutes: float | None = None,
    settings: DemoSettings = SETTINGS["tokens"],
    say: Say = print,
) -> Outcome:
    """Runs the demonstration.

    Args:
        output: Folder for what it writes; made if it does not exist. Earlier results are replaced at the end.
        seed: Of the adapter's initial weights and the training rows; the test set is the same for all.
        minutes: Time limit of the training, at which it stops early. None: none.
        settings: Everything else; see `demo_settings.SETTINGS`.
        say: Takes each line of progress.

    Raises:
        ValueError: `minutes` that are not above zero; `output` that is a file.
    """
    output = Path(output)
    if minutes is not None and not minutes > 0:
        raise ValueError(f"`minutes={minutes:g}` must be above 0. Leave it out for no limit.")
    if output.exists() and not output.is_dir():
        raise ValueError(f"The output folder `{output}` is a file. Pass a folder, or a name that does not exist.")
    with _unfinished(output) as work:
        outcome = _run(work, output, seed, minutes, settings, say)
        for path in sorted(work.iterdir()):
            _replace(path, output / path.name)
    return outcome


@contextmanager
def _unfinished(output: Path) -> Iterator[Path]:
    """A folder within `output` to work in. It vanishes at the end, and `output` too if nothing came into it."""
    is_new = not output.exists()
    output.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=output) as name:
            yield Path(name)
    finally:
        if is_new and not any(output.iterdir()):
            output.rmdir()


def _run(work: Path, output: Path, seed: int, minutes: float | None, settings: DemoSettings, say: Say) -> Outcome:
    """The demonstration in the folder `work`."""
    items = bigbench_test_set(settings.per_group, settings.test_seed)
    measured = partial(_evaluate, settings=settings)
    base, tokenizer = loading.tiny_base()
    say(f"The embedded base model answers {len(items):,} questions.")
    before = measured(base, tokenizer, items)
    say(f"Base: {before['exact_match']:.1%} exact in {duration(before['seconds'])}. Training IGC.")
    training = _train(base, tokenizer, items, work / "adapter", seed, minutes, settings, say)
    say("The adapter is saved, and loaded from disk onto a fresh base.")
    fresh, tokenizer = loading.tiny_base()
    after = measured(load_adapter(fresh, work / "adapter"), tokenizer, items)
    say(f"IGC: {after['exact_match']:.1%} exact in {duration(after['seconds'])}.")
    missed = _missed(before, after, settings)
    results = {
        "base": before,
        "igc": after,
        "summary": {"base": _summary(before), "igc": _summary(after), "targets_missed": missed},
        "training": training,
        "settings": dataclasses.asdict(settings),
        "versions": versions() | _versions_of_training(),
        "hardware": _hardware(),
    }
    (work / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    _plot(work / "learning_curve.png", training)
    return Outcome(output, results, accuracy_table({"base": before, "igc": after}), missed)


def _evaluate(model: Any, tokenizer: Any, items: list[dict[str, Any]], settings: DemoSettings) -> dict[str, Any]:
    """A report on test items."""
    return evaluate(
        model, tokenizer, items, batch_size=settings.batch_size_of_test, max_new_tokens=settings.max_new_tokens
    )


def _train(
    base: Any,
    tokenizer: Any,
    items: list[dict[str, Any]],
    folder: Path,
    seed: int,
    minutes: float | None,
    settings: DemoSettings,
    say: Say,
) -> dict[str, Any]:
    """Attaches IGC to `base`, trains it, saves it in `folder`, and tells how it went."""
    from peft import get_peft_model
    from transformers import set_seed

    set_seed(seed)  # the adapter's initial weights
    model = get_peft_model(base, demo_config(tokenizer, settings))
    sample = bigbench_test_set(settings.check_per_group, settings.check_seed)
    check = partial(_evaluate, model, tokenizer, sample, settings)
    progress = Progress(say, lambda: check()["exact_match"], checks=settings.checks, minutes=minutes)
    # The backward pass of fused attention is slower on a CPU than plain matrix products, for rows as short as these.
    base.set_attn_implementation("eager")
    with tempfile.TemporaryDirectory() as scratch, head_at_labels_only():
        rows = training_rows([*items, *sample], seed, settings)
        trainer = made_trainer(model, tokenizer, rows, Path(scratch), seed, settings, progress)
        trainer.train()
    # The package's own name of the base, not its path on this machine. No embedding was touched: without the flag
    # PEFT (0.21) would ask the hub whether one was resized.
    model.peft_config["default"].base_model_name_or_path = loading.TINY
    model.save_pretrained(str(folder), save_embedding_layers=False)
    return {
        "seed": seed,
        "steps": trainer.state.global_step,
        "steps_planned": settings.steps,
        "stopped_early": progress.stopped_early,
        "minutes_limit": minutes,
        "seconds": round(progress.seconds, 1),
        "seconds_of_checks": round(progress.check_seconds, 1),
        "rows": trainer.state.global_step * settings.batch_size,
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "history": progress.history,
        "checks": progress.checks,
    }


def _summary(report: Mapping[str, Any]) -> dict[str, float]:
    """Exact match overall, per operation, and apart from it of the one-digit subtasks and the others.

    Those four subtasks are complete sets, so their items cannot be kept out of training.
    """
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for group, score in report["groups"].items():
        digits, _, operation = group.partition("_digit_")
        for part in (operation, "one digit" if digits == "1" else "two digits and more"):
            parts.setdefault(part, []).append(score)
    totals = {
        part: sum(s["exact_match"] * s["n"] for s in scores) / sum(s["n"] for s in scores)
        for part, scores in parts.items()
    }
    return {"all": report["exact_match"], **totals}


def _missed(before: Mapping[str, Any], after: Mapping[str, Any], settings: DemoSettings) -> list[str]:
    """The targets that were missed."""
    first, last = _summary(before), _summary(after)
    wanted = dict.fromkeys(OPERATIONS, settings.target_per_operation)
    missed = [
        f"{part}: {last[part]:.2%} exact, the target is {target:.1%}"
        for part, target in {"all": settings.target, **wanted}.items()
        if last[part] < target
    ]
    missed += [
        f"{group}: {score['exact_match']:.2%} exact, the target is {settings.target_per_group:.1%}"
        for group, score in after["groups"].items()
        if score["exact_match"] < settings.target_per_group
    ]
    if first["all"] >= settings.most_of_base:
        missed.append(f"base: {first['all']:.2%} exact, it should be below {settings.most_of_base:.0%}")
    return missed


def _versions_of_training() -> dict[str, str]:
    """Versions of what only training depends on."""
    from importlib.metadata import version

    return {name: version(name) for name in ("trl", "datasets", "accelerate")}


def _hardware() -> dict[str, Any]:
    """What the run ran on."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "bf16": computes_bf16(),
    }


def _plot(path: Path, training: Mapping[str, Any]) -> None:
    """Losses and exact match against the step."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)  # draws into a file whatever screen there is
    losses = figure.add_subplot(xlabel="step", ylabel="loss (nats)", yscale="log")
    losses.set_title(f"Training IGC on the embedded base model, seed {training['seed']}")
    history = training["history"]
    for name, title, style in (
        ("loss_lm", "language-model loss, refusals included", "C0-"),
        ("loss_read", "reading loss", "C1-"),
    ):
        points = [(entry["step"], entry[name]) for entry in history if entry[name]]
        losses.plot([x for x, _ in points], [y for _, y in points], style, label=title)
    right = losses.twinx()
    right.set_ylabel("exact match on a small sample (%)")
    right.set_ylim(-2, 102)
    checks = training["checks"]
    right.plot([c["step"] for c in checks], [100 * c["exact_match"] for c in checks], "C2o--", label="exact match")
    lines = [*losses.get_lines(), *right.get_lines()]
    losses.legend(lines, [str(line.get_label()) for line in lines], loc="center right")
    figure.savefig(path, dpi=120)


def _replace(source: Path, target: Path) -> None:
    """Moves a file or folder to where an older one may be."""
    if target.is_dir():
        shutil.rmtree(target)
    source.replace(target)
