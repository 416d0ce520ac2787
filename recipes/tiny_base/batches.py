"""Conversations and prose as tensors.

In: the tokenizer, texts, a seed. Out: (input_ids [B, T], labels [B, T]) int64, labels -100 where nothing is learned.
Rows are padded on the right and need no mask under causal attention. Of conversations the answers are labelled,
of prose everything.
No padding to a fixed length and no packing: conversations of similar length meet in one batch.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerFast

from .questions import Conversations, Piece


IGNORED = -100
SORTED_TOGETHER = 16  # batches; more means less padding and less variety within a batch
Batch = tuple[torch.Tensor, torch.Tensor]
Row = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Sizes:
    """B and T of the batches.

    Args:
        seed: equal seeds give equal batches in equal order of calls.
        chat_rows: B of a batch of short conversations.
        prose_rows: B of a batch of prose.
        prose_length: T of a batch of prose.
        long_rows: B of a batch of long conversations.
        long_length: the most tokens that a long conversation has.
    """

    seed: int = 0
    chat_rows: int = 128
    prose_rows: int = 16
    prose_length: int = 160
    long_rows: int = 8
    long_length: int = 320


class Batches:
    """Seeded batches of short conversations, of long conversations, and of prose.

    Args:
        tokenizer: turns text into ids; used without its padding.
        prose: training texts.
        sizes: of the batches.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, prose: Sequence[str], sizes: Sizes):
        self.tokenizer, self.sizes = tokenizer, sizes
        self.rng = random.Random(sizes.seed)
        self.conversations = Conversations(" ".join(prose).split(), sizes.seed + 1)
        begin, end = tokenizer.bos_token_id, tokenizer.eos_token_id
        self.stream = torch.tensor([i for ids in self._encode(prose) for i in (begin, *ids, end)])
        self._sorted: list[list[Row]] = []

    def chats(self) -> Batch:
        """Short conversations of about equal length."""
        if not self._sorted:
            count = SORTED_TOGETHER * self.sizes.chat_rows
            rows = self._rows([self.conversations.short() for _ in range(count)])
            self._sorted = of_similar_length(rows, self.sizes.chat_rows, self.rng)
        return pad_right(self._sorted.pop(), self.tokenizer.pad_token_id)

    def long_chats(self) -> Batch:
        """Conversations of many turns, cut before the turn that would exceed `long_length` tokens."""
        rows = []
        for ids, labels in self._rows([self.conversations.chat(20) for _ in range(self.sizes.long_rows)]):
            # An answer ends where a label is followed by none.
            ends = [i + 1 for i, label in enumerate(labels) if label == self.tokenizer.eos_token_id]
            cut = max((end for end in ends if end <= self.sizes.long_length), default=ends[0])
            rows.append((ids[:cut], labels[:cut]))
        return pad_right(rows, self.tokenizer.pad_token_id)

    def english(self) -> Batch:
        """Crops of the prose at random places."""
        length = self.sizes.prose_length
        places = [self.rng.randrange(len(self.stream) - length) for _ in range(self.sizes.prose_rows)]
        ids = self.stream[torch.tensor(places)[:, None] + torch.arange(length)]  # [B, T]
        return ids, ids

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]

    def _rows(self, conversations: Sequence[Sequence[Piece]]) -> list[Row]:
        """Ids and labels of each conversation; its pieces are tokenized one by one, as generation meets them."""
        encoded = iter(self._encode([text for pieces in conversations for text, _ in pieces]))
        rows = []
        for pieces in conversations:
            ids: list[int] = []
            labels: list[int] = []
            for _, is_answer in pieces:
                piece = next(encoded)
                ids += piece
                labels += piece if is_answer else [IGNORED] * len(piece)
            rows.append((ids, labels))
        return rows


def of_similar_length(rows: list[Row], count: int, rng: random.Random) -> list[list[Row]]:
    """Batches of `count` rows of similar length, in random order."""
    rows.sort(key=lambda row: len(row[0]))
    batches = [rows[i : i + count] for i in range(0, len(rows), count)]
    rng.shuffle(batches)
    return batches


def pad_right(rows: Sequence[Row], pad: int) -> Batch:
    """Rows of different lengths as (ids [B, T], labels [B, T]), T the length of the longest."""
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in rows])  # [B, T]
    labels = torch.tensor([labels + [IGNORED] * (width - len(labels)) for _, labels in rows])  # [B, T]
    return ids, labels
