"""The token interface: the digits of numbers come from the token ids; which numbers are operands is learned.

In: hidden states, token embeddings and ids of the text so far, and the next token of each result
(`text.spelling`). Out: the `Pointing` of each anchor (`TokenInputMapping`), and the update of each hidden state
(`TokenOutputMapping`). Choice and loss are in `readings`; the update is applied by `IGCLayer`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..text.operations import takes
from ..text.spelling import ENDS, Spelled
from ..text.token_table import TokenTable
from .attention import Block, LayerMix, float_logits, rms
from .places import COMPARISONS, FACTS, PlaceTensors, StepTexts, place_tensors
from .readings import NEVER, Pointing, concatenate, two_places


class TokenInputMapping(nn.Module):
    """Points at two numbers of the text and classifies the operator.

    The encoder has one place per number, with a learned vector in place of its value. So only the structure of the
    text is learned, and numbers of any length are read exactly, including lengths that were not in training.
    If the config has no vocabulary, `know` is called later.
    """

    RELATIVE = 32  # places to each side with a relative position bias of their own

    def __init__(self, hidden_size: int, config: Any) -> None:
        super().__init__()
        dim, heads, layers = config.reading_dim, config.num_heads, config.reading_layers
        # How many numbers each operation is given; 0 for a set of them, which has marks.
        self._takes = tuple(takes(operation) for operation in config.operations)
        self.num_digits = config.num_digits
        self._tokens: TokenTable | None = None
        self.characters: Tensor  # [n] uint8, the bytes of the vocabulary, which are saved with the weights
        self.register_buffer("characters", torch.zeros(0, dtype=torch.uint8))
        self.mix = LayerMix(len(config.layers_read)) if len(config.layers_read) > 1 else None
        self.embedded_norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.embedded_compression = nn.Linear(hidden_size, dim)
        self.norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.compression = nn.Linear(hidden_size, dim, bias=False)
        self.number = nn.Parameter(torch.randn(dim) * 0.5)
        self.broken = nn.Parameter(torch.randn(dim) * 0.5)
        self.encoder = nn.ModuleList(Block(config) for _ in range(layers))
        self.relative = nn.ModuleList(nn.Embedding(2 * self.RELATIVE + 1, heads) for _ in range(layers))
        self.memory_norm = nn.RMSNorm(dim, eps=1e-6)
        self.anchor_query = nn.Linear(dim, dim)
        self.slots = nn.Parameter(torch.randn(3, dim) * 0.5)  # two operands, the operator
        self.marks = nn.Parameter(torch.randn(2, dim) * 0.5)  # of the two chosen numbers
        self.sentences = nn.Embedding(5, dim)  # by distance to the sentences of the chosen numbers, -2..2
        self.reader = Block(config)
        self.slot_norm = nn.RMSNorm(dim, eps=1e-6)
        self.pointer = nn.Linear(dim, dim, bias=False)
        self.sign_head = nn.Linear(dim, 2)
        self.operator_head = nn.Linear(dim, len(self._takes) + 1)
        self.set_slot = nn.Parameter(torch.randn(dim) * 0.5) if 0 in self._takes else None
        self.set_pointer: Any = nn.Linear(dim, dim, bias=False) if 0 in self._takes else None
        self.set_bias: Any = nn.Parameter(torch.zeros(1)) if 0 in self._takes else None
        # Which number is the greatest, or a multiple of another one, tells what is asked where the words do not.
        self.comparisons = nn.Parameter(torch.zeros(COMPARISONS, dim)) if config.compares_numbers else None
        # The numbers of a column are marked alike, whatever its words and separators are.
        self.set_columns = nn.Embedding(FACTS, dim) if 0 in self._takes else None
        self.set_means = nn.Parameter(torch.zeros(dim)) if 0 in self._takes else None
        nn.init.zeros_(self.compression.weight)  # embeddings are enough for most texts, so training starts with these
        for weight in self.relative.parameters():
            nn.init.zeros_(weight)
        if self.set_columns is not None:
            nn.init.zeros_(self.set_columns.weight)
        if config.vocabulary is not None:
            self.know(config.token_table)

    def know(self, tokens: TokenTable) -> None:
        """Sets the texts of the tokens, and how they spell numbers."""
        saved = torch.frombuffer(bytearray(tokens.vocabulary.to_bytes()), dtype=torch.uint8)
        self.characters = saved.to(self.characters.device)
        self._tokens = tokens

    @property
    def tokens(self) -> TokenTable:
        """The texts of the tokens, and how they spell numbers."""
        if self._tokens is None:
            raise ValueError(
                "The adapter has no vocabulary, which is saved with its weights. Load them, or make its config with "
                "`IGCConfig.from_tokenizer(tokenizer)`."
            )
        return self._tokens

    def compress(self, h: Tensor, embedded: Tensor) -> Tensor:
        """Compresses each token to [B, T, d] in h's dtype, kept with the KV cache for later anchors.

        Args:
            h: [B, T, H], output of the decoder layer that is read, or of `mix`.
            embedded: [B, T, H], input of the first decoder layer.
        """
        states = self.compression(self.norm(h.to(self.compression.weight.dtype)))
        embedded = self.embedded_norm(embedded.to(self.embedded_norm.weight.dtype))
        return (states + self.embedded_compression(embedded)).to(h.dtype)  # Eq. 1

    def forward(self, kept: Tensor, texts: StepTexts, steps: Sequence[int] | None = None) -> Pointing:
        """Reads the steps of texts; of one without an anchor the reading is finite but meaningless.

        Args:
            kept: [B, L, d], compressed tokens of the texts.
            texts: the texts. A row with `EMBEDDED` tokens has no numbers, and `UNSEEN` tokens count as one that may
                not be an operand.
            steps: n indices of steps. Only these are read, with n in place of the dimensions B and A.
        """
        chosen = range(len(texts.anchors)) if steps is None else steps
        width, lists = self.num_digits + 1, self.set_columns is not None
        groups = place_tensors(texts, width, steps=chosen, with_columns=lists, device=kept.device)
        pointing = concatenate([self._point(kept, group) for group in groups])
        order = [step for group in groups for step in group.steps]
        if order != sorted(order):
            back = torch.tensor(order, device=kept.device).argsort()
            pointing = pointing.mapped(lambda x: x[back])
        return pointing.mapped(lambda x: x.unflatten(0, (len(texts.rows), -1))) if steps is None else pointing

    def _point(self, kept: Tensor, places: PlaceTensors) -> Pointing:
        """Reads n steps at once, with n in place of the dimensions B and A: points at two numbers, marks them, and
        classifies the operator in a second pass over the places."""
        number, sentence = places.is_number, places.sentence
        x, visible, distance = self.placed(kept, places)
        x = self.encode(x, visible, distance, 0)
        memory, slots = self._attend(x, visible, self.slots[:2])
        query = float_logits(self.pointer, slots)  # [N, 2, d]
        with torch.autocast(x.device.type, enabled=False):  # in float32, as all logits
            scores = query @ memory.float().transpose(1, 2) / math.sqrt(memory.shape[-1])  # [N, 2, W]
        scores = scores.masked_fill(~number[:, None], NEVER).log_softmax(-1)
        sign = float_logits(self.sign_head, memory).log_softmax(-1)  # [N, W, 2]
        scores = scores[..., None] + sign[:, None]  # [N, 2, W, 2], Eq. 6
        chosen, signs = two_places(scores)  # [N, 2]
        theirs = sentence.gather(1, chosen)  # [N, 2]
        far = (sentence - theirs.amin(1, keepdim=True)).clamp(-2, 0)
        far = far + (sentence - theirs.amax(1, keepdim=True)).clamp(0, 2)  # [N, W] in -2..2, 0 between the two
        marked = F.one_hot(chosen, x.shape[1]).to(x.dtype)  # [N, 2, W]
        x = x + marked.transpose(1, 2) @ self.marks.to(x.dtype) + self.sentences(far + 2).to(x.dtype)  # Eq. 7
        if self.set_means is not None:
            x = x + self.set_means.to(x.dtype) * _column_means(x, places)
        x = self.encode(x, visible, distance, 1)
        if self.set_slot is None:
            memory, slots = self._attend(x, visible, self.slots[2:])
            marks = scores.new_zeros(len(scores), 0, 3)
        else:
            memory, slots = self._attend(x, visible, torch.cat([self.slots[2:], self.set_slot[None]]))
            marks = self._marks(memory + _column_means(memory, places), slots[:, 1], number)
        operator = float_logits(self.operator_head, slots[:, 0])  # Eq. 7
        found = (places.values, places.positions, chosen, signs, places.numbers, self._takes)
        return Pointing(scores, operator, marks, *found)

    def placed(self, kept: Tensor, places: PlaceTensors) -> tuple[Tensor, Tensor, Tensor]:
        """What the encoder gets of n steps: the places x [n, W, d], which of these exist [n, 1, W] bool, and an index
        of the distance between two of them [W, W]."""
        x = kept[places.row[:, None], places.positions.clamp(min=0)]  # [n, W, d]
        x = x.to(self.compression.weight.dtype)
        value = self.number if self.comparisons is None else self.number + self.comparisons[places.compared]
        x = torch.where((places.kinds == 1)[..., None], value.to(x.dtype), x)  # Eq. 2
        if self.set_columns is not None:
            x = torch.where((places.kinds == 1)[..., None], x + self.set_columns(places.facts).to(x.dtype), x)
        x = torch.where((places.kinds == 2)[..., None], self.broken.to(x.dtype), x)  # Eq. 2
        place = torch.arange(x.shape[1], device=x.device)
        distance = (place[:, None] - place).clamp(-self.RELATIVE, self.RELATIVE) + self.RELATIVE
        return x, (places.positions >= 0)[:, None], distance

    def _marks(self, memory: Tensor, slot: Tensor, number: Tensor) -> Tensor:
        """Log-probabilities [N, W, 3] that each place of memory [N, W, d] is no operand, or one with a sign."""
        query = float_logits(self.set_pointer, slot)  # [N, d]
        sign = float_logits(self.sign_head, memory).log_softmax(-1)  # [N, W, 2]
        with torch.autocast(memory.device.type, enabled=False):
            score = (memory.float() @ query[..., None]).squeeze(-1) / math.sqrt(memory.shape[-1])  # [N, W]
            score = score + self.set_bias.float()
        score = score.masked_fill(~number, NEVER)
        return torch.cat([F.logsigmoid(-score)[..., None], F.logsigmoid(score)[..., None] + sign], -1)

    def encode(self, x: Tensor, visible: Tensor, distance: Tensor, half: int) -> Tensor:
        """The first or second half of the encoder, 0 or 1, on the places x [N, W, d], with relative position biases of
        `distance` [W, W], an index of each (Eq. 3)."""
        first = len(self.encoder) - len(self.encoder) // 2
        layers = slice(first, None) if half else slice(first)
        for layer, relative in zip(self.encoder[layers], self.relative[layers], strict=True):
            x = layer(x, visible=visible, bias=relative(distance).permute(2, 0, 1).to(x.dtype))
        return x

    def _attend(self, x: Tensor, visible: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """The memory [N, W, d] of places x, and the vectors [N, S, d] of slots [S, d] that attend to it."""
        memory = self.memory_norm(x)  # Eq. 3
        query = self.anchor_query(memory[:, -1])[:, None] + slots
        return memory, self.slot_norm(self.reader(query, memory, visible))  # Eq. 4


def _column_means(x: Tensor, places: PlaceTensors) -> Tensor:
    """[n, W, d]: the mean of x [n, W, d] over the numbers of the column of each place, 0 for one without a number."""
    alike = (places.columns[:, :, None] == places.columns[:, None]) & places.is_number[:, None]  # [n, W, W]
    shares = (alike & places.is_number[:, :, None]).to(x.dtype)
    return (shares / shares.sum(-1, keepdim=True).clamp(min=1)) @ x


class TokenOutputMapping(nn.Module):
    """Maps the embedding of the next token of a result to an update of a hidden state.

    The map also depends on the hidden state and on the part of the result that is written.
    E, `embedding_size`, differs from H in base models that project embeddings.
    """

    def __init__(self, hidden_size: int, embedding_size: int, config: Any) -> None:
        super().__init__()
        ffn, gate_dim = config.writing_ffn, config.gate_dim
        self.norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.end = nn.Parameter(torch.randn(len(ENDS), embedding_size))  # instead of an embedding after the result
        self.write_up = nn.Linear(embedding_size, ffn)
        self.write_down = nn.Linear(ffn, hidden_size)
        self.gate_up = nn.Linear(hidden_size + embedding_size, gate_dim)
        self.gate_state = nn.Embedding(len(Spelled), gate_dim)
        self.gate_down = nn.Linear(gate_dim, 1)
        self.context = nn.Linear(gate_dim, ffn, bias=False)  # the best update depends on the text before it

    def forward(self, h: Tensor, embedded: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The update and gate of every position. The caller selects the positions that are written (Eq. 15).

        Args:
            h: [B, T, H].
            embedded: [B, T, E], embedding of the next token of the result; ignored where the result is complete.
            state: [B, T] int64, a `Spelled`.

        Returns:
            update [B, T, H] in the weights' dtype, gate [B, T].
        """
        h = h.to(self.write_up.weight.dtype)
        c = F.rms_norm(embedded.to(h.dtype), embedded.shape[-1:], eps=1e-6)
        end = state - int(Spelled.END)  # [B, T], index into `self.end`, negative before the end
        c = torch.where((end >= 0)[..., None], self.end[end.clamp(min=0)].to(h.dtype), c)  # [B, T, E], Eq. 11
        z = F.gelu(self.gate_up(torch.cat([self.norm(h), c], -1)) + self.gate_state(state))  # [B, T, gate_dim]
        gate = torch.sigmoid(self.gate_down(z))  # [B, T, 1], Eq. 12
        direction = self.write_down(F.gelu(self.write_up(c) + self.context(z)))  # [B, T, H], Eq. 13
        return gate * rms(h) * direction, gate.squeeze(-1)  # Eq. 14
