"""Batches with operand columns: where a row's anchors are, which step belongs to which, and the tensors of both.

In: rows as TRL's `SFTTrainer` prepares them (`input_ids`, `labels`) with the operand columns of `columns`. Out: what
TRL's own collator makes of them, with `igc_anchors` and the six target tensors that the model takes. `RowCheck` runs
the same rules once over a whole dataset, before it is truncated, so that an error comes early and names the row.
A row that is not supervised is let through whatever its anchors are; nothing here reads or calculates.

Shapes: B rows, T positions, A anchors per row. Try it: `pytest tests/test_trainer.py -k collator`
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import pad
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from .anchors import Rules, before_labels, context_starts, ends_of_sequences, find_anchors
from .calculator import Status
from .columns import COLUMNS, Step, check_columns, encode_steps
from .config import IGCConfig
from .digits import PAD, decode
from .reading import IGNORE
from .runs import NumberTokens, find_runs
from .tokens import TokenTable


logger = logging.getLogger(__name__)

CUT = "igc_cut"  # column: the number of supervised steps, from the last, that truncation takes from a row, or WHOLE
WHOLE = -1
BY_TURN = "igc_by_turn"  # column: whether the entries are for the turns alone, anchors within texts having none
ROW_COLUMNS = (*COLUMNS, CUT, BY_TURN)
# Operator class of a step whose supervision truncation took away. Negative: not supervised, like columns.UNSUPERVISED;
# a class of its own, so that such rows can be counted.
TRUNCATED = -101

_UNKNOWN = Step(None, None, None, Status.NONE)


@dataclass
class IGCDataCollator(DataCollatorForLanguageModeling):
    """TRL's collator for language modeling, which also turns operand columns into tensors.

    The batch has, besides TRL's keys, all int64: `igc_anchors` [B, A] (-1 = none) and the targets of
    `columns.encode_steps`, where `igc_operator` is `TRUNCATED` for a step whose text was cut.

    Args:
        igc_config ([`IGCConfig`], *optional*):
            Config of the adapter that is trained: limits of the numbers, operations, anchors. Required.
        tokenizer (*optional*):
            Names a faulty row by its text, and finds operands that stand behind their anchor. `None`: rows are named
            by their token ids.

    Raises:
        TypeError: a column of the wrong type.
        ValueError: columns that contradict themselves, each other or the row's anchors; the message shows the row.

    Example:
        collator = IGCDataCollator(pad_token_id=0, igc_config=IGCConfig(layer=1))
        batch = collator([{"input_ids": [5, 6, 7], "labels": [-100, -100, 7], "igc_operator": "none"}])
    """

    igc_config: IGCConfig | None = None
    tokenizer: Any = None

    def __post_init__(self) -> None:
        if self.igc_config is None:
            raise ValueError(
                "`igc_config=None` leaves the length of the numbers unknown. Pass the adapter's `IGCConfig`, or use "
                "TRL's own collator for a model without one."
            )
        if self.padding_free:
            raise ValueError(
                "`padding_free=True` joins the rows of a batch, and a calculation would read across them. "
                "Set `padding_free=False`."
            )
        table = self.igc_config.number_tokens
        self._tokens = None if table is None else NumberTokens(TokenTable.from_json(table))

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        """The batch of `examples`."""
        assert self.igc_config is not None
        if self._tokens is not None and self._tokens.group == 1:
            examples = [{**example, **self._in_single_digits(example)} for example in examples]
        batch: dict[str, Any] = super().torch_call(examples)
        anchors = find_anchors(batch["input_ids"], batch["attention_mask"], batch["labels"], self.igc_config)  # [B, A]
        rows, lost = [], []
        turns_of_rows = _turns(anchors, batch["input_ids"], batch["labels"], self.igc_config)
        for example, turns in zip(examples, turns_of_rows, strict=True):
            steps, kept = self._steps(example, turns)
            rows.append(steps[:kept] + [_UNKNOWN] * (len(steps) - kept))
            lost.append([step.operator is not None for step in steps[kept:]])
        width = max(anchors.shape[1], *map(len, rows))
        rows[0] = rows[0] + [_UNKNOWN] * (width - len(rows[0]))  # the longest row gives the width of all
        batch["igc_anchors"] = pad(anchors, (0, width - anchors.shape[1]), value=-1)  # [B, A]
        limits = limits_of(self.igc_config)
        batch.update(encode_steps(rows, **{name: limits[name] for name in limits if name != "division"}))
        for row, (steps_lost, steps) in enumerate(zip(lost, rows, strict=True)):
            for place, is_lost in enumerate(steps_lost, start=len(steps) - len(steps_lost)):
                if is_lost:
                    batch["igc_operator"][row, place] = TRUNCATED
        if self._tokens is not None:
            self._check_operands_stand_there(batch, examples)
        return batch

    def _in_single_digits(self, example: Mapping[str, Any]) -> dict[str, list[int]]:
        """The row with its labelled numbers in single-digit tokens: the same text, as the calculator writes it."""
        assert self._tokens is not None
        ids: list[int] = []
        labels: list[int] = []
        given = example.get("labels") or example["input_ids"]
        for token, label in zip(example["input_ids"], given, strict=True):
            pieces = [token] if label == IGNORE else self._single_digits(token)
            ids += pieces
            labels += [label] if label == IGNORE else pieces
        return {"input_ids": ids, "labels": labels}

    def _single_digits(self, token: int) -> list[int]:
        """The tokens that stand for `token` in a labelled text.

        Raises:
            ValueError: a number that begins with a space, where the space has no token of its own.
        """
        assert self._tokens is not None
        table = self._tokens.table
        spelled = table.digits.get(token)
        if spelled is None:
            return [token]
        space: list[int] = []
        if token in table.spaced:
            space = [] if self.tokenizer is None else self.tokenizer(" ", add_special_tokens=False)["input_ids"]
            if len(space) != 1:
                raise ValueError(
                    f"Token {token} spells {spelled!r} behind a space, and the space has no token of its own here, so "
                    "an answer cannot be put into single digits. Pass the `tokenizer`, write answers without a space "
                    'in front, or use `interface="hidden"`.'
                )
        single = {digits: other for other, digits in table.digits.items() if other not in table.spaced}
        return [*space, *(single[digit] for digit in spelled)]

    def _check_operands_stand_there(self, batch: Mapping[str, Any], examples: list[dict[str, Any]]) -> None:
        """Refuses a step whose operand no number of the text spells: the reading could only point elsewhere."""
        assert self._tokens is not None
        assert self.igc_config is not None
        ids, anchors, operator = batch["input_ids"], batch["igc_anchors"], batch["igc_operator"]
        asked = (anchors >= 0) & (operator >= 0) & (operator < len(self.igc_config.operations))  # [B, A]
        place, valid = torch.arange(ids.shape[1]), batch["attention_mask"].bool()
        context = self.igc_config.reading_context
        since = context_starts(context, Rules.of(self.igc_config), ids, valid, anchors, anchors[:, :0])  # [B, A]
        for step in range(anchors.shape[1]):
            operands = batch["igc_operands"][:, step]  # [B, 2, D + 1]
            text = valid & (place <= anchors[:, step, None])  # [B, T]
            digits = find_runs(self._tokens, ids, text, operands.shape[-1]).digits  # [B, T, D + 1]
            digits = digits.masked_fill((place < since[:, step, None])[..., None], PAD)
            found = (digits[:, None] == operands[:, :, None]).all(-1).any(-1)  # [B, 2]
            for row, which in (~found & asked[:, step, None]).nonzero().tolist():
                number = decode(operands[row, which], operands.new_zeros(()))[0]
                raise ValueError(
                    f"{self._name(examples[row])}: no number before the anchor spells the operand {number}, or it "
                    "touches a letter, a decimal point or a percent sign, or stands farther back than "
                    f"`reading_context={context!r}` goes. The token interface points at numbers "
                    'written in digits: write it so, or set `igc_operator` to "none".'
                )

    def _steps(self, example: Mapping[str, Any], turns: list[bool]) -> tuple[list[Step], int]:
        """The row's steps and how many of them, from the first, are supervised."""
        assert self.igc_config is not None
        try:
            return assign_steps(example, turns, self.igc_config, "row")
        except (TypeError, ValueError):
            # Naming a row costs more than checking it, so only a faulty one is named.
            return assign_steps(example, turns, self.igc_config, self._name(example))

    def _name(self, example: Mapping[str, Any]) -> str:
        """The row as an error names it: its text up to the first answer."""
        labels = example.get("labels") or []
        end = next((i for i, label in enumerate(labels) if i and label != -100), len(example["input_ids"]))
        ids = list(example["input_ids"][:end])
        text = ids if self.tokenizer is None else self.tokenizer.decode(ids)
        shown = repr(text)
        return f"row {shown if len(shown) <= 120 else f'{shown[:40]} ... {shown[-80:]}'}"


def limits_of(config: IGCConfig) -> dict[str, Any]:
    """What a config allows, as keyword arguments of `check_columns`."""
    return {
        "num_digits": config.num_digits,
        "result_digits": config.result_digits,
        "operations": config.operations,
        "division": config.division,
    }


def _turns(anchors: torch.Tensor, ids: torch.Tensor, labels: torch.Tensor, config: IGCConfig) -> list[list[bool]]:
    """For each anchor of each row, whether a turn begins there, rather than a result within a text.

    A prompt that ends in an inline anchor (`1+2=`) is a turn all the same, if the end of a prompt is a rule.
    """
    rules = Rules.of(config)
    inline = ends_of_sequences(ids, torch.ones_like(ids, dtype=torch.bool), rules.inline, ids.shape[1])
    if rules.prompt_end:
        ends = before_labels(labels)
        inline = torch.nn.functional.pad(inline, (0, 1)).scatter(1, ends.where(ends >= 0, ids.shape[1]), False)
    is_turn = ~inline.gather(1, anchors.clamp(min=0))
    return [one[at >= 0].tolist() for one, at in zip(is_turn, anchors, strict=True)]


def assign_steps(row: Mapping[str, Any], turns: list[bool], config: IGCConfig, where: str) -> tuple[list[Step], int]:
    """The steps of a row, in the order of its anchors.

    Where the entries are as many as the turns, they are for these, and nothing is known of anchors within the texts.

    Args:
        row: With operand columns.
        turns: For each anchor, whether a turn begins there.
        config: The adapter's.
        where: Names the row.

    Returns:
        The steps, at least one, and how many of them, from the first, truncation has left with all that is read.

    Raises:
        TypeError: as `check_columns`.
        ValueError: as `check_columns`; if the row's supervised steps are not as many as its anchors.
    """
    steps = check_columns(row, **limits_of(config), where=where)
    if all(step.operator is None for step in steps):
        return [_UNKNOWN], 1
    count, cut = len(turns), row.get(CUT, WHOLE)
    by_turn = row.get(BY_TURN)
    if by_turn or (by_turn is None and len(steps) != count and len(steps) == sum(turns)):
        entries = iter(steps)
        # behind a cut there are fewer anchors than entries
        steps = [next(entries, _UNKNOWN) if is_turn else _UNKNOWN for is_turn in turns] + list(entries)
    if cut != WHOLE:  # anchors may be lost, so their number says nothing
        supervised = [place for place, step in enumerate(steps) if step.operator is not None]
        return steps, supervised[len(supervised) - cut] if cut else len(steps)
    if len(steps) == count:
        return steps, count
    is_list = isinstance(row.get("igc_operator"), (list, tuple))
    raise ValueError(f"{where}: {_mismatch(count, len(steps), is_list, config)}")


def _mismatch(count: int, steps: int, is_list: bool, config: IGCConfig) -> str:
    """Why the steps of a row do not fit its anchors, and the cure."""
    rules = Rules.of(config)
    if count == 0 and not rules.sequences:
        return (
            "the operand columns describe a calculation, but the row has no anchor: no labelled token follows one "
            "without a label. Use `prompt` and `completion` columns, or `assistant_only_loss=True` for a "
            "conversation, or `IGCConfig.from_tokenizer(...)`, which finds anchors in the text."
        )
    if count == 0:
        return (
            "the operand columns describe a calculation, but the row has no anchor: none of "
            f"the token sequences {_shown(rules.sequences)} occurs in it. Give the row as a conversation, or set "
            '`IGCConfig(anchor="prompt_end")` to anchor before each labelled stretch.'
        )
    anchors = f"{count} anchor{'s' if count > 1 else ''}"
    if not is_list:
        return (
            f"the row has {anchors}, but its operand columns describe one calculation. Make each column a list with "
            "one entry per anchor (None where nothing is known)."
        )
    return (
        f"the row has {anchors}, but its operand columns have {steps} entries. Give one entry per anchor (None where "
        "nothing is known)."
    )


def _shown(sequences: list[list[int]]) -> str:
    """The first of many, for a message."""
    return f"{sequences[:8]}" + (f" and {len(sequences) - 8} more" if len(sequences) > 8 else "")


def warn_of_cut(dataset_name: str, max_length: int | None, rows: str) -> None:
    """Tells that truncation takes away supervised steps: nothing is dropped in silence."""
    logger.warning(
        f"`max_length={max_length}` cuts {rows} of the {dataset_name} dataset before an anchor with operands: what is "
        "lost is not supervised, and a row without a label left is dropped. Set `max_length` higher."
    )


_warn_once = functools.cache(warn_of_cut)  # a stream's rows are checked one by one, epoch after epoch


@dataclass(frozen=True)
class RowCheck:
    """Checks a row of a tokenized dataset before truncation; a function for `dataset.map(..., with_indices=True)`.

    Args:
        config: the adapter's.
        tokenizer: of the dataset's `input_ids`.
        dataset_name: for messages.
        max_length: length to which rows will be cut, or None.
        keep_end: whether cutting takes tokens from the front.
        is_stream: whether rows cannot be counted beforehand: the first one that is cut is told of.
    """

    config: IGCConfig
    tokenizer: Any
    dataset_name: str
    max_length: int | None
    keep_end: bool
    is_stream: bool = False

    def __call__(self, row: Mapping[str, Any], index: int) -> dict[str, Any]:
        """The row's columns `CUT` and `BY_TURN`.

        Raises:
            TypeError, ValueError: as `assign_steps`; if an operand stands behind its anchor.
        """
        where = f"{self.dataset_name} dataset, row {index}"
        ids, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])  # [1, T] both
        found = find_anchors(ids, torch.ones_like(ids), labels, self.config)[0]
        anchors: list[int] = found[found >= 0].tolist()
        turns = _turns(found[None], ids, labels, self.config)[0]
        steps, _ = assign_steps({**row, CUT: WHOLE, BY_TURN: None}, turns, self.config, where)
        entries = row.get("igc_operator")
        by_turn = (len(entries) if isinstance(entries, (list, tuple)) else 1) != len(anchors)
        checked = {CUT: WHOLE, BY_TURN: by_turn}
        if all(step.operator is None for step in steps):
            return {CUT: WHOLE, BY_TURN: False}
        for anchor, step in zip(anchors, steps, strict=True):
            self._check_order(row, anchor, step, where)
        if self.max_length is None or ids.shape[1] <= self.max_length:
            return checked
        supervised = [anchor for anchor, step in zip(anchors, steps, strict=True) if step.operator is not None]
        # Cut in front, the rest may begin within an operand. Cut behind an anchor, a row loses nothing that is read
        # there.
        last = -1 if self.keep_end else self.max_length - 2
        lost = sum(anchor > last for anchor in supervised)
        if lost and self.is_stream:
            _warn_once(self.dataset_name, self.max_length, "rows")
        return {**checked, CUT: lost}

    def _check_order(self, row: Mapping[str, Any], anchor: int, step: Step, where: str) -> None:
        """Refuses a step that was meant for a later anchor.

        Numbers may be written in many ways, so absence before the anchor proves nothing. Both operands in figures in a
        later question, and neither before the anchor, do.
        """
        ids, labels = row["input_ids"], row["labels"]
        later = [token for token, label in zip(ids[anchor + 1 :], labels[anchor + 1 :], strict=True) if label == -100]
        if step.operands is None or not later:
            return
        wanted = {operand.lstrip("-") for operand in step.operands}
        before, behind = (set(re.findall(r"\d+", self.tokenizer.decode(part))) for part in (ids[: anchor + 1], later))
        if wanted <= behind and not wanted & before:
            raise ValueError(
                f"{where}: the operands {' and '.join(step.operands)} stand behind their anchor (token {anchor}), so "
                "they cannot be read there. Put the entries of the operand columns in the order of the anchors, None "
                "for an anchor without a calculation."
            )
