"""What is written into the records of a pass, and what the host is told of it; no engine is made."""

from types import SimpleNamespace

import pytest
import torch


records = pytest.importorskip("peft_igc.engines.vllm.records", reason="vLLM is not installed")
BLOCK = 16


@pytest.fixture
def layer(monkeypatch):
    monkeypatch.setattr(records, "NUMBERED", 3)
    made = records.RecordLayer(0, torch.bfloat16)
    made.bind_kv_cache(torch.zeros(4, 1, BLOCK, made.size, dtype=torch.uint8))
    return made


def seen(layer, starts, lengths, slots, ids):
    metadata = SimpleNamespace(
        num_reqs=len(lengths),
        block_table_tensor=torch.tensor([[1], [2]], dtype=torch.int32),
        query_start_loc_cpu=torch.tensor(starts),
        seq_lens=torch.tensor(lengths, dtype=torch.int32),
        slot_mapping=torch.tensor(slots),
    )
    return layer.see(metadata, torch.tensor(ids, dtype=torch.int32))


def test_the_host_is_told_the_ids_and_the_record_that_each_text_continues(layer):
    first = seen(layer, [0, 2, 3], [2, 1], [BLOCK, BLOCK + 1, 2 * BLOCK], [5, 6, 7])
    assert first.on_host()[:2] == ([5, 6, 7], [0, 0])
    for at in range(4):  # the last one has drafts
        new = 1 + (at == 3)
        slots = [BLOCK + 2 + at + one for one in range(new)] + [2 * BLOCK + 1 + at]
        later = seen(layer, [0, new, new + 1], [2 + at + new, 2 + at], slots, [8 + at] * (new + 1))
        expected = [first.serial + 1, first.serial + 2] if at == 0 else [later.serial - 2, later.serial - 1]
        assert later.on_host() == ([8 + at] * (new + 1), [2 + at, 1 + at], expected)
    assert layer.ids(later.table, [0, 1], [7, 5]) == [[5, 6, 8, 9, 10, 11, 11], [7, 8, 9, 10, 11]]


def test_padding_is_written_where_no_text_is(layer):
    seen(layer, [0, 2], [1], [BLOCK, -1], [5, 6])
    assert layer.words[1, 0, 0] == 5
    assert not layer.words[1, 1:].any()
    assert not layer.words[2:].any()


@pytest.mark.parametrize(("full", "sliding", "layers"), [(5, 29, 6), (3, 4, 1)])
def test_records_are_kept_with_full_attention_unless_other_groups_have_more_layers(full, sliding, layers):
    """They would lie in the memory of those layers: 3 and 4 layers make groups of up to 4."""
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
    from vllm.v1.kv_cache_layout import KVCacheLayout

    sizes = {"block_size": BLOCK, "num_kv_heads": 1, "head_size": 256, "dtype": torch.bfloat16}
    cache = SimpleNamespace(
        block_size=BLOCK,
        get_resolved_kv_cache_layout=lambda: KVCacheLayout.LBNHC,
        num_gpu_blocks_override=8,
        prefix_cache_retention_interval=None,
    )
    none = SimpleNamespace(disable_hybrid_kv_cache_manager=False, hisparse_config=None)
    config = SimpleNamespace(
        cache_config=cache, scheduler_config=none, attention_config=none, speculative_config=None, model_config=None
    )
    specs = {f"layers.{at}": FullAttentionSpec(**sizes) for at in range(full)}
    specs |= {f"layers.{full + at}": SlidingWindowSpec(**sizes, sliding_window=64) for at in range(sliding)}
    name = f"{records.NAME}{full + sliding}"
    specs[name] = records.RecordLayer(16, torch.bfloat16).get_kv_cache_spec(config)
    records.join_full_attention()
    groups = kv_cache_utils.get_kv_cache_groups(config, specs)
    (own,) = [group for group in groups if name in group.layer_names]
    assert len(own.layer_names) == layers
    planned = kv_cache_utils.get_kv_cache_config_from_groups(config, groups, 0)
    ends = {}
    for tensor in planned.kv_cache_tensors:
        for at, layer in enumerate(tensor.layers):
            ends[layer] = tensor.offset + (at + 1) * tensor.layer_stride
            assert ends[layer] <= tensor.size
    if layers > 1:
        begin = ends.pop(name) - planned.num_blocks * specs[name].page_size_bytes
        assert begin >= max(ends.values())
