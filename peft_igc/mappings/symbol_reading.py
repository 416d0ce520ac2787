"""Reads the expressions in symbols of a batch on the host: token ids in, one small tensor out.

In: the ids of texts on any device, which come to the host in one copy, and the `Vocabulary` that spells them. Out: a
`Said` for each step, what `text.read` says with the places of tokens, and the same as integers (`packed`). In a
compiled graph the host is called by one operator, `peft_igc::read_symbols`, and there are only the integers.
Try it: `pytest tests/mappings/test_symbol_reading.py`

Shapes: B rows, n tokens at hand, N steps, R digits of a result.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..numbers.calculator import Status
from ..numbers.digits import PAD, may_look
from ..text.reading import read
from ..text.refusals import Reason
from ..text.rounding import Rounding
from ..text.values import Item, Limits, Refusal, Value, written
from ..text.vocabulary import Vocabulary


__all__ = ["FIELDS", "Said", "limits_of", "read_steps", "said_at"]

FIELDS = 9  # integers of a step before the digits of its value: see `_row`
LONG = 7  # digits: no date, score or size has as many, nor have both parts of a telephone number
_HUNDREDS, _TIMES = 3, 3  # digits of the first number of a division that is no date or score, and its least value
_NO_VALUE = -1  # in place of a status: there is nothing that the network may agree with
_STATUSES = {
    Reason.TOO_LONG: Status.OVERFLOW,
    Reason.OVERFLOW: Status.OVERFLOW,
    Reason.INEXACT: Status.INEXACT,
    Reason.UNDEFINED: Status.UNDEFINED,
}


class Said(NamedTuple):
    """What one text says in symbols, and where: indices of tokens, -1 for none."""

    found: Value | Refusal
    first: int  # of the expression
    last: int
    culprit: tuple[int, int]  # of what caused a refusal of the text, its first and last one; not of a refused value

    @property
    def ruled(self) -> bool:
        """Whether the text says one expression, so that its value, or the refusal of it, is the result."""
        return isinstance(self.found, Value) or self.found.ruled

    @property
    def value(self) -> str | None:
        """The value in canonical form, None if there is none."""
        return self.found.text if isinstance(self.found, Value) else None

    @property
    def reason(self) -> Reason:
        """Why there is no value; `NONE` if there is one."""
        return Reason.NONE if isinstance(self.found, Value) else self.found.reason


def limits_of(config: Any) -> dict[str, Any]:
    """The fields of `Limits` as an `IGCConfig` has them, with the operations as one text."""
    return {
        "digits": config.num_digits,
        "result_digits": config.result_digits,
        "operands": config.max_operands,
        "operations": "".join([symbol for symbol in "+-*/" if symbol in config.operations]),
        "decimals": config.decimals,
        "division": config.division,
        "rounding": config.rounding,
        "decimal_places": config.decimal_places,
    }


def said_at(vocabulary: Vocabulary, ids: Sequence[int], anchor: int, since: int, limits: Limits) -> Said:
    """What the tokens of a row from `since` to `anchor` say."""
    begin = max(since - len(vocabulary.header), 0)  # the name of a role belongs to the control token before it
    text, ends = vocabulary.spell(ids[begin : anchor + 1])
    start = ends[since - begin - 1] if since > begin else 0
    found = read(text[start:], limits)
    first = last = -1
    culprit = (-1, -1)
    if found.span is not None:
        first = begin + bisect_right(ends, start + found.span[0])
        last = begin + bisect_left(ends, start + found.span[1])
    if isinstance(found, Refusal) and found.culprit is not None and not found.ruled:
        one, other = found.culprit
        culprit = (begin + bisect_right(ends, start + one), begin + bisect_left(ends, start + other))
    return Said(found, first, last, culprit)


def read_steps(
    config: Any, vocabulary: Vocabulary, ids: Tensor, anchor: Tensor, since: Tensor
) -> tuple[tuple[Said | None, ...], Tensor]:
    """Reads N steps.

    Args:
        config: an `IGCConfig`.
        vocabulary: spells the tokens.
        ids: [B, n] int64 token ids, or `EMBEDDED`, `UNSEEN` or `PADDING`. Each row has N / B steps.
        anchor, since: [N] int64, indices of the last and the first token that each step reads; an anchor of -1 reads
            nothing.

    Returns:
        What each step says, None without an anchor; nothing in a compiled graph. And [N, `FIELDS` + R] int64.
    """
    if may_look(ids):
        return _read(vocabulary, ids, anchor, since, limits_of(config))
    return (), _read_in_graph(ids, anchor, since, vocabulary.key, **limits_of(config))


def _read(
    vocabulary: Vocabulary, ids: Tensor, anchor: Tensor, since: Tensor, limits: dict[str, Any]
) -> tuple[tuple[Said | None, ...], Tensor]:
    """`read_steps` on the host."""
    rounding = Rounding.of_fields(*map(limits.pop, ("division", "rounding", "decimal_places")))
    given = Limits(**limits | {"operations": frozenset(limits["operations"])}, rounding=rounding)
    count, width = len(anchor), ids.shape[1]
    values = torch.cat([ids.flatten(), anchor, since]).tolist()  # the one synchronisation
    at, begin = values[ids.numel() : ids.numel() + count], values[ids.numel() + count :]
    said: list[Said | None] = []
    for step, (last, first) in enumerate(zip(at, begin, strict=True)):
        row = step * len(ids) // count * width
        said.append(said_at(vocabulary, values[row : row + last + 1], last, first, given) if last >= 0 else None)
    rows = [_row(one, given.result_digits) for one in said]
    return tuple(said), torch.tensor(rows, dtype=torch.int64, device=ids.device).view(count, -1)


def _row(said: Said | None, width: int) -> list[int]:
    """The integers of a step: whether it is ruled, reaches the anchor, is plain and is clear; its reason and culprit;
    status, sign and scale of its value, and `width` digits."""
    if said is None:
        return [0, 0, 0, 0, int(Reason.NO_EXPRESSION), -1, _NO_VALUE, 0, 0, *[PAD] * width]
    found, ruled = said.found, said.ruled
    plain = _is_plain(found.items)
    flags = [ruled, found.reaches, plain, plain and _is_clear(found)]
    text = found.text if isinstance(found, Value) else _agreed(found)
    status = Status.OK if text is not None else _STATUSES.get(said.reason, Status.NONE) if ruled else _NO_VALUE
    digits = "" if text is None else text.replace(".", "").lstrip("-0") or "0"
    scale = 0 if text is None else len(text.partition(".")[2])
    padding = [PAD] * (width - len(digits))
    sign = text is not None and text.startswith("-")
    return [*flags, int(said.reason), said.culprit[1], int(status), sign, scale, *map(int, digits), *padding]


def _agreed(found: Refusal) -> str | None:
    """The value that the network may agree with: an integer of a text that may also say something else."""
    return None if found.ruled or found.value is None or found.value.denominator > 1 else written(found.value)


def _is_plain(items: Sequence[Item]) -> bool:
    """Whether an expression has two integers and one of the four operations, as in the rows of training."""
    numbers = [item.name for item in items if item.kind == "number"]
    others = {"^", "%", "of", "call"}.intersection(item.kind for item in items)
    return len(numbers) == 2 and not others and "." not in "".join(numbers)


def _is_clear(found: Value | Refusal) -> bool:
    """Whether an expression of two numbers is no date, score or size.

    Of a division the first number has three digits and more, and contains the other one three times and more: no date,
    no score such as `95/100`, and hardly a pair of measures such as `120/80`. A sign between two numbers without
    spaces stays a range unless both are long: `1914-18`, `747-400`, `555-0199`.
    """
    long = all(len(item.name) >= LONG for item in found.items if item.kind == "number")
    divided = any(item.kind == "/" for item in found.items) and len(found.items[0].name) >= _HUNDREDS
    return long or (divided and found.value is not None and found.value >= _TIMES)


# The host is waited for, so no CUDA graph may hold it. Since torch 2.9 a graph of `mode="reduce-overhead"` is split
# there; before, such graphs are for silent passes only.
_TAGS: dict[str, Any] = {"tags": (torch.Tag.cudagraph_unsafe,)} if torch.__version__ >= "2.9" else {}


@torch.library.custom_op("peft_igc::read_symbols", mutates_args=(), **_TAGS)
def _read_in_graph(
    ids: Tensor,
    anchor: Tensor,
    since: Tensor,
    vocabulary: str,
    digits: int,
    result_digits: int,
    operands: int,
    operations: str,
    decimals: bool,
    division: str,
    rounding: str,
    decimal_places: int | None,
) -> Tensor:
    """The integers of N steps [N, `FIELDS` + R]; `vocabulary` is the key of one."""
    limits = {"digits": digits, "result_digits": result_digits, "operands": operands, "operations": operations}
    limits |= {"decimals": decimals, "division": division, "rounding": rounding, "decimal_places": decimal_places}
    return _read(Vocabulary.of_key(vocabulary), ids, anchor, since, limits)[1]


@_read_in_graph.register_fake
def _(
    ids: Tensor, anchor: Tensor, since: Tensor, vocabulary: str, digits: int, result_digits: int, *rest: Any
) -> Tensor:
    """The form of the result, for graphs that are not run."""
    return ids.new_empty(len(anchor), FIELDS + result_digits)
