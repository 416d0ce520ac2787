"""A decoder layer of which somebody calls `forward` alone: the calculator is off, and that is said once."""

import warnings
from contextlib import contextmanager

import pytest
import torch
from checks import adapted, generated, targets, texts
from tiny_models import tiny_model
from torch import nn

from peft_igc.tuner.call import ReadingDone, reading_alone


IDS = texts(2, 6)
PROMPT = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}


class Wrapper(nn.Module):
    """Runs a decoder layer without its hooks, as some wrappers for profiling or quantization do."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, *args, **kwargs):
        return self.layer.forward(*args, **kwargs)


def wrapped(index, **fields):
    """A model with a calculator and a wrapper around one of its decoder layers."""
    model = adapted("llama", **fields)
    layers = model.base_model.model.model.layers
    layers[index] = Wrapper(layers[index])
    return model


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


CASES = {
    "the layer that is written": (1, {"interface": "tokens"}),
    "the first layer, which is written": (0, {"interface": "hidden", "layer": 0}),
    "the first layer, whose input is read": (0, {"interface": "tokens"}),
    "a layer that is read": (1, {"interface": "hidden", "layer": 2, "read_from": [1, 2]}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_layer_whose_forward_is_called_alone_is_named_once_with_the_cure(case):
    index, fields = CASES[case]
    model = wrapped(index, **fields)
    message = rf"decoder layer {index} .*so the calculator is off.*Call the layer itself, `layer\(...\)`"
    with pytest.warns(UserWarning, match=message) as seen:
        off = logits(model)
    with silence():
        logits(model)
        generated(model, **PROMPT)
    assert len(seen) == 1
    assert torch.equal(off, logits(tiny_model("llama")))


def test_targets_are_refused_where_the_calculator_is_off():
    with pytest.raises(ValueError, match=r"decoder layer 1 .*so the targets train nothing"):
        wrapped(1, interface="hidden")(input_ids=IDS, **targets(("+", "1", "2"), None))


@pytest.fixture
def silent():
    with silence():
        yield


@contextmanager
def silence():
    """Makes warnings errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # transformers 5.23 has renamed this
        warnings.filterwarnings("ignore", "`(is_)?gradient_checkpointing(_enable)?` is deprecated")
        # torch 2.13 hides this one when it traces, but not where warnings are errors
        warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf Tensor")
        yield


@pytest.mark.usefixtures("silent")
def test_passes_without_the_layer_that_are_meant_are_silent():
    model = wrapped(1, interface="hidden")
    with model.disable_adapter():
        logits(model)
    model = adapted("llama", layer=2)
    base = model.base_model.model
    with reading_alone(), pytest.raises(ReadingDone):
        model(input_ids=IDS, **targets(("+", "1", "2"), None))
    base.config.num_hidden_layers = 1  # as assisted decoding with `assistant_early_exit` does in transformers 5.23
    logits(model)


@pytest.mark.usefixtures("silent")
def test_drafts_that_leave_early_are_silent():
    model = adapted("llama", layer=2)
    expected = generated(model, **PROMPT, new=4).sequences
    row = {name: value[:1] for name, value in PROMPT.items()}
    out = model.generate(**row, assistant_early_exit=1, do_sample=False, max_new_tokens=4, pad_token_id=0)
    assert torch.equal(out, expected[:1])


@pytest.mark.usefixtures("silent")
def test_compiled_passes_and_checkpoints_are_silent():
    model = adapted("llama", interface="tokens")
    compiled = torch.compile(model, backend="eager")
    assert torch.allclose(compiled(input_ids=IDS, use_cache=False).logits, logits(model), atol=1e-5)
    base = model.base_model.model
    base.forward = torch.compile(base.forward, backend="eager")
    assert torch.allclose(model(input_ids=IDS, use_cache=False).logits, logits(model), atol=1e-5)
    del base.forward
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    base.enable_input_require_grads()
    model.train()(input_ids=IDS).logits.sum().backward()
