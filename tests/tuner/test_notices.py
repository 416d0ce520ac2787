"""Promises of `notices`: a training that teaches an adapter nothing is said once, and one that does never."""

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import NESTED

from peft_igc.data.columns import check_columns, encode_steps
from peft_igc.text.values import Limits
from peft_igc.tuner.hooks.notices import PASSES


IDS = torch.tensor([[5, 6, 7, 8, 9, 10]])
INPUTS = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS), "labels": IDS}


def calculator(**fields):
    return get_peft_model(tiny_model("llama"), small_config(init_weights=True, **fields)).train()


def targets():
    step = check_columns({"igc_operator": "none"}, Limits(4, 4))
    return encode_steps([step], num_digits=4, result_digits=4, operations=("+", "-", "*", "/")) | {
        "igc_anchors": torch.tensor([[2]])
    }


def passes(model, n, more=None):
    for _ in range(n):
        model(**INPUTS, **(more or {})).loss.backward()


def said(caplog):
    return [record.getMessage() for record in caplog.records if "notices" in record.name]


def test_a_training_without_targets_is_said_once(caplog):
    model = calculator()
    passes(model, PASSES - 1)
    assert said(caplog) == []
    passes(model, 3 * PASSES)
    (message,) = said(caplog)
    assert "The reading of the calculator 'default' is trained and got no targets" in message
    assert "`remove_unused_columns=False`" in message


def test_each_adapter_has_its_own_warning_and_a_new_one_of_the_same_name_another(caplog):
    model = calculator()
    model.add_adapter("second", small_config(init_weights=True))
    passes(model, PASSES)
    model.set_adapter("second")
    passes(model, PASSES)
    assert [message.count("'second'") for message in said(caplog)] == [0, 1]
    model.set_adapter("default")
    model.delete_adapter("second")
    model.add_adapter("second", small_config(init_weights=True))
    model.set_adapter("second")
    passes(model, PASSES)
    assert len(said(caplog)) == 3


def test_one_batch_with_targets_ends_the_watch(caplog):
    model = calculator()
    passes(model, 1)
    passes(model, 1, targets())
    passes(model, 3 * PASSES)
    assert said(caplog) == []


def test_passes_that_train_nothing_do_not_count(caplog):
    model = calculator()
    with torch.no_grad():
        for _ in range(2 * PASSES):
            model(**INPUTS)
    model.eval()
    passes(model, 2 * PASSES)
    model.train()
    model.set_adapter("default")
    with model.disable_adapter(), torch.no_grad():
        model(**INPUTS)
    assert said(caplog) == []


@pytest.mark.filterwarnings(*NESTED)
@pytest.mark.parametrize("frozen", [True, False])
def test_a_lora_that_is_trained_with_a_frozen_calculator_is_left_alone(caplog, frozen):
    model = calculator()
    if frozen:
        model.requires_grad_(False)
    model = get_peft_model(model, LoraConfig(target_modules=["q_proj"]), adapter_name="style").train()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name or (not frozen and "igc_" in name))
    passes(model, 2 * PASSES)
    assert len(said(caplog)) == (0 if frozen else 1)


@pytest.mark.parametrize("more", [None, targets()])
def test_an_adapter_that_was_loaded_for_inference_is_said_once(tmp_path, caplog, more):
    calculator().save_pretrained(tmp_path)
    model = PeftModel.from_pretrained(tiny_model("llama"), tmp_path).train()
    model.enable_input_require_grads()  # as with gradient checkpointing: the backward pass has something to do
    passes(model, 3 * PASSES, more)
    (message,) = said(caplog)
    assert "no parameter of the model is trained" in message
    assert "`is_trainable=True`" in message
    caplog.clear()
    passes(PeftModel.from_pretrained(tiny_model("llama"), tmp_path, is_trainable=True).train(), PASSES, targets())
    assert said(caplog) == []
