"""Finds operand columns for rows that have none with a language model, in a process similar to the Toolformer's.

In: rows with `prompt` and `completion`, or `messages`, with one answer each; a causal LM and its tokenizer. Out: the
rows with operand columns, which are None where no annotation was kept, and a `Report`.
Each candidate calculation is tried as a note in front of the last message before the answer: `58 * 36 is 2088. `. The
candidate whose note gives the lowest loss of the answer (`answer_loss`) is kept if that loss is lower by `margin` than
both the loss without a note and the loss with the note without its result (`58 * 36 is. `).
The method cannot find out that a row asks for no arithmetic: a row without annotation is not supervised, and never
labelled `"none"`. Number words, and what `text.literals` does not understand, are no numbers. Nothing is trained.
Try it: `peft-igc annotate --help`, `pytest tests/annotation/test_self_annotation.py`
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..data.columns import COLUMNS, columns_of, has_number
from ..inference.decoding import eval_mode
from ..text.literals import numbers as numbers_in
from ..text.values import Limits
from .answer_loss import ScoredRow, answer_losses, read_row


__all__ = [
    "Annotated",
    "Calculation",
    "Report",
    "Settings",
    "annotate",
    "by_pattern",
    "numbers_of",
    "report_path",
    "write",
]

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


class Calculation(NamedTuple):
    """Two canonical numbers in the calculator's order, and their result."""

    operator: str
    a: str
    b: str
    result: str


def numbers_of(text: str) -> list[str]:
    """The integers of a text in their order, canonical: without separators and leading zeros, with their sign."""
    understood = [(one.value, text[slice(*one.span)]) for one in numbers_in(text) if one.value is not None]
    return [str(value) for value, written in understood if written.replace(",", "").isdecimal()]


def by_pattern(numbers: Sequence[str], num_digits: int, refused: Counter[str]) -> list[Calculation]:
    """All exact calculations of two of the numbers; sums and products in the text's order only.

    Args:
        numbers: As `numbers_of` gives them.
        num_digits: The longest operand and result.
        refused: Counts the others by reason: the calculator's status, or `"repeated"`.
    """
    made: list[Calculation] = []
    for a, b in itertools.combinations(numbers, 2):
        for operator, x, y in (("+", a, b), ("-", a, b), ("-", b, a), ("*", a, b), ("/", a, b), ("/", b, a)):
            result = columns_of(operator, (x, y), Limits(num_digits, num_digits))["igc_result"]
            if not has_number(result):
                refused[result] += 1
            elif (calculation := Calculation(operator, x, y, result)) in made:
                refused["repeated"] += 1
            else:
                made.append(calculation)
    return made


class _Choice(NamedTuple):
    """The best candidate of a row, and the mean losses of the answer in nats per token."""

    calculation: Calculation
    losses: dict[str, float | None]  # `without_result` is None where the candidate was rejected before
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
    size = settings.batch_size
    if not given:
        raise ValueError("There are no rows to annotate. Check the file with the rows.")
    for index, row in enumerate(given):
        if any(row.get(name) is not None for name in COLUMNS):
            raise ValueError(f"row {index} has operand columns already. Remove them, or leave the row out.")
    parts = [read_row(row, f"row {index}") for index, row in enumerate(given)]
    if not tokenizer.chat_template and any(not isinstance(part.context, str) for part in parts):
        raise ValueError("The tokenizer has no chat template, but rows hold messages. Set `tokenizer.chat_template`.")
    report, chosen = Report(rows=len(given)), list[_Choice | None]()
    with eval_mode(model):
        for start in range(0, len(parts), size):
            batch = parts[start : start + size]
            chosen += _choose(batch, lambda tried: answer_losses(model, tokenizer, tried, size), settings, report)
            if progress is not None:
                progress(len(chosen), len(parts))
    found = [choice.calculation if choice is not None and choice.kept else None for choice in chosen]
    report.kept = sum(calculation is not None for calculation in found)
    made = [row | _columns(calculation) for row, calculation in zip(given, found, strict=True)]
    report.examples = [_example(*pair) for pair in zip(parts[:EXAMPLES], chosen[:EXAMPLES], strict=True)]
    return Annotated(made, report)


def _choose(
    rows: Sequence[ScoredRow],
    losses_of: Callable[[list[tuple[ScoredRow, str]]], list[Any]],
    settings: Settings,
    report: Report,
) -> list[_Choice | None]:
    """The best candidate of each row, or None without candidates; counts the outcomes in the report."""
    candidates = [_candidates(row, settings, report) for row in rows]
    tried = [(at, one) for at, found in enumerate(candidates) for one in (None, *found) if found]
    notes = [(rows[at], "" if one is None else NOTE.format_map(one._asdict())) for at, one in tried]
    losses = dict(zip(tried, losses_of(notes), strict=True))
    best: dict[int, Calculation] = {}
    for at, found in enumerate(candidates):
        fit = [one for one in found if losses[at, one] is not None and losses[at, None] is not None]
        report.rejected["text too long for the model"] += len(found) - len(fit)
        report.rejected["another one was better"] += max(len(fit) - 1, 0)
        if fit:
            best[at] = min(fit, key=lambda one: losses[at, one])
    # The third text is scored only for candidates that pass the first comparison.
    hopeful = [at for at, one in best.items() if losses[at, None] - losses[at, one] >= settings.margin]
    calls = [(rows[at], CALL.format_map(best[at]._asdict())) for at in hopeful]
    without = dict(zip(hopeful, losses_of(calls), strict=True))
    chosen: list[_Choice | None] = [None] * len(rows)
    for at, one in best.items():
        lowest, call = losses[at, one], without.get(at)
        kept = call is not None and call - lowest >= settings.margin
        of_texts = {"with_result": lowest, "without_note": losses[at, None], "without_result": call}
        chosen[at] = _Choice(one, of_texts, kept)
        if not kept:
            missed = "margin missed without a note" if call is None else "margin missed without the result"
            report.rejected[missed] += 1
    return chosen


def _candidates(row: ScoredRow, settings: Settings, report: Report) -> list[Calculation]:
    """The candidates of a row, counted in the report."""
    refused, numbers = Counter[str](), numbers_of(row.text)
    found = by_pattern(numbers[-settings.max_numbers :], settings.num_digits, refused)
    report.candidates += len(found) + refused.total()
    report.rejected += refused
    report.rows_with_more_numbers += len(numbers) > settings.max_numbers
    report.rows_without_candidates += not found
    return found


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
    tried = "{a} {operator} {b} = {result}".format_map(choice.calculation._asdict())
    annotation = tried if choice.kept else None
    return shown | {"annotation": annotation, "best_candidate": tried, "nats_per_token": choice.losses}


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
