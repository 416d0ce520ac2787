"""transformers' continuous batching: `generate_batch` and `transformers serve --continuous_batching`.

A pass of the manager (transformers 5.23) has one row with the new tokens of several requests. Each request carries its
text as an attribute, a value that never changes: so a fork copies a reference, a request that is preempted and begun
again has no text, and one that is moved to the CPU and back keeps it. The known half is decided on the host (`texts`),
the steps of a pass are read in one padded batch, and the updates are written at their places in the row.

The host acts between two layers, so there are no CUDA graphs, no compiled passes and no batches ahead of time. A
request that begins with the blocks of another one takes its beginning from the texts that were seen lately.

Shapes: T tokens of a pass, d mapping width, H hidden size.
Try it: `pytest tests/engines/test_continuous_batching.py`
"""

from __future__ import annotations

import logging
import weakref
from collections import OrderedDict
from os.path import commonprefix
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

from ..numbers.token_table import UNSEEN
from ..tuner.adapter import Adapter
from ..tuner.writing import embed
from .texts import Known, Step, Text, check


logger = logging.getLogger(__name__)

__all__ = ["check", "followed"]

PARTS = 64  # tensors that hold the compressed tokens of a text before they are joined
_KEY = "igc_text"  # attribute of a request


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
            "`torch.compile` and asynchronous batches."
        )
    settings.use_cuda_graph, settings.use_async_batching = (False, False), False
    settings.varlen_compile_config = settings.decode_compile_config = None
    make = manager._create_batch_processor

    def create() -> Any:
        processor = make()
        if not hasattr(processor.cache, "igc_packing"):
            processor.cache.igc_packing = Packing(processor)
        return processor

    manager._create_batch_processor = create
    return manager


class Held(NamedTuple):
    """What a request carries.

    Attributes:
        reader: identifies the adapter.
        text: its text.
        features: the compressed tokens of the text, [n, d] each; together as many as it has tokens.
    """

    reader: str
    text: Text
    features: tuple[torch.Tensor, ...] = ()

    def __deepcopy__(self, memo: Any) -> Held:
        """Itself: nothing changes it, and `RequestState.fork` copies all of a request."""
        return self

    def at(self, length: int, like: torch.Tensor) -> Held:
        """The first tokens of the text, and tokens that nobody has seen up to a length; `like` [n, d]."""
        if length == self.text.length:
            return self
        if length < self.text.length:
            return self._replace(text=self.text.cropped(length), features=(torch.cat(self.features)[:length],))
        unseen = length - self.text.length
        text = self.text.appended([UNSEEN] * unseen)
        return self._replace(text=text, features=(*self.features, like.new_zeros(unseen, like.shape[1])))

    def appended(self, text: Text, features: torch.Tensor) -> Held:
        """The text with more tokens, whose compressed ones are `features` [n, d], a part of a larger tensor."""
        parts = (*self.features, features)
        return self._replace(text=text, features=parts if len(parts) <= PARTS else (torch.cat(parts),))


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


class Packing:
    """Finds the texts of a pass. Attached to the paged cache, which the pass is given.

    Where the cache has blocks of the same beginning of a text, it gives them to a new request only as far as their
    compressed tokens are known, too.

    Args:
        processor: the batch processor of the manager.
    """

    def __init__(self, processor: Any) -> None:
        cache = processor.cache
        self._processor = weakref.ref(processor)
        self._known: tuple[str, Known] | None = None
        # `block_size` up to transformers 5.18
        self._block = getattr(cache, "block_size", 0) or next(iter(cache.cache_allocators.values())).tokens_per_page
        self._most = cache.num_blocks * self._block
        self._lately: OrderedDict[str, Held] = OrderedDict()  # the last texts, by request; as many as the cache holds
        self._match = cache.search_prefix_match
        if cache.use_prefix_sharing:
            cache.search_prefix_match = self._search

    def __call__(self, input_ids: torch.Tensor) -> Packed:
        """The texts of a pass with the ids [1, T]: before its first layer, so that none is waited for."""
        processor: Any = self._processor()
        requests, at = [], 0
        for one in processor.inputs_and_outputs.requests_in_batch:
            requests.append(Request(one.state, at, at + one.query_length))
            at += one.query_length
        return Packed(self, requests, input_ids[0].tolist())

    def known(self, adapter: Adapter) -> Known:
        """What an adapter knows."""
        if self._known is None or self._known[0] != adapter.key:
            self._known = adapter.key, Known(adapter)
            self._lately.clear()
        return self._known[1]

    def keep(self, texts: dict[str, Held]) -> None:
        """Keeps the texts of a pass, by request, for those that begin like them."""
        # At the end of a prompt the keys and values of a beginning do not depend on its tokens only.
        if self._known is None or self._known[1].rules.prompt_end:
            return
        for name, held in texts.items():
            self._lately[name] = held
            self._lately.move_to_end(name)
        total = sum(held.text.length for held in self._lately.values())
        while total > self._most:
            total -= self._lately.popitem(last=False)[1].text.length

    def begun(self, known: Known, reader: str, one: Request) -> tuple[Held, Step | None]:
        """The text of a request that has none, before its part of a pass; and its last step, if it may be written."""
        ids = one.state.initial_tokens[: one.start]
        held, length = self._beginning(ids)
        text, step = known.made(ids[:length])
        return Held(reader, text, (torch.cat(held.features)[:length],) if length else ()), step

    def _beginning(self, ids: list[int]) -> tuple[Held, int]:
        """The late text that has most of its first tokens in common with some ids, and how many these are."""
        best, most = Held("", Text([])), 0
        for held in self._lately.values():
            length = len(commonprefix([held.text.ids[: held.text.length], ids]))
            best, most = (held, length) if length > most else (best, most)
        return best, most

    def _search(self, request_id: str, ids: list[int]) -> int:
        """`search_prefix_match` of the cache: number of tokens whose blocks it has given to a request."""
        length = self._beginning(ids[:-1])[1] // self._block * self._block
        return self._match(request_id, ids[: length + 1])


class Packed(NamedTuple):
    """The texts of one pass.

    Attributes:
        packing: has made it.
        requests: the parts of the row.
        ids: [T], the tokens.
    """

    packing: Packing
    requests: list[Request]
    ids: list[int]

    def act(self, adapter: Adapter, features: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """One pass of the adapter: `passes.act` for a row with several texts.

        Args:
            adapter: the active adapter.
            features: [1, T, d], the compressed tokens of the pass.
            h: [1, T, H], output of the decoder layer.

        Returns:
            [1, T, H], equal to h bit for bit where nothing is written.
        """
        known = self.packing.known(adapter)
        held, asked = self._held(known, adapter.key, features[0])
        texts = {index: one.text for index, one in enumerate(held)}

        def gather(requests: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            rows, row = requests[:, 0].unique(return_inverse=True)
            whole = [torch.cat(held[index].features) for index in rows.tolist()]
            return pad_sequence(whole, batch_first=True)[row[:, None], positions]

        known.decide(texts, asked, gather, h.device)
        written: list[tuple[int, int, int]] = []
        for index, one in enumerate(self.requests):
            text, found = known.continued(texts[index], one.start)
            held[index] = held[index]._replace(text=text)
            setattr(one.state, _KEY, held[index])
            written += [(at, to.token, int(to.state)) for at, to in enumerate(found, one.begin) if to is not None]
        self.packing.keep({one.state.request_id: text for one, text in zip(self.requests, held, strict=True)})
        if not written:
            return h
        at, token, spelled = torch.tensor(written).T.to(h.device)
        part = h[:, at]
        update, _ = adapter.writer(part, embed(adapter.embeddings, token[None]).to(h.device), spelled[None])
        return h.index_copy(1, at, part + update.to(h.dtype))

    def _held(self, known: Known, reader: str, features: torch.Tensor) -> tuple[list[Held], list[tuple[int, Step]]]:
        """The texts with the tokens of this pass, and their steps by request; `features` [T, d]."""
        texts: list[Held] = []
        asked: list[tuple[int, Step]] = []
        for index, one in enumerate(self.requests):
            held, again = getattr(one.state, _KEY, None), None
            if held is None or held.reader != reader:
                held, again = self.packing.begun(known, reader, one)
            held = held.at(one.start, features)
            end = one.prompt_end if known.rules.prompt_end else -1
            text, steps = known.extended(held.text, self.ids[one.begin : one.end], end)
            texts.append(held.appended(text, features[one.begin : one.end]))
            asked += [(index, step) for step in ([] if again is None else [again]) + steps]
        return texts, asked
