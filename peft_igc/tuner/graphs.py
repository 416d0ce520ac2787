"""Decode steps on a static KV cache that a compiled or captured graph runs: their host half, before or within it.

Before a pass of one token, `choose_graph` makes a `Plan` where its ids end no anchor: the state of the text after the
pass, and what is written. The graph of such a pass holds the learned modules alone, and waits for nothing. All other
passes in a graph are one operator, `peft_igc::act`, which runs on the host whatever an eager pass runs.
Try it: `pytest tests/tuner/test_compiled.py`
"""

from typing import Any, Optional

import torch
from transformers.cache_utils import Cache

from .adapter import Adapter
from .call import Call, current_generation, thread
from .passes import act, inputs_of
from .state.cache import Plan, States, numbered
from .writing import told_of, write


def make_plan(adapter: Adapter, ids: torch.Tensor, states: States) -> None:
    """Makes the plan of the next pass, with the ids [B, 1]; none where it has to be eager."""
    state, generation = states.get(adapter.name), current_generation(adapter.base)
    states.set_plan(None)
    if state is None or not state.is_static or state.features is None or ids.shape != (len(state.ids), 1):
        return
    if generation is not None and generation.anchors is not None and not generation.passed:
        return  # the end of the prompt may be in it
    known = ids.tolist()  # no synchronization if they are on the CPU
    if state.reader != adapter.key or not adapter.rules.lasts.isdisjoint(token for (token,) in known):
        return
    after, told = state.appended(ids.to(state.ids.device), None), None
    if state.may_write:
        after, told = told_of(adapter, after, 1, known)
    states.set_plan(Plan(adapter.name, after, told))
    if generation is not None and generation.log is not None:
        generation.log.add(after)


def has_plan(adapter: Adapter, call: Call, states: States) -> bool:
    """Whether there is a plan of this pass, and it can be followed."""
    if states.plan is None or states.plan.name != adapter.name or thread.observers:
        return False
    given = (call.anchors, call.targets, call.labels, call.attention_mask)
    return call.input_ids is not None and not any(one is not None for one in given)


def act_with_plan(adapter: Adapter, h: torch.Tensor, call: Call, states: States) -> torch.Tensor:
    """One pass whose plan is known, [B, 1, H]: nothing waits for a value of the device."""
    plan: Any = states.plan
    at = states.length(1) + torch.arange(1, device=h.device)
    plan.state.write(at, call.input_ids.to(h.device), adapter.compressed(inputs_of(adapter, h, call)))  # type: ignore[union-attr]
    if plan.told is not None:
        h = write(adapter, h, plan.told, 0, call)  # no observer asks for the position
    plan.ran = True
    return h


def act_in_graph(layer: int, adapter: Adapter, h: torch.Tensor, call: Call, states: States | None) -> torch.Tensor:
    """One pass without a plan, [B, T, H]; `layer` is the number of the adapter's layer."""
    given = [call.input_ids, call.attention_mask, call.anchors]
    cache = [] if states is None else [states.key, states.length(h.shape[1])]
    return _act(h, adapter.compressed(inputs_of(adapter, h, call)), given, cache, layer, adapter.name)


# The host is waited for, so no CUDA graph may hold the operator: one of `mode="reduce-overhead"` is split there.
@torch.library.custom_op("peft_igc::act", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
def _act(
    h: torch.Tensor,
    features: torch.Tensor,
    given: list[Optional[torch.Tensor]],  # noqa: UP045 - torch (2.11) reads the schema from it
    cache: list[torch.Tensor],
    layer: int,
    name: str,
) -> torch.Tensor:
    """An eager pass within a graph: `passes.act` of the adapter `name` of a numbered layer.

    `given` are the token ids, the mask and the anchors of the call; `cache` is the `States.key` of a cache layer and
    the tokens in it before this pass, empty without a cache.
    """
    adapter = numbered[layer].adapter(name)
    ids, mask, anchors = given
    call = Call(adapter.base, ids, mask, anchors=anchors)
    states = None
    if cache:
        cache_layer = numbered[int(cache[0])]
        states = States(cache_layer, counted=False, before=int(cache[1]))
        call.cache = Cache(layers=[])  # an empty one shows that there is one
        generation = current_generation(adapter.base)
        if generation is not None and generation.cache is not None and cache_layer in generation.cache.layers:
            call.generation = generation
    out = act(adapter, h, call, states, features)
    return h.clone() if out is h else out  # no view of an input


@_act.register_fake
def _(h: torch.Tensor, *rest: Any) -> torch.Tensor:
    """The form of the result, for graphs that are not run."""
    return torch.empty_like(h)
