"""Where rules and the network meet: what a text says in symbols decides over what the network reads.

In: the text, the reading at each anchor, and the result that the network alone would give. Out: the result that is
written, and for each step the reason of a refusal with the token that caused it. Token interface only.

* An expression in symbols that ends at the anchor, or that is the only numeric thing of its context: the rules of
  `expressions` decide operands and operators. If it stands among words, the network decides whether arithmetic is
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

from ..expressions.grammar import Evaluated, evaluate
from ..expressions.items import Item
from ..expressions.literals import Literals, literals
from ..expressions.names import OPERATIONS, Name
from ..expressions.reading import ExpressionReading, read_expressions
from ..expressions.reasons import Reason
from ..numbers.calculator import Result, Status
from ..numbers.digits import PAD
from ..numbers.number_runs import shifted
from ..numbers.token_table import EMBEDDED
from .readings import Choice, Pointing, two_places


MOST_COMPILED = 2  # operands of an expression in a compiled graph
_OPERATORS = {  # the items that need an operation
    "+": (Item.PLUS,),
    "-": (Item.MINUS,),
    "*": (Item.TIMES, Item.POWER, Item.OF),
    "/": (Item.DIVIDE, Item.PERCENT),
}


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

    @property
    def known(self) -> torch.Tensor:
        """[N] bool, no token up to the anchor was given as an embedding, which may be a part of any number."""
        place = torch.arange(self.ids.shape[1], device=self.ids.device)
        return ~((self.ids == EMBEDDED) & (place <= self.anchor[:, None])).any(1)


class Surroundings(NamedTuple):
    """What stands around the chosen numbers of [B, A] steps.

    Attributes:
        further: [B, A] int64, index of the first further number of the turn that is not excused, or of a chosen one
            that is no literal; -1 for none.
        strange: [B, A] bool, that number is not understood.
        worded: [B, A] bool, letters stand between the two.
        apart: [B, A] bool, a space precedes the later one of the two.
        bare: [B, A] bool, the context has no letters.
        contradicted: [B, A] bool, the text names another operation than the network, or its formula is no single one.
        unordered: [B, A] bool, the text asks for a difference, and no word says which number comes first, or its words
            say that it is not below zero.
        spelled: [B, A] bool, an operator in symbols and letters stand between the two, as in `2 * y + 3`, or a symbol
            that compares them.
        negated: [B, A] bool, a bracket is negated by a word, as in `minus (3 plus 4)`.
        alone: [B, A] bool, letters stand between the two and every further number.
    """

    further: torch.Tensor
    strange: torch.Tensor
    worded: torch.Tensor
    apart: torch.Tensor
    bare: torch.Tensor
    contradicted: torch.Tensor
    unordered: torch.Tensor
    spelled: torch.Tensor
    negated: torch.Tensor
    alone: torch.Tensor


def signed_by_rule(
    config: Any, reader: Any, context: Context, reading: Pointing, choice: Choice
) -> tuple[Choice, Surroundings]:
    """The choice with the signs that the text has, and where a further number refuses it.

    Args:
        config: the adapter's `IGCConfig`.
        reader: the input mapping.
        context: the text.
        reading: the distributions.
        choice: `reading.choose()`.

    Returns:
        The choice, and what stands around it.
    """
    read = context.read
    found = literals(reader.symbols, context.ids, read, 1)
    places = two_places(reading.scores)[0]  # [B, A, 2]
    chosen = reading.positions.gather(2, places).flatten(0, 1).clamp(min=0)  # [N, 2]
    # A word such as `minus` is a sign or the operation, which the network tells apart.
    worded_sign = found.may_negate.gather(1, chosen).view(choice.signs.shape)
    sign = found.sign.gather(1, chosen).view(choice.signs.shape)
    sign = sign | (choice.signs & worded_sign.long())
    zero = (choice.digits[..., 0] == 0) & (choice.digits[..., 1] == PAD)  # has no sign
    sign = torch.where(zero, 0, sign)
    unread = ~found.literal.gather(1, chosen)  # [N, 2]
    # A sentence's end excuses nothing (`My number is 8. Add 12 and 5 to it.`), but the header of the turn does, and so
    # does the network where it is sure (`In 2024 I had 3 apples`).
    place = torch.arange(read.shape[1], device=read.device)
    before = found.control & (place < chosen.amin(1, keepdim=True))
    turn = torch.where(before, place, -1).amax(1, keepdim=True)
    refusing = (found.literal | found.strange) & ~_at(chosen, read.shape[1]) & (place > turn)
    temperature = 1.0 if reader.training else config.temperature
    refusing &= ~_excused(config, reading, temperature, read.shape[1]) | found.joined
    culprit = torch.where(refusing, place, read.shape[1]).amin(1)
    culprit = torch.where(refusing.any(1), culprit, -1)
    culprit = torch.where(unread.any(1), torch.where(unread[:, 0], chosen[:, 0], chosen[:, 1]), culprit)
    strange = found.strange.gather(1, culprit[:, None].clamp(min=0)).squeeze(1)
    inner = (place > chosen.amin(1, keepdim=True)) & (place < chosen.amax(1, keepdim=True))
    worded = (found.word & inner).any(1)
    apart = found.space | shifted(found.space, 1)
    apart = apart.gather(1, chosen.amax(1, keepdim=True)).squeeze(1)
    contradicted, unordered = _unlike(config, found, place > turn, choice.operator.flatten())
    spelled = (worded & (found.operator & inner).any(1)) | (found.relation & inner).any(1)
    words = found.word.cumsum(1)  # [N, n]
    left, right = (words.gather(1, at) for at in (chosen.amin(1, keepdim=True), chosen.amax(1, keepdim=True)))
    numeric = (found.literal | found.strange) & ~_at(chosen, read.shape[1])
    alone = ~(numeric & (words >= left) & (words <= right)).any(1)
    negated = found.negated.any(1)
    stands = (
        *(culprit, strange, worded, apart, ~found.word.any(1)),
        *(contradicted, unordered, spelled, negated, alone),
    )
    around = Surroundings(*(x.view(choice.operator.shape) for x in stands))
    return choice._replace(signs=sign), around


def _excused(config: Any, reading: Pointing, temperature: float, length: int) -> torch.Tensor:
    """[N, length] bool, tokens of numbers that the network finds unrelated to the calculation that is asked.

    The temperature of `reading` is taken out: it calibrates `confidence`, and must not change what is excused.
    """
    asked = 1 - (reading.operator * temperature).softmax(-1)[..., -1:]  # [B, A, 1]
    unrelated = asked * reading.unrelated.sigmoid() >= (config.excuse_confidence or 2)
    unrelated, positions = unrelated.flatten(0, 1), reading.positions.flatten(0, 1)  # [N, W]
    at = torch.where(unrelated & (positions >= 0), positions, length)  # an additional column collects the others
    return torch.zeros(len(at), length + 1, dtype=torch.bool, device=at.device).scatter(1, at, True)[:, :length]


def _unlike(
    config: Any, found: Literals, turn: torch.Tensor, operator: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Whether the names of a text fit the operation of the network.

    Args:
        config: the adapter's `IGCConfig`.
        found: the text.
        turn: [N, n] bool, the tokens of the turn.
        operator: [N] int64, the network's.

    Returns:
        [N] bool twice: `contradicted` and `unordered` of `Surroundings`.
    """
    bits = (found.names & turn[..., None]).any(1)  # [N, 10]
    named, maybe = bits[:, :4], bits[:, 4:8]
    possible, named = named | maybe, named.any(1)
    # Of operations that users add no names are known, and of "no arithmetic", the last class, nothing is asked.
    of_each = [possible[:, OPERATIONS.index(sign)] if sign in OPERATIONS else named for sign in config.operations]
    allowed = torch.stack([*of_each, named], 1).gather(1, operator[:, None]).squeeze(1)
    # Variables ask for what a formula or a word says: one operation.
    operators = torch.where(turn, found.formula, 0).sum(1)
    assigned = (found.assigned & turn).any(1)
    vague = (operators > 1) | (assigned & ~possible.any(1))
    subtracts = operator == (config.operations.index("-") if "-" in config.operations else -1)
    than, less = (bits[:, name.bit_length() - 1] for name in (Name.THAN, Name.LESS))
    unordered = found.difference.any(1) & ~found.link.any(1)
    return (named & ~allowed) | vague, unordered | (subtracts & than & ~less)


def _at(chosen: torch.Tensor, length: int) -> torch.Tensor:
    """[N, length] bool, True at the chosen [N, 2] tokens."""
    place = torch.arange(length, device=chosen.device)
    return (place == chosen[:, :1]) | (place == chosen[:, 1:])


def ruling(config: Any, reader: Any, context: Context) -> Ruling:
    """Reads and evaluates the expressions in symbols of N steps; `config` is an `IGCConfig`.

    While a graph is compiled, an expression of more than `MOST_COMPILED` operands is refused.
    """
    # Each further operand adds more than a thousand nodes to a compiled graph.
    most = MOST_COMPILED if torch.compiler.is_compiling() else config.max_operands
    expression = read_expressions(reader.symbols, *context, num_digits=config.num_digits, max_operands=most)
    value = evaluate(
        expression.items,
        max_operands=most,
        result_digits=config.result_digits,
        decimal_places=config.decimal_places,
        rounding=config.rounding,
        division=config.division,
    )
    reason, culprit = expression.reason, expression.culprit
    absent = _OPERATORS.keys() - set(config.operations)
    missing = [int(item) for symbol in sorted(absent) for item in _OPERATORS[symbol]]
    for item in missing:
        lacks = (expression.items.kind == item).any(1) & (reason == int(Reason.NONE))
        reason = torch.where(lacks, int(Reason.MALFORMED), reason)
    ruled = expression.found & (reason == int(Reason.NONE))
    reason = torch.where(ruled, value.reason, reason)
    if not config.decimals:  # they are calculated, but the writing was not trained on them
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
    chances = reading.operator.softmax(-1)  # [B, A, K + 1]
    asked = chances.argmax(-1) < len(config.operations)
    asked &= 1 - chances[..., -1] >= config.confidence
    plain = _is_plain(said).view(shape)
    ruled, reason, culprit, value = (x.view(shape) for x in (said.ruled, said.reason, said.culprit, said.value.status))
    digits, sign, scale = said.value.digits.view(*shape, -1), said.value.sign.view(shape), said.value.scale.view(shape)
    # What may be a date or a range needs a reading that finds the same by itself.
    same = (result.status == value) & (result.digits == digits).all(-1) & (result.sign == sign) & (scale == 0)
    agreed = (reason == int(Reason.LOOK_ALIKE)) & around.apart
    # The network may excuse further numbers of an expression in symbols, too, if it reads the same one.
    agreed |= (reason == int(Reason.OTHER_NUMBER)) & around.alone
    agreed &= plain & same & legible & (around.further < 0)
    status = torch.where(reason == int(Reason.INEXACT), int(Status.INEXACT), value)
    reaches = said.expression.reaches.view(shape)
    asked |= around.bare | (reaches & ~plain)  # adapters may be trained without such expressions
    by_rule = torch.where(asked & legible, status, int(Status.NONE))
    # Two numbers joined by symbols that the rules refuse are no request in words: `a 50/50 chance`, `a[9-1]`.
    in_words = (reason == int(Reason.NO_EXPRESSION)) | around.worded
    by_symbols = (reason == int(Reason.LOOK_ALIKE)) | (reason == int(Reason.OTHER_NUMBER))
    learned = ~ruled & ~reaches & ~by_symbols & in_words
    # The difference between 3 and 5 is 2 for some, and -2 for others.
    unclear = around.contradicted | (around.unordered & (result.sign == 1)) | around.spelled | around.negated
    refused = learned & (result.status == int(Status.OK)) & ((around.further >= 0) | unclear)
    status = torch.where((learned & ~refused) | agreed, result.status, int(Status.NONE))
    status = torch.where(ruled, by_rule, status)
    ok = status == int(Status.OK)
    digits = torch.where(ruled[..., None], digits, result.digits)
    sign, scale = torch.where(ruled, sign, result.sign), torch.where(ruled & ok, scale, 0)
    reason = torch.where(learned | agreed, int(Reason.NO_EXPRESSION), reason)
    culprit = torch.where(learned | agreed, -1, culprit)
    vague = around.strange | (around.further < 0)
    why = torch.where(vague, int(Reason.NOT_UNDERSTOOD), int(Reason.OTHER_NUMBER))
    reason = torch.where(refused, why, reason)
    culprit = torch.where(refused, around.further, culprit)
    said = said._replace(reason=reason.flatten(), culprit=culprit.flatten())
    return Result(torch.where(ok[..., None], digits, PAD), torch.where(ok, sign, 0), status, scale), said
