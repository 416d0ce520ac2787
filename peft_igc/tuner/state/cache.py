"""Text states on a KV cache: where they are stored, and how they follow its rows and its length.

The states of a batch, one per adapter, are an attribute of one layer object of the KV cache. `states_of` gives that
object a subclass whose row and length operations (beams, repeats, selections, crops, resets) change the states too.
The attribute is replaced and never changed in place, so a shallow copy of a cache layer has states of its own.
Try it: `pytest tests/tuner/test_text_state.py`
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, EncoderDecoderCache

from .text_state import TextState


# What operators of compiled graphs name by a number, for as long as it lives.
numbered: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_count = itertools.count()
_OPERATIONS = ("reorder_cache", "reset", "get_seq_length")  # a layer without one of these cannot be followed


def number_of(thing: Any) -> int:
    """A number that names a layer of a model or of a cache in `numbered`."""
    number = next(_count)
    numbered[number] = thing
    return number


def find_cache(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Cache | None:
    """The KV cache among a module's arguments, or None.

    Searched by type: in transformers 5.23 its keyword is `past_key_values` (most architectures) or `layer_past`
    (GPT-NeoX), and GPT-2 passes it by position.
    """
    for value in (*kwargs.values(), *args):
        if isinstance(value, EncoderDecoderCache):
            value = value.self_attention_cache
        if isinstance(value, Cache):
            return value
    return None


def forget_plan(cache: Cache | None) -> None:
    """Forgets the plan of a pass on a cache, which another one precedes."""
    for one in () if cache is None else cache.layers:
        if getattr(one, "_igc_plan", None) is not None:
            one._igc_plan = None


def states_of(cache: Cache, layer: int) -> States:
    """The states of an adapter on decoder layer `layer`, attached to a layer of the cache on first use.

    That is the nearest one with keys and values: in hybrid models the decoder layer's own may be a linear attention's,
    which has no length. Of a static cache, one without a sliding window is preferred, which holds the whole text.
    A cache without such a layer, or whose layer lacks a method that must be overridden, is a TypeError.
    """
    layers: list[Any] = cache.layers
    known = [index for index, one in enumerate(layers) if hasattr(one, "get_seq_length")]
    if not known:
        kinds = ", ".join(sorted({f"`{type(one).__name__}`" for one in layers}))
        raise TypeError(
            f"No layer of the KV cache ({kinds}) has keys and values, so there is no length that the calculator's "
            "steps could follow. Models without any attention layer need `use_cache=False`."
        )
    # A form of `min` that `torch.compile` knows (torch 2.13).
    index = sorted((_is_windowed(layers[at]), abs(at - layer), at) for at in known)[0][2]
    carrier, cls = layers[index], type(layers[index])
    if missing := [name for name in _OPERATIONS if not hasattr(carrier, name)]:
        raise TypeError(
            f"The cache layer `{cls.__name__}` has no `{'`, `'.join(missing)}`, so the calculator's steps cannot "
            "follow its rows. Use a cache class of transformers, or `use_cache=False`."
        )
    if not getattr(cls, "_igc_following", False):
        carrier._igc, carrier._igc_plan = {}, None
        _follow(carrier, cls)
    return States(carrier, counted=index <= layer)


def _is_windowed(cache_layer: Any) -> bool:
    """Whether a static cache layer holds the last tokens only."""
    return hasattr(cache_layer, "max_cache_len") and bool(getattr(cache_layer, "is_sliding", False))


@dataclass(eq=False)
class Plan:
    """What is known of the next pass of one token on a static cache before it begins (see `graphs`)."""

    name: str  # the adapter
    state: TextState  # the state of the text after the pass
    told: Any  # what is written, a `writing.Told`; None for nothing
    ran: bool = False  # whether the pass has run


class States:
    """Access to the states on one cache layer.

    `counted`: its length includes the tokens of the pass in progress, as it comes before the adapter. `before`: tokens
    in the cache before this pass, where a compiled graph (inductor) writes the length later than an eager pass.
    """

    def __init__(self, cache_layer: Any, counted: bool, before: int | None = None) -> None:
        self._layer, self._counted, self._before = cache_layer, counted, before

    def length(self, new: int) -> Any:
        """Tokens in the cache before the `new` ones of this pass: an int, or for a static cache a scalar tensor."""
        if self._before is not None:
            return self._before
        length = self._layer.get_seq_length()
        return length - new if self._counted else length

    def get(self, key: str) -> TextState | None:
        """The state under `key`, or None."""
        return _settled(self._layer).get(key)

    def set(self, key: str, state: TextState) -> None:
        """Stores a state under `key`."""
        self._layer._igc, self._layer._igc_plan = {**self._layer._igc, key: state}, None

    @property
    def plan(self) -> Plan | None:
        """The plan of the next pass, or None."""
        plan = self._layer._igc_plan
        return None if plan is None or plan.ran else plan

    def set_plan(self, plan: Plan | None) -> None:
        """Makes `plan` that of the next pass."""
        self._layer._igc_plan = plan

    @property
    def key(self) -> torch.Tensor:
        """Scalar int64 on the CPU, which names the cache layer to operators of compiled graphs."""
        return self._layer._igc_key

    @property
    def capacity(self) -> int:
        """Tokens that a static cache without a window holds; 0 for any other cache."""
        return 0 if _is_windowed(self._layer) else getattr(self._layer, "max_cache_len", 0)


@functools.cache
def _following_class(cls: type) -> type:
    """A subclass of one cache layer class whose row and length operations are applied to the states as well.

    The class is assigned to the `__class__` of an existing object, because transformers 5.23 tests caches with
    `isinstance` and grows them lazily. Python allows that only for single inheritance without new slots. Only
    operations that the class has are overridden. It can go when transformers lets a cache layer carry further tensors.
    """

    def change(layer: Any, operation: Callable[[TextState], TextState]) -> None:
        layer._igc = {key: operation(state) for key, state in _settled(layer).items()}
        layer._igc_plan = None

    def reorder_cache(self: Any, beam_idx: torch.Tensor) -> None:
        super(made, self).reorder_cache(beam_idx)  # type: ignore[arg-type]
        change(self, lambda s: s.with_rows(lambda x: x.index_select(0, beam_idx.to(x.device))))

    def batch_repeat_interleave(self: Any, repeats: int) -> None:
        super(made, self).batch_repeat_interleave(repeats)  # type: ignore[arg-type]
        change(self, lambda s: s.with_rows(lambda x: x.repeat_interleave(repeats, dim=0)))

    def batch_select_indices(self: Any, indices: Any) -> None:
        super(made, self).batch_select_indices(indices)  # type: ignore[arg-type]
        change(self, lambda s: s.with_rows(lambda x: x[indices.to(x.device) if torch.is_tensor(indices) else indices]))

    def crop(self: Any, tokens_to_remove: int) -> None:
        super(made, self).crop(tokens_to_remove)  # type: ignore[arg-type]
        # To the remaining length instead of by a count: the state of an adapter that was off may be shorter.
        length = int(self.get_seq_length())
        change(self, lambda s: s.cropped(length))

    def reset(self: Any) -> None:
        super(made, self).reset()  # type: ignore[arg-type]
        self._igc, self._igc_plan = {}, None

    def reduce(self: Any) -> Any:
        # For pickle and copy: the class cannot be looked up by its name, which is its parent's.
        return _restored, (cls, self.__dict__)

    body: dict[str, Any] = {f.__name__: f for f in (batch_repeat_interleave, batch_select_indices, crop)}
    body = {name: f for name, f in body.items() if hasattr(cls, name)}
    body.update(reorder_cache=reorder_cache, reset=reset, __reduce__=reduce)
    # An inherited `_layer_type` would make transformers (5.23) put this class into its table of layer classes.
    body.update(_layer_type=None, _igc_following=True, __module__=cls.__module__, __qualname__=cls.__qualname__)
    made = type(cls.__name__, (cls,), body)
    return made


def _follow(cache_layer: Any, cls: type) -> None:
    """Gives an object of class `cls` the class of `_following_class`, and a key."""
    cache_layer.__class__ = _following_class(cls)
    cache_layer._igc_key = torch.tensor(number_of(cache_layer)) if hasattr(cache_layer, "max_cache_len") else None


def _settled(cache_layer: Any) -> dict[str, TextState]:
    """The states on a cache layer, after a pass that had a plan."""
    plan: Plan | None = cache_layer._igc_plan
    if plan is not None and plan.ran:
        cache_layer._igc, cache_layer._igc_plan = {**cache_layer._igc, plan.name: plan.state}, None
    return cache_layer._igc


def _restored(cls: type, attributes: dict[str, Any]) -> Any:
    """Rebuilds a copied or unpickled cache layer of class `cls` with its states."""
    layer: Any = object.__new__(cls)
    layer.__dict__.update(attributes)
    _follow(layer, cls)
    return layer
