"""What the model should write where a number has ended: what the base would, if it were not a digit.

In: the base's logits behind a whole result, and behind a point or comma that follows it. Out: the distribution that
the writing is to bring about there. The text that happens to stand behind a number in a training row is a poor target:
a writing that learns it by heart pushes the model to its words elsewhere, and sometimes to another digit.

Shapes: N places, V tokens of the vocabulary.
Try it: `pytest tests/trainer/test_number_ends.py`
"""

from __future__ import annotations

import torch

from ..numbers.token_table import TokenTable


__all__ = ["digit_tokens", "divergence", "without_digits"]

IMPOSSIBLE = -1e4  # a logit whose probability is zero, and finite, as a divergence multiplies it with that zero


def digit_tokens(table: TokenTable, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which tokens would continue a number, and which of these would change its value behind a point.

    Args:
        table: of the adapter.
        size: V.

    Returns:
        [V] bool each. Behind a point zeros change nothing: 7 is 7.00. A point alone may end a sentence.
    """
    texts = {token: text for token, text in table.digits.items() if token not in table.spaced}
    texts |= {token: text for token, text in table.points.items() if text[0] != " " and text != "."}
    digits, changing = torch.zeros(2, size, dtype=torch.bool)
    digits[list(texts)] = True
    changing[[token for token, text in texts.items() if text.strip("0.")]] = True
    return digits, changing


def without_digits(
    logits: torch.Tensor, zeros: torch.Tensor, tokens: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """The base's distribution at each place, given that no digit follows, or none but zeros.

    Args:
        logits: [N, V] of the base.
        zeros: [N] bool, whether zeros may follow, as behind 7.5.
        tokens: as `digit_tokens` gives them.

    Returns:
        Log-probabilities [N, V] float32.
    """
    digits, changing = (one.to(logits.device) for one in tokens)
    forbidden = torch.where(zeros[:, None], changing, digits)  # [N, V]
    return logits.float().masked_fill(forbidden, IMPOSSIBLE).log_softmax(-1)


def divergence(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Kullback-Leibler divergence of the model's distribution from the target, summed over N places.

    Args:
        logits: [N, V] of the model.
        target: [N, V], as `without_digits` gives it.
    """
    return (target.exp() * (target - logits.float().log_softmax(-1))).sum()
