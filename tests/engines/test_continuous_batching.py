"""`generate_batch` of transformers answers as `generate` does, token for token, however it packs the requests."""

import gc
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from peft import get_peft_model
from tiny_models import small_config, tiny_model
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.generation.continuous_batching.requests import RequestState

from benchmarks.common.engine_texts import answers, prompts
from peft_igc.engines.continuous_batching import Held, Request
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.text.vocabulary import UNSEEN
from peft_igc.tuner.base_model import TINY


TOKENS = 20


@pytest.fixture(scope="module")
def model(adapter):
    return load_adapter(load_base(TINY)[0], adapter)


@pytest.fixture(scope="module")
def texts(tokenizer):
    return [*prompts(tokenizer, 24), [5], tokenizer("=")["input_ids"][-1:], tokenizer("2*3=")["input_ids"]]


@pytest.fixture(scope="module")
def expected(model, texts):
    return answered(model, texts)


def answered(model, texts):
    """The answers of `generate`, up to the end token."""
    end = model.generation_config.eos_token_id
    return [ids[: ids.index(end) + 1] if end in ids else ids for ids in answers(model, texts, TOKENS)]


def settings(model, **changed):
    chosen = {"max_new_tokens": TOKENS, "do_sample": False, "pad_token_id": 0, **changed}
    return GenerationConfig(eos_token_id=model.generation_config.eos_token_id, **chosen)


def paged(**changed):
    return ContinuousBatchingConfig(**{"num_blocks": 128, "page_size": 16, "max_batch_tokens": 512, **changed})


def batched(model, texts, **changed):
    """The answers of `generate_batch`."""
    found = model.generate_batch(texts, settings(model), paged(**changed))
    assert [one.error for one in found.values()] == [None] * len(texts)
    return [one.generated_tokens for one in found.values()]


@pytest.mark.parametrize("most", [512, 7])
def test_chats_and_running_texts_are_answered_as_by_generate_whole_and_in_chunks(model, texts, expected, most):
    assert batched(model, texts, max_batch_tokens=most) == expected


def test_eager_attention_and_bfloat16_answer_the_same(adapter, texts, expected):
    model = load_adapter(load_base(TINY)[0], adapter)
    model.get_base_model().set_attn_implementation("eager")
    assert batched(model, texts[:10]) == expected[:10]
    model = load_adapter(load_base(TINY)[0], adapter).to(torch.bfloat16)
    chosen = texts[:4] + texts[5:13]  # in the other one two tokens of the base are equally probable in bfloat16
    assert batched(model, chosen, max_batch_tokens=64) == answered(model, chosen)


def test_preempted_requests_begin_again(model, texts, expected, monkeypatch):
    chosen = [at for at, ids in enumerate(texts) if len(ids) < 40]
    begin_again = RequestState.create_equivalent_initial_request
    preempted = mock.Mock(side_effect=begin_again)
    monkeypatch.setattr(RequestState, begin_again.__name__, lambda *args: preempted(*args))
    found = batched(model, [texts[at] for at in chosen], num_blocks=30, page_size=4, safety_margin=0.0)
    assert found == [expected[at] for at in chosen]
    assert preempted.call_count > 1


def test_samples_of_a_request_have_texts_of_their_own(model, texts, expected):
    chosen = texts[:10]
    found = model.generate_batch(
        chosen, settings(model, do_sample=True, top_k=1, num_return_sequences=3), paged(max_batch_tokens=64)
    )
    assert [one.generated_tokens for one in found.values()] == [one for one in expected[:10] for _ in range(3)]


def test_requests_come_at_any_time(model, texts, expected):
    found = {}
    with model.continuous_batching_context_manager(settings(model), continuous_batching_config=paged()) as manager:
        for at, ids in enumerate(texts):
            manager.add_request(ids, request_id=str(at))
            manager.add_request(ids, request_id=f"cancelled {at}", max_new_tokens=500, eos_token_id=-1)
            one = manager.get_result(timeout=60)
            found[one.request_id] = one.generated_tokens
            manager.cancel_request(f"cancelled {at}")
        while len(found) < len(texts):
            one = manager.get_result(timeout=60)
            found[one.request_id] = one.generated_tokens
    gc.collect()
    assert not any(type(one) is Held for one in gc.get_objects())  # `isinstance` would ask proxies of torch
    assert [found[str(at)] for at in range(len(texts))] == expected


def test_a_prompts_end_is_an_anchor_in_a_row_of_several(adapter, tokenizer):
    model = load_adapter(load_base(TINY)[0], adapter)
    config = model.peft_config["default"]
    config.anchors = {"prompt_end": True, "ends": config.anchors["ends"]}
    texts = [tokenizer(one)["input_ids"] for one in ("12 + 30 =", "The cat: 7 * 6 =", "Hello", "1 + 1 = 2")]
    expected = answered(model, texts)
    with model.disable_adapter():
        assert answered(model, texts) != expected
    assert batched(model, texts * 2, max_batch_tokens=6, page_size=4) == expected * 2


def test_silent_texts_are_the_base_models(model, texts):
    silent = texts[1:24:5]
    with model.disable_adapter():
        of_base = batched(model, silent)
    assert batched(model, silent) == of_base


def test_tokens_from_while_the_calculator_was_off_are_unseen():
    state = SimpleNamespace(position_offset=5, initial_tokens=[])
    held = Request(state, 0, 2).held("reader", torch.zeros(1, 4))
    assert held.text.ids == [UNSEEN] * 3
    assert [part.shape for part in held.features] == [(3, 4)]


WAYS = {
    "generate_batch": lambda model: model.generate_batch([[5, 6], [7]], settings(model, max_new_tokens=2)),
    "paged": lambda model: model.generate(torch.tensor([[5, 6]]), cache_implementation="paged", max_new_tokens=2),
    "a manager": lambda model: model.init_continuous_batching(settings(model)),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_packed_is_refused_before_the_first_pass(way, monkeypatch):
    model = get_peft_model(tiny_model("llama"), small_config())
    monkeypatch.setattr(model.base_model.model, "forward", lambda *args, **kwargs: pytest.fail("a forward pass"))
    with pytest.raises(ValueError, match="the hidden interface, which reads and writes whole rows .*padded"):
        WAYS[way](model)


def test_a_manager_from_before_the_calculator_is_refused_and_a_kept_one_goes_on(model, texts, expected):
    with model.disable_adapter():
        model.generate_batch(texts[:2], settings(model), paged(), persistent_manager=True)
    with pytest.raises(ValueError, match="destroy_cached_continuous_batching_manager"):
        model.generate_batch(texts[:2], settings(model), paged())
    model.destroy_cached_continuous_batching_manager()
    for _ in range(2):
        found = model.generate_batch(texts[:5], settings(model), paged(), persistent_manager=True)
        assert [one.generated_tokens for one in found.values()] == expected[:5]
    model.destroy_cached_continuous_batching_manager()
