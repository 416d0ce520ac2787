"""The tables of `README.md`, made from `results.json`, so that no number is typed by hand.

In: the two files beside this one. Out: the README's text with everything between its two marks replaced.
After a new run: copy its results here, then `python -m tiny_base.record` in `recipes`. A test compares the two.
"""

import json
from pathlib import Path
from typing import Any

from peft_igc.data.bigbench import OPERATION_NAMES

from .questions import OPERATORS


FOLDER = Path(__file__).resolve().parent
BEGIN_MARK = "<!-- made by record.py: begin -->\n"
END_MARK = "<!-- made by record.py: end -->\n"


def read_results() -> dict[str, Any]:
    """The record of the run that made the released model."""
    return json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))


def render_tables(results: dict[str, Any]) -> str:
    """All tables of the README as Markdown."""
    parts = [
        ("The run", _table(["what", "value"], _run_rows(results))),
        ("Other tasks", _table(["task", "exact"], _rows(results["scores"]["tasks"]))),
        ("Arithmetic", _table(["exact, digits", *map(str, range(1, 6))], _arithmetic_rows(results))),
    ]
    return "\n".join(f"## {title}\n\n{table}" for title, table in parts)


def update_readme(text: str, results: dict[str, Any]) -> str:
    """`text` with everything between the marks replaced by the tables of `results`."""
    head, rest = text.split(BEGIN_MARK)
    _, tail = rest.split(END_MARK)
    return head + BEGIN_MARK + render_tables(results) + END_MARK + tail


def _run_rows(results: dict[str, Any]) -> list[list[str]]:
    machine, scores = results["environment"], results["scores"]
    return [
        ["parameters", f"{results['parameters']:,}"],
        ["bytes of the folder", f"{sum(results['bytes'].values()):,}"],
        ["tokens seen (with padding)", f"{results['tokens']:,}"],
        ["training", f"{results['training_seconds'] / 60:.1f} minutes"],
        ["hardware", f"{machine['processor']}, {machine['cores']} cores"],
        ["versions", f"Python {machine['python']}, torch {machine['torch']}, transformers {machine['transformers']}"],
        ["held-out prose", f"{scores['bits_per_byte']:.3f} bits per byte"],
        ["copying, 1-12 digits", _percent(scores["copying"]["1_to_12_digits"])],
        ["arithmetic, mean of the 20 subtasks", _percent(scores["arithmetic"]["overall"])],
        ["questions per figure", str(scores["items_per_figure"])],
    ]


def _arithmetic_rows(results: dict[str, Any]) -> list[list[str]]:
    scores = results["scores"]["arithmetic"]
    return [
        [f"`{operator}`", *(_percent(scores[f"{count}_digit_{OPERATION_NAMES[operator]}"]) for count in range(1, 6))]
        for operator in OPERATORS
    ]


def _rows(scores: dict[str, float]) -> list[list[str]]:
    return [[name.removesuffix("_digits").replace("_", " "), _percent(value)] for name, value in scores.items()]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    readme = FOLDER / "README.md"
    readme.write_text(update_readme(readme.read_text(encoding="utf-8"), read_results()), encoding="utf-8")
