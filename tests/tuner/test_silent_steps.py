"""Promises of what is not computed: after steps without a result, or a told one, writing is not run at all.

What is written stays the same, which `test_inline_generation.py` holds against one pass over each text.
"""

from contextlib import contextmanager

import pytest
import torch
from checks import Saying, adapted, close, generated, igc_layers, left_padded, state_of, steps_of, watching
from peft import get_peft_model
from tiny_vocabulary import encode
from transformers import LogitsProcessorList

from peft_igc import IGCConfig, tiny_base
from peft_igc.mappings.attention import Attention
from peft_igc.numbers.calculator import Status
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
    handle = writer.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape[1]))
    try:
        yield seen
    finally:
        handle.remove()


def test_behind_steps_without_a_result_writing_does_not_run(model):
    with torch.no_grad():
        igc_layers(model)[0].igc_input_mapping["default"].operator_head.bias[-1] += NONE  # of no arithmetic
    batch = left_padded([encode("the sum of 12 and 45=["), encode("34 * 7;=")])
    with widths(model) as seen, watching() as watched:
        out = generated(model, **batch)
    assert seen == []
    assert not any(isinstance(one, Writing) for one in watched)
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


def told_in_any_case(*args):
    """`told_of` without what makes it silent."""
    state, told = told_of(*args)
    return state, told._replace(is_silent=False)


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
    monkeypatch.setattr(passes, "told_of", told_in_any_case)
    assert torch.equal(out.stacked, generated(writes_once, **say, **batch).stacked)
    with watching() as watched:
        generated(writes_once, **say, **batch)
    written = {one.start: bool(one.active.any()) for one in watched if isinstance(one, Writing)}
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
