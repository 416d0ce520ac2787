"""Joins results of one benchmark that were measured apart: other seeds, other methods, equal in all else.

In: JSON files that a command of this folder wrote. Out: one such file with all their runs. What is not a run (commit,
versions, settings but for the lists of runs, the base model's scores) must be equal, and no run may be in two files
with other numbers.

    python -m benchmarks.join seed_0.json seed_1.json --output benchmarks/results/mixed_corpora.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


RUNS = ("runs", "learning_rates")  # by seed, or by method and seed
WHICH = ("kinds", "parts", "seeds")  # settings that say which runs there are


def joined(files: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The results of all files, by name, in one; `SystemExit` says which of them was made otherwise."""
    (first, made), *others = files.items()
    made = dict(made)
    for name, other in others:
        made, other = _alike(made, other), _alike(other, made)
        for key in (made.keys() | other.keys()) - set(RUNS):
            if made.get(key) != other.get(key):
                raise SystemExit(
                    f"`{name}` and `{first}` were not made alike: {key!r} is {other.get(key)!r} and {made.get(key)!r}."
                )
        for key in RUNS:
            if key in made or key in other:
                made[key] = merged(made.get(key, {}), other.get(key, {}), f"{key} of `{name}`")
    return made


def _alike(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """One result with the settings that say which runs there are of both."""
    mine, others = (found.get("settings") for found in (one, other))
    if not (isinstance(mine, dict) and isinstance(others, dict)):
        return one
    both = {key: sorted({*mine[key], *others[key]}) for key in WHICH if key in mine and key in others}
    return one | {"settings": mine | both}


def merged(one: dict[str, Any], other: dict[str, Any], where: str) -> dict[str, Any]:
    """Both trees of runs; where both have the same run, it has to be equal."""
    made = dict(one)
    for key, value in other.items():
        if key not in made:
            made[key] = value
        elif made[key] != value:
            if not (isinstance(value, dict) and isinstance(made[key], dict)):
                raise SystemExit(f"{where}: the run with {key!r} = {value!r} is in another file with {made[key]!r}.")
            made[key] = merged(made[key], value, f"{where}, {key}")
    return made


def main() -> None:
    """Reads, joins, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    made = joined({str(path): json.loads(path.read_text(encoding="utf-8")) for path in arguments.files})
    arguments.output.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
