"""One greedy loop for all methods that are compared: it counts tokens, and lets a tool answer in between.

In: a causal LM, prompts, a limit, perhaps a tool. Out: an `Answer` per prompt. Rows of a batch are left-padded and may
stop, call and go on at different times; what the tool replies is fed as tokens into the same KV cache, in one pass
where all rows that are not done have as many tokens to feed (a single row always has). No sampling, no beams.

Shapes: B rows, T tokens of the text so far. Try it: `pytest tests/benchmarks/test_commands.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from peft_igc.inference.decoding import end_tokens, left_padded, padding_token


@dataclass
class Answer:
    """What was written after one prompt.

    Attributes:
        tokens: All of it, what the tool replied included, without the end token.
        generated: Tokens that the model chose, the end token included.
        calls: Each call as the tool took it apart, None for one that it could not read.
        seconds: What the tool took, from the call's last token to its reply as tokens.
        done: Whether it has ended.
        cut: Whether it ended because of the limit.
    """

    tokens: list[int] = field(default_factory=list)
    generated: int = 0
    calls: list[Any] = field(default_factory=list)
    seconds: float = field(default=0.0, compare=False)
    done: bool = False
    cut: bool = False
    waiting: list[int] = field(default_factory=list)  # chosen or replied, and not fed yet

    def take(self, token: int, ends: Sequence[int], limit: int, reply: Callable[[Answer], list[int]] | None) -> None:
        """The next token, as the model chose it."""
        if self.done or self.waiting:  # what is told after a token whose successor is known counts for nothing
            return
        self.generated += 1
        if token in ends:
            self.done = True
            return
        self.tokens.append(token)
        self.waiting = [token]
        if reply is not None:
            told = reply(self)
            self.tokens += told
            self.waiting += told
        self.done = self.cut = len(self.tokens) >= limit

    def feed(self, count: int, padding: int) -> list[int]:
        """The next tokens to feed; a text that has ended gets padding, which nothing looks at."""
        fed, self.waiting = self.waiting[:count], self.waiting[count:]
        return fed if len(fed) == count else [padding] * count


@torch.no_grad()
def answered(model: Any, tokenizer: Any, prompts: Sequence[list[int]], limit: int, tool: Any = None) -> list[Answer]:
    """Greedy answers to a batch of prompts.

    Args:
        model: In eval mode; an adapter may be attached.
        tokenizer: Of the model.
        prompts: Token ids of each prompt, up to where the answer begins.
        limit: Most tokens of an answer, what a tool replies included.
        tool: With `call(text)`, which finds a call that ends the text, and `reply(call)`, what is to be fed.
    """
    ends, padding = end_tokens(model, tokenizer), padding_token(model, tokenizer)
    batch = left_padded(list(prompts), padding)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    answers = [Answer() for _ in prompts]
    reply = None if tool is None else replier(tool, tokenizer)
    past, seen = None, 0
    while True:
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        output = model(
            input_ids=ids[:, seen:],
            attention_mask=mask,
            position_ids=positions[:, seen:],
            past_key_values=past,
            use_cache=True,
            logits_to_keep=1,
        )
        for answer, token in zip(answers, output.logits[:, -1].argmax(-1).tolist(), strict=True):
            answer.take(token, ends, limit, reply)
        open_ones = [answer for answer in answers if not answer.done]
        if not open_ones:
            return answers
        past, seen = output.past_key_values, ids.shape[1]
        count = min(len(answer.waiting) for answer in open_ones)
        fed = torch.tensor([answer.feed(count, padding) for answer in answers])  # [B, count]
        ids, mask = torch.cat([ids, fed], 1), torch.cat([mask, torch.ones_like(fed)], 1)


def replier(tool: Any, tokenizer: Any) -> Callable[[Answer], list[int]]:
    """What the tool has to say to a text so far, as tokens; none unless a call has just ended."""
    closing = tokens_ending_in(tool.last_character, tokenizer)  # so that not every token costs a decoded text

    def reply(answer: Answer) -> list[int]:
        if answer.tokens[-1] not in closing:
            return []
        begin = time.perf_counter()
        found, call = tool.call(tokenizer.decode(answer.tokens))
        if not found:
            return []
        told = tokenizer(tool.reply(call), add_special_tokens=False)["input_ids"]
        answer.calls.append(call)
        answer.seconds += time.perf_counter() - begin
        return told

    return reply


@cache
def tokens_ending_in(character: str, tokenizer: Any) -> frozenset[int]:
    """The tokens whose text ends in a character."""
    return frozenset(token for token in range(len(tokenizer)) if tokenizer.decode([token]).endswith(character))
