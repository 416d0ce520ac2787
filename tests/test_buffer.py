"""Promises of the step's buffer: what reading keeps of a text is at most 1% of the KV cache, at Llama-3.1-8B's sizes.

The buffer is what a `Record` holds per token (`kept`, `valid`, `ids`); its steps are counted apart, one per anchor.
Computed from the default config, and measured on a model with the geometry of that model's KV cache, tiny elsewhere.
The buffer holds no hidden state, and goes with the cache. Try it: `pytest tests/test_buffer.py`
"""

import dataclasses
import gc
import weakref

import pytest
import torch
from checks import record_of
from peft import get_peft_model
from tiny_models import tiny_model
from tiny_vocabulary import TABLE
from transformers import DynamicCache

from peft_igc import IGCConfig
from peft_igc.state import Record


# Llama-3.1-8B: keys and values of 8 heads of 128 in bf16, in each of 32 layers.
LAYERS, HEADS, HEAD_DIM = 32, 8, 128
CACHE_BYTES = LAYERS * 2 * HEADS * HEAD_DIM * 2  # per token
SHARE = 0.01

BUFFER, STEPS = ("kept", "valid", "ids"), ("anchors", "digits", "signs", "status", "told", "shortcut")
INTERFACES = ["hidden", "tokens"]
ROWS, LENGTH = 2, 48


def default_config(interface):
    tables = {"number_tokens": TABLE.to_json()} if interface == "tokens" else {}
    return IGCConfig(layer=1, interface=interface, anchor="tokens", inline_token_ids=[[7], [8, 9]], **tables)


def like_llama_8b(interface, hidden_size=64):
    """A model with Llama-3.1-8B's keys and values in each of its three layers, in bf16, with the default adapter."""
    sizes = {"hidden_size": hidden_size, "head_dim": HEAD_DIM, "num_attention_heads": HEADS}
    model = tiny_model("llama", **sizes, num_key_value_heads=HEADS).to(torch.bfloat16)
    return get_peft_model(model, default_config(interface)).eval()


def cached(model):
    """The cache of a text with two anchors in a row, in two passes."""
    ids = torch.randint(10, 60, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))
    ids[:, 20], ids[:, 40], ids[:, 41] = 7, 8, 9
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        for part in ids.split([30, LENGTH - 30], 1):
            model(input_ids=part, past_key_values=cache)
    return cache


def bytes_of(*tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def buffer_bytes(record):
    """Bytes per token."""
    return bytes_of(*(getattr(record, name) for name in BUFFER)) / (ROWS * record.length)


def test_the_record_has_no_part_that_is_counted_nowhere():
    assert {f.name for f in dataclasses.fields(Record)} == {*BUFFER, *STEPS}


@pytest.mark.parametrize("interface", INTERFACES)
def test_by_the_default_config_the_buffer_is_at_most_one_percent_of_the_cache(interface):
    config = default_config(interface)
    per_token = config.reading_dim * 2 + 1 + 8  # in bf16, a flag, an id
    assert CACHE_BYTES == 131_072
    assert per_token <= SHARE * CACHE_BYTES, f"{per_token} bytes per token"


@pytest.mark.parametrize("interface", INTERFACES)
def test_measured_on_a_cache_the_buffer_is_at_most_one_percent_of_it(interface):
    cache = cached(like_llama_8b(interface))
    record = record_of(cache)
    layer = bytes_of(cache.layers[0].keys, cache.layers[0].values) / (ROWS * LENGTH)
    assert LAYERS * layer == CACHE_BYTES
    assert record.length == LENGTH
    assert record.anchors.tolist() == [[20, 41]] * ROWS
    assert buffer_bytes(record) <= SHARE * LAYERS * layer
    # A tensor that is the view of a larger one would keep all of that alive.
    held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in vars(record).values()}
    steps = bytes_of(*(getattr(record, name) for name in STEPS))
    assert sum(held.values()) <= SHARE * LAYERS * layer * ROWS * LENGTH + steps


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_step_costs_no_more_than_a_few_numbers_and_its_digits(interface):
    config = default_config(interface)
    record = record_of(cached(like_llama_8b(interface)))
    per_step = bytes_of(*(getattr(record, name) for name in STEPS)) / record.anchors.numel()
    assert per_step == 8 * (config.result_digits + 4)  # position, sign, status, where it was told
    assert per_step <= SHARE * CACHE_BYTES  # less than the buffer of a token: an anchor costs at most one more


@pytest.mark.parametrize("interface", INTERFACES)
def test_the_buffer_holds_no_hidden_state(interface):
    narrow, wide = (record_of(cached(like_llama_8b(interface, size))) for size in (64, 1024))
    assert narrow.kept.shape[-1] == wide.kept.shape[-1] == default_config(interface).reading_dim
    assert narrow.kept.dtype == wide.kept.dtype == torch.bfloat16
    assert buffer_bytes(narrow) == buffer_bytes(wide)
    # no tensor of another width hides in it
    assert all(t.shape[-1] != 1024 for t in vars(wide).values())


@pytest.mark.parametrize("interface", INTERFACES)
def test_the_buffer_lies_with_the_cache_and_goes_with_it(interface):
    model = like_llama_8b(interface)
    cache = cached(model)
    assert [hasattr(layer, "_igc") for layer in cache.layers] == [False, True, False]
    record = record_of(cache)
    tensors = [weakref.ref(getattr(record, name)) for name in (*BUFFER, *STEPS)]
    assert not any(t.requires_grad for t in vars(record).values())
    del record
    gc.collect()
    assert all(tensor() is not None for tensor in tensors)  # the cache holds them
    del cache
    gc.collect()
    assert [tensor() for tensor in tensors] == [None] * len(tensors)  # and nothing else does


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_cache_that_is_reset_keeps_no_buffer(interface):
    cache = cached(like_llama_8b(interface))
    tensor = weakref.ref(record_of(cache).kept)
    cache.reset()
    gc.collect()
    assert tensor() is None
