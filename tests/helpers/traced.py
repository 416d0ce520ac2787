"""What tests of traces share: the embedded base with a random adapter, prompts of several kinds, batches of them."""

from __future__ import annotations

import functools
from typing import Any

import torch
from peft import get_peft_model
from tiny_models import RandomConfig

from peft_igc import tiny_base
from peft_igc.inference.decoding import greedy, left_padded, prompt_tokens


PROMPTS = ["What is 58213 times 907?", "3 + 4 * (12 - 5) =", "3 + sin(16) =", "Hello, how are you?"]


@functools.cache
def make(seed: int = 0, **settings: Any) -> tuple[Any, Any]:
    """The embedded base with a random adapter, which takes nearly everything for a calculation; tests share it."""
    base, tokenizer = tiny_base()
    torch.manual_seed(seed)
    fields = {"layer": 1, "reading_dim": 64, "num_heads": 4, "num_digits": 12, **settings}
    return get_peft_model(base, RandomConfig.from_tokenizer(tokenizer, **fields)).eval(), tokenizer


def batch_of(tokenizer: Any, prompts: list[str], raw: bool = False) -> dict[str, torch.Tensor]:
    """Prompts as a batch that is padded on the left."""
    return left_padded(prompt_tokens(tokenizer, prompts, raw), tokenizer.pad_token_id)


def generate(
    model: Any, tokenizer: Any, prompts: list[str] = PROMPTS, new: int = 6, raw: bool = False, **settings: Any
) -> Any:
    """Greedy answers to a batch of prompts, with more settings of `generate`."""
    config = greedy(model, tokenizer, new)
    config.update(**settings)
    with torch.no_grad():
        return model.generate(**batch_of(tokenizer, prompts, raw), generation_config=config)
