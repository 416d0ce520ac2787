"""Promises of `adapters`: a saved adapter comes back exactly, and what cannot be loaded is named with its cure."""

import json

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tiny_models import small_config, tiny_model

from peft_igc.inference.loading import load_adapter


IDS = torch.tensor([[5, 6, 7, 8]])


@pytest.fixture
def folder(tmp_path):
    """A saved random adapter."""
    torch.manual_seed(0)
    get_peft_model(tiny_model("llama"), small_config()).save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def test_an_adapter_comes_back_exactly_and_in_eval_mode(folder):
    torch.manual_seed(0)
    model = get_peft_model(tiny_model("llama"), small_config()).eval()
    loaded = load_adapter(tiny_model("llama"), folder)
    assert not loaded.training
    assert torch.equal(loaded(input_ids=IDS).logits, model(input_ids=IDS).logits)


def test_other_methods_can_be_loaded_to_be_compared(tmp_path):
    get_peft_model(tiny_model("llama"), LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path)
    assert load_adapter(tiny_model("llama"), tmp_path).active_adapter == "default"


def test_a_missing_folder_is_not_looked_up_elsewhere(tmp_path):
    with pytest.raises(FileNotFoundError, match="The adapter folder `.*nowhere` does not exist"):
        load_adapter(tiny_model("llama"), tmp_path / "nowhere")


def test_a_folder_without_an_adapter_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="contains no `adapter_config.json`"):
        load_adapter(tiny_model("llama"), tmp_path)


def test_a_folder_without_weights_is_named(folder):
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="contains no `adapter_model.safetensors`"):
        load_adapter(tiny_model("llama"), folder)


def test_corrupted_weights_are_named(folder):
    path = folder / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"The weights in `.*adapter` cannot be read: .*Copy the folder again"):
        load_adapter(tiny_model("llama"), folder)


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"peft_type": "NOSUCH"}'])
def test_an_unreadable_configuration_is_named(folder, text):
    (folder / "adapter_config.json").write_text(text)
    with pytest.raises(ValueError, match=r"adapter_config.json` cannot be read: .*Copy the folder again"):
        load_adapter(tiny_model("llama"), folder)


@pytest.mark.parametrize("method", ["igc", "lora"])
def test_an_adapter_for_another_hidden_size_names_its_base(tmp_path, method):
    config = small_config() if method == "igc" else LoraConfig(target_modules=["q_proj"])
    get_peft_model(tiny_model("llama"), config).save_pretrained(tmp_path)
    fields = json.loads((tmp_path / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps(fields | {"base_model_name_or_path": "org/base"}))
    with pytest.raises(ValueError, match=r"(size 32, but .* has 64|size mismatch).*trained on, `org/base`"):
        load_adapter(tiny_model("llama", hidden_size=64), tmp_path)
