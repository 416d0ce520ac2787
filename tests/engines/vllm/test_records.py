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
