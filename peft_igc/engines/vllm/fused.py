"""The two maps that run in every pass, in few operators: what does not depend on the pass is computed once.

In: the mappings of an adapter. Out: functions of hidden states that differ by rounding from those of
`TokenInputMapping.compress` (`Compression`) and `TokenOutputMapping` (`Update`). On a GPU each operator of a pass
costs the time of its launch, whatever it computes. Try it: `pytest tests/engines/test_fused.py`

Shapes: N tokens of a pass, A of them that are written, n tokens that results are written with, H hidden size, E width
of the token embeddings, d mapping width, G width of the gate, F of the feed-forward layer.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from ...mappings.token_interface import TokenInputMapping, TokenOutputMapping
from ...text.spelling import Spelled


class Compression:
    """Eq. 1 of a reader."""

    def __init__(self, reader: TokenInputMapping) -> None:
        states, embedded = reader.compression, reader.embedded_compression
        parts = [states.weight * reader.norm.weight, embedded.weight * reader.embedded_norm.weight]
        self.weight, self.bias = torch.cat(parts, 1), embedded.bias  # [d, 2 H], [d]

    def __call__(self, both: torch.Tensor) -> torch.Tensor:
        """The compressed tokens [N, d] of `both` [N, 2, H], what is read of the layers and the input of the first."""
        return F.linear(_normed(both).flatten(1), self.weight, self.bias)


class Update:
    """Eq. 11 to 14 of a writer, for results that are written with n tokens, whose embeddings [n, E] are given."""

    def __init__(self, writer: TokenOutputMapping, tokens: Sequence[int], embedded: torch.Tensor) -> None:
        size, gate, up, down = len(writer.norm.weight), writer.gate_up, writer.write_up, writer.write_down
        c = torch.cat([_normed(embedded.to(up.weight.dtype)), writer.end])  # [n + 2, E], Eq. 11
        own, told = gate.weight[:, :size], gate.weight[:, size:]
        gates = F.linear(c, told, gate.bias)[:, None] + writer.gate_state.weight  # [n + 2, states, G]
        self.gates, self.gate = gates.flatten(0, 1), (own * writer.norm.weight).T
        # The gate is one more unit of the feed-forward layer, in front, whose input is z alone.
        self.ups = F.linear(c, F.pad(up.weight, (0, 0, 1, 0)), torch.cat([writer.gate_down.bias, up.bias]))
        self.context = torch.cat([writer.gate_down.weight, writer.context.weight]).T  # [G, 1 + F]
        self.down = [part / math.sqrt(size) for part in (down.weight, down.bias)]  # RMS is a norm divided by that
        self._rows = {token: row for row, token in enumerate(tokens)}

    def rows(self, token: int, state: int) -> tuple[int, int]:
        """Those of `ups` and `gates` for the next token of a result, which is ignored if `state` is an end."""
        row = self._rows[token] if state < Spelled.END else len(self._rows) + state - Spelled.END
        return row, row * len(Spelled) + state

    def __call__(self, h: torch.Tensor, up: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        """The updates [A, H] of hidden states h [A, H] with rows `up`, `gate` [A] int64 of `rows`."""
        h = h.to(self.gate.dtype)
        z = F.gelu(torch.addmm(self.gates[gate], _normed(h), self.gate))
        opened, z = torch.addmm(self.ups[up], z, self.context).tensor_split([1], 1)
        size = torch.linalg.vector_norm(h, dim=1, keepdim=True)
        return opened.sigmoid() * size * F.linear(F.gelu(z), *self.down)


def _normed(x: torch.Tensor) -> torch.Tensor:
    """Vectors [..., H] divided by their RMS."""
    return F.rms_norm(x, x.shape[-1:], eps=1e-6)
