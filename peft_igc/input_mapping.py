"""Reading, the hidden interface: from a text of any length to two operands and an operator (paper, "Input Mapping").

In: hidden states h [B, T, H]. Out: logits over digit classes, signs and operators for each anchor. A small encoder
looks at the tokens up to the anchor in both directions; one query per slot (a digit place, a sign, the operator),
made from the anchor's own state, attends over them; a classifier names what the slot holds. What it reads is a
distribution; the discrete choice and the arithmetic are not made here.

Shapes: B rows, T positions, H hidden size, A anchors per row, S slots, D digits of an operand, C = 11 digit classes,
K operations. There are D + 1 digit slots per operand: a digit in the last one means that the operand is too long.

Try it: `pytest tests/test_mappings.py`
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from .attention import Block
from .digits import NUM_CLASSES, PAD


IGNORE = -100


class Reading(NamedTuple):
    """Distributions over the calculator's input, as float32 logits.

    Attributes:
        digits: [B, A, 2, D + 1, C], most significant digit first, class 10 is the placeholder.
        signs: [B, A, 2, 2], class 1 is minus.
        operator: [B, A, K + 1], class K is "no arithmetic".
    """

    digits: torch.Tensor
    signs: torch.Tensor
    operator: torch.Tensor


class Targets(NamedTuple):
    """The right reading and the right result of each anchor (paper, "Ground Truth Data"); all int64.

    Attributes:
        operands: [B, A, 2, D + 1] digit classes.
        signs: [B, A, 2], 1 is minus.
        operator: [B, A] in 0..K, K for "no arithmetic", -100 where the anchor is not supervised.
        result: [B, A, R] digit classes.
        result_sign: [B, A].
        result_status: [B, A], a `calculator.Status`.
    """

    operands: torch.Tensor
    signs: torch.Tensor
    operator: torch.Tensor
    result: torch.Tensor
    result_sign: torch.Tensor
    result_status: torch.Tensor


class HiddenInputMapping(nn.Module):
    """Reads operands and operator out of hidden states.

    Args:
        hidden_size: H.
        num_digits: D.
        num_operations: K.
        dim: width d of the encoder and of what is kept of each token.
        num_layers: encoder layers.
        num_heads: attention heads.
        ffn: hidden width of the feed-forward layers.
        max_distance: distances to the anchor that are told apart.
    """

    def __init__(
        self,
        hidden_size: int,
        num_digits: int,
        num_operations: int,
        *,
        dim: int,
        num_layers: int,
        num_heads: int,
        ffn: int,
        max_distance: int,
    ) -> None:
        super().__init__()
        self.num_digits = num_digits
        self.norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.compression = nn.Linear(hidden_size, dim)
        self.distance = nn.Embedding(max_distance, dim)
        self.encoder = nn.ModuleList(Block(dim, num_heads, ffn) for _ in range(num_layers))
        self.memory_norm = nn.RMSNorm(dim, eps=1e-6)
        self.anchor_query = nn.Linear(dim, dim)
        self.slots = nn.Parameter(torch.empty(2 * (num_digits + 1) + 3, dim))  # digits, two signs, operator
        self.reader = Block(dim, num_heads, ffn)
        self.slot_norm = nn.RMSNorm(dim, eps=1e-6)
        self.digit_head = nn.Linear(dim, NUM_CLASSES)
        self.digit_bias = nn.Parameter(torch.zeros(2, num_digits + 1, NUM_CLASSES))  # numbers are short: a prior each
        self.sign_head = nn.Linear(dim, 2)
        self.operator_head = nn.Linear(dim, num_operations + 1)
        nn.init.normal_(self.distance.weight, std=0.3)
        nn.init.normal_(self.slots, std=0.5)

    def read_two_digits(self) -> None:
        """Bias the classifiers so that random weights read two digits and one of the first operations (for tests)."""
        with torch.no_grad():
            self.digit_bias[:, :2, PAD] = -100
            self.digit_bias[:, 2:, PAD] = 100
            # 7 and 7 rather than 0: the result of any of the usual operations then is a number
            self.operator_head.bias[1:] -= 100

    def compress(self, h: torch.Tensor) -> torch.Tensor:
        """What reading keeps of each hidden state h [B, T, H], as [B, T, d] in h's dtype; it outlives the call."""
        x = self.compression(self.norm(h.to(self.compression.weight.dtype)))
        return x.to(h.dtype)

    def forward(self, kept: torch.Tensor, valid: torch.Tensor, anchors: torch.Tensor) -> Reading:
        """Read what is asked for at each anchor.

        Args:
            kept: [B, T, d], from `compress`, of the whole text so far.
            valid: [B, T] bool, False for padding.
            anchors: [B, A] int64 in 0..T-1, or -1 for none (its reading then means nothing).
        """
        (b, t, d), a = kept.shape, anchors.shape[1]
        anchor = anchors.clamp(min=0)
        place = torch.arange(t, device=kept.device)
        # a missing anchor sees the first token: attention over nothing would be NaN
        visible = (place <= anchor[..., None]) & (valid[:, None] | (anchors < 0)[..., None])  # [B, A, T]
        rank = valid.cumsum(1)  # distances count real tokens, so padding anywhere changes nothing
        distance = rank.gather(1, anchor)[..., None] - rank[:, None]  # [B, A, T]
        x = kept.to(self.compression.weight.dtype)[:, None] + self.distance(
            distance.clamp(0, self.distance.num_embeddings - 1)
        )
        x, visible = x.reshape(b * a, t, d), visible.reshape(b * a, 1, t)
        for layer in self.encoder:
            x = layer(x, visible=visible)
        memory = self.memory_norm(x)
        at_anchor = memory[torch.arange(b * a, device=x.device), anchor.reshape(-1)]  # [B * A, d]
        slots = self.anchor_query(at_anchor)[:, None] + self.slots  # [B * A, S, d]
        slots = self.slot_norm(self.reader(slots, memory, visible)).view(b, a, -1, d)
        # Names of what each slot holds; in float32 whatever the weights, because the choice between classes is exact.
        with torch.autocast(kept.device.type, enabled=False):
            return self._classify(slots.float())

    def _classify(self, slots: torch.Tensor) -> Reading:
        """Logits of the slots [B, A, S, d] float32."""

        def logits(head: nn.Linear, x: torch.Tensor) -> torch.Tensor:
            return F.linear(x, head.weight.float(), head.bias.float())

        n = 2 * (self.num_digits + 1)
        digits = logits(self.digit_head, slots[:, :, :n]).unflatten(2, (2, -1))  # [B, A, 2, D + 1, C]
        return Reading(
            digits + self.digit_bias.float(),
            logits(self.sign_head, slots[:, :, n : n + 2]),
            logits(self.operator_head, slots[:, :, n + 2]),
        )


def reading_loss(reading: Reading, targets: Targets, anchors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The auxiliary loss (paper, "Modified Training Process"): cross-entropy of what was read.

    An anchor's loss is the operator's cross-entropy plus, where there is arithmetic, for each operand the mean over
    its digit slots and the sign's.

    Args:
        reading: logits.
        targets: the right classes.
        anchors: [B, A] int64, -1 for none; those are not supervised.

    Returns:
        loss [B, A] float32, 0 where not supervised; supervised [B, A] bool; correct [B, A] bool, True where operator,
        operands and signs were all read right.
    """
    num_operations = reading.operator.shape[-1] - 1
    supervised = (targets.operator >= 0) & (anchors >= 0)
    arithmetic = supervised & (targets.operator < num_operations)

    def cross_entropy(logits: torch.Tensor, target: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        target = target.masked_fill(~where.view(where.shape + (1,) * (target.dim() - 2)), IGNORE)
        losses = F.cross_entropy(logits.flatten(0, -2), target.flatten(), ignore_index=IGNORE, reduction="none")
        return losses.view(target.shape)

    loss = cross_entropy(reading.operator, targets.operator, supervised)
    loss = loss + cross_entropy(reading.digits, targets.operands, arithmetic).mean(-1).sum(-1)
    loss = loss + cross_entropy(reading.signs, targets.signs, arithmetic).sum(-1)
    operands_right = (reading.digits.argmax(-1) == targets.operands).all(-1).all(-1)
    operands_right &= (reading.signs.argmax(-1) == targets.signs).all(-1)
    correct = (reading.operator.argmax(-1) == targets.operator) & (operands_right | ~arithmetic) & supervised
    return loss, supervised, correct
