"""What was read at an anchor, as distributions; the choice that is made from them, and their loss.

`Reading` (the hidden interface) names what each digit slot holds; `Pointing` (the token interface) says which number
of the text is meant. Both choose the same thing: two operands and an operator (`Choice`), which the calculator takes.

Shapes: B rows, A anchors per row, D digits of an operand, C = 11 digit classes, K operations, W places that are read.
D + 1 digits of an operand are read: a digit in the last place means that the operand is too long.

Try it: `pytest tests/test_mappings.py`
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F

from .digits import PAD, read_right_aligned, to_right_aligned


IGNORE = -100  # the label that no loss counts
NEVER = -1e4  # the logit of what cannot be: finite, so that rows without any choice have no NaN


class Choice(NamedTuple):
    """What the calculator is given.

    Attributes:
        digits: [B, A, 2, D + 1] int64 digit classes.
        signs: [B, A, 2] int64, 1 is minus.
        operator: [B, A] int64 in 0..K, K for "no arithmetic".
        operator_chance: [B, A] float32 probability of the operator.
        operand_chances: [B, A, 2, P] float32 probabilities of what each operand is made of: its digit places and its
            sign in the hidden interface, the number as a whole in the token interface.
    """

    digits: torch.Tensor
    signs: torch.Tensor
    operator: torch.Tensor
    operator_chance: torch.Tensor
    operand_chances: torch.Tensor

    @property
    def probability(self) -> torch.Tensor:
        """[B, A] float32, of all of it together."""
        return self.operator_chance * self.operand_chances.flatten(2).prod(-1)


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

    def choose(self) -> Choice:
        """The most probable class of every slot."""
        digits, signs, operator = (logits.softmax(-1).max(-1) for logits in self)
        chances = torch.cat([digits.values, signs.values[..., None]], -1)  # [B, A, 2, D + 2]
        return Choice(digits.indices, signs.indices, operator.indices, operator.values, chances)

    def operand_loss(self, targets: Targets) -> torch.Tensor:
        """[B, A]: for each operand the mean cross-entropy over its digit slots, and that of its sign."""
        loss = _cross_entropy(self.digits, targets.operands).mean(-1).sum(-1)
        return loss + _cross_entropy(self.signs, targets.signs).sum(-1)

    def logits(self) -> tuple[torch.Tensor, ...]:
        """What gradients flow into."""
        return tuple(self)


class RightAlignedReading(Reading):
    """A `Reading` whose last digit place is the least significant one, with zeros in front (paper, "Tokenization").

    Choices and targets are left-aligned here as everywhere; they are converted on the way. An operand whose first of
    D + 1 places holds more than a zero is too long. One that `read_right_aligned` finds malformed is no number.
    """

    def choose(self) -> Choice:
        """The most probable class of every slot, the digits moved to the left."""
        choice = super().choose()
        return choice._replace(digits=read_right_aligned(choice.digits))

    def operand_loss(self, targets: Targets) -> torch.Tensor:
        """As for a `Reading`. Of an operand longer than D + 1 the first D + 1 digits are known, the first no zero."""
        return super().operand_loss(targets._replace(operands=to_right_aligned(targets.operands)))


class Pointing(NamedTuple):
    """Distributions over the numbers of the text, and over the operators.

    Attributes:
        scores: [B, A, 2, W, 2] float32 log-probabilities: the operand is the number at this place, with this sign.
        operator: [B, A, K + 1] float32 logits, class K is "no arithmetic".
        digits: [B, A, W, D + 1] int64 digit classes of the number that begins at this place, PAD where none does.
        positions: [B, A, W] int64 position in the text of each place, -1 for none.
        aside: [B, A] bool, a further number stands between the chosen two or in a sentence with one of them: whatever
            is asked, it is no calculation of two numbers.
    """

    scores: torch.Tensor
    operator: torch.Tensor
    digits: torch.Tensor
    positions: torch.Tensor
    aside: torch.Tensor

    def choose(self) -> Choice:
        """The most probable numbers, two different ones of the text; "no arithmetic" if these are not all there is."""
        places, signs = two_places(self.scores)  # [B, A, 2] both
        digits = _at_places(self.digits, places)  # [B, A, 2, D + 1]
        found = (digits[..., 0] != PAD).all(-1) & (places[..., 0] != places[..., 1]) & ~self.aside
        # Two places may hold the same number; which of them is meant makes no difference.
        scores = self.scores.gather(-1, signs[..., None, None].expand(*self.scores.shape[:-1], 1)).squeeze(-1)
        chances = (scores.exp() * self._spelling(digits)).sum(-1, keepdim=True)  # [B, A, 2, 1]
        operator = self.operator.softmax(-1).max(-1)
        none = self.operator.shape[-1] - 1
        return Choice(digits, signs, torch.where(found, operator.indices, none), operator.values, chances)

    def operand_loss(self, targets: Targets) -> torch.Tensor:
        """[B, A]: for each operand the negative log of the probability of all places that hold it.

        0 for an operand that stands nowhere: the collator refuses such rows.
        """
        holds = self._spelling(targets.operands)  # [B, A, 2, W]
        signs = targets.signs[..., None, None].expand(*self.scores.shape[:-1], 1)
        scores = self.scores.gather(-1, signs).squeeze(-1)
        loss = -scores.masked_fill(~holds, NEVER).logsumexp(-1)
        return torch.where(holds.any(-1), loss, 0).sum(-1)

    def logits(self) -> tuple[torch.Tensor, ...]:
        """What gradients flow into."""
        return self.scores, self.operator

    def _spelling(self, operands: torch.Tensor) -> torch.Tensor:
        """Which places hold one of the operands [B, A, 2, D + 1], as [B, A, 2, W] bool."""
        return (self.digits[:, :, None] == operands[:, :, :, None]).all(-1) & (self.digits[:, :, None, :, 0] != PAD)


def reading_loss(
    reading: Reading | Pointing, targets: Targets, anchors: torch.Tensor, choice: Choice | None = None
) -> tuple[torch.Tensor, ...]:
    """The auxiliary loss (paper, "Modified Training Process"): cross-entropy of what was read.

    An anchor's loss is the operator's cross-entropy plus, where there is arithmetic, that of the operands.

    Args:
        reading: distributions.
        targets: the right classes.
        anchors: [B, A] int64, -1 for none; those are not supervised.
        choice: `reading.choose()`, if it is at hand.

    Returns:
        loss [B, A] float32, 0 where not supervised; supervised [B, A] bool; correct [B, A] bool, True where operator,
        operands and signs were all read right.
    """
    num_operations = reading.operator.shape[-1] - 1
    choice = choice or reading.choose()
    supervised = (targets.operator >= 0) & (anchors >= 0)
    arithmetic = supervised & (targets.operator < num_operations)
    loss = torch.where(supervised, _cross_entropy(reading.operator, targets.operator.clamp(min=0)), 0)
    loss = loss + torch.where(arithmetic, reading.operand_loss(targets), 0)
    operands_right = (choice.digits == targets.operands).all(-1).all(-1) & (choice.signs == targets.signs).all(-1)
    correct = (choice.operator == targets.operator) & (operands_right | ~arithmetic) & supervised
    return loss, supervised, correct


def joined(parts: list[Pointing]) -> Pointing:
    """Parts with other numbers of places W one behind the other, along the first dimension.

    Places are counted from the end, so those that a part lacks are the first ones; no number stands there.
    """
    width = max(part.scores.shape[-2] for part in parts)
    filled = []
    for part in parts:
        more = width - part.scores.shape[-2]
        filled.append(
            Pointing(
                F.pad(part.scores, (0, 0, more, 0), value=NEVER),
                part.operator,
                F.pad(part.digits, (0, 0, more, 0), value=PAD),
                F.pad(part.positions, (more, 0), value=-1),
                part.aside,
            )
        )
    return Pointing(*(torch.cat(tensors) for tensors in zip(*filled, strict=True)))


def two_places(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The most probable place and sign of the first operand, and of the second among the other places.

    Args:
        scores: [..., 2, W, 2] log-probabilities of (place, sign).

    Returns:
        places and signs, both [..., 2] int64.
    """
    first = scores[..., 0, :, :].flatten(-2).argmax(-1)  # place and sign in one index
    place = torch.arange(scores.shape[-2], device=scores.device)
    taken = (place == (first // 2)[..., None])[..., None]  # [..., W, 1]
    second = scores[..., 1, :, :].masked_fill(taken, float("-inf")).flatten(-2).argmax(-1)
    chosen = torch.stack([first, second], -1)
    return chosen // 2, chosen % 2


def _cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Of logits [..., C] and classes [...], as [...]."""
    return F.cross_entropy(logits.flatten(0, -2), target.flatten(), reduction="none").view(target.shape)


def _at_places(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """`values` [B, A, W, ...] at `places` [B, A, P], as [B, A, P, ...]."""
    index = places.view(places.shape + (1,) * (values.dim() - 3))
    return values.gather(2, index.expand(*places.shape, *values.shape[3:]))
