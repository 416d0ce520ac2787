"""A fast path from generated rows to a trainer: tokenized in lots, batches of rows of similar length.

In: conversational rows with operand columns, as `data.ArithmeticRows` yields them. Out: rows with `input_ids` and
`labels`, which TRL passes through as they are. Through TRL's own preparation each row of a stream costs several calls;
here a batch of 128 costs a few milliseconds beside a training step of hundreds.
Nothing is truncated. Try it: `pytest tests/test_streaming.py`
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from .collator import CUT, WHOLE
from .columns import COLUMNS


__all__ = ["tokenized", "tokenized_rows"]


def tokenized_rows(
    rows: Iterable[Mapping[str, Any]],
    tokenizer: Any,
    batch_size: int,
    batches_at_once: int,
    seed: int,
    writing_every: int = 1,
) -> Iterator[dict[str, Any]]:
    """Conversational rows as tokens, so that every `batch_size` of them are of similar length.

    Each lot of so many batches is sorted by length and cut into batches, whose order is shuffled.

    Args:
        rows: As `tokenized` takes them, or what it made of them.
        tokenizer: With a chat template.
        batch_size: Rows per batch of the trainer.
        batches_at_once: Batches per lot.
        seed: Of the order of batches.
        writing_every: The trainer's `igc_writing_every`: where the writing is trained in one batch of several, the
            first of them, that one holds rows with results only. The others have nothing to teach it.

    Yields:
        `input_ids`, `labels` (-100 on the prompt) and the operand columns, marked as not cut.

    Raises:
        ValueError: Lots that are no multiple of `writing_every` batches, so that the trainer would fall out of step.
    """
    if batches_at_once % writing_every:
        raise ValueError(
            f"`batches_at_once={batches_at_once}` is no multiple of `writing_every={writing_every}`. Make it one, or "
            "the batches with results would not be those in which the writing is trained."
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
    """Conversational rows as tokens.

    They go through the fast tokenizer together: one call per row would cost a tenth of a training step.

    The first token of an answer that begins with other words than its result has no label: whether there are such
    words is the base model's to say, and an adapter that were taught them would now and then begin a sentence where a
    number is due.

    Args:
        rows: Rows with operand columns, and `prompt` and `completion` or `messages`, whose answers all have labels.
        tokenizer: With a chat template; a fast one.

    Returns:
        As `tokenized_rows` yields them.

    Raises:
        ValueError: A chat template that renders a prompt differently when the answer follows it.
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
                    f"The tokenizer joins the beginning of the answer {chat[at]['content']!r:.80} with what stands "
                    "before it. Train through `prompt` and `completion` columns instead, which TRL aligns."
                )
            inside = [place for place, (first, _) in enumerate(offsets) if start <= first < end]
            result = row["igc_result"] if results is None else results[number] if len(turns) == len(results) else None
            if result and chat[at]["content"].find(result) > 0:
                inside = inside[1:]
            for place in inside:
                labels[place] = ids[place]
        columns = {name: row[name] for name in COLUMNS}
        made.append({"input_ids": ids, "labels": labels, CUT: WHOLE, **columns})
    return made


def _answer(tokenizer: Any, chat: list[dict[str, str]], at: int, text: str) -> tuple[int, int]:
    """Where message `at` of a chat begins and ends in its text, what ends the turn included."""
    before = tokenizer.apply_chat_template(chat[:at], tokenize=False, add_generation_prompt=True)
    whole = text if at == len(chat) - 1 else tokenizer.apply_chat_template(chat[: at + 1], tokenize=False)
    if not (text.startswith(whole) and whole.startswith(before)):
        raise ValueError(
            f"The chat template renders the prompt {chat[:at]!r} differently when an answer follows it. "
            "Train through `prompt` and `completion` columns instead, which TRL aligns."
        )
    return len(before), len(whole)


def _by_length(rows: list[dict[str, Any]], batch_size: int, rng: Random) -> list[list[dict[str, Any]]]:
    """Batches of rows of similar length, in any order."""
    rows = sorted(rows, key=lambda row: len(row["input_ids"]))
    batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    if rows and len(batches[-1]) == batch_size:  # a smaller one has to stay the last, or it would shift all others
        rng.shuffle(batches)
    return batches


def _with_results(
    rows: list[dict[str, Any]], batch_size: int, count: int, rng: Random
) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Up to `count` batches of rows whose result is a number, and the other rows."""
    fit = [at for at, row in enumerate(rows) if _has_number(row["igc_result"])]
    taken = set(rng.sample(fit, min(count, len(fit) // batch_size) * batch_size))
    chosen = [row for at, row in enumerate(rows) if at in taken]
    return _by_length(chosen, batch_size, rng), [row for at, row in enumerate(rows) if at not in taken]


def _has_number(result: Any) -> bool:
    """Whether a result, or one of several, is a number."""
    results = result if isinstance(result, (list, tuple)) else [result]
    return any((one or "").lstrip("-").isdigit() for one in results)
