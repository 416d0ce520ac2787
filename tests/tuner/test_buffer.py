"""Promises of the step's buffer: what reading keeps of a text is at most 1% of the KV cache, at Llama-3.1-8B's sizes.

The buffer is what a `TextState` holds per token, its blocks; its steps are counted apart, by anchor.
Computed from the default config, and measured on a model with the geometry of that model's KV cache, tiny elsewhere.
The buffer holds no hidden state, and goes with the cache. Try it: `pytest tests/tuner/test_buffer.py`
"""

import pytest
import torch
from checks import state_of
from peft import get_peft_model
from tiny_models import tiny_model
from tiny_vocabulary import FACTS, VOCABULARY
from transformers import DynamicCache

from peft_igc import IGCConfig


# Llama-3.1-8B: keys and values of 8 heads of 128 in bf16, in each of 32 layers.
LAYERS, HEADS, HEAD_DIM = 32, 8, 128
CACHE_BYTES = LAYERS * 2 * HEADS * HEAD_DIM * 2  # per token
SHARE = 0.01

INTERFACES = ["hidden", "tokens"]
ROWS, LENGTH = 2, 48


def default_config(interface):
    tables = {"number_tokens": FACTS, "vocabulary": VOCABULARY} if interface == "tokens" else {}
    return IGCConfig(layer=1, interface=interface, anchors={"inline": [[7], [8, 9]]}, **tables)


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


def tensors_of(state):
    """Everything that lies on the cache: by token, by step, by row."""
    return [x for block in state.blocks for x in block], [*state.steps], [state.real]


def buffer_bytes(state):
    """Bytes per token."""
    return bytes_of(*tensors_of(state)[0]) / (ROWS * state.length)


@pytest.mark.parametrize("interface", INTERFACES)
def test_measured_on_a_cache_the_buffer_is_at_most_one_percent_of_it(interface):
    cache = cached(like_llama_8b(interface))
    state = state_of(cache)
    layer = bytes_of(cache.layers[0].keys, cache.layers[0].values) / (ROWS * LENGTH)
    assert LAYERS * layer == CACHE_BYTES
    assert state.length == LENGTH
    assert state.steps.anchors.tolist() == [[20, 41]] * ROWS
    assert buffer_bytes(state) <= SHARE * LAYERS * layer
    # A tensor that is the view of a larger one would keep all of that alive.
    by_token, by_step, by_row = tensors_of(state)
    held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in (*by_token, *by_step, *by_row)}
    assert sum(held.values()) <= SHARE * LAYERS * layer * ROWS * LENGTH + bytes_of(*by_step, *by_row)
    assert state.nbytes == bytes_of(*by_token)


@pytest.mark.parametrize("interface", INTERFACES)
def test_the_buffer_holds_no_hidden_state(interface):
    narrow, wide = (state_of(cached(like_llama_8b(interface, size))) for size in (64, 1024))
    for state in (narrow, wide):
        for block in state.blocks:
            assert block.features.shape[-1] == default_config(interface).reading_dim
            assert block.features.dtype == torch.bfloat16
    assert buffer_bytes(narrow) == buffer_bytes(wide)
    # no tensor of another width hides in it
    assert all(t.shape[-1] != 1024 for part in tensors_of(wide) for t in part)
