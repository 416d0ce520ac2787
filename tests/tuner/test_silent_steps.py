"""Promises of silence: writing ends with the turn or the result, and is not run where no step can write.

What is written stays the same, which `test_inline_generation.py` holds against one pass over each text.
"""

from contextlib import contextmanager

import pytest
import torch
from checks import (
    Saying,
    adapted,
    close,
    generated,
    igc_layers,
    left_padded,
    state_of,
    steps_of,
    telling_texts,
    watching,
)
from peft import get_peft_model
from tiny_vocabulary import encode
from transformers import DynamicCache, LogitsProcessorList, StaticCache

from peft_igc import IGCConfig, tiny_base
from peft_igc.mappings.attention import Attention
from peft_igc.numbers.calculator import Status
from peft_igc.text.vocabulary import turn_ends
from peft_igc.tuner import passes
from peft_igc.tuner.call import observing
from peft_igc.tuner.steps import Writing
from peft_igc.tuner.writing import told_of


ANCHOR = encode("=").tolist()
NONE = 1000.0  # added to the logit of an operation


@pytest.fixture(params=["hidden", "tokens"])
def model(request):
    return adapted(interface=request.param, anchors={"inline": [ANCHOR]}, result_digits=8)


@contextmanager
def widths(model):
    """How many positions each run of the writing computes meanwhile."""
    seen = []
    writer = igc_layers(model)[0].igc_output_mapping["default"]
    with writer.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape[1])):
        yield seen


def test_behind_steps_without_a_result_writing_does_not_run(model):
    with torch.no_grad():
        igc_layers(model)[0].igc_input_mapping["default"].operator_head.bias[-1] += NONE  # of no arithmetic
    batch = left_padded([encode("the sum of 12 and 45=["), encode("34 * 7;=")])
    with widths(model) as seen, watching(Writing) as watched:
        out = generated(model, **batch)
    assert seen == []
    assert watched == []
    with model.disable_adapter():
        assert torch.equal(out.stacked, generated(model, **batch).stacked)


@pytest.fixture
def writes_once():
    """A model that writes each result once, and has one at every `=`."""
    anchors = {"anchors": {"inline": [ANCHOR]}}
    model = adapted(interface="tokens", result_digits=8, confidence=0.0, write_again=False, **anchors)
    with torch.no_grad():
        igc_layers(model)[0].igc_input_mapping["default"].operator_head.bias[0] += NONE
    return model


@pytest.mark.parametrize(
    ("text", "runs", "ends"),
    [("=57.the sum", 4, True), ("=57;the sum", 3, False), ("=57;the.the", 3, False), ("=58;the sum", 1, False)],
)
def test_a_point_behind_a_result_is_written_to_as_its_end(writes_once, monkeypatch, text, runs, ends):
    batch, tokens = left_padded([encode("12 +45")]), encode(text).tolist()
    start = batch["input_ids"].shape[1]
    say = {"new": len(tokens), "logits_processor": LogitsProcessorList([Saying(start, [tokens])])}
    with widths(writes_once) as seen:
        out = generated(writes_once, **say, **batch)
    assert len(seen) == runs
    spoken = lambda state, told: (state, told._replace(is_silent=False))  # noqa: E731
    monkeypatch.setattr(passes, "told_of", lambda *args: spoken(*told_of(*args)))
    assert torch.equal(out.stacked, generated(writes_once, **say, **batch).stacked)
    with watching(Writing) as watched:
        generated(writes_once, **say, **batch)
    written = {one.start: bool(one.active.any()) for one in watched}
    assert written.get(start + 3, False) == ends


@pytest.mark.parametrize(
    ("text", "digits"), [("sqrt(16) =", [4]), ("So 16 =", None), ("abs(-12) =", [1, 2]), ("sqrt(16) and five =", None)]
)
def test_a_text_that_decides_alone_is_not_read_and_gives_what_a_watched_pass_gives(text, digits):
    base, tokenizer = tiny_base()
    model = get_peft_model(base, IGCConfig.from_tokenizer(tokenizer, layer=1, anchors=["="])).eval()
    ids = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
    runs = []
    igc_layers(model)[0].igc_input_mapping["default"].register_forward_pre_hook(lambda *args: runs.append(1))

    def steps_of():
        with torch.no_grad():
            return state_of(model(input_ids=ids, use_cache=True).past_key_values).steps

    found, lean = steps_of(), len(runs)
    with observing(lambda event: None):
        everything = steps_of()
    assert torch.equal(found.digits, everything.digits)
    assert torch.equal(found.status, everything.status)
    assert (lean, len(runs) - lean) == (0, 1)
    assert found.digits[0, 0, : len(digits or [])].tolist() == (digits or [])
    assert (found.status[0, 0] == Status.OK) == (digits is not None)


def test_rows_without_an_anchor_are_not_read_beside_one_that_has_it(model):
    """Of 16 rows that generate, one may be at an anchor: the 15 others were read at full length."""
    ids = encode("1 " * 60 + "3 + 4")[None]
    reader, read = igc_layers(model)[0].igc_input_mapping["default"], []
    for module in reader.modules():
        if isinstance(module, Attention):
            module.register_forward_pre_hook(lambda module, args: read.append(args[1].shape[:2].numel()))
    end = ids.shape[1] - 1
    alone, cost = steps_of(model, ids, torch.tensor([[end]])), sum(read)
    beside = steps_of(model, ids.repeat(16, 1), torch.tensor([[end if row == 5 else -1] for row in range(16)]))
    assert 0 < sum(read) - cost < 1.5 * cost
    close(beside.reading.operator[5], alone.reading.operator[0])


def chat(tokenizer, *contents):
    """The ids of a chat that user and assistant begin so, and the position of the first answer's anchor."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(contents)]
    asked = {"add_generation_prompt": True, "tokenize": False}
    goes_on = asked if len(messages) % 2 else {"continue_final_message": True, "tokenize": False}
    texts = (tokenizer.apply_chat_template(one, **more) for one, more in ((messages[:1], asked), (messages, goes_on)))
    question, ids = (tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"] for text in texts)
    return ids, question.shape[1] - 1


def written(model, ids, parts, cache=None):
    """Positions that are written when the text is passed in parts."""
    start = 0
    with torch.no_grad(), watching(Writing) as seen:
        for part in parts:
            position = torch.arange(start, start + part)[None]
            model(input_ids=ids[:, start : start + part], position_ids=position, past_key_values=cache)
            start += part
    return [one.start + at for one in seen for at in one.active[0].nonzero().flatten().tolist()]


def written_always(model, ids, anchor):
    """The positions that are written, the same in a whole pass and by single tokens after the anchor."""
    length = ids.shape[1]
    found = written(model, ids, [length])
    for parts in ([length], [anchor + 2, *[1] * (length - anchor - 2)]):
        for cache in (DynamicCache(config=model.config), StaticCache(config=model.config, max_cache_len=length)):
            assert written(model, ids, parts, cache) == found
    return found


def config_of(model):
    return igc_layers(model)[0].igc_config["default"]


def test_nothing_is_written_from_the_end_of_a_turn_on(trained, monkeypatch):
    model, tokenizer = trained
    ids, anchor = chat(tokenizer, "What is 7 times 8?", "56", "Hello, my friend")
    (end,) = turn_ends(tokenizer)
    over = int((ids[0, anchor:] == end).nonzero()[0]) + anchor
    monkeypatch.setitem(config_of(model).anchors, "ends", [end])
    found = written_always(model, ids, anchor)
    assert {anchor, anchor + 1} & {*found}
    assert {*found} <= {*range(anchor, over)}
    monkeypatch.delitem(config_of(model).anchors, "ends")
    assert max(written(model, ids, [ids.shape[1]])) > over


def test_the_end_of_a_turn_ends_the_writing_of_the_hidden_interface():
    anchors = {"inline": [encode("=").tolist()], "ends": encode("A").tolist()}
    model = adapted(interface="hidden", anchors=anchors, result_digits=8)
    (row,) = telling_texts(model, [8])
    ids = torch.cat([row[row != encode("=")], encode("=;;A;;")])[None]
    anchor = ids.shape[1] - 6
    assert written_always(model, ids, anchor) == [anchor, anchor + 1, anchor + 2]


def test_the_tokens_come_from_the_tokenizer():
    _, tokenizer = tiny_base()
    assert IGCConfig.from_tokenizer(tokenizer).anchors["ends"] == turn_ends(tokenizer) == [tokenizer.eos_token_id]
    assert IGCConfig.from_tokenizer(tokenizer, anchors={"turns": [[1]], "ends": [5]}).anchors["ends"] == [5]
    with pytest.raises(ValueError, match="ends=3"):
        IGCConfig(anchors={"prompt_end": True, "ends": 3})


def test_a_result_is_written_once_or_again(trained, monkeypatch):
    model, tokenizer = trained
    ids, anchor = chat(tokenizer, "What is 7 times 8?", "It is 56, and 56 it is")
    complete, _ = [at for at in range(anchor, ids.shape[1]) if tokenizer.decode(ids[0, at]).strip() == "56"]
    assert written_always(model, ids, anchor) == [*range(anchor, ids.shape[1])]
    monkeypatch.setattr(config_of(model), "write_again", False)
    # up to the comma after the result, which no digit may follow
    assert written_always(model, ids, anchor) == [*range(anchor, complete + 2)]
