"""Writing: which positions the results of steps are written to, and the update of their hidden states.

In: the hidden states of a call, and the state of the text with its steps. Out: the hidden states with updates. The
update itself is in `mappings`. The token interface is told what continues each result (`state.told`); the hidden
interface writes digits wherever a step with a result governs.

Shapes: B rows, T positions of this call, H hidden size, A anchors per row of the whole text, each with one step.
Try it: `pytest tests/tuner/test_layer.py tests/tuner/test_silent_steps.py`
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from ..mappings.readings import Pointing, Reading
from ..numbers.calculator import Status
from ..text.vocabulary import PADDING
from .anchors import Rules
from .call import Call, thread
from .config import IGCConfig
from .state.cache import State
from .state.text_state import Steps
from .steps import Writing


__all__ = ["Writer", "embed", "first_to_write", "relative_size", "write"]

NO_POSITION = 2**62  # greater than every position


class Writer(NamedTuple):
    """What an adapter writes with.

    Attributes:
        config: the adapter's config.
        mapping: its output mapping.
        embeddings: the base model's token embeddings.
    """

    config: IGCConfig
    mapping: Any
    embeddings: nn.Module


def relative_size(update: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """Euclidean norm of an update [B, T, H] divided by that of the hidden state h [B, T, H]: [B, T] float32."""
    return update.detach().float().norm(dim=-1) / h.detach().float().norm(dim=-1).clamp(min=1e-12)


def write(
    writer: Writer,
    h: torch.Tensor,
    state: State,
    skipped: int,
    reading: Reading | Pointing | None,
    call: Call,
    told: torch.Tensor | None,
) -> tuple[torch.Tensor, State]:
    """Adds the update to the positions that a step with status `OK` governs.

    What ends a turn also ends the writing: the texts of later turns are the base model's.

    Args:
        writer: what the adapter writes with.
        h: [B, T, H].
        state: the state of the text, this call's tokens and steps included.
        skipped: number of this call's first positions that no step writes, and that are not computed.
        reading: the reading of this call's steps, or None.
        call: receives the mean gate if it has a report.
        told: `told.as_tensor` of the other positions; None for the hidden interface.

    Returns:
        h with updates [B, T, H], and the state with the ends of turns, which the hidden interface finds here.
    """
    before, h = h[:, :skipped], h[:, skipped:]  # T' = T - skipped positions are computed
    if told is None:
        update, gate, active, ended_at = _hidden(writer, h, state)
        state = state.with_ends(ended_at)
    else:
        token, spelled, active = told[0], told[1], told[2].bool()  # [B, T']
        update, gate = writer.mapping(h, embed(writer.embeddings, token).to(h.device), spelled)
    if reading is not None and torch.is_grad_enabled():
        # PEFT's tests and DDP expect a gradient, if only zero, for weights that only the reading loss trains. The
        # zero is computed per row, so that a NaN in one row's reading does not spread to the others.
        zero = 0.0 * torch.stack([x.flatten(1).sum(1) for x in reading.logits()]).sum(0)  # [B]
        update = update + zero[:, None, None]
    for observer in thread.observers:
        start = int(state.positions(h.shape[1])[0]) - skipped
        seen = (active, gate, relative_size(update, h))
        observer(Writing(start, *(F.pad(x, (skipped, 0)) for x in seen)))
    if call.report is not None:
        mean = (gate.detach().float() * active).sum() / active.sum().clamp(min=1)
        call.report = call.report._replace(gate=mean)
    # `where` instead of `h + active * update`, which would turn -0.0 into 0.0 and spread a NaN. The mappings may
    # compute in float32: only the finished update is cast to h's dtype.
    written = torch.where(active[..., None], h + update.to(h.dtype), h)  # Eq. 15
    return torch.cat([before, written], 1) if skipped else written, state


def _hidden(
    writer: Writer, h: torch.Tensor, state: State
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Runs the output mapping of the hidden interface on every position, as if each one were written.

    Args:
        writer: what the adapter writes with.
        h: [B, T, H], of the last T tokens.
        state: the state of the text; A counts all its steps.

    Returns:
        The update [B, T, H]; the gate [B, T]; which positions are written [B, T] bool; the new `ended_at` [B, A].
    """
    config, steps, new = writer.config, state.steps, h.shape[1]
    position = state.positions(new)[:, None]  # [T, 1]
    at = steps.anchors[:, None]  # [B, 1, A]
    anchor, step = at.masked_fill(at > position, -1).max(-1)  # [B, T], the governing anchor and its index
    ok = steps.status.gather(1, step) == int(Status.OK)  # `int`: `torch.compile` compares the enum wrongly
    ids = state.recent(new)[0]
    ends = torch.zeros_like(ids, dtype=torch.bool)
    for token in config.anchors.get("ends", ()):
        ends |= ids == token
    ends &= (position[:, 0] > anchor) & (anchor >= 0)  # [B, T]
    governed = step[..., None] == torch.arange(at.shape[2], device=h.device)  # [B, T, A]
    first = torch.where(ends[..., None] & governed, position, NO_POSITION).amin(1)  # [B, A]
    ended_at = torch.where((steps.ended_at < 0) & (first < NO_POSITION), first, steps.ended_at)
    ended = ended_at.gather(1, step)
    active = (anchor >= 0) & ok & ~((ended >= 0) & (position[:, 0] >= ended))
    real = (ids != PADDING).cumsum(1)
    rank = state.real[:, None] - real[:, -1:] + real  # offsets count real tokens, so padding changes nothing
    offset = rank - steps.ranks.gather(1, step)
    update, gate = writer.mapping(h, steps.digits, steps.signs, step, offset)
    return update, gate, active, ended_at


def embed(table: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """The base model's token embeddings [B, T, embedding width] of ids [B, T], without gradient; -1 counts as 0.

    The embedding module is called instead of indexing its `.weight`, so that offloaded, quantized and adapted
    embeddings work.
    """
    device = next(table.parameters()).device  # may differ from the decoder layer's device
    with torch.no_grad():
        return table(ids.clamp(min=0).to(ids.device if device.type == "meta" else device)).detach()


def first_to_write(config: IGCConfig, call: Call, steps: Steps) -> int | None:
    """Lower bound of the positions that the steps of a call may write; None if there are none.

    It lets the writing skip positions. It is 0 (compute everything) in training, where weights must get a gradient
    even if nothing is written, while a graph is compiled, and with targets, where all processes of a sharded model
    must run the output mapping to gather its weights. Otherwise it costs a synchronization, once per anchor.

    Args:
        config: the adapter's config.
        call: the forward pass.
        steps: its steps.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or call.targets is not None:
        return 0
    anchors = steps.anchors
    writes = (anchors >= 0) & (steps.status == int(Status.OK))
    first = int(torch.where(writes, anchors, NO_POSITION).min()) if anchors.numel() else NO_POSITION
    if first == NO_POSITION:
        return None
    # A plain pass computes all positions, with and without targets: slicing would change the last bits.
    return first if call.generation is not None or Rules.of(config).sequences else 0
