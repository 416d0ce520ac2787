"""State of a call and of a text: nothing per call lives on a module.

* `Call` is what one forward pass of one causal LM knows (ids, mask, labels, targets) and what it reports. Hooks on
  that model push and pop it on a stack per thread.
* `Generation` is what one `generate` of one model knows: where its prompt's anchors are.
* `Records` hold what the texts have left behind so far, a `Record` per adapter. They ride on the KV cache's own layer
  object, so they follow beams, repeats, selections, crops and resets.

Shapes: B rows, A steps. Try it: `pytest tests/test_state.py`
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from transformers.cache_utils import Cache, EncoderDecoderCache

from .outputs import Fields
from .reading import Targets
from .record import Record


@dataclass(eq=False)  # two are the same only if they are one: comparing tensors has no single answer
class Generation:
    """One running `generate`.

    Attributes:
        model: the causal LM that generates.
        prompt: [B, P] int64 ids, or None if it was given as embeddings.
        mask: [B, P] of the prompt, 1 for real tokens.
        anchors: [B, A] int64 positions in the prompt, -1 for none; None: found by token sequences.
        given: whether the caller named them; token sequences then count behind the prompt only.
        cache: the KV cache of the generation's own forward passes, once one has been seen.
        span: the first and the last position of an anchor, known to the host; only if there are `anchors`.
    """

    model: nn.Module
    prompt: torch.Tensor | None
    mask: torch.Tensor
    anchors: torch.Tensor | None
    given: bool = False
    cache: Cache | None = None
    span: tuple[int, int] = (0, -1)

    def __post_init__(self) -> None:
        if self.anchors is not None:  # asked once, so that no pass behind or before the anchors has to ask or to read
            places = self.anchors[self.anchors >= 0].tolist()
            self.span = (min(places, default=0), max(places, default=-1))

    def without_cache(self) -> Generation:
        """The same prompt and anchors; it owns no pass."""
        other = copy.copy(self)
        other.cache = None
        return other

    def owns(self, call: Call) -> bool:
        """Whether `call` is a forward pass of this generation, not one made beside it by a user's callback."""
        if call.cache is not None:
            if self.cache is None:
                self.cache = call.cache
            return call.cache is self.cache
        if self.cache is not None or call.use_cache is not False:
            return False
        # Without a cache (`generate` then says so) each pass re-reads the text: ours if it begins with our prompt.
        if call.input_ids is None or self.prompt is None:
            return self.prompt is None
        prompt = repeat_rows(self.prompt, call.input_ids.shape[0])
        width = prompt.shape[1]
        return call.input_ids.shape[1] >= width and torch.equal(call.input_ids[:, :width].to(prompt.device), prompt)


@dataclass(eq=False)
class Call:
    """One forward pass of a causal LM.

    Attributes:
        model: the causal LM.
        input_ids: [B, T] int64, or None if embeddings were given.
        attention_mask: [B, at least T] two-dimensional mask, or None.
        labels: [B, T] int64, or None.
        anchors: [B, A] int64 positions in this call's input, -1 for none; None: found by the configured rule.
        targets: the right reading and result, or None.
        add_to_loss: whether `loss` gains the mean reading loss.
        cache: the cache that the caller handed in, or None.
        use_cache: as the caller said, or None.
        generation: the `generate` that this pass belongs to, or None.
        report: what the calculator reports, once it has run with targets.
        ran: name of the adapter that has run in this pass.
        embedded: [B, T, H] what arrived at the first decoder layer: the token embeddings; None before that.
        without_grad: whether gradients were off when the calculator's layer ran in training mode.
    """

    model: nn.Module
    input_ids: torch.Tensor | None = None
    attention_mask: torch.Tensor | None = None
    labels: torch.Tensor | None = None
    anchors: torch.Tensor | None = None
    targets: Targets | None = None
    add_to_loss: bool = True
    cache: Cache | None = None
    use_cache: bool | None = None
    generation: Generation | None = None
    report: Fields | None = None
    ran: str | None = None
    embedded: torch.Tensor | None = None
    without_grad: bool = False


NEVER = 2**62  # a position behind every text


class ReadingDone(Exception):  # noqa: N818 - no error: it ends a forward pass behind the reading
    """Carries out what the reading reports of a pass that goes no further (see `reading_alone`)."""

    def __init__(self, report: Fields) -> None:
        super().__init__("the forward pass ends behind the reading")
        self.report = report


class _Thread(threading.local):
    """The calls and generations in progress in one thread, innermost last, and those who watch the steps."""

    def __init__(self) -> None:
        self.reading_alone = False
        self.calls: list[Call] = []
        self.generations: list[Generation] = []
        self.observers: list[Any] = []


thread = _Thread()


def current_call(model: nn.Module) -> Call | None:
    """The forward pass of `model` in progress in this thread, or None."""
    return thread.calls[-1] if thread.calls and thread.calls[-1].model is model else None


def current_generation(model: nn.Module) -> Generation | None:
    """The innermost `generate` of `model` in progress in this thread, or None."""
    return next((g for g in reversed(thread.generations) if g.model is model), None)


def anchors_for_assistant(model: nn.Module, prompt: torch.Tensor) -> torch.Tensor | None:
    """Anchors of the `generate` that `model` drafts for, or None.

    An assistant is asked again and again to continue the text so far, whose prompt has not moved.

    Args:
        model: the causal LM that is about to generate.
        prompt: [B, P] int64 ids that it is given.
    """
    for generation in reversed(thread.generations):
        if generation.model is not model and generation.prompt is not None and generation.anchors is not None:
            (rows, width), given = generation.prompt.shape, prompt[:, : generation.prompt.shape[1]]
            if given.shape == (rows, width) and torch.equal(given, generation.prompt.to(given.device)):
                return generation.anchors
    return None


@contextmanager
def generating(generation: Generation) -> Iterator[None]:
    """Marks a `generate` as in progress."""
    thread.generations.append(generation)
    try:
        yield
    finally:
        thread.generations.remove(generation)


@contextmanager
def reading_alone() -> Iterator[None]:
    """Within, a forward pass with targets ends behind the reading by raising `ReadingDone`: no later layer runs."""
    thread.reading_alone = True
    try:
        yield
    finally:
        thread.reading_alone = False


def repeat_rows(x: torch.Tensor, rows: int) -> torch.Tensor:
    """`x` [B, ...] as [rows, ...], each row repeated as `generate` does for beams and returned sequences."""
    return x if x.shape[0] == rows else x.repeat_interleave(rows // x.shape[0], dim=0)


# ---------------------------------------------------------------------------------------------- recomputation
# A checkpoint wrapper around the decoder layer runs our hook a second time, in the backward pass: outside the model's
# forward and, on an accelerator, in another thread. The layer's input is what both runs share; it leads to the call.
_calls_by_storage: dict[int, tuple[StorageWeakRef, Call]] = {}
_lock = threading.Lock()


def remember_call(call: Call, layer_input: torch.Tensor) -> None:
    """Keeps `call` findable by the storage of `layer_input` for as long as that storage lives."""
    storage = layer_input.untyped_storage()
    with _lock:
        for key in [k for k, (reference, _) in _calls_by_storage.items() if reference.expired()]:
            del _calls_by_storage[key]
        # Without what could keep the storage alive: the report's graph, a cache (an empty one says so), this input.
        same = call.embedded is not None and call.embedded.untyped_storage()._cdata == storage._cdata
        kept = replace(
            call,
            report=None,
            embedded=None if same else call.embedded,
            cache=None if call.cache is None else Cache(layers=[]),
            generation=call.generation and call.generation.without_cache(),
        )
        _calls_by_storage[storage._cdata] = (StorageWeakRef(storage), kept)


def recall_call(layer_input: torch.Tensor) -> Call | None:
    """A copy of the call that first ran on `layer_input`; what the second run reports goes nowhere."""
    with _lock:
        entry = _calls_by_storage.get(layer_input.untyped_storage()._cdata)
    if entry is None or entry[0].expired():
        return None
    embedded = layer_input if entry[1].embedded is None else entry[1].embedded
    return replace(entry[1], ran=None, embedded=embedded)


# ---------------------------------------------------------------------------------------------- state of a text
@dataclass
class Records:
    """The records on one cache layer, one per adapter.

    Attributes:
        by_adapter: the record of each.
        first: the first position that any step of an adapter may have written to, `NEVER` for none. What happens to
            rows may let it lie too early, which costs time, but never too late.
    """

    by_adapter: dict[str, Record] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)

    def update(self, change: Any) -> None:
        """Replaces each record by `change(record)`."""
        self.by_adapter = {name: change(record) for name, record in self.by_adapter.items()}


def _recording_class(cls: type) -> type:
    """A sub-type of one concrete cache layer class whose row and length operations also move the records.

    Single inheritance without new slots: a mixin would change the object's layout, which makes assigning `__class__`
    illegal. Only operations that the class has are overridden.
    """

    def reorder_cache(self: Any, beam_idx: torch.Tensor) -> None:
        super(made, self).reorder_cache(beam_idx)  # type: ignore[arg-type]
        self._igc.update(lambda r: r.with_rows(lambda x: x.index_select(0, beam_idx.to(x.device))))

    def batch_repeat_interleave(self: Any, repeats: int) -> None:
        super(made, self).batch_repeat_interleave(repeats)  # type: ignore[arg-type]
        self._igc.update(lambda r: r.with_rows(lambda x: x.repeat_interleave(repeats, dim=0)))

    def batch_select_indices(self: Any, indices: Any) -> None:
        super(made, self).batch_select_indices(indices)  # type: ignore[arg-type]
        self._igc.update(
            lambda r: r.with_rows(lambda x: x[indices.to(x.device) if torch.is_tensor(indices) else indices])
        )

    def crop(self: Any, tokens_to_remove: int) -> None:
        super(made, self).crop(tokens_to_remove)  # type: ignore[arg-type]
        # To the length that is left, not by a count: the record of an adapter that was off may be shorter.
        length = int(self.get_seq_length())
        self._igc.update(lambda r: r.cropped(length))

    def reset(self: Any) -> None:
        super(made, self).reset()  # type: ignore[arg-type]
        self._igc.by_adapter.clear()
        self._igc.first.clear()

    def reduce(self: Any) -> Any:
        return _restored, (cls, self.__dict__)  # pickles name classes, and this one's name is its parent's

    body: dict[str, Any] = {f.__name__: f for f in (batch_repeat_interleave, batch_select_indices, crop)}
    body = {name: f for name, f in body.items() if hasattr(cls, name)}
    body.update(reorder_cache=reorder_cache, reset=reset, __reduce__=reduce)
    # `_layer_type` would make transformers (5.23) register the sub-type in its table of layer classes
    body.update(_layer_type=None, _igc_recording=True, __module__=cls.__module__, __qualname__=cls.__qualname__)
    made = type(cls.__name__, (cls,), body)
    return made


_recording_classes: dict[type, type] = {}


def _restored(cls: type, attributes: dict[str, Any]) -> Any:
    """The copy or unpickled twin of a cache layer of class `cls` that has records."""
    layer: Any = object.__new__(cls)
    layer.__dict__.update(attributes)
    layer.__class__ = _recording_classes.setdefault(cls, _recording_class(cls))
    return layer


def records_of(cache: Cache, layer: int) -> Records:
    """The records on layer `layer` of a cache, attached on first use.

    Raises:
        TypeError: if the cache's layer lacks an operation that has to be followed.
    """
    cache_layer = cache.layers[layer]
    cls = type(cache_layer)
    if not getattr(cls, "_igc_recording", False):
        if cls not in _recording_classes:
            missing = [name for name in ("reorder_cache", "reset", "get_seq_length") if not hasattr(cls, name)]
            if missing:
                raise TypeError(
                    f"The cache layer `{cls.__name__}` has no `{'`, `'.join(missing)}`, so the calculator's steps "
                    "cannot follow its rows. Use one of transformers' own caches, or `use_cache=False`."
                )
            _recording_classes[cls] = _recording_class(cls)
        cache_layer._igc = Records()
        cache_layer.__class__ = _recording_classes[cls]
    return cache_layer._igc


def pass_by(cache: Cache | None, layer: int, tokens: int, reader: str | None = None) -> None:
    """Tells the records on a cache layer, but for that of the adapter `reader`, that `tokens` tokens passed unread."""
    layers = [] if cache is None else cache.layers
    records = getattr(layers[layer], "_igc", None) if layer < len(layers) else None
    if records is not None:
        records.by_adapter = {n: r if n == reader else r.skipped(tokens) for n, r in records.by_adapter.items()}


def find_cache(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Cache | None:
    """The KV cache among a module's arguments: its keyword and position differ between architectures."""
    for value in (*kwargs.values(), *args):
        if isinstance(value, EncoderDecoderCache):
            value = value.self_attention_cache
        if isinstance(value, Cache):
            return value
    return None
