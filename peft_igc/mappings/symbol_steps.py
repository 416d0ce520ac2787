"""Where rules and the network meet: what a text says in symbols decides over what the network reads.

In: the text, the reading at each anchor, and the result that the network alone would give. Out: the result that is
written, and for each step the reason of a refusal with the token that caused it. Token interface only.

* An expression in symbols that ends at the anchor, or that is the only numeric thing of its context: the rules of
  `text` decide operands and operators. If it stands among words, the network decides whether arithmetic is
  asked, unless it has more than two numbers and ends at the anchor.
* Symbols that may be a date, a range or a score: the rules and the network have to find the same.
* No expression in symbols: the network points at two numbers and names the operation. A sign in symbols comes from the
  text. Every further number of the turn refuses, unless the network is sure that it is unrelated, and so does what is
  numeric and not understood.

Nothing here is learned. Try it: `pytest tests/mappings/test_symbol_steps.py`

Shapes: B rows, n tokens at hand, A anchors per row, N steps (B * A), W places of a reading, K operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..numbers.calculator import Result, Status
from ..numbers.digits import PAD
from ..text.refusals import Reason
from .readings import Pointing
from .requests import Context, Surroundings
from .symbol_reading import FIELDS, Said, read_steps


__all__ = ["Ruling", "decided", "decided_by_rule", "ruling"]

SURE = 0.98  # of the network that a calculation is asked, where numbers beside a slash might be a rate


class Ruling(NamedTuple):
    """What the rules say of N steps.

    Attributes:
        said: what the text of each step says in symbols, None without an anchor; nothing in a compiled graph.
        ruled: [N] bool, the rules decide operands and operators.
        reaches: [N] bool, an expression ends at the anchor with an equals sign.
        plain: [N] bool, the expression has two integers and one of the four operations, as in the rows of training.
        clear: [N] bool, it is no date, score or size, whatever its signs.
        reason: [N] int64, a `Reason`: why there is no result; `NO_EXPRESSION` where the network decides.
        culprit: [N] int64, index of the token that caused the refusal, -1 for none.
        value: [N, ..] the value of the expression; its status is -1 where the rules do not decide and have no value
            that the network may agree with.
        stated: [N] bool, the text states one calculation, in symbols or in words, so that it is likelier that one is
            asked (`stated_odds`).
    """

    said: tuple[Said | None, ...]
    ruled: torch.Tensor
    reaches: torch.Tensor
    plain: torch.Tensor
    clear: torch.Tensor
    reason: torch.Tensor
    culprit: torch.Tensor
    value: Result
    stated: torch.Tensor

    def said_of(self, step: int) -> Said | None:
        """What the text of a step says; None without an anchor, and in a compiled graph."""
        return self.said[step] if self.said else None

    def culprit_of(self, step: int) -> tuple[int, int] | None:
        """The first and the last token of what caused the refusal of a step, None for nothing."""
        last, said = int(self.culprit[step]), self.said_of(step)
        if last < 0:
            return None
        return said.culprit if said is not None and said.culprit[1] == last else (last, last)


def ruling(config: Any, reader: Any, context: Context) -> Ruling:
    """Reads the expressions in symbols of N steps on the host; `config` is an `IGCConfig`."""
    said, packed = read_steps(config, reader.vocabulary, context.rows, context.anchor, context.since)
    ruled, reaches, plain, clear = packed[:, :4].bool().unbind(1)
    reason, culprit, status, sign, scale = packed[:, 4:FIELDS].unbind(1)
    value = Result(packed[:, FIELDS:], sign, status, scale)
    return Ruling(said, ruled, reaches, plain, clear, reason, culprit, value, ruled)


def _asked(config: Any, said: Ruling, reading: Pointing) -> torch.Tensor:
    """[B, A] bool, a calculation is asked: by the network, or as an expression that ends at the anchor and has another
    form than those of training."""
    chances = reading.operator.softmax(-1)  # [B, A, K + 1]
    asked = (chances.argmax(-1) < len(config.operations)) & (1 - chances[..., -1] >= config.confidence)
    return asked | (said.reaches & ~said.plain).view(asked.shape)


def _values(said: Ruling, shape: torch.Size) -> Result:
    """The values of the expressions of [B, A] steps."""
    return Result(*(x.view(*shape, *x.shape[1:]) for x in said.value))


def _emptied(result: Result) -> Result:
    """A result without digits, sign and scale where it is not `OK`."""
    ok = result.status == int(Status.OK)
    digits = torch.where(ok[..., None], result.digits, PAD)
    return Result(digits, torch.where(ok, result.sign, 0), result.status, torch.where(ok, result.scale, 0))


def decided_by_rule(config: Any, said: Ruling, reading: Pointing, legible: torch.Tensor) -> Result | None:
    """The results of `decided`, if every step has an expression that is asked, so that no words around it count.

    Costs a synchronization, and saves the search for them. None otherwise, and in a compiled graph. Arguments as of
    `decided`.
    """
    if torch.compiler.is_compiling():
        return None
    every = said.ruled.view(legible.shape) & legible & _asked(config, said, reading)
    return _emptied(_values(said, legible.shape)) if bool(every.all()) else None


def decided(
    config: Any, said: Ruling, reading: Pointing, result: Result, legible: torch.Tensor, around: Surroundings
) -> tuple[Result, Ruling]:
    """The result that is written, and the ruling with the reasons of all refusals.

    Args:
        config: the adapter's `IGCConfig`.
        said: the ruling on N steps.
        reading: the distributions of [B, A] steps.
        result: [B, A, ..] what the network reads, with signs by rule.
        legible: [B, A] bool, False where there is no anchor, or where the text before it is not known.
        around: the second return value of `signed_by_rule`.
    """
    shape = legible.shape
    value = _values(said, shape)
    ruled, reason, culprit = (x.view(shape) for x in (said.ruled, said.reason, said.culprit))
    # What may be a date or a range needs a reading that finds the same by itself.
    same = (result.status == value.status) & (result.sign == value.sign) & (value.scale == 0)
    same &= (result.digits == value.digits).all(-1)
    sure = 1 - reading.operator.softmax(-1)[..., -1] >= max(SURE, config.confidence)
    agreed = (reason == int(Reason.LOOK_ALIKE)) & (around.apart | (said.clear.view(shape) & sure))
    # The network may excuse further numbers of an expression in symbols, too, if it reads the same one.
    agreed |= (reason == int(Reason.OTHER_NUMBER)) & around.alone
    agreed &= ~around.applied
    agreed |= (reason == int(Reason.NOT_UNDERSTOOD)) & around.told & around.apart & around.alone
    agreed &= said.plain.view(shape) & same & legible & (around.further < 0)
    asked = _asked(config, said, reading) | around.bare
    by_rule = torch.where(asked & legible, value.status, int(Status.NONE))
    # Two numbers joined by symbols that the rules refuse are no request in words: `a 50/50 chance`, `a[9-1]`.
    in_words = (reason == int(Reason.NO_EXPRESSION)) | around.worded
    by_symbols = (reason == int(Reason.LOOK_ALIKE)) | (reason == int(Reason.OTHER_NUMBER))
    reaches = said.reaches.view(shape) & ~around.closed
    learned = ~ruled & ~reaches & ~by_symbols & in_words
    # The difference between 3 and 5 is 2 for some, and -2 for others.
    unclear = around.contradicted | (around.unordered & (result.sign == 1)) | around.spelled | around.negated
    refused = learned & (result.status == int(Status.OK)) & ((around.further >= 0) | unclear)
    status = torch.where((learned & ~refused) | agreed, result.status, int(Status.NONE))
    status = torch.where(ruled, by_rule, status)
    digits = torch.where(ruled[..., None], value.digits, result.digits)
    sign, scale = torch.where(ruled, value.sign, result.sign), torch.where(ruled, value.scale, 0)
    reason = torch.where(learned | agreed, int(Reason.NO_EXPRESSION), reason)
    culprit = torch.where(learned | agreed, -1, culprit)
    vague = around.strange | (around.further < 0)
    why = torch.where(vague, int(Reason.NOT_UNDERSTOOD), int(Reason.OTHER_NUMBER))
    reason = torch.where(refused, why, reason)
    culprit = torch.where(refused, around.further, culprit)
    said = said._replace(reason=reason.flatten(), culprit=culprit.flatten())
    return _emptied(Result(digits, sign, status, scale)), said
