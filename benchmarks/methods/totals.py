"""What the cells of a compared method come to: totals that say of how many items they are, and methods side by side.

A method skips a cell where no right answer of its form has room (`method_measures.by_cell`). So a total has `n`, the
items that were asked, beside `of`, the items of the whole test set: where `n` is less it is partial, which `shown`
marks, and only `bounds` can be held against a threshold. Two methods are compared on the cells that both measured
(`side_by_side`). Nothing is measured here. Try it: `pytest tests/benchmarks/test_traits.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from benchmarks.methods.items import LONGER, TRAINED
from peft_igc.data.bigbench import OPERATION_NAMES


MARK = "*"  # behind a total of fewer items than the test set has
BOTH = ("seen", "held_out")

Found = Mapping[str, Any]  # of `method_measures.by_cell`
Wanted = Callable[[str], bool]  # whether a cell of this name is meant


def _is_in(name: str, phrasings: tuple[str, ...], lengths: range, operation: str = "") -> bool:
    """Whether a cell is of these phrasings, lengths and operation."""
    phrasing, _, rest = name.partition("/")
    return phrasing in phrasings and int(rest.split("_")[0]) in lengths and rest.endswith(operation)


# Groups of cells; where nothing else is said, of trained lengths and of both phrasings.
GROUPS: dict[str, Wanted] = {
    "all": partial(_is_in, phrasings=BOTH, lengths=TRAINED),
    **{name: partial(_is_in, phrasings=BOTH, lengths=TRAINED, operation=name) for name in OPERATION_NAMES.values()},
    **{phrasing: partial(_is_in, phrasings=(phrasing,), lengths=TRAINED) for phrasing in (*BOTH, "shifted")},
    "longer": partial(_is_in, phrasings=BOTH, lengths=LONGER),
}


def totals(found: Found) -> dict[str, Any]:
    """The total of every group of cells."""
    return {key: total(found, wanted) for key, wanted in GROUPS.items()}


def total(found: Found, wanted: Wanted) -> dict[str, Any] | None:
    """Exact match and mean tokens over the cells whose name is wanted, every item counting alike.

    Returns:
        `n` items were asked `of` those that the test set has. None where it has none; the means are None where all of
        them were skipped.
    """
    parts = [cell for name, cell in found["cells"].items() if wanted(name)]
    n = sum(part["n"] for part in parts)
    of = n + sum(cell["n"] for name, cell in found["skipped"].items() if wanted(name))
    if not of:
        return None

    def mean(key: str) -> float | None:
        return sum(part[key] for part in parts) / n if n else None

    beyond = [part["most_tokens_beyond_target"] for part in parts if part["most_tokens_beyond_target"] is not None]
    return {
        "n": n,
        "of": of,
        "right": sum(part["right"] for part in parts),
        "exact_match": mean("right"),
        "generated_tokens": mean("generated_tokens"),
        "target_tokens_and_end": mean("target_tokens_and_end"),
        "most_tokens_beyond_target": max(beyond, default=None),
        "calls": mean("calls"),
        "malformed_calls": sum(part["malformed_calls"] for part in parts),
        "seconds_in_tool": mean("seconds_in_tool"),
    }


def bounds(total: Mapping[str, Any]) -> tuple[float, float]:
    """The least and the most that exact match can be over the whole test set, whatever the skipped items would be."""
    skipped = total["of"] - total["n"]
    return total["right"] / total["of"], (total["right"] + skipped) / total["of"]


def shown(total: Mapping[str, Any] | None, key: str = "exact_match", factor: float = 100.0) -> str:
    """A total as text, with a mark if it is partial; `-` where nothing was asked."""
    if total is None:
        return "-"
    text = "-" if total[key] is None else f"{factor * total[key]:.1f}"
    return text + MARK * (total["n"] < total["of"])


def partial_totals(made: Mapping[str, Any]) -> str:
    """Which of a method's totals are of how many items only; "" if none is partial."""
    counts = [f"{key} {t['n']} of {t['of']}" for key, t in made.items() if t is not None and t["n"] < t["of"]]
    return ", ".join(counts)


def side_by_side(own: Found, other: Found, wanted: Wanted) -> dict[str, Any]:
    """Exact match of two methods on the wanted cells that both measured.

    Returns:
        `ahead`, whether the first one has more right (None without a common cell); `exact_match` of both; `n`, the
        items of it; `left_out`, those that one of the two skipped.
    """
    common = own["cells"].keys() & other["cells"].keys()
    one, two = (total(found, lambda name: wanted(name) and name in common) for found in (own, other))
    whole = total(own, wanted)
    of = 0 if whole is None else whole["of"]
    if one is None or two is None:
        return {"ahead": None, "exact_match": None, "n": 0, "left_out": of}
    assert one["n"] == two["n"], (one, two)  # results are joined only where the test set is the same
    scores = [one["exact_match"], two["exact_match"]]
    return {"ahead": scores[0] > scores[1], "exact_match": scores, "n": one["n"], "left_out": of - one["n"]}
