"""Promises of `state`: what a text has left behind follows its rows and its length through every cache operation."""

import functools
from types import SimpleNamespace

import pytest
import torch
from checks import adapted, telling_texts
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import (
    DYNAMIC_LAYER_TYPE_MAPPING,
    STATIC_LAYER_TYPE_MAPPING,
    DynamicLayer,
)

from peft_igc.tuner.state.cache import find_cache, states_of


@functools.cache
def random_llama():
    return adapted("llama")


@pytest.fixture(scope="module")
def llama():
    return random_llama()


# ------------------------------------------------------------------------------------------ on a cache
def filled(model, make=lambda config: DynamicCache(config=config), rows=2):
    ids = torch.stack(telling_texts(model, [6] * rows))
    cache = make(model.config)
    with torch.no_grad():
        model(input_ids=ids, past_key_values=cache, igc_anchors=torch.full((rows, 1), 5))
    return cache, ids


def test_a_cache_layer_stays_what_it_was_and_gains_one_class(llama):
    kinds = dict(DYNAMIC_LAYER_TYPE_MAPPING), dict(STATIC_LAYER_TYPE_MAPPING)
    first, second = filled(llama)[0], filled(llama)[0]
    layer = first.layers[1]
    assert isinstance(layer, DynamicLayer)
    assert type(layer) is type(second.layers[1])
    assert repr(layer) == "DynamicLayer"
    assert type(first.layers[0]) is DynamicLayer
    assert (dict(DYNAMIC_LAYER_TYPE_MAPPING), dict(STATIC_LAYER_TYPE_MAPPING)) == kinds


def test_a_cache_layer_that_cannot_be_followed_is_refused():
    class Odd:
        def get_seq_length(self):
            return 0

    with pytest.raises(TypeError, match="`Odd` has no `reorder_cache`, `reset`, so the calculator's steps cannot"):
        states_of(SimpleNamespace(layers=[Odd()]), 0)


def test_a_cache_is_found_by_keyword_by_position_and_inside_of_a_pair():
    cache = DynamicCache()
    assert find_cache((1, cache), {}) is cache
    assert find_cache((), {"layer_past": cache}) is cache
    assert find_cache((), {"past_key_values": EncoderDecoderCache(cache, DynamicCache())}) is cache
    assert find_cache((None, 3), {"x": torch.zeros(1)}) is None
