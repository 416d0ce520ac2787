"""Batches with operand columns: the labels of rows at their anchors, as the target tensors.

`labels` assigns the columns to anchors: once, in a dataset of `IGCTrainer`; here, in that of another trainer. Of rows
that are not supervised no anchor is checked.

Shapes: B rows, T positions, A anchors per row, S operands, D digits of an operand, R digits of a result.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from ..data.columns import ALL_COLUMNS, ROW_COLUMN, UNKNOWN, encode_steps
from ..data.exact_values import StepLabel
from ..mappings.readings import IGNORE
from ..text.token_table import TokenTable
from ..text.values import Limits
from ..text.vocabulary import PADDING
from ..tuner.anchors import Rules, anchors_of_labels, even, positions
from ..tuner.config import IGCConfig
from .labels import STEPS, steps_of, steps_of_checked, warn


logger = logging.getLogger(__name__)


@dataclass
class IGCDataCollator(DataCollatorForLanguageModeling):
    """TRL's collator for language modeling, which also converts operand columns to tensors.

    Besides TRL's keys, the batch has (all int64) `igc_anchors` [B, A] (-1 = none) and the targets of
    `columns.encode_steps`: `igc_operands` [B, A, S, D + 1], `igc_signs` [B, A, S], `igc_operator` [B, A],
    `igc_result` [B, A, R], its sign, status and scale [B, A].

    Args:
        igc_config ([`IGCConfig`]):
            Config of the adapter that is trained: limits of the numbers, operations, anchors.
        tokenizer (*optional*):
            Tokenizer of the rows, for the token of a space and to show faulty rows as text. `None`: as token ids.
        needs_columns (`bool`, *optional*, defaults to `True`):
            Whether batches of which no row has an operand column, not even one that is None, are refused: a trainer
            with `remove_unused_columns=True` has removed them. `IGCTrainer`, which keeps them, sets it to `False`.
            Such a batch then has no targets.

    Raises:
        TypeError: A column has a wrong type.
        ValueError: Columns contradict themselves, each other or the row's anchors. The message shows the row.

    Example:
        collator = IGCDataCollator(pad_token_id=0, igc_config=IGCConfig(layer=1))
        batch = collator([{"input_ids": [5, 6, 7], "labels": [-100, -100, 7], "igc_operator": "none"}])
    """

    igc_config: IGCConfig | None = None
    tokenizer: Any = None
    needs_columns: bool = True

    def __post_init__(self) -> None:
        if self.igc_config is None:
            raise ValueError(
                "`igc_config=None` leaves the length of the numbers unknown. Pass the adapter's `IGCConfig`, or use "
                "TRL's collator for a model without an adapter."
            )
        if self.padding_free:
            raise ValueError(
                "`padding_free=True` joins the rows of a batch, and a calculation would read across them. "
                "Set `padding_free=False`."
            )
        self._respell = single_digits(self.igc_config, self.tokenizer)
        self._warned = False

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        """Makes the batch of `examples`."""
        assert self.igc_config is not None
        has_columns = any(name in example for example in examples for name in ALL_COLUMNS)
        if self.needs_columns and not has_columns:
            raise ValueError(
                f"The rows have no operand column, only {', '.join(sorted(examples[0]))}, so the reading would learn "
                "nothing. Other trainers than `IGCTrainer` remove operand columns before the collator: set "
                "`remove_unused_columns=False`, or use `IGCTrainer`. If there are none on purpose, set "
                "`IGCDataCollator(needs_columns=False)`."
            )
        if self._respell is not None:  # rows that `IGCTrainer` prepared are respelled already, which changes nothing
            examples = [{**example, **self._respell(example)} for example in examples]
        batch: dict[str, Any] = super().torch_call(examples)
        ids = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, PADDING)
        both, rules = zip(ids.tolist(), batch["labels"].tolist(), strict=True), Rules.of(self.igc_config)
        anchors = even([anchors_of_labels(rules, *row) for row in both])
        batch["igc_anchors"] = positions(anchors)
        if not has_columns:  # no targets: the model knows then that it gets none, and says so
            return batch
        labelled = [self._steps(example) for example in examples]
        rows = [[steps.get(at, UNKNOWN) for at, _ in row] for steps, row in zip(labelled, anchors, strict=True)]
        return batch | encode_steps(rows, Limits.of(self.igc_config))

    def _steps(self, example: Mapping[str, Any]) -> Mapping[int, StepLabel]:
        assert self.igc_config is not None
        if example.get(STEPS) is not None:
            return steps_of_checked(example)
        try:
            found, unread = steps_of(example, self.igc_config, "row")
        except (TypeError, ValueError):
            # Decoding a row takes longer than checking it, so only the names of faulty rows are made.
            found, unread = steps_of(example, self.igc_config, self._name(example))
        if unread and not self._warned:
            self._warned = True
            warn("unread", "training", "some rows", unread[0])
        return found

    def _name(self, example: Mapping[str, Any]) -> str:
        """The row's name in errors: its text before the first answer."""
        labels = example.get("labels") or []
        end = next((i for i, label in enumerate(labels) if i and label != -100), len(example["input_ids"]))
        ids = list(example["input_ids"][:end])
        shown = repr(ids if self.tokenizer is None else self.tokenizer.decode(ids))
        shown = shown if len(shown) <= 120 else f"{shown[:40]} ... {shown[-80:]}"
        return f"{example[ROW_COLUMN]} ({shown})" if example.get(ROW_COLUMN) else f"row {shown}"


def ours(collator: Any, config: IGCConfig, tokenizer: Any, has_columns: bool) -> Any:
    """The collator for a trainer that keeps operand columns: TRL's default one is replaced, and custom ones stay."""
    if type(collator) is DataCollatorForLanguageModeling:
        given = {f.name: getattr(collator, f.name) for f in dataclasses.fields(collator)}
        return IGCDataCollator(**given, igc_config=config, tokenizer=tokenizer, needs_columns=False)
    if isinstance(collator, IGCDataCollator):
        collator = copy.copy(collator)
        collator.needs_columns = False
    elif has_columns:
        logger.warning(
            f"The operand columns are passed to `{type(collator).__name__}`, which has to convert them to the `igc_*` "
            "tensors. Leave `data_collator` out, or derive yours from `IGCDataCollator`."
        )
    return collator


def single_digits(config: IGCConfig, tokenizer: Any) -> Callable[[Mapping[str, Any]], dict[str, list[int]]] | None:
    """Writes the labelled numbers of a row in single-digit tokens, which spell the same text; for `dataset.map`.

    The calculator writes results like this where the tokenizer has no fixed groups of digits, so labels must, too.
    None if it writes groups, or has learned how to write.
    """
    table = config.token_table
    if table is None or table.group != 1:
        return None
    # Some numeric tokens begin with a space, whose own token replaces it.
    space = [] if tokenizer is None else tokenizer(" ", add_special_tokens=False)["input_ids"]
    return functools.partial(_in_single_digits, table=table, space=space if len(space) == 1 else None)


def _in_single_digits(row: Mapping[str, Any], table: TokenTable, space: list[int] | None) -> dict[str, list[int]]:
    """The row's `input_ids` and `labels`."""
    ids: list[int] = []
    labels: list[int] = []
    given = row.get("labels") or row["input_ids"]  # without labels, all tokens are trained
    for token, label in zip(row["input_ids"], given, strict=True):
        pieces = [token]
        if label != IGNORE and token in table.numbers:
            spelled = table.numbers[token].strip()
            pieces = [table.tokens[digit] for digit in spelled]
            if spelled != table.numbers[token]:
                if space is None:
                    raise ValueError(
                        f"Token {token} spells {spelled!r} after a space, and the space has no token of its own here, "
                        "so an answer cannot be written in single digits. Pass the `tokenizer`, write answers without "
                        'a leading space, or use `interface="hidden"`.'
                    )
                pieces = space + pieces
        ids += pieces
        labels += [label] if label == IGNORE else pieces
    return {"input_ids": ids, "labels": labels}
