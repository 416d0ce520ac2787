"""`LayerMix`: hidden states of several decoder layers as one, by learned weights.

In: the outputs of the layers that `IGCConfig.read_from` names. Out: states of the same shape. What is asked is
understood in middle layers, the digits of a number are known in early ones. Source: Peters et al. (2018), "Deep
contextualized word representations", equation 1, with states of equal RMS, because the residual stream grows with
depth.
Try it: `pytest tests/mappings/test_layer_mix.py`

Shapes: B rows, T positions, H hidden size, M layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from .attention import rms


class LayerMix(nn.Module):
    """A weighted mean of hidden states, each divided by its RMS. All weights are equal at first.

    Args:
        count: M, at least 2.
    """

    @classmethod
    def of(cls, config: Any) -> LayerMix | None:
        """That of an `IGCConfig`; None if one layer is read."""
        return cls(len(config.layers_read)) if len(config.layers_read) > 1 else None

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(count))

    def forward(self, states: Sequence[torch.Tensor]) -> torch.Tensor:
        """Mixes M states [B, T, H] to [B, T, H], in the dtype of the first one."""
        shares = self.weights.softmax(0)
        # In float32, in which the RMS of a state of zeros has not become zero.
        mixed = sum(share * (h.float() / rms(h.float())) for share, h in zip(shares, states, strict=True))
        assert isinstance(mixed, torch.Tensor)
        return mixed.to(states[0].dtype)
