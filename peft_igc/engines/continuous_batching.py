"""transformers' continuous batching: `generate_batch` and `transformers serve --continuous_batching`.

A pass of the manager (transformers 5.23) has one row with the new tokens of several requests. Each request carries its
text as an attribute, a value that never changes: so a fork copies a reference, a request that is preempted and begun
again has no text, one that is moved to the CPU and back keeps it, and the text of a finished request is freed with it.
The known half of all requests is decided on the host (`texts`), the steps of a pass are read in one padded batch, and
the updates are written at their places in the row.

The host acts between two layers, so there are no CUDA graphs, no compiled passes and no batches ahead of time. Blocks
of a shared prefix come with the compressed tokens that were seen when they were filled.

Shapes: T tokens of a pass, d mapping width, H hidden size.
Try it: `pytest tests/engines/test_continuous_batching.py`
"""

from __future__ import annotations

import logging
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

from ..numbers.token_table import UNSEEN
from ..tuner.adapter import Adapter
from ..tuner.config import IGCConfig
from ..tuner.writing import embed
from .texts import Known, Step, Text


logger = logging.getLogger(__name__)

__all__ = ["check", "followed"]

PARTS = 64  # tensors that hold the compressed tokens of a text before they are joined
_KEY = "igc_text"  # attribute of a request


def check(config: IGCConfig) -> None:
    """Refuses adapters whose texts cannot be followed in a row of several.

    Raises:
        ValueError: for the hidden interface, or without a vocabulary.
    """
    if config.interface != "tokens":
        raise ValueError(
            "Continuous batching packs several texts into one row, and the hidden interface reads and writes whole "
            "rows. Use `generate` with a padded batch, or train an adapter with `interface='tokens'`."
        )
    if not config.has_vocabulary:
        raise ValueError(
            "Continuous batching reads texts on the host, and this adapter has no vocabulary. Make one with "
            "`peft-igc convert DIR --tokenizer NAME_OR_DIR`."
        )


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


class Kept:
    """The compressed tokens of the contexts of n steps, indexed like a tensor [n, places, d].

    Args:
        contexts: of each step its text, the first token, and the last.
        device: where they are.
    """

    def __init__(self, contexts: Sequence[tuple[Held, int, int]], device: torch.device) -> None:
        self.device = device
        self._contexts = contexts
        self._padded: torch.Tensor | None = None

    def __getitem__(self, index: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """[n, W, d] at rows [n, 1] and places [n, W]. Made when the network asks, which it seldom does."""
        if self._padded is None:
            rows = [torch.cat(held.features)[first : last + 1] for held, first, last in self._contexts]
            self._padded = pad_sequence(rows, batch_first=True)
        return self._padded[index]


class Blocks:
    """The compressed tokens of full blocks, by all tokens up to their end; those that were used last.

    Args:
        size: tokens of a block.
        most: number of blocks.
    """

    def __init__(self, size: int, most: int) -> None:
        self.size, self.most = size, most
        self.clear()

    def clear(self) -> None:
        """Forgets all blocks."""
        # Of each block its number and compressed tokens, by the number of the block before it and its tokens.
        self._blocks: OrderedDict[tuple[int, tuple[int, ...]], tuple[int, torch.Tensor]] = OrderedDict()
        self._count = 0

    def found(self, ids: Sequence[int]) -> list[torch.Tensor]:
        """The compressed tokens [size, d] of the first blocks of a text, as far as they are known."""
        parts: list[torch.Tensor] = []
        before = 0
        for at in range(0, len(ids) - self.size + 1, self.size):
            key = (before, tuple(ids[at : at + self.size]))
            if key not in self._blocks:
                break
            self._blocks.move_to_end(key)
            before, features = self._blocks[key]
            parts.append(features)
        return parts

    def add(self, held: Held, start: int) -> None:
        """Adds the blocks of a text that have been filled from a position on."""
        end = held.text.length // self.size * self.size
        if end <= start:
            return
        whole, before = torch.cat(held.features), 0
        for at in range(0, end, self.size):
            key = (before, tuple(held.text.ids[at : at + self.size]))
            if key not in self._blocks:
                self._count += 1
                self._blocks[key] = self._count, whole[at : at + self.size].clone()
            before = self._blocks[key][0]
        while len(self._blocks) > self.most:
            self._blocks.popitem(last=False)


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
        self.shares = False  # whether the keys and values of a beginning depend on its tokens only
        # `block_size` up to transformers 5.18
        size = getattr(cache, "block_size", 0) or next(iter(cache.cache_allocators.values())).tokens_per_page
        self.blocks = Blocks(size, cache.num_blocks)
        self._beginnings: dict[str, tuple[torch.Tensor, ...]] = {}  # of requests that were given blocks, by their id
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

    def known(self, reader: str, config: IGCConfig, mapping: Any) -> Known:
        """What an adapter knows."""
        if self._known is None or self._known[0] != reader:
            self._known = reader, Known(config, mapping)
            self.blocks.clear()
            self.shares = not self._known[1].rules.prompt_end
        return self._known[1]

    def _search(self, request_id: str, ids: list[int]) -> int:
        """`search_prefix_match` of the cache: number of tokens whose blocks it has given to a request."""
        parts = self.blocks.found(ids[:-1]) if self.shares else []
        shared = self._match(request_id, ids[: len(parts) * self.blocks.size + 1])
        active = self._processor().scheduler.active_requests  # type: ignore[union-attr]
        self._beginnings = {name: one for name, one in self._beginnings.items() if name in active}
        if shared:
            self._beginnings[request_id] = tuple(parts[: shared // self.blocks.size])
        return shared

    def begun(self, known: Known, reader: str, one: Request) -> tuple[Held, Step | None]:
        """The text of a request that has none, before its part of a pass; and its last step, if it may be written."""
        parts = self._beginnings.pop(one.state.request_id, ())
        if not parts:
            return Held(reader, Text([])), None
        text, step = known.made(one.state.initial_tokens[: len(parts) * self.blocks.size])
        return Held(reader, text, parts), step


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
        known = self.packing.known(adapter.key, adapter.config, adapter.reader)
        texts = self._texts(known, adapter.key, features[0])
        written: list[tuple[int, int, int]] = []
        for one, held in zip(self.requests, texts, strict=True):
            text, found = known.continued(held.text, one.start)
            setattr(one.state, _KEY, held._replace(text=text))
            written += [(at, to.token, int(to.state)) for at, to in enumerate(found, one.begin) if to is not None]
        if not written:
            return h
        at, token, spelled = torch.tensor(written).T.to(h.device)
        part = h[:, at]
        update, _ = adapter.writer(part, embed(adapter.embeddings, token[None]).to(h.device), spelled[None])
        return h.index_copy(1, at, part + update.to(h.dtype))

    def _texts(self, known: Known, reader: str, features: torch.Tensor) -> list[Held]:
        """The texts with the tokens of this pass, and with the results of their steps; `features` [T, d]."""
        texts: list[Held] = []
        asked: list[tuple[int, Step]] = []
        for index, one in enumerate(self.requests):
            held, again = getattr(one.state, _KEY, None), None
            if held is None or held.reader != reader:
                held, again = self.packing.begun(known, reader, one)
            held = held.at(one.start, features)
            end = one.prompt_end if known.rules.prompt_end else -1
            text, steps = known.extended(held.text, self.ids[one.begin : one.end], end)
            held = held.appended(text, features[one.begin : one.end])
            if self.packing.shares:
                self.packing.blocks.add(held, one.start)
            texts.append(held)
            asked += [(index, step) for step in ([] if again is None else [again]) + steps]
        if asked:
            self._decide(known, texts, asked)
        return texts

    @staticmethod
    def _decide(known: Known, texts: list[Held], asked: Sequence[tuple[int, Step]]) -> None:
        """Decides steps at once, and begins their results in `texts`."""
        step_texts, firsts = known.texts_of([(texts[index].text, step) for index, step in asked])
        contexts = [(texts[at], first, step.anchor) for (at, step), first in zip(asked, firsts, strict=True)]
        decisions = known.decided(step_texts, Kept(contexts, texts[0].features[0].device))
        for (index, step), decision in zip(asked, decisions, strict=True):
            held = texts[index]
            row = held.text.row.begun([(step.anchor, known.progress(step.anchor, decision))])
            texts[index] = held._replace(text=held.text._replace(row=row))
