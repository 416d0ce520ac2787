"""The report of a demonstration: totals, missed targets, and the table of base and adapter, a row per set.

In: counts of `sets`. Out: numbers and lines of text. Try it: `pytest tests/demo/test_report.py`
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from ..data.bigbench import OPERATION_NAMES
from ..inference.evaluation import interval
from ..tuner.saving.model_card import RECORD


__all__ = ["OPERATIONS", "card_record", "missed_targets", "report_table", "summary"]

OPERATIONS = tuple(OPERATION_NAMES.values())
_TITLES = {
    "bigbench": "BIG-bench arithmetic, whole answers",
    "unread_authors": "texts by authors who are not trained",
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
    """
    scores = report["groups"]

    def share(groups: Set[str]) -> float:
        found = [scores[group] for group in groups]
        return sum(round(one["exact_match"] * one["n"]) for one in found) / sum(one["n"] for one in found)

    of_one_digit = {group for group in scores if group.startswith("1_digit_")}
    parts = {name: share({group for group in scores if group.endswith(f"_{name}")}) for name in OPERATIONS}
    parts |= {"one digit": share(of_one_digit), "two digits and more": share(scores.keys() - of_one_digit)}
    return {"all": report["exact_match"]} | parts


def missed_targets(report: Mapping[str, Any], target: float, per_group: float) -> list[str]:
    """One sentence per missed target of BIG-bench: over all items, and in each subtask."""
    wanted = {"BIG-bench": (report["exact_match"], target)}
    wanted |= {group: (score["exact_match"], per_group) for group, score in report["groups"].items()}
    missed = {name: pair for name, pair in wanted.items() if pair[0] < pair[1]}
    return [f"{name}: {found:.2%} exact, the target is {least:.1%}" for name, (found, least) in missed.items()]


def card_record(results: Mapping[str, Any]) -> str:
    """The section of the model card about the training and the test."""
    training = results["training"]
    about = (
        f"Trained for {training['steps']:,} steps on {training['distinct_rows']:,} rows, seed {training['seed']}. "
        f"Exact match of whole answers on the {results['sets']['bigbench']['n']:,} questions of a generated BIG-bench "
        "arithmetic set. None of its calculations was trained, except those of one digit, of which the set has all."
    )
    return "\n".join([RECORD, "", about, "", *_parts(results), *_promise(results)])


def _parts(results: Mapping[str, Any]) -> list[str]:
    """The table of base and adapter on the parts of BIG-bench."""
    alone, found = (results["summary"][kind] for kind in ("base", "igc"))
    rows = [f"| {part} | {alone[part]:.2%} | {score:.2%} |" for part, score in found.items()]
    return ["| questions | base | with the adapter |", "|---|---|---|", *rows]


def _promise(results: Mapping[str, Any]) -> list[str]:
    """The number of texts that are answered wrongly, with its interval."""
    if (report := results["sets"].get("unread_authors")) is None:
        return []
    n, wrong = report["n"], report["wrong"]
    low, high = (1000 * bound for bound in interval(wrong, n))
    return [
        "",
        f"Of {n:,} texts by authors of whom none was trained or used for `confidence`, {report['right']:,} were "
        f"answered rightly, and {wrong} wrongly: {1000 * wrong / n:.1f} per thousand, with a confidence of 95% "
        f"between {low:.1f} and {high:.1f}.",
    ]


def report_table(results: Mapping[str, Any]) -> str:
    """The parts of BIG-bench, then all sets; `not measured` where texts were not at hand."""
    sets, base = results["sets"], results["base"]["bigbench"]
    width = max(map(len, _TITLES.values())) + 2
    header = f"{'per cent':<{width}}{'n':>6}{'base':>14}{'right':>8}{'wrong':>8}{'silent':>8}"
    lines = [*_parts(results), "", header]
    number = "-" if base["number_only"] is None else f"{100 * base['number_only']:.1f}"
    for name in (name for name in _TITLES if name in sets):
        if (found := sets[name]) is None:
            lines.append(f"{_TITLES[name]:<{width}}{'not measured':>20}")
            continue
        alone = f"{100 * base['whole_answer']:.1f} / {number}" if name == "bigbench" else "-"
        shares = "".join(f"{100 * found[key] / found['n']:>8.1f}" for key in ("right", "wrong", "silent"))
        lines.append(f"{_TITLES[name]:<{width}}{found['n']:>6,}{alone:>14}{shares}")
    lines.append("base: whole answers / the last number when asked for the number only, of a part of the items.")
    if weights := results["base_model"]["weights"]:
        lines.append(f"The base model has {weights}.")
    return "\n".join(line.rstrip() for line in lines)
