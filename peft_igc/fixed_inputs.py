"""Reading at fixed places: the simpler variant that the paper found to perform worse (section "Methods").

In: what is kept of a text's tokens. Out: for each anchor what its slots hold, from the last N tokens up to it, each in
a place of its own. There is no attention, so a number that stands one token farther away is another input. What the
slots mean is not decided here: see `input_mapping`.

Shapes: B rows, T positions, A anchors per row, N tokens that are read, S slots, d reading width.
Try it: `pytest tests/test_ablations.py -k fixed`
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class FixedInputs(nn.Module):
    """A small MLP on the concatenation of the last tokens.

    Args:
        num_tokens: N.
        num_slots: S.
        dim: d.
        ffn: hidden width.
    """

    def __init__(self, num_tokens: int, num_slots: int, *, dim: int, ffn: int) -> None:
        super().__init__()
        self.num_tokens = num_tokens
        self.dim = dim
        self.up = nn.Linear(num_tokens * dim, ffn)
        self.down = nn.Linear(ffn, num_slots * dim)

    def forward(self, x: torch.Tensor, visible: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
        """What each anchor's slots hold.

        Args:
            x: [B, T, d] float, the tokens.
            visible: [B, A, T] bool, the real tokens that an anchor may read.
            distance: [B, A, T] int64, how many real tokens each of these stands before the anchor.

        Returns:
            [B, A, S, d] float.
        """
        (b, a, t), n = visible.shape, self.num_tokens
        place = torch.where(visible & (distance < n), distance, n)  # the last column takes what is not read
        position = torch.arange(t, device=x.device).expand(b, a, t)
        at = position.new_full((b, a, n + 1), -1).scatter(2, place, position)[..., :n]  # [B, A, N]
        row = torch.arange(b, device=x.device)[:, None, None]
        seen = torch.where((at >= 0)[..., None], x[row, at.clamp(min=0)], 0)  # [B, A, N, d]
        return self.down(F.gelu(self.up(seen.flatten(2)))).unflatten(2, (-1, self.dim))
