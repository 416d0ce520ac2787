"""Promises of generation with the default anchor: caches in all hands, several adapters, padding, embeddings.

The yardstick everywhere is one uncached pass over each text alone, without padding and with its anchors given: logits
within 1e-4 in float32, steps exactly equal, on texts whose readings are clear and differ between the rows of a batch.
`tests/tuner/test_inline_generation.py` has the modes of `generate`, and the architectures.
"""

import copy
import functools

import pytest
import torch
from checks import (
    TOLERANCE,
    adapted,
    all_ids,
    assert_as_scored,
    assert_steps,
    close,
    generated,
    left_padded,
    positions_of,
    scored,
    state_of,
    telling,
    telling_texts,
    watching,
)
from peft import get_peft_model
from tiny_models import small_config, tiny_model
from transformers import DynamicCache, LogitsProcessor, LogitsProcessorList, StaticCache

from peft_igc.numbers.token_table import UNSEEN
from peft_igc.tuner.steps import Step, calculate_step


INTERFACES = ["hidden", "tokens"]
LENGTHS = [9, 5, 7]


def ends(rows):
    return [[len(row) - 1] for row in rows]


@functools.cache
def made(arch, interface):
    """A telling model, and texts that it reads as different calculations."""
    model = adapted(arch, interface=interface)
    return model, telling_texts(model, LENGTHS)


@pytest.fixture(params=INTERFACES)
def interface(request):
    return request.param


@pytest.fixture
def llama(interface):
    return made("llama", interface)


def test_what_is_written_matters(llama, monkeypatch):
    model, rows = llama
    out = generated(model, **left_padded(rows))
    with model.disable_adapter():
        base = generated(model, **left_padded(rows))
    assert (out.stacked - base.stacked).abs().amax((1, 2)).min() > 100 * TOLERANCE
    # another row's result would show, too
    row, anchors = rows[0][None], torch.tensor([ends(rows)[0]])
    right = scored(model, row, anchors)
    monkeypatch.setattr("peft_igc.tuner.steps.calculate_step", wrong_step)
    assert (scored(model, row, anchors) - right).abs().max() > 50 * TOLERANCE


def wrong_step(*args):
    """The calculator, one off in the first digit, and with the other sign."""
    result = calculate_step(*args)
    digits = result.digits.clone()
    digits[..., 0] = (digits[..., 0] + 1) % 10
    return result._replace(digits=digits, sign=1 - result.sign)


def test_every_kind_of_cache_equals_one_uncached_pass(llama):
    model, rows = llama
    for options in ({}, {"prefill_chunk_size": 3}, {"cache_implementation": "static"}, {"use_cache": False}):
        for padding in (0, 3):
            assert_as_scored(model, generated(model, **left_padded(rows, extra=padding), **options), rows, ends(rows))


def test_a_prompt_that_arrives_in_chunks_is_read_once(llama):
    model, rows = llama
    with watching() as seen:
        generated(model, **left_padded(rows), prefill_chunk_size=3)
    assert [step.anchors.tolist() for step in seen if isinstance(step, Step)] == [[[8], [8], [8]]]


def test_decoding_by_hand_equals_generate(llama):
    model, rows = llama
    batch = left_padded(rows)
    out = generated(model, **batch)
    mask, ids, cache, logits = batch["attention_mask"], batch["input_ids"], None, []
    with torch.no_grad():
        for _ in range(5):
            positions = positions_of(mask)[:, -ids.shape[1] :]
            step = model(
                input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
            )
            logits.append(step.logits[:, -1])
            cache, ids = step.past_key_values, step.logits[:, -1:].argmax(-1)
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], 1)
    close(torch.stack(logits, 1), out.stacked)


def test_an_assistant_reads_at_the_prompts_end_and_nowhere_else(llama):
    model, rows = llama
    assistant = copy.deepcopy(model)
    with watching() as seen:
        generated(model, input_ids=rows[0][None], new=12, assistant_model=assistant)
    at = [step.anchors.tolist() for step in seen if isinstance(step, Step)]
    assert at == [[[len(rows[0]) - 1]]] * 2  # one step of each of the two models


def test_new_tokens_alone_may_follow_a_cache_under_the_whole_mask(llama):
    model, rows = llama
    first = generated(model, input_ids=rows[0][None])
    known = first.past_key_values.get_seq_length()
    longer = torch.cat([first.sequences[0], rows[1]])[None]
    given = {"attention_mask": torch.ones_like(longer), "igc_anchors": torch.tensor([[longer.shape[1] - known - 2]])}
    out = generated(model, input_ids=longer[:, known:], past_key_values=first.past_key_values, **given)
    assert_as_scored(model, out, [longer[0]], [[len(rows[0]) - 1, longer.shape[1] - 2]])


@pytest.mark.parametrize("how", ["deepcopy", "repeat", "select"])
def test_a_prompt_cache_can_be_copied_repeated_and_selected(llama, how):
    model, rows = llama
    batch = left_padded(rows)
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=batch["input_ids"][:, :-1], attention_mask=batch["attention_mask"][:, :-1],
              position_ids=positions_of(batch["attention_mask"])[:, :-1], past_key_values=cache)  # fmt: skip
    order = [0, 1, 2]
    if how == "deepcopy":
        untouched = cache
        cache = copy.deepcopy(cache)
    elif how == "repeat":
        cache.batch_repeat_interleave(2)
        order = [0, 0, 1, 1, 2, 2]
    else:
        cache.batch_select_indices(torch.tensor([2, 0]))
        order = [2, 0]
    chosen = {k: v[order] for k, v in batch.items()}
    for _ in range(1 + (how == "deepcopy")):
        out = generated(model, **chosen, past_key_values=cache)
        assert_as_scored(model, out, [rows[i] for i in order], [ends(rows)[i] for i in order])
        cache = untouched if how == "deepcopy" else None


class Calls(LogitsProcessor):
    """Runs something after every pass of a `generate`."""

    def __init__(self, function):
        self.function, self.results = function, []

    def __call__(self, input_ids, scores):
        self.results.append(self.function(input_ids))
        return scores


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("same_text", [True, False])
def test_a_forward_beside_a_running_generate_neither_takes_nor_disturbs_its_anchors(llama, use_cache, same_text):
    model, rows = llama
    other = rows[1][None]

    def forward(input_ids):
        with torch.no_grad():
            return model(input_ids=input_ids if same_text else other).logits

    processor = Calls(forward)
    processors = LogitsProcessorList([processor])
    out = generated(model, input_ids=rows[0][None], use_cache=use_cache, logits_processor=processors)
    close(out.stacked, generated(model, input_ids=rows[0][None]).stacked)
    for i, logits in enumerate(processor.results):
        text = out.sequences[:, : len(rows[0]) + i] if same_text else other
        close(logits, scored(model, text, torch.tensor([[text.shape[1] - 1]])))


def test_interleaved_caches_do_not_mix(llama):
    model, rows = llama
    caches, logits = [None] * 3, [[], [], []]
    answers = [generated(model, input_ids=row[None]) for row in rows]
    with torch.no_grad():
        for t in range(5):
            for i, row in enumerate(rows):
                ids = row[None] if t == 0 else answers[i].sequences[:, len(row) + t - 1 : len(row) + t]
                out = model(input_ids=ids, past_key_values=caches[i], use_cache=True)
                caches[i] = out.past_key_values
                logits[i].append(out.logits[:, -1])
    for i in range(3):
        close(torch.stack(logits[i], 1), answers[i].stacked)


@pytest.mark.parametrize("make", [lambda c: DynamicCache(config=c), lambda c: StaticCache(config=c, max_cache_len=32)])
def test_an_adapter_that_was_off_for_a_part_of_the_text_does_not_see_that_part(llama, make):
    model, rows = llama
    parts = [rows[0][None], rows[1][None], rows[2][None]]
    widths = [p.shape[1] for p in parts]
    cache = make(model.config)
    with torch.no_grad():
        with model.disable_adapter():
            model(input_ids=parts[0], past_key_values=cache)
        model(input_ids=parts[1], past_key_values=cache, igc_anchors=torch.tensor([[widths[1] - 1]]))
        with model.disable_adapter():
            model(input_ids=parts[1], past_key_values=cache)
        out = model(input_ids=parts[2], past_key_values=cache, igc_anchors=torch.tensor([[2, widths[2] - 1]]))
    state = state_of(cache)
    seen = [False] * widths[0] + [True] * widths[1] + [False] * widths[1] + [True] * widths[2]
    assert (all_ids(state)[0] != UNSEEN).tolist() == seen
    at = [widths[0] + widths[1] - 1, sum(widths) + widths[1] - widths[2] + 2, sum(widths) + widths[1] - 1]
    # A static cache is never cropped, so the latest step of a row is enough.
    assert state.steps.anchors[0].tolist() == (at if isinstance(cache, DynamicCache) else at[-1:])
    assert out.logits.isfinite().all()


@pytest.mark.parametrize("make", [lambda c: DynamicCache(config=c), lambda c: StaticCache(config=c, max_cache_len=32)])
@pytest.mark.parametrize("other", INTERFACES)
def test_each_of_two_adapters_follows_the_text_while_the_other_is_active(make, interface, other):
    model = adapted("llama", interface=interface)
    model.add_adapter("second", small_config(interface=other))
    telling(model, "second", seed=4).eval()
    rows = telling_texts(model, LENGTHS)
    a, b = rows[0][None], rows[1][None]
    cache = make(model.config)
    with torch.no_grad():
        model(input_ids=a, past_key_values=cache, igc_anchors=torch.tensor([[a.shape[1] - 1]]))
        model.set_adapter("second")
        model(input_ids=b, past_key_values=cache, igc_anchors=torch.tensor([[b.shape[1] - 1]]))
        model.set_adapter("default")
        model(input_ids=a, past_key_values=cache)
    first, second = state_of(cache), state_of(cache, "second")
    assert first.steps.anchors.tolist() == [[a.shape[1] - 1]]
    assert second.steps.anchors.tolist() == [[a.shape[1] + b.shape[1] - 1]]
    assert (all_ids(first)[0] != UNSEEN).tolist() == [True] * 9 + [False] * 5 + [True] * 9
    # What came after its own last pass is appended when it is active again.
    assert (all_ids(second)[0] != UNSEEN).tolist()[:14] == [False] * 9 + [True] * 5


def test_cropping_what_an_adapter_did_not_see_keeps_what_it_saw(llama):
    model, rows = llama
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=rows[0][None], past_key_values=cache)
        with model.disable_adapter():
            model(input_ids=rows[1][None], past_key_values=cache)
        cache.crop(-len(rows[1]))
        rest = rows[2][None]
        got = model(input_ids=rest, past_key_values=cache, igc_anchors=torch.tensor([[rest.shape[1] - 1]])).logits
    text = torch.cat([rows[0], rows[2]])[None]
    close(got, scored(model, text, torch.tensor([[text.shape[1] - 1]]))[:, len(rows[0]) :])


def test_a_row_of_padding_alone_is_finite_and_changes_no_other_row(llama):
    model, rows = llama
    batch = left_padded(rows)
    batch = {k: torch.cat([v, torch.zeros_like(v[:1])]) for k, v in batch.items()}
    out = generated(model, **batch)
    assert out.stacked.isfinite().all()
    close(out.stacked[:-1], generated(model, **left_padded(rows)).stacked)
    assert state_of(out.past_key_values).steps.anchors[-1].tolist() == [-1]


def test_right_padding_changes_no_row_of_a_forward_pass(llama):
    model, rows = llama
    width = max(LENGTHS) + 2
    ids = torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])
    mask = torch.stack([torch.arange(width) < len(row) for row in rows]).long()
    with torch.no_grad():
        got = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    for i, row in enumerate(rows):
        close(got[i, : len(row)], scored(model, row[None], torch.tensor([[len(row) - 1]]))[0])


def test_a_model_in_bfloat16_gives_the_same_cached_and_uncached(interface):
    model = get_peft_model(tiny_model("llama").to(torch.bfloat16), small_config(interface=interface))
    telling(model).eval()
    rows = telling_texts(model, LENGTHS)
    cached, uncached = (generated(model, **left_padded(rows), new=3, use_cache=use) for use in (True, False))
    torch.testing.assert_close(cached.stacked, uncached.stacked, atol=2e-2, rtol=0)
    for i, row in enumerate(rows):
        assert_steps(model, cached.past_key_values, i, row[None], torch.tensor([[len(row) - 1]]))


@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_embeddings_generate_as_their_ids_do(arch):
    model, rows = made(arch, "hidden")  # the token interface reads ids alone
    batch = left_padded(rows)
    embedded = {"inputs_embeds": model.get_input_embeddings()(batch["input_ids"]), **batch}
    del embedded["input_ids"]
    with torch.no_grad():
        close(model(**embedded).logits, model(**batch).logits)
    out = generated(model, **embedded)
    close(out.stacked, generated(model, **batch).stacked)
    for i, row in enumerate(rows):
        assert_steps(model, out.past_key_values, i, row[None], torch.tensor([[len(row) - 1]]))


@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_several_anchors_in_a_prompt_govern_one_after_the_other(arch, interface):
    model = adapted(arch, interface=interface)
    rows = telling_texts(model, [10, 10])
    anchors = torch.tensor([[2, 6, 9], [-1, 4, -1]])
    out = generated(model, input_ids=torch.stack(rows), igc_anchors=anchors)
    assert_as_scored(model, out, rows, [[2, 6, 9], [4]])


@pytest.mark.gpu
def test_an_offloaded_cache_carries_the_steps(llama):
    if not torch.cuda.is_available():
        pytest.skip("offloading needs an accelerator")
    model, rows = llama
    model = copy.deepcopy(model).cuda()
    batch = {name: tensor.cuda() for name, tensor in left_padded(rows).items()}
    got, want = (generated(model, **batch, cache_implementation=how).stacked for how in ("offloaded", "dynamic"))
    torch.testing.assert_close(got, want, atol=1e-3, rtol=0)


def test_embeddings_give_what_their_ids_give_where_anchors_are_token_sequences():
    model = get_peft_model(tiny_model("llama"), small_config(anchor_token_ids=[[7]])).eval()
    ids = torch.tensor([[5, 9, 30, 31, 40, 7], [11, 12, 33, 8, 44, 7]])
    embeddings = model.get_input_embeddings()(ids)
    model_logits = model(input_ids=ids).logits
    assert torch.allclose(model(inputs_embeds=embeddings).logits, model_logits, atol=1e-5)
    with model.disable_adapter():
        assert not torch.allclose(model(input_ids=ids).logits, model_logits, atol=1e-4)  # something is written
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    settings |= {"output_logits": True, "return_dict_in_generate": True}
    by_ids = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **settings)
    by_embeddings = model.generate(inputs_embeds=embeddings, attention_mask=torch.ones_like(ids), **settings)
    for one, other in zip(by_ids.logits, by_embeddings.logits, strict=True):
        assert torch.allclose(one, other, atol=1e-4)
    by_both = model.generate(ids, inputs_embeds=embeddings, attention_mask=torch.ones_like(ids), **settings)
    for one, other in zip(by_ids.logits, by_both.logits, strict=True):
        assert torch.allclose(one, other, atol=1e-4)
