"""Multi-head attention, a pre-norm transformer block, classifiers in float32, RMS and mean of hidden states.

In: queries [N, Q, d] and a memory [N, M, d]. Out: [N, Q, d]. Written in plain torch rather than
`nn.MultiheadAttention`, whose evaluation mode takes other code paths than training. No positions and no causality:
callers pass masks and biases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head scaled dot-product attention of width `dim`, d, with `num_heads`, N_h, heads."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query_map = nn.Linear(dim, dim)
        self.key_map = nn.Linear(dim, dim)
        self.value_map = nn.Linear(dim, dim)
        self.output_map = nn.Linear(dim, dim)

    def forward(
        self,
        query: Tensor,
        memory: Tensor,
        visible: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Attends from each query [N, Q, d] to the memory [N, M, d]; [N, Q, d].

        Args:
            query, memory: float.
            visible: [N, 1 or Q, M] bool, entries that a query may attend to, at least one per query; None is all.
            bias: [N_h, Q, M] float, added to the scores; None is zero.
        """
        n, q, dim = query.shape
        heads = (n, -1, self.num_heads, dim // self.num_heads)
        q_heads, keys, values = (
            x.view(heads).transpose(1, 2)  # [N, N_h, Q or M, d / N_h]
            for x in (self.query_map(query), self.key_map(memory), self.value_map(memory))
        )
        mask = None if visible is None else visible.unsqueeze(1)  # [N, 1, 1 or Q, M]
        if bias is None:
            found = F.scaled_dot_product_attention(q_heads, keys, values, attn_mask=mask)
        else:  # with a bias, the fused function's backward pass is several times slower on a CPU (torch 2.13)
            scores = q_heads @ keys.transpose(2, 3) / math.sqrt(heads[-1]) + bias
            if mask is not None:
                scores = scores.masked_fill(~mask, float("-inf"))
            found = scores.softmax(-1).to(values.dtype) @ values
        return self.output_map(found.transpose(1, 2).reshape(n, q, dim))  # [N, Q, d]


class Block(nn.Module):
    """A pre-norm transformer block of an input mapping: attention, then a feed-forward layer, both residual."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        dim = config.reading_dim
        self.attention_norm = nn.RMSNorm(dim, eps=1e-6)
        self.attention = Attention(dim, config.num_heads)
        self.ffn_norm = nn.RMSNorm(dim, eps=1e-6)
        self.ffn_up = nn.Linear(dim, config.reading_ffn)
        self.ffn_down = nn.Linear(config.reading_ffn, dim)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        visible: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Updates x [N, Q, d], which attends to `memory` [N, M, d] (already normalised), or to itself if that is None;
        `visible` and `bias` are those of `Attention.forward`."""
        query = self.attention_norm(x)
        x = x + self.attention(query, query if memory is None else memory, visible, bias)
        return x + self.ffn_down(F.gelu(self.ffn_up(self.ffn_norm(x))))


def float_logits(head: nn.Linear, x: Tensor) -> Tensor:
    """`head(x)` in float32, also under autocast and with other weights: rounding must not decide between classes."""
    with torch.autocast(x.device.type, enabled=False):
        return F.linear(x.float(), head.weight.float(), None if head.bias is None else head.bias.float())


def rms(h: Tensor) -> Tensor:
    """Root mean square of states [..., H], as [..., 1] in their dtype.

    The clamp stops the gradient of a state of zeros, such as a padding token's: that of the square root is infinite.
    """
    return h.float().pow(2).mean(-1, keepdim=True).clamp(min=1e-30).sqrt().to(h.dtype)


class LayerMix(nn.Module):
    """A weighted mean of hidden states of M decoder layers, each divided by its RMS. At first all weights are equal.

    What is asked is understood in middle layers, the digits of a number are known in early ones. Source: Peters et al.
    (2018), "Deep contextualized word representations", equation 1, with states of equal RMS, because the residual
    stream grows with depth. M, `count`, is at least 2.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(count))

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """Mixes M states [B, T, H] to [B, T, H], in the dtype of the first one."""
        shares = self.weights.softmax(0)
        # In float32, in which the RMS of a state of zeros has not become zero.
        mixed = sum(share * (h.float() / rms(h.float())) for share, h in zip(shares, states, strict=True))
        assert isinstance(mixed, Tensor)
        return mixed.to(states[0].dtype)


def one_batch(count: int) -> bool:
    """Whether A anchors per row are read all at once, in contexts of equal width, and not in `batches`: in training,
    one per row is the rule, and of many anchors each has a context that is a small part of the text."""
    return count == 1 and torch.is_grad_enabled()


def batches(sizes: list[int], smallest: int = 48, largest: int = 16_384) -> Iterator[tuple[list[int], int]]:
    """Groups N contexts by their `sizes`, 0 for none, to be read together with little padding and bounded memory.

    Contexts up to the `smallest` length are not told apart. A batch has up to the `largest` number of tokens, padding
    included, or one context. Yields the indices of a batch, and the length of its longest context.
    """
    order, start = sorted(range(len(sizes)), key=sizes.__getitem__), 0
    while start < len(order):
        end, limit = start + 1, max(4 * sizes[order[start]], smallest)
        while end < len(order) and sizes[order[end]] <= limit and (end + 1 - start) * sizes[order[end]] <= largest:
            end += 1
        yield order[start:end], max(sizes[order[end - 1]], 1)
        start = end
