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
_POWER = 2  # the precedence of a power; sums have 0 and products 1, and signs are between products and powers
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
    the keys of the operators that were reduced last in both, `_NEVER` for a single number; and [N, O, O] bool: the
    operator of the last dimension is in the right segment of the other one."""

    start: Tensor
    end: Tensor
    left_key: Tensor
    right_key: Tensor
    in_right: Tensor


def order_of(items: Items, max_operands: int) -> Order:
    """Finds the steps of all expressions.

    Args:
        items: N expressions.
        max_operands: P, at least 2; an expression of more numbers is refused.
    """
    operators = max_operands - 1  # O
    kinds, malformed, unbalanced = _classify(items)
    count = kinds.seen[:, -1]
    symbol, depth = _compact_operators(items, kinds, operators)
    key = _keys(symbol, depth)
    segments = _segments(key)
    negate, hundreds = _pending(kinds, key, symbol, segments, count)
    position = _positions(kinds, max_operands)
    percentage = pad(items.kind, (-1, 1)).gather(1, position) == int(Item.PERCENT)
    reason = int(Reason.PERCENT_SUM) * _bare_percentages(symbol, segments, hundreds, percentage)
    reason = reason.masked_fill(count > max_operands, int(Reason.TOO_MANY_OPERANDS))
    reason = reason.masked_fill(malformed, int(Reason.MALFORMED)).masked_fill(unbalanced, int(Reason.UNBALANCED))
    reason = reason.masked_fill(items.too_long, int(Reason.TOO_LONG))  # what is cut off may look like anything
    right = torch.arange(1, max_operands, device=key.device).expand_as(key)
    steps = torch.stack([symbol - NO_STEP, segments.start, right, segments.end], -1)  # [N, O, 4]
    steps = torch.cat([steps, negate[:, :operators], hundreds[:, :operators]], -1)  # [N, O, 8]
    answered = reason == 0
    steps = steps * ((key >= 0) & answered.unsqueeze(-1)).unsqueeze(-1)
    steps = steps.gather(1, key.argsort(1, descending=True).unsqueeze(-1).expand_as(steps))
    operator, left, right, end = steps[..., :4].unbind(-1)
    return Order(
        operator=operator + NO_STEP,
        left=left,
        right=right,
        end=end,
        negate=steps[..., 4:6] == 1,
        hundreds=steps[..., 6:8],
        last_negate=negate[:, -1, 0] == 1,
        last_hundreds=hundreds[:, -1, 0] * answered,
        position=position,
        operands=count,
        percentage=percentage,
        nested=_nested(symbol, segments),
        reason=reason,
    )


def _bits(*kinds: Item) -> int:
    """A set of kinds as bits. Bit 0 is for kinds below `END`, which are none."""
    return sum(2 << int(kind) for kind in kinds)


_SYMBOLS = (Item.PLUS, Item.MINUS, Item.TIMES, Item.DIVIDE, Item.POWER)
_FIRST = _bits(Item.NUMBER, Item.OPEN, Item.PLUS, Item.MINUS)  # where an operand may begin
_AFTER_OPERAND = _bits(*_SYMBOLS, Item.CLOSE, Item.PERCENT, Item.END)
_AFTER_PERCENT = _bits(*_SYMBOLS, Item.CLOSE, Item.OF, Item.END)
_AFTER_END = _bits(Item.END)
_LAST = _bits(Item.NUMBER, Item.CLOSE, Item.PERCENT, Item.END)


def _among(kind: Tensor, kinds: int | Tensor) -> Tensor:
    """[...] bool: the kind is in a set, or in a set [...] of its own."""
    return (kinds >> (kind + 1).clamp(0, len(Item) + 1)) & 1 == 1


def _classify(items: Items) -> tuple[_Kinds, Tensor, Tensor]:
    """Facts on items; [N] bool: the row is not in the grammar; and [N] bool: its brackets do not match.

    Whether an item may be where it is depends on the one before it; brackets have to be counted, too.
    """
    kind = items.kind
    before = pad(kind, (1, -1), value=_START)
    after_number, after_percent = before == int(Item.NUMBER), before == int(Item.PERCENT)
    after_operand = after_number | (before == int(Item.CLOSE))
    expected = torch.full_like(kind, _FIRST).masked_fill(after_operand, _AFTER_OPERAND)
    expected = expected.masked_fill(after_percent, _AFTER_PERCENT).masked_fill(before == int(Item.END), _AFTER_END)
    after_operand = after_operand | after_percent
    number, percent, closing = kind == int(Item.NUMBER), kind == int(Item.PERCENT), kind == int(Item.CLOSE)
    depth = ((kind == int(Item.OPEN)).to(torch.int64) - closing.to(torch.int64)).cumsum(1)
    malformed = ~(_among(kind, expected).all(1) & _among(kind[:, -1], _LAST))
    unbalanced = (depth < 0).any(1) | (depth[:, -1] != 0)
    kinds = _Kinds(
        number=number,
        binary=after_operand & _among(kind, _bits(*_SYMBOLS, Item.OF)),
        minus=(kind == int(Item.MINUS)) & ~after_operand,
        percent=percent & ~after_number,
        depth=depth.clamp(min=0),
        seen=number.cumsum(1),
    )
    return kinds, malformed, unbalanced


def _compact_operators(items: Items, kinds: _Kinds, operators: int) -> tuple[Tensor, Tensor]:
    """`Operator` and depth [N, O] of the operator after each number; `NO_STEP` where there is none."""
    symbol = (items.kind - int(Item.PLUS)).masked_fill(items.kind == int(Item.OF), int(Operator.MULTIPLY))
    packed = kinds.depth * len(Item) + symbol
    # What is no operator, or after too many numbers, goes to one more place, which is dropped.
    index = (kinds.seen - 1).masked_fill(~kinds.binary, operators).clamp(0, operators)
    packed = packed.new_full((len(packed), operators + 1), NO_STEP).scatter(1, index, packed)[:, :-1]
    return (packed % len(Item)).masked_fill(packed < 0, NO_STEP), torch.div(packed, len(Item), rounding_mode="trunc")


def _positions(kinds: _Kinds, max_operands: int) -> Tensor:
    """The item [N, P] of each number, 0 where there is none."""
    index = (kinds.seen - 1).masked_fill(~kinds.number, max_operands).clamp(max=max_operands)
    items = torch.arange(index.shape[1], device=index.device).expand_as(index)
    return index.new_zeros(len(index), max_operands + 1).scatter(1, index, items)[:, :-1]


def _keys(symbol: Tensor, depth: Tensor) -> Tensor:
    """Keys [N, O] int64: the operator of the largest key is reduced first, and those of key -1 do not exist."""
    index = torch.arange(symbol.shape[1], device=symbol.device)
    power = symbol == int(Operator.POWER)
    precedence = (symbol + 2) // 2 - 1  # sums 0, products 1, powers 2
    turn = torch.where(power, index, symbol.shape[1] - 1 - index)
    key = (depth * 4 + precedence) * symbol.shape[1] + turn
    return key.masked_fill(symbol < 0, -1)


def _segments(key: Tensor) -> _Segments:
    """A segment reaches to the next operator that is reduced later; the one of the least key in it was the last."""
    operators = key.shape[1]
    index = torch.arange(operators, device=key.device)
    before = index < index.unsqueeze(-1)  # [O, O]; the operator in question comes first, the other one last
    later = key.unsqueeze(-2) < key.unsqueeze(-1)  # [N, O, O]
    start = ((index + 1) * (later & before)).amax(-1)
    end = index.masked_fill(~(later & before.T), operators).amin(-1)
    in_left, in_right = before & (index >= start.unsqueeze(-1)), before.T & (index < end.unsqueeze(-1))
    keys = key.unsqueeze(-2)
    left_key = keys.masked_fill(~in_left, _NEVER).amin(-1)
    right_key = keys.masked_fill(~in_right, _NEVER).amin(-1)
    return _Segments(start, end, left_key, right_key, in_right)


def _nested(symbol: Tensor, segments: _Segments) -> Tensor:
    """[N] bool: a divisor has a quotient or a power in it."""
    divisor = symbol == int(Operator.DIVIDE)
    within = segments.in_right & (symbol >= int(Operator.DIVIDE)).unsqueeze(-2)  # [N, O, O]
    return (within & divisor.unsqueeze(-1)).flatten(1).any(-1)


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
    operators = key.shape[1]
    level = 4 * operators  # keys of one depth
    whole = key.masked_fill(key < 0, _NEVER).amin(1, keepdim=True)  # [N, 1]; the last step of all
    last = torch.stack([torch.cat([segments.left_key, whole], 1), torch.cat([segments.right_key, whole], 1)], -1)
    # Depths from `lowest` to `below` count: that of the operator in question, and of the last one in its segment.
    own = pad(torch.div(key, level, rounding_mode="trunc"), (0, 1))  # [N, O + 1]
    zero = torch.zeros_like(own)
    lowest = torch.stack([own + pad(symbol == int(Operator.POWER), (0, 1)), zero, zero, own], -1)  # [N, O + 1, 4]
    below = last // level  # [N, O + 1, 2]
    below = torch.cat([below + (last % level // operators == _POWER), below], -1)
    # An item is owned by the number that it is before, if it is a minus, or else after; these are counted from P on.
    index = torch.arange(operators, device=key.device).expand_as(key)
    number = torch.stack([segments.start, index + 1, index + (operators + 1), segments.end + (operators + 1)], -1)
    zero = zero[:, :1]
    final = torch.stack([zero, zero, count.unsqueeze(-1) + operators, zero], -1)  # [N, 1, 4]
    owner = torch.where(kinds.minus, kinds.seen, kinds.seen + operators).masked_fill(
        ~(kinds.minus | kinds.percent), -1
    )
    owned = owner[:, None, None] == torch.cat([number, final], 1).unsqueeze(-1)  # [N, O + 1, 4, M]
    depth = kinds.depth[:, None, None]
    found = (owned & (depth >= lowest.unsqueeze(-1)) & (depth < below.unsqueeze(-1))).sum(-1)
    return found[..., :2] % 2, found[..., 2:]


def _bare_percentages(symbol: Tensor, segments: _Segments, hundreds: Tensor, percentage: Tensor) -> Tensor:
    """[N] bool: a percentage is added or subtracted, or something is added to it or subtracted from it.

    A value is a percentage if a per cent sign is the last that is applied to it: `10%`, `(5 + 5)%`, not `10% * 3`.
    """
    single = torch.stack([segments.left_key, segments.right_key], -1) == _NEVER  # [N, O, 2]
    own = torch.stack([percentage[:, :-1], percentage[:, 1:]], -1)
    is_percentage = (hundreds[:, :-1] > 0) | (single & own)
    sums = (symbol == int(Operator.ADD)) | (symbol == int(Operator.SUBTRACT))
    return (sums & is_percentage.any(-1)).any(-1)
