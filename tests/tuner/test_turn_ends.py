"""Writing ends with the turn, or with the result: what follows is the base model's, in every kind of pass."""

import pytest
import torch
from transformers import DynamicCache, StaticCache

from peft_igc import IGCConfig, tiny_base, tiny_igc
from peft_igc.tuner.anchor_rules import turn_ends
from peft_igc.tuner.call import observing
from peft_igc.tuner.layer import IGCLayer
from peft_igc.tuner.steps import Writing


def config_of(model):
    return next(module for module in model.modules() if isinstance(module, IGCLayer)).igc_config["default"]


@pytest.fixture(scope="module")
def chat():
    """A model that writes, and the ids of a chat of two turns with the positions of the first answer and its end."""
    model, tokenizer = tiny_igc()
    (end,) = turn_ends(tokenizer)
    config_of(model).anchors["ends"] = [end]
    turns = [("user", "What is 7 times 8?"), ("assistant", "56"), ("user", "Hello, my friend")]
    messages = [{"role": role, "content": content} for role, content in turns]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    ids = ids["input_ids"]
    ends = (ids[0] == end).nonzero().flatten().tolist()
    return model, ids, ends[0] + 1, ends[1]


def written(model, ids, parts, cache=None):
    """Positions that are written when the text is passed in parts."""
    found = []

    def keep(event):
        if isinstance(event, Writing):
            found.extend(event.start + at for at in event.active[0].nonzero().flatten().tolist())

    start = 0
    with torch.no_grad(), observing(keep):
        for part in parts:
            position = torch.arange(start, start + part)[None]
            model(input_ids=ids[:, start : start + part], position_ids=position, past_key_values=cache)
            start += part
    return found


def caches(model, length):
    static = StaticCache(config=model.config, max_cache_len=length)
    return {"dynamic": DynamicCache(config=model.config), "static": static}


def passed(model, ids, anchor, kind, whole):
    """Positions that are written without a cache, or with one: in a whole pass, or by single tokens of the answer."""
    length = ids.shape[1]
    if kind == "none":
        return written(model, ids, [length])
    parts = [length] if whole else [anchor + 2, *[1] * (length - anchor - 2)]
    return written(model, ids, parts, caches(model, length)[kind])


@pytest.mark.parametrize("kind", ["none", "dynamic", "static"])
@pytest.mark.parametrize("whole", [True, False])
def test_nothing_is_written_from_the_end_of_a_turn_on(chat, kind, whole):
    model, ids, anchor, end = chat
    found = passed(model, ids, anchor, kind, whole)
    assert found == [at for at in range(anchor, end) if at in found]
    assert anchor in found or anchor + 1 in found
    assert all(at < end for at in found)


def test_without_the_tokens_of_turns_everything_after_a_result_may_be_written(chat):
    model, ids, _, end = chat
    config = config_of(model)
    tokens = config.anchors.pop("ends")
    try:
        assert max(written(model, ids, [ids.shape[1]])) > end
    finally:
        config.anchors["ends"] = tokens


def test_the_tokens_come_from_the_tokenizer():
    _, tokenizer = tiny_base()
    assert IGCConfig.from_tokenizer(tokenizer).anchors["ends"] == turn_ends(tokenizer) == [tokenizer.eos_token_id]
    assert IGCConfig.from_tokenizer(tokenizer, anchors={"turns": [[1]], "ends": [5]}).anchors["ends"] == [5]
    with pytest.raises(ValueError, match="ends=3"):
        IGCConfig(anchors={"prompt_end": True, "ends": 3})


def said(answer, chat):
    """The model, a chat with this answer as ids, the index of its anchor, and the texts of the answer's tokens."""
    _, tokenizer = tiny_base()
    question = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is 7 times 8?"}], add_generation_prompt=True, tokenize=False
    )
    before = len(tokenizer(question, add_special_tokens=False)["input_ids"])
    ids = tokenizer(question + answer, add_special_tokens=False, return_tensors="pt")["input_ids"]
    told = {at: tokenizer.decode(ids[0, at]).strip() for at in range(before, ids.shape[1])}
    return chat[0], ids, before - 1, told


def passed_once(model, *arguments):
    """What `passed` finds with `write_again=False`."""
    config = config_of(model)
    config.write_again = False
    try:
        return passed(model, *arguments)
    finally:
        config.write_again = True


@pytest.mark.parametrize("kind", ["none", "dynamic", "static"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_result_is_written_once_or_again(chat, kind, whole):
    model, ids, anchor, told = said("It is 56, and 56 it is", chat)
    (complete, *later) = [at for at, text in told.items() if text == "56"]
    assert later
    once = passed_once(model, ids, anchor, kind, whole)
    assert once == list(range(anchor, complete + 2))  # up to the comma behind the result, which no digit may follow
    assert passed(model, ids, anchor, kind, whole) == list(range(anchor, ids.shape[1]))
