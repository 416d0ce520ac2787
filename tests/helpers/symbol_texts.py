"""Texts as ids, for tests of what is read in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from peft_igc.numbers.token_table import PADDING


def encode(tokenizer: Any, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and validity [N, L] of texts, padded on the left."""
    rows = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    length = max(1, *map(len, rows))
    ids = torch.tensor([[PADDING] * (length - len(row)) + row for row in rows])
    return ids, ids != PADDING
