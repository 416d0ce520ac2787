"""The paper's table of traits with a measurement in every cell, and what must hold of the token interface.

In: the results of `methods`. Out: for each trait and method `holds` (True, False, or None for "not measured here"),
the value that says so and where it stands in the results, or the reason. The thresholds are below. The paper's own
table and its published accuracies stand beside, marked as quoted; nothing is taken from them. A total from which
skipped items are left out says that something holds, or not, only where these could not change it.
Try it: `pytest tests/benchmarks/test_traits.py`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.methods.totals import GROUPS, MARK, bounds, partial_totals, shown, side_by_side
from peft_igc.data.bigbench import OPERATION_NAMES


CAPABLE = 0.95  # exact match from which a method counts as able
TOLD = 0.95  # share from which something can be told of a method, or follows
TARGET, FASTER = 0.999, 3.0  # of the token interface: exact match, and how many times as fast as tool use
UPPER_BOUND = "parser"

# Quoted: Dietz and Klakow, "IGC", accuracies on BIG-bench arithmetic, the n-shot columns: the best value for any n.
QUOTED_ACCURACY = {
    "source": "Dietz and Klakow, published benchmark results, not measured here",
    "PaLM 535B, n-shot": {
        "all": 0.94,
        "addition": 0.94,
        "subtraction": 0.96,
        "multiplication": 0.91,
        "division": 0.97,
    },
    "best below 100B, n-shot": {
        "all": 0.49,
        "addition": 0.49,
        "subtraction": 0.69,
        "multiplication": 0.35,
        "division": 0.71,
    },
}
# Quoted: the same paper, table of traits.
_QUOTED = {
    "addition and subtraction": "no yes yes yes",
    "multiplication and division": "no no yes yes",
    "single-step": "yes no no yes",
    "on the accelerator": "yes yes no yes",
    "explicit": "no yes yes yes",
    "modular": "no partly partly yes",
    "internal": "yes no no yes",
    "pretraining": "yes no no yes",
    "dynamic number lengths": "yes yes yes no",
    "generically extensible": "yes yes yes partly",
}
_QUOTED_COLUMNS = ("basic LLM", "chain of thought", "tool use", "IGC")
QUOTED_TRAITS = {name: dict(zip(_QUOTED_COLUMNS, row.split(), strict=True)) for name, row in _QUOTED.items()}

Run = Mapping[str, Any]


def traits(results: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Each trait of each method that was measured."""
    return {
        name: {method: make(run, results["timing"].get(method)) for method, run in results["runs"].items()}
        for name, make in _TRAITS.items()
    }


def _cell(holds: bool | None, value: Any, key: str) -> dict[str, Any]:
    return {"holds": holds, "value": value, "key": key}


def _unmeasured(reason: str) -> dict[str, Any]:
    return {"holds": None, "reason": reason}


def _capable(totals: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any]:
    """Whether the least of some totals is high, whatever was skipped; their items stand beside."""
    n, of = (sum(total[count] for total in totals) for count in ("n", "of"))
    least, most = (min(parts) for parts in zip(*map(bounds, totals), strict=True))
    if least < CAPABLE <= most:
        return _unmeasured(
            f"{of - n} of {of} items were skipped, so the least of {key} is from {least:.4f} to {most:.4f}"
        )
    value = min((total["exact_match"] for total in totals if total["n"]), default=None)
    return _cell(least >= CAPABLE, value, key) | {"n": n, "of": of}


def _able(*names: str) -> Any:
    """Whether the operations named are right in cells of trained lengths."""

    def trait(run: Run, timing: Any) -> dict[str, Any]:
        return _capable([run["totals"][name] for name in names], f"totals/{'|'.join(names)}/exact_match, the least")

    return trait


def _single_step(run: Run, timing: Any) -> dict[str, Any]:
    """No right answer takes a pass more than the target has tokens and an end; of wrong ones nothing can be told."""
    if timing is None:
        return _unmeasured("was not timed in this run")
    value = timing["most_passes_beyond_target"]
    if value is None:
        return _unmeasured("no timed answer was right")
    return _cell(value <= 0, value, "timing/most_passes_beyond_target")


def _on_accelerator(run: Run, timing: Any) -> dict[str, Any]:
    """Nothing is calculated between two passes; how many values a pass brings to the host stands beside."""
    reads = run["probes"]["host_reads"]
    if reads is None:
        return _cell(False, None, "has no model")
    if not run["totals"]["all"]["n"]:
        return _unmeasured("every item was skipped")
    value = {"calls_per_answer": run["totals"]["all"]["calls"], "host_reads_per_pass": reads}
    return _cell(value["calls_per_answer"] == 0, value, "totals/all/calls, probes/host_reads")


def _probe(name: str, without: str) -> Any:
    """Whether a probe's share is high."""

    def trait(run: Run, timing: Any) -> dict[str, Any]:
        value = run["probes"][name]
        return _cell(False, None, without) if value is None else _cell(value >= TOLD, value, f"probes/{name}")

    return trait


def _internal(run: Run, timing: Any) -> dict[str, Any]:
    """Right answers take no token beyond the target's own and the end."""
    value = run["totals"]["all"]["most_tokens_beyond_target"]
    if value is None:
        return _unmeasured("no answer was right")
    return _cell(value <= 0, value, "totals/all/most_tokens_beyond_target")


def _pretraining(run: Run, timing: Any) -> dict[str, Any]:
    return _unmeasured("nothing is pretrained here; `benchmarks/accuracy/pretraining.py` does so with IGC")


def _lengths(run: Run, timing: Any) -> dict[str, Any]:
    """Operands longer than any that is trained."""
    total = run["totals"]["longer"]
    if total is None:
        return _unmeasured("no cell of longer operands")
    return _capable([total], "totals/longer/exact_match")


def _extensible(run: Run, timing: Any) -> dict[str, Any]:
    value = run["probes"]["new_operation"]
    if value is None:
        return _unmeasured("only a calculator has a table of operations to be extended")
    return _cell(value == 1.0, value, "probes/new_operation: registered and exact; its reading was not trained")


_TRAITS = {
    "addition and subtraction": _able("addition", "subtraction"),
    "multiplication and division": _able("multiplication", "division"),
    "single-step": _single_step,
    "on the accelerator": _on_accelerator,
    "explicit": _probe("calculation_shown", "nothing names a calculation"),
    "modular": _probe("result_followed", "there is no result that another could replace"),
    "internal": _internal,
    "unharmed without arithmetic": _probe("unharmed", "not asked"),
    "pretraining": _pretraining,
    "dynamic number lengths": _lengths,
    "generically extensible": _extensible,
}


def verdict(results: Mapping[str, Any], subject: str = "igc_tokens") -> dict[str, Any] | None:
    """What must hold of the token interface against every method but the parser; None where it was not measured.

    Two methods are compared on the cells that both measured. What is not compared stands in `skipped`, by method, and
    in the `left_out` of `ahead_overall`, in items.
    """
    runs = results["runs"]
    if subject not in runs:
        return None
    own, others = runs[subject], {name: run for name, run in runs.items() if name not in (subject, UPPER_BOUND)}
    behind = {name: _behind(own["measured"], run["measured"]) for name, run in others.items()}
    skipped = {name: list(run["measured"]["skipped"]) for name, run in {subject: own, **others}.items()}
    overall = own["totals"]["all"]
    beyond = overall["most_tokens_beyond_target"]
    made: dict[str, Any] = {
        "behind": {name: found for name, found in behind.items() if found},
        "skipped": {name: found for name, found in skipped.items() if found},
        "ahead_overall": {
            name: side_by_side(own["measured"], run["measured"], GROUPS["all"]) for name, run in others.items()
        },
        "exact_match": {
            key: total and {part: total[part] for part in ("exact_match", "n", "of")}
            for key, total in own["totals"].items()
        },
        "at_target": bounds(overall)[0] >= TARGET,
        "no_token_beyond_target": beyond is not None and beyond <= 0,
    }
    return made | _speeds(results["timing"], subject)


def _speeds(timing: Mapping[str, Any], subject: str) -> dict[str, Any]:
    """How fast the token interface is beside tool use, on the timed questions that both answer rightly (`speed_of`).

    `fast_enough` is None where the two were not timed beside each other, and for a tool with which no common answer is
    right.
    """
    made: dict[str, Any] = {"fast_enough": None}
    for name in (name for name in timing if name.startswith("tool") and subject in timing):
        own, other = timing[subject], timing[name]
        both = [a and b for a, b in zip(own["all_right"], other["all_right"], strict=True)]
        seconds, passes = (
            [(slow, fast) for slow, fast, hit in zip(other[key], own[key], both, strict=True) if hit]
            for key in ("all_seconds", "all_passes")
        )
        ratio = statistics.median(slow / fast for slow, fast in seconds) if seconds else None
        more = sum(slow for slow, _ in passes) / sum(fast for _, fast in passes) if passes else None
        made.setdefault("speed_of", {})[name] = {"n": len(seconds), "of": len(both)}
        made.setdefault("times_the_passes", {})[name] = more
        made.setdefault("times_as_fast_as", {})[name] = ratio
        made["fast_enough"] = {**(made["fast_enough"] or {}), name: None if ratio is None else ratio >= FASTER}
    return made


def _behind(own: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, list[float]]:
    """The cells in which another method is ahead, with both scores; those that the first one skipped are not here."""
    pairs = {
        cell: [own["cells"][cell]["exact_match"], counts["exact_match"]]
        for cell, counts in other["cells"].items()
        if cell not in own["skipped"]
    }
    return {cell: scores for cell, scores in pairs.items() if scores[0] < scores[1]}


def table(results: Mapping[str, Any]) -> str:
    """Per cent exact, tokens, passes and milliseconds of every method; partial totals are marked."""
    columns = ("all", *OPERATION_NAMES.values(), "seen", "held_out", "longer", "shifted")
    lines = [f"{'':<28}" + "".join(f"{name[:8]:>9}" for name in (*columns, "tokens", "passes", "ms"))]
    notes = []
    for method, run in results["runs"].items():
        cells = [shown(run["totals"][name]) for name in columns]
        timing = results["timing"].get(method)
        cells.append(shown(run["totals"]["all"], "generated_tokens", 1.0))
        cells += (
            ["-", "-"] if timing is None else [f"{timing['passes']:.1f}", f"{1e3 * timing['seconds']['median']:.1f}"]
        )
        lines.append(f"{method:<28}" + "".join(f"{cell:>9}" for cell in cells))
        if counts := partial_totals(run["totals"]):
            notes.append(f"{MARK} {method} skipped what no right answer of its form has room for; items: {counts}")
    for name, scores in QUOTED_ACCURACY.items():
        if isinstance(scores, dict):
            cells = [f"{100 * scores[key]:.0f}" if key in scores else "" for key in columns]
            lines.append(f"{'quoted: ' + name:<28}" + "".join(f"{cell:>9}" for cell in cells))
    return "\n".join([*lines, *notes])
