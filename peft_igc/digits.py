"""The number format: integers as left-aligned digit tensors.

A number is `width` digit classes, most significant digit first, `PAD` behind the last digit, and a sign of its own
(0 plus, 1 minus): `-12` in width 4 is `[1, 2, PAD, PAD]` with sign 1. Zero is `[0, PAD, ...]` with sign 0. It is
left-aligned because tokenizers split numbers from the left (paper, appendix on tokenization): the first digits always
stand in the same slots, whatever the length. Text goes in and comes out through `encode` and `decode` (host code); the
tensor helpers below them run on any device without a loop over rows or a host synchronisation. No arithmetic here: see
`calculator`. Try it: `pytest tests/test_digits.py`.

Shapes: N numbers, W width (digits per number); `...` is any number of leading dimensions.
"""

import re
from collections.abc import Sequence

import torch
from torch import Tensor


__all__ = [
    "NUM_CLASSES",
    "PAD",
    "decode",
    "encode",
    "is_number",
    "length",
    "parse_number",
    "read_right_aligned",
    "to_left_aligned",
    "to_right_aligned",
]

PAD = 10  # the placeholder's class: "no digit here"
NUM_CLASSES = 11  # ten digits and the placeholder

_INTEGER = re.compile(r"(-?)([0-9]+)")  # not \d: it would match digits of other scripts


def parse_number(text: str) -> tuple[int, str]:
    """Splits an integer's text into its sign and its canonical digits.

    Args:
        text: ASCII digits with at most a leading `-`. Leading zeros are dropped: `"-007"` gives `(1, "7")`.

    Returns:
        The sign (0 plus, 1 minus; zero is plus) and the digits without leading zeros.

    Raises:
        TypeError: `text` is not a string.
        ValueError: `text` is anything but an integer in that form (spaces, `+`, `.`, empty, other scripts).
    """
    if not isinstance(text, str):
        raise TypeError(
            f"A number must be given as a string, got {text!r} of type `{type(text).__name__}`. Pass `str(number)`."
        )
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is no integer: write the digits 0-9 with at most a leading `-`, without spaces, `+`, "
            "separators or a decimal point."
        )
    digits = match[2].lstrip("0") or "0"
    return int(match[1] == "-" and digits != "0"), digits


def encode(texts: Sequence[str], width: int, device: torch.device | str | None = None) -> tuple[Tensor, Tensor]:
    """Turns integers written as text into digit tensors.

    Args:
        texts: N integers, each as `parse_number` takes it.
        width: Digits per number, at least 1.
        device: Where the tensors are made; `None` is the current default device.

    Returns:
        `digits` [N, width] int64 in 0..9 or `PAD`, left-aligned, and `signs` [N] int64 in 0..1.

    Raises:
        TypeError: `texts` is one string instead of a sequence, or holds something that is no string.
        ValueError: A text is no integer or has more than `width` digits, or `width` is below 1.
    """
    if isinstance(texts, str):
        raise TypeError(f"`texts` must be a sequence of strings, got the single string {texts!r}. Pass a list.")
    if width < 1:
        raise ValueError(f"`width={width}` holds no digit: it must be at least 1.")
    rows, signs = [], []
    for text in texts:
        sign, digits = parse_number(text)
        if len(digits) > width:
            raise ValueError(
                f"{text!r} has {len(digits)} digits and does not fit into `width={width}`. Use a larger width."
            )
        rows.append([int(digit) for digit in digits] + [PAD] * (width - len(digits)))
        signs.append(sign)
    return (
        torch.tensor(rows, dtype=torch.int64, device=device).reshape(-1, width),  # keeps [0, width] when N is 0
        torch.tensor(signs, dtype=torch.int64, device=device),
    )


def decode(digits: Tensor, signs: Tensor) -> list[str]:
    """Turns digit tensors back into integers written as text; the inverse of `encode`.

    Args:
        digits: [..., W] integer, left-aligned, 0..9 or `PAD`. Leading zeros are allowed and dropped.
        signs: [...] integer, 0 or 1.

    Returns:
        One canonical text per number, in row-major order.

    Raises:
        ValueError: The shapes do not belong together, or a number is malformed: no digit at all, a digit behind a
            placeholder, a class outside 0..10, a sign other than 0 and 1.
    """
    if signs.shape != digits.shape[:-1]:
        raise ValueError(
            f"`signs` must have the shape of `digits` without its last dimension, got {tuple(signs.shape)} for "
            f"digits of shape {tuple(digits.shape)}."
        )
    rows: list[list[int]] = digits.reshape(-1, digits.shape[-1]).tolist()
    flat_signs: list[int] = signs.reshape(-1).tolist()
    return [_row_to_text(row, sign, index) for index, (row, sign) in enumerate(zip(rows, flat_signs, strict=True))]


def _row_to_text(row: list[int], sign: int, index: int) -> str:
    """The canonical text of one number; `index` only serves the messages."""
    count = row.index(PAD) if PAD in row else len(row)
    if any(not 0 <= digit <= PAD for digit in row):
        raise ValueError(f"Number {index} is malformed: {row} holds a class outside 0..{PAD}.")
    if count == 0:
        raise ValueError(f"Number {index} is malformed: {row} starts with the placeholder {PAD} and has no digit.")
    if any(digit != PAD for digit in row[count:]):
        raise ValueError(f"Number {index} is malformed: {row} has a digit behind the placeholder {PAD}.")
    if sign not in (0, 1):
        raise ValueError(f"Number {index} is malformed: its sign is {sign}, expected 0 (plus) or 1 (minus).")
    text = "".join(map(str, row[:count])).lstrip("0") or "0"
    return "-" + text if sign == 1 and text != "0" else text


def length(digits: Tensor) -> Tensor:
    """Counts the digits before the first placeholder.

    Args:
        digits: [..., W] integer, left-aligned.

    Returns:
        [...] int64 in 0..W.
    """
    return (digits != PAD).to(torch.int64).cumprod(-1).sum(-1)


def is_number(digits: Tensor) -> Tensor:
    """Tells which rows are well-formed: a digit first, and behind the first placeholder nothing but placeholders.

    Args:
        digits: [..., W] integer, any values.

    Returns:
        [...] bool. Leading zeros are well-formed; a class outside 0..10 is not.
    """
    is_digit = (digits >= 0) & (digits < PAD)  # [..., W]
    is_known = is_digit | (digits == PAD)
    count = length(digits)
    return is_known.all(-1) & (count > 0) & (is_digit.sum(-1) == count)


def to_right_aligned(digits: Tensor) -> Tensor:
    """Moves numbers to the right and fills up with zeros: what arithmetic needs.

    Args:
        digits: [..., W] integer, left-aligned, well-formed (of a malformed row only the part before its first
            placeholder is used).

    Returns:
        [..., W] of the same dtype, 0..9, least significant digit last.
    """
    width = digits.shape[-1]
    source = torch.arange(width, device=digits.device) - (width - length(digits)).unsqueeze(-1)  # [..., W]
    return torch.where(source >= 0, digits.gather(-1, source.clamp(min=0)), 0)


def to_left_aligned(right: Tensor) -> Tensor:
    """Moves zero-padded numbers back to the left: leading zeros go, placeholders follow the last digit.

    Args:
        right: [..., W] integer in 0..9, least significant digit last.

    Returns:
        [..., W] of the same dtype, left-aligned; zero becomes `[0, PAD, ...]`.
    """
    width = right.shape[-1]
    leading_zeros = ((right != 0).cumsum(-1) == 0).sum(-1).clamp(max=width - 1)  # [...]; zero keeps one digit
    source = torch.arange(width, device=right.device) + leading_zeros.unsqueeze(-1)  # [..., W]
    return torch.where(source < width, right.gather(-1, source.clamp(max=width - 1)), PAD)


def read_right_aligned(right: Tensor) -> Tensor:
    """Moves numbers back to the left that were read digit by digit, so that any class may stand anywhere.

    A placeholder counts as a zero in front of all digits. Anywhere else the number is malformed: what stands behind a
    place without a digit has no known magnitude.

    Args:
        right: [..., W] integer in 0..9 or `PAD`, least significant digit last.

    Returns:
        [..., W] of the same dtype, left-aligned, without leading zeros; malformed (all `PAD`) where `right` is.
    """
    left = to_left_aligned(torch.where(right == PAD, 0, right))
    return torch.where(is_number(right.flip(-1)).unsqueeze(-1), left, PAD)
