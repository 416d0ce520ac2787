"""The demonstration: a language model that cannot multiply learns to, with this package and nothing else.

In: an output folder, a seed, `DemoSettings`. Out, in that folder: `adapter/` (and the base in it), `results.json`,
`learning_curve.png`, which all appear at the end of the run. `run_demo` loads the embedded base model, evaluates it on
the 20 BIG-bench subtasks, attaches IGC, trains it with `IGCTrainer`, saves the adapter, loads it from disk onto a
fresh base and evaluates that. No calculation of the test set is trained, except in its one-digit subtasks, which are
complete sets.
Try it: `peft-igc demo`, `pytest tests/test_cli.py`
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
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from transformers import set_seed

from ..calibration.run import calibrate, save_calibration
from ..data.arithmetic import ArithmeticRows
from ..data.bigbench import bigbench_test_set
from ..data.dataset import Shuffled
from ..data.wording.templates import FEW
from ..data.wording.wording import TRAINING
from ..inference import loading
from ..inference.evaluation import evaluate, versions
from ..inference.loading import load_adapter
from ..trainer.precision import computes_bf16
from ..tuner.base_model import layers_up_to
from ..tuner.config import IGCConfig
from ..tuner.saving.model_card import write_card
from .progress import Progress, duration
from .report import accuracy_table, card_record, draw, missed_targets, summary
from .settings import SETTINGS, DemoSettings
from .stages import train_reading, train_results, written_rows
from .text_sets import calibration_texts
from .training import made_trainer


__all__ = ["DemoResult", "demo_config", "hardware", "replaced", "run_demo", "training_rows", "unfinished"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class DemoResult:
    """Results of a demonstration.

    Attributes:
        folder: The output folder.
        results: The content of `results.json`.
        table: Exact match of the base model and IGC side by side, as text.
        missed: One sentence per missed target.
    """

    folder: Path
    results: dict[str, Any]
    table: str
    missed: list[str]


def demo_config(tokenizer: Any, settings: DemoSettings, **more: Any) -> IGCConfig:
    """The config of the demonstration's adapter; `more` is passed to `IGCConfig.from_tokenizer`."""
    names = {field.name for field in dataclasses.fields(IGCConfig)}
    sizes = {name: value for name, value in vars(settings).items() if name in names and value is not None}
    return IGCConfig.from_tokenizer(tokenizer, **sizes, **more)


def training_rows(
    excluded: Iterable[Mapping[str, Any]], seed: int, settings: DemoSettings
) -> ArithmeticRows | Shuffled:
    """The demonstration's endless stream of rows, without the calculations of the items `excluded`."""
    rows = ArithmeticRows(
        seed,
        max_digits=settings.max_digits,
        num_digits=settings.num_digits,
        result_digits=settings.result_digits,
        mixture=settings.mixture,
        exclude=excluded,
        wording=TRAINING if settings.many_phrasings else FEW,
        distinct=settings.distinct_rows is not None,
        max_operands=settings.max_operands,
        decimals=settings.decimals,
    )
    return rows if settings.distinct_rows is None else Shuffled(rows.take(settings.distinct_rows), seed)


def run_demo(
    output: str | Path,
    *,
    seed: int = 0,
    minutes: float | None = None,
    settings: DemoSettings = SETTINGS["tokens"],
    device: str = "cpu",
    say: Say = print,
) -> DemoResult:
    """Runs the demonstration.

    Args:
        output: Output folder, created if it does not exist. Earlier results in it are replaced at the end.
        seed: Seed of the adapter's initial weights and of the training rows. The test set is the same for all seeds.
        minutes: Time limit of the training, which then stops early; of two stages that of the reading, in proportion
            to which the writing is shortened. None: no limit.
        settings: All other hyperparameters; see `settings.SETTINGS`.
        device: Where the model is trained and evaluated.
        say: Called with each line of progress.

    Raises:
        ValueError: `minutes` is not above 0, `output` is a file, or the base has no decoder layer `settings.layer`.
    """
    output = Path(output)
    if minutes is not None and not minutes > 0:
        raise ValueError(f"`minutes={minutes:g}` must be above 0. Leave it out for no limit.")
    if output.exists() and not output.is_dir():
        raise ValueError(f"The output folder `{output}` is a file. Pass a folder, or a name that does not exist.")
    with unfinished(output) as work:
        outcome = _run(work, output, seed, minutes, settings, device, say)
        replaced(work, output)
    return outcome


@contextmanager
def unfinished(output: Path) -> Iterator[Path]:
    """A temporary folder in `output`. At the end it is removed, and so is `output` if it is new and empty."""
    is_new = not output.exists()
    output.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=output) as name:
            yield Path(name)
    finally:
        if is_new and not any(output.iterdir()):
            output.rmdir()


def _run(
    work: Path, output: Path, seed: int, minutes: float | None, settings: DemoSettings, device: str, say: Say
) -> DemoResult:
    """Runs the demonstration with the temporary folder `work`, whose files will be moved to `output`."""
    base, tokenizer = loading.tiny_base()
    layers_up_to(base, settings.layer)
    items = bigbench_test_set(settings.per_group, settings.test_seed)
    base.to(device)
    say(f"The embedded base model answers {len(items):,} questions.")
    before = _evaluate(base, tokenizer, items, settings)
    say(f"Base: {before['exact_match']:.1%} exact in {duration(before['seconds'])}. Training IGC.")
    training = _train(base, tokenizer, items, work / "adapter", seed, minutes, settings, say)
    say("The adapter is saved, and loaded from disk onto a fresh base.")
    fresh, tokenizer = loading.tiny_base()
    # With the base beside it, `pipeline` and `AutoModelForCausalLM` of transformers load the adapter from its folder:
    # they would look for the name `tiny` on the hub.
    for part in (fresh, tokenizer):
        part.save_pretrained(work / "adapter")
    after = _evaluate(load_adapter(fresh, work / "adapter").to(device), tokenizer, items, settings)
    say(f"IGC: {after['exact_match']:.1%} exact in {duration(after['seconds'])}.")
    missed = missed_targets(before, after, settings)
    results = {
        "base": before,
        "igc": after,
        "summary": {"base": summary(before), "igc": summary(after), "targets_missed": missed},
        "training": training,
        "settings": dataclasses.asdict(settings),
        "versions": versions() | {name: version(name) for name in ("trl", "datasets", "accelerate")},
        "hardware": hardware(),
    }
    (work / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    draw(work / "learning_curve.png", training)
    record = card_record(results, settings)
    write_card(work / "adapter", loading.TINY, adapter=str(output / "adapter"), record=record)
    return DemoResult(output, results, accuracy_table({"base": before, "igc": after}), missed)


def _evaluate(model: Any, tokenizer: Any, items: list[dict[str, Any]], settings: DemoSettings) -> dict[str, Any]:
    """The report of `evaluate` on test items, with the demonstration's settings."""
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
    """Attaches IGC to `base`, trains it, saves it in `folder`, and returns a record of the training."""
    set_seed(seed)  # for the adapter's initial weights
    model = get_peft_model(base, demo_config(tokenizer, settings))
    sample = bigbench_test_set(settings.check_per_group, settings.check_seed)

    def measure() -> float:
        return float(_evaluate(model, tokenizer, sample, settings)["exact_match"])

    # On a CPU and for rows as short as these, the backward pass of fused attention is slower than matrix products.
    base.set_attn_implementation("eager")
    rows = training_rows([*items, *sample], seed, settings)
    if settings.writing is None:
        record = _whole_passes(model, tokenizer, rows, seed, minutes, settings, say, measure)
    else:
        assert isinstance(rows, Shuffled)
        reading = train_reading(model, tokenizer, rows.rows, seed, minutes, settings, say)
        short = settings.shortened(reading["steps"])
        written = written_rows(rows.rows, [*items, *sample], seed, short)
        record = _joined(reading, train_results(model, tokenizer, written, seed, short, say, measure))
    # The package's name of the base instead of its path on this machine. Embeddings are never trained here; without
    # the flag PEFT (0.21) would ask the hub whether they were resized.
    model.peft_config["default"].base_model_name_or_path = loading.TINY
    model.save_pretrained(str(folder), save_embedding_layers=False)
    if settings.calibration_items:
        texts = calibration_texts(settings.calibration_items, model.peft_config["default"])
        least = settings.least_confidence
        found = calibrate(model, tokenizer, texts, most_wrong=settings.most_wrong, least=least)
        save_calibration(found, folder, {"texts": "held out, generated"})
        say(f"Temperature {found.temperature:g}, confidence {found.confidence:g}, fitted on held-out texts.")
        record["calibration"] = found.as_dict()
    return {
        "seed": seed,
        "steps_planned": settings.steps,
        "minutes_limit": minutes,
        "rows": record["steps"] * settings.batch_size,
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        **record,
    }


def _whole_passes(
    model: Any,
    tokenizer: Any,
    rows: ArithmeticRows | Shuffled,
    seed: int,
    minutes: float | None,
    settings: DemoSettings,
    say: Say,
    measure: Callable[[], float],
) -> dict[str, Any]:
    """Trains the reading and the writing together; returns a record."""
    progress = Progress(say, measure, checks=settings.checks, minutes=minutes)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = made_trainer(model, tokenizer, rows, Path(scratch), seed, settings, progress)
        trainer.train()
    return {
        "steps": trainer.state.global_step,
        "stopped_early": progress.stopped_early,
        "seconds": round(progress.seconds, 1),
        "seconds_of_checks": round(progress.check_seconds, 1),
        "history": progress.history,
        "checks": progress.checks,
    }


def _joined(reading: Mapping[str, Any], writing: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a training from those of its two stages; the writing's steps are counted behind the reading's."""
    start = reading["steps"]
    written = [{"step": start + one["step"], "loss_lm": one["loss"]} for one in writing["log"]]
    return {
        "steps": start,
        "stopped_early": reading["stopped_early"],
        "seconds": round(reading["seconds"] + writing["seconds"], 1),
        "seconds_of_checks": writing["seconds_of_checks"],
        "history": reading["history"] + written,
        "checks": [one | {"step": start + one["step"]} for one in writing["checks"]],
        "writing": {name: writing[name] for name in ("steps", "batch_size", "rows", "seconds")},
    }


def hardware() -> dict[str, Any]:
    """Facts about the machine that times and rounding depend on."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "bf16": computes_bf16(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def replaced(work: Path, output: Path) -> None:
    """Moves all files and folders of `work` to `output`, in place of older ones."""
    for source in sorted(work.iterdir()):
        target = output / source.name
        if target.is_dir():
            shutil.rmtree(target)
        source.replace(target)
