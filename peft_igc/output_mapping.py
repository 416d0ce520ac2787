"""Writing: from the result to an update of the hidden state (paper, "Output Mapping"), in two interfaces.

In: hidden states h [B, T, H] and the results of the steps. Out: an update [B, T, H] and the gate [B, T]. A small
network turns what is to be written into a direction of the residual stream; the gate says how much of it is written.
The update is scaled by the size (RMS) of the very state that it is added to, because the residual stream's size
differs by orders of magnitude between models and depths.

`HiddenOutputMapping` is the paper's: each position attends over the digits of the result that governs it.

    c = Attention(W_q norm(h) + offset, digits of the result)                       (1)
    gate = sigmoid(MLP_g([norm(h), c]))                                             (2)
    update = gate * rms(h) * MLP_w(c)                                               (3)

`TokenOutputMapping` is told which token continues the result (see `spelling`): c is that token's own embedding, and
MLP_w also sees what the gate sees, because a token may have to be prepared: behind "is" a space comes first.

Shapes: B rows, T positions, H hidden size, E width of embeddings, A steps per row, R digits of a result.
Where an update is applied is not decided here.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .attention import Attention
from .digits import NUM_CLASSES, is_number, to_right_aligned


class HiddenOutputMapping(nn.Module):
    """Writes results into hidden states.

    Args:
        hidden_size: H.
        result_digits: R.
        dim: width d of the attention over the digits.
        num_heads: attention heads.
        ffn: hidden width of the map to H.
        gate_dim: hidden width of the gate.
        max_offset: offsets from the anchor that are told apart.
        right_aligned: the digits are looked at from the last one, with zeros in front.
        shortcut: width of further vectors that are attended to beside the digits; None: there are none.
    """

    def __init__(
        self,
        hidden_size: int,
        result_digits: int,
        *,
        dim: int,
        num_heads: int,
        ffn: int,
        gate_dim: int,
        max_offset: int,
        right_aligned: bool = False,
        shortcut: int | None = None,
    ) -> None:
        super().__init__()
        self.right_aligned = right_aligned
        self.norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.query = nn.Linear(hidden_size, dim)
        self.offset = nn.Embedding(max_offset, dim)
        self.digit = nn.Embedding(NUM_CLASSES, dim)
        self.sign = nn.Embedding(2, dim)
        self.place = nn.Parameter(torch.empty(result_digits + 1, dim))  # the sign stands first
        self.attention = Attention(dim, num_heads)
        self.write_up = nn.Linear(dim, ffn)
        self.write_down = nn.Linear(ffn, hidden_size)
        self.gate_up = nn.Linear(hidden_size + dim, gate_dim)
        self.gate_down = nn.Linear(gate_dim, 1)
        for weight in (self.offset.weight, self.digit.weight, self.sign.weight, self.place):
            nn.init.normal_(weight, std=0.3)
        self.shortcut = None if shortcut is None else nn.Linear(shortcut, dim)

    def close(self) -> None:
        """Make the update zero, so that a fresh adapter changes nothing; it learns all the same."""
        nn.init.zeros_(self.write_down.weight)
        nn.init.zeros_(self.write_down.bias)

    def forward(
        self,
        h: torch.Tensor,
        digits: torch.Tensor,
        signs: torch.Tensor,
        step: torch.Tensor,
        offset: torch.Tensor,
        shortcut: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The update of every position, as if each one were written.

        Args:
            h: [B, T, H].
            digits: [B, A, R] int64 digit classes, left-aligned; all PAD where there is no result.
            signs: [B, A] int64.
            step: [B, T] int64 in 0..A-1, the step that governs a position.
            offset: [B, T] int64, tokens since that step's anchor.
            shortcut: [B, A, P, width] float, the further vectors of each step.

        Returns:
            update [B, T, H] in the weights' dtype (Eq. 3), gate [B, T] (Eq. 2).
        """
        (b, a, _), t = digits.shape, h.shape[1]
        h = h.to(self.query.weight.dtype)
        x = self.norm(h)
        if self.right_aligned:  # "no result" does not become the number 0
            digits = torch.where(is_number(digits)[..., None], to_right_aligned(digits), digits)
        memory = torch.cat([self.sign(signs)[:, :, None], self.digit(digits)], 2) + self.place  # [B, A, R + 1, d]
        if self.shortcut is not None:
            assert shortcut is not None
            memory = torch.cat([memory, self.shortcut(shortcut.to(h.dtype))], 2)  # [B, A, R + 1 + P, d]
        visible = None
        if a > 1:  # one memory for all steps; a position sees the slots of its own
            owner = torch.arange(a, device=h.device).repeat_interleave(memory.shape[2])
            visible = step[..., None] == owner  # [B, T, A * (R + 1 + P)]
        query = self.query(x) + self.offset(offset.clamp(0, self.offset.num_embeddings - 1))
        c = self.attention(query, memory.flatten(1, 2), visible)  # [B, T, d], Eq. 1
        gate = torch.sigmoid(self.gate_down(F.gelu(self.gate_up(torch.cat([x, c], -1)))))  # [B, T, 1], Eq. 2
        size = _rms(h)
        update = gate * size * self.write_down(F.gelu(self.write_up(c)))  # Eq. 3
        return update, gate.view(b, t)


class TokenOutputMapping(nn.Module):
    """Writes the token that continues a result, as a learned map of the base model's own embedding of it.

    The map also depends on where the token is written: on the state h there, and on how far the result has come.

    Args:
        hidden_size: H.
        embedding_size: E, width of the base model's embeddings; some models project them to H.
        ffn: hidden width of the map.
        gate_dim: hidden width of the gate.
        num_states: how far a result may be spelled (`spelling.State`); the last ones, of which each has a vector of
            its own, are its end.
        num_ends: how many of the states these are.
    """

    def __init__(
        self, hidden_size: int, embedding_size: int, *, ffn: int, gate_dim: int, num_states: int, num_ends: int
    ) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.end = nn.Parameter(torch.randn(num_ends, embedding_size))  # for an embedding: the number is complete
        self.write_up = nn.Linear(embedding_size, ffn)
        self.write_down = nn.Linear(ffn, hidden_size)
        self.gate_up = nn.Linear(hidden_size + embedding_size, gate_dim)
        self.gate_state = nn.Embedding(num_states, gate_dim)
        self.gate_down = nn.Linear(gate_dim, 1)
        self.context = nn.Linear(gate_dim, ffn, bias=False)  # what a token is written as depends on what it follows

    def close(self) -> None:
        """Make the update zero, so that a fresh adapter changes nothing; it learns all the same."""
        nn.init.zeros_(self.write_down.weight)
        nn.init.zeros_(self.write_down.bias)

    def forward(
        self, h: torch.Tensor, embedded: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The update of every position, as if each one were written.

        Args:
            h: [B, T, H].
            embedded: [B, T, E] embedding of the token that continues the result; any at an end.
            state: [B, T] int64, a `spelling.State`.

        Returns:
            update [B, T, H] in the weights' dtype, gate [B, T].
        """
        h = h.to(self.write_up.weight.dtype)
        c = F.rms_norm(embedded.to(h.dtype), embedded.shape[-1:], eps=1e-6)
        end = state - (self.gate_state.num_embeddings - len(self.end))  # [B, T], below 0 before an end
        c = torch.where((end >= 0)[..., None], self.end[end.clamp(min=0)].to(h.dtype), c)  # [B, T, E]
        seen = F.gelu(self.gate_up(torch.cat([self.norm(h), c], -1)) + self.gate_state(state))  # [B, T, gate_dim]
        gate = torch.sigmoid(self.gate_down(seen))  # [B, T, 1]
        size = _rms(h)
        written = self.write_down(F.gelu(self.write_up(c) + self.context(seen)))
        return gate * size * written, gate.squeeze(-1)


def _rms(h: torch.Tensor) -> torch.Tensor:
    """Root mean square of states [..., H], as [..., 1] in their dtype.

    A state of zeros, as a padding token may have one, gets no gradient: the square root's would be infinite there.
    """
    return h.float().pow(2).mean(-1, keepdim=True).clamp(min=1e-30).sqrt().to(h.dtype)
