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


WORDS = 16  # bytes of the two integers
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
    table: torch.Tensor  # [R, blocks], the blocks of each request
    # `block`, `offset`: [N] int64, where the records are
    block: torch.Tensor
    offset: torch.Tensor
    serial: int  # the serial number of the first of them
    # [N + 2 R] int64, on the way to the host: ids, tokens of each text before this pass, and the serial number of the
    # last of these
    facts: torch.Tensor
    arrived: Any  # the event after which `facts` are there; None on the CPU

    def on_host(self) -> tuple[list[int], list[int], list[int]]:
        """`facts`, in their three parts."""
        if self.arrived is not None:
            self.arrived.synchronize()
        facts, new, requests = self.facts.tolist(), self.starts[-1], len(self.starts) - 1
        return facts[:new], facts[new : new + requests], facts[new + requests :]


class RecordLayer(AttentionLayerBase):
    """A layer that only keeps records.

    Args:
        dim: d, 0 where the network never reads.
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
        self.features = rows[..., WORDS : WORDS + 2 * self.dim].view(self.dtype)  # [blocks, block size, d]

    # ---------------------------------------------------------------------------------------- a pass
    def see(self, metadata: Any, ids: torch.Tensor) -> Seen | None:
        """Writes the records of the tokens `ids` [at least N] of a pass, and sends to the host what it has to know."""
        requests, table = metadata.num_reqs, metadata.block_table_tensor
        starts = metadata.query_start_loc_cpu[: requests + 1].tolist()
        new = starts[-1]
        if not new or not self.kv_cache.numel():
            return None
        ids = ids[:new].long()
        filled = metadata.slot_mapping[:new].clamp(min=0)  # -1 for padding: block 0 belongs to no text
        block, offset = filled // self.block_size, filled % self.block_size
        serial, self._next = self._next, self._next + new
        numbers = torch.arange(serial, serial + new, device=ids.device)
        self.words[block, offset] = torch.stack([ids, numbers], 1)
        before = metadata.seq_lens[:requests] - metadata.query_start_loc[: requests + 1].diff()  # [R]
        last = before - 1  # -1, of a text that begins, gives the record of another place, which is not looked at
        pages = table[torch.arange(requests, device=ids.device), last // self.block_size]
        known = self.words[pages, last % self.block_size, 1]
        facts, arrived = _to_host(torch.cat([ids, before, known]))
        return Seen(starts, table, block, offset, serial, facts, arrived)

    def ids(self, table: torch.Tensor, rows: list[int], lengths: list[int]) -> list[list[int]]:
        """Ids of the first tokens of some requests; a synchronization."""
        place = torch.arange(max(lengths), device=table.device)
        pages = table[torch.tensor(rows, device=table.device)][:, place // self.block_size].long()
        found = self.words[pages, place % self.block_size, 0].tolist()
        return [ids[:length] for ids, length in zip(found, lengths, strict=True)]

    def compressed(self, table: torch.Tensor, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The compressed tokens [n, W, d] at positions [n, W] of requests [n, 1]."""
        return self.features[table[rows, positions // self.block_size].long(), positions % self.block_size]


def _to_host(facts: torch.Tensor) -> tuple[torch.Tensor, Any]:
    """A copy on the host, and the event after which it is complete."""
    if facts.device.type == "cpu":
        return facts, None
    host = torch.empty(facts.shape, dtype=facts.dtype, pin_memory=True)
    host.copy_(facts, non_blocking=True)
    arrived = torch.Event(facts.device)
    arrived.record()
    return host, arrived
