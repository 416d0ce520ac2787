"""What a note in front of a question does to the loss of its answer.

In: training rows, split into context and answer (`Row`), and notes. Out: for each row and note the mean loss of the
answer's tokens, in nats. The note stands in front of the last message before the answer; the answer is tokenized by
itself, so that its tokens are the same behind every note, and what ends its turn does not count. One answer per row;
nothing is generated and nothing is trained. Try it: `pytest tests/test_self_annotation.py`.

Shapes: B texts, T tokens of the longest, N tokens of an answer, V ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .candidates import numbers_of
from .decoding import padding_token


__all__ = ["Row", "answer_losses", "positions", "read_row"]

_UNUSED = {  # columns that would change what the model sees, or whose answer has no known beginning
    "text": "where its answer begins is not known",
    "tools": "the model would be asked without them",
    "chat_template_kwargs": "the model would be asked without them",
    "images": "only texts are read",
}


class Row(NamedTuple):
    """What is scored of a training row."""

    context: str | list[dict[str, Any]]  # all before the answer
    answer: str
    text: str  # of the context, without roles
    numbers: list[str]  # of this text


def read_row(row: Mapping[str, Any], where: str) -> Row:
    """Where the answer of a row begins.

    Args:
        row: `prompt` and `completion`, two strings or lists of messages; or `messages`. Only the last message is the
            assistant's.
        where: Names the row in error messages.

    Raises:
        ValueError: A row of another form, or without text.
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
            raise ValueError(f"{where} has a message without text, got {messages!r:.200}. Leave the row out.")
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
    return Row(context, answer, text, numbers_of(text))


def positions(model: Any) -> int:
    """The longest text that a model takes, in tokens."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None) or 10**9  # architectures differ


def answer_losses(model: Any, tokenizer: Any, tried: Sequence[tuple[Row, str]], batch_size: int) -> list[float | None]:
    """The mean loss of each row's answer behind a note, in nats per token.

    Args:
        model: A causal LM in eval mode.
        tokenizer: Its tokenizer; with a chat template if there are messages.
        tried: Rows and notes; an empty note is none.
        batch_size: Texts per forward pass; the longest come first.

    Returns:
        One loss per pair; None where the text is longer than the model's positions: it is not cut.
    """
    tokens = [
        (_context(tokenizer, row.context, note), tokenizer(row.answer, add_special_tokens=False)["input_ids"])
        for row, note in tried
    ]
    sizes, longest = [len(before) + len(answer) for before, answer in tokens], positions(model)
    order = sorted((at for at, size in enumerate(sizes) if size <= longest), key=lambda at: -sizes[at])
    losses: list[float | None] = [None] * len(tokens)
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        found = _batch_losses(model, padding_token(model, tokenizer), [tokens[at] for at in batch])
        for at, loss in zip(batch, found, strict=True):
            losses[at] = loss
    return losses


def _context(tokenizer: Any, context: str | list[dict[str, Any]], note: str) -> list[int]:
    """Tokens up to where the answer begins, with a note in front of the last message."""
    from jinja2.exceptions import TemplateError  # the engine of chat templates, installed wherever they work

    if isinstance(context, str):
        return tokenizer(note + context)["input_ids"]
    *before, last = context
    chat = [*before, last | {"content": note + last["content"]}]
    try:
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    except TemplateError as error:
        raise ValueError(
            f"The tokenizer's chat template fails on {context!r:.200}: {error}. Change the row."
        ) from error
    return tokenizer(text, add_special_tokens=False)["input_ids"]  # the template has written them


@torch.no_grad()
def _batch_losses(model: Any, padding: int, tokens: Sequence[tuple[list[int], list[int]]]) -> list[float]:
    """Mean losses of the second part of each text, given the first; padded on the right."""
    longest = max(len(before) + len(answer) for before, answer in tokens)
    ids = torch.full((len(tokens), longest), padding)  # [B, T]
    mask = torch.zeros_like(ids)
    for index, (before, answer) in enumerate(tokens):
        ids[index, : len(before) + len(answer)] = torch.tensor(before + answer)
        mask[index, : len(before) + len(answer)] = 1
    ids, mask = ids.to(model.device), mask.to(model.device)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits  # [B, T, V]
    losses = []
    for scores, row, (before, answer) in zip(logits, ids, tokens, strict=True):
        first, end = len(before), len(before) + len(answer)
        predicted = scores[first - 1 : end - 1].float()  # [N, V]
        losses.append(torch.nn.functional.cross_entropy(predicted, row[first:end]).item())
    return losses
