"""Promises of `read_from`: the layers that it names are read, wherever the result is written."""

from contextlib import contextmanager

import pytest
import torch
from checks import adapted, igc_layers, telling_texts, watching
from peft import get_peft_model
from tiny_models import small_config, tiny_model

from peft_igc.tuner.call import current_call
from peft_igc.tuner.hooks.calls import Capture
from peft_igc.tuner.hooks.install import capture


def reading(model, ids):
    """The operator's logits at the last token."""
    with watching() as seen, torch.no_grad():
        model(ids, igc_anchors=torch.tensor([[ids.shape[1] - 1]]))
    return seen[0].reading.operator


@contextmanager
def shifted(index, size=1.0):
    """Adds a constant to what is captured of one decoder layer; what later layers see stays as it is."""
    plain = Capture.__call__

    def capture(self, layer, args, output):
        plain(self, layer, args, output)
        call = current_call(self.model)
        if self.index == index and call is not None:
            call.outputs[index] = call.outputs[index] + size

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Capture, "__call__", capture)
        yield


def test_every_layer_that_is_named_is_read_and_no_other(interface):
    for named in ([0], [1], [0, 1], [1, 2]):
        model = adapted("llama", interface=interface, layer=2, read_from=named)
        capture(model.get_base_model(), model.get_base_model().model.layers, [0, 1])  # of another adapter
        ids = telling_texts(model, [9])[0][None]
        plain = reading(model, ids)
        for index in (0, 1):
            with shifted(index):
                assert torch.equal(reading(model, ids), plain) == (index not in named)


def test_the_shares_of_the_layers_have_a_part_in_the_reading():
    model = adapted("llama", interface="tokens", layer=2, read_from=[0, 1])
    ids, mix = telling_texts(model, [9])[0][None], igc_layers(model)[0].igc_input_mapping["default"].mix
    readings = []
    for shares in ([2.0, -1.0], [-1.0, 2.0]):
        mix.weights.data = torch.tensor(shares)
        readings.append(reading(model, ids))
    assert not torch.equal(*readings)


def test_a_deleted_adapter_leaves_no_hook_that_no_other_needs():
    base = tiny_model("llama")
    model = get_peft_model(base, small_config(interface="tokens", layer=2, read_from=[0, 1]), adapter_name="a")
    model.add_adapter("b", small_config(interface="tokens", layer=2, read_from=[1]))
    layers = base.model.layers

    def captured():
        return [any(isinstance(h, Capture) for h in layer._forward_hooks.values()) for layer in layers]

    assert captured()[:3] == [True, True, False]
    model.set_adapter("b")
    model.delete_adapter("a")
    assert captured()[:3] == [False, True, False]
    reading(model, torch.arange(9)[None])  # `b` reads on
    model.delete_adapter("b")
    assert not any(captured())
