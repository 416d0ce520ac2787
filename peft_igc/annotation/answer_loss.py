"""The loss of an answer if a note precedes its question.

In: training rows, split into context and answer (`ScoredRow`), and notes. Out: the mean loss of the answer's tokens in
nats, for each pair of row and note. The note is put in front of the last message before the answer. The answer is
tokenized separately, so its tokens do not depend on the note; the end of its turn is not scored. One answer per row.
Nothing is generated or trained.
Try it: `pytest tests/annotation/test_self_annotation.py -k loss`

Shapes: B rows, T positions (tokens of the longest text), N tokens of an answer, V vocabulary entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..inference.decoding import batches_of, chat_text, longest_text, padding_token


__all__ = ["ScoredRow", "answer_losses", "read_row"]

# Columns that would change the input of the model, or hide the beginning of the answer, and why they are refused.
_UNUSED = {
    "text": "where its answer begins is not known",
    "tools": "the model would be asked without them",
    "chat_template_kwargs": "the model would be asked without them",
    "images": "only texts are read",
}


class ScoredRow(NamedTuple):
    """A training row, split for scoring."""

    context: str | list[dict[str, Any]]  # the text or the messages before the answer
    answer: str
    text: str  # the context without roles


def read_row(row: Mapping[str, Any], where: str) -> ScoredRow:
    """Splits a training row into context and answer.

    Args:
        row: `prompt` and `completion` (two strings or two lists of messages), or `messages`. Only the last message may
            be the assistant's.
        where: The row's name in error messages.

    Raises:
        ValueError: The row has another form, or an empty prompt or answer.
    """
    for name, reason in _UNUSED.items():
        if row.get(name) is not None:
            raise ValueError(f"{where} has `{name}`: {reason}. Write it as `prompt` and `completion`.")
    prompt, completion = row.get("prompt"), row.get("completion")
    context: str | list[dict[str, Any]]
    if isinstance(prompt, str) and isinstance(completion, str):
        text, answer, context = prompt, completion, prompt
    else:
        chat = row.get("messages")
        if chat is None and isinstance(prompt, list) and isinstance(completion, list) and len(completion) == 1:
            chat = [*prompt, *completion]
        messages = chat if isinstance(chat, list) else []
        if not all(isinstance(one, Mapping) and isinstance(one.get("content"), str) for one in messages):
            raise ValueError(f"{where} has a message without text: {messages!r:.200}. Leave the row out.")
        roles = [one.get("role") for one in messages]
        if len(roles) < 2 or roles[-1] != "assistant" or roles.count("assistant") > 1:
            raise ValueError(
                f"{where} must be two strings `prompt` and `completion`, or messages of which only the last is the "
                f"assistant's; its fields are {sorted(row)}, its roles {roles}. Split a chat into a row per answer."
            )
        context, answer = [dict(one) for one in messages[:-1]], messages[-1]["content"]
        text = "\n".join(one["content"] for one in messages[:-1])
    if not text.strip() or not answer.strip():
        raise ValueError(f"{where} has an empty prompt or answer. Leave the row out.")
    return ScoredRow(context, answer, text)


def answer_losses(
    model: Any, tokenizer: Any, tried: Sequence[tuple[ScoredRow, str]], batch_size: int
) -> list[float | None]:
    """The mean loss of each row's answer if the note precedes the question, in nats per token.

    Args:
        model: A causal LM in eval mode.
        tokenizer: Its tokenizer, with a chat template if there are messages.
        tried: Pairs of row and note. An empty string means no note.
        batch_size: Texts per forward pass.

    Returns:
        One loss per pair, or None for a text that is longer than the model's maximum; texts are never cut.
    """
    tokens = [
        (_context(tokenizer, row.context, note), tokenizer(row.answer, add_special_tokens=False)["input_ids"])
        for row, note in tried
    ]
    longest = longest_text(model) or float("inf")
    fit = [at for at, (before, answer) in enumerate(tokens) if len(before) + len(answer) <= longest]
    losses: list[float | None] = [None] * len(tokens)
    for chosen in batches_of([[*before, *answer] for before, answer in (tokens[at] for at in fit)], batch_size):
        batch = [fit[one] for one in chosen]
        found = _batch_losses(model, padding_token(model, tokenizer), [tokens[at] for at in batch])
        for at, loss in zip(batch, found, strict=True):
            losses[at] = loss
    return losses


def _context(tokenizer: Any, context: str | list[dict[str, Any]], note: str) -> list[int]:
    """The token ids before the answer, with the note in front of the last message."""
    if isinstance(context, str):
        return tokenizer(note + context)["input_ids"]
    *before, last = context
    chat = [*before, last | {"content": note + last["content"]}]
    text = chat_text(tokenizer, chat, "Change the row.")
    return tokenizer(text, add_special_tokens=False)["input_ids"]  # the template adds them


@torch.no_grad()
def _batch_losses(model: Any, padding: int, tokens: Sequence[tuple[list[int], list[int]]]) -> list[float]:
    """The mean loss of each answer, given the tokens before it."""
    longest = max(len(before) + len(answer) for before, answer in tokens)
    ids = torch.full((len(tokens), longest), padding)  # [B, T], padded on the right
    mask = torch.zeros_like(ids)
    for index, (before, answer) in enumerate(tokens):
        ids[index, : len(before) + len(answer)] = torch.tensor(before + answer)
        mask[index, : len(before) + len(answer)] = 1
    ids, mask = ids.to(model.device), mask.to(model.device)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits  # [B, T, V]
    losses = []
    for scores, row, (before, answer) in zip(logits, ids, tokens, strict=True):
        first, end = len(before), len(before) + len(answer)
        # The scores at a position predict the next token. Losses in bfloat16 are too coarse to compare.
        predicted = scores[first - 1 : end - 1].float()  # [N, V]
        losses.append(torch.nn.functional.cross_entropy(predicted, row[first:end]).item())
    return losses
