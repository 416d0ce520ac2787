"""The labels of rows: operand columns assigned to anchors, and compared with what the text says there.

In: tokenized rows with operand columns. Out: the labels that are trained, by position (`steps_of`); for a whole
dataset before it is truncated, so that errors precede the training and name the row, in a column (`checked_rows`).
Where the rules read an expression, its value must be that of `igc_expression`; another one is an error, because the
calculator would write it whatever was learned. Where they read none, a pair of integers is left to the network, as in
`igc_operands`, and every other step is not supervised, since the calculator is silent there. With the token interface,
which points at numbers, the text must also spell each operand before its anchor.
"""

import dataclasses
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..data.columns import ALL_COLUMNS, EXPRESSION_COLUMN, ROW_COLUMN, UNKNOWN, check_columns
from ..data.exact_values import EXPRESSION, StepLabel, label_expression
from ..mappings.decisions import said_at
from ..mappings.places import number_runs
from ..numbers.calculator import NO_ARITHMETIC, Status
from ..text.literals import integers
from ..text.values import Limits, Reason, Value, spelled
from ..tuner.anchors import INLINE, Rules, anchors_of_labels, before_labels, context_starts
from ..tuner.config import IGCConfig
from ..tuner.hooks.notices import is_new


logger = logging.getLogger(__name__)

# The column that `RowCheck` adds: the labels by position, as JSON, because Arrow gives a column one type.
STEPS = "igc_steps"
ROW_COLUMNS = (*ALL_COLUMNS, STEPS, ROW_COLUMN)

SHOWN = 5  # wrong rows of a dataset that an error names

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
# Refusals of an expression that was read; of the others the network may still read two numbers in words.
_OF_VALUES = (Reason.TOO_LONG, Reason.INEXACT, Reason.OVERFLOW, Reason.UNDEFINED)


def steps_of(row: Mapping[str, Any], config: IGCConfig, where: str) -> tuple[dict[int, StepLabel], list[str]]:
    """The labels of a tokenized row by the position of their anchor, and why expressions of it are not read.

    `where` is its name in errors. If there are as many entries as turns, but not as many as anchors, they belong to
    the turns, and the anchors within texts are not supervised.

    Raises:
        TypeError, ValueError: As `check_columns`; or the number of entries fits neither the anchors nor the turns; or
            the text says another expression than its column, or does not spell an operand.
    """
    found, unread = dict[int, StepLabel](), list[str]()
    steps = check_columns(row, Limits.of(config), where)
    if all(step.operator is None for step in steps):
        return found, unread
    rules, ids, labels = Rules.of(config), list(row["input_ids"]), row.get("labels", row["input_ids"])
    anchors = anchors_of_labels(rules, ids, labels)
    if len(steps) != len(anchors):
        # The end of a prompt begins a turn if it is an anchor rule, even if it is an inline anchor too, as in `1+2=`.
        ends = before_labels(labels) if rules.prompt_end else []
        turns = [kind != INLINE or at in ends for at, kind in anchors]
        if len(steps) != sum(turns):
            raise ValueError(f"{where}: {_mismatch(len(anchors), len(steps), config)}")
        entries = iter(steps)
        steps = [next(entries) if is_turn else UNKNOWN for is_turn in turns]
    since = context_starts(config.reading_context, rules, anchors, ids=ids)
    for (position, _), first, step in zip(anchors, since, steps, strict=True):
        try:
            step, reason = _compared(step, ids[: position + 1], first, config)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        if step != UNKNOWN:
            found[position] = step
        if reason is not None:
            unread.append(reason)
    return found, unread


def _mismatch(count: int, steps: int, config: IGCConfig) -> str:
    """Why the entries of a row do not fit its anchors, and the cure."""
    if count == 0:
        sequences = Rules.of(config).sequences
        why = "no labelled token follows one without a label. Use `prompt` and `completion` columns, or "
        why += "`assistant_only_loss=True` for a conversation"
        if sequences:
            why = f"it has none of the {len(sequences)} token sequences, such as {sequences[0]}. Write it as a "
            why += 'conversation, or set `IGCConfig(anchors="prompt_end")` to anchor before each labelled stretch'
        return f"the operand columns describe a calculation, but the row has no anchor: {why}."
    return (
        f"the anchors of the row are {count}, the entries of its operand columns {steps}. Make each column a list "
        "with one entry per anchor (None for an anchor without an annotation)."
    )


# ------------------------------------------------------------------------------------------ compared with the text
def _compared(step: StepLabel, tokens: list[int], since: int, config: IGCConfig) -> tuple[StepLabel, str | None]:
    """The label of a step, and why it is not supervised, or None; `tokens` is the text up to the anchor, read from the
    token `since` on."""
    if step.operator in (None, NO_ARITHMETIC):
        return step, None
    if config.token_table is None:  # the hidden interface can learn to read words
        if step.operator != EXPRESSION:
            return step, None
        raise ValueError(
            f"`{EXPRESSION_COLUMN}` {step.expression!r} is not one operation on two integers. Others are read by "
            'rule, with `IGCConfig.from_tokenizer(...)`; leave the row out, or set `igc_operator` to "none".'
        )
    given, unread = step, None
    if step.expression is not None:
        step, unread = _of_expression(step, tokens, since, config)
    if unread is not None or (number := _missing(step, tokens, since, config)) is None:
        return step, unread
    if given.expression is None:
        raise ValueError(
            f"no number before the anchor spells the operand {number}, or it touches a letter, a "
            "decimal point or a percent sign, or is farther back than "
            f"`reading_context={config.reading_context!r}` goes. The token interface points at numbers in "
            'digits: write the operand in digits, or set `igc_operator` to "none".'
        )
    if step is given:  # of an expression that rules read, the reading learns only that a calculation is asked for
        return dataclasses.replace(step, operator=EXPRESSION, operands=None), None
    unread = "an operand that the network cannot point at"
    return dataclasses.replace(step, operator=None, operands=None), unread


def _of_expression(step: StepLabel, tokens: list[int], since: int, config: IGCConfig) -> tuple[StepLabel, str | None]:
    """The label of a step with an expression, and why it is not supervised, or None."""
    assert config.vocabulary is not None
    limits, anchor = Limits.of(config), len(tokens) - 1
    said = said_at(config.vocabulary, tokens, anchor, since, limits)
    if isinstance(said.found, Value) and said.found.rounded:  # a wish or a setting, which the column does not say
        exact = label_expression(spelled(said.found.items), limits)
        if (exact.result, exact.status) == (step.result, step.status):
            return dataclasses.replace(step, result=said.value, status=Status.OK), None
    if said.reason == Reason.NONE and said.value != step.result:
        shown = step.result if step.result is not None else f'"{step.status.name.lower()}"'
        raise ValueError(
            f"`{EXPRESSION_COLUMN}` {step.expression!r} is {shown}, but the text before its "
            f"anchor (token {anchor}) is read as an expression with the value {said.value}. Correct the "
            "column or the text."
        )
    if said.reason == Reason.NONE or (said.reason in _OF_VALUES and step.result is None):
        return step, None
    if step.operands is None or said.reason in _OF_VALUES:
        return UNKNOWN, f"{step.expression!r}: {said.reason.text}"
    return step, None


def _missing(step: StepLabel, tokens: list[int], since: int, config: IGCConfig) -> str | None:
    """An operand that no number in the text spells, so that the reading would point elsewhere."""
    if step.operands is None:
        return None
    assert config.token_table is not None
    most, runs = Limits.of(config).digits + 1, number_runs(config.token_table, tokens)
    known = {run.digits[:most] for run in runs if run.digits and run.first >= since}
    written = (operand.lstrip("-")[:most] for operand in step.operands)
    return next((number for number in written if number not in known), None)


# ------------------------------------------------------------------------------------------ of a whole dataset
_told: set[str] = set()  # about which streams, whose rows are checked one by one in every epoch
_WARNINGS = {
    "cut": "`max_length={length}` cuts {rows} of the {name} dataset before an anchor with operands. The steps "
    "removed are not supervised, and rows without a remaining label are dropped. {detail}",
    "unread": "In {rows} of the {name} dataset the text says no expression that rules read as `igc_expression` has it "
    "(the first: {detail}). The calculator is silent there, so these steps are not supervised. Write the expression "
    "in symbols before its anchor.",
    "other": "In {rows} of the {name} dataset the answer is another number than the calculator's (the first: "
    "{detail}). Correct the answer, the operands or their order.",
}


@dataclass(frozen=True)
class RowCheck:
    """Labels a row of a tokenized dataset before truncation; a function for `dataset.map(..., with_indices=True)`."""

    config: IGCConfig
    tokenizer: Any
    dataset_name: str  # in messages
    max_length: int | None  # to which rows will be cut
    keep_end: bool  # whether the beginning of a row is cut instead of its end
    is_stream: bool = False  # whether rows cannot be counted in advance; the first one is then warned of

    def __call__(self, row: Mapping[str, Any], index: int) -> dict[str, str]:
        """The column `STEPS` of a row: its labels, and for each of `_WARNINGS` what is told of it; or its `wrong`
        value, so that all rows are checked before one is refused.

        Raises:
            ValueError: In a stream, as `steps_of`, or if the operands of a step follow its anchor.
        """
        where = row.get(ROW_COLUMN) or f"{self.dataset_name} dataset, row {index}"
        try:
            found, unread = steps_of(row, self.config, where)
            for anchor, step in found.items():
                self._check_order(row, anchor, step, where)
        except ValueError as error:
            if self.is_stream:
                raise
            return {STEPS: json.dumps({"wrong": str(error)})}
        last = len(row["input_ids"])
        if self.max_length is not None and last > self.max_length:
            # If the beginning is cut, the rest may start within an operand, so no step is kept. If the end is cut, a
            # step is kept with its anchor and one more token: the label after a prompt's end makes it an anchor.
            last = -1 if self.keep_end else self.max_length - 2
        kept = {at: step for at, step in found.items() if at <= last}
        cut = any(step.operator is not None for at, step in found.items() if at > last)
        other = [said for at, step in kept.items() if (said := self._other_answer(row, at, step, where))]
        told = {"cut": ["Set `max_length` higher."] * cut, "unread": unread, "other": other}
        for kind, reasons in told.items():
            if reasons and self.is_stream and is_new(_told, f"{self.dataset_name} {kind}"):
                warn(kind, self.dataset_name, "some rows", reasons[0], self.max_length)
        steps = [(at, one.operator, one.operands, one.result, one.status) for at, one in kept.items()]
        return {STEPS: json.dumps({"steps": steps, **told})}

    def _other_answer(self, row: Mapping[str, Any], anchor: int, step: StepLabel, where: str) -> str | None:
        """What is wrong with an answer after an anchor that is a number alone, and not the result of the step."""
        ids, labels = row["input_ids"][anchor + 1 :], row["labels"][anchor + 1 :]
        end = labels.index(-100) if -100 in labels else len(labels)
        said = self.tokenizer.decode(ids[:end], skip_special_tokens=True).strip()
        if step.result is None or not _NUMBER.fullmatch(said) or Fraction(said) == Fraction(step.result):
            return None
        return f"{where}: the answer is {said}, the columns give {step.result}"

    def _check_order(self, row: Mapping[str, Any], anchor: int, step: StepLabel, where: str) -> None:
        """Refuses a step that seems to belong to a later anchor."""
        # Operands may be written in words, so their absence before the anchor is no error by itself. It is one if both
        # occur in figures in a later question, and neither occurs before the anchor.
        ids, labels = row["input_ids"], row["labels"]
        later = [token for token, label in zip(ids[anchor + 1 :], labels[anchor + 1 :], strict=True) if label == -100]
        if step.operands is None or not later:
            return
        wanted = {operand.lstrip("-") for operand in step.operands}
        texts = (self.tokenizer.decode(part) for part in (ids[: anchor + 1], later))
        before, after = ({one.digits for one in integers(text, decimals=True)} for text in texts)
        if wanted <= after and not wanted & before:
            raise ValueError(
                f"{where}: the operands {' and '.join(step.operands)} follow their anchor (token {anchor}), so they "
                "cannot be read there. Put the entries of the operand columns in the order of the anchors, with None "
                "for an anchor without a calculation."
            )


def steps_of_checked(row: Mapping[str, Any]) -> dict[int, StepLabel]:
    """The labels of a row of `checked_rows` by the position of their anchor."""
    steps = json.loads(row[STEPS])["steps"]
    return {at: StepLabel(one[0], one[1], one[2], Status(one[3])) for at, *one in steps}


def checked_rows(dataset: Any, check: RowCheck, processes: int | None) -> Any:
    """A tokenized dataset with the column of `RowCheck`; says which rows lose steps or are not read.

    Raises:
        ValueError: As `RowCheck`, of all rows; or truncation leaves no step of a training set, so the reading would
            learn nothing.
    """
    if check.is_stream:  # `IterableDataset.map` has neither option, and nothing can be counted
        return dataset.map(check, with_indices=True)
    name, length = check.dataset_name, check.max_length
    dataset = dataset.map(check, with_indices=True, num_proc=processes, desc=f"Checking operands of {name} dataset")
    rows = [json.loads(one) for one in dataset[STEPS]]
    if wrong := [row["wrong"] for row in rows if "wrong" in row]:
        more = f"\n{len(wrong)} of {len(rows)} rows are wrong." if len(wrong) > 1 else ""
        raise ValueError("\n".join(wrong[:SHOWN]) + more)
    for kind in ("unread", "other"):
        if said := [row[kind][0] for row in rows if row[kind]]:
            warn(kind, name, f"{len(said)} of {len(rows)} rows", said[0])
    if not (cut := [at for at, row in enumerate(rows) if row["cut"]]):
        return dataset
    longest = max(map(len, dataset.select(cut)["input_ids"]))
    if name == "train" and not any(step[1] is not None for row in rows for step in row["steps"]):
        raise ValueError(
            f"`max_length={length}` cuts all {len(cut)} rows with operands of the {name} dataset before their "
            f"anchors, so the reading would learn nothing. Set `max_length={longest}`, the length of the longest one, "
            "or shorten the prompts."
        )
    cure = f"These are {len(cut) / len(rows):.1%} of its rows; `max_length={longest}` would do for all of them."
    warn("cut", name, f"{len(cut)} of {len(rows)} rows", cure, length)
    return dataset


def warn(kind: str, dataset_name: str, rows: str, detail: str, max_length: int | None = None) -> None:
    """Warns of rows of a dataset: one of `_WARNINGS`."""
    logger.warning(_WARNINGS[kind].format(length=max_length, rows=rows, name=dataset_name, detail=detail))
