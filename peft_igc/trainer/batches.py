"""Conversational rows tokenized in one call, and an order in which each batch has rows of similar length.

TRL does not tokenize them again; its own preparation takes several calls per row. Nothing is truncated.
"""

import itertools
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ..data.columns import ALL_COLUMNS
from ..data.dataset import shuffled


BATCHES_AT_ONCE = 16


def in_lots(lengths: Sequence[int], batch_size: int, batches: int, seed: int) -> list[int]:
    """The order of rows in a training of a given number of batches: each batch has rows of similar length.

    All rows come in random order, then again in another one. A lot of `BATCHES_AT_ONCE` batches is sorted by length
    and cut into batches, whose order is then shuffled. `lengths` has the number of tokens of each row.
    """

    rng, order = Random(f"tokenized_rows/{seed}"), list[int]()
    source = shuffled(range(len(lengths)), seed)
    for first in range(0, batches, BATCHES_AT_ONCE):
        lot = sorted(itertools.islice(source, batch_size * BATCHES_AT_ONCE), key=lengths.__getitem__)
        made = [lot[start : start + batch_size] for start in range(0, len(lot), batch_size)]
        rng.shuffle(made)
        order += itertools.chain(*made[: batches - first])
    return order


def tokenized(rows: Sequence[Mapping[str, Any]], tokenizer: Any) -> list[dict[str, Any]]:
    """Tokenizes conversational rows in one call, because a call per row would take a tenth of a training step.

    If an answer does not begin with its result, its first token has no label. The base model decides how to begin a
    sentence; an adapter trained on that token would sometimes begin a sentence in the place of a number.

    Args:
        rows: Rows with operand columns, a `prompt`, and a `completion` of one message.
        tokenizer: A fast tokenizer with a chat template.

    Returns:
        Rows with `input_ids`, `labels` (-100 on the prompt) and the operand columns.

    Raises:
        ValueError: The chat template renders a prompt differently if an answer follows, or a token spans the beginning
            of an answer.
    """
    texts = tokenizer.apply_chat_template([[*row["prompt"], *row["completion"]] for row in rows], tokenize=False)
    encoded = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    made = []
    for row, text, ids, offsets in zip(rows, texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        prompt, (answer,) = row["prompt"], row["completion"]
        before = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        if not text.startswith(before):
            raise ValueError(
                f"The chat template renders the prompt {prompt!r} differently when an answer follows it. "
                "Train with `prompt` and `completion` columns instead, which TRL aligns."
            )
        begins, start = [first for first, _ in offsets], len(before)
        if start not in begins:
            raise ValueError(
                f"The tokenizer joins the beginning of the answer {answer['content']!r:.80} with the text "
                "before it. Train with `prompt` and `completion` columns instead, which TRL aligns."
            )
        labels = [token if first >= start else -100 for token, first in zip(ids, begins, strict=True)]
        result = row["igc_result"]
        if isinstance(result, list | tuple):  # several entries belong to anchors in the texts
            result = result[0] if len(result) == 1 else None
        if result and answer["content"].find(result) > 0:
            labels[begins.index(start)] = -100
        columns = {name: row.get(name) for name in ALL_COLUMNS}
        made.append({"input_ids": ids, "labels": labels, **columns})
    return made
