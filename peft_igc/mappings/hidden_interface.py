"""The hidden interface of the paper: digits are read from and written to hidden states; no tokenizer is needed.

In: hidden states of the text so far, and the results of its steps. Out: the `Reading` of each anchor
(`HiddenInputMapping`, paper, "Input Mapping"), and the update of each hidden state (`HiddenOutputMapping`, paper,
"Output Mapping"). Choice and loss are in `readings`; the update is applied by `IGCLayer`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..numbers.digits import NUM_CLASSES
from ..text.vocabulary import PADDING, UNSEEN
from .attention import Attention, Block, LayerMix, batches, float_logits, one_batch, rms
from .readings import Reading


# Score of the place that an offset prefers at first, above those of others: enough for tokens of single digits, and so
# little that it is soon unlearned where a token has several.
_PREFERENCE = 2.0


class HiddenInputMapping(nn.Module):
    """Reads the operands and the operator at each anchor from hidden states.

    The slots are D + 1 digits of each operand (a digit in the last one marks an operand that is too long), a sign of
    each operand, and the operator.
    """

    max_distance = 256  # distances to the anchor with an embedding; larger ones share the last

    def __init__(self, hidden_size: int, config: Any) -> None:
        super().__init__()
        dim = config.reading_dim
        self.num_digits = config.num_digits
        self.mix = LayerMix(len(config.layers_read)) if len(config.layers_read) > 1 else None
        self.norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.compression = nn.Linear(hidden_size, dim)
        self.distance = nn.Embedding(self.max_distance, dim)
        self.encoder = nn.ModuleList(Block(config) for _ in range(config.reading_layers))
        self.memory_norm = nn.RMSNorm(dim, eps=1e-6)
        self.anchor_query = nn.Linear(dim, dim)
        self.slots = nn.Parameter(torch.empty(2 * (self.num_digits + 1) + 3, dim))  # S: digits, two signs, operator
        self.reader = Block(config)
        self.slot_norm = nn.RMSNorm(dim, eps=1e-6)
        self.digit_head = nn.Linear(dim, NUM_CLASSES)
        self.digit_bias = nn.Parameter(torch.zeros(2, self.num_digits + 1, NUM_CLASSES))  # late slots are often empty
        self.sign_head = nn.Linear(dim, 2)
        self.operator_head = nn.Linear(dim, len(config.operations) + 1)
        nn.init.normal_(self.distance.weight, std=0.3)
        nn.init.normal_(self.slots, std=0.5)

    def compress(self, h: Tensor) -> Tensor:
        """Compresses hidden states h [B, T, H] to [B, T, d] in h's dtype, kept with the KV cache for later anchors."""
        return self.compression(self.norm(h.to(self.compression.weight.dtype))).to(h.dtype)  # Eq. 1

    def forward(self, kept: Tensor, ids: Tensor, anchors: Tensor, since: Tensor) -> Reading:
        """Reads each anchor.

        Args:
            kept: [B, L, d], compressed states of the text so far.
            ids: [B, L] int64 token ids. Only `PADDING` and `UNSEEN` matter, which no step attends to.
            anchors: [B, A] int64 in 0..L-1, or -1 for none, whose reading is finite but meaningless.
            since: [B, A] int64, the first token that each anchor reads.
        """
        (b, length, _), a = kept.shape, anchors.shape[1]
        row, anchor = torch.arange(b, device=kept.device).repeat_interleave(a), anchors.flatten()  # [N]
        first = torch.where(anchor >= 0, since.flatten().minimum(anchor), -1)
        steps = torch.stack([row, anchor.clamp(min=0), first])  # [3, N]
        valid = ids != PADDING  # [B, L]
        seen, rank = valid & (ids != UNSEEN), valid.cumsum(1)
        if one_batch(a):
            slots = self._attend(kept, seen, rank, steps, length)
        else:
            parts, where = [], []
            sizes = torch.where(anchor >= 0, anchor - first + 1, 0).tolist()
            for index, longest in batches(sizes):
                parts.append(self._attend(kept, seen, rank, steps[:, index], longest))
                where += index
            slots = torch.cat(parts)[torch.tensor(where, device=kept.device).argsort()]
        slots, n = slots.unflatten(0, (b, a)), 2 * (self.num_digits + 1)  # [B, A, S, d]
        digits = float_logits(self.digit_head, slots[:, :, :n]).unflatten(2, (2, -1))  # [B, A, 2, D + 1, C]
        return Reading(  # Eq. 5
            digits + self.digit_bias.float(),
            float_logits(self.sign_head, slots[:, :, n : n + 2]),
            float_logits(self.operator_head, slots[:, :, n + 2]),
        )

    def _attend(self, kept: Tensor, seen: Tensor, rank: Tensor, steps: Tensor, longest: int) -> Tensor:
        """The slots [N, S, d] of N steps, read at once.

        `seen` [B, L] bool are the tokens that a step may attend to; `rank` [B, L] int64 counts tokens other than
        padding. `steps` [3, N] int64: the row of each step, the last and the first token of its
        context, of which the longest has `longest`. A missing anchor has -1, and attends to the first token even if it
        is padding: attention without entries would be NaN.
        """
        length = kept.shape[1]
        place = torch.arange(min(length, longest), device=kept.device)  # [window]
        row, anchor, since = steps[..., None].unbind()  # [N, 1]
        start = anchor - (len(place) - 1) if len(place) < length else torch.zeros_like(anchor)
        position = start + place  # [N, window]
        at = position.clamp(min=0)
        visible = (position <= anchor) & (position >= since.clamp(min=0)) & (seen[row, at] | (since < 0))
        distance = rank[row, anchor] - rank[row, at]  # [N, window]
        x = kept[row, at].to(self.compression.weight.dtype)  # [N, window, d]
        x = x + self.distance(distance.clamp(0, self.distance.num_embeddings - 1))  # Eq. 2
        for layer in self.encoder:
            x = layer(x, visible=visible[:, None])
        memory = self.memory_norm(x)  # Eq. 3
        at_anchor = memory[torch.arange(len(memory), device=x.device), (anchor - start)[:, 0]]  # [N, d]
        slots = self.anchor_query(at_anchor)[:, None] + self.slots  # [N, S, d]
        return self.slot_norm(self.reader(slots, memory, visible[:, None]))  # Eq. 4


class HiddenOutputMapping(nn.Module):
    """Maps the results of the steps to updates of hidden states."""

    max_offset = 64  # offsets from the anchor with an embedding; larger ones share the last

    def __init__(self, hidden_size: int, config: Any) -> None:
        super().__init__()
        dim = config.writing_dim
        self.norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.query = nn.Linear(hidden_size, dim)
        self.offset = nn.Embedding(self.max_offset, dim)
        self.digit = nn.Embedding(NUM_CLASSES, dim)
        self.sign = nn.Embedding(2, dim)
        self.place = nn.Parameter(torch.empty(config.result_digits + 1, dim))  # of the sign, then of the digits
        self.attention = Attention(dim, config.num_heads)
        self.write_up = nn.Linear(dim, config.writing_ffn)
        self.write_down = nn.Linear(config.writing_ffn, hidden_size)
        self.gate_up = nn.Linear(hidden_size + dim, config.gate_dim)
        self.gate_down = nn.Linear(config.gate_dim, 1)
        for weight in (self.offset.weight, self.digit.weight, self.sign.weight, self.place):
            nn.init.normal_(weight)
        self._look_at_digits_in_turn()

    def _look_at_digits_in_turn(self) -> None:
        """Makes the heads prefer the digit with the offset's number, whatever the hidden state is.

        Of three heads or more, one prefers the digit before it, which is due after a minus, and one the sign. Each
        head hands its part of a digit on at full size: from random weights, where it is small, a real model of 135 M
        parameters needs several times as many steps.
        """
        heads, turns = self.attention.num_heads, min(len(self.offset.weight), len(self.place) - 1)
        shifts = [1] * heads if heads < 3 else [1] * (heads - 2) + [0, None]  # an offset's place, None: the sign's
        with torch.no_grad():
            offset, place = (x.unflatten(1, (heads, -1)) for x in (self.offset.weight, self.place))
            for head, shift in enumerate(shifts):
                offset[:turns, head] = place[0, head] if shift is None else place[shift:][:turns, head]
            self.offset.weight *= _PREFERENCE / place.shape[-1] ** 0.5
            attention = self.attention
            for linear in (attention.query_map, attention.key_map, attention.value_map, attention.output_map):
                nn.init.eye_(linear.weight)  # each head compares, and hands on, its own part
            nn.init.zeros_(self.query.weight)

    def forward(
        self,
        h: Tensor,
        digits: Tensor,
        signs: Tensor,
        step: Tensor,
        offset: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The update and gate of every position. The caller selects the positions that are written (Eq. 15).

        Args:
            h: [B, T, H].
            digits: [B, A, R] int64 digit classes, left-aligned; all PAD where there is no result.
            signs: [B, A] int64, 1 is minus.
            step: [B, T] int64 in 0..A-1, the step that governs each position.
            offset: [B, T] int64, tokens since the anchor of that step.

        Returns:
            update [B, T, H] in the weights' dtype, gate [B, T].
        """
        (b, a, _), t = digits.shape, h.shape[1]
        h = h.to(self.query.weight.dtype)
        x = self.norm(h)
        memory = torch.cat([self.sign(signs)[:, :, None], self.digit(digits)], 2) + self.place  # [B, A, R + 1, d]
        visible = None
        if a > 1:  # one memory for all steps; each position attends to the entries of its own step
            owner = torch.arange(a, device=h.device).repeat_interleave(memory.shape[2])
            visible = step[..., None] == owner  # [B, T, A * (R + 1)]
        query = self.query(x) + self.offset(offset.clamp(0, self.offset.num_embeddings - 1))
        c = self.attention(query, memory.flatten(1, 2), visible)  # [B, T, d], Eq. 11
        gate = torch.sigmoid(self.gate_down(F.gelu(self.gate_up(torch.cat([x, c], -1)))))  # [B, T, 1], Eq. 12
        direction = self.write_down(F.gelu(self.write_up(c)))  # [B, T, H], Eq. 13
        return gate * rms(h) * direction, gate.view(b, t)  # Eq. 14
