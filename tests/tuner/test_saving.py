"""Promises of saving: a file has its adapter's weights, whatever other adapters are called; else it is an error."""

import pytest
import torch
from checks import lora
from peft import get_peft_model, get_peft_model_state_dict
from tiny_models import small_config, tiny_model
from tiny_training import NESTED, WARNINGS


pytestmark = pytest.mark.filterwarnings(*WARNINGS, *NESTED)


def both(calculator, other, order="calculator first"):
    """A model with a calculator and a LoRA of these names, which are not used together."""
    configs = {calculator: small_config(), other: lora()}
    names = [calculator, other] if order == "calculator first" else [other, calculator]
    model = tiny_model("llama")
    for name in names:
        model = get_peft_model(model, configs[name], adapter_name=name)
    return model


@pytest.mark.parametrize("name", ["layers", "1", "q_proj", "weight"])
def test_a_calculator_named_like_a_part_of_other_weights_is_refused(name):
    base = tiny_model("llama")
    with pytest.raises(ValueError, match=f"name '{name}' of a calculator is in the path of the weight `model.*{name}"):
        get_peft_model(base, small_config(), adapter_name=name)
    model = get_peft_model(tiny_model("llama"), small_config())
    with pytest.raises(ValueError, match="would leave out when it saves another adapter. Pass another `adapter_name`"):
        model.add_adapter(name, small_config())
    assert list(model.peft_config) == ["default"]


def test_an_adapter_with_weights_named_like_a_calculator_is_refused():
    with pytest.raises(ValueError, match="name 'lora_A' of a calculator is in the path of the weight .*lora_A.style"):
        both("lora_A", "style")
    config, name = small_config(modules_to_save=["lm_head"]), "modules_to_save"
    with pytest.raises(ValueError, match=f"name '{name}' of a calculator is in the path of the weight `lm_head"):
        get_peft_model(tiny_model("llama"), config, adapter_name=name)


@pytest.mark.parametrize("order", ["calculator first", "LoRA first"])
@pytest.mark.parametrize("name", ["layers", "igc", "encoder"])
def test_a_calculator_next_to_an_adapter_named_like_a_part_of_its_path_is_not_saved_in_part(name, order, tmp_path):
    model = both("math", name, order)
    with pytest.raises(ValueError, match="weights of the calculator 'math' are missing.*rename adapters that are"):
        model.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("math/*.safetensors"))


@pytest.mark.parametrize("part", ["igc_", ".igc_input_mapping.default.norm"])
def test_a_save_without_weights_of_the_calculator_is_an_error(part, tmp_path):
    model = get_peft_model(tiny_model("llama"), small_config())
    incomplete = {key: value for key, value in model.state_dict().items() if part not in key}
    for given in (incomplete, {}) if part == "igc_" else (incomplete,):
        with pytest.raises(ValueError, match="of the weights of the calculator 'default' are missing"):
            model.save_pretrained(tmp_path, state_dict=given)
    assert not list(tmp_path.glob("**/*.safetensors"))


def test_an_empty_state_dict_of_another_process_than_the_first_is_no_error(monkeypatch):
    model = get_peft_model(tiny_model("llama"), small_config())
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda *_: 1)
    assert get_peft_model_state_dict(model, state_dict={}) == {}
