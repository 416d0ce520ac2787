"""The distributions that are read at an anchor, the choice that is made from them, and their loss.

In: logits of an input mapping: `Reading` (hidden interface) has a distribution for each digit slot, `Pointing` (token
interface) one over the numbers of the text. Out: a `Choice` of two operands and an operator for the calculator, and
the auxiliary loss of the reading. Operations of many numbers have a mark per number instead of two pointers. No
weights and no hidden states here. Both read D + 1 digits of an operand: a digit in the last place marks an operand
that is too long. The code is tagged with the equations of `docs/how_it_works.md`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..numbers.digits import PAD, POINT


IGNORE = -100  # label of an anchor that is not supervised
SCALE = 1 << 24  # of a probability as an integer
_LEAST_PAIRS = 1e-6  # of the probability of two places; without two numbers there is none
NEVER = -1e4  # logit of an impossible class; finite, so that a row without possible classes has no NaN


class Mark(enum.IntEnum):
    """What a number is to an operation of many numbers."""

    NO_OPERAND = 0
    OPERAND = 1
    NEGATED = 2


class Chances(NamedTuple):
    """How sure the parts of a choice are."""

    asked: Tensor  # [B, A] float32 probability that a calculation is asked for
    operation: Tensor  # [B, A] float32 that its operation is the chosen one
    # [B, A] float32 that it is of the chosen operands; of two, among all pairs of two places
    operands: Tensor
    chosen: Tensor  # [B, A] int64, the operation


class Choice(NamedTuple):
    """The operands and the operator of each step, the input of the calculator."""

    digits: Tensor  # [B, A, 2, D + 1] int64 digit classes, left-aligned
    signs: Tensor  # [B, A, 2] int64, 1 is minus
    operator: Tensor  # [B, A] int64 in 0..K, K for "no arithmetic"
    operator_chance: Tensor  # [B, A] float32 probability of the operator
    # [B, A, 2, D + 2] float32 probabilities of the digits and the sign of each operand (hidden interface), or [B, A,
    # 2, 1] of each operand as a whole (token interface)
    operand_chances: Tensor
    probability: Tensor  # [B, A] float32 of operator and operands together


class Targets(NamedTuple):
    """The correct operands, operator and result of each anchor (paper, "Ground Truth Data"), all int64."""

    operands: Tensor  # [B, A, S, D + 1] digit classes, left-aligned; all PAD for no operand
    signs: Tensor  # [B, A, S], 1 is minus
    # [B, A] in 0..K + 1, K for "no arithmetic", K + 1 for a calculation whose operands and operators rules read,
    # `IGNORE` where the anchor is not supervised
    operator: Tensor
    result: Tensor  # [B, A, R] digit classes without the point, left-aligned
    result_sign: Tensor  # [B, A]
    result_status: Tensor  # [B, A], a `calculator.Status`
    result_scale: Tensor  # [B, A], number of digits of the result after the point


class Reading(NamedTuple):
    """Distributions over the digits and signs of the operands and over the operators, as float32 logits."""

    digits: Tensor  # [B, A, 2, D + 1, C], most significant digit first; class 10 is the placeholder
    signs: Tensor  # [B, A, 2, 2], class 1 is minus
    operator: Tensor  # [B, A, K + 1], class K is "no arithmetic"

    def choose(self) -> Choice:
        """The most probable class of each slot."""
        digits, signs, operator = (logits.softmax(-1).max(-1) for logits in self)  # Eq. 8
        chances = torch.cat([digits.values, signs.values[..., None]], -1)  # [B, A, 2, D + 2]
        probability = operator.values * chances.flatten(2).prod(-1)
        return Choice(digits.indices, signs.indices, operator.indices, operator.values, chances, probability)

    def cooled(self, temperature: float) -> Reading:
        """The distributions at a temperature; above 1 they are flatter, and the most probable classes stay."""
        return self if temperature == 1 else Reading(*(logits / temperature for logits in self))

    def operand_loss(self, targets: Targets) -> Tensor:
        """[B, A]: the mean cross-entropy over the digits of an operand plus that of its sign, summed over operands."""
        loss = _cross_entropy(self.digits, targets.operands).mean(-1).sum(-1)
        return loss + _cross_entropy(self.signs, targets.signs).sum(-1)

    def operands_right(self, targets: Targets, choice: Choice) -> Tensor:
        """[B, A] bool: whether both operands are chosen."""
        return _both_right(targets, choice).all(-1)


class Pointing(NamedTuple):
    """Distributions over the numbers of the text as operands, and over the operators."""

    # [B, A, 2, W, 2] float32 log-probabilities that an operand is the number at a place, with a sign
    scores: Tensor
    operator: Tensor  # [B, A, K + 1] float32 logits; class K is "no arithmetic"
    # [B, A, W, 3] float32 log-probabilities of the `Mark`s; a place without a number is no operand. [B, A, 0, 3] if no
    # operation needs them.
    marks: Tensor
    # [B, A, W] int64, the row of `numbers` that the number at each place has; the last one if there is none
    values: Tensor
    positions: Tensor  # [B, A, W] int64 position of each place in the text, -1 for none
    # `places`, `signs`: [B, A, 2] int64, the most probable two places, different ones, and their signs
    places: Tensor
    signs: Tensor
    # [M + 1, D + 1] int64 digit classes of the numbers of all texts, each once; the last row is all PAD. A point has
    # the class `POINT`.
    numbers: Tensor
    # of `operations.takes` for each of the K operations: how many pointers it has, 0 if it has marks
    takes: tuple[int, ...]

    @property
    def digits(self) -> Tensor:
        """[B, A, W, D + 1] int64 digit classes of the number at each place, all PAD if there is none."""
        return self.numbers[self.values]

    def choose(self) -> Choice:
        """The most probable two numbers of the text; "no arithmetic" if it has fewer."""
        values = self.values.gather(-1, self.places)  # [B, A, 2]
        there = values < len(self.numbers) - 1
        found = there.all(-1) & (self.places[..., 0] != self.places[..., 1])
        operator = self.operator.softmax(-1).max(-1)
        found = torch.where(self._taken(operator.indices) == 2, found, there[..., 0])
        none = self.operator.shape[-1] - 1
        indices, operands = torch.where(found, operator.indices, none), self._masses(values).sum(-1)
        sure = self.chances()
        chances = operator.values, operands[..., None], sure.asked * sure.operation * sure.operands
        return Choice(self.numbers[values], self.signs, indices, *chances)  # Eq. 8

    def chances(self) -> Chances:
        """How sure the choice is."""
        classes = self.operator.softmax(-1)[..., :-1]
        asked, operation = classes.sum(-1), classes.max(-1)
        masses = self._masses(self.values.gather(-1, self.places))  # [B, A, 2, W]
        pair, same = masses.sum(-1), masses.prod(-2).sum(-1)  # `same`: both at one place, if equal
        twice = self.scores.logsumexp(-1).sum(-2).exp().sum(-1)  # both at any one place
        operands = (pair.prod(-1) - same) / (1 + _LEAST_PAIRS - twice)
        if set(self.takes) != {2}:
            count = self._taken(operation.indices)
            # The least sure one: the marks of a list are right or wrong together.
            marked = self.marks.max(-1).values.amin(-1).exp() if self.has_marks else operands
            operands = torch.where(count == 2, operands, torch.where(count == 1, pair[..., 0], marked))
        return Chances(asked, operation.values / asked, operands, operation.indices)

    @property
    def has_marks(self) -> bool:
        """Whether an operation takes any number of them."""
        return self.marks.shape[-2] > 0

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Pointing:
        """The steps, each of whose tensors is changed by a function of the first dimensions."""
        changed = [function(tensor) for tensor in self[:_OF_STEPS]]  # type: ignore[arg-type]
        return Pointing._make([*changed, *self[_OF_STEPS:]])

    def summary(self) -> Tensor:
        """[..., 8] int64, all that decides a step: the operation, `chances` in units of 1 / `SCALE`, the positions of
        the operands and their signs. With marks [..., 8 + W]: position and `Mark` of each place in one integer, -1
        without a place."""
        *chances, operation = self.chances()
        packed = (torch.stack(chances, -1) * SCALE).long()
        positions = self.positions.gather(-1, self.places)
        found = torch.cat([operation[..., None], packed, positions, self.signs], -1)
        if not self.has_marks:
            return found
        marks = self.positions * len(Mark) + self.marks.argmax(-1)
        return torch.cat([found, torch.where(self.positions < 0, -1, marks)], -1)

    def cooled(self, temperature: float) -> Pointing:
        """The distributions at a temperature; above 1 they are flatter, and the most probable classes stay."""
        if temperature == 1:
            return self
        scores = (self.scores / temperature).flatten(-2).log_softmax(-1).view_as(self.scores)
        marks = (self.marks / temperature).log_softmax(-1) if self.has_marks else self.marks
        return self._replace(scores=scores, operator=self.operator / temperature, marks=marks)

    def operand_loss(self, targets: Targets) -> Tensor:
        """[B, A]: the negative log-probability of all places with the value of an operand, summed over operands. Of
        an operation of many numbers that of the marks, summed over places, and of the first and the last operand,
        between which the second half of the encoder then knows to be.

        0 for an operand that is not in the text; the collator refuses such rows.
        """
        count = self._taken(targets.operator)
        last = (targets.operands[..., 0] != PAD).sum(-1) - 1  # [B, A]
        pair = torch.stack([torch.zeros_like(last), torch.where(count == 0, last, 1).clamp(min=0)], -1)  # [B, A, 2]
        operands = targets.operands.gather(2, pair[..., None].expand(-1, -1, -1, targets.operands.shape[-1]))
        equal = (self.digits[:, :, None] == operands[..., None, :]).all(-1)  # [B, A, 2, W]
        equal &= (self.values < len(self.numbers) - 1)[:, :, None]
        loss = -self._with_signs(targets.signs.gather(2, pair)).masked_fill(~equal, NEVER).logsumexp(-1)  # [B, A, 2]
        loss = torch.where(equal.any(-1), loss, 0)
        loss = torch.where(count == 1, loss[..., 0], loss.sum(-1))
        if not self.has_marks:
            return loss
        return loss + torch.where(count == 0, _cross_entropy(self.marks, self._due_marks(targets)).sum(-1), 0)

    def operands_right(self, targets: Targets, choice: Choice) -> Tensor:
        """[B, A] bool: whether all operands of an operation are chosen."""
        count = self._taken(targets.operator)
        right = (_both_right(targets, choice) | (torch.arange(2, device=count.device) >= count[..., None])).all(-1)
        if not self.has_marks:
            return right
        marks = self._due_marks(targets)
        return torch.where(count == 0, ((self.marks.argmax(-1) == marks) | (marks == IGNORE)).all(-1), right)

    def _taken(self, operation: Tensor) -> Tensor:
        """`takes` of operations [...], 2 where an index is none of them."""
        return torch.tensor((*self.takes, 2), device=operation.device)[operation.clamp(-1, len(self.takes))]

    def _due_marks(self, targets: Targets) -> Tensor:
        """[B, A, W] int64: the correct marks. `IGNORE` for a number that may be an operand or another number of its
        value, as the operands can be found in the order of the text in several ways."""
        is_number = self.values < len(self.numbers) - 1
        # Numbers as one integer each; only numbers of more than 17 digits could be mistaken, once in 2^64.
        powers = torch.full_like(self.numbers[0], POINT + 1).cumprod(0)
        of_places, of_targets = (self.numbers * powers).sum(-1)[self.values], (targets.operands * powers).sum(-1)
        there = targets.operands[..., 0] != PAD  # [B, A, S]
        equal = (of_places[:, :, None] == of_targets[..., None]) & is_number[:, :, None]  # [B, A, S, W]
        first, width = _in_order(equal, there), equal.shape[-1]
        last = width - 1 - _in_order(equal.flip(2, 3), there.flip(2)).flip(2)  # [B, A, S]
        place = torch.arange(width, device=equal.device)
        inside = equal & (place >= first[..., None]) & (place <= last[..., None]) & there[..., None]
        mark = torch.where(first == last, Mark.OPERAND + targets.signs, IGNORE)  # [B, A, S]
        due = torch.zeros_like(self.values)
        for slot in range(equal.shape[2]):
            due = torch.where(inside[:, :, slot], mark[:, :, slot, None], due)
        return due

    def _masses(self, values: Tensor) -> Tensor:
        """[B, A, 2, W]: the probabilities that the operands `values` [B, A, 2] are at a place that has their value."""
        return self._with_signs(self.signs).exp() * (self.values.unsqueeze(-2) == values[..., None])

    def _with_signs(self, signs: Tensor) -> Tensor:
        """[B, A, 2, W]: the scores of each operand's places with its sign, `signs` [B, A, 2]."""
        index = signs[..., None, None].expand(*self.scores.shape[:-1], 1)
        return self.scores.gather(-1, index).squeeze(-1)


_OF_STEPS = Pointing._fields.index("numbers")  # the fields before it have the dimensions of steps


def reading_loss(reading: Reading | Pointing, targets: Targets, anchors: Tensor, choice: Choice) -> tuple[Tensor, ...]:
    """The auxiliary loss of the reading (paper, "Modified Training Process"), of which `choice` is chosen.

    An anchor [B, A] of -1 is not supervised.

    Returns:
        loss [B, A] float32, 0 where not supervised; supervised [B, A] bool; correct [B, A] bool, True where operator,
        operands and signs are all correct. Operands count only where the target has arithmetic. Where rules read
        them, the loss is that of one question, whether any operation is asked for, and correct is its answer.
    """
    num_operations = reading.operator.shape[-1] - 1
    supervised = (targets.operator >= 0) & (anchors >= 0)
    arithmetic = supervised & (targets.operator < num_operations)
    by_rule = supervised & (targets.operator > num_operations)
    loss = torch.where(supervised, _cross_entropy(reading.operator, targets.operator.clamp(0, num_operations)), 0)
    asked = reading.operator.log_softmax(-1)[..., :-1].logsumexp(-1)  # [B, A], log-probability of any operation
    loss = torch.where(by_rule, -asked, loss)
    loss = loss + torch.where(arithmetic, reading.operand_loss(targets), 0)  # Eq. 9
    right = reading.operands_right(targets, choice)
    correct = (choice.operator == targets.operator) & (right | ~arithmetic) & supervised
    # Not `choice.operator`, which is "no arithmetic" where the text has no two integers.
    correct = torch.where(by_rule, reading.operator.argmax(-1) < num_operations, correct)
    return loss, supervised, correct


def concatenate(parts: list[Pointing]) -> Pointing:
    """Concatenates parts [n, ..] of the same texts, with different numbers of places W, along the first dimension.

    The last place of each part is its anchor, so empty places are added in front.
    """
    if len(parts) == 1:
        return parts[0]
    width = max(part.scores.shape[-2] for part in parts)
    filled = []
    for part in parts:
        more = width - part.scores.shape[-2]
        marks = F.pad(part.marks, (0, 0, more * part.has_marks, 0), value=NEVER)
        marks[:, : -part.marks.shape[1], Mark.NO_OPERAND] = 0
        filled.append(
            part._replace(
                scores=F.pad(part.scores, (0, 0, more, 0), value=NEVER),
                marks=marks,
                values=F.pad(part.values, (more, 0), value=len(part.numbers) - 1),
                positions=F.pad(part.positions, (more, 0), value=-1),
                places=part.places + more,
            )
        )
    joined = (torch.cat(tensors) for tensors in zip(*(part[:_OF_STEPS] for part in filled), strict=True))
    return Pointing._make([*joined, *parts[0][_OF_STEPS:]])


def _in_order(equal: Tensor, there: Tensor) -> Tensor:
    """[B, A, S]: the first place [B, A, S, W] of each operand after that of the operand before it, W or more if there
    is none; `there` [B, A, S] is False where no operand is."""
    width = equal.shape[-1]
    place = torch.arange(width, device=equal.device)
    last, found = torch.full_like(there[..., 0], -1, dtype=torch.int64), []
    for slot in range(equal.shape[2]):
        open_places = equal[:, :, slot] & (place > last[..., None])
        found.append(torch.where(open_places, place, 2 * width).amin(-1))
        last = torch.where(there[:, :, slot], found[-1], last)
    return torch.stack(found, -1)


def _both_right(targets: Targets, choice: Choice) -> Tensor:
    """[B, A, 2] bool: whether each of the two operands has the digits and the sign of its target."""
    right = (choice.digits == targets.operands[:, :, :2]).all(-1)
    return right & (choice.signs == targets.signs[:, :, :2])


def two_places(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable place and sign of the first operand, then of the second one at another place: both [..., 2]
    int64. `scores` [..., 2, W, 2] are log-probabilities of place and sign."""
    first = scores[..., 0, :, :].flatten(-2).argmax(-1)  # place and sign in one index
    place = torch.arange(scores.shape[-2], device=scores.device)
    taken = (place == (first // 2)[..., None])[..., None]  # [..., W, 1]
    second = scores[..., 1, :, :].masked_fill(taken, float("-inf")).flatten(-2).argmax(-1)
    chosen = torch.stack([first, second], -1)
    return chosen // 2, chosen % 2


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), target.flatten(), reduction="none").view(target.shape)
