"""Per-call context, kept in thread-local stacks because nothing per call may live on a module.

The hooks on a causal LM push and pop a `Call` per forward pass and a `Generation` per `generate`. State that outlives
a call is in `state`.
Try it: `pytest tests/tuner/test_text_state.py`
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from transformers.cache_utils import Cache

from ..mappings.readings import Targets
from ..text.vocabulary import EMBEDDED, PADDING


EMBEDDINGS = -1  # in place of the index of a decoder layer: the input of the first one

ObserverT = TypeVar("ObserverT", bound=Callable[[Any], object])


@dataclass(eq=False)  # compared by identity: `==` between tensors is no single truth value
class Generation:
    """One running `generate`."""

    model: nn.Module  # the causal LM that generates
    prompt: torch.Tensor | None  # [B, P] int64 ids, or None if the prompt was given as embeddings
    mask: torch.Tensor  # [B, P] of the prompt, 1 for real tokens; with a KV cache of the text up to the prompt's end
    anchors: list[list[int]] | None  # positions in the text, by row; None: token sequences name the anchors
    given: bool = False  # whether the caller passed `anchors`; token sequences are then searched only after the prompt
    reused: bool = True  # whether the KV cache comes from the caller or returns to it: a later prompt may read on
    cache: Cache | None = None  # the KV cache of the generation's own forward passes, None until the first of them
    passed: bool = False  # whether the last of the `anchors` has been processed
    log: Any = None  # a `hooks.step_log.StepLog` if the caller is told the steps, else None

    def owns(self, call: Call) -> bool:
        """Whether `call` is a forward pass of this generation, not one that a user's callback makes meanwhile.

        The first call with a cache decides which cache is this generation's.
        """
        if call.cache is not None:
            if self.cache is None:
                self.cache = call.cache
            return call.cache is self.cache
        if self.cache is not None or call.use_cache is not False:
            return False
        # `generate(use_cache=False)` passes the whole text each time: the call is ours if it begins with our prompt.
        if call.input_ids is None or self.prompt is None:
            return self.prompt is None
        prompt = repeat_rows(self.prompt, call.input_ids.shape[0])
        return torch.equal(call.input_ids[:, : prompt.shape[1]].to(prompt.device), prompt)


class Fields(NamedTuple):
    """Loss and metrics of one forward pass with targets; all are float32 scalars."""

    loss: torch.Tensor  # sum of the reading's cross-entropy over the supervised anchors, with gradient
    count: torch.Tensor  # type: ignore[assignment]  # number of supervised anchors; shadows `tuple.count`
    correct: torch.Tensor  # number of supervised anchors at which operator, operands and signs were all read correctly
    gate: torch.Tensor  # mean gate of the positions that were written; 0 if there are none


@dataclass(eq=False)
class Call:
    """One forward pass of a causal LM."""

    model: nn.Module  # the causal LM
    input_ids: torch.Tensor | None = None  # [B, T] int64, or None if embeddings were given
    attention_mask: torch.Tensor | None = None  # [B, T], or a longer one of the whole text; None without a 2D mask
    labels: torch.Tensor | None = None  # [B, T] int64, or None
    anchors: torch.Tensor | None = None  # [B, A] int64 positions in this input, -1 for none; None: the rules apply
    targets: Targets | None = None  # ground truth of the readings and results, or None
    add_to_loss: bool = True  # whether the mean reading loss is added to the output's `loss`
    cache: Cache | None = None  # the KV cache that the caller passed, or None
    use_cache: bool | None = None  # the caller's `use_cache`, or None
    generation: Generation | None = None  # the `generate` that this pass belongs to, or None
    report: Fields | None = None  # losses and metrics, set once the adapter has run with targets
    ran: str | None = None  # name of the adapter that has run in this pass, or None
    bypassed: int | None = None  # index of a decoder layer whose hooks did not run, so that the adapter could not
    # [B, T, H] outputs of decoder layers that a calculator reads at a later one, by their index, and the token
    # embeddings as that of layer `EMBEDDINGS`; None for one that is the input of the calculator's layer and was left
    # out of a copy (`remember_call`)
    outputs: dict[int, torch.Tensor | None] = field(default_factory=dict)
    without_grad: bool = False  # whether gradients were off when the adapter ran in training mode
    event: Any = None  # what this pass has read, if somebody observes or its generation logs steps; else None
    packed: Any = None  # the texts in a row of several (`engines.continuous_batching`); None if each has its row

    @property
    def log(self) -> Any:
        """What logs the steps of this pass for the caller of `generate`; None if nobody asked for them."""
        return None if self.generation is None else self.generation.log

    @property
    def is_lean(self) -> bool:
        """Whether this pass may leave out work that cannot change its output: not with gradients, with targets, or
        where somebody observes the steps."""
        return self.targets is None and not thread.observers and not torch.is_grad_enabled()


class ReadingDone(Exception):  # noqa: N818 - not an error
    """Ends a forward pass after the reading and carries its report (see `reading_alone`)."""

    def __init__(self, report: Fields) -> None:
        super().__init__("the forward pass ends after the reading")
        self.report = report


class _Thread(threading.local):
    """The calls and generations in progress in one thread, innermost last, and its observers."""

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


@contextmanager
def observing(observer: ObserverT) -> Iterator[ObserverT]:
    """Calls `observer`, which it yields, with every `steps.Step` and `steps.Writing` of this thread's forward passes.

    An observer with a method `finish` gets a `steps.Generated` there at the end of each `generate`.
    """
    thread.observers.append(observer)
    try:
        yield observer
    finally:
        thread.observers.remove(observer)


@contextmanager
def reading_alone() -> Iterator[None]:
    """Makes forward passes with targets end after the reading: they raise `ReadingDone`, and no later layer runs."""
    thread.reading_alone = True
    try:
        yield
    finally:
        thread.reading_alone = False


def repeat_rows(x: torch.Tensor, rows: int) -> torch.Tensor:
    """Repeats each row of `x` [B, ...] to get [rows, ...], as `generate` does for beams and returned sequences."""
    return x if x.shape[0] == rows else x.repeat_interleave(rows // x.shape[0], dim=0)


def text_ids(call: Call, h: torch.Tensor, start: int) -> torch.Tensor:
    """Token ids of this call [B, T], `EMBEDDED` if it was given embeddings, and `PADDING`.

    They are on the device of h [B, T, H]; `start` is the position of the first of these tokens in the text.
    """
    rows, new = h.shape[:2]
    if call.input_ids is None:
        ids = torch.full((rows, new), EMBEDDED, dtype=torch.int64, device=h.device)
    else:
        ids = call.input_ids.to(h.device)
    mask = call.attention_mask
    if mask is None and call.generation is not None:
        # With a static cache `generate` passes a 4D mask (transformers 5.23), so the prompt's own 2D mask is used.
        mask = repeat_rows(call.generation.mask, rows)
    elif mask is not None and mask.shape[1] == new:
        start = 0  # the mask covers this call's tokens only
    if mask is None:
        return ids
    # The mask covers the text from its beginning, as transformers requires with a cache; there is no padding after it.
    padded = mask[:, start : start + new].to(h.device) == 0
    if padded.shape[1] < new:
        padded = F.pad(padded, (0, new - padded.shape[1]))
    return ids.masked_fill(padded, PADDING)


# ---------------------------------------------------------------------------------------------- recomputation
# A checkpoint wrapper around the decoder layer (such as accelerate's for FSDP) runs the layer and our hook again in
# the backward pass. That run is outside the model's forward and, on an accelerator, in another thread, so the stack
# above is empty. Both runs have the same layer input, so its storage is the key under which the call is found again.
_calls_by_storage: dict[int, tuple[StorageWeakRef, Call]] = {}
_lock = threading.Lock()


def remember_call(call: Call, layer_input: torch.Tensor) -> None:
    """Stores `call` under the storage of `layer_input` [B, T, H], for as long as that storage lives."""
    storage = layer_input.untyped_storage()

    # The copy must not keep the storage alive, or it would never expire: it drops the report (a graph), the input
    # itself, and the KV cache. An empty cache in its place still shows that there was one.
    outputs = {
        index: None if output is None or output.untyped_storage()._cdata == storage._cdata else output
        for index, output in call.outputs.items()
    }
    cache = None if call.cache is None else Cache(layers=[])
    kept = replace(call, report=None, outputs=outputs, cache=cache, generation=None)
    with _lock:
        for key in [k for k, (reference, _) in _calls_by_storage.items() if reference.expired()]:
            del _calls_by_storage[key]
        _calls_by_storage[storage._cdata] = (StorageWeakRef(storage), kept)


def recall_call(layer_input: torch.Tensor) -> Call | None:
    """A copy of the call that first ran on `layer_input`, or None. The report of the second run is discarded."""
    with _lock:
        entry = _calls_by_storage.get(layer_input.untyped_storage()._cdata)
    if entry is None or entry[0].expired():
        return None
    outputs: Any = {index: layer_input if output is None else output for index, output in entry[1].outputs.items()}
    return replace(entry[1], ran=None, outputs=outputs)
