"""One forward pass of an adapter, from beginning to end: remember the text, find anchors, read, calculate, write.

The stages are in `anchors`, `steps` and `writing`, the weights and equations in `mappings`, the state on a KV cache in
`state`, a pass of a compiled graph in `graphs`.
Try it: `pytest tests/tuner/test_layer.py`
"""

import functools
import logging
from dataclasses import replace
from typing import Any

import torch

from ..numbers.calculator import Result
from ..text.spelling import Row
from .adapter import Adapter
from .anchors import NONE, Anchors, anchors_of_call
from .call import Call, text_ids
from .state.cache import States
from .state.text_state import TextState
from .steps import read_and_calculate
from .writing import begun, first_to_write, told_of, write


logger = logging.getLogger(__name__)
TOGETHER = 16  # decoded tokens that are compressed at once, unless a step reads them earlier


def read_early(adapter: Adapter, call: Call) -> None:
    """Ends a pass with targets inside of `reading_alone`, with a `ReadingDone`, as soon as all layers that the adapter
    reads have run."""
    if call.targets is not None:
        last = output_of(adapter, adapter.config.layers_read[-1], call)
        act(adapter, last.to(next(adapter.reader.parameters()).device), call, None)


def act(
    adapter: Adapter, h: torch.Tensor, call: Call, states: States | None, features: torch.Tensor | None = None
) -> torch.Tensor:
    """One forward pass of an adapter.

    Args:
        adapter: the active adapter.
        h: [B, T, H] output of the decoder layer.
        call: context of the forward pass; receives the report if it has targets.
        states: of the KV cache, on which the state of the text is stored; None: this call is the whole text.
        features: [B, T, d] of `Adapter.compressed`, if they are known already.

    Returns:
        [B, T, H], equal to h bit for bit where nothing is written.
    """
    if states is not None and (known := states.get(adapter.name)) is not None and call.is_lean:
        if _reading_is_over(adapter, call) and not known.may_write:
            return h  # nothing of the text is read or written any more; its state stays as it was
    # 1 Remember: append the new tokens to the state of the text, which then has L tokens. They are compressed, if a
    # step may read them: decoded ones on a dynamic cache later, as 16 of them take the time of one.
    state, new = _text_before(adapter, h, call, states), h.shape[1]
    start = state.length
    ids = text_ids(call, h, start)  # [B, T]
    later = not (state.features is None or state.is_static or new > 1 or torch.is_grad_enabled())
    if features is not None or (states is not None and _reading_is_over(adapter, call)):
        state = state.appended(ids, features)
    elif later and state.waiting < TOGETHER:
        state = state.awaiting(ids, inputs_of(adapter, h, call))
    else:
        state = state.settled(adapter.compressed).appended(ids, adapter.compressed(inputs_of(adapter, h, call)))
    # 2 Find the anchors among the new tokens, or None if there are none.
    anchors = _anchors(adapter, ids, start, state, call)
    # 3 Read and calculate: one step per anchor. Later calls reuse the results on the state.
    reading = None
    if anchors is not None:
        state = state.settled(adapter.compressed)
        reading, state = _with_steps(adapter, state, anchors, call)
    # 4 Write: each position is governed by the latest anchor at or before it.
    if state.write_from is not None and (left := min(state.length - state.write_from, new)) > 0:
        state, told = told_of(adapter, state, left)
        if not (call.is_lean and told.is_silent):
            h = write(adapter, h, told, start, call, reading)
    # 5 Keep what later calls need.
    if _reading_is_over(adapter, call) and not state.is_static:
        state = state.unread()
    if call.log is not None:
        call.log.add(state, call.event)
    if states is not None:
        # a stored graph would outlive its backward pass
        states.set(adapter.name, state.with_rows(torch.Tensor.detach) if torch.is_grad_enabled() else state)
    return h


def _anchors(adapter: Adapter, ids: torch.Tensor, start: int, state: TextState, call: Call) -> Anchors | None:
    """Anchors of a call with the ids [B, T]; None for a batch without any, if none is needed. `start` is the position
    of its first token, and the state of the text holds its tokens."""
    rules, new = adapter.rules, ids.shape[1]
    window = ids if rules.longest == 1 else state.recent(new + rules.longest - 1)
    anchors = anchors_of_call(call, rules, window, start, new)
    if anchors is None and (call.targets is not None or torch.is_grad_enabled()):
        # The report must have a loss, and every weight must receive a gradient, if only zero.
        return [[NONE] * (1 if call.targets is None else call.targets.operator.shape[1])] * len(ids)
    return anchors


def _with_steps(adapter: Adapter, state: TextState, anchors: Anchors, call: Call) -> tuple[Any, TextState]:
    """The reading of the steps of this call, and the state with their results; arguments of `read_and_calculate`."""
    reading, results, speaks = read_and_calculate(adapter, state, anchors, call)
    known = [[*earlier, *row] for earlier, row in zip(state.anchors, anchors, strict=True)]
    rows = state.rows
    if adapter.style is not None:
        rows = begun(rows or (Row(),) * len(anchors), adapter.style, anchors, results, speaks)
    both = state.write_from, first_to_write(adapter.config, call, anchors, results) if speaks else None
    write_from = min((at for at in both if at is not None), default=None)
    if state.anchors[0]:
        results = Result(*(torch.cat(pair, 1) for pair in zip(state.steps, results, strict=True)))
    return reading, replace(state, anchors=known, steps=results, rows=rows, write_from=write_from)


def _text_before(adapter: Adapter, h: torch.Tensor, call: Call, states: States | None) -> TextState:
    """The state of the text before this call's tokens h [B, T, H]."""
    rows, new = h.shape[:2]
    capacity = 0 if states is None else states.capacity
    empty = functools.partial(TextState.empty, rows, h.device, capacity, adapter.key)
    if states is None:
        return empty()
    state = states.get(adapter.name) or empty()
    _check_state(adapter, state, rows)
    before = int(states.length(new))  # on a static cache a synchronization
    width = new if call.attention_mask is None else call.attention_mask.shape[1]
    if new < width < before + new:
        raise ValueError(
            f"`attention_mask` has {width} columns, but the text has {before + new} tokens: {before} in the KV cache "
            f"and {new} in this call. Pass a mask of the whole text, or of this call's tokens."
        )
    if before < state.length:
        logger.warning(
            "The KV cache has %d tokens, but the calculator's state of the text has %d, because the cache was not "
            "shortened by its own methods. The text in it is not read.",
            before,
            state.length,
        )
        state = empty()
    # The cache may hold tokens from before the adapter was active, or from while it was off.
    if before > state.length or torch.is_grad_enabled():
        with torch.no_grad():  # as earlier passes were: gradients do not depend on how their tokens came
            state = state.settled(adapter.compressed).passed_by(before - state.length)
    if torch.is_grad_enabled():
        # Autograd cannot save the inference tensors that an earlier pass in inference mode has stored.
        state = state.with_rows(lambda x: x.clone() if x.is_inference() else x)
    return state


def _check_state(adapter: Adapter, state: TextState, rows: int) -> None:
    """Refuses a state that is not the adapter's or not the batch's."""
    if state.reader != adapter.key and state.reader.partition(":")[0] == adapter.key.partition(":")[0]:
        raise ValueError(
            f"The text in this KV cache was begun by another adapter with the name {adapter.name!r}, which has been "
            "replaced. Start the text again with an empty cache."
        )
    if len(state.ids) != rows:
        raise ValueError(
            f"The KV cache holds texts of {len(state.ids)} rows, but this call has {rows}. Use a cache per batch, "
            "or change the rows of the cache with its own methods."
        )


def _reading_is_over(adapter: Adapter, call: Call) -> bool:
    """Whether all steps of a text have run: in a `generate` whose KV cache nobody else uses, after the end of the
    prompt, if that is the only anchor."""
    generation = call.generation
    return generation is not None and generation.passed and not (generation.reused or adapter.rules.sequences)


def inputs_of(adapter: Adapter, h: torch.Tensor, call: Call) -> list[torch.Tensor]:
    """The outputs [B, T, H] of this call that tokens are compressed from; h [B, T, H] is the adapter's layer's."""
    config = adapter.config
    inputs = [h if at == config.layer else output_of(adapter, at, call).to(h.device) for at in config.inputs]
    return [x.detach() for x in inputs] if config.detach_reading and torch.is_grad_enabled() else inputs


def output_of(adapter: Adapter, index: int, call: Call) -> torch.Tensor:
    """[B, T, H], the output of an earlier decoder layer in this call."""
    output = call.outputs[index]
    assert output is not None, "only a stored copy of a call lacks an output, and `recall_call` puts it back"
    return output[adapter.stream] if output.dim() == 4 else output
