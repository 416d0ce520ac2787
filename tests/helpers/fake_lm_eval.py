"""A stand-in for the parts of lm-evaluation-harness (0.4.13) that `inference.harness` uses.

`install(monkeypatch)` puts it into `sys.modules`. Its `HFLM` scores likelihood requests as the original does: sorted
by length, filled with zeros on the right, without a mask, and with the last token of the answer cut off.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch


class Registry(dict):
    """The table of models."""

    def register(self, name, target=None):
        if target is None:
            return lambda made: self.setdefault(name, made)
        self[name] = target
        return None


class HFLM:
    """The original's class, given a model."""

    mixed_precision_dtype = None

    def __init__(self, pretrained, peft=None, tokenizer=None, max_length=256, batch_size=4, **kwargs):
        self._model, self.tokenizer, self.max_length, self.batch_size = pretrained, tokenizer, max_length, batch_size
        self.device = pretrained.device
        if peft is not None:
            self._create_model(pretrained, peft=peft)

    @property
    def model(self):
        return self._model

    def _create_model(self, pretrained, **kwargs):
        self._model = pretrained

    def _model_call(self, inps: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.model(inps).logits

    def _model_generate(self, context, max_length, stop, **kwargs):
        return self.model.generate(input_ids=context, max_length=max_length, pad_token_id=0, **kwargs)

    def _loglikelihood_tokens(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        order = sorted(range(len(requests)), key=lambda i: -len(requests[i][1] + requests[i][2]))
        found = {}
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            texts = [(requests[i][1] + requests[i][2])[-(self.max_length + 1) :][:-1] for i in chosen]
            longest = max(map(len, texts))
            logits = self._model_call(torch.tensor([text + [0] * (longest - len(text)) for text in texts]))
            for i, text, row in zip(chosen, texts, logits.log_softmax(-1), strict=True):
                answer = torch.tensor(requests[i][2])
                scores = row[len(text) - len(answer) : len(text)]
                likelihood = float(scores.gather(1, answer[:, None]).sum())
                found[i] = (likelihood, bool((scores.argmax(-1) == answer).all()))
        return [found[i] for i in range(len(requests))]


def install(monkeypatch: Any) -> Registry:
    """Puts the stand-in where `import lm_eval` finds it, and returns its table of models."""
    table = Registry()
    parts = {
        "lm_eval": {},
        "lm_eval.api": {},
        "lm_eval.api.registry": {"register_model": table.register, "model_registry": table},
        "lm_eval.models": {"__path__": []},
        "lm_eval.models.huggingface": {"HFLM": HFLM},
    }
    for name, members in parts.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)
    return table
