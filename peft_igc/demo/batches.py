"""Generated rows tokenized in lots, in batches of rows of similar length.

In: conversational rows with operand columns, as `ArithmeticRows` yields them. Out: rows with `input_ids` and `labels`,
which TRL does not tokenize again. TRL's own preparation takes several calls per row of a stream; here a batch of 128
rows takes a few milliseconds, compared with hundreds for a training step. Nothing is truncated.
Try it: `pytest tests/demo/test_batches.py`
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from ..data.columns import ALL_COLUMNS
from ..trainer.collator import CUT, WHOLE


__all__ = ["has_number", "tokenized", "tokenized_rows"]


def tokenized_rows(
    rows: Iterable[Mapping[str, Any]],
    tokenizer: Any,
    batch_size: int,
    batches_at_once: int,
    seed: int,
    writing_every: int = 1,
) -> Iterator[dict[str, Any]]:
    """Tokenizes conversational rows and orders them so that each batch has rows of similar length.

    A lot of `batches_at_once` batches is sorted by length and cut into batches, whose order is then shuffled.

    Args:
        rows: Rows for `tokenized`, or rows that it returned.
        tokenizer: A tokenizer with a chat template.
        batch_size: Rows per batch of the trainer.
        batches_at_once: Batches per lot.
        seed: Seed of the order of batches.
        writing_every: The trainer's `igc_writing_every`. If it is above 1, the batches that train the writing (the
            first of every `writing_every`) consist of rows with results, since other rows teach the writing nothing.

    Yields:
        `input_ids`, `labels` (-100 on the prompt) and the operand columns, marked as not cut.

    Raises:
        ValueError: `batches_at_once` is not a multiple of `writing_every`, so rows and trainer would get out of step.
    """
    if batches_at_once % writing_every:
        raise ValueError(
            f"`batches_at_once={batches_at_once}` is no multiple of `writing_every={writing_every}`. Make it one, so "
            "that the batches with results are those that train the writing."
        )
    rng = Random(f"tokenized_rows/{seed}")
    source = iter(rows)
    while lot := list(itertools.islice(source, batch_size * batches_at_once)):
        made = [dict(row) for row in lot] if "input_ids" in lot[0] else tokenized(lot, tokenizer)
        written: list[list[dict[str, Any]]] = []
        if writing_every > 1:
            written, made = _with_results(made, batch_size, len(made) // batch_size // writing_every, rng)
        batches = _by_length(made, batch_size, rng)
        others = max(writing_every - 1, 1)
        for start in range(0, len(batches), others):
            yield from itertools.chain(*written[:1], *batches[start : start + others])
            written = written[1:]


def tokenized(rows: Sequence[Mapping[str, Any]], tokenizer: Any) -> list[dict[str, Any]]:
    """Tokenizes conversational rows in one call, because a call per row would take a tenth of a training step.

    If an answer does not begin with its result, its first token has no label. The base model decides how to begin a
    sentence; an adapter trained on that token would sometimes begin a sentence in the place of a number.

    Args:
        rows: Rows with operand columns, and with either `prompt` and `completion`, or `messages`. In `messages` every
            answer gets labels.
        tokenizer: A fast tokenizer with a chat template.

    Returns:
        Rows as `tokenized_rows` yields them.

    Raises:
        ValueError: The chat template renders a prompt differently if an answer follows, or a token spans the beginning
            of an answer.
    """
    chats = [row["messages"] if "messages" in row else [*row["prompt"], *row["completion"]] for row in rows]
    wanted = [row["messages"] if "messages" in row else row["completion"] for row in rows]
    texts = tokenizer.apply_chat_template(chats, tokenize=False)
    encoded = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    made = []
    for row, chat, answers, text, ids, offsets in zip(
        rows, chats, wanted, texts, encoded["input_ids"], encoded["offset_mapping"], strict=True
    ):
        labels = [-100] * len(ids)
        results = row["igc_result"] if isinstance(row["igc_result"], (list, tuple)) else None
        turns = [at for at, message in enumerate(chat) if message["role"] == "assistant"]
        for number, at in enumerate(turns):
            if not any(message is chat[at] for message in answers):
                continue
            start, end = _answer(tokenizer, chat, at, text)
            if start not in {first for first, _ in offsets}:
                raise ValueError(
                    f"The tokenizer joins the beginning of the answer {chat[at]['content']!r:.80} with the text "
                    "before it. Train with `prompt` and `completion` columns instead, which TRL aligns."
                )
            inside = [place for place, (first, _) in enumerate(offsets) if start <= first < end]
            # A list of results belongs to the turns only if it has as many entries; otherwise to anchors in the texts.
            result = row["igc_result"] if results is None else results[number] if len(turns) == len(results) else None
            if result and chat[at]["content"].find(result) > 0:
                inside = inside[1:]
            for place in inside:
                labels[place] = ids[place]
        columns = {name: row.get(name) for name in ALL_COLUMNS}
        made.append({"input_ids": ids, "labels": labels, CUT: WHOLE, **columns})
    return made


def _answer(tokenizer: Any, chat: list[dict[str, str]], at: int, text: str) -> tuple[int, int]:
    """The characters at which message `at` of a chat begins and ends in its text, with the end of its turn."""
    before = tokenizer.apply_chat_template(chat[:at], tokenize=False, add_generation_prompt=True)
    whole = text if at == len(chat) - 1 else tokenizer.apply_chat_template(chat[: at + 1], tokenize=False)
    if not (text.startswith(whole) and whole.startswith(before)):
        raise ValueError(
            f"The chat template renders the prompt {chat[:at]!r} differently when an answer follows it. "
            "Train with `prompt` and `completion` columns instead, which TRL aligns."
        )
    return len(before), len(whole)


def _by_length(rows: list[dict[str, Any]], batch_size: int, rng: Random) -> list[list[dict[str, Any]]]:
    """Batches of rows of similar length, in random order."""
    rows = sorted(rows, key=lambda row: len(row["input_ids"]))
    batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    # The trainer counts rows, so a smaller batch in front would shift the boundaries of all later ones.
    if rows and len(batches[-1]) == batch_size:
        rng.shuffle(batches)
    return batches


def _with_results(
    rows: list[dict[str, Any]], batch_size: int, count: int, rng: Random
) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Up to `count` batches of rows whose result is a number, and all other rows."""
    fit = [at for at, row in enumerate(rows) if has_number(row["igc_result"])]
    taken = set(rng.sample(fit, min(count, len(fit) // batch_size) * batch_size))
    chosen = [row for at, row in enumerate(rows) if at in taken]
    return _by_length(chosen, batch_size, rng), [row for at, row in enumerate(rows) if at not in taken]


def has_number(result: Any) -> bool:
    """Whether a result, or at least one in a list of results, is a number."""
    results = result if isinstance(result, (list, tuple)) else [result]
    return any((one or "").lstrip("-").replace(".", "").isdigit() for one in results)
