"""Promises of the step's buffer: what reading keeps of a text is at most 1% of the KV cache, at Llama-3.1-8B's sizes.

The buffer is what a `TextState` holds per token, its ids and features; its steps are counted apart, by anchor.
Computed from the default config, and measured on a model with the geometry of that model's KV cache, tiny elsewhere.
The buffer holds no hidden state, and goes with the cache. Try it: `pytest tests/tuner/test_buffer.py`
"""

import copy

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

ROWS, LENGTH = 2, 48


@pytest.mark.parametrize("interface", ["hidden", "tokens"])
def test_what_is_kept_of_a_text_is_at_most_one_percent_of_its_cache_and_holds_no_hidden_state(interface):
    tables = {"number_tokens": FACTS, "vocabulary": VOCABULARY} if interface == "tokens" else {}
    config = IGCConfig(layer=1, interface=interface, anchors={"inline": [[7], [8, 9]]}, **tables)
    ids = torch.randint(10, 60, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))
    ids[:, 20], ids[:, 40], ids[:, 41] = 7, 8, 9
    for hidden_size in (64, 1024):
        sizes = {"hidden_size": hidden_size, "head_dim": HEAD_DIM, "num_attention_heads": HEADS}
        base = tiny_model("llama", **sizes, num_key_value_heads=HEADS).to(torch.bfloat16)
        model = get_peft_model(base, copy.deepcopy(config)).eval()
        cache = DynamicCache(config=model.config)
        with torch.no_grad():
            for part in ids.split([30, LENGTH - 30], 1):
                model(input_ids=part, past_key_values=cache)
        state, layer, width = state_of(cache), cache.layers[0], config.reading_dim
        assert layer.keys.nbytes + layer.values.nbytes == CACHE_BYTES // LAYERS * ROWS * LENGTH
        assert state.steps.anchors.tolist() == [[20, 41]] * ROWS
        assert (state.features.shape[-1], state.features.dtype) == (width, torch.bfloat16)
        # Of the storage: a tensor that is the view of a larger one would keep all of that alive.
        assert state.nbytes == ROWS * LENGTH * (2 * width + 8) <= SHARE * CACHE_BYTES * ROWS * LENGTH
