"""Promises of `read_from`: the layers that it names are read, wherever the result is written."""

from contextlib import contextmanager

import pytest
import torch
from checks import (
    adapted,
    assert_as_scored,
    generated,
    igc_layers,
    left_padded,
    telling_texts,
    watching,
)
from peft import PeftModel, get_peft_model
from tiny_models import small_config, tiny_model

from peft_igc.tuner import hooks
from peft_igc.tuner.call import current_call
from peft_igc.tuner.hooks.calls import CaptureOutput
from tests.tuner.test_token_adapter import gradients


INTERFACES = ["hidden", "tokens"]


def reading(model, ids):
    """The operator's logits at the last token."""
    with watching() as seen, torch.no_grad():
        model(ids, igc_anchors=torch.tensor([[ids.shape[1] - 1]]))
    return next(event for event in seen if hasattr(event, "reading")).reading.operator


@contextmanager
def shifted(index, size=1.0):
    """Adds a constant to what is captured of one decoder layer; what later layers see stays as it is."""
    plain = CaptureOutput.__call__

    def capture(self, layer, args, output):
        plain(self, layer, args, output)
        call = current_call(self.model)
        if self.index == index and call is not None:
            call.outputs[index] = call.outputs[index] + size

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CaptureOutput, "__call__", capture)
        yield


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("read_from", [[0], [0, 1]])
def test_cached_padded_generation_equals_one_uncached_pass(interface, read_from):
    model = adapted("llama", interface=interface, layer=1, read_from=read_from)
    rows = telling_texts(model, [9, 5, 7])
    out = generated(model, **left_padded(rows, extra=2))
    assert_as_scored(model, out, rows, [[len(row) - 1] for row in rows])


@pytest.mark.parametrize("interface", INTERFACES)
def test_every_layer_that_is_named_is_read_and_no_other(interface):
    for named in ([0], [1], [0, 1], [1, 2]):
        model = adapted("llama", interface=interface, layer=2, read_from=named)
        hooks.capture(model.get_base_model(), model.get_base_model().model.layers, [0, 1])  # of another adapter
        ids = telling_texts(model, [9])[0][None]
        plain = reading(model, ids)
        for index in (0, 1):
            with shifted(index):
                assert torch.equal(reading(model, ids), plain) == (index not in named)


def test_the_shares_of_the_layers_are_learned_from_the_reading_loss():
    model = adapted("llama", interface="tokens", layer=2, read_from=[0, 1]).train()
    found = [grad for name, grad in gradients(model).items() if ".mix." in name]
    assert [grad.shape for grad in found] == [(2,)]
    assert found[0].abs().min() > 0


@pytest.mark.parametrize("arch", ["llama", "gpt2", "bloom"])
def test_an_adapter_returns_from_its_file_and_leaves_no_hook(arch, tmp_path):
    base = tiny_model(arch)
    ids = telling_texts(adapted(arch, interface="tokens"), [9])[0][None]
    hooks = {name: len(module._forward_hooks) for name, module in base.named_modules()}
    model = get_peft_model(base, small_config(interface="tokens", layer=2, read_from=[0, 1]))
    mix = igc_layers(model)[0].igc_input_mapping["default"].mix
    mix.weights.data = torch.tensor([2.0, -1.0])
    model.eval().save_pretrained(tmp_path)
    again = PeftModel.from_pretrained(tiny_model(arch), tmp_path)
    assert again.peft_config["default"].read_from == [0, 1]
    got = reading(model, ids)
    assert torch.equal(reading(again, ids), got)
    mix.weights.data = torch.tensor([-1.0, 2.0])
    assert not torch.equal(reading(model, ids), got)
    unloaded = model.unload()
    assert {name: len(module._forward_hooks) for name, module in unloaded.named_modules()} == hooks


def test_a_deleted_adapter_leaves_no_hook_that_no_other_needs():
    base = tiny_model("llama")
    model = get_peft_model(base, small_config(interface="tokens", layer=2, read_from=[0, 1]), adapter_name="a")
    model.add_adapter("b", small_config(interface="tokens", layer=2, read_from=[1]))
    layers = base.model.layers

    def captured():
        return [any(isinstance(h, CaptureOutput) for h in layer._forward_hooks.values()) for layer in layers]

    assert captured()[:3] == [True, True, False]
    model.set_adapter("b")
    model.delete_adapter("a")
    assert captured()[:3] == [False, True, False]
    reading(model, torch.arange(9)[None])  # `b` reads on
    model.delete_adapter("b")
    assert not any(captured())
