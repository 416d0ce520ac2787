"""Promises of what is not computed: writing costs nothing where no step can write.

Behind steps without a result the writing is not run at all, and a prompt is not written to before its first step with
one. What is written stays the same, which `test_generation.py` and `test_inline_generation.py` hold against one pass;
here it is held against a layer that computes everything. Try it: `pytest tests/tuner/test_silent_steps.py`
"""

from contextlib import contextmanager

import pytest
import torch
from checks import adapted, generated, igc_layers, left_padded, state_of, telling_texts, watching
from peft import get_peft_model
from tiny_vocabulary import encode
from transformers import DynamicCache, LogitsProcessor, LogitsProcessorList

from peft_igc import IGCConfig, tiny_base
from peft_igc.numbers.calculator import Status
from peft_igc.tuner import passes
from peft_igc.tuner.call import observing
from peft_igc.tuner.steps import Writing
from peft_igc.tuner.writing import told_of


ANCHOR = encode("=").tolist()
NONE = 1000.0  # added to the logit of "no arithmetic"


@pytest.fixture(params=["hidden", "tokens"])
def model(request):
    return adapted(interface=request.param, anchors={"inline": [ANCHOR]}, result_digits=8)


def texts_of(model, lengths=(9, 12)):
    """Left-padded texts that each end in an anchor, and are read as calculations with a result."""
    calculations = telling_texts(model, list(lengths))
    return left_padded([torch.cat([row[row != ANCHOR[0]], torch.tensor(ANCHOR)]) for row in calculations])


def anchored_texts():
    """Left-padded texts with an anchor each."""
    return left_padded([encode("the sum of 12 and 45=["), encode("34 * 7;=")])


def without_results(model):
    """Makes every reading one of no arithmetic."""
    with torch.no_grad():
        igc_layers(model)[0].igc_input_mapping["default"].operator_head.bias[-1] += NONE


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
    without_results(model)
    batch = anchored_texts()
    with widths(model) as seen, watching() as watched:
        out = generated(model, **batch)
    assert seen == []
    assert not any(isinstance(one, Writing) for one in watched)
    with model.disable_adapter():
        assert torch.equal(out.stacked, generated(model, **batch).stacked)


def test_what_is_written_is_what_a_layer_writes_that_computes_everything(model, monkeypatch):
    batch = texts_of(model)
    batch = {name: torch.cat([x, x], 1) for name, x in batch.items()}  # two steps, and padding between them
    out = generated(model, **batch)
    monkeypatch.setattr(passes, "first_to_write", lambda *args: 0)
    everything = generated(model, **batch)
    assert torch.equal(out.sequences, everything.sequences)
    torch.testing.assert_close(out.stacked, everything.stacked, atol=1e-5, rtol=0)


def test_what_ends_a_turn_ends_the_writing_of_the_hidden_interface_whole_and_by_single_tokens():
    model = adapted(interface="hidden", anchors={"inline": [ANCHOR], "ends": encode("A").tolist()}, result_digits=8)
    ids = torch.cat([texts_of(model, (9,))["input_ids"], encode(";;A;;")[None]], 1)
    for parts in ([len(ids[0])], [12, *[1] * (len(ids[0]) - 12)]):
        cache = DynamicCache(config=model.config)
        with watching() as seen, torch.no_grad():
            for part in ids.split(parts, 1):
                model(input_ids=part, past_key_values=cache)
        active = torch.cat([one.active[0] for one in seen if isinstance(one, Writing)])
        assert active.nonzero().flatten().tolist() == [9, 10, 11]


class Written(LogitsProcessor):
    """Makes each row write a text of its own."""

    def __init__(self, width, texts):
        self.width, self.texts = width, texts

    def __call__(self, input_ids, scores):
        chosen = [text[input_ids.shape[1] - self.width] for text in self.texts]
        return torch.full_like(scores, -1e4).scatter(1, torch.tensor(chosen)[:, None], 0.0)


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
    say = {"new": len(tokens), "logits_processor": LogitsProcessorList([Written(start, [tokens])])}
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
