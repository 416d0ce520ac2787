"""Writing: which positions the results of steps are written to, and the update of their hidden states.

The update itself is in `mappings`. The host knows what continues each result of the token interface
(`TextState.continued`); the hidden interface writes digits wherever a step with a result governs.
Try it: `pytest tests/tuner/test_layer.py tests/tuner/test_silent_steps.py`
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from ..mappings.readings import Pointing, Reading
from ..numbers.calculator import Result, Status
from ..numbers.digits import spelled
from ..text.spelling import Progress, Row, Style
from ..text.vocabulary import PADDING
from .adapter import Adapter
from .anchors import Anchors, Rules, positions
from .call import Call, thread
from .config import IGCConfig
from .state.text_state import TextState
from .steps import Writing


def begun(rows: Sequence[Row], style: Style, anchors: Anchors, results: Result, speaks: bool) -> tuple[Row, ...]:
    """The rows with the steps of a call, whose results come to the host in one copy; `speaks`: whether any has one."""
    facts: list[list[list[int]]] = [[[0, Status.NONE, 0]] * len(anchors[0])] * len(rows)
    if speaks:
        facts = torch.cat([results.digits, torch.stack(results[1:], -1)], -1).tolist()
    found = []
    for row, places, told in zip(rows, anchors, facts, strict=True):
        texts = [spelled(digits, sign, scale) if status == Status.OK else "" for *digits, sign, status, scale in told]
        known = ((one.at, text) for one, text in zip(places, texts, strict=True) if one.at >= 0)
        found.append(row.begun((at, progress_of(style, at, text)) for at, text in known))
    return tuple(found)


def progress_of(style: Style, anchor: int, result: str) -> Progress | None:
    """The progress of a step at its anchor; None if it has no result that can be written, which is then empty."""
    return Progress(style, result, anchor) if result and style.table.spells(result) else None


class Told(NamedTuple):
    """What is written at the last T' tokens of a text."""

    active: torch.Tensor  # [B, T'] bool, whether a position is written
    arguments: tuple[torch.Tensor, ...]  # of the output mapping, after h
    is_silent: bool = False  # whether the host knows that none is written


def told_of(
    adapter: Adapter, state: TextState, new: int, known: list[list[int]] | None = None
) -> tuple[TextState, Told]:
    """What is written at the last T' `new` tokens, whose ids may be `known`, and the state that knows it."""
    if adapter.config.interface == "hidden":
        return state, _governed(adapter.config, state, new)
    state, rows = state.continued(state.length - new, known)
    flat = [one for row in rows for one in row]
    facts = [(0, 0, 0) if one is None else (one.token, int(one.state), 1) for one in flat]
    token, spelled, active = torch.tensor(facts).view(len(rows), new, 3).to(state.ids.device).unbind(-1)
    return state, Told(active.bool(), (embed(adapter.embeddings, token), spelled), not any(flat))


def relative_size(update: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """Euclidean norm of an update [B, T, H] divided by that of the hidden state h [B, T, H]: [B, T] float32."""
    return update.detach().float().norm(dim=-1) / h.detach().float().norm(dim=-1).clamp(min=1e-12)


def write(
    adapter: Adapter,
    h: torch.Tensor,
    told: Told,
    start: int,
    call: Call,
    reading: Reading | Pointing | None = None,
) -> torch.Tensor:
    """The hidden states h [B, T, H], from the position `start` on, with updates where these are told.

    Only the last T' are computed. `reading` is that of this call's steps; the report of the call gets the mean gate.
    """
    active, skipped = told.active, h.shape[1] - told.active.shape[1]
    before, h = h[:, :skipped], h[:, skipped:]
    update, gate = adapter.writer(h, *(x.to(h.device) for x in told.arguments))
    if reading is not None and torch.is_grad_enabled():
        # PEFT's tests and DDP expect a gradient, if only zero, for weights that only the reading loss trains. The
        # zero is computed per row, so that a NaN in one row's reading does not spread to the others.
        logits = [x for x in reading if torch.is_tensor(x) and x.is_floating_point()]
        zero = 0.0 * torch.stack([x.flatten(1).sum(1) for x in logits]).sum(0)  # [B]
        update = update + zero[:, None, None]
    for observer in thread.observers:
        seen = (active, gate, relative_size(update, h))
        observer(Writing(start, *(F.pad(x, (skipped, 0)) for x in seen)))
    if call.report is not None:
        mean = (gate.detach().float() * active).sum() / active.sum().clamp(min=1)
        call.report = call.report._replace(gate=mean)
    # `where` instead of `h + active * update`, which would turn -0.0 into 0.0 and spread a NaN. The mappings may
    # compute in float32: only the finished update is cast to h's dtype.
    written = torch.where(active[..., None], h + update.to(h.dtype), h)  # Eq. 15
    return torch.cat([before, written], 1) if skipped else written


def _governed(config: IGCConfig, state: TextState, new: int) -> Told:
    """`told_of` for the hidden interface: digits are written wherever a step with a result governs, to the end of the
    turn."""
    steps, ids = state.steps, state.recent(state.length)  # [B, L]
    position = torch.arange(state.length - new, state.length, device=ids.device)[:, None]  # [T, 1]
    at = positions(state.anchors, ids.device)[:, None]  # [B, 1, A]
    anchor, step = at.masked_fill(at > position, -1).max(-1)  # [B, T], the governing anchor and its index

    def since_anchor(which: torch.Tensor) -> torch.Tensor:
        """How many of some tokens [B, L] are after the governing anchor, up to each position [B, T]."""
        count = which.cumsum(1)
        return count[:, -new:] - count.gather(1, anchor.clamp(min=0))

    ends = torch.zeros_like(ids, dtype=torch.bool)
    for token in config.anchors.get("ends", ()):
        ends |= ids == token
    active = (anchor >= 0) & (steps.status.gather(1, step) == Status.OK) & (since_anchor(ends) == 0)
    offset = since_anchor(ids != PADDING)
    digits, signs = steps.digits, steps.sign
    if new == 1:  # so that the form of the arguments stays the same in a compiled graph, whatever the number of steps
        digits, signs = digits[torch.arange(len(step)), step[:, 0]][:, None], signs.gather(1, step)
        step = torch.zeros_like(step)
    return Told(active, (digits, signs, step, offset))


def embed(table: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """The base model's token embeddings [B, T, embedding width] of ids [B, T], without gradient; -1 counts as 0."""
    # The module is called instead of indexing its `.weight`, so that offloaded, quantized and adapted ones work. Its
    # device may differ from the decoder layer's.
    device = next(table.parameters()).device
    with torch.no_grad():
        return table(ids.clamp(min=0).to(ids.device if device.type == "meta" else device)).detach()


def first_to_write(config: IGCConfig, call: Call, anchors: Anchors, results: Result) -> int | None:
    """Lower bound of the positions that the steps of a call may write; None if there are none.

    It is 0 (compute everything) in training, where weights must get a gradient even if nothing is written, and with
    targets, where all processes of a sharded model must run the output mapping to gather its weights. Otherwise it
    costs a synchronization, once per anchor.
    """
    if torch.is_grad_enabled() or call.targets is not None:
        return 0
    both = (pair for rows in zip(anchors, results.status.tolist(), strict=True) for pair in zip(*rows, strict=True))
    writing = [one.at for one, status in both if status == Status.OK and one.at >= 0]
    # A plain pass computes all positions, with and without targets: slicing would change the last bits.
    plain = call.generation is None and not Rules.of(config).sequences
    return min([0] if plain else writing) if writing else None
