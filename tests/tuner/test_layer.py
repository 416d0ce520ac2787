"""Promises of the layer: silence where nothing was calculated, truth only in training, gradients where they belong."""

import logging

import pytest
import torch
from checks import (
    adapted,
    close,
    generated,
    igc_layers,
    layer_output,
    positions_of,
    same_bits,
    scored,
    state_of,
    steps_of,
    targets,
    telling,
    telling_texts,
    texts,
)
from peft import get_peft_model
from tiny_models import small_config, tiny_model
from tiny_vocabulary import encode
from transformers import DynamicCache

from peft_igc.tuner import layer, passes


@pytest.fixture(scope="module")
def llama(interface):
    model = adapted("llama", interface=interface)
    return model, telling_texts(model, [9, 9, 9])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("grad", [True, False])
def test_a_row_that_is_not_finite_spoils_no_other_row(llama, value, grad):
    model, rows = llama
    ids = torch.stack(rows)

    def spoil(module, args, output):  # before the calculator sees it
        output = output.clone()
        output[1, 2] = value
        return output

    with torch.set_grad_enabled(grad):
        clean = layer_output(model, ids)
        with igc_layers(model)[0].get_base_layer().register_forward_hook(spoil, prepend=True):
            got = layer_output(model, ids)
    assert not got[1].isfinite().all()
    same_bits(got[[0, 2]].detach(), clean[[0, 2]].detach())


def test_training_writes_the_right_result_and_an_evaluation_and_unsupervised_rows_what_they_read(llama, monkeypatch):
    model, (other, read, last) = llama
    ids = torch.stack([read, other, last])  # no rule changes the sign of what is read in the second row
    given = targets(("+", "1", "2"), ("*", "99", "99"), ("*", "77", "80"))
    assert not torch.equal(given["igc_result"], steps_of(model, ids, torch.full((3, 1), 8)).result.digits)
    with torch.no_grad():
        free, evaluated = model(input_ids=ids).logits, model(input_ids=ids, **given)
        same_bits(evaluated.logits, free)
        assert evaluated.igc_count == 3
        given["igc_operator"][1] = -100
        model.train()
        forced = model(input_ids=ids, **given).logits
        monkeypatch.setattr(igc_layers(model)[0].igc_config["default"], "teacher_forcing", False)
        unforced = model(input_ids=ids, **given).logits
        model.eval()
    assert ((forced - free).abs().amax((1, 2)) > 1e-3).tolist() == [True, False, True]
    same_bits(forced[1], free[1])
    same_bits(unforced, free)


def test_training_is_silent_where_the_truth_has_no_number(llama):
    model, rows = llama
    ids = torch.stack([*rows, rows[0]])
    given = targets("none", ("/", "7", "0"), ("/", "7", "2"), ("*", "9999", "9999"))
    model.train()
    with torch.no_grad():
        got = model(input_ids=ids, **given).logits
        model.eval()
        with model.disable_adapter():
            same_bits(got, model(input_ids=ids).logits)


@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_each_position_is_governed_by_the_latest_anchor_at_or_before_it(arch):
    model = adapted(arch)
    ids = torch.stack(telling_texts(model, [12, 12]))
    both = layer_output(model, ids, igc_anchors=torch.tensor([[3, 8], [9, 5]])).detach()
    early = layer_output(model, ids, igc_anchors=torch.tensor([[3], [5]])).detach()
    late = layer_output(model, ids, igc_anchors=torch.tensor([[8], [9]])).detach()
    none = layer_output(model, ids, igc_anchors=torch.tensor([[-1], [-1]])).detach()
    for row, first, second in ((0, 3, 8), (1, 5, 9)):
        same_bits(both[row, :first], none[row, :first])
        close(both[row, first:second], early[row, first:second])
        close(both[row, second:], late[row, second:])
        assert (early - late).abs()[row, second:].max() > 0.01
        assert (early - none).abs()[row, first:second].amax(-1).min() > 0.01


def test_padding_between_an_anchor_and_its_answer_does_not_count(llama):
    model, rows = llama
    text, at = rows[0], torch.tensor([[5]])
    padded = torch.cat([text[:6], torch.zeros(3, dtype=torch.int64), text[6:]])[None]
    mask = torch.tensor([[1] * 6 + [0] * 3 + [1] * 3])
    got = scored(model, padded, at, attention_mask=mask, position_ids=positions_of(mask))
    close(got[:, mask[0].bool()], scored(model, text[None], at))


def gradients(model):
    return {name: p.grad for name, p in model.named_parameters() if ".igc_" in name}


@pytest.mark.parametrize("anchors", [None, [[8], [-1]], [[-1], [-1]]])
def test_every_parameter_gets_a_gradient_without_labels_whatever_the_anchors(anchors, interface):
    model = adapted("llama", interface=interface).train()
    more = {} if anchors is None else {"igc_anchors": torch.tensor(anchors)}
    model(input_ids=texts(2, 9), **more)[0].sum().backward()
    found = gradients(model)
    assert len(found) > 40
    assert [name for name, grad in found.items() if grad is None] == []


@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_the_language_loss_teaches_the_writing_and_the_reading_loss_the_reading_alone(arch, interface):
    model = adapted(arch, interface=interface).train()
    ids = torch.stack([encode("12 + -345 =-333 ."), encode("x7 7 8 =?-1 ..")])
    labels = ids.clone()
    labels[:, :7] = -100
    given = targets(("+", "12", "-345"), ("-", "7", "8"))
    out = model(input_ids=ids, labels=labels, igc_add_loss=False, **given)
    out.loss.backward(retain_graph=True)
    assert taught(model) == {"igc_output_mapping"}
    model.zero_grad()
    out.igc_loss.backward()
    assert taught(model) == {"igc_input_mapping"}


def taught(model):
    """The mappings of which every parameter has a gradient other than zero; the others' are all zero."""
    found = {}
    for name, grad in gradients(model).items():
        if "key_map.bias" not in name:  # it moves all scores of a softmax alike: nothing can be learned from it
            found.setdefault(name.split(".igc.")[1].split(".")[0], []).append(grad is not None and bool(grad.any()))
    assert all(len(set(flags)) == 1 for flags in found.values()), found
    return {mapping for mapping, flags in found.items() if flags[0]}


def test_the_readings_gradient_stops_at_the_adapter_unless_told_otherwise(interface):
    for detach in (True, False):
        model = adapted("llama", detach_reading=detach, interface=interface)
        embedding = model.get_input_embeddings().weight.requires_grad_()
        out = model(input_ids=encode("(12 + 34 =")[None], **targets(("+", "12", "34")))
        out.igc_loss.backward()
        assert (embedding.grad is None or not embedding.grad.any()) == detach


def test_a_reading_gradient_does_not_leak_into_a_cache(interface):
    model = adapted("llama", detach_reading=False, interface=interface).train()
    out = model(input_ids=texts(1, 9), use_cache=True)
    state = state_of(out.past_key_values)
    assert not any(t.requires_grad for t in (state.ids, state.features, *state.steps) if t.numel())


def test_a_cache_made_in_inference_mode_goes_on_with_gradients(interface):
    model = adapted("llama", interface=interface)
    model.base_model.requires_grad_(True)
    prompt = encode("12 + 34 =")[None]
    with torch.inference_mode():
        cache = model(input_ids=prompt, igc_anchors=torch.tensor([[prompt.shape[1] - 1]])).past_key_values
    model(input_ids=encode("(")[None], past_key_values=cache).logits.square().sum().backward()
    written = [p.grad for name, p in model.named_parameters() if "output_mapping" in name]
    assert any(grad is not None and grad.any() for grad in written)


@pytest.mark.parametrize("recorded_before", [False, True])
def test_recorded_hidden_states_contain_the_update(recorded_before):
    base, ids = tiny_model("llama"), texts(3, 9)
    if recorded_before:  # transformers' recording hooks then are older than ours
        base(input_ids=ids, output_hidden_states=True)
    model = telling(get_peft_model(base, small_config()))
    with torch.no_grad():
        got = model(input_ids=ids, output_hidden_states=True).hidden_states
        with model.disable_adapter():
            base = model(input_ids=ids, output_hidden_states=True).hidden_states
    same_bits(got[1], base[1])
    same_bits(got[2][:, :-1], base[2][:, :-1])
    assert (got[2] - base[2])[:, -1].abs().max() > 0.01
    same_bits(got[2], layer_output(model, ids).detach())


def test_running_the_backbone_alone_is_said_aloud(llama, caplog):
    model, rows = llama
    with caplog.at_level(logging.WARNING, logger="peft_igc.tuner.layer"), torch.no_grad():
        model.base_model.model.model(input_ids=rows[0][None])
    assert "was called outside of `LlamaForCausalLM`, so the calculator is off for this pass" in caplog.text


def test_a_cached_decode_step_waits_for_the_device_at_most_once_and_only_while_a_result_is_open(llama, monkeypatch):
    """In the hidden interface never: only the token interface has to know the new token."""
    model, rows = llama
    out = model(input_ids=rows[0][None], use_cache=True)
    run, looks, inner = passes.act, [], torch.Tensor.tolist

    def guarded(adapter, h, call, states):
        args = adapter, h, call, states
        if call.generation is not None and not call.generation.passed:
            return run(*args)  # the pass with the anchor asks once whether there is anything to write

        def refuse(self, *more):
            raise AssertionError("a value was read from the device")

        open_rows = [row for row in states.get(adapter.name).rows if row.needs() is not None]
        with monkeypatch.context() as patch:
            for name in ("item", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__index__", "__float__"):
                patch.setattr(torch.Tensor, name, refuse)
            seen = []
            patch.setattr(torch.Tensor, "tolist", lambda self: seen.append(1) or inner(self))
            result = run(*args)
        assert len(seen) == bool(open_rows)
        looks.append(len(seen))
        return result

    config = igc_layers(model)[0].igc_config["default"]
    monkeypatch.setattr(config, "write_again", config.interface == "hidden")  # so that it ends with the result
    monkeypatch.setattr(layer, "_act_uncompiled", guarded)
    with torch.no_grad():
        model(input_ids=torch.tensor([[5]]), past_key_values=out.past_key_values)
        # the same within `generate`, whose first pass reads and whose others only write
        out = generated(model, input_ids=rows[0][None])
        generated(model, input_ids=out.sequences, past_key_values=out.past_key_values)
    assert len(looks) == 9
    assert any(looks) == (config.interface == "tokens")


@pytest.mark.filterwarnings("ignore:.gradient_checkpointing_enable. is deprecated:FutureWarning")  # transformers 5.23
def test_steps_are_kept_on_the_cache_but_by_a_layer_that_is_checkpointed_now(interface):
    model, ids, at = adapted("llama", interface=interface), texts(2, 6), torch.tensor([[3], [3]])
    for training, checkpointing in ((True, False), (False, True)):
        model.train(training)
        if checkpointing:
            model.gradient_checkpointing_enable()
        cache = DynamicCache()
        first = model(input_ids=ids[:, :4], past_key_values=cache, igc_anchors=at).logits
        second = model(input_ids=ids[:, 4:], past_key_values=cache).logits
        close(torch.cat([first, second], 1), scored(model, ids, at))
    model.train()
    alone = model(input_ids=ids, use_cache=False).logits
    assert torch.equal(model(input_ids=ids, past_key_values=DynamicCache(), igc_anchors=at + 2).logits, alone)
