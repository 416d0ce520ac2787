"""The number format: integers as left-aligned digit tensors.

A number has `width` digit classes, most significant digit first, `PAD` after the last digit, and a separate sign
(0 plus, 1 minus): `-12` at width 4 is `[1, 2, PAD, PAD]` with sign 1. Zero is `[0, PAD, ...]` with sign 0. Numbers are
left-aligned because tokenizers split them from the left (paper, appendix on tokenization): the leading digits have the
same slots at every length. Functions of tensors alone run on any device, without loops over rows or synchronisation.

Shapes: N numbers, D digits of a number; `...` is any number of leading dimensions.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


PAD = 10  # class of the placeholder: no digit in this slot
POINT = 11  # class of a decimal point, among numbers that are compared and not calculated with
NUM_CLASSES = 11  # ten digits and the placeholder


def classes(text: str, width: int) -> list[int]:
    """The first `width` classes of a number without a sign, left-aligned; it may have a point."""
    return [*(POINT if char == "." else int(char) for char in text[:width]), *[PAD] * (width - len(text))]


def spelled(digits: Sequence[int], sign: int, scale: int = 0) -> str:
    """A well-formed number as text, such as `"-12.50"` or `"17%"`, with a digit before the point and no other leading
    zeros; `scale` is the number of digits after the point, of a percentage -1 minus that."""
    percent, places = scale < 0, -1 - scale if scale < 0 else scale
    text = "".join(str(digit) for digit in digits if digit != PAD).lstrip("0")
    minus, text = "-" * bool(sign and text), text.rjust(places + 1, "0")
    point = len(text) - places
    return minus + text[:point] + "." * bool(places) + text[point:] + "%" * percent


def length(digits: Tensor) -> Tensor:
    """[...] int64 in 0..D: the number of digits [..., D] before the first placeholder."""
    return (digits != PAD).to(torch.int64).cumprod(-1).sum(-1)


def is_number(digits: Tensor) -> Tensor:
    """[...] bool: which rows of integers [..., D] are well-formed, at least one digit and then only placeholders."""
    is_known, count = (digits >= 0) & (digits <= PAD), length(digits)  # [..., D], [...]
    return is_known.all(-1) & (count > 0) & ((digits != PAD).sum(-1) == count)


def to_right_aligned(digits: Tensor) -> Tensor:
    """Left-aligned numbers [..., D] with the least significant digit last and leading zeros, as arithmetic needs them;
    of a malformed row, the part before its first placeholder."""
    width = digits.shape[-1]
    source = torch.arange(width, device=digits.device) - (width - length(digits)).unsqueeze(-1)  # [..., D]
    return torch.where(source >= 0, digits.gather(-1, source.clamp(min=0)), 0)


def leading_zeros(right: Tensor) -> Tensor:
    """[..., 1] int64: how many zeros right-aligned digits [..., n] begin with; of zero its last one does not count."""
    return ((right != 0).cumsum(-1) == 0).sum(-1, keepdim=True).clamp(max=right.shape[-1] - 1)


def shifted_left(right: Tensor, by: Tensor, filler: int) -> Tensor:
    """Digits [..., n] without the first `by` [..., 1], and with as many of a `filler` at their end."""
    size = right.shape[-1]
    source = torch.arange(size, device=right.device) + by
    return torch.where(source < size, right.gather(-1, source.clamp(max=size - 1)), filler)


def canonical(digits: Tensor, sign: Tensor, scale: Tensor) -> list[str]:
    """The texts of results as of `spelled`, in row-major order: `digits` [..., D], `sign` [...] and `scale` [...]."""
    rows = digits.reshape(-1, digits.shape[-1]).tolist()
    return [spelled(*one) for one in zip(rows, sign.flatten().tolist(), scale.flatten().tolist(), strict=True)]
