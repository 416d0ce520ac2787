"""Reports of the demonstration: totals, missed targets, a table of base model and IGC, a plot of the training.

In: reports of `inference.evaluation.evaluate`, and the record of the training. Out: numbers, text, a PNG. Nothing is
measured here.
Try it: `pytest tests/test_cli.py -k "reported or missed or good"`
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..data.bigbench import OPERATION_NAMES
from ..trainer.learning_curves import draw_curves
from ..tuner.saving.model_card import RECORD
from .settings import DemoSettings


__all__ = ["OPERATIONS", "accuracy_table", "card_record", "draw", "missed_targets", "summary"]

OPERATIONS = tuple(OPERATION_NAMES.values())


def summary(report: Mapping[str, Any]) -> dict[str, float]:
    """Exact match overall, per operation, of the one-digit subtasks, and of all others.

    The one-digit subtasks are complete sets, so their items cannot be kept out of training.

    Args:
        report: A report of `evaluate` with BIG-bench groups.
    """
    counts = _cells(report["groups"])
    parts = {name: counts[name, None] for name in OPERATIONS}
    (right, n), (right_of_one, n_of_one) = counts[None, None], counts[None, "1"]
    parts |= {"one digit": (right_of_one, n_of_one), "two digits and more": (right - right_of_one, n - n_of_one)}
    return {"all": report["exact_match"]} | {part: right / n for part, (right, n) in parts.items()}


def missed_targets(before: Mapping[str, Any], after: Mapping[str, Any], settings: DemoSettings) -> list[str]:
    """One sentence per missed target.

    Args:
        before: Report of `evaluate` on the base model.
        after: Report on the same model with the trained adapter.
        settings: The targets.
    """
    first, last = summary(before), summary(after)
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


def draw(path: Path, training: Mapping[str, Any]) -> None:
    """Plots losses, read accuracy and exact match against the step, in the style of the trainer's learning curves.

    Args:
        path: Path of the PNG. Nothing is written if the run was too short for a log or a measurement.
        training: The part `training` of the results.
    """
    names = {"loss_lm": "loss", "loss_read": "igc/loss_read", "read_accuracy": "igc/read_accuracy"}
    log = [
        {"step": entry["step"]} | {name: entry.get(key) for key, name in names.items()}
        for entry in training["history"]
    ]
    log += [{"step": check["step"], "eval_exact_match": check["exact_match"]} for check in training["checks"]]
    draw_curves(log, path)


def card_record(results: Mapping[str, Any], settings: DemoSettings) -> str:
    """The section of the model card about the training and the test.

    Args:
        results: The content of `results.json`.
        settings: The settings of the run.
    """
    training, parts = results["training"], results["summary"]
    distinct = "" if settings.distinct_rows is None else f" of {settings.distinct_rows:,} distinct ones"
    rows = [f"| {part} | {parts['base'][part]:.2%} | {score:.2%} |" for part, score in parts["igc"].items()]
    return "\n".join(
        [
            RECORD,
            "",
            f"Trained for {training['steps']:,} steps on {training['rows']:,} generated rows{distinct}, seed "
            f"{training['seed']}. Exact match of whole answers on the {results['igc']['n']:,} questions of a "
            "generated BIG-bench arithmetic set. None of its calculations was trained, except those of one digit, of "
            "which the set has all.",
            "",
            "| questions | base | with the adapter |",
            "|---|---|---|",
            *rows,
        ]
    )


def accuracy_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Reports of `evaluate` side by side: a row per operation, a column per number of digits, per cent right.

    Args:
        results: A report with BIG-bench groups for the title of each block of columns, for instance
            `{"base": report, "igc": report}`. Other groups are ignored.

    Returns:
        Lines of text. `all` is a mean over items, not over groups; `-` means that there are no items. Figures are
        rounded down, so 100.0 means that every answer was right.
    """
    cells = {title: _cells(report["groups"]) for title, report in results.items()}
    digits = sorted({d for counts in cells.values() for _, d in counts if d is not None}, key=int)
    names = [name for name in OPERATIONS if any((name, None) in counts for counts in cells.values())]
    width, first = 7, max(map(len, OPERATIONS))
    block = width * (len(digits) + 1)
    lines = [" " * first + "".join(f"   {title:^{block}}" for title in cells)]
    header = "".join(f"{title:>{width}}" for title in (*digits, "all"))
    lines.append(f"{'digits':<{first}}" + f"   {header}" * len(cells))
    for name in (*names, None):
        row = f"{name or 'all':<{first}}"
        for counts in cells.values():
            row += "   " + "".join(f"{_percent(counts.get((name, d))):>{width}}" for d in (*digits, None))
        lines.append(row)
    return "\n".join(line.rstrip() for line in lines)


def _cells(groups: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str | None, str | None], tuple[int, int]]:
    """(right answers, items) by (operation, digits). None as operation or digits means all of them."""
    counts: dict[tuple[str | None, str | None], tuple[int, int]] = {}
    for group, score in groups.items():
        digits, _, name = group.partition("_digit_")
        if name not in OPERATIONS or not digits.isdecimal():
            continue
        for key in ((name, digits), (name, None), (None, digits), (None, None)):
            right, n = counts.get(key, (0, 0))
            counts[key] = (right + round(score["exact_match"] * score["n"]), n + score["n"])
    return counts


def _percent(count: tuple[int, int] | None) -> str:
    """Per cent right with one decimal, rounded down, or `-` without items."""
    return "-" if count is None else f"{count[0] * 1000 // count[1] / 10:.1f}"
