"""What an adapter changes on prompts without a calculation: logits, likelihoods and greedy texts beside the base.

In: a model with an adapter, and texts. Out: numbers of equal logits and texts, and bits per byte with and without
the adapter. The token interface is to be bit-identical wherever it is silent.
Try it: `pytest tests/demo/test_text_sets.py`

Shapes: T positions of a text, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..inference.decoding import eval_mode, prompt_tokens
from ..inference.evaluation import answer_tokens


__all__ = ["harm"]


@torch.no_grad()
def harm(
    model: Any, tokenizer: Any, prompts: Sequence[str], *, most_answers: int, max_new_tokens: int
) -> dict[str, Any]:
    """Compares a model with and without its adapter on prompts without a calculation.

    Args:
        model: a PEFT model.
        tokenizer: its tokenizer.
        prompts: user messages. Their own tokens are the texts whose bits per byte are measured.
        most_answers: how many of them are also answered.
        max_new_tokens: of an answer.
    """
    rows = prompt_tokens(tokenizer, prompts, False)
    equal, nats = 0, [0.0, 0.0]
    with eval_mode(model):
        for row in rows:
            ids = torch.tensor([row], device=model.device)
            logits = model(input_ids=ids).logits[0]  # [T, V]
            with model.disable_adapter():
                plain = model(input_ids=ids).logits[0]
            equal += int(torch.equal(logits, plain))
            for at, found in enumerate((logits, plain)):
                nats[at] += float(torch.nn.functional.cross_entropy(found[:-1].float(), ids[0, 1:], reduction="sum"))
    size = sum(len(tokenizer.decode(row).encode()) for row in rows) * math.log(2)
    asked = rows[:most_answers]
    texts = [one.text for one in answer_tokens(model, tokenizer, asked, 16, max_new_tokens)]
    with model.disable_adapter():
        base = [one.text for one in answer_tokens(model, tokenizer, asked, 16, max_new_tokens)]
    return {
        "prompts": len(rows),
        "logits_bit_identical": equal,
        "bits_per_byte": {"igc": nats[0] / size, "base": nats[1] / size},
        "answers": len(asked),
        "same_answers": sum(a == b for a, b in zip(texts, base, strict=True)),
        "max_new_tokens": max_new_tokens,
    }
