"""Reads the expression in symbols that a text ends with: `read_expressions`.

In: token ids [N, L] and an anchor per text. Out: an `ExpressionReading`, with the expression as `Items` for
`grammar`, or the reason for having none. The text becomes a row of symbols (`stream`), which the automaton of
`rules_after` reads from its end; here its labels become items. What follows from the text decides; nothing here is
learned. Try it: `pytest tests/expressions/test_reading.py`

Shapes: N texts, L tokens of a text, W symbols that are read, M items, D digits of a number.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from ..numbers.digits import PAD
from .alphabet import Symbol
from .brackets import mismatched, with_list_marks
from .items import Item, Items
from .reasons import Reason
from .rules_after import NOT_BEGUN, automaton
from .rules_before import Done, Mode
from .rules_inside import Label
from .stream import Stream, later, stream_of
from .symbols import SymbolTokens


__all__ = ["ExpressionReading", "read_expressions"]

MOST_SYMBOLS = 512  # W: longer expressions are refused
ITEMS_PER_OPERAND = 6

_KINDS = {
    Label.DIGIT: Item.NUMBER,
    Label.POINT: Item.NUMBER,
    Label.PLUS: Item.PLUS,
    Label.MINUS: Item.MINUS,
    Label.TIMES: Item.TIMES,
    Label.DIVIDE: Item.DIVIDE,
    Label.POWER: Item.POWER,
    Label.OPEN: Item.OPEN,
    Label.CLOSE: Item.CLOSE,
    Label.PERCENT: Item.PERCENT,
    Label.OF: Item.OF,
}
# The last of these is the expression's beginning; other labels may turn out to be outside.
_SOLID = {Label.DIGIT, Label.POINT, Label.CURRENCY, Label.PLUS, Label.MINUS, Label.OPEN}


class ExpressionReading(NamedTuple):
    """What N texts say in symbols."""

    items: Items  # the expression; no items where `reason` is not `Reason.NONE`
    found: Tensor  # [N] bool, an expression reaches the anchor, or is the only numeric thing of the text
    reaches: Tensor  # [N] bool, it ends at the anchor with an equals sign
    reason: Tensor  # [N] int64, `Reason.NONE` if it may be answered
    culprit: Tensor  # [N] int64, the token that caused a refusal, -1 if none did
    first: Tensor  # [N] int64, first token of the expression, -1 if there is none
    last: Tensor  # [N] int64, last token of the expression without the equals sign, -1 if there is none


class _Facts(NamedTuple):
    """What is known of the automaton's states and labels, on one device."""

    reason: Tensor  # [Q] int64, of a last state, -1 of others
    tail: Tensor  # [Q] bool, the expression has not begun
    reach: Tensor  # [Q] bool, within an expression that ends at an anchor
    kind: Tensor  # [15] int64, item of a label
    solid: Tensor  # [15] bool


@functools.cache
def _facts(device: torch.device) -> _Facts:
    """The facts on a device."""
    states = automaton().states
    done = [int(state.reason) if isinstance(state, Done) else -1 for state in states]
    phases = ["" if isinstance(state, Done) else state.phase for state in states]
    reach = [not isinstance(state, Done) and state.mode is Mode.REACH for state in states]
    return _Facts(
        torch.tensor(done, device=device),
        torch.tensor([phase in NOT_BEGUN for phase in phases], device=device),
        torch.tensor([at and phase not in NOT_BEGUN for at, phase in zip(reach, phases, strict=True)], device=device),
        torch.tensor([int(_KINDS.get(label, Item.END)) for label in Label], device=device),
        torch.tensor([label in _SOLID for label in Label], device=device),
    )


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
    stream = stream_of(tokens, ids, read, _width(tokens, ids, read))
    edge = torch.where(stream.cut, int(Symbol.UNKNOWN), int(Symbol.EDGE))
    state, label = automaton().run(torch.cat([with_list_marks(stream.symbol).flip(1), edge], 1))
    facts = _facts(ids.device)
    reason = facts.reason[state]  # [N, W + 1], from the end of the text
    done = reason >= 0
    steps = torch.arange(state.shape[1], device=ids.device)
    begun = torch.where(facts.tail[state], steps, -1).amax(1, keepdim=True)
    ends = torch.where(facts.solid[label], steps, -1).amax(1, keepdim=True)
    label = torch.where((steps > begun) & (steps <= ends), label, int(Label.NONE))[:, :-1].flip(1)
    items, numbers = _items_of(stream, label, num_digits, ITEMS_PER_OPERAND * max_operands)
    why = reason[:, -1]
    for found, code in (
        (numbers < 2, Reason.NO_EXPRESSION),
        (_differ(stream.symbol, label == int(Label.CURRENCY)), Reason.CURRENCIES),
        (_units_differ(stream.unit, label), Reason.UNITS),
        (mismatched(stream.symbol, label != int(Label.NONE)), Reason.UNBALANCED),
    ):
        why = torch.where((why == int(Reason.NONE)) & found, int(code), why)
    reaches = (facts.reach[state].any(1)) & (why != int(Reason.NO_EXPRESSION))
    right = why == int(Reason.NONE)
    culprit = (~done).sum(1, keepdim=True)  # steps before the last state
    width = stream.symbol.shape[1]
    at = stream.token.gather(1, (width - 1 - culprit).clamp(min=0))
    known = (culprit < width) & (reason[:, -1:] > 0)
    labelled = (label != int(Label.NONE)).long()
    first = torch.where(labelled > 0, stream.token, ids.shape[1]).amin(1)
    last = torch.where(labelled > 0, stream.token, -1).amax(1)
    return ExpressionReading(
        items=items,
        found=right | reaches,
        reaches=reaches,
        reason=why,
        culprit=torch.where(known, at, -1).squeeze(1),
        first=torch.where(last >= 0, first, -1),
        last=last,
    )


def _width(tokens: SymbolTokens, ids: Tensor, read: Tensor) -> int:
    """W: on a CPU as many symbols as the texts have, else the most, so that no device waits for the host."""
    plain = ids.device.type == "cpu" and type(ids) is Tensor and not torch.compiler.is_compiling()
    if not plain or ids.shape[0] == 0:
        return MOST_SYMBOLS
    row = torch.where((ids >= 0) & (ids < tokens.size), ids, tokens.size)
    longest = int(torch.where(read, tokens.on(ids.device).size[row], 0).sum(1).max())
    return min(MOST_SYMBOLS, max(longest, 1))


def _items_of(stream: Stream, label: Tensor, num_digits: int, num_items: int) -> tuple[Items, Tensor]:
    """The items of labelled symbols, and the number of numbers among them.

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
    kind = _facts(label.device).kind[label]
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
    items = Items(
        kinds[:, :num_items],
        digits[:, :-1].view(n, num_items, num_digits),
        scale[:, :num_items].clamp(max=num_digits),
        too_long,
    )
    return items, begins.sum(1)


def _differ(x: Tensor, here: Tensor) -> Tensor:
    """[N] bool, x [N, W] has several values >= 0 where `here` [N, W] is True."""
    highest = torch.where(here, x, -1).amax(1)
    return (here & (x != highest.unsqueeze(1))).any(1)


def _units_differ(unit: Tensor, label: Tensor) -> Tensor:
    """[N] bool, a sum or difference whose numbers have different units of measurement: `5 km + 300 m`.

    Args:
        unit: [N, W] int64, see `Stream`.
        label: [N, W] int64.
    """
    inside = label != int(Label.NONE)
    begun = inside.cumsum(1) > 0
    # The unit of the last number stands behind it, at most one space away.
    near = inside | later(inside, 1) | later(inside, 2)
    within = begun & (inside.flip(1).cumsum(1).flip(1) > 0)
    added = (label == int(Label.PLUS)) | (label == int(Label.MINUS))
    return _differ(unit, (within | near) & (unit > 0)) & added.any(1)
