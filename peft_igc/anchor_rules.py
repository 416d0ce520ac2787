"""Anchor rules as token sequences: the assistant header of a chat template, and texts such as `=`.

In: a Hugging Face tokenizer, fast or slow. Out: token ids, for the fields `anchor_token_ids` and `inline_token_ids` of
an `IGCConfig`. A rule is made here, once; where it holds in a text is found in `anchors`.
Try it: `pytest tests/test_anchor_rules.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .vocabulary import special_tokens, token_ids, token_texts


__all__ = ["TextRule", "assistant_header", "text_rule"]

# What a text may stand behind: alone, behind a number, a bracket or a word, with and without a space.
_BEFORE = ("", "5", "5 ", ")", ") ", "a", "a ")


@dataclass(frozen=True)
class TextRule:
    """A text behind which a result is due, in the tokens of one vocabulary.

    Attributes:
        text: The text.
        sequences: Token sequences that end in it, or in it and a space, a minus or a currency sign, so that a token
            which also begins the result (`=-`, `=$`) is an anchor too.
        hidden: Tokens that hold it and go on with something else. A text in which the tokenizer chooses one of them
            has no anchor there: `{25: '="'}`.
    """

    text: str
    sequences: list[list[int]]
    hidden: dict[int, str]


def text_rule(tokenizer: Any, text: str) -> TextRule:
    """The rule of a text, for every token of the vocabulary that ends in it.

    Args:
        tokenizer: a Hugging Face tokenizer.
        text: for example `"="`.

    Raises:
        ValueError: an empty text, or one that no tokens of this vocabulary end in.
    """
    if not text.strip():
        raise ValueError(f"The anchor rule {text!r} is empty. Name a text behind which a result is due, such as '='.")
    texts, special = token_texts(tokenizer), special_tokens(tokenizer)
    ends = re.compile(f"{re.escape(text)} ?[-\u2212$€£]?")
    plain = [(token, spelled) for token, spelled in enumerate(texts) if text in spelled and token not in special]
    single = {token for token, spelled in plain if ends.fullmatch(spelled[spelled.rindex(text) :])}
    sequences = [[token] for token in sorted(single)]
    for ids in token_ids(tokenizer, [before + text + sign for before in _BEFORE for sign in ("", "-")]):
        sequence = _shortest_end(ids, texts, ends)
        if sequence is not None and sequence[-1] not in single and sequence not in sequences:
            sequences.append(sequence)
    if not sequences:
        raise ValueError(
            f"No tokens of `{type(tokenizer).__name__}` end in the anchor rule {text!r}. Name another text, or pass "
            "`inline_token_ids=[...]`."
        )
    return TextRule(text, sequences, {token: spelled for token, spelled in plain if token not in single})


def _shortest_end(ids: list[int], texts: list[str], ends: re.Pattern[str]) -> list[int] | None:
    """The last of these tokens, as many as spell such an end; a minus with a token of its own is left out."""
    if texts[ids[-1]].strip() == "-":
        ids = ids[:-1]
    for start in range(len(ids) - 1, -1, -1):
        spelled = "".join(texts[token] for token in ids[start:])
        if any(ends.fullmatch(spelled, at) for at in range(len(spelled))):
            return ids[start:]
    return None


def assistant_header(tokenizer: Any) -> list[int]:
    """Token ids that the chat template puts before an assistant's answer.

    Args:
        tokenizer: a Hugging Face tokenizer with a chat template.

    Raises:
        ValueError: if there is no chat template, if it adds nothing where the assistant begins, or if what it adds has
            other tokens within a text.
    """
    name = type(tokenizer).__name__
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError(
            f"`{name}` has no chat template, so there is no assistant header to anchor on. "
            "Pass `anchor_token_ids=[...]`, or use `IGCConfig(...)`, which anchors on the end of the prompt."
        )
    chat = [{"role": "user", "content": "1"}]
    before = tokenizer.apply_chat_template(chat, tokenize=False)
    after = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    header = after[len(before) :] if after.startswith(before) else ""
    ids = list(tokenizer(header, add_special_tokens=False)["input_ids"]) if header else []
    if not ids:
        raise ValueError(
            f"The chat template of `{name}` adds nothing where the assistant begins (`add_generation_prompt=True`). "
            "Pass `anchor_token_ids=[...]`."
        )
    # The same tokens must stand there in a prompt and before an answer, or generation and scoring would differ.
    for text in (after, after + "7"):
        whole = list(tokenizer(text, add_special_tokens=False)["input_ids"])
        if not any(whole[i : i + len(ids)] == ids for i in range(len(whole))):
            raise ValueError(
                f"The assistant header {header!r} of the chat template of `{name}` is split into other tokens within "
                "a text than by itself, so it cannot be found by its tokens. Pass `anchor_token_ids=[...]`."
            )
    return ids
