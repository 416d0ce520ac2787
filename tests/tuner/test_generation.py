"""Promises of generation: whatever way a text is produced, the calculator reads and writes the same.

The yardstick everywhere is one uncached pass over each text alone, without padding and with its anchors given: logits
within 1e-4 in float32, steps exactly equal, on texts whose readings are clear and differ between the rows of a batch.
"""

import copy
import functools
import threading

import pytest
import torch
from checks import (
    TOLERANCE,
    adapted,
    all_ids,
    assert_as_scored,
    assert_steps,
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


ARCHITECTURES = ["llama", "gpt2", "mistral-window", "mistral", "qwen2", "qwen3", "gemma", "gpt_neox", "opt"]
UNIT = ["llama", "gpt2", "mistral-window"]  # these run in the unit tier, the others are slow
INTERFACES = ["hidden", "tokens"]
WINDOW = {"sliding_window": 6}
LENGTHS = [9, 5, 7]


def ends(rows):
    return [[len(row) - 1] for row in rows]


def close(a, b):
    torch.testing.assert_close(a, b, atol=TOLERANCE, rtol=0)


@functools.cache
def made(arch, interface):
    """A telling model, and texts that it reads as different calculations."""
    arch, _, window = arch.partition("-")
    model = adapted(arch, overrides=WINDOW if window else None, interface=interface)
    return model, telling_texts(model, LENGTHS)


@pytest.fixture(params=INTERFACES)
def interface(request):
    return request.param


@pytest.fixture(params=[pytest.param(a, marks=[] if a in UNIT else [pytest.mark.slow]) for a in ARCHITECTURES])
def arch(request):
    return request.param


@pytest.fixture
def setting(arch, interface):
    return made(arch, interface)


@pytest.fixture
def llama(interface):
    return made("llama", interface)


def test_what_is_written_matters(setting, monkeypatch):
    model, rows = setting
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


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("options", [{}, {"prefill_chunk_size": 3}, {"cache_implementation": "static"}])
def test_cached_left_padded_chunked_and_static_generation_equal_one_uncached_pass(setting, options, padding):
    model, rows = setting
    out = generated(model, **left_padded(rows, extra=padding), **options)
    assert_as_scored(model, out, rows, ends(rows))


def test_a_prompt_that_arrives_in_chunks_is_read_once(llama):
    model, rows = llama
    with watching() as seen:
        generated(model, **left_padded(rows), prefill_chunk_size=3)
    assert [step.anchors.tolist() for step in seen if isinstance(step, Step)] == [[[8], [8], [8]]]


def test_generation_without_a_cache_keeps_its_anchors(setting):
    model, rows = setting
    cached, uncached = (generated(model, **left_padded(rows), use_cache=use) for use in (True, False))
    close(uncached.stacked, cached.stacked)
    assert uncached.past_key_values is None
    assert_as_scored(model, uncached, rows, ends(rows))


def test_every_beam_has_its_own_row(setting):
    model, rows = setting
    out = generated(model, **left_padded(rows), num_beams=3, num_return_sequences=2)
    assert len({tuple(s) for s in out.sequences.tolist()}) == 6
    assert_as_scored(model, out, rows, ends(rows))


def test_every_sampled_sequence_has_its_own_row(setting):
    model, rows = setting
    # a static cache hides the mask, so that of the prompt must follow the rows, too
    for cache in ("dynamic", "static"):
        out = generated(model, **left_padded(rows), do_sample=True, num_return_sequences=3, cache_implementation=cache)
        assert len({tuple(s) for s in out.sequences.tolist()}) == 9
        assert_as_scored(model, out, rows, ends(rows))


def test_decoding_by_hand_equals_generate(setting):
    model, rows = setting
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


def test_a_static_cache_of_the_callers_serves_and_is_served(llama):
    model, rows = llama
    cache = StaticCache(config=model.config, max_cache_len=32)
    out = generated(model, **left_padded(rows), past_key_values=cache)
    assert_as_scored(model, out, rows, ends(rows))
    cache.reset()  # as `generate` does with the cache that it keeps
    out = generated(model, **left_padded(rows[::-1]), past_key_values=cache)
    assert_as_scored(model, out, rows[::-1], ends(rows[::-1]))


@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_prompt_lookup_equals_greedy_decoding(arch, interface):
    model = adapted(arch, interface=interface)
    (row,) = telling_texts(model, [6], seed=5)
    row = torch.cat([row, row, row])  # a text to look up
    plain = generated(model, input_ids=row[None], new=12)
    looked_up = generated(model, input_ids=row[None], new=12, prompt_lookup_num_tokens=3)
    assert torch.equal(plain.sequences, looked_up.sequences)
    assert_as_scored(model, looked_up, [row], [[17]])


@pytest.mark.parametrize("with_igc", [False, True])
def test_assisted_decoding_equals_greedy_decoding(llama, interface, with_igc):
    model, rows = llama
    assistant = adapted("llama", seed=3, interface=interface) if with_igc else tiny_model("llama", seed=3)
    out = generated(model, input_ids=rows[0][None], new=12, assistant_model=assistant)
    assert torch.equal(out.sequences, generated(model, input_ids=rows[0][None], new=12).sequences)
    assert_as_scored(model, out, rows[:1], ends(rows[:1]))


def test_an_assistant_reads_at_the_prompts_end_and_nowhere_else(llama):
    model, rows = llama
    assistant = copy.deepcopy(model)
    with watching() as seen:
        generated(model, input_ids=rows[0][None], new=12, assistant_model=assistant)
    at = [step.anchors.tolist() for step in seen if isinstance(step, Step)]
    assert at == [[[len(rows[0]) - 1]]] * 2  # one step of each of the two models


def test_a_returned_cache_goes_on_with_a_longer_prompt(setting):
    model, rows = setting
    row = rows[0]
    first = generated(model, input_ids=row[None])
    longer = torch.cat([first.sequences[0], rows[1]])
    given = {"input_ids": longer[None], "attention_mask": torch.ones_like(longer)[None]}
    out = generated(model, **given, past_key_values=first.past_key_values)
    # the first answer was written with the first result, and the text keeps it
    assert_as_scored(model, out, [longer], [[len(row) - 1, len(longer) - 1]])


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


def test_cropping_behind_an_anchor_brings_the_earlier_step_back(setting):
    model, rows = setting
    text = torch.cat([rows[0], rows[1], rows[2]])[None]
    first, second, end = len(rows[0]) - 1, len(rows[0]) + len(rows[1]) - 1, len(rows[0]) + 1
    cache = DynamicCache(config=model.config)
    for layer in cache.layers:
        if hasattr(layer, "activate_past_recording"):
            layer.activate_past_recording()
    with torch.no_grad():
        model(input_ids=text, past_key_values=cache, igc_anchors=torch.tensor([[first, second]]))
        cache.crop(end - text.shape[1])
        got = model(input_ids=rows[2][None], past_key_values=cache).logits
    again = torch.cat([text[:, :end], rows[2][None]], 1)
    close(got, scored(model, again, torch.tensor([[first]]))[:, end:])
    assert_steps(model, cache, 0, again, torch.tensor([[first]]))


def test_a_prefix_cache_filled_by_forward_and_continued_by_generate_equals_generate(setting):
    model, rows = setting
    batch = left_padded(rows)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        for start, stop in ((0, 4), (4, 7)):
            model(input_ids=ids[:, start:stop], attention_mask=mask[:, :stop], past_key_values=cache,
                  position_ids=positions_of(mask)[:, start:stop])  # fmt: skip
    out = generated(model, **batch, past_key_values=cache)
    assert_as_scored(model, out, rows, ends(rows))


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


def test_a_generate_inside_a_generate_is_on_its_own(llama):
    model, rows = llama
    inner = Calls(lambda input_ids: generated(model, **left_padded(rows[1:]), new=3).stacked)
    out = generated(model, input_ids=rows[0][None], logits_processor=LogitsProcessorList([inner]))
    close(out.stacked, generated(model, input_ids=rows[0][None]).stacked)
    wanted = generated(model, **left_padded(rows[1:]), new=3).stacked
    assert len(inner.results) == 5
    for got in inner.results:
        close(got, wanted)


def test_four_threads_do_not_mix(llama):
    model, _ = llama
    rows = telling_texts(model, [9, 5, 7, 8], seed=2)
    wanted = [generated(model, input_ids=row[None]).stacked for row in rows]
    got = [[] for _ in rows]

    def work(i):
        for _ in range(3):
            got[i].append(generated(model, input_ids=rows[i][None]).stacked)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, several in zip(wanted, got, strict=True):
        assert len(several) == 3
        for other in several:
            close(other, one)


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


def test_a_row_of_one_token_generates(setting):
    model, rows = setting
    one = [rows[0], rows[1][:1]]
    out = generated(model, **left_padded(one))
    assert_as_scored(model, out, one, ends(one))


def test_a_row_of_padding_alone_is_finite_and_changes_no_other_row(setting):
    model, rows = setting
    batch = left_padded(rows)
    batch = {k: torch.cat([v, torch.zeros_like(v[:1])]) for k, v in batch.items()}
    out = generated(model, **batch)
    assert out.stacked.isfinite().all()
    close(out.stacked[:-1], generated(model, **left_padded(rows)).stacked)
    assert state_of(out.past_key_values).steps.anchors[-1].tolist() == [-1]


def test_right_padding_changes_no_row_of_a_forward_pass(setting):
    model, rows = setting
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


@pytest.mark.parametrize("use_cache", [True, False])
def test_embeddings_generate_as_their_ids_do(arch, use_cache):
    model, rows = made(arch, "hidden")  # the token interface reads ids alone
    batch = left_padded(rows)
    embeddings = model.get_input_embeddings()(batch["input_ids"])
    with torch.no_grad():
        close(
            model(inputs_embeds=embeddings, attention_mask=batch["attention_mask"]).logits,
            model(**batch).logits,
        )
    if use_cache:
        out = generated(model, inputs_embeds=embeddings, attention_mask=batch["attention_mask"])
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


def test_generate_finds_token_sequences_before_the_end_of_the_prompt():
    model = get_peft_model(tiny_model("llama"), small_config(anchor_token_ids=[[7]])).eval()
    ids = torch.tensor([[5, 9, 30, 7, 40, 41], [11, 12, 7, 8, 44, 45]])
    with torch.no_grad():
        want = model(input_ids=ids).logits[:, -1]
        at_the_end = model(input_ids=ids, igc_anchors=torch.tensor([[5], [5]])).logits[:, -1]
    assert torch.allclose(generated(model, input_ids=ids, new=1).stacked[:, 0], want, atol=1e-4)
    assert not torch.allclose(at_the_end, want, atol=1e-3)
