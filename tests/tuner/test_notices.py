"""Promises of `notices`: a training that teaches nothing and a calculator whose hooks do not run are said once."""

import warnings
from contextlib import contextmanager

import pytest
import torch
from checks import adapted, generated, logits, targets, texts
from peft import LoraConfig, PeftModel, get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import NESTED, igc_model
from torch import nn

from peft_igc.tuner.call import ReadingDone, reading_alone


ROWS = texts(2, 6)
PROMPT = {"input_ids": ROWS, "attention_mask": torch.ones_like(ROWS)}
TARGETS = targets("none", None) | {"igc_anchors": torch.tensor([[2], [2]])}


def passes(model, n, more=None):
    for _ in range(n):
        model(**PROMPT, labels=ROWS, **(more or {})).loss.backward()


def said(caplog):
    return [record.getMessage() for record in caplog.records if "notices" in record.name]


def test_a_training_without_targets_is_said_once_and_not_after_a_batch_that_had_some(caplog):
    model = igc_model().train()
    passes(model, 1, TARGETS)
    passes(model, 3)
    assert said(caplog) == []
    passes(igc_model().train(), 3)
    (message,) = said(caplog)
    assert "The reading of the calculator 'default' is trained and a training pass got no targets" in message
    assert "`remove_unused_columns=False`" in message


def test_each_adapter_has_its_own_warning_and_a_new_one_of_the_same_name_another(caplog):
    model = igc_model().train()
    model.add_adapter("second", small_config(init_weights=True))
    passes(model, 1)
    model.set_adapter("second")
    passes(model, 1)
    assert [message.count("'second'") for message in said(caplog)] == [0, 1]
    model.set_adapter("default")
    model.delete_adapter("second")
    model.add_adapter("second", small_config(init_weights=True))
    model.set_adapter("second")
    passes(model, 1)
    assert len(said(caplog)) == 3


def test_passes_that_train_nothing_do_not_count(caplog):
    model = igc_model().train()
    with torch.no_grad():
        model(**PROMPT)
        with model.disable_adapter():
            model(**PROMPT)
    passes(model.eval(), 2)
    assert said(caplog) == []


@pytest.mark.filterwarnings(*NESTED)
@pytest.mark.parametrize("frozen", [True, False])
def test_a_lora_that_is_trained_with_a_frozen_calculator_is_left_alone(caplog, frozen):
    model = igc_model()
    if frozen:
        model.requires_grad_(False)
    model = get_peft_model(model, LoraConfig(target_modules=["q_proj"]), adapter_name="style").train()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name or (not frozen and "igc_" in name))
    passes(model, 2)
    assert len(said(caplog)) == (0 if frozen else 1)


def test_an_adapter_that_was_loaded_for_inference_is_said_once(tmp_path, caplog):
    igc_model().save_pretrained(tmp_path)
    for more in (None, TARGETS):
        model = PeftModel.from_pretrained(tiny_model("llama"), tmp_path).train()
        model.enable_input_require_grads()  # as with gradient checkpointing: the backward pass has something to do
        passes(model, 3, more)
        (message,) = said(caplog)
        assert "no parameter of the model is trained" in message
        assert "`is_trainable=True`" in message
        caplog.clear()
    passes(PeftModel.from_pretrained(tiny_model("llama"), tmp_path, is_trainable=True).train(), 1, TARGETS)
    assert said(caplog) == []


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
        off = logits(model, ROWS)
    with silence():
        logits(model, ROWS)
        generated(model, **PROMPT)
    assert len(seen) == 1
    assert torch.equal(off, logits(tiny_model("llama"), ROWS))
    with pytest.raises(ValueError, match=rf"decoder layer {index} .*so the targets train nothing"):
        wrapped(index, **fields)(input_ids=ROWS, **targets(("+", "1", "2"), None))


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


def test_passes_without_the_layer_that_are_meant_are_silent():
    model = adapted("llama", layer=2)
    row = {name: value[:1] for name, value in PROMPT.items()}
    expected = generated(model, **row, new=4).sequences
    with silence():
        with reading_alone(), pytest.raises(ReadingDone):
            model(input_ids=ROWS, **targets(("+", "1", "2"), None))
        drafted = model.generate(**row, assistant_early_exit=1, do_sample=False, max_new_tokens=4, pad_token_id=0)
        off = wrapped(1, interface="hidden")
        with off.disable_adapter():
            logits(off, ROWS)
    assert torch.equal(drafted, expected)


def test_compiled_passes_and_checkpoints_are_silent(interface):
    model = adapted("llama", interface=interface)
    base, wanted = model.base_model.model, logits(model, ROWS)
    with silence():
        compiled = torch.compile(model, backend="eager")
        assert torch.allclose(compiled(input_ids=ROWS, use_cache=False).logits, wanted, atol=1e-5)
        base.forward = torch.compile(base.forward, backend="eager")
        assert torch.allclose(model(input_ids=ROWS, use_cache=False).logits, wanted, atol=1e-5)
        del base.forward
        base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
        base.enable_input_require_grads()
        model.train()(input_ids=ROWS).logits.sum().backward()
