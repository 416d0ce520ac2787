"""A fast path from generated rows to a trainer: tokenized in lots, batches of rows of similar length.

In: conversational rows with operand columns, as `data.ArithmeticRows` yields them. Out: rows with `input_ids` and
`labels`, which TRL passes through as they are. Through TRL's own preparation each row of a stream costs several calls;
here a batch of 128 costs a few milliseconds beside a training step of hundreds.
Only prompts with one answer; nothing is truncated. Try it: `pytest tests/test_streaming.py`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from random import Random
from typing import Any

from .collator import CUT, WHOLE
from .columns import COLUMNS


__all__ = ["tokenized_rows"]


def tokenized_rows(
    rows: Iterable[Mapping[str, Any]], tokenizer: Any, batch_size: int, batches_at_once: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Conversational rows as tokens, so that every `batch_size` of them are of similar length.

    Many rows go through the fast tokenizer at once: one call per row would cost a tenth of a training step. Each such
    lot is sorted by length and cut into batches, whose order is shuffled.

    Args:
        rows: Rows with `prompt`, `completion` and operand columns.
        tokenizer: With a chat template.
        batch_size: Rows per batch of the trainer.
        batches_at_once: Batches per lot.
        seed: Of the order of batches.

    Yields:
        `input_ids`, `labels` (-100 on the prompt) and the operand columns, marked as not cut.

    Raises:
        ValueError: A chat template that renders a prompt differently when the answer follows it.
    """
    rng = Random(f"tokenized_rows/{seed}")
    source = iter(rows)
    while lot := list(islice(source, batch_size * batches_at_once)):
        prompts, texts = _ids(tokenizer, lot, with_answer=False), _ids(tokenizer, lot, with_answer=True)
        made = []
        for row, prompt, ids in zip(lot, prompts, texts, strict=True):
            if ids[: len(prompt)] != prompt:
                raise ValueError(
                    f"The chat template renders the prompt {row['prompt']!r} differently when an answer follows it. "
                    "Train through `prompt` and `completion` columns instead, which TRL aligns."
                )
            labels = [-100] * len(prompt) + ids[len(prompt) :]
            columns = {name: row[name] for name in COLUMNS}
            made.append({"input_ids": ids, "labels": labels, CUT: WHOLE, **columns})
        made.sort(key=lambda row: len(row["input_ids"]))
        batches = [made[start : start + batch_size] for start in range(0, len(made), batch_size)]
        if len(batches[-1]) == batch_size:  # a smaller one has to stay the last, or it would shift all others
            rng.shuffle(batches)
        for batch in batches:
            yield from batch


def _ids(tokenizer: Any, rows: list[Mapping[str, Any]], with_answer: bool) -> list[list[int]]:
    """Token ids of prompts, or of whole conversations."""
    chats = [row["prompt"] + row["completion"] if with_answer else row["prompt"] for row in rows]
    texts = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=not with_answer)
    return tokenizer(texts, add_special_tokens=False)["input_ids"]
