"""Reading: from a text of any length to two operands and an operator (paper, "Input Mapping"), in two interfaces.

`HiddenInputMapping` is the paper's: a small encoder looks at the tokens up to the anchor in both directions; one query
per slot (a digit place, a sign, the operator), made from the anchor's own state, attends over them; a classifier names
what the slot holds. `TokenInputMapping` knows the numbers already, from the token ids: its encoder sees the structure
of the text, with every number hidden behind one learned vector, and its queries point at two of them. What either
reads is a distribution (`reading`); the discrete choice and the arithmetic are not made here.

Shapes: B rows, T positions, H hidden size, A anchors per row, S slots, D digits of an operand, C = 11 digit classes,
K operations, W places that are read. D + 1 digits of an operand are read: a digit in the last place means that the
operand is too long.

Try it: `pytest tests/test_mappings.py`
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from .attention import Block
from .digits import NUM_CLASSES, PAD
from .fixed_inputs import FixedInputs
from .reading import NEVER, Pointing, Reading, RightAlignedReading, joined, two_places
from .runs import NumberTokens, find_runs, numbers_aside, sentences


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
        right_aligned: the digit places are counted from the last digit.
        fixed_inputs: read so many tokens at fixed places, without encoder and attention; None: all of them, with both.
        shortcut: further slots whose vectors are handed out as they are.
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
        right_aligned: bool = False,
        fixed_inputs: int | None = None,
        shortcut: int = 0,
    ) -> None:
        super().__init__()
        self.num_digits, self.right_aligned, self.num_shortcuts = num_digits, right_aligned, shortcut
        self.norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.compression = nn.Linear(hidden_size, dim)
        num_slots = 2 * (num_digits + 1) + 3 + shortcut  # digits, two signs, operator
        self.fixed = None if fixed_inputs is None else FixedInputs(fixed_inputs, num_slots, dim=dim, ffn=ffn)
        if self.fixed is None:
            self.distance = nn.Embedding(max_distance, dim)
            self.encoder = nn.ModuleList(Block(dim, num_heads, ffn) for _ in range(num_layers))
            self.memory_norm = nn.RMSNorm(dim, eps=1e-6)
            self.anchor_query = nn.Linear(dim, dim)
            self.slots = nn.Parameter(torch.empty(num_slots, dim))
            self.reader = Block(dim, num_heads, ffn)
        self.slot_norm = nn.RMSNorm(dim, eps=1e-6)
        self.digit_head = nn.Linear(dim, NUM_CLASSES)
        self.digit_bias = nn.Parameter(torch.zeros(2, num_digits + 1, NUM_CLASSES))  # numbers are short: a prior each
        self.sign_head = nn.Linear(dim, 2)
        self.operator_head = nn.Linear(dim, num_operations + 1)
        if self.fixed is None:
            nn.init.normal_(self.distance.weight, std=0.3)
            nn.init.normal_(self.slots, std=0.5)

    def read_two_digits(self) -> None:
        """Bias the classifiers so that random weights read two digits and one of the first operations (for tests)."""
        with torch.no_grad():
            self.digit_bias[..., PAD] = 100
            two = slice(-2, None) if self.right_aligned else slice(2)
            self.digit_bias[:, two, PAD] = -100
            # 7 and 7 rather than 0: the result of any of the usual operations then is a number
            self.operator_head.bias[1:] -= 100

    def compress(self, h: torch.Tensor, embedded: torch.Tensor | None = None) -> torch.Tensor:
        """What reading keeps of each hidden state h [B, T, H], as [B, T, d] in h's dtype; it outlives the call.

        Token embeddings have no use here.
        """
        x = self.compression(self.norm(h.to(self.compression.weight.dtype)))
        return x.to(h.dtype)

    def forward(
        self,
        kept: torch.Tensor,
        valid: torch.Tensor,
        anchors: torch.Tensor,
        ids: torch.Tensor | None = None,
        since: torch.Tensor | None = None,
    ) -> Reading | tuple[Reading, torch.Tensor]:
        """Read what is asked for at each anchor.

        Args:
            kept: [B, T, d], from `compress`, of the whole text so far.
            valid: [B, T] bool, False for padding.
            anchors: [B, A] int64 in 0..T-1, or -1 for none (its reading then means nothing).
            ids: have no use here.
            since: [B, A] int64, the first token that is read at each anchor; None: that of the row.

        Returns:
            What was read; with a shortcut a pair, whose second is its vectors [B, A, P, d].
        """
        anchor = anchors.clamp(min=0)
        place = torch.arange(kept.shape[1], device=kept.device)
        # a missing anchor sees the first token: attention over nothing would be NaN
        visible = (place <= anchor[..., None]) & (valid[:, None] | (anchors < 0)[..., None])  # [B, A, T]
        if since is not None:
            visible &= place >= since.minimum(anchor)[..., None]
        rank = valid.cumsum(1)  # distances count real tokens, so padding anywhere changes nothing
        distance = rank.gather(1, anchor)[..., None] - rank[:, None]  # [B, A, T]
        x = kept.to(self.compression.weight.dtype)
        found = self._attend(x, visible, distance, anchor) if self.fixed is None else self.fixed(x, visible, distance)
        slots = self.slot_norm(found)
        # Names of what each slot holds; in float32 whatever the weights, because the choice between classes is exact.
        with torch.autocast(kept.device.type, enabled=False):
            reading = self._classify(slots.float())
        return (reading, slots[:, :, -self.num_shortcuts :]) if self.num_shortcuts else reading

    def _attend(
        self, x: torch.Tensor, visible: torch.Tensor, distance: torch.Tensor, anchor: torch.Tensor
    ) -> torch.Tensor:
        """What the slots find [B, A, S, d] in the tokens x [B, T, d]; `visible` and `distance` are [B, A, T]."""
        (b, a, t), d = visible.shape, x.shape[-1]
        x = x[:, None] + self.distance(distance.clamp(0, self.distance.num_embeddings - 1))
        x, visible = x.reshape(b * a, t, d), visible.reshape(b * a, 1, t)
        for layer in self.encoder:
            x = layer(x, visible=visible)
        memory = self.memory_norm(x)
        at_anchor = memory[torch.arange(b * a, device=x.device), anchor.reshape(-1)]  # [B * A, d]
        slots = self.anchor_query(at_anchor)[:, None] + self.slots  # [B * A, S, d]
        return self.reader(slots, memory, visible).view(b, a, -1, d)

    def _classify(self, slots: torch.Tensor) -> Reading:
        """Logits of the slots [B, A, S, d] float32."""

        def logits(head: nn.Linear, x: torch.Tensor) -> torch.Tensor:
            return F.linear(x, head.weight.float(), head.bias.float())

        n = 2 * (self.num_digits + 1)
        digits = logits(self.digit_head, slots[:, :, :n]).unflatten(2, (2, -1))  # [B, A, 2, D + 1, C]
        kind = RightAlignedReading if self.right_aligned else Reading
        return kind(
            digits + self.digit_bias.float(),
            logits(self.sign_head, slots[:, :, n : n + 2]),
            logits(self.operator_head, slots[:, :, n + 2]),
        )


class TokenInputMapping(nn.Module):
    """Points at the operands in the text and names the operator.

    The structure of the text is all that is learned: values are hidden, and a number is one place, however many tokens
    spell it. So a number of any length is read exactly, also one longer than any in training.

    Args:
        hidden_size: H.
        tokens: how the tokenizer spells numbers.
        num_digits: D.
        num_operations: K.
        dim: width d of the encoder and of what is kept of each token.
        num_layers: encoder layers.
        num_heads: attention heads.
        ffn: hidden width of the feed-forward layers.
        max_distance: the most places before the anchor that are read.
        dropout: part of the rows that are read from token embeddings alone, in training.
        whole_sentences: a context may begin within a sentence, whose first part then still tells of further numbers.
    """

    RELATIVE = 32  # places that are told apart to each side of one, by their distance
    LEAD = 64  # tokens that are looked at before a context
    SHORT = 48  # tokens of a short context

    def __init__(
        self,
        hidden_size: int,
        tokens: NumberTokens,
        num_digits: int,
        num_operations: int,
        *,
        dim: int,
        num_layers: int,
        num_heads: int,
        ffn: int,
        max_distance: int,
        dropout: float,
        whole_sentences: bool = False,
    ) -> None:
        super().__init__()
        self.tokens, self.num_digits = tokens, num_digits
        self.max_distance, self.dropout, self.whole_sentences = max_distance, dropout, whole_sentences
        self.embedded_norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.embedded_compression = nn.Linear(hidden_size, dim)
        self.norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.compression = nn.Linear(hidden_size, dim, bias=False)
        self.number = nn.Parameter(torch.randn(dim) * 0.5)
        self.broken = nn.Parameter(torch.randn(dim) * 0.5)
        self.encoder = nn.ModuleList(Block(dim, num_heads, ffn) for _ in range(num_layers))
        self.relative = nn.ModuleList(nn.Embedding(2 * self.RELATIVE + 1, num_heads) for _ in range(num_layers))
        self.memory_norm = nn.RMSNorm(dim, eps=1e-6)
        self.anchor_query = nn.Linear(dim, dim)
        self.slots = nn.Parameter(torch.randn(3, dim) * 0.5)  # two operands, the operator
        self.marks = nn.Parameter(torch.randn(2, dim) * 0.5)  # of the numbers that are pointed at
        self.sentences = nn.Embedding(5, dim)  # how far from theirs: two or more before, one before, .., behind
        self.reader = Block(dim, num_heads, ffn)
        self.slot_norm = nn.RMSNorm(dim, eps=1e-6)
        self.pointer = nn.Linear(dim, dim, bias=False)
        self.sign_head = nn.Linear(dim, 2)
        self.operator_head = nn.Linear(dim, num_operations + 1)
        nn.init.zeros_(self.compression.weight)  # embeddings suffice for most texts: states come in as they help
        for weight in self.relative.parameters():
            nn.init.zeros_(weight)

    def read_two_digits(self) -> None:
        """Bias the operator so that random weights calculate wherever there are two numbers (for tests)."""
        with torch.no_grad():
            nn.init.normal_(self.compression.weight, std=0.1)
            self.operator_head.bias[1:] -= 100

    def compress(self, h: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
        """What reading keeps of each token, as [B, T, d] in h's dtype; it outlives the call.

        Args:
            h: [B, T, H] hidden states of the layer that is read.
            embedded: [B, T, H] what arrived at the first decoder layer.
        """
        states = self.compression(self.norm(h.to(self.compression.weight.dtype)))
        if self.training and self.dropout:
            states = states * (torch.rand(len(h), 1, 1, device=h.device) >= self.dropout)
        embedded = self.embedded_norm(embedded.to(self.embedded_norm.weight.dtype))
        return (states + self.embedded_compression(embedded)).to(h.dtype)

    def forward(
        self,
        kept: torch.Tensor,
        valid: torch.Tensor,
        anchors: torch.Tensor,
        ids: torch.Tensor,
        since: torch.Tensor | None = None,
    ) -> Pointing:
        """Point at what is asked for at each anchor.

        Args:
            kept: [B, T, d], from `compress`, of the whole text so far.
            valid: [B, T] bool, False for padding.
            anchors: [B, A] int64 in 0..T-1, or -1 for none (its reading then means nothing).
            ids: [B, T] int64 token ids, -1 where embeddings were given: such a row has no numbers at all.
            since: [B, A] int64, the first token that is read at each anchor; None: that of the row. A number that
                began before it is not read.
        """
        (b, t, _), a = kept.shape, anchors.shape[1]
        row = torch.arange(b, device=kept.device).repeat_interleave(a)  # [N], N = B * A
        anchor = anchors.clamp(min=0).flatten()
        since = torch.zeros_like(anchor) if since is None else since.flatten().minimum(anchor)
        if a == 1 or torch.compiler.is_compiling():
            pointing = self._point(kept, valid, ids, row, anchor, since, t)
        else:  # of a long text each of many steps reads a part, most of them a short one
            length = torch.where(anchors.flatten() >= 0, anchor - since + 1, 0)
            parts, where = [], []
            for at in (length == 0, (length > 0) & (length <= self.SHORT), length > self.SHORT):
                index = at.nonzero().flatten()
                if len(index):
                    part = row[index], anchor[index], since[index]
                    parts.append(self._point(kept, valid, ids, *part, max(int(length[index].max()), 1)))
                    where.append(index)
            pointing = joined(parts)
            back = torch.cat(where).argsort()
            pointing = Pointing(*(x[back] for x in pointing))
        return Pointing(*(x.unflatten(0, (b, a)) for x in pointing))

    def _point(
        self,
        kept: torch.Tensor,
        valid: torch.Tensor,
        ids: torch.Tensor,
        row: torch.Tensor,
        anchor: torch.Tensor,
        since: torch.Tensor,
        longest: int,
    ) -> Pointing:
        """Points for N steps at once.

        Args:
            kept, valid, ids: as in `forward`.
            row: [N] int64, the row of each step.
            anchor, since: [N] int64, its last and its first token.
            longest: the most tokens from one to the other.

        Returns:
            All its tensors have N for the dimensions of rows and anchors.
        """
        t = kept.shape[1]
        # A number that begins before the context is to be seen from its beginning, so some tokens more are looked at;
        # one that began even before these does not begin in the context, and so is not read either.
        place = torch.arange(min(t, longest + self.LEAD), device=kept.device)  # [M]
        row, anchor, since = row[:, None], anchor[:, None], since[:, None]  # [N, 1]
        start = anchor - (len(place) - 1) if len(place) < t else torch.zeros_like(anchor)
        at_text = (start + place).clamp(min=0)
        # embeddings may hide a number, or a part of one, anywhere in a text
        known = ((ids < 0) & valid).long().cumsum(1)[row, anchor].squeeze(1) == 0  # [N]
        ids, real = ids[row, at_text], valid[row, at_text] & (start + place >= 0)  # [N, M]
        anchor, since = anchor - start, since - start
        text = real & (place <= anchor)
        runs = find_runs(self.tokens, ids, text, self.num_digits + 1)  # whole numbers, also where the context cuts
        read = text & (place >= since)
        text = text if self.whole_sentences else read
        positions = self._places(read & ~runs.inside, anchor, min(self.max_distance, t, longest))  # [N, W]
        there, at = positions >= 0, positions.clamp(min=0)
        x = kept[row, (start + at).clamp(min=0)].to(self.compression.weight.dtype)  # [N, W, d]
        x = torch.where((runs.number.gather(1, at) & there)[..., None], self.number.to(x.dtype), x)
        x = torch.where((runs.broken.gather(1, at) & there)[..., None], self.broken.to(x.dtype), x)
        digits = runs.digits.gather(1, at[..., None].expand(-1, -1, self.num_digits + 1))  # [N, W, D + 1]
        digits = digits.masked_fill(~(there & known[:, None])[..., None], PAD)
        # the anchor's own place is always seen: attention over nothing would be NaN
        visible = (there | (torch.arange(there.shape[1], device=at.device) == there.shape[1] - 1))[:, None]
        sentence = sentences(self.tokens, ids, text, runs)  # [N, M]
        scores, operator = self._read(x, visible, digits[..., 0] != PAD, sentence.gather(1, at))
        chosen = at.gather(1, two_places(scores)[0])
        number = (runs.number | runs.broken) & text
        aside = numbers_aside(self.tokens, ids, text, sentence, number, chosen, anchor)
        return Pointing(scores, operator, digits, torch.where(there, positions + start, -1), aside)

    def _places(self, kept: torch.Tensor, anchor: torch.Tensor, width: int) -> torch.Tensor:
        """Positions in the text of the last `width` of the `kept` [N, T] tokens up to the anchor [N, 1], as [N, W].

        The anchor's own place is the last; -1 fills up in front.
        """
        n, t = kept.shape
        rank = kept.cumsum(1)
        place = width - 1 - (rank.gather(1, anchor) - rank)
        place = torch.where(kept & (place >= 0), place, width)  # the last column takes what is not read
        position = torch.arange(t, device=kept.device).expand(n, t)
        return position.new_full((n, width + 1), -1).scatter(1, place, position)[:, :width]

    def _read(
        self, x: torch.Tensor, visible: torch.Tensor, number: torch.Tensor, sentence: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Points at two of the numbers, marks them, and then looks again at what is asked to be done with them.

        Args:
            x: [N, W, d] the places; visible: [N, 1, W] bool; number: [N, W] bool, where an operand may be;
            sentence: [N, W] int64, which one each place belongs to.

        Returns:
            log-probabilities [N, 2, W, 2] of (place, sign) and logits of operators [N, K + 1], in float32.
        """
        first = len(self.encoder) - len(self.encoder) // 2
        x = self._encode(x, visible, slice(first))
        memory, slots = self._ask(x, visible, self.slots[:2])
        # In float32 whatever the weights, because the choice is exact.
        with torch.autocast(x.device.type, enabled=False):
            query = F.linear(slots.float(), self.pointer.weight.float())  # [N, 2, d]
            scores = query @ memory.float().transpose(1, 2) / math.sqrt(memory.shape[-1])  # [N, 2, W]
            scores = scores.masked_fill(~number[:, None], NEVER).log_softmax(-1)
            sign = F.linear(memory.float(), self.sign_head.weight.float(), self.sign_head.bias.float())  # [N, W, 2]
            scores = scores[..., None] + sign.log_softmax(-1)[:, None]
        places = two_places(scores)[0]  # [N, 2]
        theirs = sentence.gather(1, places)
        far = (sentence - theirs.amin(1, keepdim=True)).clamp(-2, 0)
        far = far + (sentence - theirs.amax(1, keepdim=True)).clamp(0, 2)  # [N, W]
        marked = F.one_hot(places, x.shape[1]).to(x.dtype)  # [N, 2, W]
        x = x + marked.transpose(1, 2) @ self.marks.to(x.dtype) + self.sentences(far + 2).to(x.dtype)
        x = self._encode(x, visible, slice(first, None))
        _, slot = self._ask(x, visible, self.slots[2:])
        with torch.autocast(x.device.type, enabled=False):
            head = self.operator_head
            return scores, F.linear(slot[:, 0].float(), head.weight.float(), head.bias.float())

    def _encode(self, x: torch.Tensor, visible: torch.Tensor, layers: slice) -> torch.Tensor:
        """The places x [N, W, d] in view of each other."""
        place = torch.arange(x.shape[1], device=x.device)
        distance = (place[:, None] - place).clamp(-self.RELATIVE, self.RELATIVE) + self.RELATIVE  # [W, W]
        for layer, relative in zip(self.encoder[layers], self.relative[layers], strict=True):
            x = layer(x, visible=visible, bias=relative(distance).permute(2, 0, 1).to(x.dtype))
        return x

    def _ask(self, x: torch.Tensor, visible: torch.Tensor, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What slots [S, d], in view of the anchor, find: the memory [N, W, d] and the answers [N, S, d]."""
        memory = self.memory_norm(x)
        query = self.anchor_query(memory[:, -1])[:, None] + slots
        return memory, self.slot_norm(self.reader(query, memory, visible))
