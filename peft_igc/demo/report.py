"""Reports of the demonstration: totals, missed targets, and the table of base and adapter, a row per set.

In: reports of `measure`. Out: numbers and lines of text. Nothing is measured here.
Try it: `pytest tests/demo/test_report.py`
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..data.bigbench import OPERATION_NAMES
from ..tuner.saving.model_card import RECORD


__all__ = ["OPERATIONS", "accuracy_table", "card_record", "missed_targets", "report_table", "summary"]

OPERATIONS = tuple(OPERATION_NAMES.values())
NOT_MEASURED = "not measured"
_ROWS = {
    "bigbench": "BIG-bench arithmetic, whole answers",
    "unread_authors": "texts by authors who are not trained",
    "plain_requests": "plain requests, whole answers",
    "new_plain_requests": "plain requests of another author, whole answers",
    "third_plain_requests": "plain requests of a third author, whole answers",
    "fourth_plain_requests": "plain requests of a fourth author, whole answers",
    "fifth_plain_requests": "plain requests of a fifth author, whole answers",
    "sixth_plain_requests": "plain requests of a sixth author, whole answers",
    "seventh_plain_requests": "plain requests of a seventh author, whole answers",
    "eighth_plain_requests": "plain requests of an eighth author, whole answers",
    "misleading_stories": "stories made to mislead (silence is due)",
    "mentioned_calculations": "texts that name a calculation and ask for something else (silence is due)",
    "more_mentioned_calculations": "such texts of another author (silence is due)",
    "new_mentioned_calculations": "such texts of a third author (silence is due)",
    "held_out_phrasings": "held-out phrasings, whole answers",
    "six_to_twenty_digits": "6 to 20 digits, whole answers",
    "word_problems": "MAWPS with one step (held out)",
    "several_steps_mawps": "MAWPS with several steps (silence is right)",
    "several_steps_gsm8k": "GSM8K with several steps (silence is right)",
    "assistant_prompts": "prompts to assistants (silence is right)",
    "held_out_silent": "held-out texts without a request (silence is right)",
}


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


def missed_targets(report: Mapping[str, Any], target: float, per_group: float) -> list[str]:
    """One sentence per missed target of BIG-bench: over all items, and in each subtask."""
    missed = []
    if report["exact_match"] < target:
        missed.append(f"BIG-bench: {report['exact_match']:.2%} exact, the target is {target:.1%}")
    return missed + [
        f"{group}: {score['exact_match']:.2%} exact, the target is {per_group:.1%}"
        for group, score in report["groups"].items()
        if score["exact_match"] < per_group
    ]


def card_record(results: Mapping[str, Any]) -> str:
    """The section of the model card about the training and the test, from the content of `results.json`."""
    training, parts = results["training"], results["summary"]
    rows = [f"| {part} | {parts['base'][part]:.2%} | {score:.2%} |" for part, score in parts["igc"].items()]
    return "\n".join(
        [
            RECORD,
            "",
            f"Trained for {training['steps']:,} steps on {training['distinct_rows']:,} rows, seed "
            f"{training['seed']}. Exact match of whole answers on the {results['sets']['bigbench']['n']:,} questions "
            "of a generated BIG-bench arithmetic set. None of its calculations was trained, except those of one "
            "digit, of which the set has all.",
            "",
            "| questions | base | with the adapter |",
            "|---|---|---|",
            *rows,
            *_promise(results["sets"].get("unread_authors")),
        ]
    )


def _promise(report: Mapping[str, Any] | None) -> list[str]:
    """How many texts are answered wrongly, with the bounds of an interval of 95% (Wilson's)."""
    if report is None:
        return []
    n, wrong, z = report["n"], report["wrong"], 1.96
    centre, spread = wrong + z**2 / 2, z * math.sqrt(wrong * (n - wrong) / n + z**2 / 4)
    low, high = (max(0.0, 1000 * (centre + sign * spread) / (n + z**2)) for sign in (-1, 1))
    return [
        "",
        f"Of {n:,} texts by authors of whom none was trained or used for `confidence`, {report['right']:,} were "
        f"answered rightly, and {wrong} wrongly: {1000 * wrong / n:.1f} per thousand, with a confidence of 95% "
        f"between {low:.1f} and {high:.1f}.",
    ]


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


def report_table(results: Mapping[str, Any]) -> str:
    """BIG-bench's subtasks, then all sets, then harm; `not measured` where texts were not at hand."""
    sets, others = results["sets"], results["base"]
    columns = {"base": others["bigbench"]} if "bigbench" in others else {}
    columns["IGC"] = sets["bigbench"]
    width = max(map(len, _ROWS.values())) + 2
    header = f"{'per cent':<{width}}{'n':>6}{'base':>14}{'right':>8}{'wrong':>8}{'silent':>8}"
    lines = [accuracy_table(columns), "", header]
    for name, title in _ROWS.items():
        if name not in sets:
            continue
        found = sets[name]
        if found is None:
            lines.append(f"{title:<{width}}{NOT_MEASURED:>20}")
            continue
        shares = "".join(f"{100 * found[key] / found['n']:>8.1f}" for key in ("right", "wrong", "silent"))
        lines.append(f"{title:<{width}}{found['n']:>6,}{_base(others.get(name)):>14}{shares}")
    lines.append("base: whole answers / the last number when asked for the number only, of a part of the items.")
    if quiet := sets.get("harm"):
        bits = quiet["bits_per_byte"]
        lines.append(
            f"Without a calculation: logits bit-identical in {quiet['logits_bit_identical']} of {quiet['prompts']} "
            f"prompts, {quiet['same_answers']} of {quiet['answers']} greedy answers the same, {bits['igc']:.4f} bits "
            f"per byte (base {bits['base']:.4f})."
        )
    if weights := results["base_model"]["weights"]:
        lines.append(f"The base model has {weights}.")
    return "\n".join(line.rstrip() for line in lines)


def _base(found: Mapping[str, Any] | None) -> str:
    """The base's two figures, or a dash."""
    if found is None:
        return "-"
    number = "-" if found["number_only"] is None else f"{100 * found['number_only']:.1f}"
    return f"{100 * found['whole_answer']:.1f} / {number}"
