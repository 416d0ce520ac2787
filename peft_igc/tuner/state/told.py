"""What continues each result of the token interface: decided on the host, in `text`, from the ids of a text.

In: the steps of a text as tensors, which come to the host in one copy. Out: the `Row`s of the texts, and how far each
has come with its results. `TextState.continued` says what continues them.

Shapes: B rows, A anchors per row, R digits of a result. Try it: `pytest tests/tuner/test_silent_steps.py`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...numbers.calculator import Status
from ...numbers.digits import PAD
from ...text.spelling import Progress, Row, Style, Written
from ...text.token_table import TokenTable
from .text_state import Steps


__all__ = ["begun", "progress_of", "style_of"]


def style_of(config: Any, table: TokenTable) -> Style:
    """How an adapter writes results; `config` is its `IGCConfig`."""
    return Style(table, not config.write_again, tuple(config.anchors.get("ends", ())))


def begun(rows: Sequence[Row], style: Style, steps: Steps, speaks: bool) -> tuple[Row, ...]:
    """The rows with the steps of a call, which come to the host in one copy; `speaks`: whether any has a result."""
    facts = [[[at] for at in places] for places in steps.anchors.tolist()]
    if speaks:
        integers = torch.stack([steps.anchors, steps.status, steps.signs, steps.scale], -1)
        facts = torch.cat([integers, steps.digits], -1).tolist()
    found = []
    for row, known in zip(rows, facts, strict=True):
        made = ((at, progress_of(style, at, *result) if result else None) for at, *result in known if at >= 0)
        found.append(row.begun(made))
    return tuple(found)


def progress_of(style: Style, anchor: int, status: int, sign: int, scale: int, *digits: int) -> Progress | None:
    """The progress of a step at its anchor; None if it has no result that can be written."""
    if status != Status.OK:
        return None
    result = Written.of("".join(str(digit) for digit in digits if digit != PAD), bool(sign), scale, len(digits))
    return Progress(style, result, anchor) if result is not None and result.is_spelled_by(style.table) else None
