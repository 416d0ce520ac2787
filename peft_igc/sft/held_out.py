"""Rows held out of the training of `peft-igc sft`, for its closing evaluation.

In: the training set and the test set of a run. Out: the rows that are trained, and annotated rows that are not. Rows
of a test set are preferred; generated rows are continued, so that the trained ones do not depend on how many are held
out; of other data a tenth at most is taken away. Nothing is evaluated here.
Try it: `pytest tests/sft/test_held_out.py`
"""

from __future__ import annotations

import random
from typing import Any

from ..data.columns import supervised_rows
from ..data.dataset import to_dataset
from .arguments import IGCArguments
from .datasets import CHAT_PAIR, PAIR, generated_rows


__all__ = ["LARGEST_PART", "hold_out"]

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
