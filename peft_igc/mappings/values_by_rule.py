"""The values that the rules give expressions in symbols at some anchors, without a model: for checks of labels.

In: token ids, anchors, and the vocabulary of an `IGCConfig`. Out: a value as text or the reason for none, for each
step. It is what `symbol_steps` writes where rules decide; whether a calculation is asked for is not asked here.
Try it: `pytest tests/trainer/test_expression_check.py`

Shapes: N steps, n tokens of a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..expressions.decimals import canonical
from ..expressions.reasons import Reason
from ..expressions.symbols import SymbolTokens, symbol_tokens
from .requests import Context
from .symbol_steps import ruling


__all__ = ["ValuesByRule"]


@dataclass(frozen=True)
class _Reader:
    """The part of an input mapping that the rules need."""

    symbols: SymbolTokens


class ValuesByRule:
    """Reads expressions as an adapter does.

    Args:
        config: The adapter's `IGCConfig`, with a vocabulary.
    """

    def __init__(self, config: Any) -> None:
        self.config = config
        self._reader = _Reader(symbol_tokens(config.vocabulary))

    @torch.no_grad()
    def __call__(
        self, ids: torch.Tensor, valid: torch.Tensor, anchors: torch.Tensor, since: torch.Tensor
    ) -> tuple[list[str | None], list[Reason]]:
        """The value of each of N steps, None without one, and the reason for none.

        Args:
            ids: [N, n] int64.
            valid: [N, n] bool, False for padding.
            anchors, since: [N] int64, indices of the last and the first token that each step reads.
        """
        said = ruling(self.config, self._reader, Context(ids, valid, anchors, since.clamp(min=0)))
        ok = said.ruled & (said.reason == int(Reason.NONE))
        texts = iter(canonical(said.value.digits[ok], said.value.sign[ok], said.value.scale[ok]))
        return [next(texts) if right else None for right in ok.tolist()], [
            Reason(code) for code in said.reason.tolist()
        ]
