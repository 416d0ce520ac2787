"""The training set of a run before the training: labels that teach nothing refused, rows held out, labels printed.

In: the training set and the test set of a run, and its arguments. Out: the rows that are trained, and annotated rows
that are not, for the closing evaluation: rows of a test set are preferred; generated rows are continued, so that the
trained ones do not depend on how many are held out; of other data a tenth at most is taken away.
Try it: `pytest tests/sft/test_held_out.py`, `pytest tests/sft/test_closing.py -k labels`
"""

from __future__ import annotations

import random
from typing import Any

from accelerate import PartialState
from accelerate.logging import get_logger

from ..data.columns import COLUMNS, EXPRESSION_COLUMN, supervised_rows
from ..data.dataset import to_dataset
from ..data.label_summary import similar_columns, summarize
from ..tuner.config import IGCConfig
from .arguments import IGCArguments
from .datasets import CHAT_PAIR, PAIR, generated_rows


__all__ = ["LARGEST_PART", "check_annotated", "describe", "hold_out"]

logger = get_logger(__name__)

LARGEST_PART = 10  # at most one in so many annotated rows is held out


def hold_out(
    train: Any, test: Any, arguments: IGCArguments, seed: int, generated_alone: bool, conversational: bool
) -> tuple[Any, Any]:
    """Chooses `arguments.igc_held_out` annotated rows, or fewer where there are few.

    Args:
        train: The training set.
        test: The test set, or None.
        arguments: The parsed arguments.
        seed: Seed of the choice and of generated rows.
        generated_alone: Whether the training set consists of generated rows only.
        conversational: Whether these are messages.

    Returns:
        The training set without these rows, and these rows; None instead of them if there are none.
    """
    source = train if test is None else test
    if not arguments.igc_held_out or isinstance(source, dict) or not hasattr(source, "__len__"):
        return train, None
    count = min(arguments.igc_held_out, len(supervised_rows(source)) // (LARGEST_PART if test is None else 1))
    if not count:
        return train, None
    if test is None and generated_alone:
        rows = generated_rows(arguments, seed, CHAT_PAIR if conversational else PAIR)
        return train, to_dataset(rows.take(len(train) + count)[len(train) :])
    chosen = set(random.Random(seed).sample(supervised_rows(source), count))
    held = source.select(sorted(chosen))
    if test is not None:
        return train, held
    return train.select([index for index in range(len(train)) if index not in chosen]), held


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
    cure = (
        f"Probably meant: {', '.join(meant)}; rename the columns."
        if meant
        else (
            "Add these columns, find them with `peft-igc annotate`, or add generated rows with `igc_generated_rows`."
        )
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
