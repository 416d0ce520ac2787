"""Finds operand columns for rows that have none with a language model, in a process similar to the Toolformer's.

In: rows with `prompt` and `completion`, or `messages`, with one answer each; a causal LM and its tokenizer. Out: the
rows with operand columns, which are None where no annotation was kept, and a `Report`.
Each candidate calculation is tried as a note in front of the last message before the answer: `58 * 36 is 2088. `. The
candidate whose note gives the lowest loss of the answer (`answer_loss`) is kept if that loss is lower by `margin` than
both the loss without a note and the loss with the note without its result (`58 * 36 is. `).
The method cannot find out that a row asks for no arithmetic: a row without annotation is not supervised, and never
labelled `"none"`. Nothing is trained.
Try it: `peft-igc annotate --help`, `pytest tests/annotation/test_self_annotation.py`
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..data.columns import COLUMNS
from ..inference.decoding import eval_mode
from .answer_loss import ScoredRow, answer_losses, read_row
from .candidates import Calculation, by_pattern, numbers_of


__all__ = ["Annotated", "Report", "Settings", "annotate", "report_path", "write"]

NOTE, CALL = "{a} {operator} {b} is {result}. ", "{a} {operator} {b} is. "  # with and without the result
EXAMPLES = 10  # rows that a report shows


@dataclass(frozen=True)
class Settings:
    """Settings of the annotation.

    Args:
        margin: Minimum decrease of the answer's loss by the result, in nats per token. A higher value gives fewer and
            more reliable annotations. Lower it for long answers, in which the decrease is a mean over more tokens.
        max_numbers: Number of integers of a prompt, counted from its end, that are combined in pairs.
        num_digits: Maximum number of digits of operands and results, at most that of the adapter to be trained.
        batch_size: Number of texts scored at once, and of rows examined at once.
    """

    margin: float = 1.0
    max_numbers: int = 4
    num_digits: int = 10
    batch_size: int = 32

    def __post_init__(self) -> None:
        if not 0 <= self.margin < float("inf"):
            raise ValueError(f"`margin={self.margin}` must be at least 0 nats per token.")
        for name, least in (("max_numbers", 2), ("num_digits", 1), ("batch_size", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}={getattr(self, name)}` must be at least {least}.")


@dataclass
class Report:
    """Numbers of rows and of candidates by outcome.

    Every candidate is counted once: `candidates` is `kept` plus the sum of `rejected`.
    """

    rows: int = 0
    kept: int = 0  # rows with an annotation, which is one candidate each
    rows_without_candidates: int = 0
    rows_with_more_numbers: int = 0  # than `max_numbers`, so not all pairs were tried
    candidates: int = 0
    rejected: Counter[str] = field(default_factory=Counter)  # by reason
    examples: list[dict[str, Any]] = field(default_factory=list)  # the first rows, with losses

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self) | {"rejected": dict(sorted((+self.rejected).items()))}

    def format(self) -> str:
        """The report as a table for a terminal, with the examples."""
        found = self.as_dict()
        counts = [(name.replace("_", " "), value) for name, value in found.items() if isinstance(value, int)]
        lines = [f"{name:<44}{value:>10,}" for name, value in counts]
        lines += ["rejected", *(f"  {name:<42}{value:>10,}" for name, value in found["rejected"].items())]
        return "\n".join(
            [*lines, *(f"{one['annotation'] or 'nothing kept':<30} {one['prompt']!r:.100}" for one in self.examples)]
        )


class Annotated(NamedTuple):
    """Result of `annotate`: rows for `data.to_dataset`, and the report."""

    rows: list[dict[str, Any]]
    report: Report


class _Choice(NamedTuple):
    """The best candidate of a row, with mean losses in nats per token."""

    calculation: Calculation
    with_result: float
    without_note: float
    without_result: float | None  # None: not scored, because the candidate was rejected before
    kept: bool


def annotate(
    rows: Iterable[Mapping[str, Any]],
    model: Any,
    tokenizer: Any,
    settings: Settings | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Annotated:
    """Annotates rows with the calculations whose results lower the loss of a language model.

    Args:
        rows: Rows with `prompt` and `completion` (two strings, or two lists of messages), or with `messages` that end
            in the answer. One assistant message per row. Other fields are kept.
        model: A causal LM without an active calculator.
        tokenizer: Its tokenizer, with a chat template if there are messages.
        settings: None: the defaults of `Settings`.
        progress: Called with the number of rows done and the number of all rows.

    Raises:
        ValueError: A row has another form, or has operand columns; or the tokenizer has no chat template.
    """
    settings, given = settings or Settings(), [dict(row) for row in rows]
    if not given:
        raise ValueError("There are no rows to annotate. Check the file with the rows.")
    for index, row in enumerate(given):
        if any(row.get(name) is not None for name in COLUMNS):
            raise ValueError(f"row {index} has operand columns already. Remove them, or leave the row out.")
    parts = [read_row(row, f"row {index}") for index, row in enumerate(given)]
    if not tokenizer.chat_template and any(not isinstance(part.context, str) for part in parts):
        raise ValueError("The tokenizer has no chat template, but rows hold messages. Set `tokenizer.chat_template`.")
    report = Report(rows=len(given))
    chosen: list[_Choice | None] = []
    scorer = _Scorer(model, tokenizer, settings, report)
    with eval_mode(model):
        for start in range(0, len(parts), settings.batch_size):
            chosen += scorer.choose(parts[start : start + settings.batch_size])
            if progress is not None:
                progress(len(chosen), len(parts))
    found = [choice.calculation if choice is not None and choice.kept else None for choice in chosen]
    report.kept = sum(calculation is not None for calculation in found)
    made = [row | _columns(calculation) for row, calculation in zip(given, found, strict=True)]
    report.examples = [_example(*pair) for pair in zip(parts[:EXAMPLES], chosen[:EXAMPLES], strict=True)]
    return Annotated(made, report)


class _Scorer:
    """Scores the candidates of rows, and counts their outcomes in the report."""

    def __init__(self, model: Any, tokenizer: Any, settings: Settings, report: Report) -> None:
        self.model, self.tokenizer, self.settings, self.report = model, tokenizer, settings, report

    def choose(self, rows: Sequence[ScoredRow]) -> list[_Choice | None]:
        """The best candidate of each row, or None without candidates."""
        rejected, margin = self.report.rejected, self.settings.margin
        candidates = self._candidates(rows)
        tried = [(at, one) for at, found in enumerate(candidates) for one in (None, *found) if found]
        notes = [(rows[at], "" if one is None else NOTE.format_map(one._asdict())) for at, one in tried]
        losses = dict(zip(tried, self._losses(notes), strict=True))
        best: dict[int, Calculation] = {}
        for at, found in enumerate(candidates):
            self.report.rows_without_candidates += not found
            fit = [one for one in found if losses[at, one] is not None and losses[at, None] is not None]
            rejected["text too long for the model"] += len(found) - len(fit)
            rejected["another one was better"] += max(len(fit) - 1, 0)
            if fit:
                best[at] = min(fit, key=lambda one: losses[at, one])
        # The third text is scored only for candidates that pass the first comparison.
        hopeful = [at for at, one in best.items() if losses[at, None] - losses[at, one] >= margin]
        calls = [(rows[at], CALL.format_map(best[at]._asdict())) for at in hopeful]
        without = dict(zip(hopeful, self._losses(calls), strict=True))
        chosen: list[_Choice | None] = [None] * len(rows)
        for at, one in best.items():
            lowest, bare, call = losses[at, one], losses[at, None], without.get(at)
            kept = call is not None and call - lowest >= margin
            chosen[at] = _Choice(one, lowest, bare, call, kept)
            if not kept:
                rejected["margin missed without a note" if call is None else "margin missed without the result"] += 1
        return chosen

    def _losses(self, tried: list[tuple[ScoredRow, str]]) -> list[Any]:
        """A loss per row and note, or None if the text is too long."""
        return answer_losses(self.model, self.tokenizer, tried, self.settings.batch_size)

    def _candidates(self, rows: Sequence[ScoredRow]) -> list[list[Calculation]]:
        """The candidates of each row."""
        report, most, made = self.report, self.settings.max_numbers, []
        for row in rows:
            refused, numbers = Counter[str](), numbers_of(row.text)
            made.append(by_pattern(numbers[-most:], self.settings.num_digits, refused))
            report.candidates += len(made[-1]) + refused.total()
            report.rejected += refused
            report.rows_with_more_numbers += len(numbers) > most
        return made


def _columns(calculation: Calculation | None) -> dict[str, Any]:
    """The operand columns of an annotation."""
    if calculation is None:
        return dict.fromkeys(COLUMNS)
    operator, a, b, result = calculation
    return dict(zip(COLUMNS, (operator, [a, b], result), strict=True))


def _example(row: ScoredRow, choice: _Choice | None) -> dict[str, Any]:
    """A row of the sample in the report."""
    shown: dict[str, Any] = {"prompt": row.text, "answer": row.answer, "annotation": None}
    if choice is None:
        return shown
    one = choice.calculation
    tried = f"{one.a} {one.operator} {one.b} = {one.result}"
    losses = {name: getattr(choice, name) for name in ("with_result", "without_note", "without_result")}
    return shown | {"annotation": tried if choice.kept else None, "best_candidate": tried, "nats_per_token": losses}


def report_path(output: Path) -> Path:
    """The path of the report, in the same folder as the annotated rows."""
    return output.with_name(f"{output.stem}.report.json")


def write(annotated: Annotated, output: Path, facts: Mapping[str, Any]) -> None:
    """Writes both files completely or not at all: the rows as JSONL, and the report as JSON.

    Args:
        annotated: Rows and report.
        output: The path of the rows. The report's is `report_path(output)`.
        facts: Further entries of the report's file, such as the model's name.
    """
    report = json.dumps({**facts, **annotated.report.as_dict()}, indent=2) + "\n"
    rows = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in annotated.rows)
    texts = {report_path(output): report, output: rows}
    unfinished = {path: path.with_name(f".{path.name}.unfinished") for path in texts}
    try:
        for path, text in texts.items():
            unfinished[path].write_text(text, encoding="utf-8")
        for path in texts:
            os.replace(unfinished[path], path)
    finally:
        for path in unfinished.values():
            path.unlink(missing_ok=True)
