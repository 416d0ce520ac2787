"""The two stages of the demonstrations' training: the reading, then the writing.

In: a model with an adapter, rows with operand columns, `DemoSettings`. Out: a trained adapter, and a record of each
stage. The reading learns nothing from the layers above the calculator's, so its passes end there; the writing needs
only the tokens from the anchor on (`writing`). Together they take about half the time of whole passes.
Try it: `pytest tests/demo/test_stages.py`
"""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data.arithmetic import ArithmeticRows
from ..data.dataset import Shuffled
from ..data.wording.wording import TRAINING
from ..inference.decoding import padding_token
from ..trainer.config import IGCSFTConfig
from .batches import has_number, tokenized
from .leading_digits import covering_rows
from .progress import Progress
from .settings import DemoSettings
from .training import made_trainer
from .writing import train_writing, training_only


__all__ = ["train_reading", "train_results", "written_rows"]

Say = Callable[[str], None]


def train_reading(
    model: Any,
    tokenizer: Any,
    rows: Sequence[dict[str, Any]],
    seed: int,
    minutes: float | None,
    settings: DemoSettings,
    say: Say,
) -> dict[str, Any]:
    """Trains the input mapping alone, by passes that end behind the last layer it reads; returns a record.

    Args:
        model: A causal LM with an IGC adapter.
        tokenizer: Its tokenizer.
        rows: Conversational rows with operand columns.
        seed: Of the order of the rows.
        minutes: Time limit. None: no limit.
        settings: All hyperparameters. Every step is one of the reading.
        say: Called with each line of progress.
    """
    say(f"Training the reading on {len(rows):,} rows.")
    alone = dataclasses.replace(settings, writing_every=1, reading_steps=settings.steps)
    progress = Progress(say, lambda: 0.0, checks=0, minutes=minutes)
    training_only(model, "igc_input_mapping")
    with tempfile.TemporaryDirectory() as scratch:
        trainer = made_trainer(model, tokenizer, Shuffled(rows, seed), Path(scratch), seed, alone, progress)
        trainer.train()
    training_only(model, "igc_")
    return {
        "steps": trainer.state.global_step,
        "batch_size": settings.batch_size,
        "seconds": round(progress.seconds, 1),
        "stopped_early": progress.stopped_early,
        "history": progress.history,
    }


def written_rows(
    rows: Sequence[dict[str, Any]], excluded: Iterable[Mapping[str, Any]], seed: int, settings: DemoSettings
) -> list[dict[str, Any]]:
    """Rows with a result for the writing: the first ones of the reading's, as many with longer numbers, and some that
    have all leading digits.

    Args:
        rows: Rows of the reading.
        excluded: Test items, whose calculations are not trained.
        seed: Of the longer ones.
        settings: All hyperparameters, with `writing`.
    """
    stage = settings.writing
    assert stage is not None
    half = (stage.rows - stage.covering) // 2
    found = [row for row in rows if has_number(row["igc_result"])][:half]
    by_rule = settings.max_operands > 2
    silent = dict.fromkeys(("none", "overflow", "undefined", "inexact", "unsupported", "look_alikes"), 0.0)
    longer = ArithmeticRows(
        seed + 1,
        max_digits=min(stage.max_digits, settings.num_digits),
        num_digits=settings.num_digits,
        result_digits=settings.result_digits,
        mixture=dataclasses.replace(settings.mixture, **silent, expressions=stage.expressions * by_rule),
        exclude=excluded,
        wording=TRAINING,
        max_operands=settings.max_operands,
        decimals=settings.decimals,
    )
    numbers: Iterator[dict[str, Any]] = (row for row in longer if has_number(row["igc_result"]))
    if stage.equal_lengths:
        lengths = min(settings.result_digits, 2 * min(stage.max_digits, settings.num_digits))
        numbers = _of_equal_lengths(numbers, lengths, -(-half // lengths))
    found += itertools.islice(numbers, half)
    return found + covering_rows(stage.covering, seed, settings.decimals)


def _of_equal_lengths(rows: Iterable[dict[str, Any]], lengths: int, most: int) -> Iterator[dict[str, Any]]:
    """`most` rows with results of each number of digits in 1..`lengths`, as they come; only products have the most."""
    seen: Counter[int] = Counter()
    for row in rows:
        digits = sum(map(str.isdigit, row["igc_result"]))
        seen[digits] += 1
        if seen[digits] <= most:
            yield row
        if all(seen[length] >= most for length in range(1, lengths + 1)):
            return


def train_results(
    model: Any,
    tokenizer: Any,
    rows: Sequence[dict[str, Any]],
    seed: int,
    settings: DemoSettings,
    say: Say,
    measure: Callable[[], float] | None = None,
) -> dict[str, Any]:
    """Trains the output mapping alone; returns a record.

    Args:
        model, tokenizer, say: As in `train_reading`.
        rows: Rows with a result, as of `written_rows`.
        seed: Of their order.
        settings: All hyperparameters, with `writing`.
        measure: Returns the exact match (0..1) of the current model on a small sample, `settings.checks` times.
    """
    start, stage = time.perf_counter(), settings.writing
    assert stage is not None
    checks: list[dict[str, Any]] = []
    spent = 0.0

    def check(step: int) -> None:
        nonlocal spent
        due = any(step == round(stage.steps * (i + 1) / settings.checks) for i in range(settings.checks))
        if measure is None or not due:
            return
        before = time.perf_counter()
        checks.append({"step": step, "exact_match": measure(), "seconds": round(before - start - spent, 2)})
        spent += time.perf_counter() - before
        say(f"writing, step {step}/{stage.steps}  exact match {checks[-1]['exact_match']:.1%} on a small sample")

    with tempfile.TemporaryDirectory() as scratch:
        log = train_writing(
            model,
            tokenized(rows, tokenizer),
            padding_token(model, tokenizer),
            steps=stage.steps,
            batch_size=stage.batch_size,
            most_rows=stage.rows,
            args=_arguments(scratch, model, settings),
            seed=seed,
            say=say,
            after_step=check,
        )
    return {
        "steps": stage.steps,
        "batch_size": stage.batch_size,
        "rows": len(rows),
        "seconds": round(time.perf_counter() - start, 1),
        "seconds_of_checks": round(spent, 1),
        "log": log,
        "checks": checks,
    }


def _arguments(scratch: str, model: Any, settings: DemoSettings) -> IGCSFTConfig:
    """Learning rates, weight decay and clipping of the writing."""
    stage = settings.writing
    assert stage is not None
    return IGCSFTConfig(
        scratch,
        learning_rate=stage.learning_rate,
        igc_muon_learning_rate=stage.muon_learning_rate,
        weight_decay=stage.weight_decay,
        adam_beta2=settings.adam_beta2,
        warmup_steps=stage.warmup_steps,
        max_grad_norm=settings.max_grad_norm,
        use_cpu=model.device.type == "cpu",
        bf16=False,
        activation_checkpointing=False,
    )
