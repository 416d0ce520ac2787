"""Writing ends with the turn, or with the result: what follows is the base model's, in every kind of pass."""

import pytest
import torch
from checks import adapted, igc_layers, telling_texts, watching
from tiny_vocabulary import encode
from transformers import DynamicCache, StaticCache

from peft_igc import IGCConfig, tiny_base, tiny_igc
from peft_igc.tuner.anchor_rules import turn_ends
from peft_igc.tuner.steps import Writing


@pytest.fixture(scope="module")
def made():
    """A model that writes, and its tokenizer."""
    return tiny_igc()


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
    with torch.no_grad(), watching() as seen:
        for part in parts:
            position = torch.arange(start, start + part)[None]
            model(input_ids=ids[:, start : start + part], position_ids=position, past_key_values=cache)
            start += part
    events = [one for one in seen if isinstance(one, Writing)]
    return [one.start + at for one in events for at in one.active[0].nonzero().flatten().tolist()]


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


def test_nothing_is_written_from_the_end_of_a_turn_on(made, monkeypatch):
    model, tokenizer = made
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


def test_a_result_is_written_once_or_again(made, monkeypatch):
    model, tokenizer = made
    ids, anchor = chat(tokenizer, "What is 7 times 8?", "It is 56, and 56 it is")
    complete, _ = [at for at in range(anchor, ids.shape[1]) if tokenizer.decode(ids[0, at]).strip() == "56"]
    assert written_always(model, ids, anchor) == [*range(anchor, ids.shape[1])]
    monkeypatch.setattr(config_of(model), "write_again", False)
    # up to the comma after the result, which no digit may follow
    assert written_always(model, ids, anchor) == [*range(anchor, complete + 2)]
