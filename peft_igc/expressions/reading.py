"""Reads the expression in symbols that a text ends with: `read_expressions`.

In: token ids [N, L] and an anchor per text. Out: an `ExpressionReading`, with the expression as `Items` for
`grammar`, or the reason for having none. The text becomes a row of symbols (`stream`), which the automaton of
`rules.after` reads from its end; here its labels become items. What follows from the text decides; nothing here is
learned. Try it: `pytest tests/expressions/test_reading.py`

Shapes: N texts, L tokens of a text, W symbols that are read, M items, D digits of a number.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..numbers.digits import PAD
from .alphabet import Symbol
from .brackets import mismatched, with_list_marks
from .items import Item, Items
from .reasons import Reason
from .rules.inside import Label
from .stream import Stream, later, stream_of, symbols_in
from .symbols import FIRST_MONEY, SymbolTokens


__all__ = ["ExpressionReading", "read_expressions"]

MOST_SYMBOLS = 512  # W: longer expressions are refused
ITEMS_PER_OPERAND = 6
_TO_ITEM = Label.PLUS - Item.PLUS  # the labels from `PLUS` on are in the order of items

# The last of these labels is the expression's beginning; others may turn out to be outside. One bit per label.
_SOLID = sum(1 << label for label in (Label.DIGIT, Label.POINT, Label.CURRENCY, Label.PLUS, Label.MINUS, Label.OPEN))


class ExpressionReading(NamedTuple):
    """What N texts say in symbols."""

    items: Items  # the expression; no items where `reason` is none of `NONE`, `LOOK_ALIKE` and `OTHER_NUMBER`
    found: Tensor  # [N] bool, an expression reaches the anchor, or is the only numeric thing of the text
    reaches: Tensor  # [N] bool, it ends at the anchor with an equals sign
    reason: Tensor  # [N] int64, `Reason.NONE` if it may be answered
    culprit: Tensor  # [N] int64, the token that caused a refusal, -1 if none did
    first: Tensor  # [N] int64, first token of the expression, -1 if there is none
    last: Tensor  # [N] int64, last token of the expression without the equals sign, -1 if there is none


def read_expressions(
    tokens: SymbolTokens,
    ids: Tensor,
    valid: Tensor,
    anchors: Tensor,
    since: Tensor,
    *,
    num_digits: int,
    max_operands: int = 8,
) -> ExpressionReading:
    """Reads the expression in symbols before each anchor.

    Args:
        tokens: The symbol table.
        ids: [N, L] int64, any values.
        valid: [N, L] bool, False for padding and hidden tokens.
        anchors: [N] int64, index of the last token to read.
        since: [N] int64, index of the first token to read.
        num_digits: D, the most digits of a number.
        max_operands: The most operands; longer expressions may be given to the grammar, which refuses them.
    """
    place = torch.arange(ids.shape[1], device=ids.device)
    read = valid & (place <= anchors.unsqueeze(1)) & (place >= since.unsqueeze(1))
    stream = stream_of(tokens, ids, read, symbols_in(tokens, ids, read, MOST_SYMBOLS))
    label, reason, reach, steps = _labelled(tokens, stream)
    reason = _refused_as_a_whole(stream, label, reason)
    right = reason == int(Reason.NONE)
    reaches = reach & (reason != int(Reason.NO_EXPRESSION))
    shown = label != int(Label.NONE)
    first = torch.where(shown, stream.token, ids.shape[1]).amin(1)
    last = torch.where(shown, stream.token, -1).amax(1)
    # A refusal stands at the symbol that was read last, if there is one: the text may also have ended.
    width = label.shape[1]
    culprit = stream.token.gather(1, (width - 1 - steps).clamp(min=0).unsqueeze(1)).squeeze(1)
    kept = right  # or what the network may agree to
    for excusable in (Reason.LOOK_ALIKE, Reason.OTHER_NUMBER, Reason.NOT_UNDERSTOOD):
        kept = kept | (reason == int(excusable))
    label = torch.where(kept.unsqueeze(1), label, int(Label.NONE))
    return ExpressionReading(
        items=_items_of(stream, label, num_digits, ITEMS_PER_OPERAND * max_operands),
        found=right | reaches,
        reaches=reaches,
        reason=reason,
        culprit=torch.where(~right & (steps < width), culprit, -1),
        first=torch.where(last >= 0, first, -1),
        last=last,
    )


def _labelled(tokens: SymbolTokens, stream: Stream) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Applies the rules to the symbols, from the end of each text.

    Returns:
        The `Label` of each symbol [N, W] int64, `NONE` outside the expression; the reason [N] int64; whether the
        expression ends at an anchor `=` [N] bool; and the number of symbols that were read before the rules came to
        an end [N] int64.
    """
    edge = torch.where(stream.cut, int(Symbol.UNKNOWN), int(Symbol.EDGE))
    state, label = tokens.rules.run(torch.cat([with_list_marks(stream.symbol).flip(1), edge], 1))
    reason, begun, reach = tokens.rules.on(state.device).facts[:, state].unbind(0)  # [N, W + 1] each
    step = torch.arange(state.shape[1], device=state.device)
    outside = torch.where(begun > 0, -1, step).amax(1, keepdim=True)
    ends = torch.where((_SOLID >> label) & 1 > 0, step, -1).amax(1, keepdim=True)
    label = torch.where((step > outside) & (step <= ends), label, int(Label.NONE))
    steps = (reason < 0).sum(1)
    why = torch.where(stream.cut.squeeze(1) & (steps == step[-1]), int(Reason.TOO_LONG), reason[:, -1])
    return label[:, :-1].flip(1), why, (reach > 0).any(1), steps


def _refused_as_a_whole(stream: Stream, label: Tensor, reason: Tensor) -> Tensor:
    """The reasons [N] int64 with those that follow from the expression as a whole.

    Args:
        stream: The text.
        label: [N, W] int64.
        reason: [N] int64, of the rules.
    """
    number = (label > int(Label.NONE)) & (label <= int(Label.SEPARATOR))
    single = (number & ~later(number, 1)).sum(1) < 2
    # One number with a sign is no expression, so that another one is no further number: `the sum of 12 and -5`.
    reason = torch.where(single & (reason == int(Reason.OTHER_NUMBER)), int(Reason.NO_EXPRESSION), reason)
    for found, code in (
        (single, Reason.NO_EXPRESSION),
        (_differ(stream.symbol, label == int(Label.CURRENCY)), Reason.CURRENCIES),
        (_units_differ(stream, label), Reason.UNITS),
        (mismatched(stream.symbol, label != int(Label.NONE)), Reason.UNBALANCED),
    ):
        reason = torch.where((reason == int(Reason.NONE)) & found, int(code), reason)
    return reason


def _items_of(stream: Stream, label: Tensor, num_digits: int, num_items: int) -> Items:
    """The items of labelled symbols.

    Args:
        stream: The text.
        label: [N, W] int64, a `Label`; `NONE` outside the expression.
        num_digits: D.
        num_items: M.
    """
    n = label.shape[0]
    digit, point = label == int(Label.DIGIT), label == int(Label.POINT)
    number = (label > int(Label.NONE)) & (label <= int(Label.SEPARATOR))
    begins = number & ~later(number, 1)
    starts = begins | (label >= int(Label.PLUS))
    item = starts.cumsum(1) - 1
    kind = torch.where(number, int(Item.NUMBER), label - _TO_ITEM)
    kind = torch.where(later(label, 1) == int(Label.POWER_MARK), int(Item.POWER), kind)
    # Counted within a number: the count in the text less that before the number's first symbol.
    order = digit.cumsum(1)
    rank = order - 1 - torch.where(begins, order - digit.long(), 0).cummax(1).values
    points = point.cumsum(1)
    decimal = digit & (points > torch.where(begins, points - point.long(), 0).cummax(1).values)
    slot = torch.where(starts & (item < num_items), item, num_items)
    kinds = kind.new_full((n, num_items + 1), int(Item.END)).scatter(1, slot, kind)
    own = torch.where(digit & (item < num_items), item, num_items)
    scale = kind.new_zeros(n, num_items + 1).scatter_add(1, own, decimal.long())
    fits = (own < num_items) & (rank < num_digits)
    at = torch.where(fits, own * num_digits + rank, num_items * num_digits)
    digits = kind.new_full((n, num_items * num_digits + 1), PAD).scatter(1, at, stream.value)
    too_long = ((digit & (rank >= num_digits)) | (starts & (item >= num_items))).any(1)
    return Items(
        kinds[:, :num_items],
        digits[:, :-1].view(n, num_items, num_digits),
        scale[:, :num_items].clamp(max=num_digits),
        too_long,
    )


def _differ(x: Tensor, here: Tensor) -> Tensor:
    """[N] bool, x [N, W] has several values >= 0 where `here` [N, W] is True."""
    highest = torch.where(here, x, -1).amax(1)
    return (here & (x != highest.unsqueeze(1))).any(1)


def _units_differ(stream: Stream, label: Tensor) -> Tensor:
    """[N] bool, a sum or difference whose numbers have different units of measurement: `5 km + 300 m`.

    Args:
        stream: The text.
        label: [N, W] int64.
    """
    inside = label != int(Label.NONE)
    between = (inside.cumsum(1) > 0) & (inside.flip(1).cumsum(1).flip(1) > 0)
    # The unit of the last number stands behind it, at most one space away. A unit that divides is left out: `km/hour`.
    near = between | later(inside, 1) | later(inside, 2)
    divides = later(stream.symbol == int(Symbol.SLASH), 1) | later(stream.symbol == int(Symbol.PER), 2)
    unit = torch.where(near & ~divides, stream.unit, 0)
    added = ((label == int(Label.PLUS)) | (label == int(Label.MINUS))).any(1)
    money = (label == int(Label.CURRENCY)).any(1) & (unit >= FIRST_MONEY).any(1)
    return added & (money | _differ(unit, unit > 0))
