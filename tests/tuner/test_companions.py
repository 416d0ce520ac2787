"""Promises of `companions`: adapters that were trained together come back together, or their lack is said."""

import json
import shutil
import warnings

import pytest
import torch
from checks import IDS, logits, lora, nesting
from loading_ways import ALONE, WAYS, by_transformers
from peft import PeftModel, get_peft_model
from peft.utils import load_peft_weights
from tiny_models import small_config, tiny_model
from transformers import AutoModelForCausalLM

from peft_igc import IGCConfig
from peft_igc.tuner.saving.companions import LOW_RANK


LACKING = "The calculator 'default' was trained with the adapter 'low_rank', which is not active"


def both(names=(LOW_RANK, "default"), base=None):
    """A LoRA within and a calculator outside, with random weights; both change the output."""
    torch.manual_seed(0)
    base = get_peft_model(tiny_model("llama") if base is None else base, lora(), adapter_name=names[0])
    with nesting():
        return get_peft_model(base, small_config(), adapter_name=names[1])


@pytest.fixture
def folder(tmp_path):
    """The base in `base`, both adapters in `out`."""
    tiny_model("llama").save_pretrained(tmp_path / "base")
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    base.generation_config.eos_token_id = None
    both(base=base).save_pretrained(tmp_path / "out")
    return tmp_path / "out"


ALL = {name: way for name, way in (WAYS | ALONE).items() if name not in ("low memory", "transformers, another name")}


@pytest.mark.versions
@pytest.mark.parametrize("way", ALL)
def test_a_lora_beside_a_calculator_is_loaded_with_it(folder, way):
    expected = both()
    loaded = ALL[way](tiny_model("llama"), folder)
    assert torch.equal(logits(loaded), logits(expected))
    assert not torch.equal(logits(loaded), logits(get_alone(folder)))  # the LoRA has its part in it
    assert set(loaded.peft_config) == {"default", LOW_RANK}
    assert not [name for name, p in loaded.named_parameters() if p.requires_grad]
    prompt = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS), "max_new_tokens": 6}
    assert torch.equal(loaded.generate(**prompt), expected.generate(**prompt))


def get_alone(folder):
    """The calculator without the LoRA, which has to be asked for."""
    config = IGCConfig.from_pretrained(folder)
    config.trained_with = []
    return PeftModel.from_pretrained(tiny_model("llama"), folder, config=config)


def test_a_calculator_is_loaded_alone_if_that_is_asked_for(folder):
    alone = get_alone(folder)
    torch.manual_seed(0)
    get_peft_model(tiny_model("llama"), lora())  # draws what the LoRA drew
    assert set(alone.peft_config) == {"default"}
    assert torch.equal(logits(alone), logits(get_peft_model(tiny_model("llama"), small_config())))


def test_what_was_loaded_together_is_as_if_it_had_been_nested_by_hand(folder, tmp_path):
    loaded, expected = PeftModel.from_pretrained(tiny_model("llama"), folder), both()
    assert list(loaded.state_dict()) == list(expected.state_dict())
    with loaded.disable_adapter():
        assert torch.equal(logits(loaded), logits(tiny_model("llama")))
    loaded.save_pretrained(tmp_path / "again")
    again = PeftModel.from_pretrained(tiny_model("llama"), tmp_path / "again")
    assert torch.equal(logits(again), logits(expected))
    inner = again.unload()
    torch.manual_seed(0)  # as in `both`
    assert torch.equal(logits(inner), logits(get_peft_model(tiny_model("llama"), lora(), adapter_name=LOW_RANK)))
    assert torch.equal(logits(inner.unload()), logits(tiny_model("llama")))


def test_both_can_be_trained_on(folder, tmp_path):
    model = PeftModel.from_pretrained(tiny_model("llama"), folder, is_trainable=True)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained == {name for name, p in both().named_parameters() if p.requires_grad}
    assert any("lora_" in name for name in trained)
    assert any("igc_" in name for name in trained)
    model.save_pretrained(tmp_path / "again")
    assert IGCConfig.from_pretrained(tmp_path / "again").trained_with == [LOW_RANK]


@pytest.mark.parametrize("names", [("style", "math"), ("default", "math")])
def test_named_adapters_are_found_in_the_folders_where_peft_saves_them(names, tmp_path):
    model = both(names)
    model.save_pretrained(tmp_path)
    loaded = PeftModel.from_pretrained(tiny_model("llama"), tmp_path / "math", adapter_name="math")
    assert torch.equal(logits(loaded), logits(model))
    assert set(loaded.peft_config) == set(names)
    if "default" in names:
        with pytest.raises(ValueError, match="The adapter name 'default' is taken by a LORA .*Pass another"):
            PeftModel.from_pretrained(tiny_model("llama"), tmp_path / "math")


def test_a_missing_companion_is_an_error_with_the_way_out(folder):
    shutil.rmtree(folder / LOW_RANK)
    for way in ALL.values():
        with pytest.raises(ValueError, match=r"trained with the adapter 'low_rank', which is missing: .*low_rank"):
            way(tiny_model("llama"), folder)
    assert logits(get_alone(folder)).isfinite().all()


def test_adapters_that_are_only_used_together_are_not_recorded(tmp_path):
    get_peft_model(tiny_model("llama"), small_config()).save_pretrained(tmp_path / "math")
    get_peft_model(tiny_model("llama"), lora()).save_pretrained(tmp_path / "style")
    model = PeftModel.from_pretrained(tiny_model("llama"), tmp_path / "style", adapter_name="style")
    with nesting():
        model = PeftModel.from_pretrained(model, tmp_path / "math", adapter_name="math")
    model.save_pretrained(tmp_path / "out")
    assert IGCConfig.from_pretrained(tmp_path / "out" / "math").trained_with is None


def test_the_calculator_alone_is_said_when_it_is_used(folder):
    model = get_peft_model(tiny_model("llama"), small_config(), adapter_name="mine")
    model.load_adapter(folder, "default")
    logits(model)
    model.set_adapter("default")
    with pytest.warns(UserWarning, match=LACKING):
        logits(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logits(model)  # once


def test_transformers_keeps_both_trainable_and_saves_each_in_a_folder_of_its_own(folder, tmp_path):
    base = by_transformers(tiny_model("llama"), folder, is_trainable=True)
    trained = {name for name, p in base.named_parameters() if p.requires_grad}
    assert {"igc_" in name for name in trained} == {True, False}
    for name in ("default", LOW_RANK):
        base.set_adapter(name)
        base.save_pretrained(tmp_path / name)
    base = by_transformers(tiny_model("llama"), tmp_path / LOW_RANK, adapter_name=LOW_RANK)
    config = IGCConfig.from_pretrained(tmp_path / "default")
    assert config.trained_with == [LOW_RANK]


def test_a_calculator_from_a_saved_config_and_a_state_dict_is_loaded_with_its_lora_too(folder):
    base, config = tiny_model("llama"), IGCConfig.from_pretrained(folder)
    base.load_adapter(peft_config=config, adapter_state_dict=load_peft_weights(str(folder)))
    assert torch.equal(logits(base), logits(both()))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("way", ["PeftModel", "transformers"])
def test_a_lora_with_a_calculator_on_a_base_with_layers_on_the_disk_is_refused(way, folder, tmp_path):
    places = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"}
    places |= {f"model.layers.{i}": "disk" if i == 1 else "cpu" for i in range(3)}
    base = AutoModelForCausalLM.from_pretrained(folder.parent / "base", device_map=places, offload_folder=tmp_path)
    with pytest.raises(ValueError, match="'low_rank'.*cannot be loaded onto a base with off-loaded weights"):
        PeftModel.from_pretrained(base, folder) if way == "PeftModel" else base.load_adapter(str(folder))


def test_both_loaded_by_hand_are_as_if_loaded_together_in_either_order(folder):
    expected = logits(both())
    inner = PeftModel.from_pretrained(tiny_model("llama"), folder / LOW_RANK, adapter_name=LOW_RANK)
    outer = PeftModel.from_pretrained(tiny_model("llama"), folder)
    with nesting():
        assert torch.equal(logits(PeftModel.from_pretrained(inner, folder)), expected)
        twice = PeftModel.from_pretrained(outer, folder / LOW_RANK, adapter_name=LOW_RANK)
    assert torch.equal(logits(twice), expected)
    inner = PeftModel.from_pretrained(tiny_model("llama"), folder / LOW_RANK, adapter_name="style")
    with nesting():
        assert torch.equal(logits(PeftModel.from_pretrained(inner, folder)), expected)  # not the LoRA twice


def test_a_record_that_leads_out_of_the_folder_is_refused(folder):
    path = folder / "adapter_config.json"
    saved = json.loads(path.read_text())
    for value in ("low_rank", ["../../x"], ["/etc"], ["a/b"], [""], ["."], ["../.."], [3], [".x"]):
        path.write_text(json.dumps(saved | {"trained_with": value}))
        with pytest.raises(ValueError, match="`trained_with=.*is not a list of other adapters"):
            PeftModel.from_pretrained(tiny_model("llama"), folder)
