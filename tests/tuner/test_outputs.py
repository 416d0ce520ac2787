"""Promises of `outputs`: the calculator's fields are real fields of a sub-type of the model's own output class."""

import pytest
import torch
from accelerate.utils import convert_outputs_to_fp32
from accelerate.utils.operations import recursively_apply
from checks import adapted, targets, texts
from torch.utils import _pytree as pytree
from transformers.modeling_outputs import CausalLMOutputWithPast

from peft_igc.tuner.call import Fields
from peft_igc.tuner.hooks.outputs import with_fields


NAMES = ["igc_loss", "igc_count", "igc_correct", "igc_gate"]


def fields(requires_grad=False):
    loss = torch.tensor(6.0, requires_grad=requires_grad)
    return Fields(loss, torch.tensor(3.0), torch.tensor(2.0), torch.tensor(0.5))


def output():
    return CausalLMOutputWithPast(loss=torch.tensor(1.0), logits=torch.zeros(1, 2, 3))


def test_distributed_wrappers_rebuild_the_output_with_its_fields_and_their_gradients():
    out = with_fields(output(), fields(requires_grad=True), add_to_loss=False)
    for again in (
        pytree.tree_map(lambda x: x * 1, out),  # as DDP does
        recursively_apply(lambda x: x * 1, out),  # as accelerate does to gather
        convert_outputs_to_fp32(lambda: out)(),  # as accelerate does under mixed precision
    ):
        assert type(again) is type(out)
        assert list(again.keys()) == list(out.keys())
        assert again.igc_loss.requires_grad
        torch.autograd.grad(again.igc_loss, out.igc_loss)


def test_the_output_has_the_fields_only_when_targets_were_given():
    model = adapted("llama")
    ids = texts(2, 6)
    plain = model(input_ids=ids, labels=ids)
    assert type(plain) is CausalLMOutputWithPast
    given = targets(("+", "1", "2"), None)
    anchored = torch.tensor([[5], [5]])
    out = model(input_ids=ids, labels=ids, igc_anchors=anchored, **given)
    apart = model(input_ids=ids, labels=ids, igc_anchors=anchored, igc_add_loss=False, **given)
    assert out.igc_count == 1
    assert 0 < out.igc_gate < 1
    torch.testing.assert_close(out.loss, apart.loss + out.igc_loss)
    assert list(out.keys())[-4:] == NAMES


@pytest.mark.parametrize("training", [True, False])
def test_the_fields_are_there_when_no_anchor_is(training):
    model = adapted("llama", anchors={"turns": [[100, 101]]}).train(training)
    out = model(input_ids=texts(2, 6), labels=texts(2, 6), **targets(("+", "1", "2"), None))
    assert (out.igc_loss, out.igc_count, out.igc_correct, out.igc_gate) == (0, 0, 0, 0)
    assert out.igc_loss.requires_grad
