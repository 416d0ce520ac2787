"""Writing: which positions the results of steps are written to, and the update of their hidden states.

In: the hidden states of a call, and the state of the text with its steps. Out: the hidden states with updates, and how
far the text has come with each result. The update itself is in `mappings`, what comes next in a number in `spelling`.

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
from ..numbers.number_runs import NumberTokens, is_mark
from ..numbers.spelling import continue_result, window_of
from ..numbers.token_table import PADDING
from .anchors import Rules
from .call import Call, thread
from .config import IGCConfig
from .state.cache import State
from .state.text_state import StaticText, Steps
from .steps import Writing


__all__ = ["Writer", "embed", "first_to_write", "is_silent", "relative_size", "write"]

NO_POSITION = 2**62  # greater than every position


class Writer(NamedTuple):
    """What an adapter writes with.

    Attributes:
        config: the adapter's config.
        mapping: its output mapping.
        tokens: the token table of its input mapping; None for the hidden interface.
        embeddings: the base model's token embeddings.
    """

    config: IGCConfig
    mapping: Any
    tokens: NumberTokens | None
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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Adds the update to the positions that a step with status `OK` governs (with a shortcut: any step).

    What ends a turn also ends the writing: the texts of later turns are the base model's.

    Args:
        writer: what the adapter writes with.
        h: [B, T, H].
        state: the state of the text, this call's tokens and steps included; A counts all its steps.
        skipped: number of this call's first positions that no step writes, and that are not computed.
        reading: the reading of this call's steps, or None.
        call: receives the mean gate if it has a report.

    Returns:
        h with updates [B, T, H], and the new `completed_at` and `ended_at`, both [B, A].
    """
    before, h = h[:, :skipped], h[:, skipped:]  # T' = T - skipped positions are computed
    steps, position = state.steps, state.positions(h.shape[1])[:, None]  # [T', 1]
    at = steps.anchors[:, None]  # [B, 1, A]
    anchor, step = at.masked_fill(at > position, -1).max(-1)  # [B, T'], the governing anchor and its index
    ok = steps.status.gather(1, step) == int(Status.OK)  # `int`: `torch.compile` compares the enum wrongly
    active = (anchor >= 0) if writer.config.shortcut else (anchor >= 0) & ok
    update, gate, possible, complete = _update(writer, h, state, anchor, step)
    governed = step[..., None] == torch.arange(at.shape[2], device=h.device)  # [B, T', A]
    # The text up to here spells the whole result of this step.
    completed_at = _first(steps.completed_at, (complete & ok)[..., None] & governed, position)
    ends = _ends_turn(writer.config, state, h.shape[1]) & (position[:, 0] > anchor) & (anchor >= 0)  # [B, T']
    ended_at = _first(steps.ended_at, ends[..., None] & governed, position)
    ended = ended_at.gather(1, step)
    active = active & possible & ~((ended >= 0) & (position[:, 0] >= ended))
    if reading is not None and torch.is_grad_enabled():
        # PEFT's tests and DDP expect a gradient, if only zero, for weights that only the reading loss trains. The
        # zero is computed per row, so that a NaN in one row's reading does not spread to the others.
        zero = 0.0 * torch.stack([x.flatten(1).sum(1) for x in reading.logits()]).sum(0)  # [B]
        update = update + zero[:, None, None]
    for observer in thread.observers:
        start = int(position[0]) - skipped
        seen = (active, gate, relative_size(update, h))
        observer(Writing(start, *(F.pad(x, (skipped, 0)) for x in seen)))
    if call.report is not None:
        mean = (gate.detach().float() * active).sum() / active.sum().clamp(min=1)
        call.report = call.report._replace(gate=mean)
    # `where` instead of `h + active * update`, which would turn -0.0 into 0.0 and spread a NaN. The mappings may
    # compute in float32: only the finished update is cast to h's dtype.
    written = torch.where(active[..., None], h + update.to(h.dtype), h)  # Eq. 15
    return torch.cat([before, written], 1) if skipped else written, completed_at, ended_at


def is_silent(config: IGCConfig, tokens: NumberTokens | None, state: State, new: int, call: Call) -> bool:
    """Whether no step writes the only token of this call: each text has told its result, or ended its turn.

    Saves the writing of most tokens behind a result, and costs a synchronization. So it is asked where a decoding
    synchronizes anyway, to find anchors, and on the CPU.
    """
    steps = state.steps
    if new > 1 or isinstance(state, StaticText) or tokens is None or not call.is_lean:
        return False
    if config.write_again or config.shortcut or not (Rules.of(config).sequences or _is_on_host(steps.anchors)):
        return False
    step = steps.anchors.argmax(1, keepdim=True)  # [B, 1], as there is none behind the last token
    governs = steps.anchors.gather(1, step) >= 0
    ok = steps.status.gather(1, step) == int(Status.OK)
    completed_at, ended = steps.completed_at.gather(1, step), steps.ended_at.gather(1, step) >= 0
    ids = state.recent(1)[0]
    # A point or comma directly behind a result is written to. Another number than the result is taken for it here.
    at_mark = is_mark(tokens.look_up(ids, ids >= 0)) & (completed_at == state.positions(1) - 1)
    told = (completed_at >= 0) & ~at_mark
    return not bool((governs & ok & ~told & ~ended).any())


def _ends_turn(config: IGCConfig, state: State, count: int) -> torch.Tensor:
    """[B, count] bool: which of the last tokens end a turn."""
    ids = state.recent(count)[0]
    found = torch.zeros_like(ids, dtype=torch.bool)
    for token in config.end_token_ids or ():
        found |= ids == token
    return found


def _update(
    writer: Writer, h: torch.Tensor, state: State, anchor: torch.Tensor, step: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Runs the output mapping on every position, as if each one were written.

    Args:
        writer: what the adapter writes with.
        h: [B, T, H], of the last T tokens.
        state: the state of the text.
        anchor: [B, T] int64, position of the governing anchor, -1 for none.
        step: [B, T] int64, its index among the steps.

    Returns:
        The update [B, T, H]; the gate [B, T]; where a result can be written [B, T] bool, and where the text spells
        the complete result [B, T] bool. The hidden interface does not track the spelling: always and never.
    """
    config, mapping, tokens, embeddings = writer
    steps, new = state.steps, h.shape[1]
    if tokens is None:
        real = (state.recent(new)[0] != PADDING).cumsum(1)
        rank = state.real[:, None] - real[:, -1:] + real  # offsets count real tokens, so padding changes nothing
        offset = rank - steps.ranks.gather(1, step)
        everywhere = torch.ones_like(anchor, dtype=torch.bool)
        shortcut = steps.shortcut if steps.shortcut.shape[2] else None
        return *mapping(h, steps.digits, steps.signs, step, offset, shortcut), everywhere, ~everywhere
    digits = steps.digits.gather(1, step[..., None].expand(-1, -1, steps.digits.shape[-1]))  # [B, T, R]
    decimals, once = config.decimals, not config.write_again
    ids, first = state.recent(window_of(new, digits.shape[-1], decimals))
    of_step = (anchor, digits, steps.signs.gather(1, step), steps.completed_at.gather(1, step))
    scale = steps.scale.gather(1, step) if decimals else None
    more = continue_result(tokens, ids, ids != PADDING, *of_step, start=first, scale=scale, once=once)
    possible = more.active & ~more.again if once else more.active
    return *mapping(h, embed(embeddings, more.token).to(h.device), more.state), possible, more.complete


def embed(table: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """The base model's token embeddings [B, T, embedding width] of ids [B, T], without gradient; -1 counts as 0.

    The embedding module is called instead of indexing its `.weight`, so that offloaded, quantized and adapted
    embeddings work.
    """
    device = next(table.parameters()).device  # may differ from the decoder layer's device
    with torch.no_grad():
        return table(ids.clamp(min=0).to(ids.device if device.type == "meta" else device)).detach()


def _first(known: torch.Tensor, found: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """Positions [B, A] at which something was found first: `known`, or the first in found [B, T, A]; -1 for none.

    Args:
        known: [B, A] int64, from earlier calls.
        found: [B, T, A] bool, of this call.
        position: [T, 1] int64.
    """
    first = torch.where(found, position, NO_POSITION).amin(1)  # [B, A]
    return torch.where((known < 0) & (first < NO_POSITION), first, known)


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
    writes = (anchors >= 0) if config.shortcut else (anchors >= 0) & (steps.status == int(Status.OK))
    first = int(torch.where(writes, anchors, NO_POSITION).min()) if anchors.numel() else NO_POSITION
    if first == NO_POSITION:
        return None
    # A plain pass computes all positions, with and without targets: slicing would change the last bits.
    return first if call.generation is not None or Rules.of(config).sequences else 0


def _is_on_host(x: torch.Tensor) -> bool:
    """Whether a value of x can be read without waiting for a device."""
    return x.device.type == "cpu"
