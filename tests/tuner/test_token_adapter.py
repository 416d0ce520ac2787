"""The token interface as an adapter: training, checkpointing, files, types, and other adapters beside it."""

import gc
import itertools
import warnings

import pytest
import torch
from checks import adapted, left_padded, logits, steps_of, targets
from tiny_training import NESTED
from tiny_vocabulary import encode
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from transformers import DynamicCache

from peft_igc.numbers.digits import PAD
from peft_igc.tuner.call import _calls_by_storage


pytestmark = [
    pytest.mark.filterwarnings(*NESTED),
    pytest.mark.filterwarnings("ignore:.gradient_checkpointing_enable. is deprecated:FutureWarning"),
]

PROMPTS = left_padded([encode("(12 + -345) ="), encode("7 and 8 =")])
# Answers that begin, go on and end; a number that breaks off another; the operands of the first row are 12 and -345.
ANSWERED = left_padded([encode("(12 + -345) =-333 ."), encode("5% 7 and 8 =-1 .")])
LABELS = ANSWERED["input_ids"].masked_fill(torch.arange(ANSWERED["input_ids"].shape[1]) < 8, -100)
TARGETS = targets(("+", "12", "-345"), ("-", "7", "8"))
AT = {"igc_anchors": torch.tensor([[8], [7]])}


def gradients(model):
    """Of one pass with both losses."""
    model.zero_grad()
    model(**ANSWERED, labels=LABELS, use_cache=False, **AT, **TARGETS).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}


def same(found, wanted):
    names = [name.replace("_checkpoint_wrapped_module.", "") for name in found]
    assert names == list(wanted)
    for grad, want in zip(found.values(), wanted.values(), strict=True):
        torch.testing.assert_close(grad, want, atol=1e-6, rtol=1e-4)


# The second one is the input of the calculator's layer, which recomputation knows by its storage.
PLACES = [(0, None), (1, None), (2, [0, 1]), (2, [0, 2])]


# Up to transformers 5.16 at least, a layer's hooks run within a checkpoint, which is refused where that is reentrant.
@pytest.mark.parametrize("reentrant", [pytest.param(False, marks=pytest.mark.versions), True])
@pytest.mark.parametrize(
    ("interface", "layer", "read_from", "detach"),
    [*(("tokens", *place, False) for place in PLACES), ("tokens", 1, None, True), ("hidden", 1, None, True)],
)
def test_checkpointing_changes_no_gradient(interface, layer, read_from, detach, reentrant):
    def model():
        fields = {"layer": layer, "read_from": read_from, "detach_reading": detach}
        return adapted("llama", interface=interface, **fields).train()

    wanted = gradients(model())
    assert [name for name, grad in wanted.items() if not grad.any() and "key_map.bias" not in name] == []
    checkpointed = model()
    checkpointed.gradient_checkpointing_enable({"use_reentrant": reentrant})
    checkpointed.enable_input_require_grads()
    same(gradients(checkpointed), wanted)
    if not reentrant:
        wrapped = model()
        layers = wrapped.base_model.model.model.layers
        for i in range(len(layers)):
            layers[i] = checkpoint_wrapper(layers[i], checkpoint_impl=CheckpointImpl.NO_REENTRANT)
        same(gradients(wrapped), wanted)


@pytest.mark.parametrize(("layer", "read_from"), PLACES)
def test_no_call_outlives_its_pass(layer, read_from):
    model = adapted("llama", interface="tokens", layer=layer, read_from=read_from).train()
    model.get_input_embeddings().weight.requires_grad_()  # a graph that reaches the layer's input
    _calls_by_storage.clear()
    gc.freeze()  # what other tests have left is not searched again
    for given, backward in itertools.product([False, True], repeat=2):
        more = {"past_key_values": DynamicCache(config=model.config)} if given else {}
        out = model(**ANSWERED, labels=LABELS, **AT, **TARGETS, **more)
        if backward:
            out.loss.backward()
        del out, more
        gc.collect()
        assert len(_calls_by_storage) == 1
        assert all(reference.expired() for reference, _ in _calls_by_storage.values())
    gc.unfreeze()


def test_several_anchors_of_a_row_are_read_and_taught_apart():
    model = adapted("llama", interface="tokens", reading_context="row").train()
    ids = encode("(12 + 5 = 17 and 8 =-9 .")[None]
    at = torch.tensor([[len(encode("(12 + 5 =")) - 1, len(encode("(12 + 5 = 17 and 8 =")) - 1, -1]])
    given = targets([("+", "12", "5"), ("-", "17", "8"), None])
    both = model(input_ids=ids, igc_anchors=at, **given)
    losses = [
        model(input_ids=ids, igc_anchors=at[:, [a]], **{name: t[:, [a]] for name, t in given.items()}).igc_loss
        for a in (0, 1)
    ]
    torch.testing.assert_close(both.igc_loss, losses[0] + losses[1])
    assert float(both.igc_count) == 2
    step = steps_of(model, ids, at)
    counts = (step.reading.digits[..., 0] != PAD).sum(-1)
    assert counts.tolist() == [[2, 4, 0]]


def test_resized_embeddings_change_nothing_that_was_there():
    model, ids = adapted("llama", interface="tokens"), PROMPTS["input_ids"]
    before = logits(model, ids)
    model.resize_token_embeddings(200, mean_resizing=False)
    torch.testing.assert_close(logits(model, ids)[..., :128], before, atol=1e-5, rtol=0)


def test_a_prompt_of_embeddings_is_warned_of_once_in_the_token_interface_only():
    settings = {"max_new_tokens": 2, "do_sample": False, "attention_mask": PROMPTS["attention_mask"]}
    model = adapted("llama", interface="tokens")
    embeddings = model.get_input_embeddings()(PROMPTS["input_ids"])
    with warnings.catch_warnings(record=True) as seen:
        warnings.filterwarnings("default", ".*has no token ids")
        for _ in range(2):
            model.generate(inputs_embeds=embeddings, **settings)
    assert [str(one.message) for one in seen] == [
        "`generate(inputs_embeds=...)` has no token ids, and the token interface reads numbers from them, so the "
        "calculator is off in this prompt. Pass `input_ids`."
    ]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*has no token ids")
        model.generate(input_ids=PROMPTS["input_ids"], **settings)
        with model.disable_adapter():
            model.generate(inputs_embeds=embeddings, **settings)
        adapted("llama").generate(inputs_embeds=embeddings, **settings)
