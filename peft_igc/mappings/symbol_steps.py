"""Where rules and the network meet: what a text says in symbols decides over what the network reads.

In: the text, the reading at each anchor, and the result that the network alone would give. Out: the result that is
written, and for each step the reason of a refusal with the token that caused it. Token interface only.

* An expression in symbols that ends at the anchor, or that is the only numeric thing of its context: the rules of
  `expressions` decide operands and operators. If it has two integers, as in the rows of training, the network decides
  whether arithmetic is asked; of others the network was taught to be silent, so the rules decide alone.
* No expression in symbols: the network points at two numbers and names the operation. Signs come from the text, and
  a further number refuses, unless it stands in a sentence before both of the same sentence.
* Anything numeric that the rules do not understand refuses.

Nothing here is learned. Try it: `pytest tests/mappings/test_symbol_steps.py`

Shapes: B rows, n tokens at hand, A anchors per row, N steps (B * A), W places of a reading, K operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..expressions.grammar import Evaluated, evaluate
from ..expressions.items import Item
from ..expressions.literals import literals
from ..expressions.reading import ExpressionReading, read_expressions
from ..expressions.reasons import Reason
from ..numbers.calculator import Result, Status
from ..numbers.digits import PAD
from ..numbers.number_runs import find_runs, sentences
from .readings import Choice, Pointing, two_places


_OPERATORS = {"+": Item.PLUS, "-": Item.MINUS, "*": Item.TIMES, "/": Item.DIVIDE}


class Ruling(NamedTuple):
    """What the rules say of N steps.

    Attributes:
        expression: the expression in symbols of each step.
        value: its value.
        ruled: [N] bool, the rules decide operands and operators.
        reason: [N] int64, a `Reason`: why there is no result; `NO_EXPRESSION` where the network decides.
        culprit: [N] int64, index of the token that caused the refusal, -1 for none.
    """

    expression: ExpressionReading
    value: Evaluated
    ruled: torch.Tensor
    reason: torch.Tensor
    culprit: torch.Tensor


class Context(NamedTuple):
    """The text of B * A steps.

    Attributes:
        ids: [N, n] int64.
        valid: [N, n] bool, False for padding.
        anchor, since: [N] int64, indices of the last and the first token that each step reads.
    """

    ids: torch.Tensor
    valid: torch.Tensor
    anchor: torch.Tensor
    since: torch.Tensor

    @classmethod
    def of(cls, ids: torch.Tensor, valid: torch.Tensor, anchors: torch.Tensor, since: torch.Tensor) -> Context:
        """From ids and valid [B, n], anchors and since [B, A]; an anchor of -1 reads nothing."""
        ids, valid = (x.repeat_interleave(anchors.shape[1], 0) for x in (ids, valid))
        return cls(ids, valid, anchors.flatten(), since.flatten())

    @property
    def read(self) -> torch.Tensor:
        """[N, n] bool, tokens that the step reads."""
        place = torch.arange(self.ids.shape[1], device=self.ids.device)
        return self.valid & (place <= self.anchor[:, None]) & (place >= self.since[:, None])


def signed_by_rule(reader: Any, context: Context, reading: Pointing, choice: Choice) -> tuple[Choice, torch.Tensor]:
    """The choice with the signs that the text has, and where a further number refuses it.

    Args:
        reader: the input mapping.
        context: the text.
        reading: the distributions.
        choice: `reading.choose()`.

    Returns:
        The choice, and [B, A] int64: index of a further number that nothing excuses, or of an operand whose sign is
        not known; -1 for none.
    """
    read = context.read
    found = literals(reader.symbols, context.ids, read, 1)
    places = two_places(reading.scores)[0]  # [B, A, 2]
    chosen = reading.positions.gather(2, places).flatten(0, 1).clamp(min=0)  # [N, 2]
    sign = found.sign.gather(1, chosen).view(choice.signs.shape)
    # A zero has no sign.
    zero = (choice.digits[..., 0] == 0) & (choice.digits[..., 1] == PAD)
    sign = torch.where(zero, 0, sign)
    unread = ~found.literal.gather(1, chosen)  # [N, 2]
    other = (found.literal | found.strange) & ~_at(chosen, read.shape[1])
    runs = find_runs(reader.tokens, context.ids, read, 1)
    sentence = sentences(reader.tokens, context.ids, read, runs)  # [N, n]
    theirs = sentence.gather(1, chosen)
    together = theirs[:, :1] == theirs[:, 1:]
    excused = together & (sentence < theirs[:, :1])
    refusing = other & ~excused
    place = torch.arange(read.shape[1], device=read.device)
    culprit = torch.where(refusing, place, read.shape[1]).amin(1)
    culprit = torch.where(refusing.any(1), culprit, -1)
    culprit = torch.where(unread.any(1), chosen.amin(1), culprit)
    return choice._replace(signs=sign), culprit.view(choice.operator.shape)


def _at(chosen: torch.Tensor, length: int) -> torch.Tensor:
    """[N, length] bool, True at the chosen [N, 2] tokens."""
    place = torch.arange(length, device=chosen.device)
    return (place == chosen[:, :1]) | (place == chosen[:, 1:])


def ruling(config: Any, reader: Any, context: Context) -> Ruling:
    """Reads and evaluates the expressions in symbols of N steps; `config` is an `IGCConfig`."""
    expression = read_expressions(
        reader.symbols,
        *context,
        num_digits=config.num_digits,
        max_operands=config.max_operands,
    )
    value = evaluate(
        expression.items,
        max_operands=config.max_operands,
        result_digits=config.result_digits,
        division=config.division,
    )
    reason, culprit = expression.reason, expression.culprit
    missing = [int(item) for symbol, item in _OPERATORS.items() if symbol not in config.operations]
    for item in missing:
        lacks = (expression.items.kind == item).any(1) & (reason == int(Reason.NONE))
        reason = torch.where(lacks, int(Reason.MALFORMED), reason)
    ruled = expression.found & (reason == int(Reason.NONE))
    reason = torch.where(ruled, value.reason, reason)
    # Decimals are calculated, but not written.
    reason = torch.where(ruled & (reason == int(Reason.NONE)) & (value.scale > 0), int(Reason.INEXACT), reason)
    return Ruling(expression, value, ruled, reason, culprit)


def _is_plain(said: Ruling) -> torch.Tensor:
    """[N] bool, the expression has two integers and one of the four operations, as in the rows of training."""
    items = said.expression.items
    other = torch.zeros_like(items.kind, dtype=torch.bool)
    for item in (Item.POWER, Item.PERCENT, Item.OF):
        other |= items.kind == int(item)
    return (said.value.operands == 2) & (items.scale.amax(1) == 0) & ~other.any(1)


def decided(
    config: Any, said: Ruling, reading: Pointing, result: Result, legible: torch.Tensor, further: torch.Tensor
) -> tuple[Result, Ruling]:
    """The result that is written, and the ruling with the reasons of all refusals.

    Args:
        config: the adapter's `IGCConfig`.
        said: the ruling on N steps.
        reading: the distributions of [B, A] steps.
        result: [B, A, ..] what the network reads, with signs by rule.
        legible: [B, A] bool, False where there is no anchor, or where the text before it is not known.
        further: [B, A] int64, the second return value of `signed_by_rule`.
    """
    shape = legible.shape
    chances = reading.operator.softmax(-1)  # [B, A, K + 1]
    asked = chances.argmax(-1) < len(config.operations)
    asked &= 1 - chances[..., -1] >= config.confidence
    asked = (asked | ~_is_plain(said).view(shape)) & legible
    ruled, reason, culprit = (x.view(shape) for x in (said.ruled, said.reason, said.culprit))
    status = torch.where(reason == int(Reason.INEXACT), int(Status.INEXACT), said.value.status.view(shape))
    by_rule = torch.where(asked, status, int(Status.NONE))
    learned = ~ruled & (reason == int(Reason.NO_EXPRESSION))
    refused = learned & (result.status == int(Status.OK)) & (further >= 0)
    status = torch.where(learned & ~refused, result.status, int(Status.NONE))
    status = torch.where(ruled, by_rule, status)
    ok = status == int(Status.OK)
    digits = torch.where(ruled[..., None], said.value.digits.view(*shape, -1), result.digits)
    sign = torch.where(ruled, said.value.sign.view(shape), result.sign)
    reason = torch.where(refused, int(Reason.OTHER_NUMBER), reason)
    culprit = torch.where(refused, further, culprit)
    said = said._replace(reason=reason.flatten(), culprit=culprit.flatten())
    return Result(torch.where(ok[..., None], digits, PAD), torch.where(ok, sign, 0), status), said
