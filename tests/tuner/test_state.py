"""Promises of `state`: what a text has left behind follows its rows and its length through every cache operation."""

import copy
import functools
import pickle
import threading
from types import SimpleNamespace

import pytest
import torch
from checks import MARGIN, TOLERANCE, adapted, assert_steps, margin, scored, state_of, steps_of, telling_texts
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from tiny_models import VOCABULARY
from transformers import DynamicCache, EncoderDecoderCache, StaticCache
from transformers.cache_utils import (
    DYNAMIC_LAYER_TYPE_MAPPING,
    STATIC_LAYER_TYPE_MAPPING,
    Cache,
    DynamicLayer,
    QuantizedLayer,
)

from peft_igc.numbers.token_table import UNSEEN
from peft_igc.tuner.call import (
    Call,
    Generation,
    _calls_by_storage,
    anchors_for_assistant,
    current_call,
    current_generation,
    generating,
    recall_call,
    remember_call,
    thread,
)
from peft_igc.tuner.state.cache import find_cache, states_of


@functools.cache
def random_llama():
    return adapted("llama")


@pytest.fixture(scope="module")
def llama():
    return random_llama()


# ------------------------------------------------------------------------------------------ schedules
piece = st.tuples(st.just("feed"), st.integers(1, 4), st.lists(st.integers(-1, 3), max_size=2, unique=True))
change = st.one_of(
    piece,
    st.tuples(st.just("crop"), st.integers(0, 5)),
    st.tuples(st.just("reorder"), st.integers(0, 10**6)),
    st.tuples(st.just("repeat"), st.integers(1, 2)),
    st.tuples(st.just("select"), st.integers(0, 10**6)),
    st.tuples(st.just("copy")),
)


class Twin:
    """The texts of a cache as plain lists: what the cache should hold."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.rows = [([], []), ([], [])]  # ids, anchors

    def draw(self, count):
        return torch.randint(3, VOCABULARY, (len(self.rows), count), generator=self.generator)

    def order(self, seed, count):
        return torch.randint(len(self.rows), (count,), generator=torch.Generator().manual_seed(seed))

    @property
    def length(self):
        return len(self.rows[0][0])


def feed(model, cache, twin, count, at):
    ids, start = twin.draw(count), twin.length
    # every row has its anchors one place behind the row before, where there is one
    places = [[a - i if 0 <= a - i < count else -1 for a in at] for i in range(len(twin.rows))]
    more = {"igc_anchors": torch.tensor(places)} if at else {}
    with torch.no_grad():
        logits = model(input_ids=ids, past_key_values=cache, **more).logits
    twin.rows = [
        ([*old, *new.tolist()], anchors + [start + p for p in new_at if p >= 0])
        for (old, anchors), new, new_at in zip(twin.rows, ids, places, strict=True)
    ]
    return logits


def apply(model, cache, twin, operation, *arguments):
    """One change of the cache and of its twin; the cache to go on with."""
    if operation == "feed":
        feed(model, cache, twin, *arguments)
    elif operation == "crop":
        left = max(twin.length - arguments[0], 1)
        cache.crop(left - twin.length)
        twin.rows = [(ids[:left], [a for a in anchors if a < left]) for ids, anchors in twin.rows]
    elif operation == "copy":
        cache = copy.deepcopy(cache)
    else:
        if operation == "repeat":
            order = torch.arange(len(twin.rows)).repeat_interleave(arguments[0])
            cache.batch_repeat_interleave(arguments[0])
        elif operation == "reorder":
            order = twin.order(arguments[0], len(twin.rows))
            cache.reorder_cache(order)
        else:
            order = twin.order(arguments[0], 2)
            cache.batch_select_indices(order)
        twin.rows = [(list(twin.rows[i][0]), list(twin.rows[i][1])) for i in order.tolist()]
    return cache


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True, phases=[Phase.generate])  # shrinking takes minutes
@given(schedule=st.lists(change, min_size=2, max_size=6), seed=st.integers(0, 10**6))
def test_any_schedule_of_cache_operations_equals_starting_over(schedule, seed):
    llama = random_llama()
    cache, twin = DynamicCache(config=llama.config), Twin(seed)
    feed(llama, cache, twin, 5, [2, 4])
    for operation, *arguments in schedule:
        cache = apply(llama, cache, twin, operation, *arguments)
    logits = feed(llama, cache, twin, 3, [1])
    for i, (ids, anchors) in enumerate(twin.rows):
        text, at = torch.tensor([ids]), torch.tensor([anchors or [-1]])
        assume(margin(steps_of(llama, text, at)) > MARGIN)
        torch.testing.assert_close(logits[i], scored(llama, text, at)[0, -3:], atol=TOLERANCE, rtol=0)
        assert_steps(llama, cache, i, text, at)


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


def test_a_reset_cache_has_forgotten_its_steps(llama):
    for make in (lambda c: DynamicCache(config=c), lambda c: StaticCache(config=c, max_cache_len=16)):
        cache, ids = filled(llama, make)
        cache.reset()
        assert states_of(cache, 1).get("default") is None or (state_of(cache).ids == UNSEEN).all()
        with torch.no_grad():
            again = llama(input_ids=ids.flip(0), past_key_values=cache, igc_anchors=torch.full((2, 1), 5)).logits
        torch.testing.assert_close(again, scored(llama, ids.flip(0), None), atol=TOLERANCE, rtol=0)
        assert int(torch.as_tensor(state_of(cache).length)) == 6


@pytest.mark.parametrize("how", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_a_copied_or_pickled_cache_carries_its_own_steps(llama, how):
    cache, _ = filled(llama)
    twin = how(cache)
    assert type(twin.layers[1]) is type(cache.layers[1])
    twin.crop(-3)
    assert state_of(cache).steps.anchors.tolist() == [[5], [5]]
    assert state_of(twin).steps.anchors.tolist() == [[-1], [-1]]
    assert state_of(twin).length == 3


class Plain(QuantizedLayer):
    """A quantized cache layer that quantizes by doing nothing."""

    def _quantize(self, tensor, axis):
        return tensor

    def _dequantize(self, q_tensor):
        return q_tensor


def test_a_quantized_cache_carries_the_steps(llama):
    cache, ids = filled(llama, lambda config: Cache(layers=[Plain(residual_length=4) for _ in range(3)]))
    with torch.no_grad():
        got = llama(input_ids=ids[:, :1], past_key_values=cache).logits
    text = torch.cat([ids, ids[:, :1]], 1)
    want = scored(llama, text, torch.full((2, 1), 5))[:, -1:]
    torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=0)


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


# ------------------------------------------------------------------------------------------ calls
MODEL, OTHER = torch.nn.Identity(), torch.nn.Identity()


def generation(ids=((1, 2, 3),), model=MODEL, anchors=((2,),)):
    prompt = torch.tensor(ids)
    return Generation(model, prompt, torch.ones_like(prompt), None if anchors is None else torch.tensor(anchors))


def test_nested_generations_end_in_order_though_their_tensors_cannot_be_compared():
    outer, within = generation(), generation()
    with generating(outer):
        with generating(within):
            assert current_generation(MODEL) is within
        assert current_generation(MODEL) is outer
        assert current_generation(OTHER) is None
    assert current_generation(MODEL) is None


def test_a_generation_owns_the_passes_on_its_cache_alone():
    running, own = generation(), object()
    assert running.owns(Call(MODEL, cache=own))
    assert running.owns(Call(MODEL, cache=own))
    assert not running.owns(Call(MODEL, cache=object()))
    assert not running.owns(Call(MODEL, input_ids=torch.tensor([[1, 2, 3]]), use_cache=False))


def test_without_a_cache_a_generation_owns_the_passes_that_begin_with_its_prompt():
    running = generation()

    def owns(ids, use_cache=False):
        return running.owns(Call(MODEL, input_ids=torch.tensor(ids), use_cache=use_cache))

    assert owns([[1, 2, 3]])
    assert owns([[1, 2, 3, 9]] * 3)  # beams
    assert not owns([[1, 2, 4, 9]])
    assert not owns([[1, 2]])
    assert not owns([[1, 2, 3]], use_cache=None)


def test_an_assistant_takes_the_anchors_of_the_generation_that_it_drafts_for():
    draft = torch.tensor([[1, 2, 3, 8, 9]])
    with generating(generation()):
        assert anchors_for_assistant(OTHER, draft).tolist() == [[2]]
        assert anchors_for_assistant(OTHER, draft + 1) is None
        assert anchors_for_assistant(OTHER, draft[:, :2]) is None
        assert anchors_for_assistant(MODEL, draft) is None  # no assistant, but a callback's own text
    with generating(generation(anchors=None)):
        assert anchors_for_assistant(OTHER, draft) is None


def test_each_thread_has_its_own_calls():
    seen = []
    thread.calls.append(Call(MODEL))
    try:
        worker = threading.Thread(target=lambda: seen.append(current_call(MODEL)))
        worker.start()
        worker.join()
        assert seen == [None]
        assert current_call(MODEL) is thread.calls[-1]
        assert current_call(OTHER) is None
    finally:
        thread.calls.pop()


def test_a_call_is_recalled_by_its_layers_input_for_as_long_as_that_lives():
    call, hidden = Call(MODEL, ran="default"), torch.zeros(2, 3)
    remember_call(call, hidden)
    again = recall_call(hidden.view(6))
    assert (again.model, again.ran) == (MODEL, None)
    assert again is not call
    assert recall_call(torch.zeros(2, 3)) is None
    storages = len(_calls_by_storage)
    del hidden, again  # which has the input as its embeddings
    remember_call(call, torch.zeros(1))
    assert len(_calls_by_storage) == storages
