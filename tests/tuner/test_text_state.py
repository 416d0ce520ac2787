"""Promises of the state of a text: a value that forks share, without a hole that looks like a beginning."""

import copy
import gc
import pickle
import weakref
from types import SimpleNamespace

import pytest
import torch
from checks import adapted, all_ids, close, igc_layers, same_bits, state_of, telling_texts, watching
from peft import get_peft_model
from tiny_models import ARCHITECTURES, small_config, tiny_model
from tiny_vocabulary import FACTS, VOCABULARY
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    Gemma3nForCausalLM,
    Gemma3nTextConfig,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    Lfm2Config,
    Lfm2ForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

from peft_igc import IGCConfig
from peft_igc.mappings.decisions import KINDS
from peft_igc.numbers.calculator import Status
from peft_igc.text.vocabulary import UNSEEN
from peft_igc.tuner import layer
from peft_igc.tuner.call import thread
from peft_igc.tuner.passes import TOGETHER
from peft_igc.tuner.state.cache import find_cache, states_of


def chat(tokenizer, text):
    messages = [{"role": "user", "content": text}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")["input_ids"]


def bytes_of(state):
    return sum(x.untyped_storage().nbytes() for x in (state.ids, state.features, *state.pending) if x is not None)


def answer(model, tokenizer, ids, cache=None):
    with watching() as seen, torch.no_grad():
        more = {} if cache is None else {"past_key_values": cache}
        mask = torch.ones_like(ids)
        out = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=8, do_sample=False, **more)
    return tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True).strip(), seen


@pytest.mark.parametrize("how", ["off", "rebuilt"])
def test_a_number_whose_beginning_was_not_seen_is_refused(trained, how):
    model, tokenizer = trained
    whole = chat(tokenizer, "What is 123456 plus 5?")
    at = next(i for i in range(whole.shape[1]) if tokenizer.decode(whole[0, i]) == "456")
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        if how == "off":
            with model.disable_adapter():
                model(input_ids=whole[:, :at], past_key_values=cache)
        else:
            filled = model(input_ids=whole[:, :at], use_cache=True).past_key_values
            for number, layer in enumerate(filled.layers):
                cache.update(layer.keys, layer.values, number)
    text, steps = answer(model, tokenizer, whole, cache)
    assert [step.result.status.tolist() for step in steps] == [[[int(Status.NONE)]]]
    with model.disable_adapter():
        assert text == answer(model, tokenizer, whole)[0]


def test_a_turn_after_one_that_was_not_seen_is_answered(trained):
    """What an earlier turn holds is in another sentence: it does not refuse this one."""
    model, tokenizer = trained
    first = chat(tokenizer, "What is 3 plus 4?")
    messages = [{"role": "user", "content": "What is 3 plus 4?"}, {"role": "assistant", "content": "7"}]
    messages.append({"role": "user", "content": "What is 84 divided by 7?"})
    both = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    cache = DynamicCache(config=model.config)
    with torch.no_grad(), model.disable_adapter():
        model(input_ids=first, past_key_values=cache)
    assert torch.equal(both[:, : first.shape[1]], first)
    assert answer(model, tokenizer, both, cache)[0] == "12"


def test_a_hidden_reading_over_unseen_text_is_refused_and_one_after_it_is_not():
    model = adapted("llama", interface="hidden", anchors={"inline": [[7]]})
    row = telling_texts(model, [9])[0]
    row = torch.where(row == 7, 8, row)
    row[-1] = 7
    cache = DynamicCache(config=model.config)
    with torch.no_grad(), watching() as seen:
        with model.disable_adapter():
            model(input_ids=row[None, :4], past_key_values=cache)
        model(input_ids=row[None, 4:], past_key_values=cache)
        model(input_ids=row[None], past_key_values=cache)
    statuses = [one.result.status.tolist() for one in seen]
    assert statuses == [[[int(Status.NONE)]], [[int(Status.OK)]]]


def test_a_cache_that_was_shortened_behind_its_back_is_not_read(trained, caplog):
    model, tokenizer = trained
    whole = chat(tokenizer, "What is 84 divided by 7?")
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=whole[:, :-1], past_key_values=cache)
        for layer in cache.layers:
            layer.keys, layer.values = layer.keys[:, :, 2:], layer.values[:, :, 2:]
        model(input_ids=whole[:, -1:], past_key_values=cache)
    state = state_of(cache, layer=model.peft_config["default"].layer)
    assert (all_ids(state)[0, :-1] == UNSEEN).all()
    assert "was not shortened by its own methods" in caplog.text


def test_an_adapter_that_was_replaced_under_its_name_does_not_go_on_with_a_text():
    model = adapted("llama", interface="tokens")
    cache = DynamicCache(config=model.config)
    ids = torch.randint(10, 60, (1, 5))
    with torch.no_grad():
        model(input_ids=ids, past_key_values=cache)
    kept = pickle.loads(pickle.dumps(cache))
    config = copy.deepcopy(model.peft_config["default"])
    model.add_adapter("other", config)
    model.set_adapter("other")
    model.delete_adapter("default")
    model.add_adapter("default", config)
    model.set_adapter("default")
    for one in (cache, kept):
        with pytest.raises(ValueError, match="another adapter with the name 'default', which has been replaced"):
            model(input_ids=ids, past_key_values=one)


def test_a_mask_of_neither_the_text_nor_the_call_is_refused():
    model = adapted("llama", interface="tokens")
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=torch.randint(10, 60, (1, 5)), past_key_values=cache)
        new, mask = torch.randint(10, 60, (1, 2)), torch.ones(1, 4, dtype=torch.int64)
        message = "`attention_mask` has 4 columns, but the text has 7 tokens: 5 in the KV cache and 2 in this call"
        with pytest.raises(ValueError, match=message):
            model(input_ids=new, past_key_values=cache, attention_mask=mask)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_whatever_is_raised_within_a_pass_nothing_is_left_of_it(error):
    def interrupt(module, args, output):
        raise error("now")

    model = adapted("llama", interface="tokens")
    handle = igc_layers(model)[0].get_base_layer().register_forward_hook(interrupt)
    cache = DynamicCache(config=model.config)
    kept = weakref.ref(cache)
    ids = torch.randint(10, 60, (1, 5))
    with pytest.raises(error, match="now"):
        model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), past_key_values=cache, max_new_tokens=2)
    handle.remove()
    assert thread.calls == []
    assert thread.generations == []
    del cache
    gc.collect()
    assert kept() is None
    # A pass of the backbone alone belongs to no call: it is off, and says so.
    with torch.no_grad():
        igc_layers(model)[0]._base_model[0].model(input_ids=ids)


def kept_bytes(model, ids, **options):
    """Bytes of the state after each pass of a `generate`."""
    seen, run = [], layer.act

    def watched(adapter, h, call, states):
        out = run(adapter, h, call, states)
        seen.append(bytes_of(states.get(adapter.name)))
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer, "_act_uncompiled", watched)
        mask = torch.ones_like(ids)
        model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=4, do_sample=False, **options)
    return seen


def test_behind_the_end_of_a_prompt_nothing_is_kept_unless_somebody_may_read_on(interface):
    model = adapted("llama", interface=interface, confidence=0.999999)  # never sure: every step is silent
    ids = torch.randint(10, 60, (1, 9))
    assert kept_bytes(model, ids) == [0] * 4
    per_token = 2 * model.peft_config["default"].reading_dim + 8
    read = 1 + (interface == "tokens")  # outputs [1, 1, H] of a pass that a decoded token is compressed from, later
    waiting = 8 + 4 * read * model.config.hidden_size
    whole = [9 * per_token + count * waiting for count in range(4)]
    assert kept_bytes(model, ids, return_dict_in_generate=True) == whole
    assert kept_bytes(model, ids, past_key_values=DynamicCache(config=model.config)) == whole
    chunks = kept_bytes(model, ids, prefill_chunk_size=4)
    assert chunks[0] > 0
    assert set(chunks[-3:]) == {0}
    if interface == "tokens":  # after a result the ids alone are kept
        sure = adapted("llama", interface=interface, confidence=0.0)
        ids = telling_texts(sure, [9])[0][None]
        assert kept_bytes(sure, ids) == [8 * length for length in (9, 10, 11, 12)]


def test_one_confidence_is_that_of_every_kind_of_operations(interface):
    model = adapted("llama", interface=interface, confidence=0.0)
    config, ids = model.peft_config["default"], torch.stack(telling_texts(model, [9, 9]))
    given = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    answers = []
    for least in (0.0, 0.999999):
        both = []
        for config.confidence in (least, dict.fromkeys(KINDS, least)):
            both.append((model(input_ids=ids).logits, model.generate(ids, **given)))
        same_bits(both[0][0], both[1][0])
        assert torch.equal(both[0][1], both[1][1])
        answers.append(both[0][0])
    assert not torch.equal(*answers)


def test_what_is_not_kept_changes_no_token(interface):
    model = adapted("llama", interface=interface)
    ids = torch.stack(telling_texts(model, [9, 9]))
    given = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    wanted = model.generate(ids, **given, return_dict_in_generate=True).sequences
    for options in ({}, {"use_cache": False}, {"prefill_chunk_size": 4}, {"cache_implementation": "static"}):
        assert torch.equal(model.generate(ids, **given, **options), wanted)


@pytest.mark.parametrize("change", ["none", "reordered", "beams", "forked", "cropped", "cropped into the prompt"])
def test_decoded_tokens_are_compressed_together_and_are_read_like_those_of_one_pass(interface, change):
    model = adapted("llama", interface=interface, read_from=[0, 1], anchors={"inline": [[7]]})
    ids = torch.randint(10, 60, (2, TOGETHER + 16), generator=torch.Generator().manual_seed(0))
    ids[:, -1], cache, waiting = 7, DynamicCache(config=model.config), []
    with torch.no_grad(), watching() as seen:
        model(input_ids=ids[:, :5], past_key_values=cache)
        at = 5
        while at < ids.shape[1]:
            if change == "beams" or (at == 14 and change == "reordered"):
                cache.reorder_cache(torch.tensor([1, 0]))
                ids = ids[[1, 0]]
            if at == 14 and change == "forked":
                fork = copy.copy(cache)
                fork.layers = [copy.copy(one) for one in cache.layers]
                model(input_ids=ids[:, 3:4], past_key_values=fork)
            if at == 14 and change.startswith("cropped") and len(waiting) == 9:
                at = 10 if change == "cropped" else 4
                cache.crop(at - 14)
            model(input_ids=ids[:, at : at + 1], past_key_values=cache)
            waiting.append(state_of(cache).waiting)
            at += 1
        whole = DynamicCache(config=model.config)
        model(input_ids=ids, past_key_values=whole)
    assert waiting[8] == 9  # tokens
    assert max(waiting) == TOGETHER
    assert waiting[-1] == 0  # after the anchor
    close(state_of(cache).features.float(), state_of(whole).features.float())
    by_token, at_once = seen
    close(by_token.reading.operator, at_once.reading.operator)


def test_gradients_do_not_depend_on_how_tokens_without_them_came():
    model = adapted("llama", interface="tokens", anchors={"inline": [[7]]}).train()
    ids = torch.randint(10, 60, (2, 12), generator=torch.Generator().manual_seed(0))
    ids[:, -1], found = 7, []
    for count in (1, 6):
        cache = DynamicCache(config=model.config)
        with torch.no_grad():
            for part in (ids[:, :5], *ids[:, 5:11].split(count, 1)):
                model(input_ids=part, past_key_values=cache)
        with watching() as seen:
            model(input_ids=ids[:, 11:], past_key_values=cache)
        weight = igc_layers(model)[0].igc_input_mapping["default"].compression.weight
        (step,) = seen
        found.append(torch.autograd.grad(step.reading.operator[..., 0].sum(), weight)[0])
    close(*found)


def test_a_cache_layer_that_cannot_be_followed_is_refused():
    class Odd:
        def get_seq_length(self):
            return 0

    with pytest.raises(TypeError, match="`Odd` has no `reorder_cache`, `reset`, so the calculator's steps cannot"):
        states_of(SimpleNamespace(layers=[Odd()]), 0)


def test_a_cache_is_found_inside_of_a_pair():
    cache = DynamicCache()
    assert find_cache((), {"past_key_values": EncoderDecoderCache(cache, DynamicCache())}) is cache


SMALL = ARCHITECTURES["llama"][2] | {"num_hidden_layers": 4}
LINEAR = {
    **dict.fromkeys(["linear_num_key_heads", "num_experts_per_tok"], 2),
    **dict.fromkeys(["linear_num_value_heads", "num_experts"], 4),
    **dict.fromkeys(["linear_key_head_dim", "linear_value_head_dim"], 8),
    **dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size"], 16),
}
GEMMA_3N = {
    "head_dim": 8,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 128,
    "laurel_rank": 4,
    "num_kv_shared_layers": 0,
    "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    "sliding_window": 8,
    "activation_sparsity_pattern": [0.0] * 4,
}


HYBRID = {
    "qwen3_next": lambda: Qwen3NextForCausalLM(Qwen3NextConfig(**SMALL, head_dim=8, **LINEAR)),
    "lfm2": lambda: Lfm2ForCausalLM(Lfm2Config(**SMALL, layer_types=["conv", "conv", "full_attention", "conv"])),
    "gemma3n": lambda: Gemma3nForCausalLM(Gemma3nTextConfig(**SMALL, **GEMMA_3N)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HYBRID)
def test_hybrid_architectures_work_at_the_default_layer(name):
    model = get_peft_model(HYBRID[name]().eval(), small_config())
    ids = torch.randint(10, 60, (1, 7), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole = model(input_ids=ids, igc_anchors=torch.tensor([[3]]), use_cache=False).logits
        with model.disable_adapter():
            base = model(input_ids=ids, use_cache=False).logits
        cache = DynamicCache(config=model.config)
        parts = [model(input_ids=ids[:, :4], past_key_values=cache, igc_anchors=torch.tensor([[3]])).logits]
        parts += [model(input_ids=ids[:, i : i + 1], past_key_values=cache).logits for i in range(4, 7)]
    assert not torch.allclose(whole, base, atol=1e-3)
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=2e-3, rtol=0)
    out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, pad_token_id=0)
    assert out.shape == (1, 10)


@pytest.mark.filterwarnings("ignore")
def test_a_layer_that_runs_at_the_end_of_a_prompt_only_is_refused():
    shared = {"head_dim": 8, "global_head_dim": 8, "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 8}
    shared |= {"vocab_size_per_layer_input": 128, "layer_types": ["sliding_attention", "full_attention"] * 2}
    base = Gemma4ForCausalLM(Gemma4TextConfig(**SMALL, **shared, sliding_window=8)).eval()
    with pytest.raises(ValueError, match="layer 2 got 1 of 7 tokens"):
        get_peft_model(base, small_config(layer=2)).generate(torch.ones(1, 7, dtype=int), max_new_tokens=2)


@pytest.mark.filterwarnings("ignore")
def test_a_model_without_any_attention_is_refused_beside_a_cache():
    base = MambaForCausalLM(MambaConfig(hidden_size=32, num_hidden_layers=3, vocab_size=128, state_size=4))
    model = get_peft_model(base.eval(), small_config())
    ids = torch.randint(10, 60, (1, 5))
    message = r"No layer of the KV cache \(`LinearAttentionLayer`\) has keys and values"
    with torch.no_grad(), pytest.raises(TypeError, match=message):
        model(input_ids=ids, use_cache=True)


# Llama-3.1-8B: keys and values of 8 heads of 128 in bf16, in each of 32 layers.
LAYERS, HEADS, HEAD_DIM = 32, 8, 128
CACHE_BYTES = LAYERS * 2 * HEADS * HEAD_DIM * 2  # per token
SHARE = 0.01

ROWS, LENGTH = 2, 48


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
        assert torch.tensor(state.anchors)[..., 0].tolist() == [[20, 41]] * ROWS
        assert (state.features.shape[-1], state.features.dtype) == (width, torch.bfloat16)
        # Of the storage: a tensor that is the view of a larger one would keep all of that alive.
        assert bytes_of(state) == ROWS * LENGTH * (2 * width + 8) <= SHARE * CACHE_BYTES * ROWS * LENGTH
