"""Promises of `hooks`: the arguments are taken, refused with a cure, and every call is cleaned up."""

import copy
import pickle
import re

import pytest
import torch
from accelerate.utils import convert_outputs_to_fp32
from accelerate.utils.operations import recursively_apply
from checks import adapted, generated, igc_layers, scored, targets, texts
from peft import LoraConfig, get_peft_model
from tiny_models import small_config, tiny_model
from torch.utils import _pytree as pytree
from transformers.modeling_outputs import CausalLMOutputWithPast

from peft_igc.tuner.call import Fields, thread
from peft_igc.tuner.hooks.calls import TARGETS, with_fields


IDS = texts(2, 6)


@pytest.fixture(scope="module")
def model():
    return adapted("llama")


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    yield
    assert thread.calls == []
    assert thread.generations == []


def inner(model):
    return model.base_model.model


def test_targets_come_together_in_the_shapes_of_the_adapter_and_its_anchors(model):
    given = targets(("+", "1", "2"), None)
    for missing in TARGETS:
        if missing != "igc_result_scale":
            for more in ({name: t for name, t in given.items() if name != missing}, {**given, missing: None}):
                with pytest.raises(ValueError, match=f"`{missing}` is missing next to `igc_"):
                    model(input_ids=IDS, **more)
    for name, shape, wanted in (
        ("igc_operands", (2, 1, 2, 4), (2, 1, 2, 5)),
        ("igc_operands", (2, 1, 5), (2, 1, 2, 5)),
        ("igc_signs", (2, 1), (2, 1, 2)),
        ("igc_result", (2, 1, 1), (2, 1, 4)),
        ("igc_result_sign", (2,), (2, 1)),
        ("igc_result_status", (1, 1), (2, 1)),
    ):
        message = rf"`{name}` has shape {re.escape(str(shape))}, but this adapter needs .*{re.escape(str(wanted))}"
        with pytest.raises(ValueError, match=message):
            model(input_ids=IDS, **given | {name: torch.zeros(shape, dtype=torch.int64)})
    given = targets([("+", "1", "2"), None], [None, None])
    message = r"`igc_operator` has shape \(2, 2\), but this pass has anchors of shape \(2, 1\)"
    with pytest.raises(ValueError, match=message):
        model(input_ids=IDS, **given)
    model(input_ids=IDS, igc_anchors=torch.tensor([[1, 5], [-1, -1]]), **given)


@pytest.mark.parametrize(
    "call",
    [
        lambda model, **more: model(input_ids=IDS, **more),
        lambda model, **more: model(inputs_embeds=torch.zeros(2, 6, 32), **more),
        lambda model, **more: generated(model, input_ids=IDS, **more),
    ],
)
def test_anchors_that_are_no_positions_of_the_text_are_refused_in_forward_and_generate(model, call):
    mask = torch.tensor([[0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    for given, message in (
        ([2, 2], r"torch.int64 of shape \(2,\), but the input has 2 rows"),
        ([[2]], r"torch.int64 of shape \(1, 1\), but the input has 2 rows"),
        ([[2.0], [2.0]], "torch.float32 of shape"),
        ([[2], [6]], r"has the position 6, but the input has 6 tokens \(0..5\)"),
        ([[2], [-2]], "has the position -2, but the input has 6 tokens"),
        ([[0], [0]], "has a position on padding"),
    ):
        with pytest.raises(ValueError, match=message):
            call(model, igc_anchors=torch.tensor(given), attention_mask=mask)


def test_anchors_are_checked_against_the_end_of_a_mask_that_covers_a_cached_text(model):
    cache = model(input_ids=IDS[:, :4]).past_key_values
    given = {"input_ids": IDS[:, 4:], "attention_mask": torch.tensor([[1, 1, 1, 1, 0, 1], [0, 1, 1, 1, 1, 1]])}
    with pytest.raises(ValueError, match="has a position on padding"):
        model(**given, past_key_values=cache, igc_anchors=torch.tensor([[0], [0]]))
    model(**given, past_key_values=cache, igc_anchors=torch.tensor([[1], [0]]))


def test_unknown_arguments_are_refused(model):
    with pytest.raises(ValueError, match="`igc_anchor` is not an argument of the calculator. Use `igc_anchors`"):
        model(input_ids=IDS, igc_anchor=torch.tensor([[1], [1]]))
    with pytest.raises(ValueError, match=r"`model_kwargs` are not used by the model: \['igc_operator'\]"):
        model.generate(input_ids=IDS, igc_operator=torch.tensor([[0], [0]]))


def test_targets_need_a_dictionary_to_go_into(model):
    given = targets(("+", "1", "2"), None)
    with pytest.raises(ValueError, match="returned a `tuple`, which has no place for the reading loss. Leave"):
        model(input_ids=IDS, return_dict=False, **given)
    assert isinstance(model(input_ids=IDS, return_dict=False), tuple)


def test_a_refused_call_within_a_call_leaves_the_outer_one_alone(model):
    before = scored(model, IDS, None)
    refused = []

    def hook(module, args):
        if not refused:
            refused.append(True)
            with pytest.raises(ValueError, match="`igc_nonsense` is not an argument"):
                inner(model)(input_ids=IDS, igc_nonsense=1)

    with igc_layers(model)[0].get_base_layer().register_forward_pre_hook(hook):
        after = scored(model, IDS, None)
    assert refused
    assert torch.equal(before, after)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_of_the_model_works_and_is_independent(how):
    model = adapted("llama")
    want = generated(model, input_ids=IDS).stacked
    twin = how(model)
    assert inner(twin).generate.model is inner(twin)
    assert torch.equal(generated(twin, input_ids=IDS).stacked, want)
    with torch.no_grad():
        igc_layers(twin)[0].igc_output_mapping["default"].write_down.weight.zero_()
        igc_layers(twin)[0].igc_output_mapping["default"].write_down.bias.zero_()
    assert not torch.equal(generated(twin, input_ids=IDS).stacked, want)
    assert torch.equal(generated(model, input_ids=IDS).stacked, want)
    twin.unload()
    assert torch.equal(generated(model, input_ids=IDS).stacked, want)
    del twin
    assert torch.equal(generated(model, input_ids=IDS).stacked, want)


@pytest.mark.filterwarnings("ignore:You are trying to modify a model", "ignore:Already found a `peft_config`")
def test_the_hooks_sit_once_on_the_innermost_model_however_it_is_wrapped():
    inner = get_peft_model(tiny_model("llama"), small_config())
    inner.add_adapter("deep", small_config(layer=2))
    model = get_peft_model(inner, LoraConfig(r=2), adapter_name="other")
    base = igc_layers(model)[0]._base_model[0]
    assert [m for m in model.modules() if "_call_impl" in m.__dict__] == [base]
    for wrapped in (model, model.base_model.model, base):
        out = wrapped(input_ids=IDS, **targets(("+", "1", "2"), None))
        assert out.igc_count == 1


def test_a_replica_of_data_parallel_is_refused():
    model = get_peft_model(tiny_model("llama"), small_config())
    copies = (module._replicate_for_data_parallel() for module in model.modules())  # as `nn.parallel.replicate` does
    with pytest.raises(ValueError, match="`nn.DataParallel` runs copies .*Use DistributedDataParallel"):
        list(copies)


def test_texts_packed_by_lengths_are_refused_while_a_calculator_is_on():
    model = get_peft_model(tiny_model("llama"), small_config())
    lengths = torch.tensor([0, 3, IDS.shape[1]], dtype=torch.int32)
    with pytest.raises(ValueError, match="`cu_seq_lens_q` packs several texts .*`padding_free=False`"):
        model(input_ids=IDS, cu_seq_lens_q=lengths)
    with model.disable_adapter():
        model(input_ids=IDS, cu_seq_lens_q=lengths)


def test_positions_that_stand_still_or_restart_in_one_row_are_refused():
    model = get_peft_model(tiny_model("llama"), small_config())
    rising = torch.arange(IDS.shape[1])
    for more in ({"labels": IDS}, targets(None, None)):  # where something is learned
        with pytest.raises(ValueError, match="several texts are packed.*Set `packing=False` and `padding_free=False`"):
            model(input_ids=IDS, position_ids=torch.tensor([[0, 1, 2, 0, 1, 2]] * 2), **more)
    for packed in ([0, 1, 2, 0, 1, 2], [3, 4, 5, 1, 2, 3], [0, 0, 0, 0, 0, 0]):  # one text, a cut one, one token each
        with pytest.raises(ValueError, match="`position_ids` restart within a row"):
            model(input_ids=IDS, position_ids=torch.stack([rising, torch.tensor(packed)]))
    model(input_ids=IDS, position_ids=torch.stack([rising, rising + 3]), labels=IDS)
    # left padding restarts nothing: the mask says what the positions mean
    mask = torch.tensor([[0, 0, 1, 1, 1, 1]] * 2)
    model(input_ids=IDS, position_ids=torch.tensor([[1, 1, 0, 1, 2, 3]] * 2), attention_mask=mask, labels=IDS)
    # without a dimension of rows, as some architectures take them
    get_peft_model(tiny_model("gpt2"), small_config())(input_ids=IDS, position_ids=rising)


def test_distributed_wrappers_rebuild_the_output_with_its_fields_and_their_gradients():
    plain = CausalLMOutputWithPast(loss=torch.tensor(1.0), logits=torch.zeros(1, 2, 3))
    values = torch.tensor(6.0, requires_grad=True), torch.tensor(3.0), torch.tensor(2.0), torch.tensor(0.5)
    out = with_fields(plain, Fields(*values), add_to_loss=False)
    for again in (
        pytree.tree_map(lambda x: x * 1, out),  # as DDP does
        recursively_apply(lambda x: x * 1, out),  # as accelerate does to gather
        convert_outputs_to_fp32(lambda: out)(),  # as accelerate does under mixed precision
    ):
        assert type(again) is type(out)
        assert list(again.keys()) == list(out.keys())
        assert again.igc_loss.requires_grad
        torch.autograd.grad(again.igc_loss, out.igc_loss)


def test_the_output_has_the_fields_whenever_targets_were_given_and_only_then(model):
    given = {"input_ids": IDS, "labels": IDS}
    assert type(model(**given)) is CausalLMOutputWithPast
    given |= targets(("+", "1", "2"), None)
    anchored = {**given, "igc_anchors": torch.tensor([[5], [5]])}
    out, apart = model(**anchored), model(**anchored, igc_add_loss=False)
    assert out.igc_count == 1
    assert 0 < out.igc_gate < 1
    torch.testing.assert_close(out.loss, apart.loss + out.igc_loss)
    assert list(out.keys())[-4:] == ["igc_loss", "igc_count", "igc_correct", "igc_gate"]
    for training in (True, False):
        without = adapted("llama", anchors={"turns": [[100, 101]]}).train(training)(**given)  # no anchor is found
        assert (without.igc_loss, without.igc_count, without.igc_correct, without.igc_gate) == (0, 0, 0, 0)
        assert without.igc_loss.requires_grad
