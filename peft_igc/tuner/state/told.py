"""What continues each result of the token interface: decided on the host, in `text`, from the ids of a text.

In: the steps of a text as tensors, which come to the host in one copy, and the ids of its tokens. Out: the `Row`s of
the texts, and one small tensor for the output mapping (`as_tensor`): for each position the next token of the result,
the state of its spelling, and whether it is written. A compiled graph that no `choose_graph` precedes calls the host
by one operator, `peft_igc::continue_results`.

Shapes: B rows, T positions of this call, C tokens that a static cache can hold, A anchors per row, R digits of a
result. Try it: `pytest tests/tuner/test_compiled.py tests/tuner/test_silent_steps.py`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...mappings.places import ON_HOST
from ...numbers.calculator import Status
from ...numbers.digits import PAD, may_look
from ...text.results.row import Row
from ...text.results.spelling import Continuation, Progress, Style, Written
from ...text.token_table import TokenTable
from .text_state import StaticText, Steps


__all__ = ["as_tensor", "begun", "count", "progress_of", "rows_of", "style_of", "told_of_static"]

Found = Sequence[Sequence[Continuation | None]]  # [B][T], what continues the results


def style_of(config: Any, table: TokenTable) -> Style:
    """How an adapter writes results; `config` is its `IGCConfig`."""
    return Style(table, not config.write_again, tuple(config.anchors.get("ends", ())))


def begun(rows: Sequence[Row], style: Style, steps: Steps) -> tuple[Row, ...]:
    """The rows with the steps of a call, which come to the host in one copy."""
    return _begun(rows, style, _packed(steps).tolist())


def _packed(steps: Steps) -> torch.Tensor:
    """Anchor, status, sign, scale and digits of steps [B, A], as [B, A, 4 + R] int64."""
    facts = torch.stack([steps.anchors, steps.status, steps.signs, steps.scale], -1)
    return torch.cat([facts, steps.digits], -1)


def _begun(rows: Sequence[Row], style: Style, packed: Sequence[Sequence[Sequence[int]]]) -> tuple[Row, ...]:
    """`begun`, given the list of `_packed`."""
    found = []
    for row, steps in zip(rows, packed, strict=True):
        found.append(row.begun((at, progress_of(style, at, *facts)) for at, *facts in steps if at >= 0))
    return tuple(found)


def progress_of(style: Style, anchor: int, status: int, sign: int, scale: int, *digits: int) -> Progress | None:
    """The progress of a step at its anchor; None if it has no result that can be written."""
    if status != Status.OK:
        return None
    result = Written.of("".join(str(digit) for digit in digits if digit != PAD), bool(sign), scale, len(digits))
    return Progress(style, result, anchor) if result is not None and result.is_spelled_by(style.table) else None


def as_tensor(found: Found, device: torch.device) -> torch.Tensor:
    """[3, B, T] int64: the next token of the result, -1 if it is complete; its `Spelled`; whether it is written."""
    tokens = [[-1 if one is None else one.token for one in row] for row in found]
    states = [[0 if one is None else int(one.state) for one in row] for row in found]
    active = [[int(one is not None) for one in row] for row in found]
    return torch.tensor([tokens, states, active], dtype=torch.int64).to(device)


# ---------------------------------------------------------------------------------------------- static caches
def rows_of(style: Style, state: StaticText, length: torch.Tensor | int) -> tuple[Row, ...]:
    """The rows of texts on a static cache, of which `length` tokens have passed; in one copy to the host."""
    values = _values(state.ids, torch.as_tensor(length, device=state.ids.device), _packed(state.steps))
    return _continued(style, values, state.ids.shape, state.steps.digits.shape, 0)[0]


def count(style: Style, state: StaticText, ids: Sequence[Sequence[int]], length: Any) -> bool:
    """Tells a state what continues its results after the token of the next pass; returns whether any is open.

    Args:
        style: how the adapter writes.
        state: the state of the text before that pass.
        ids: [B][1], that token.
        length: L before that pass.
    """
    if state.rows is None:
        state.rows = rows_of(style, state, length)
    state.coming, state.told = state.rows, None
    at = next((need for row in state.rows if (need := row.needs()) is not None), None)
    if at is None:
        return False
    # All open rows have come as far, up to the token of the next pass.
    rows = [row.continued(tokens, at, at) for row, tokens in zip(state.rows, ids, strict=True)]
    state.coming = tuple(row for row, _ in rows)
    state.told = as_tensor([found for _, found in rows], state.ids.device)
    return True


def told_of_static(style: Style, state: StaticText, new: int) -> torch.Tensor:
    """`as_tensor` for the last `new` tokens on a static cache, which the state holds already."""
    assert state.length is not None
    if state.told is not None and state.open is None:  # a step of this call was not counted
        return state.told
    packed = _packed(state.steps)
    if may_look(packed):
        values = _values(state.ids, state.length, packed)
        found = _continued(style, values, state.ids.shape, state.steps.digits.shape, new)[1]
        return as_tensor(found, state.ids.device)
    return _told_in_graph(state.ids, state.length, packed, new, style.table.key, style.once, list(style.ends))


def _values(ids: torch.Tensor, length: torch.Tensor, packed: torch.Tensor) -> list[int]:
    """All of it as one list: one synchronization."""
    return torch.cat([length.view(1), packed.flatten(), ids.flatten()]).tolist()


def _continued(
    style: Style, values: list[int], shape: Sequence[int], steps: Sequence[int], new: int
) -> tuple[tuple[Row, ...], Found]:
    """Rows, and what continues their results after the last `new` tokens.

    Args:
        style: how they are written.
        values: of `_values`.
        shape: B and C.
        steps: B, A and R.
        new: T.
    """
    (count, room), (_, anchors, digits), length = shape, steps, values[0]
    width, begin = anchors * (4 + digits), 1 + count * anchors * (4 + digits)
    rows, found = [], []
    for row in range(count):
        facts = values[1 + row * width : 1 + (row + 1) * width]
        packed = [facts[at : at + 4 + digits] for at in range(0, width, 4 + digits)]
        ids = values[begin + row * room : begin + row * room + length]
        told, more = _begun([Row()], style, [packed])[0].continued(ids, 0, length - new)
        rows.append(told)
        found.append(more)
    return tuple(rows), found


@torch.library.custom_op("peft_igc::continue_results", mutates_args=(), **ON_HOST)
def _told_in_graph(
    ids: torch.Tensor,
    length: torch.Tensor,
    packed: torch.Tensor,
    new: int,
    table: str,
    once: bool,
    ends: Sequence[int],
) -> torch.Tensor:
    """`told_of_static`; `table` is the key of one."""
    style, (rows, anchors, width) = Style(TokenTable.of_key(table), once, tuple(ends)), packed.shape
    values = _values(ids, length, packed)
    return as_tensor(_continued(style, values, ids.shape, (rows, anchors, width - 4), new)[1], ids.device)


@_told_in_graph.register_fake
def _(
    ids: torch.Tensor,
    length: torch.Tensor,
    packed: torch.Tensor,
    new: int,
    table: str,
    once: bool,
    ends: Sequence[int],
) -> torch.Tensor:
    """The form of the result, for graphs that are not run."""
    return ids.new_empty(3, len(ids), new)
