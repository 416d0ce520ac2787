"""Numbers and tables of results as Markdown."""

from __future__ import annotations

import math


def percent(part: float) -> str:
    """Per cent with one decimal, rounded down."""
    return f"{math.floor(1000 * part + 1e-9) / 10:.1f}"


def seeds(parts: list[float]) -> str:
    """Per cent of several seeds, the worst first."""
    return ", ".join(percent(part) for part in sorted(parts))


def lines(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def signed_percent(cost: dict[str, float] | None) -> str:
    """An overhead in per cent with its quartiles."""
    if cost is None:
        return "-"
    return f"{100 * cost['median']:+.1f} ({100 * cost['low']:+.1f} to {100 * cost['high']:+.1f})"
