"""Anchor rules as token sequences: the assistant header of a chat template, and texts such as `=`.

A rule of `IGCConfig.anchors` is made here once, of a tokenizer; `anchors` finds its occurrences in a text.
"""

import re
from dataclasses import dataclass
from typing import Any

from ..text.vocabulary import Vocabulary, special_tokens, token_ids


# Text before the rule's text may change its tokens: nothing, a number, a bracket or a word, with and without a space.
_BEFORE = ("", "5", "5 ", ")", ") ", "a", "a ")


@dataclass(frozen=True)
class TextRule:
    """A text that a result follows, such as `=`, in the tokens of one vocabulary."""

    text: str  # the text
    # token sequences that end in the text. A space, a minus or a currency sign may follow within the last token, so
    # that a token which also begins the result (`=-`, `=$`) is an anchor too.
    sequences: list[list[int]]
    # tokens that contain the text and continue with something else, by id, such as `{25: '="'}`. Where the tokenizer
    # uses one of them, there is no anchor.
    hidden: dict[int, str]

    def as_dict(self) -> dict[str, Any]:
        """The rule as a dictionary for JSON."""
        return {"sequences": self.sequences, "hidden": {str(token): text for token, text in self.hidden.items()}}

    def report(self) -> str:
        """The number of token sequences and the tokens that hide the text, as lines for a terminal."""
        single = sum(len(sequence) == 1 for sequence in self.sequences)
        found = f"{self.text!r}; tokens that end in it: {single}"
        if len(self.sequences) > single:
            found += f"; sequences of tokens: {len(self.sequences) - single}"
        rows = [f"{'anchor rule':<15} {found}"]
        if self.hidden:
            examples = ", ".join(map(repr, list(self.hidden.values())[:8]))
            more = ", ..." if len(self.hidden) > 8 else ""
            meaning = "where the tokenizer uses one of these, there is no anchor"
            count = f"tokens that contain it and continue: {len(self.hidden):,}"
            rows.append(f"{'  hidden':<15} {count}: {examples}{more}; {meaning}")
        return "\n".join(rows)


def text_rule(tokenizer: Any, text: str) -> TextRule:
    """The rule of a text: every token of the vocabulary that ends in it, and every sequence that spells it. An empty
    text, or one that cannot be written with this vocabulary, is a ValueError."""
    if not text.strip():
        raise ValueError(f"The anchor rule {text!r} is empty. Pass a text that a result follows, such as '='.")
    texts, special = Vocabulary.from_tokenizer(tokenizer).texts, special_tokens(tokenizer)
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
            f"No tokens of `{type(tokenizer).__name__}` end in the anchor rule {text!r}. Use another text, or pass "
            "`anchors={'inline': [...]}`."
        )
    return TextRule(text, sequences, {token: spelled for token, spelled in plain if token not in single})


def _shortest_end(ids: list[int], texts: list[str], ends: re.Pattern[str]) -> list[int] | None:
    """The shortest end of `ids` whose text matches `ends`, without a final minus token; None if there is none."""
    if texts[ids[-1]].strip() == "-":
        ids = ids[:-1]
    for start in range(len(ids) - 1, -1, -1):
        spelled = "".join(texts[token] for token in ids[start:])
        if any(ends.fullmatch(spelled, at) for at in range(len(spelled))):
            return ids[start:]
    return None


def assistant_header(tokenizer: Any) -> list[int]:
    """Token ids of the assistant header, which the chat template puts before an assistant's answer.

    Raises:
        ValueError: if there is no chat template, if it has no assistant header, or if the header is split into other
            tokens within a text.
    """
    name = type(tokenizer).__name__
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError(
            f"`{name}` has no chat template, so there is no assistant header to anchor on. "
            "Use `IGCConfig.from_tokenizer(tokenizer, anchors=['prompt_end'])` to calculate at the end of a prompt, "
            "or `IGCConfig.from_tokenizer(tokenizer, anchors=['='])` to calculate after every `=`."
        )
    chat = [{"role": "user", "content": "1"}]
    before = tokenizer.apply_chat_template(chat, tokenize=False)
    after = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    header = after[len(before) :] if after.startswith(before) else ""
    ids = list(tokenizer(header, add_special_tokens=False)["input_ids"]) if header else []
    if not ids:
        raise ValueError(
            f"The chat template of `{name}` adds nothing before an answer (`add_generation_prompt=True`), so there is "
            "no assistant header to anchor on. Pass `anchors={'turns': [...]}`."
        )
    # The header must have the same tokens at the end of a prompt and before an answer, or generation and likelihood
    # scoring would use different anchors.
    for text in (after, after + "7"):
        whole = list(tokenizer(text, add_special_tokens=False)["input_ids"])
        if not any(whole[i : i + len(ids)] == ids for i in range(len(whole))):
            raise ValueError(
                f"The assistant header {header!r} of the chat template of `{name}` is split into other tokens within "
                "a text than alone, so it cannot be found by its tokens. Pass `anchors={'turns': [...]}`."
            )
    return ids
