"""Integers as digit tensors, the operands of the calculator."""

import torch

from peft_igc.numbers.digits import canonical, classes


def encode(texts: list[str], width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Digits [N, D] and signs [N], both int64, of canonical integers."""
    digits = torch.tensor([classes(text.lstrip("-"), width) for text in texts], dtype=torch.int64)
    return digits.reshape(-1, width), torch.tensor([text[0] == "-" for text in texts], dtype=torch.int64)


def decode(digits: torch.Tensor, signs: torch.Tensor) -> list[str]:
    return canonical(digits, signs, torch.zeros_like(signs))
