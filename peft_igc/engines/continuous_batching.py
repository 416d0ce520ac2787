"""transformers' continuous batching: `generate_batch` and `transformers serve --continuous_batching`.

A pass of the manager (transformers 5.23) has one row with the new tokens of several requests. Each request carries its
text as an attribute, a value that never changes: so a fork copies a reference, a request that is preempted and begun
again has no text, and one that is moved to the CPU and back keeps it. The known half is decided on the host (`texts`),
the steps of a pass are read in one padded batch, and the updates are written at their places in the row.

The host acts between two layers, so there are no CUDA graphs, no compiled passes and no batches ahead of time. Nor
are there blocks of a beginning that several requests share, in which nobody keeps compressed tokens.

Shapes: T tokens of a pass, d mapping width, H hidden size.
"""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

from ..text.vocabulary import UNSEEN
from ..tuner.adapter import Adapter
from ..tuner.writing import embed
from .texts import Known, Text
from .texts import check as check  # called by `tuner.hooks.generation`, which imports this module by name


logger = logging.getLogger(__name__)


PARTS = 64  # tensors that hold the compressed tokens of a text before they are joined


def followed(manager: Any) -> Any:
    """The manager, whose passes have the texts of their requests from now on.

    Raises:
        ValueError: if it was kept from before the adapter was active, with blocks that nobody has seen.
    """
    if "_create_batch_processor" in vars(manager):
        return manager
    if manager.batch_processor is not None:
        raise ValueError(
            "The manager of continuous batching was kept from before the calculator was active. Call "
            "`model.destroy_cached_continuous_batching_manager()` first."
        )
    settings = manager.continuous_batching_config
    ahead = (*settings.cuda_graph_booleans, settings.varlen_compile_config, settings.decode_compile_config)
    if any(ahead) or settings.use_async_batching:
        logger.warning(
            "The calculator acts on the host between two layers, so continuous batching runs without CUDA graphs, "
            "`torch.compile`, asynchronous batches and shared prefixes."
        )
    settings.use_cuda_graph, settings.use_async_batching = (False, False), False
    settings.varlen_compile_config = settings.decode_compile_config = None
    settings.allow_block_sharing = False
    make = manager._create_batch_processor

    def create() -> Any:
        processor = make()
        # For the paged cache, which a pass is given: before its first layer, so that none is waited for.
        processor.cache.igc_packing = functools.partial(Packed.of, weakref.ref(processor))
        return processor

    manager._create_batch_processor = create
    return manager


class Held(NamedTuple):
    """What a request carries."""

    reader: str  # identifies the adapter
    text: Text
    # the compressed tokens of the text, [n, d] each; together as many as it has tokens
    features: tuple[torch.Tensor, ...] = ()

    def __deepcopy__(self, memo: Any) -> Held:
        """Itself: nothing changes it, and `RequestState.fork` copies all of a request."""
        return self

    def appended(self, features: torch.Tensor) -> Held:
        """With the compressed tokens [n, d] of a pass, a part of a larger tensor."""
        parts = (*self.features, features)
        return self._replace(features=parts if len(parts) <= PARTS else (torch.cat(parts),))


class Request(NamedTuple):
    """A part of the row of a pass: the request, and the place of its first token and of the one after its last."""

    state: Any
    begin: int
    end: int

    @property
    def start(self) -> int:
        """Position in the text of its first token."""
        return self.state.position_offset - (self.end - self.begin)

    @property
    def prompt_end(self) -> int:
        """Position in the text of the last token of the prompt, also where it was preempted and begun again."""
        return (self.state._true_initial_tokens or len(self.state.initial_tokens)) - 1

    def held(self, reader: str, like: torch.Tensor) -> Held:
        """The text before its first token, for an adapter, with tokens that it has not seen; `like` [n, d]."""
        held = getattr(self.state, "igc_text", None)
        if held is None or held.reader != reader or held.text.length > self.start:
            held = Held(reader, Text([]))
        unseen = self.start - held.text.length
        if not unseen:
            return held
        held = held._replace(text=held.text.appended([UNSEEN] * unseen))
        return held.appended(like.new_zeros(unseen, like.shape[1]))


class Packed(NamedTuple):
    """The texts of one pass: the parts of the row, and its tokens [T]."""

    requests: list[Request]
    ids: list[int]

    @classmethod
    def of(cls, processor: Callable[[], Any], input_ids: torch.Tensor) -> Packed:
        """Those of a pass with the ids [1, T]; the processor is called because it is referred to weakly."""
        requests, at = [], 0
        for one in processor().inputs_and_outputs.requests_in_batch:
            requests.append(Request(one.state, at, at + one.query_length))
            at += one.query_length
        return cls(requests, input_ids[0].tolist())

    def act(self, adapter: Adapter, features: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """`passes.act` for a row with several texts: the output h [1, T, H] of the decoder layer with its updates, the
        same bit for bit where nothing is written. `features` [1, T, d] are the compressed tokens of the pass."""
        known, features = Known(adapter), features[0]
        held = [one.held(adapter.key, features) for one in self.requests]
        texts, tokens = {}, {}
        for index, one in enumerate(self.requests):
            end = one.prompt_end if known.rules.prompt_end else -1
            texts[index], tokens[index] = held[index].text._replace(end=end), self.ids[one.begin : one.end]
            held[index] = held[index].appended(features[one.begin : one.end])

        def gather(requests: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            rows, row = requests[:, 0].unique(return_inverse=True)
            whole = [torch.cat(held[index].features) for index in rows.tolist()]
            return pad_sequence(whole, batch_first=True)[row[:, None], positions]

        told, _ = known.told(texts, tokens, gather)
        written: list[tuple[int, int, int]] = []
        for index, one in enumerate(self.requests):
            one.state.igc_text = held[index]._replace(text=texts[index])
            found = enumerate(told[index], one.begin)
            written += [(at, to.token, int(to.state)) for at, to in found if to is not None]
        if not written:
            return h
        at, token, spelled = torch.tensor(written).T.to(h.device)
        part = h[:, at]
        update, _ = adapter.writer(part, embed(adapter.embeddings, token[None]).to(h.device), spelled[None])
        return h.index_copy(1, at, part + update.to(h.dtype))
