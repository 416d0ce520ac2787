"""What is kept of each token on the device: a record in the paged KV cache of vLLM, next to keys and values.

A record is two integers, the token's id and the serial number of this record, and the compressed token that a later
step may read. vLLM allocates, counts, shares, frees and transfers the records with the blocks of the keys and values,
because they belong to a layer without attention (`RecordLayer`). No two records are written with one serial number, so
what the host knows of a text is kept under that of its last token, and holds for every place that the record gets to.

Shapes: N tokens of a pass, R requests, d features of a token. Try it: `make test-vllm`
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.v1.attention.backend import AttentionBackend, AttentionMetadataBuilder
from vllm.v1.core import kv_cache_utils as planning
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    HiddenStateCacheSpec,
    MLAAttentionSpec,
    UniformTypeKVCacheSpecs,
)


NAME = "igc.layers."  # and one integer, which vLLM allows in the name of a layer with a cache
WORDS = 16  # bytes of the two integers
NUMBERED = 1 << 16  # records whose serial numbers are made at once
ALIGNED = 16  # a record is a multiple of this many bytes


class _Builder(AttentionMetadataBuilder[Any]):
    """Its graph support is vLLM's default, none, so that full CUDA graphs, which replay without the host, are off."""

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        return common_attn_metadata  # a `CommonAttentionMetadata` of our group


class _Backend(AttentionBackend):
    supported_dtypes = [torch.float16, torch.bfloat16, torch.float32]  # noqa: RUF012
    supported_kv_cache_dtypes: list[str] = []  # noqa: RUF012
    forward_includes_kv_cache_update = True

    @staticmethod
    def get_name() -> str:
        return "IGC_RECORDS"

    @staticmethod
    def get_impl_cls() -> Any:
        return None

    @staticmethod
    def get_builder_cls() -> type[_Builder]:
        return _Builder


class Seen(NamedTuple):
    """The tokens of a pass, after their records are written."""

    starts: list[int]  # the first token of each request, and the end of the last one
    table: Tensor  # [R, blocks], the blocks of each request
    # `block`, `offset`: [N] int64, where the records are
    block: Tensor
    offset: Tensor
    serial: int  # the serial number of the first of them
    # [3 R + N] int32, on the way to the host: the serial number of the last token of each text before this pass, in
    # two parts; ids; and the number of tokens of each text
    facts: Tensor
    arrived: Any  # the event after which `facts` are there; None on the CPU

    def on_host(self) -> tuple[list[int], list[int], list[int]]:
        """Ids, the number of tokens of each text before this pass, and the serial number of the last of these."""
        if self.arrived is not None:
            self.arrived.synchronize()
        facts, requests = self.facts.tolist(), len(self.starts) - 1
        lengths = zip(facts[-requests:], pairwise(self.starts), strict=True)
        before = [length + start - end for length, (start, end) in lengths]
        known = zip(facts[: 2 * requests : 2], facts[1 : 2 * requests : 2], strict=True)
        return facts[2 * requests : -requests], before, [low % 2**32 + (high << 32) for low, high in known]


class RecordLayer(AttentionLayerBase):
    """A layer that only keeps records.

    Args:
        dim: d, 0 where the network never reads.
        dtype: of the features, two bytes each.
    """

    impl: Any = None

    def __init__(self, dim: int, dtype: torch.dtype) -> None:
        self.dim, self.dtype = dim, dtype
        self.size = -(-(WORDS + 2 * dim) // ALIGNED) * ALIGNED  # bytes of a record
        self.kv_cache = torch.empty(0)
        self.calculator: Any = None  # what writes and reads the records; the operators look for it here
        # Other engines write records too, which a connector may bring here.
        self._next = self._until = random.SystemRandom().getrandbits(30) << 32
        self._numbers = self._rows = self._behind = torch.empty(0)
        self._starts: list[int] = []

    # ---------------------------------------------------------------------------------------- vLLM's contract
    def get_attn_backend(self) -> type[AttentionBackend]:
        """The backend that has the metadata of a pass."""
        return _Backend

    def get_kv_cache_spec(self, vllm_config: Any) -> HiddenStateCacheSpec:
        """Bytes: where the dtype differs from that of keys and values, vLLM (0.32) zeroes new blocks, which models
        with several kinds of attention need, as a block of records may become one of keys."""
        size = vllm_config.cache_config.block_size
        return HiddenStateCacheSpec(
            block_size=size, num_kv_heads=1, head_size=self.size, dtype=torch.uint8, max_tp_shards=1
        )

    def bind_kv_cache(self, kv_cache: Tensor) -> None:
        """Takes the memory [blocks, 1, block size, record] uint8 that vLLM has allocated."""
        self.kv_cache, rows = kv_cache, kv_cache[:, 0]
        self.block_size = rows.shape[1]
        self.words = rows[..., :WORDS].view(torch.int64)  # [blocks, block size, 2]
        self.serials = self.words[..., 1]
        self.features = rows[..., WORDS : WORDS + 2 * self.dim].view(self.dtype)  # [blocks, block size, d]

    # ---------------------------------------------------------------------------------------- a pass
    def see(self, metadata: Any, ids: Tensor) -> Seen | None:
        """Writes the records of the tokens `ids` [at least N] of a pass, and sends to the host what it has to know."""
        requests, table, size = metadata.num_reqs, metadata.block_table_tensor, self.block_size
        starts = metadata.query_start_loc_cpu.tolist()[: requests + 1]
        new = starts[-1]
        if not new or not self.kv_cache.numel():
            return None
        ids, slots, lengths = first(ids, new), first(metadata.slot_mapping, new), first(metadata.seq_lens, requests)
        # Rounded towards zero, so that padding, -1, is in block 0, which belongs to no text.
        block, offset = slots.div(size, rounding_mode="trunc"), slots.fmod(size)
        serial, words = self._numbered(new, ids.device)
        words[:, 0].copy_(ids)
        self.words.index_put_((block, offset), words)
        if starts != self._starts:  # those of one pass after the other are mostly the same
            counts = [end - start + 1 for start, end in pairwise(starts)]
            self._starts, (self._rows, self._behind) = starts, to_device([range(requests), counts], ids.device)
        # The last token before the pass; -1, of a text that begins, gives a record that is not looked at.
        last = lengths - self._behind  # [R] int64
        page = table[self._rows, last.div(size, rounding_mode="trunc")]
        known = self.serials[page, last.fmod(size)]
        facts, arrived = to_host(torch.cat([known.view(torch.int32), ids, lengths]))
        return Seen(starts, table, block, offset, serial, facts, arrived)

    def _numbered(self, count: int, device: Any) -> tuple[int, Tensor]:
        """A serial number, and [count, 2] int64 that end in it and those after it, which are made for many passes."""
        if self._next + count > self._until:
            self._until = self._next + max(count, NUMBERED)
            self._numbers = torch.arange(self._next, self._until, device=device)[:, None].repeat(1, 2)
        serial, self._next = self._next, self._next + count
        start = serial - self._until + self._numbers.shape[0]
        return serial, self._numbers[start : start + count]

    def ids(self, table: Tensor, rows: list[int], lengths: list[int]) -> list[list[int]]:
        """Ids of the first tokens of some requests; a synchronization."""
        place = torch.arange(max(lengths), device=table.device)
        pages = table[torch.tensor(rows, device=table.device)][:, place // self.block_size].long()
        found = self.words[pages, place % self.block_size, 0].tolist()
        return [ids[:length] for ids, length in zip(found, lengths, strict=True)]

    def compressed(self, table: Tensor, rows: Tensor, positions: Tensor) -> Tensor:
        """The compressed tokens [n, W, d] at positions [n, W] of requests [n, 1]."""
        return self.features[table[rows, positions // self.block_size].long(), positions % self.block_size]


def join_full_attention() -> None:
    """Has vLLM (0.32) keep records in the blocks of a model's full attention, of which a text has one for every token.

    Where a model has several kinds of attention, vLLM gives records blocks of their own, each as large as one of all
    layers of a kind. But layers of another size may follow the others in a block, as long as no kind has more layers.
    """
    make, check = planning.get_kv_cache_groups, planning.validate_kv_cache_layout
    if make.__module__ == __name__:
        return

    def get_kv_cache_groups(vllm_config: Any, kv_cache_spec: dict[str, Any]) -> list[Any]:
        own = {name: spec for name, spec in kv_cache_spec.items() if name.startswith(NAME)}
        if not own:
            return make(vllm_config, kv_cache_spec)
        groups = make(vllm_config, {name: spec for name, spec in kv_cache_spec.items() if name not in own})
        most = max((len(group.layer_names) for group in groups), default=0)
        for group in groups:
            its = group.kv_cache_spec
            specs = getattr(its, "kv_cache_specs", None) or dict.fromkeys(group.layer_names, its)
            is_full = all(type(spec) in (FullAttentionSpec, MLAAttentionSpec) for spec in specs.values())
            if is_full and len(specs) == most:
                specs = {**specs, **{name: replace(spec, block_size=its.block_size) for name, spec in own.items()}}
                joined = UniformTypeKVCacheSpecs(block_size=its.block_size, kv_cache_specs=specs)
                group.layer_names, group.kv_cache_spec = [*specs], joined
                return groups
        return make(vllm_config, kv_cache_spec)

    def validate_kv_cache_layout(layout: Any, kv_cache_groups: list[Any]) -> None:
        others = [[name for name in group.layer_names if not name.startswith(NAME)] for group in kv_cache_groups]
        check(
            layout, [replace(group, layer_names=names) for group, names in zip(kv_cache_groups, others, strict=True)]
        )

    planning.get_kv_cache_groups, planning.validate_kv_cache_layout = get_kv_cache_groups, validate_kv_cache_layout


def first(x: Tensor, count: int) -> Tensor:
    """The first rows of a tensor that may be padded."""
    return x if x.shape[0] == count else x[:count]


def to_device(rows: list[Sequence[int]], device: Any) -> Tensor:
    """Integers on the device; from pinned memory, as a copy from other memory may wait for all that runs there."""
    flat = torch.tensor([*chain.from_iterable(rows)], pin_memory=device.type != "cpu")
    return flat.to(device, non_blocking=True).view(len(rows), -1)


def to_host(facts: Tensor) -> tuple[Tensor, Any]:
    """A copy on the host, and the event after which it is complete. Until then nobody else gets its memory, nor that
    of `to_device`: torch counts the copies of pinned memory."""
    if facts.device.type == "cpu":
        return facts, None
    host = torch.empty(facts.shape, dtype=facts.dtype, pin_memory=True)
    host.copy_(facts, non_blocking=True)
    arrived = torch.Event(facts.device)
    arrived.record()
    return host, arrived
