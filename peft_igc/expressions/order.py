"""The order of reductions: what is calculated with what in an expression, and what is not in the grammar.

In: `Items`. Out: an `Order`, the steps in which every row's operators are reduced: the deepest brackets first, in them
the operators of the highest precedence, and of equal ones the leftmost, but the rightmost power. It depends on the
kinds of items only; no number is looked at. `grammar` carries the steps out. The grammar, loosest first:

    sum     = product (("+" | "-") product)*
    product = signed (("*" | "/" | "of") signed)*          "of" only after a per cent sign
    signed  = ("+" | "-")* power
    power   = operand ("^" ("+" | "-")* power)?
    operand = (number | "(" sum ")") "%"?

An operator stands between two neighbouring numbers, so it has their index. What it reduces is the two segments of
numbers to its left and right that are reduced already; the value of a segment is kept at its first number. Signs and
per cent signs belong to a segment as a whole, so they are applied when the segment is used. All of this is comparisons
of keys between operators: no loop over rows, items or depths. Try it: `pytest tests/expressions/test_order.py`

Shapes: N expressions, M items, P operands at most, O = P - 1 operators at most.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .fixed_point import Operator
from .items import Item, Items
from .reasons import Reason


__all__ = ["NO_STEP", "Order", "order_of"]

NO_STEP = -1
_START = -1  # the kind before the first item
_SUM, _PRODUCT, _POWER = 0, 1, 2  # precedence; signs are between products and powers
_NEVER = 2**40  # the key of no operator; more than any


class Order(NamedTuple):
    """Steps of N expressions, in their order along O. `operator` [N, O] int64 is an `Operator`, `NO_STEP` after the
    last step and in rows with a reason. `left`, `right` [N, O] int64 are the numbers 0..P-1 at which the values to be
    combined are kept; the result goes to `left`. `end` [N, O] int64 is the last number of the right segment. Before a
    step its values are negated, `negate` [N, O, 2] bool, and divided by 100, `hundreds` [N, O, 2] int64 times. The
    same is done to the result in the end, `last_negate` [N] and `last_hundreds` [N].

    `position` [N, P] int64 is the item of each number, `operands` [N] int64 how many there are, `percentage` [N, P]
    bool which have a per cent sign themselves (it is not among `hundreds`). `nested` [N] bool: a divisor has a
    quotient or a power in it. `reason` [N] int64 is a `Reason`."""

    operator: Tensor
    left: Tensor
    right: Tensor
    end: Tensor
    negate: Tensor
    hundreds: Tensor
    last_negate: Tensor
    last_hundreds: Tensor
    position: Tensor
    operands: Tensor
    percentage: Tensor
    nested: Tensor
    reason: Tensor


class _Kinds(NamedTuple):
    """Facts on items, all [N, M]: `depth` int64, the brackets around an item; `seen` int64, the numbers up to it; the
    others bool: numbers, operators between operands, minuses before one, per cent signs after a bracket."""

    number: Tensor
    binary: Tensor
    minus: Tensor
    percent: Tensor
    depth: Tensor
    seen: Tensor


class _Segments(NamedTuple):
    """For each operator [N, O], by position: the first number of its left segment, the last one of its right segment,
    and the keys of the operators that were reduced last in both, `_NEVER` for a single number."""

    start: Tensor
    end: Tensor
    left_key: Tensor
    right_key: Tensor


def order_of(items: Items, max_operands: int) -> Order:
    """Finds the steps of all expressions.

    Args:
        items: N expressions.
        max_operands: P, at least 2; an expression of more numbers is refused.
    """
    operators = max_operands - 1  # O
    kinds, reason = _classify(items)
    count = kinds.seen[:, -1]
    symbol, depth = _compact_operators(items, kinds, operators)
    key = _keys(symbol, depth)
    segments = _segments(key)
    negate, hundreds = _pending(kinds, key, symbol, segments, count)
    position = _positions(kinds, max_operands)
    percentage = pad(items.kind[:, 1:], (0, 1)).gather(1, position) == int(Item.PERCENT)
    bare = _bare_percentages(symbol, segments, hundreds, percentage)
    inside, divisor = _inside(segments.end), symbol == int(Operator.DIVIDE)
    nested = (divisor & (inside & (divisor | (symbol == int(Operator.POWER))).unsqueeze(-2)).any(-1)).any(-1)
    reason = torch.where((reason == 0) & (count > max_operands), int(Reason.TOO_MANY_OPERANDS), reason)
    reason = torch.where((reason == 0) & bare, int(Reason.PERCENT_SUM), reason)
    reason = torch.where(items.too_long, int(Reason.TOO_LONG), reason)  # what is cut off may look like anything
    right = torch.arange(1, max_operands, device=key.device).expand_as(key)
    steps = torch.stack([symbol, segments.start, right, segments.end], -1)  # [N, O, 4]
    signs = torch.cat([negate[:, :operators], hundreds[:, :operators]], -1)
    steps = torch.cat([steps, torch.where((key >= 0).unsqueeze(-1), signs, 0)], -1)  # [N, O, 8]
    steps = steps.gather(1, key.argsort(1, descending=True).unsqueeze(-1).expand_as(steps))
    refused = (reason != 0).unsqueeze(-1)
    return Order(
        operator=torch.where(refused, NO_STEP, steps[..., 0]),
        left=steps[..., 1],
        right=steps[..., 2],
        end=steps[..., 3],
        negate=steps[..., 4:6] == 1,
        hundreds=steps[..., 6:8],
        last_negate=negate[:, -1, 0] == 1,
        last_hundreds=hundreds[:, -1, 0],
        position=position,
        operands=count,
        percentage=percentage,
        nested=nested,
        reason=reason,
    )


def _classify(items: Items) -> tuple[_Kinds, Tensor]:
    """Facts on items, and the reason [N] int64 of rows that are not in the grammar.

    Whether an item may be where it is depends on the one before it; brackets have to be counted, too.
    """
    kind = items.kind
    before = pad(kind[:, :-1], (1, 0), value=_START)
    number, opening, closing = kind == int(Item.NUMBER), kind == int(Item.OPEN), kind == int(Item.CLOSE)
    percent, after_percent = kind == int(Item.PERCENT), before == int(Item.PERCENT)
    after_operand = (before == int(Item.NUMBER)) | (before == int(Item.CLOSE)) | after_percent
    sign = (kind == int(Item.PLUS)) | (kind == int(Item.MINUS))
    operator = ((kind >= int(Item.PLUS)) & (kind <= int(Item.POWER))) | ((kind == int(Item.OF)) & after_percent)
    end = kind == int(Item.END)
    allowed = torch.where(
        after_operand, operator | closing | (percent & ~after_percent) | end, number | opening | sign
    )
    allowed = torch.where(before == int(Item.END), end, allowed)
    finished = number[:, -1] | closing[:, -1] | percent[:, -1] | end[:, -1]
    depth = (opening.to(torch.int64) - closing.to(torch.int64)).cumsum(1)
    unbalanced = (depth < 0).any(1) | (depth[:, -1] != 0)
    reason = torch.where(allowed.all(1) & finished, 0, int(Reason.MALFORMED))
    reason = torch.where(unbalanced, int(Reason.UNBALANCED), reason)
    kinds = _Kinds(
        number=number,
        binary=operator & after_operand,
        minus=(kind == int(Item.MINUS)) & ~after_operand,
        percent=percent & (before != int(Item.NUMBER)),
        depth=depth.clamp(min=0),
        seen=number.cumsum(1),
    )
    return kinds, reason


def _compact_operators(items: Items, kinds: _Kinds, operators: int) -> tuple[Tensor, Tensor]:
    """`Operator` and depth [N, O] of the operator after each number; `NO_STEP` where there is none."""
    symbol = torch.where(items.kind == int(Item.OF), int(Operator.MULTIPLY), items.kind - int(Item.PLUS))
    packed = kinds.depth * len(Item) + symbol
    # What is no operator, or after too many numbers, goes to one more place, which is dropped.
    index = torch.where(kinds.binary, kinds.seen - 1, operators).clamp(0, operators)
    packed = torch.full_like(index[:, :1], NO_STEP).repeat(1, operators + 1).scatter(1, index, packed)[:, :-1]
    exists = packed >= 0
    return torch.where(exists, packed % len(Item), NO_STEP), torch.where(exists, packed // len(Item), 0)


def _positions(kinds: _Kinds, max_operands: int) -> Tensor:
    """The item [N, P] of each number, 0 where there is none."""
    index = torch.where(kinds.number, kinds.seen - 1, max_operands).clamp(max=max_operands)
    items = torch.arange(index.shape[1], device=index.device).expand_as(index)
    return torch.zeros_like(index[:, :1]).repeat(1, max_operands + 1).scatter(1, index, items)[:, :-1]


def _keys(symbol: Tensor, depth: Tensor) -> Tensor:
    """Keys [N, O] int64: the operator of the largest key is reduced first, and those of key -1 do not exist."""
    index = torch.arange(symbol.shape[1], device=symbol.device)
    power = symbol == int(Operator.POWER)
    precedence = torch.where(symbol <= int(Operator.SUBTRACT), _SUM, torch.where(power, _POWER, _PRODUCT))
    turn = torch.where(power, index, symbol.shape[1] - 1 - index)
    key = (depth * 4 + precedence) * symbol.shape[1] + turn
    return torch.where(symbol == NO_STEP, -1, key)


def _inside(end: Tensor) -> Tensor:
    """[N, O, O] bool: the operator of the last dimension is in the right segment of the one before."""
    index = torch.arange(end.shape[1], device=end.device)
    return (index > index.unsqueeze(-1)) & (index < end.unsqueeze(-1))


def _segments(key: Tensor) -> _Segments:
    """A segment reaches to the next operator that is reduced later; the one of the least key in it was the last."""
    operators = key.shape[1]
    index = torch.arange(operators, device=key.device)
    before = index < index.unsqueeze(-1)  # [O, O]; the operator in question comes first, the other one last
    later = key.unsqueeze(-2) < key.unsqueeze(-1)  # [N, O, O]
    start = torch.where(later & before, index + 1, 0).amax(-1)
    end = torch.where(later & before.T, index, operators).amin(-1)
    in_left = before & (index >= start.unsqueeze(-1))
    keys = key.unsqueeze(-2)
    left_key = torch.where(in_left, keys, _NEVER).amin(-1)
    right_key = torch.where(_inside(end), keys, _NEVER).amin(-1)
    return _Segments(start, end, left_key, right_key)


def _pending(kinds: _Kinds, key: Tensor, symbol: Tensor, segments: _Segments, count: Tensor) -> tuple[Tensor, Tensor]:
    """Signs and per cent signs of the values that each operator combines, and of the result at index O.

    A minus before a number belongs to segments that start there: all from its depth on that are reduced after the
    operators which bind more tightly. Those that are deeper than the last operator of a segment were applied with it.
    A power takes no sign from before its base (`-2^2` is -4), but all from before its exponent. Per cent signs after a
    number are the mirror image, and bind more tightly than any operator.

    Returns:
        [N, O + 1, 2] int64 in 0..1, the number of minuses modulo 2, and [N, O + 1, 2] int64, the per cent signs, for
        the left and the right segment; only the left one is used at index O.
    """
    n, operators = key.shape
    level = 4 * operators  # keys of one depth
    # Depths, as thresholds: of the operator in question, and of the one that was the last of a segment.
    whole = torch.where(key >= 0, key, _NEVER).amin(1, keepdim=True)  # [N, 1]; the last step of all
    own = pad(torch.div(key, level, rounding_mode="floor"), (0, 1)).clamp(min=0)  # [N, O + 1]
    last = torch.stack([torch.cat([segments.left_key, whole], 1), torch.cat([segments.right_key, whole], 1)], -1)
    last_depth = last // level  # [N, O + 1, 2]
    last_power = (last % level // operators == _POWER) & (last < _NEVER)
    zero = torch.zeros_like(whole)
    index = torch.arange(operators, device=key.device).expand(n, -1)
    power = pad(symbol == int(Operator.POWER), (0, 1))
    first_number = torch.stack([torch.cat([segments.start, zero], 1), pad(index + 1, (0, 1))], -1)
    lowest = torch.stack([own + power, zero.expand_as(own)], -1)
    minuses = _count(kinds.minus, kinds.seen, kinds.depth, first_number, lowest, last_depth + last_power)
    last_number = torch.stack([torch.cat([index, count.unsqueeze(-1) - 1], 1), torch.cat([segments.end, zero], 1)], -1)
    lowest = torch.stack([zero.expand_as(own), own], -1)
    hundreds = _count(kinds.percent, kinds.seen - 1, kinds.depth, last_number, lowest, last_depth)
    return minuses % 2, hundreds


def _count(chosen: Tensor, owner: Tensor, depth: Tensor, number: Tensor, lowest: Tensor, below: Tensor) -> Tensor:
    """How many chosen items [N, M] a number owns at a range of depths; `number`, `lowest`, `below`: [N, O + 1, 2]."""
    owner, depth = (torch.where(chosen, field, -1)[:, None, None] for field in (owner, depth))
    number, lowest, below = number.unsqueeze(-1), lowest.unsqueeze(-1), below.unsqueeze(-1)
    return ((owner == number) & (depth >= lowest) & (depth < below)).sum(-1)


def _bare_percentages(symbol: Tensor, segments: _Segments, hundreds: Tensor, percentage: Tensor) -> Tensor:
    """[N] bool: a percentage is added or subtracted, or something is added to it or subtracted from it.

    A value is a percentage if a per cent sign is the last that is applied to it: `10%`, `(5 + 5)%`, not `10% * 3`.
    """
    single = torch.stack([segments.left_key, segments.right_key], -1) == _NEVER  # [N, O, 2]
    own = torch.stack([percentage[:, :-1], percentage[:, 1:]], -1)
    is_percentage = (hundreds[:, :-1] > 0) | (single & own)
    sums = (symbol == int(Operator.ADD)) | (symbol == int(Operator.SUBTRACT))
    return (sums & is_percentage.any(-1)).any(-1)
