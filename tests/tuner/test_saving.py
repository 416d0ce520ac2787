"""Promises of saving: a file has its adapter's weights, whatever other adapters are called; else it is an error."""

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file
from tiny_models import small_config, tiny_model
from tiny_training import NESTED, WARNINGS, trainer

from peft_igc.inference.loading import load_adapter


pytestmark = [pytest.mark.filterwarnings(warning) for warning in (*WARNINGS, *NESTED)]

IDS = torch.tensor([[5, 6, 7, 8, 3, 9, 4]])

# Every kind of component in the path of a calculator's weights: of PEFT, of the base, of the layer, of the mappings.
PARTS = ["base_model", "model", "layers", "1", "igc", "igc_input_mapping", "encoder", "0", "attention", "weight"]


def logits(model):
    """Logits of a pass in eval mode."""
    with torch.no_grad():
        return model.eval()(input_ids=IDS).logits


def lora(**fields):
    """A LoRA that changes outputs."""
    return LoraConfig(**{"r": 4, "target_modules": "all-linear", "init_lora_weights": False, **fields})


def both(calculator, other, order="calculator first"):
    """A model with a calculator and a LoRA of these names, which are not used together."""
    configs = {calculator: small_config(), other: lora()}
    names = [calculator, other] if order == "calculator first" else [other, calculator]
    model = tiny_model("llama")
    for name in names:
        model = get_peft_model(model, configs[name], adapter_name=name)
    return model


def weights_in(model, part):
    """The weights of a kind of adapter, in the order of the modules."""
    return [p for name, p in model.named_parameters() if part in name]


def assert_saved(folder, model, part):
    """The file in a folder has all weights of a kind of adapter in the model."""
    found, wanted = load_file(folder / "adapter_model.safetensors"), weights_in(model, part)
    assert len(found) == len(wanted) > 0
    for weight in wanted:
        assert any(weight.shape == other.shape and torch.equal(weight, other) for other in found.values())


@pytest.mark.parametrize("order", ["calculator first", "LoRA first"])
@pytest.mark.parametrize("name", PARTS)
def test_a_calculator_is_saved_beside_an_adapter_named_like_a_part_of_its_path(name, order, tmp_path):
    model = both("math", name, order)
    model.save_pretrained(tmp_path)
    assert_saved(tmp_path / "math", model, ".igc.igc_")
    assert_saved(tmp_path / name, model, ".lora_")
    assert all("igc_" in key or "lora_" in key for key, p in model.named_parameters() if p.requires_grad)


@pytest.mark.parametrize("name", [*PARTS[:4], "q_proj", "mlp"])
def test_a_lora_is_saved_beside_a_calculator_named_like_a_part_of_its_path(name, tmp_path):
    model = both(name, "style")
    model.save_pretrained(tmp_path)
    assert_saved(tmp_path / name, model, ".igc.igc_")
    assert_saved(tmp_path / "style", model, ".lora_")


@pytest.mark.filterwarnings("ignore:Adapter name 'igc' should not be contained in the prefix:UserWarning")  # PEFT's
@pytest.mark.parametrize("name", ["layers", "igc", "modules_to_save", "encoder"])
def test_calculators_named_like_parts_of_the_path_are_saved_apart(name, tmp_path):
    model = get_peft_model(tiny_model("llama"), small_config(modules_to_save=["lm_head"]), adapter_name="math")
    model.add_adapter(name, small_config(modules_to_save=["lm_head"]))
    model.save_pretrained(tmp_path)
    for one in ("math", name):
        model.set_adapter(one)
        again = PeftModel.from_pretrained(tiny_model("llama"), tmp_path / one)
        assert torch.equal(logits(again), logits(model))


def test_transformers_saves_a_calculator_beside_a_lora_named_like_a_part_of_its_path(tmp_path):
    base = tiny_model("llama")
    base.add_adapter(small_config(), "math")
    expected = logits(base)
    base.add_adapter(lora(), "layers")
    base.set_adapter("math")
    base.save_pretrained(tmp_path)
    assert torch.equal(logits(load_adapter(tiny_model("llama"), tmp_path)), expected)


@pytest.mark.parametrize("name", ["layers", "igc"])
def test_a_checkpoint_has_the_calculator_beside_a_lora_named_like_a_part_of_its_path(name, tmp_path):
    model = get_peft_model(tiny_model("llama"), lora(), adapter_name=name)
    model = get_peft_model(model, small_config(init_weights=True), adapter_name="math")
    made = trainer(tmp_path, model=model, max_steps=1, save_strategy="steps", save_steps=1)
    made.train()
    made.save_model(tmp_path / "end")
    for folder in (tmp_path / "checkpoint-1", tmp_path / "end"):
        assert_saved(folder / "math", model, ".igc.igc_")


@pytest.mark.parametrize("part", ["igc_", ".igc_input_mapping.default.norm"])
def test_a_save_without_weights_of_the_calculator_is_an_error(part, tmp_path):
    model = get_peft_model(tiny_model("llama"), small_config())
    incomplete = {key: value for key, value in model.state_dict().items() if part not in key}
    for given in (incomplete, {}) if part == "igc_" else (incomplete,):
        with pytest.raises(ValueError, match="of the weights of the calculator 'default' are missing"):
            model.save_pretrained(tmp_path, state_dict=given)
    assert not list(tmp_path.glob("**/*.safetensors"))


def test_a_save_without_weights_of_a_lora_beside_a_calculator_is_an_error(tmp_path):
    model = both("math", "style")
    model.add_adapter("layers", lora())  # PEFT takes the weights of `style` for those of `layers`
    with pytest.raises(ValueError, match="None of the weights of the adapter 'style' are left"):
        model.save_pretrained(tmp_path, selected_adapters=["style"])


def test_an_empty_state_dict_of_another_process_than_the_first_is_no_error(monkeypatch):
    model = get_peft_model(tiny_model("llama"), small_config())
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda *_: 1)
    assert get_peft_model_state_dict(model, state_dict={}) == {}
