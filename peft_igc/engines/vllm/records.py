"""What is kept of each token on the device: a record in the paged KV cache of vLLM, next to keys and values.

A record is two integers, the token's id and the serial number of this record, and the compressed token that a later
step may read. vLLM allocates, counts, shares, frees and transfers the records with the blocks of the keys and values,
because they belong to a layer without attention (`RecordLayer`). No two records are written with one serial number, so
what the host knows of a text is kept under that of its last token, and holds for every place that the record gets to.

Shapes: N tokens of a pass, R requests, d features of a token. Try it: `make test-vllm`
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import torch
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.v1.attention.backend import AttentionBackend, AttentionMetadataBuilder
from vllm.v1.kv_cache_interface import HiddenStateCacheSpec


__all__ = ["Kept", "PassMetadata", "RecordLayer", "Seen"]

WORDS = 16  # bytes of the two integers
ALIGNED = 16  # a record is a multiple of this many bytes


class PassMetadata(NamedTuple):
    """What vLLM says of a pass.

    Attributes:
        starts: the first token of each request, and the end of the last one.
        query_start: [R + 1], the same on the device.
        seq_lens: [R], tokens of each text, with those of this pass.
        block_table: [R, blocks].
        slot_mapping: [N] int64, -1 for padding; attribute names are vLLM's where its connectors read them.
    """

    starts: list[int]
    query_start: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor


class _Builder(AttentionMetadataBuilder[PassMetadata]):
    """Its graph support is vLLM's default, none, so that full CUDA graphs, which replay without the host, are off."""

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> PassMetadata:
        given, requests = common_attn_metadata, common_attn_metadata.num_reqs
        starts = given.query_start_loc_cpu[: requests + 1].tolist()
        return PassMetadata(
            starts,
            given.query_start_loc[: requests + 1],
            given.seq_lens[:requests],
            given.block_table_tensor,
            given.slot_mapping[: starts[-1]],
        )


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
    """The tokens of a pass, after their records are written.

    Attributes:
        metadata: of the pass.
        block, offset: [N] int64, where their records are.
        serial: the serial number of the first of them.
        facts: [2 N + 2 R] int64, on the way to the host: ids, slots, tokens of each text before this pass, and the
            serial number of the last of these.
        arrived: the event after which `facts` are there; None on the CPU.
    """

    metadata: PassMetadata
    block: torch.Tensor
    offset: torch.Tensor
    serial: int
    facts: torch.Tensor
    arrived: Any

    def on_host(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """`facts`, in their four parts."""
        if self.arrived is not None:
            self.arrived.synchronize()
        facts, new = self.facts.tolist(), self.metadata.starts[-1]
        requests = (len(facts) - 2 * new) // 2
        parts = (0, new, 2 * new, 2 * new + requests, len(facts))
        ids, slots, before, serials = (facts[a:b] for a, b in zip(parts, parts[1:], strict=False))
        return ids, slots, before, serials


class RecordLayer(AttentionLayerBase):
    """A layer that only keeps records.

    Args:
        dim: d.
        dtype: of the features, two bytes each.

    Attributes:
        calculator: what writes and reads them; the operators look for it here.
    """

    impl: Any = None

    def __init__(self, dim: int, dtype: torch.dtype) -> None:
        self.dim, self.dtype = dim, dtype
        self.size = -(-(WORDS + 2 * dim) // ALIGNED) * ALIGNED  # bytes of a record
        self.kv_cache = torch.empty(0)
        self.calculator: Any = None
        # Other engines write records too, which a connector may bring here.
        self._next = random.SystemRandom().getrandbits(30) << 32

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

    def bind_kv_cache(self, kv_cache: torch.Tensor) -> None:
        """Takes the memory [blocks, 1, block size, record] uint8 that vLLM has allocated."""
        self.kv_cache, rows = kv_cache, kv_cache[:, 0]
        self.block_size = rows.shape[1]
        self.words = rows[..., :WORDS].view(torch.int64)  # [blocks, block size, 2]
        self.serials = self.words[..., 1]
        self.features = rows[..., WORDS : WORDS + 2 * self.dim].view(self.dtype)  # [blocks, block size, d]

    # ---------------------------------------------------------------------------------------- a pass
    def see(self, metadata: PassMetadata, ids: torch.Tensor) -> Seen:
        """Writes the records of the tokens `ids` [N] of a pass, and sends to the host what it has to know."""
        slots, new = metadata.slot_mapping, metadata.starts[-1]
        ids = ids[:new].long()
        filled = slots.clamp(min=0)  # block 0 belongs to no text
        block, offset = filled // self.block_size, filled % self.block_size
        serial, self._next = self._next, self._next + new
        numbers = torch.arange(serial, serial + new, device=ids.device)
        self.words[block, offset] = torch.stack([ids, numbers], 1)
        before = metadata.seq_lens - metadata.query_start.diff()  # [R]
        last = before - 1  # -1, of a text that begins, gives the record of another place, which is not looked at
        pages = metadata.block_table[torch.arange(len(last), device=ids.device), last // self.block_size]
        known = self.serials[pages, last % self.block_size]
        facts, arrived = _to_host(torch.cat([ids, slots, before, known]))
        return Seen(metadata, block, offset, serial, facts, arrived)

    def texts(self, metadata: PassMetadata, rows: list[int], lengths: list[int]) -> list[list[list[int]]]:
        """Ids and serial numbers of the first tokens of some requests; a synchronization."""
        device = metadata.block_table.device
        place = torch.arange(max(lengths), device=device)
        pages = metadata.block_table[torch.tensor(rows, device=device)][:, place // self.block_size].long()
        found = self.words[pages, place % self.block_size].tolist()  # [rows, longest, 2]
        return [words[:length] for words, length in zip(found, lengths, strict=True)]


class Kept:
    """The compressed tokens of the contexts of n steps, indexed like a tensor [n, places, d].

    Args:
        layer: has their records.
        block_table: [n, blocks] of their requests.
        first: the position of each context's first token.
    """

    def __init__(self, layer: RecordLayer, block_table: torch.Tensor, first: list[int]) -> None:
        self.device = block_table.device
        self._layer, self._table = layer, block_table
        self._first = torch.tensor(first, device=self.device)

    def __getitem__(self, index: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """[n, W, d] at rows [n, 1] and places [n, W]."""
        rows, place = index
        position = place + self._first[rows]
        size = self._layer.block_size
        return self._layer.features[self._table[rows, position // size].long(), position % size]


def _to_host(facts: torch.Tensor) -> tuple[torch.Tensor, Any]:
    """A copy on the host, and the event after which it is complete."""
    if facts.device.type == "cpu":
        return facts, None
    host = torch.empty(facts.shape, dtype=facts.dtype, pin_memory=True)
    host.copy_(facts, non_blocking=True)
    arrived = torch.Event(facts.device)
    arrived.record()
    return host, arrived
