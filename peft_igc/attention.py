"""The two attention blocks that reading and writing are made of.

`Attention` is multi-head attention from queries [N, Q, d] to a memory [N, M, d] with a mask; `Block` adds the residual
stream, normalisation and a feed-forward layer around it (pre-norm). Plain torch: no hidden fast paths, so that
training and evaluation, and every batch shape, run the same operations.

Try it: `pytest tests/test_mappings.py`
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Multi-head scaled dot-product attention.

    Args:
        dim: width d of queries, memory and output.
        num_heads: divides `dim`.
    """

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query_map = nn.Linear(dim, dim)
        self.key_map = nn.Linear(dim, dim)
        self.value_map = nn.Linear(dim, dim)
        self.output_map = nn.Linear(dim, dim)

    def forward(
        self,
        query: torch.Tensor,
        memory: torch.Tensor,
        visible: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """What each query finds in the memory.

        Args:
            query: [N, Q, d] float.
            memory: [N, M, d] float.
            visible: [N, 1 or Q, M] bool, True where a query may look; at least one per query. `None`: everywhere.
            bias: [heads, Q, M] float, added to the scores. `None`: nothing.

        Returns:
            [N, Q, d] float.
        """
        n, q, dim = query.shape
        heads = (n, -1, self.num_heads, dim // self.num_heads)
        q_heads, keys, values = (
            x.view(heads).transpose(1, 2)  # [N, heads, Q or M, d / heads]
            for x in (self.query_map(query), self.key_map(memory), self.value_map(memory))
        )
        seen = None if visible is None else visible.unsqueeze(1)  # [N, 1, 1 or Q, M]
        if bias is None:
            found = F.scaled_dot_product_attention(q_heads, keys, values, attn_mask=seen)
        else:  # written out: the fused function's backward pass takes several times as long on a CPU (torch 2.13)
            scores = q_heads @ keys.transpose(2, 3) / math.sqrt(heads[-1]) + bias
            if seen is not None:
                scores = scores.masked_fill(~seen, float("-inf"))
            found = scores.softmax(-1).to(values.dtype) @ values
        return self.output_map(found.transpose(1, 2).reshape(n, q, dim))  # [N, Q, d]


class Block(nn.Module):
    """Pre-norm attention and feed-forward layer around a residual stream.

    Args:
        dim: width d.
        num_heads: divides `dim`.
        ffn: hidden width of the feed-forward layer.
    """

    def __init__(self, dim: int, num_heads: int, ffn: int) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(dim, eps=1e-6)
        self.attention = Attention(dim, num_heads)
        self.ffn_norm = nn.RMSNorm(dim, eps=1e-6)
        self.ffn_up = nn.Linear(dim, ffn)
        self.ffn_down = nn.Linear(ffn, dim)

    def forward(
        self,
        x: torch.Tensor,
        memory: torch.Tensor | None = None,
        visible: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """One step of the stream `x` [N, Q, d]; it attends to `memory` [N, M, d], or to itself if there is none."""
        query = self.attention_norm(x)
        x = x + self.attention(query, query if memory is None else memory, visible, bias)
        return x + self.ffn_down(F.gelu(self.ffn_up(self.ffn_norm(x))))
