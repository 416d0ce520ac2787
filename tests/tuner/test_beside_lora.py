"""What `IGCModel` promises beside a LoRA: both train, and each is saved, loaded, switched and taken away by itself."""

import pytest
import torch
from checks import logits, lora
from peft import PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file
from tiny_models import small_config, tiny_model
from tiny_training import NESTED

from peft_igc import IGCLayer


pytestmark = [
    pytest.mark.filterwarnings(*NESTED),
    pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False:UserWarning"),  # LoRA, at GPT-2
]

WEIGHTS = "adapter_model.safetensors"
ORDERS = [("math", "style"), ("style", "math")]
TARGETS = [("llama", "all-linear"), ("llama", ["q_proj", "v_proj", "down_proj"]), ("gpt2", "all-linear")]
TARGETS += [("gpt2", ["c_attn", "c_fc"])]


def around(base, configs, order=None):
    """`base` with adapters by name, the first inside."""
    for name in order or configs:
        base = get_peft_model(base, configs[name], adapter_name=name)
    return base


def nested(base, order, target="all-linear"):
    """`base` with a calculator "math" and a LoRA "style", the first of `order` inside."""
    return around(base, {"math": small_config(), "style": lora(target_modules=target)}, order)


def logits_without(model, name):
    """Logits with one of the two adapters of a nested model switched off."""
    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    own = [layer for layer in layers if isinstance(layer, IGCLayer) == (name == "math")]
    for layer in own:
        layer.enable_adapters(False)
    result = logits(model)
    for layer in own:
        layer.enable_adapters(True)
    return result


@pytest.mark.parametrize("order", ORDERS, ids=["igc-lora", "lora-igc"])
@pytest.mark.parametrize(("arch", "target"), TARGETS)
def test_lora_reaches_the_same_layers_as_without_a_calculator(arch, target, order):
    alone = get_peft_model(tiny_model(arch), lora(target_modules=target), adapter_name="style")
    beside = nested(tiny_model(arch), order, target)

    def reached(model):
        return {k.rpartition("base_model.model.")[2] for k, _ in model.named_modules() if k.endswith(".lora_A.style")}

    assert reached(beside) == reached(alone)
    assert any(f".{1}." in key for key in reached(beside))  # the calculator's own decoder layer
    assert not any("igc" in key or "lm_head" in key for key in reached(beside))


@pytest.mark.versions
@pytest.mark.parametrize("order", ORDERS, ids=["igc-lora", "lora-igc"])
@pytest.mark.parametrize(("arch", "target"), TARGETS)
def test_each_file_of_two_adapters_loads_alone_and_both_are_nested_again_in_any_order(arch, target, order, tmp_path):
    model = nested(tiny_model(arch), order, target)
    expected = {"math": logits_without(model, "style"), "style": logits_without(model, "math")}
    with model.disable_adapter():
        assert torch.equal(logits(model), logits(tiny_model(arch)))
    for config in model.peft_config.values():
        config.inference_mode = True  # not trained together
    model.save_pretrained(tmp_path)
    for name, part in (("math", "igc_"), ("style", "lora_")):
        weights = load_file(tmp_path / name / WEIGHTS)
        assert all(part in key and key.count("base_model.model.") == 1 for key in weights)
        alone = PeftModel.from_pretrained(tiny_model(arch), tmp_path / name)  # missing keys would warn: an error here
        result = set_peft_model_state_dict(alone, weights)
        assert not result.unexpected_keys
        assert not [key for key in result.missing_keys if part in key]
        assert torch.equal(logits(alone), expected[name])
    for loaded in ORDERS:
        again = tiny_model(arch)
        for name in loaded:
            again = PeftModel.from_pretrained(again, tmp_path / name, adapter_name=name)
        assert torch.equal(logits(again), logits(model))
        assert not [name for name, p in again.named_parameters() if p.requires_grad]


@pytest.mark.versions
def test_a_lora_around_a_calculator_is_merged_and_the_calculator_stays(tmp_path):
    inner = get_peft_model(tiny_model("llama"), small_config(), adapter_name="math")
    model = get_peft_model(inner, lora(), adapter_name="style")
    expected = logits(model)
    for change in (model.merge_adapter, model.unmerge_adapter):
        change()
        torch.testing.assert_close(logits(model), expected, atol=1e-4, rtol=1e-4)
    base = model.merge_and_unload()
    assert not any("lora" in name for name, _ in base.named_modules())
    assert list(inner.peft_config) == ["math"]
    for merged in (base, inner):
        torch.testing.assert_close(logits(merged), expected, atol=1e-4, rtol=1e-4)
    inner.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["math"]
    again = get_peft_model(inner, lora(), adapter_name="style")
    assert set(again.peft_config) == {"style", "math"}


def test_merging_a_lora_within_a_calculators_model_is_done_on_its_own_model():
    inner = get_peft_model(tiny_model("llama"), lora(), adapter_name="style")
    model = get_peft_model(inner, small_config(), adapter_name="math")
    expected = logits(model)
    for refused in (model.merge_adapter, model.merge_and_unload):
        with pytest.raises(ValueError, match="IGC cannot be merged"):
            refused()
    assert torch.equal(logits(model), expected)
    inner.merge_adapter()
    torch.testing.assert_close(logits(model), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("order", ORDERS, ids=["igc-lora", "lora-igc"])
def test_one_name_and_whole_trained_modules_beside_another_method_are_refused(order):
    message = "The adapter name 'default' is taken by (a LORA|an IGC) adapter.*`adapter_name`"
    inner, outer = ({"math": small_config(), "style": lora()}[name] for name in order)
    with pytest.raises(ValueError, match=message):
        get_peft_model(get_peft_model(tiny_model("llama"), inner), outer)
    for owner in order:
        configs = {"math": small_config(), "style": lora()}
        configs[owner].modules_to_save = ["lm_head"]
        model = get_peft_model(tiny_model("llama"), configs[order[0]], adapter_name=order[0])
        expected = logits(model)
        message = f"Adapter '{owner}' has `modules_to_save`, which PEFT cannot save separately"
        with pytest.raises(ValueError, match=message):
            get_peft_model(model, configs[order[1]], adapter_name=order[1])
        assert list(model.peft_config) == [order[0]]
        assert torch.equal(logits(model), expected)


def test_deleting_a_lora_through_the_calculators_model_raises():
    model = nested(tiny_model("llama"), ("style", "math"))
    with pytest.raises(ValueError, match="Adapter 'style' is not an IGC adapter.*Delete it on the PEFT model"):
        model.delete_adapter("style")
    assert "style" in model.peft_config


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
        around(tiny_model("llama"), {"lora_A": small_config(), "style": lora()})
    config, name = small_config(modules_to_save=["lm_head"]), "modules_to_save"
    with pytest.raises(ValueError, match=f"name '{name}' of a calculator is in the path of the weight `lm_head"):
        get_peft_model(tiny_model("llama"), config, adapter_name=name)


@pytest.mark.parametrize("order", ["calculator first", "LoRA first"])
@pytest.mark.parametrize("name", ["layers", "igc", "encoder"])
def test_a_calculator_next_to_an_adapter_named_like_a_part_of_its_path_is_not_saved_in_part(name, order, tmp_path):
    configs = {"math": small_config(), name: lora()}
    model = around(tiny_model("llama"), configs, [*configs][:: 1 if order == "calculator first" else -1])
    with pytest.raises(ValueError, match="weights of the calculator 'math' are missing.*rename adapters that are"):
        model.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("math/*.safetensors"))


def test_a_save_without_weights_of_the_calculator_is_an_error(tmp_path):
    model = get_peft_model(tiny_model("llama"), small_config())
    for part in ("igc_", ".igc_input_mapping.default.norm", ""):  # all of them, one, and those of the base, too
        given = {key: value for key, value in model.state_dict().items() if part not in key}
        with pytest.raises(ValueError, match="of the weights of the calculator 'default' are missing"):
            model.save_pretrained(tmp_path, state_dict=given)
    assert not list(tmp_path.glob("**/*.safetensors"))


def test_an_empty_state_dict_of_another_process_than_the_first_is_no_error(monkeypatch):
    model = get_peft_model(tiny_model("llama"), small_config())
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda *_: 1)
    assert get_peft_model_state_dict(model, state_dict={}) == {}
