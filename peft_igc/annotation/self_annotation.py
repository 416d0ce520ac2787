"""Finds operand columns for rows that have none with a language model, in a process similar to the Toolformer's.

In: rows with `prompt` and `completion`, or `messages`, with one answer each; a causal LM and its tokenizer. Out: the
rows with operand columns, which are None where no annotation was kept, and a `Report`.
Each candidate calculation is tried as a note in front of the last message before the answer: `58 * 36 is 2088. `. The
candidate whose note gives the lowest loss of the answer is kept if that loss is lower by `margin` than both the loss
without a note and the loss with the note without its result (`58 * 36 is. `).
The method cannot find out that a row asks for no arithmetic: a row without annotation is not supervised, and never
labelled `"none"`. Number words, and what `text.literals` does not understand, are no numbers. Nothing is trained.
Try it: `peft-igc annotate --help`

Shapes: B rows, T positions (tokens of the longest text), N tokens of an answer, V vocabulary entries.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

from ..data.columns import ALL_COLUMNS, COLUMNS, columns_of, has_number
from ..data.files import write_rows
from ..inference.decoding import batches_of, chat_text, eval_mode, longest_text, padding_token
from ..text import literals
from ..text.pieces import split
from ..text.values import Limits


NOTE, CALL = "{a} {operator} {b} is {result}. ", "{a} {operator} {b} is. "  # with and without the result
EXAMPLES = 10  # rows that a report shows
# Columns that would change the input of the model, or hide the beginning of the answer, and why they are refused.
_UNUSED = {
    "text": "where its answer begins is not known",
    "tools": "the model would be asked without them",
    "chat_template_kwargs": "the model would be asked without them",
    "images": "only texts are read",
}


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
    examples: list[dict[str, Any]] = field(default_factory=list)  # the first rows, with losses in nats per token

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self) | {"rejected": dict(sorted((+self.rejected).items()))}

    def format(self) -> str:
        """The report as a table for a terminal, with the examples."""
        found = self.as_dict()
        counts = [(name.replace("_", " "), value) for name, value in found.items() if isinstance(value, int)]
        lines = [f"{name:<44}{value:>10,}" for name, value in counts]
        lines += ["rejected", *(f"  {name:<42}{value:>10,}" for name, value in found["rejected"].items())]
        lines += [f"{one['annotation'] or 'nothing kept':<30} {one['prompt']!r:.100}" for one in self.examples]
        return "\n".join(lines)


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


def annotate(
    rows: Iterable[Mapping[str, Any]],
    model: Any,
    tokenizer: Any,
    settings: Settings | None = None,
    *,
    progress: bool = False,
) -> Annotated:
    """Annotates rows with the calculations whose results lower the loss of a language model.

    Args:
        rows: Rows with `prompt` and `completion` (two strings, or two lists of messages), or with `messages` that end
            in the answer. One assistant message per row. Other fields are kept.
        model: A causal LM without an active calculator.
        tokenizer: Its tokenizer, with a chat template if there are messages.
        settings: None: the defaults of `Settings`.
        progress: Show a bar of the rows done on stderr.

    Raises:
        ValueError: A row has another form, or has operand columns; or the tokenizer has no chat template.
    """
    settings, given = settings or Settings(), [dict(row) for row in rows]
    size = settings.batch_size
    if not given:
        raise ValueError("There are no rows to annotate. Check the file with the rows.")
    for index, row in enumerate(given):
        if any(row.get(name) is not None for name in ALL_COLUMNS):
            raise ValueError(f"row {index} has operand columns already. Remove them, or leave the row out.")
    parts = [read_row(row, f"row {index}") for index, row in enumerate(given)]
    if not tokenizer.chat_template and any(not isinstance(part.context, str) for part in parts):
        raise ValueError("The tokenizer has no chat template, but rows hold messages. Set `tokenizer.chat_template`.")
    report, found = Report(rows=len(given)), list[Calculation | None]()
    with eval_mode(model):
        for chosen in batches_of([[]] * len(parts), size, progress):  # of equal lengths, so in their order
            batch = [parts[at] for at in chosen]
            found += _choose(batch, lambda tried: answer_losses(model, tokenizer, tried, size), settings, report)
    for row, one in zip(given, found, strict=True):
        values = (None, None, None) if one is None else (one.operator, [one.a, one.b], one.result)
        row |= dict(zip(COLUMNS, values, strict=True))
    report.kept = sum(one is not None for one in found)
    return Annotated(given, report)


def _choose(
    rows: Sequence[ScoredRow],
    losses_of: Callable[[list[tuple[ScoredRow, str]]], list[Any]],
    settings: Settings,
    report: Report,
) -> list[Calculation | None]:
    """The calculation of each row that is kept, or None; counts the outcomes in the report, and shows the rows."""
    possible = [candidates(row.text, settings, report) for row in rows]
    tried = [(at, one) for at, found in enumerate(possible) for one in (None, *found) if found]
    notes = [(rows[at], "" if one is None else NOTE.format_map(one._asdict())) for at, one in tried]
    losses = dict(zip(tried, losses_of(notes), strict=True))
    best: dict[int, Calculation] = {}
    for at, found in enumerate(possible):
        fit = [one for one in found if losses[at, one] is not None and losses[at, None] is not None]
        report.rejected["text too long for the model"] += len(found) - len(fit)
        report.rejected["another one was better"] += max(len(fit) - 1, 0)
        if fit:
            best[at] = min(fit, key=lambda one: losses[at, one])
    # The third text is scored only for candidates that pass the first comparison.
    hopeful = [at for at, one in best.items() if losses[at, None] - losses[at, one] >= settings.margin]
    calls = [(rows[at], CALL.format_map(best[at]._asdict())) for at in hopeful]
    without = dict(zip(hopeful, losses_of(calls), strict=True))
    kept: list[Calculation | None] = [None] * len(rows)
    for at, row in enumerate(rows):
        shown: dict[str, Any] = {"prompt": row.text, "answer": row.answer, "annotation": None}
        report.examples += [shown] if len(report.examples) < EXAMPLES else []
        if (one := best.get(at)) is None:
            continue
        lowest, call = losses[at, one], without.get(at)
        shown["best_candidate"] = "{a} {operator} {b} = {result}".format_map(one._asdict())
        shown["nats_per_token"] = {"with_result": lowest, "without_note": losses[at, None], "without_result": call}
        if call is not None and call - lowest >= settings.margin:
            kept[at], shown["annotation"] = one, shown["best_candidate"]
        else:
            report.rejected[f"margin missed without {'a note' if call is None else 'the result'}"] += 1
    return kept


# ------------------------------------------------------------------------------------------ candidates
def numbers_of(text: str) -> list[str]:
    """The integers of a text in their order, canonical: without separators and leading zeros, with their sign."""
    understood = [one for one in literals.numbers_of(split(f"{text}\n")) if one.value is not None]
    return [str(one.value) for one in understood if text[slice(*one.span)].replace(",", "").isdecimal()]


def candidates(text: str, settings: Settings, report: Report) -> list[Calculation]:
    """All exact calculations of two of the last numbers of a text; sums and products in the text's order only.

    All are counted in the report, the others as rejected: with the calculator's status, or as `"repeated"`.
    """
    numbers, limits = numbers_of(text), Limits(settings.num_digits, settings.num_digits)
    made: list[Calculation] = []
    for a, b in itertools.combinations(numbers[-settings.max_numbers :], 2):
        for operator, x, y in (("+", a, b), ("-", a, b), ("-", b, a), ("*", a, b), ("/", a, b), ("/", b, a)):
            result = columns_of(operator, (x, y), limits)["igc_result"]
            report.candidates += 1
            if not has_number(result):
                report.rejected[result] += 1
            elif (calculation := Calculation(operator, x, y, result)) in made:
                report.rejected["repeated"] += 1
            else:
                made.append(calculation)
    report.rows_with_more_numbers += len(numbers) > settings.max_numbers
    report.rows_without_candidates += not made
    return made


# ------------------------------------------------------------------------------------------ losses
class ScoredRow(NamedTuple):
    """A training row, split for scoring."""

    context: str | list[dict[str, Any]]  # the text or the messages before the answer
    answer: str
    text: str  # the context without roles


def read_row(row: Mapping[str, Any], where: str) -> ScoredRow:
    """Splits a training row into context and answer; `where` names it in errors.

    Raises:
        ValueError: The row has another form than `annotate` asks for, or an empty prompt or answer.
    """
    for name, reason in _UNUSED.items():
        if row.get(name) is not None:
            raise ValueError(f"{where} has `{name}`: {reason}. Write it as `prompt` and `completion`.")
    prompt, completion = row.get("prompt"), row.get("completion")
    if isinstance(prompt, str) and isinstance(completion, str):
        found = ScoredRow(prompt, completion, prompt)
    else:
        chat = row.get("messages")
        if chat is None and isinstance(prompt, list) and isinstance(completion, list) and len(completion) == 1:
            chat = [*prompt, *completion]
        messages = chat if isinstance(chat, list) else []
        if not all(isinstance(one, Mapping) and isinstance(one.get("content"), str) for one in messages):
            raise ValueError(f"{where} has a message without text: {messages!r:.200}. Leave the row out.")
        roles = [one.get("role") for one in messages]
        if len(roles) < 2 or roles[-1] != "assistant" or roles.count("assistant") > 1:
            raise ValueError(
                f"{where} must be two strings `prompt` and `completion`, or messages of which only the last is the "
                f"assistant's; its fields are {sorted(row)}, its roles {roles}. Split a chat into a row per answer."
            )
        *before, last = (dict(one) for one in messages)
        found = ScoredRow(before, last["content"], "\n".join(one["content"] for one in before))
    if not found.text.strip() or not found.answer.strip():
        raise ValueError(f"{where} has an empty prompt or answer. Leave the row out.")
    return found


@torch.no_grad()
def answer_losses(
    model: Any, tokenizer: Any, tried: Sequence[tuple[ScoredRow, str]], batch_size: int
) -> list[float | None]:
    """The mean loss of each row's answer, in nats per token, if the note precedes the question; "" is no note.

    None for a text that is longer than the model's maximum; texts are never cut. The answer is tokenized separately,
    so its tokens do not depend on the note; the end of its turn is not scored.
    """
    tokens = [
        (_context(tokenizer, row.context, note), tokenizer(row.answer, add_special_tokens=False)["input_ids"])
        for row, note in tried
    ]
    longest, padding = longest_text(model), padding_token(model, tokenizer)
    fit = [at for at, (before, answer) in enumerate(tokens) if len(before) + len(answer) <= longest]
    texts = [tokens[at][0] + tokens[at][1] for at in fit]
    losses: list[float | None] = [None] * len(tokens)
    for chosen in batches_of(texts, batch_size):
        batch = [torch.tensor(texts[one], device=model.device) for one in chosen]
        ids = pad_sequence(batch, batch_first=True, padding_value=padding)  # [B, T], padded on the right
        mask = pad_sequence([torch.ones_like(text) for text in batch], batch_first=True)
        logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits  # [B, T, V]
        for one, row, scores in zip(chosen, batch, logits, strict=True):
            first = len(tokens[fit[one]][0])
            # The scores at a position predict the next token. Losses in bfloat16 are too coarse to compare.
            predicted = scores[first - 1 : len(row) - 1].float()  # [N, V]
            losses[fit[one]] = torch.nn.functional.cross_entropy(predicted, row[first:]).item()
    return losses


def _context(tokenizer: Any, context: str | list[dict[str, Any]], note: str) -> list[int]:
    """The token ids before the answer, with the note in front of the last message."""
    if isinstance(context, str):
        return tokenizer(note + context)["input_ids"]
    *before, last = context
    text = chat_text(tokenizer, [*before, last | {"content": note + last["content"]}], "Change the row.")
    return tokenizer(text, add_special_tokens=False)["input_ids"]  # the template adds them


# ------------------------------------------------------------------------------------------ files
def report_path(output: Path) -> Path:
    """The path of the report, in the same folder as the annotated rows."""
    return output.with_name(f"{output.stem}.report.json")


def write(annotated: Annotated, output: Path, facts: Mapping[str, Any]) -> None:
    """Writes the rows as JSONL to `output`, and the report to `report_path(output)`, with facts such as the model.

    Both are complete before either has its name, so that there are no rows without their report. Nothing is left of
    files that could not be written.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=output.parent) as folder:
        report, rows = Path(folder, report_path(output).name), Path(folder, output.name)
        write_rows(rows, annotated.rows)
        report.write_text(json.dumps({**facts, **annotated.report.as_dict()}, indent=2) + "\n", encoding="utf-8")
        for file in (report, rows):
            file.replace(output.parent / file.name)
