"""A stand-in for `generate` that knows the answers."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch


class Parrot:
    """Answers prompts of the tokenizer of characters as told, then ends, or never does; keeps what it was asked.

    Args:
        model: whose `generate` it becomes.
        answers: by prompt, without the marks of the chat template.
    """

    def __init__(self, model: Any, tokenizer: Any, answers: Mapping[str, str], ends: bool = True) -> None:
        self.model, self.tokenizer, self.answers, self.ends = model, tokenizer, answers, ends
        self.asked: list[str] = []
        self.trained: list[bool] = []  # whether a part of the model was in training mode, by call
        model.generate = self

    def __call__(self, *, input_ids: Any, attention_mask: Any, generation_config: Any, **_: Any) -> Any:
        self.trained.append(any(module.training for module in self.model.modules()))
        width, made = generation_config.max_new_tokens, []
        for row, mask in zip(input_ids, attention_mask, strict=True):
            self.asked.append(self.tokenizer.decode(row[mask.bool()]))
            answer = self.answers[self.asked[-1].removeprefix("<user>").removesuffix("<eos><assistant>")]
            ids = self.tokenizer(answer)["input_ids"] + ([2] if self.ends else [])
            made.append((ids + [0 if self.ends else 10] * width)[:width])
        return SimpleNamespace(sequences=torch.cat([input_ids, torch.tensor(made)], 1))
