"""The labels of a training set, before the training: refused if they teach nothing, else printed.

In: a training set with operand columns, and the arguments of a run. Out: lines of text, warnings, or an error.
Try it: `pytest tests/sft/test_closing.py -k labels`
"""

from __future__ import annotations

from typing import Any

from accelerate import PartialState
from accelerate.logging import get_logger

from ..data.columns import COLUMNS, EXPRESSION_COLUMN, supervised_rows
from ..data.label_summary import similar_columns, summarize
from ..tuner.config import IGCConfig
from .arguments import IGCArguments


__all__ = ["check_annotated", "describe"]

logger = get_logger(__name__)


def check_annotated(train: Any, config: IGCConfig, training_args: Any, igc_args: IGCArguments) -> None:
    """Refuses training rows that teach a new calculator nothing.

    A saved one (`igc_init_from`) can read already: rows without operands train its writing, or what is beside it.
    """
    names = train.column_names
    if names is None or igc_args.igc_init_from is not None:
        return
    if not training_args.igc_loss_weight:  # the reading is not trained on purpose
        return
    if supervised_rows(train) if hasattr(train, "__len__") else {COLUMNS[0], EXPRESSION_COLUMN} & set(names):
        return
    meant = [f"`{name}` as `{column}`" for name, column in similar_columns(names).items()]
    cure = f"Probably meant: {', '.join(meant)}; rename the columns." if meant else (
        "Add these columns, find them with `peft-igc annotate`, or add generated rows with `igc_generated_rows`."
    )
    raise ValueError(
        f"No training row has a value in `{COLUMNS[0]}` or `{EXPRESSION_COLUMN}`, so the calculator would learn to "
        f"read nothing. {cure}"
    )


def describe(train: Any, config: IGCConfig, training_args: Any, igc_args: IGCArguments) -> None:
    """Prints the labels of the training set and the learning rates, and warns of what the labels lack."""
    state, summary = PartialState(), summarize(train)
    if summary is not None:  # a stream is not counted
        state.print(summary.format())
        for text in summary.warnings(config.operations):
            logger.warning(text)
    rates = f"{training_args.calculator_learning_rate:g} for the calculator"
    if training_args.igc_muon_learning_rate is not None:
        rates += f" ({training_args.igc_muon_learning_rate:g} for its matrices, by Muon)"
    if igc_args.has_lora or igc_args.igc_train_base:
        rates += f", {training_args.learning_rate:g} for the {'LoRA' if igc_args.has_lora else 'base'}"
    state.print(f"Learning rate: {rates}.")
