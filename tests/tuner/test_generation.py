"""Promises of generation with the default anchor: caches in all hands, several adapters, padding, embeddings.

The yardstick everywhere is one uncached pass over each text alone, without padding and with its anchors given: logits
within 1e-4 in float32, on texts whose readings are clear and differ between the rows of a batch.
`tests/tuner/test_inline_generation.py` has the modes of `generate`, the architectures, and the steps.
"""

import copy
import functools

import pytest
import torch
from checks import (
    Meanwhile,
    Saying,
    adapted,
    assert_as_scored,
    close,
    generated,
    igc_layers,
    left_padded,
    scored,
    state_of,
    telling,
    telling_texts,
)
from peft import get_peft_model
from tiny_models import small_config, tiny_model
from tiny_vocabulary import encode
from transformers import LogitsProcessorList


LENGTHS = [9, 5, 7]


@functools.cache
def made(arch, interface):
    """A telling model, and texts that it reads as different calculations."""
    model = adapted(arch, interface=interface)
    return model, telling_texts(model, LENGTHS)


@pytest.fixture
def llama(interface):
    return made("llama", interface)


def test_new_tokens_alone_may_follow_a_cache_under_the_whole_mask(llama):
    model, rows = llama
    first = generated(model, input_ids=rows[0][None])
    known = first.past_key_values.get_seq_length()
    longer = torch.cat([first.sequences[0], rows[1]])[None]
    given = {"attention_mask": torch.ones_like(longer), "igc_anchors": torch.tensor([[longer.shape[1] - known - 2]])}
    out = generated(model, input_ids=longer[:, known:], past_key_values=first.past_key_values, **given)
    assert_as_scored(model, out, [longer[0]], [[len(rows[0]) - 1, longer.shape[1] - 2]])


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("same_text", [True, False])
def test_a_forward_beside_a_running_generate_neither_takes_nor_disturbs_its_anchors(llama, use_cache, same_text):
    model, rows = llama
    other = rows[1][None]

    def forward(input_ids):
        with torch.no_grad():
            return model(input_ids=input_ids if same_text else other).logits

    processor = Meanwhile(forward)
    processors = LogitsProcessorList([processor])
    out = generated(model, input_ids=rows[0][None], use_cache=use_cache, logits_processor=processors)
    close(out.stacked, generated(model, input_ids=rows[0][None]).stacked)
    for i, logits in enumerate(processor.results):
        text = out.sequences[:, : len(rows[0]) + i] if same_text else other
        close(logits, scored(model, text, torch.tensor([[text.shape[1] - 1]])))


def test_a_row_of_padding_alone_is_finite_and_changes_no_other_row(llama):
    model, rows = llama
    batch = left_padded(rows)
    batch = {k: torch.cat([v, torch.zeros_like(v[:1])]) for k, v in batch.items()}
    out = generated(model, **batch)
    assert out.stacked.isfinite().all()
    close(out.stacked[:-1], generated(model, **left_padded(rows)).stacked)
    assert torch.tensor(state_of(out.past_key_values).anchors)[-1, :, 0].tolist() == [-1]


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


@pytest.mark.gpu
def test_an_offloaded_cache_carries_the_steps(llama):
    if not torch.cuda.is_available():
        pytest.skip("offloading needs an accelerator")
    model, rows = llama
    model = copy.deepcopy(model).cuda()
    batch = {name: tensor.cuda() for name, tensor in left_padded(rows).items()}
    got, want = (generated(model, **batch, cache_implementation=how).stacked for how in ("offloaded", "dynamic"))
    torch.testing.assert_close(got, want, atol=1e-3, rtol=0)


@pytest.mark.parametrize("write_again", [False, True])
def test_a_rejected_draft_begins_a_result_again_that_was_over(write_again):
    rules = {"prompt_end": True, "ends": [2]}
    model = adapted(interface="tokens", anchors=rules, result_digits=8, confidence=0.0, write_again=write_again)
    with torch.no_grad():
        igc_layers(model)[0].igc_input_mapping["default"].operator_head.bias[0] += 1000.0  # always asks for a sum
    ids = torch.cat([encode("the 99"), torch.tensor([2]), encode(" 12 +45 is")])[None]  # drafts go on after the 2
    said = Saying(ids.shape[1], [encode("the57;;;;;;;;;;;;").tolist()])
    options = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "max_new_tokens": 6, "do_sample": False}
    options |= {"pad_token_id": 0, "logits_processor": LogitsProcessorList([said])}
    assert torch.equal(model.generate(**options, prompt_lookup_num_tokens=4), model.generate(**options))
