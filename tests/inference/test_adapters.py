"""Promises of `adapters`: a saved adapter comes back exactly, and what cannot be loaded is named with its cure."""

import json
import os

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
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


# ------------------------------------------------------------------------------------------ hostile folders
def test_a_norm_without_a_dimension_is_refused_like_any_other_shape(folder):
    path = folder / "adapter_model.safetensors"
    weights = load_file(path)
    (name,) = [key for key in weights if key.endswith(".igc_input_mapping.norm.weight")]
    save_file(weights | {name: torch.tensor(1.0)}, path)
    with pytest.raises(ValueError, match=r"has shape \(\), the config requires \(32,\)"):
        load_adapter(tiny_model("llama"), folder)


@pytest.mark.parametrize(
    ("value", "message"),
    [(float("nan"), "is not finite: the training diverg"), (float("inf"), "is not finite"), (None, "dtype torch.int")],
)
def test_weights_that_are_no_finite_numbers_are_refused_by_every_way_of_loading(folder, value, message):
    path = folder / "adapter_model.safetensors"
    weights = load_file(path)
    name = sorted(weights)[0]
    if value is None:
        weights[name] = weights[name].to(torch.int32)
    else:
        weights[name].view(-1)[-1] = value
    save_file(weights, path)
    for load in (load_adapter, lambda base, where: PeftModel.from_pretrained(base, str(where))):
        with pytest.raises(ValueError, match=rf"The weight `.*` in `.*adapter` .*{message}"):
            load(tiny_model("llama"), folder)


def test_a_pickle_that_would_run_a_program_is_not_unpickled(folder, tmp_path):
    class Program:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'executed'}",)

    (folder / "adapter_model.safetensors").unlink()
    torch.save({"x": Program(), "y": torch.zeros(50_000)}, folder / "adapter_model.bin")
    with pytest.raises(ValueError, match="holds more than tensors, which could be a program. Save the adapter again"):
        load_adapter(tiny_model("llama"), folder)
    assert not (tmp_path / "executed").exists()


def test_a_config_of_another_method_over_igc_weights_is_refused(folder):
    fields = {"peft_type": "LORA", "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="holds the weights of an IGC adapter, but its `adapter_config.json` is of"):
        load_adapter(tiny_model("llama"), folder)


def test_a_config_that_is_too_large_or_nested_too_deep_is_named(folder):
    path = folder / "adapter_config.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="adapter_config.json` cannot be read: .*recursion"):
        load_adapter(tiny_model("llama"), folder)
    with path.open("wb") as file:
        file.truncate((1 << 26) + 1)  # sparse
    with pytest.raises(ValueError, match="has 67,108,865 bytes, which no config has"):
        load_adapter(tiny_model("llama"), folder)


def test_a_method_whose_package_is_missing_is_named(folder, monkeypatch):
    def missing(*args, **kwargs):
        raise ImportError("scikit-learn is required for AdaMSS")

    monkeypatch.setattr("peft_igc.inference.loading.PeftConfig.from_pretrained", missing)
    with pytest.raises(ValueError, match="adapter_config.json` cannot be read: scikit-learn is required for AdaMSS"):
        load_adapter(tiny_model("llama"), folder)
