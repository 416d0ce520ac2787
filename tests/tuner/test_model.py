"""What `IGCModel` promises to users of PEFT: every way in, beside other adapters, and out again without a trace."""

import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import peft
import pytest
import torch
import transformers as tf
from peft import (
    AutoPeftModelForCausalLM,
    LoraConfig,
    PeftModel,
    get_peft_model,
    get_peft_model_state_dict,
    inject_adapter_in_model,
    set_peft_model_state_dict,
)
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file, save_file
from tiny_models import ARCHITECTURES, HIDDEN, LAYERS, small_config, tiny_model

from peft_igc import IGCConfig, IGCLayer, IGCModel
from peft_igc.tuner.base_model import decoder_layers


IDS = torch.randint(3, 100, (2, 7), generator=torch.Generator().manual_seed(0))
WEIGHTS = "adapter_model.safetensors"

# Nested PEFT models and deletions of what is active make PEFT speak up.
pytestmark = [
    pytest.mark.filterwarnings("ignore:You are trying to modify a model with PEFT for a second time:UserWarning"),
    pytest.mark.filterwarnings("ignore:Already found a `peft_config` attribute in the model:UserWarning"),
    pytest.mark.filterwarnings("ignore:Adapter .* was active which is now deleted:UserWarning"),
    pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False:UserWarning"),  # LoRA, at GPT-2
]


def logits(model):
    """Logits of a pass in eval mode."""
    with torch.no_grad():
        return model.eval()(input_ids=IDS).logits


def lora(**overrides):
    """A LoRA that changes outputs."""
    return LoraConfig(**{"r": 4, "target_modules": "all-linear", "init_lora_weights": False, **overrides})


def calculators(model):
    """The calculator's layers in a model, by path."""
    return {k: m for k, m in model.named_modules() if isinstance(m, IGCLayer)}


def saved(tmp_path, arch="llama", **overrides):
    """A folder with a random adapter, and its logits."""
    model = get_peft_model(tiny_model(arch), small_config(**overrides))
    model.save_pretrained(tmp_path / "adapter")
    return str(tmp_path / "adapter"), logits(model)


# ------------------------------------------------------------------------------------------------ ways in
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_reloaded_adapter_gives_the_same_logits_bit_for_bit(arch, tmp_path):
    folder, expected = saved(tmp_path, arch)
    base = tiny_model(arch)
    assert not torch.equal(logits(base), expected)
    assert torch.equal(logits(PeftModel.from_pretrained(base, folder)), expected)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_saved_folder_holds_adapter_weights_only(arch, tmp_path):
    folder, _ = saved(tmp_path, arch)
    weights = load_file(f"{folder}/{WEIGHTS}")
    path = decoder_layers(tiny_model(arch))[0]
    own = f"base_model.model.{path}.1.igc.igc_"
    assert weights
    assert all(key.startswith(own) for key in weights)
    assert sorted(os.listdir(folder)) == ["README.md", "adapter_config.json", WEIGHTS]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_fresh_adapter_changes_nothing(arch):
    base = tiny_model(arch)
    before = logits(base)
    model = get_peft_model(base, small_config(init_weights=True))
    assert torch.equal(logits(model), before)


def test_auto_classes_load_it(tmp_path):
    tiny_model("llama").save_pretrained(tmp_path / "base")
    base = tf.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    model = get_peft_model(base, small_config())
    model.save_pretrained(tmp_path / "adapter")
    expected = logits(model)
    assert torch.equal(logits(AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter")), expected)
    assert torch.equal(logits(tf.AutoModelForCausalLM.from_pretrained(tmp_path / "adapter")), expected)


@pytest.mark.slow
def test_a_new_process_gives_the_same_logits_bit_for_bit(tmp_path):
    tiny_model("llama").save_pretrained(tmp_path / "base")
    model = get_peft_model(tf.AutoModelForCausalLM.from_pretrained(tmp_path / "base"), small_config())
    model.save_pretrained(tmp_path / "adapter")
    torch.save({"ids": IDS, "logits": logits(model)}, tmp_path / "expected.pt")
    program = (
        "import sys, torch, peft_igc\n"
        "from peft import AutoPeftModelForCausalLM\n"
        "torch.set_num_threads(1)\n"
        "expected = torch.load(f'{sys.argv[1]}/expected.pt')\n"
        "model = AutoPeftModelForCausalLM.from_pretrained(f'{sys.argv[1]}/adapter').eval()\n"
        "assert torch.equal(model(input_ids=expected['ids']).logits, expected['logits'])\n"
    )
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, env=environment)


def test_transformers_load_adapter_loads_it_and_switches_it(tmp_path):
    folder, expected = saved(tmp_path)
    base = tiny_model("llama")
    before = logits(base)
    info = base.load_adapter(folder, adapter_name="math")
    assert not info.missing_keys
    assert not info.unexpected_keys
    assert torch.equal(logits(base), expected)
    assert base.generate(IDS, max_new_tokens=2).shape == (2, 9)
    base.disable_adapters()
    assert torch.equal(logits(base), before)
    base.enable_adapters()
    assert torch.equal(logits(base), expected)
    base.save_pretrained(tmp_path / "again")
    assert torch.equal(logits(PeftModel.from_pretrained(tiny_model("llama"), tmp_path / "again")), expected)
    base.delete_adapter("math")
    assert torch.equal(logits(base), before)


def test_transformers_add_adapter_adds_it_beside_a_lora():
    base = tiny_model("llama")
    before = logits(base)
    base.add_adapter(small_config(), adapter_name="math")
    with_math = logits(base)
    assert not torch.equal(with_math, before)
    base.add_adapter(lora(), adapter_name="style")  # transformers activates what is added last
    with_style = logits(base)
    base.set_adapter("math")
    assert torch.equal(logits(base), with_math)
    base.set_adapter(["math", "style"])
    both = logits(base)
    assert not torch.equal(both, with_math)
    assert not torch.equal(both, with_style)
    assert all("igc_" in key for key in base.get_adapter_state_dict("math"))
    assert all("lora_" in key for key in base.get_adapter_state_dict("style"))


def test_inject_adapter_in_model_takes_a_saved_state_dict(tmp_path):
    folder, expected = saved(tmp_path)
    base = tiny_model("llama")
    inject_adapter_in_model(small_config(), base)
    result = set_peft_model_state_dict(base, load_file(f"{folder}/{WEIGHTS}"))
    assert not result.unexpected_keys
    assert torch.equal(logits(base), expected)


@pytest.mark.parametrize("name", ["other", "reader", "igc_input_mapping"])  # two of them names of parts of ours
def test_a_state_dict_goes_under_another_name(name):
    model = get_peft_model(tiny_model("llama"), small_config())
    other = get_peft_model(tiny_model("llama"), small_config(), adapter_name=name)
    assert not torch.equal(logits(model), logits(other))
    weights = get_peft_model_state_dict(model)
    assert not any("default" in key for key in weights)
    result = set_peft_model_state_dict(other, weights, adapter_name=name)
    assert not result.unexpected_keys
    assert torch.equal(logits(model), logits(other))
    assert get_peft_model_state_dict(other, adapter_name=name).keys() == weights.keys()


@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["copy", "pickle"]
)
def test_a_copy_works_and_is_independent(how):
    base = tiny_model("llama")
    before = logits(base)
    model = get_peft_model(base, small_config())
    expected = logits(model)
    other = how(model)
    assert torch.equal(logits(other), expected)
    assert torch.equal(
        other.generate(input_ids=IDS, max_new_tokens=3), model.generate(input_ids=IDS, max_new_tokens=3)
    )
    assert torch.equal(logits(other.unload()), before)
    assert torch.equal(logits(model), expected)


def test_a_config_survives_pickling():
    config = small_config(anchor_token_ids=[[3, 4]])
    assert pickle.loads(pickle.dumps(config)) == config


# ------------------------------------------------------------------------------------------------ several adapters
@pytest.mark.parametrize("layers", [(1, 1), (1, 2)], ids=["same-layer", "two-layers"])
def test_of_several_adapters_exactly_one_is_active(layers):
    base = tiny_model("llama")
    before = logits(base)
    model = get_peft_model(base, small_config(layer=layers[0]), adapter_name="a")
    with_a = logits(model)
    model.add_adapter("b", small_config(layer=layers[1], num_digits=3))
    assert torch.equal(logits(model), with_a)  # adding activates nothing
    model.set_adapter("b")
    with_b = logits(model)
    assert not torch.equal(with_b, with_a)
    trainable = [name for name, p in model.named_parameters() if p.requires_grad]
    assert trainable
    assert all(".b." in name for name in trainable)
    model.set_adapter("a")
    assert torch.equal(logits(model), with_a)
    with model.disable_adapter():
        assert torch.equal(logits(model), before)
    assert torch.equal(logits(model), with_a)


@pytest.mark.parametrize("layers", [(1, 1), (1, 2)], ids=["same-layer", "two-layers"])
def test_activating_two_adapters_raises(layers):
    model = get_peft_model(tiny_model("llama"), small_config(layer=layers[0]), adapter_name="a")
    model.add_adapter("b", small_config(layer=layers[1]))
    expected = logits(model)
    with pytest.raises(ValueError, match=r"IGC adapters \['a', 'b'\] are active at once.*Activate one"):
        model.base_model.set_adapter(["a", "b"])
    assert torch.equal(logits(model), expected)


def test_two_adapters_made_active_behind_our_back_raise_in_the_forward_pass():
    model = get_peft_model(tiny_model("llama"), small_config(layer=1), adapter_name="a")
    model.add_adapter("b", small_config(layer=2))
    for layer in calculators(model).values():
        layer.set_adapter(next(iter(layer.igc_config)))
    with pytest.raises(ValueError, match=r"IGC adapters \['a', 'b'\] are active at once.*`set_adapter\(name\)`"):
        model(input_ids=IDS)
    model.set_adapter("a")
    assert logits(model).isfinite().all()  # the refused pass has left nothing behind


def test_several_adapters_are_saved_apart_and_load_alone(tmp_path):
    model = get_peft_model(tiny_model("llama"), small_config(layer=0))
    model.add_adapter("default2", small_config(layer=2))
    expected = {"default": logits(model)}
    model.set_adapter("default2")
    expected["default2"] = logits(model)
    model.save_pretrained(tmp_path)
    for name, folder in (("default", tmp_path), ("default2", tmp_path / "default2")):
        assert torch.equal(logits(PeftModel.from_pretrained(tiny_model("llama"), folder)), expected[name])


@pytest.mark.parametrize("layers", [(0, 0, 0), (0, 1, 2), (0, 1, 1)])
def test_deleting_the_active_adapter_leaves_exactly_one_active(layers):
    base = tiny_model("llama")
    before = logits(base)
    model = get_peft_model(base, small_config(layer=layers[0]), adapter_name="a")
    with_a = logits(model)
    model.add_adapter("b", small_config(layer=layers[1]))
    model.add_adapter("x", small_config(layer=layers[2]))
    model.set_adapter("x")
    with_x = logits(model)
    model.delete_adapter("b")
    assert torch.equal(logits(model), with_x)
    model.add_adapter("b", small_config(layer=layers[1]))
    model.delete_adapter("x")
    assert model.active_adapters == ["a"]
    assert torch.equal(logits(model), with_a)
    model.delete_adapter("a")
    assert model.active_adapters == ["b"]
    assert torch.equal(model.base_model(input_ids=IDS).logits, logits(model))
    model.delete_adapter("b")
    assert torch.equal(model.base_model(input_ids=IDS).logits, before)


def test_no_parameter_of_a_deleted_adapter_stays():
    model = get_peft_model(tiny_model("llama"), small_config(), adapter_name="a")
    model.add_adapter("b", small_config())
    model.delete_adapter("b")
    assert not [name for name in model.state_dict() if ".b." in name]
    assert not any("b" in layer.igc_config for layer in calculators(model).values())


# ------------------------------------------------------------------------------------------------ LoRA beside it
ORDERS = [("math", "style"), ("style", "math")]
TARGETS = [
    pytest.param("llama", "all-linear", id="llama-all-linear"),
    pytest.param("llama", ["q_proj", "v_proj", "down_proj"], id="llama-list"),
    pytest.param("gpt2", "all-linear", id="gpt2-all-linear"),
    pytest.param("gpt2", ["c_attn", "c_fc"], id="gpt2-list"),
]


def nested(base, order, target="all-linear", igc=None):
    """`base` with a calculator "math" and a LoRA "style", the first of `order` inside."""
    configs = {"math": igc or small_config(), "style": lora(target_modules=target)}
    for name in order:
        base = get_peft_model(base, configs[name], adapter_name=name)
    return base


def switch(model, name, enabled):
    """Switches one of the two adapters of a nested model on or off."""
    for module in model.modules():
        if isinstance(module, BaseTunerLayer) and isinstance(module, IGCLayer) == (name == "math"):
            module.enable_adapters(enabled)


def logits_without(model, name):
    switch(model, name, enabled=False)
    result = logits(model)
    switch(model, name, enabled=True)
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


@pytest.mark.parametrize("order", ORDERS, ids=["igc-lora", "lora-igc"])
@pytest.mark.parametrize(("arch", "target"), TARGETS)
def test_both_train_beside_each_other(arch, target, order):
    model = nested(tiny_model(arch), order, target).train()
    labels = IDS.masked_fill(torch.arange(7) < 4, -100)
    model(input_ids=IDS, labels=labels).loss.backward()
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert all(p.grad is not None for p in trainable.values())
    assert all("lora_" in name or "igc_" in name for name in trainable)
    for part in ("lora_A", "lora_B", "igc_output_mapping"):
        assert sum(float(p.grad.abs().sum()) for name, p in trainable.items() if part in name) > 0


@pytest.mark.parametrize("order", ORDERS, ids=["igc-lora", "lora-igc"])
@pytest.mark.parametrize(("arch", "target"), TARGETS)
def test_each_file_of_two_adapters_loads_alone_on_the_bare_base(arch, target, order, tmp_path):
    model = nested(tiny_model(arch), order, target)
    expected = {"math": logits_without(model, "style"), "style": logits_without(model, "math")}
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


@pytest.mark.parametrize("loaded", ORDERS, ids=["igc-first", "lora-first"])
@pytest.mark.parametrize("order", ORDERS, ids=["igc-lora", "lora-igc"])
@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_two_adapters_are_nested_again_from_their_files_in_any_order(arch, order, loaded, tmp_path):
    model = nested(tiny_model(arch), order)
    for config in model.peft_config.values():
        config.inference_mode = True  # not trained together
    model.save_pretrained(tmp_path)
    again = tiny_model(arch)
    for name in loaded:
        again = PeftModel.from_pretrained(again, tmp_path / name, adapter_name=name)
    assert torch.equal(logits(again), logits(model))
    assert not [name for name, p in again.named_parameters() if p.requires_grad]


@pytest.mark.parametrize("order", ORDERS, ids=["igc-lora", "lora-igc"])
def test_both_of_two_peft_models_save_the_same_weights(order, tmp_path):
    configs = {"math": small_config(), "style": lora()}
    inner = get_peft_model(tiny_model("llama"), configs[order[0]], adapter_name=order[0])
    model = get_peft_model(inner, configs[order[1]], adapter_name=order[1])
    model.save_pretrained(tmp_path / "outer")
    inner.save_pretrained(tmp_path / "inner")
    for name in order:
        outer_weights, inner_weights = (load_file(tmp_path / side / name / WEIGHTS) for side in ("outer", "inner"))
        assert outer_weights.keys() == inner_weights.keys()
        assert all(torch.equal(outer_weights[key], inner_weights[key]) for key in outer_weights)


@pytest.mark.parametrize("order", ORDERS, ids=["igc-lora", "lora-igc"])
def test_disable_adapter_of_the_outer_model_gives_the_base_bit_for_bit(order):
    base = tiny_model("llama")
    before = logits(base)
    model = nested(base, order)
    together = logits(model)
    with model.disable_adapter():
        assert torch.equal(logits(model), before)
    assert torch.equal(logits(model), together)


def test_unload_of_the_calculator_leaves_the_lora_within_as_it_was():
    base = tiny_model("llama")
    before = logits(base)
    inner = get_peft_model(base, lora(), adapter_name="style")
    with_lora, keys = logits(inner), list(inner.state_dict())
    outer = get_peft_model(inner, small_config(), adapter_name="math")
    assert not torch.equal(logits(outer), with_lora)
    left = outer.unload()
    assert left is inner
    assert list(left.peft_config) == ["style"]
    assert list(left.state_dict()) == keys
    assert torch.equal(logits(left), with_lora)
    assert torch.equal(logits(left.unload()), before)


def test_a_lora_around_a_calculator_is_merged_and_the_calculator_stays(tmp_path):
    inner = get_peft_model(tiny_model("llama"), small_config(), adapter_name="math")
    model = get_peft_model(inner, lora(), adapter_name="style")
    expected = logits(model)
    model.merge_adapter()
    torch.testing.assert_close(logits(model), expected, atol=1e-4, rtol=1e-4)
    model.unmerge_adapter()
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


def test_a_lora_around_a_calculator_is_unloaded_and_the_calculator_stays():
    inner = get_peft_model(tiny_model("llama"), small_config(), adapter_name="math")
    expected = logits(inner)
    base = get_peft_model(inner, lora(), adapter_name="style").unload()
    assert torch.equal(logits(base), expected)
    assert torch.equal(logits(inner), expected)


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
def test_one_name_for_lora_and_calculator_raises(order):
    configs = {"math": small_config(), "style": lora()}
    model = get_peft_model(tiny_model("llama"), configs[order[0]])
    with pytest.raises(
        ValueError, match="The adapter name 'default' is taken by a (LORA|IGC) adapter.*`adapter_name`"
    ):
        get_peft_model(model, configs[order[1]])


@pytest.mark.parametrize("order", ORDERS, ids=["igc-lora", "lora-igc"])
@pytest.mark.parametrize("owner", ["math", "style"])
def test_whole_trained_modules_beside_another_method_are_refused(owner, order):
    configs = {"math": small_config(), "style": lora()}
    configs[owner].modules_to_save = ["lm_head"]
    model = get_peft_model(tiny_model("llama"), configs[order[0]], adapter_name=order[0])
    expected = logits(model)
    message = f"Adapter '{owner}' has `modules_to_save`, which PEFT cannot save separately"
    with pytest.raises(ValueError, match=message):
        get_peft_model(model, configs[order[1]], adapter_name=order[1])
    assert list(model.peft_config) == [order[0]]
    assert torch.equal(logits(model), expected)


def test_a_calculator_around_a_calculator_is_refused(tmp_path):
    folder, _ = saved(tmp_path)
    model = get_peft_model(tiny_model("llama"), small_config(), adapter_name="a")
    message = r"already has an IGC adapter. Add another one with `model.add_adapter\(name, config\)`"
    with pytest.raises(ValueError, match=message):
        get_peft_model(model, small_config(), adapter_name="b")
    with pytest.raises(ValueError, match=message):
        PeftModel.from_pretrained(model, folder, adapter_name="b")
    model.load_adapter(folder, "b")
    model.set_adapter("b")
    assert logits(model).isfinite().all()


def test_deleting_a_lora_through_the_calculators_model_raises():
    model = nested(tiny_model("llama"), ("style", "math"))
    with pytest.raises(ValueError, match="Adapter 'style' is not an IGC adapter.*Delete it on the PEFT model"):
        model.delete_adapter("style")
    assert "style" in model.peft_config


# ------------------------------------------------------------------------------------------------ off and out
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_disabled_or_unloaded_it_is_the_base_bit_for_bit(arch):
    base = tiny_model(arch)
    before, generated = logits(base), base.generate(input_ids=IDS, max_new_tokens=4)
    model = get_peft_model(base, small_config())
    with_adapter = logits(model)
    assert not torch.equal(with_adapter, before)
    with model.disable_adapter():
        assert torch.equal(logits(model), before)
        assert torch.equal(model.generate(input_ids=IDS, max_new_tokens=4), generated)
    assert torch.equal(logits(model), with_adapter)
    unloaded = model.unload()
    assert torch.equal(logits(unloaded), before)
    assert torch.equal(unloaded.generate(input_ids=IDS, max_new_tokens=4), generated)


def traces(model):
    """All that attaching could leave behind, module by module."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
    return {
        path: (
            type(module),
            sorted(set(vars(module)) - {"training"}),
            list(module._modules),
            [len(getattr(module, name)) for name in hooks],
        )
        for path, module in model.named_modules()
    }


def test_paths_and_classes_of_the_base_stay_as_they_are():
    base = tiny_model("llama")
    before = {path: type(module) for path, module in base.named_modules()}
    get_peft_model(base, small_config())
    after = {path: type(module) for path, module in base.named_modules()}
    own = {path for path in after if path.startswith("model.layers.1.igc")}
    assert own
    assert {path: kind for path, kind in after.items() if path not in own} == before


def test_unload_leaves_no_trace():
    base = tiny_model("llama")
    base(input_ids=IDS)
    parts, keys, flags = traces(base), list(base.state_dict()), [p.requires_grad for p in base.parameters()]
    model = get_peft_model(base, small_config(layer=1), adapter_name="a")
    model.add_adapter("b", small_config(layer=2))
    model.generate(input_ids=IDS, max_new_tokens=2)
    assert traces(base) != parts
    assert model.unload() is base
    assert traces(base) == parts
    assert list(base.state_dict()) == keys
    assert "generate" not in vars(base)
    assert not hasattr(base, "peft_config")
    assert all(flags)  # PEFT freezes a base, and leaves it frozen
    again = get_peft_model(base, small_config())  # a warning about an earlier adapter would be an error
    assert not torch.equal(logits(again), logits(tiny_model("llama")))


def test_whole_trained_modules_are_saved_and_leave_with_the_adapter(tmp_path):
    base = tiny_model("llama")
    before, parts = logits(base), traces(base)
    model = get_peft_model(base, small_config(modules_to_save=["lm_head"]))
    with torch.no_grad():
        model.base_model.model.lm_head.modules_to_save["default"].weight.add_(0.1)
    model.save_pretrained(tmp_path)
    extra = [key for key in load_file(tmp_path / WEIGHTS) if "igc_" not in key]
    assert extra == ["base_model.model.lm_head.weight"]
    assert torch.equal(logits(PeftModel.from_pretrained(tiny_model("llama"), tmp_path)), logits(model))
    with model.disable_adapter():
        assert torch.equal(logits(model), before)
    unloaded = model.unload()
    assert torch.equal(logits(unloaded), before)
    assert traces(unloaded) == parts


def test_unload_gives_back_a_generate_that_was_there_before():
    base = tiny_model("llama")
    calls = []

    def generate(*args, **kwargs):
        calls.append(kwargs)
        return type(base).generate(base, *args, **kwargs)

    base.generate = generate
    model = get_peft_model(base, small_config())
    model.generate(input_ids=IDS, max_new_tokens=1)
    assert len(calls) == 1
    assert model.unload().generate is generate


def test_training_leaves_the_base_bit_for_bit():
    base = tiny_model("llama")
    before = {name: p.clone() for name, p in base.named_parameters()}
    model = get_peft_model(base, small_config()).train()
    own = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    labels = IDS.masked_fill(torch.arange(7) < 4, -100)
    model(input_ids=IDS, labels=labels).loss.backward()
    optimizer.step()
    assert any(not torch.equal(p, own[name]) for name, p in model.named_parameters() if name in own)
    unloaded = model.unload()
    assert all(torch.equal(p, before[name]) for name, p in unloaded.named_parameters())
    assert torch.equal(logits(unloaded), logits(tiny_model("llama")))


# ------------------------------------------------------------------------------------------------ refusals
def test_merging_is_refused_with_the_reason_and_what_to_do_instead():
    model = get_peft_model(tiny_model("llama"), small_config())
    expected = logits(model)
    message = r"IGC cannot be merged into the base model.*Keep the adapter beside the base.*`unload\(\)`"
    for refused in (
        model.merge_adapter,
        model.merge_and_unload,
        lambda: model.merge_and_unload(safe_merge=True),
        lambda: model.merge_adapter(["default"]),
    ):
        with pytest.raises(ValueError, match=message):
            refused()
    model.unmerge_adapter()  # nothing was merged: nothing happens
    assert torch.equal(logits(model), expected)


def test_a_weighted_combination_is_refused():
    model = get_peft_model(tiny_model("llama"), small_config(), adapter_name="a")
    model.add_adapter("b", small_config())
    with pytest.raises(ValueError, match="cannot be combined with weights.*Train one adapter on both data sets"):
        model.add_weighted_adapter(["a", "b"], [0.5, 0.5], "c")


def test_different_adapters_for_the_rows_of_a_batch_are_refused():
    model = get_peft_model(tiny_model("llama"), small_config(), adapter_name="a")
    model.add_adapter("b", small_config())
    message = r"IGC does not support `adapter_names`.*one batch per adapter with `set_adapter\(name\)`"
    with pytest.raises(ValueError, match=message):
        model(input_ids=IDS, adapter_names=["a", "b"])
    with pytest.raises(ValueError, match=message):
        model.generate(input_ids=IDS, adapter_names=["a", "__base__"], max_new_tokens=1)
    assert logits(model).isfinite().all()


def test_the_layer_cannot_be_run_by_itself():
    layer = next(iter(calculators(get_peft_model(tiny_model("llama"), small_config())).values()))
    with pytest.raises(RuntimeError, match="acts in a forward hook of its decoder layer. Call the model"):
        layer(torch.zeros(1, 2, HIDDEN))


@pytest.mark.parametrize("layer", [LAYERS, 40])
def test_a_layer_out_of_range_is_refused_and_the_base_stays_as_it_was(layer):
    base = tiny_model("llama")
    before = traces(base)
    with pytest.raises(
        ValueError,
        match=rf"`layer={layer}` is out of range: the model has 3 decoder layers \(0\.\.2\). Set `IGCConfig",
    ):
        get_peft_model(base, small_config(layer=layer))
    assert traces(base) == before


def test_adding_an_adapter_out_of_range_leaves_the_model_as_it_was():
    model = get_peft_model(tiny_model("llama"), small_config())
    expected = logits(model)
    with pytest.raises(ValueError, match="`layer=7` is out of range"):
        model.add_adapter("b", small_config(layer=7))
    assert list(model.peft_config) == ["default"]
    assert torch.equal(logits(model), expected)


def bert():
    config = tf.BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    return tf.BertForMaskedLM(config)


def t5():
    return tf.T5ForConditionalGeneration(
        tf.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
    )


@pytest.mark.parametrize(("make", "name"), [(bert, "BertForMaskedLM"), (t5, "T5ForConditionalGeneration")])
def test_models_that_are_no_decoders_are_refused(make, name):
    with pytest.raises(ValueError, match=f"`{name}` is not a causal LM.*Pass a model of `AutoModelForCausalLM`"):
        get_peft_model(make(), small_config())


def test_a_model_that_is_not_of_transformers_is_refused():
    with pytest.raises(ValueError, match="`Linear` is not a transformers model.*AutoModelForCausalLM.from_pretrained"):
        inject_adapter_in_model(small_config(), torch.nn.Linear(2, 2))


def test_a_decoder_without_a_known_list_of_layers_is_refused():
    base = tiny_model("llama")
    base.model.towers = base.model.layers
    del base.model.layers
    with pytest.raises(
        ValueError, match="`LlamaForCausalLM` has no list of 3 decoder layers.*known name, which are `layers`, `h`"
    ):
        get_peft_model(base, small_config())


def test_of_a_vision_language_model_the_text_decoder_is_taken():
    vision = tf.CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, image_size=8, patch_size=4
    )
    text = tf.LlamaConfig(**ARCHITECTURES["llama"][2])
    base = tf.LlavaForConditionalGeneration(
        tf.LlavaConfig(vision_config=vision, text_config=text, image_token_index=5)
    ).eval()
    before = logits(base)
    model = get_peft_model(base, small_config())
    assert list(calculators(base)) == ["model.language_model.layers.1.igc"]
    assert not torch.equal(logits(model), before)
    with model.disable_adapter():
        assert torch.equal(logits(model), before)


# ------------------------------------------------------------------------------------------------ bad files
def edited(folder, **changes):
    """Changes fields of a saved config."""
    path = Path(folder) / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match="Can't find 'adapter_config.json' at '.*nowhere'"):
        PeftModel.from_pretrained(tiny_model("llama"), str(tmp_path / "nowhere"))


@pytest.mark.parametrize("damage", ["header", "end"])
@pytest.mark.parametrize(
    "load",
    [
        lambda folder: PeftModel.from_pretrained(tiny_model("llama"), folder),
        lambda folder: get_peft_model(tiny_model("llama"), small_config()).load_adapter(folder, "second"),
    ],
    ids=["from_pretrained", "load_adapter"],
)
def test_a_damaged_file_is_named_with_the_cure(damage, load, tmp_path):
    folder, _ = saved(tmp_path)
    with open(f"{folder}/{WEIGHTS}", "r+b") as file:
        if damage == "header":
            file.write(b"not a tensor file")
        else:
            file.truncate(20_000)
    message = rf"`.*adapter/{WEIGHTS}` is damaged and cannot be read as a safetensors file .*Copy or download it again"
    with pytest.raises(ValueError, match=message):
        load(folder)


@pytest.mark.parametrize("base_name", [None, "org/base"])
def test_an_adapter_for_another_hidden_size_is_refused_with_both_sizes(base_name, tmp_path):
    folder, _ = saved(tmp_path)
    edited(folder, base_model_name_or_path=base_name)
    cure = "trained on, `org/base`" if base_name else r"trained on\."
    with pytest.raises(
        ValueError, match=rf"`.*adapter` are for a base model of hidden size 32, but `LlamaForCausalLM` has 64.*{cure}"
    ):
        PeftModel.from_pretrained(tiny_model("llama", hidden_size=64), folder)


def test_a_state_dict_for_another_hidden_size_is_refused_by_the_adapters_name(tmp_path):
    weights = get_peft_model_state_dict(get_peft_model(tiny_model("llama"), small_config()))
    model = get_peft_model(tiny_model("llama", hidden_size=64), small_config(), adapter_name="math")
    with pytest.raises(ValueError, match="The weights for adapter 'math' are for a base model of hidden size 32"):
        set_peft_model_state_dict(model, weights, adapter_name="math")


def test_weights_of_another_config_are_refused(tmp_path):
    folder, _ = saved(tmp_path)
    edited(folder, num_digits=6)
    with pytest.raises(
        ValueError,
        match=r"`.*adapter` do not fit .*shape \(\d+, 32\), the config requires \(\d+, 32\).*Restore the `adapter_",
    ):
        PeftModel.from_pretrained(tiny_model("llama"), folder)


@pytest.mark.parametrize("change", [{"layer": 2}, {"reading_layers": 0}, {"reading_layers": 2}])
def test_weights_that_are_missing_or_have_no_place_are_refused(change, tmp_path):
    folder, _ = saved(tmp_path)
    edited(folder, **change)
    with pytest.raises(
        ValueError, match=r"are not those of the adapter that its config describes.*\d+ (are mis|are unex)"
    ):
        PeftModel.from_pretrained(tiny_model("llama"), folder)


def test_one_missing_weight_is_not_loaded_over_in_silence(tmp_path):
    folder, _ = saved(tmp_path)
    weights = load_file(f"{folder}/{WEIGHTS}")
    del weights["base_model.model.model.layers.1.igc.igc_output_mapping.place"]
    save_file(weights, f"{folder}/{WEIGHTS}")
    with pytest.raises(ValueError, match=r"1 are missing, such as `model.layers.1.igc.igc_output_mapping.place`"):
        PeftModel.from_pretrained(tiny_model("llama"), folder)


def test_an_adapter_of_another_architecture_is_refused(tmp_path):
    folder, _ = saved(tmp_path)
    with pytest.raises(ValueError, match="on `GPT2LMHeadModel`: .*are missing, such as `transformer.h.1.igc"):
        PeftModel.from_pretrained(tiny_model("gpt2"), folder)


def test_transformers_refuses_an_adapter_for_another_hidden_size_too(tmp_path):
    folder, _ = saved(tmp_path)
    with pytest.raises(ValueError, match=f"in `{folder}` are for a base model of hidden size {HIDDEN}, but .* has 64"):
        tiny_model("llama", hidden_size=64).load_adapter(folder)


# ------------------------------------------------------------------------------------------------ dtypes and places
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("autocast", [True, False])
def test_adapters_of_half_precision_bases_are_where_and_what_peft_asks_for(dtype, autocast):
    model = get_peft_model(tiny_model("llama").to(dtype), small_config(), autocast_adapter_dtype=autocast)
    own = [p for name, p in model.named_parameters() if "igc_" in name]
    assert {p.dtype for p in own} == {torch.float32 if autocast else dtype}
    assert {p.device.type for p in own} == {"cpu"}
    result = logits(model)
    assert result.dtype == dtype
    assert result.isfinite().all()
    assert model.generate(input_ids=IDS, max_new_tokens=3).shape == (2, 10)
    labels = IDS.masked_fill(torch.arange(7) < 4, -100)
    model.train()(input_ids=IDS, labels=labels).loss.backward()
    assert all(p.grad.isfinite().all() for p in own)


def test_off_loaded_bases_work(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    folder, expected = saved(tmp_path)
    base = accelerate.cpu_offload(tiny_model("llama"), execution_device=torch.device("cpu"))
    assert {p.device.type for p in base.parameters()} == {"meta"}  # no weights anywhere until a module runs
    model = PeftModel.from_pretrained(base, folder)
    assert {p.device.type for name, p in model.named_parameters() if "igc_" in name} == {"cpu"}
    assert torch.equal(logits(model), expected)
    with model.disable_adapter():
        assert torch.equal(logits(model), logits(tiny_model("llama")))


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.filterwarnings("ignore")  # bitsandbytes' kernels and casts
def test_quantised_bases_train_generate_and_save(bits, tmp_path):
    pytest.importorskip("bitsandbytes")
    tiny_model("llama", hidden_size=64).save_pretrained(tmp_path / "base")
    quantised = tf.BitsAndBytesConfig(load_in_8bit=bits == 8, load_in_4bit=bits == 4)

    def load():
        return tf.AutoModelForCausalLM.from_pretrained(tmp_path / "base", quantization_config=quantised).eval()

    model = get_peft_model(peft.prepare_model_for_kbit_training(load()), small_config())
    own = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert {p.dtype for p in own.values()} == {torch.float32}
    before = {name: p.detach().clone() for name, p in own.items()}
    labels = IDS.masked_fill(torch.arange(7) < 4, -100)
    optimizer = torch.optim.SGD(own.values(), lr=0.1)
    model.train()(input_ids=IDS, labels=labels).loss.backward()
    optimizer.step()
    assert any(not torch.equal(p, before[name]) for name, p in own.items())
    # No logits are compared: 4-bit logits move when a state dict is taken between two passes, without any adapter.
    assert model.eval().generate(input_ids=IDS, max_new_tokens=3).shape == (2, 10)
    model.save_pretrained(tmp_path / "adapter")
    again = PeftModel.from_pretrained(load(), tmp_path / "adapter")
    weights = get_peft_model_state_dict(model)
    assert weights
    assert all(torch.equal(p, weights[key]) for key, p in get_peft_model_state_dict(again).items())
    assert logits(again).isfinite().all()


# ------------------------------------------------------------------------------------------------ size
def test_the_default_has_seventeen_million_parameters_on_llama_8b():
    config = tf.LlamaConfig(
        vocab_size=128_256,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
    )
    with torch.device("meta"):
        model = get_peft_model(tf.LlamaForCausalLM(config), IGCConfig(layer=1))
    trainable, total = model.get_nb_trainable_parameters()
    assert total - trainable == 8_030_261_248  # it is that model
    assert abs(trainable - 17e6) <= 0.05 * 17e6


def test_no_parameter_is_unused():
    config = small_config(max_offset=4, max_distance=8)
    model = get_peft_model(tiny_model("llama"), config).train()
    labels = IDS.masked_fill(torch.arange(7) < 4, -100)
    digits = torch.tensor([[1, 2, 10, 10, 10], [3, 10, 10, 10, 10]]).expand(2, 1, 2, 5)
    output = model(
        input_ids=IDS,
        labels=labels,
        igc_operands=digits,
        igc_signs=torch.tensor([[[0, 1]], [[1, 0]]]),
        igc_operator=torch.tensor([[0], [1]]),
        igc_result=torch.tensor([[[9, 10, 10, 10]], [[1, 5, 10, 10]]]),
        igc_result_sign=torch.tensor([[0], [1]]),
        igc_result_status=torch.zeros(2, 1, dtype=torch.int64),
    )
    output.loss.backward()
    unused = [name for name, p in model.named_parameters() if p.requires_grad and not p.grad.abs().sum() > 0]
    assert unused == []


def test_the_tuner_is_what_peft_says_it_is():
    model = get_peft_model(tiny_model("llama"), small_config())
    assert isinstance(model.base_model, IGCModel)
    status = model.get_model_status()
    assert (status.adapter_model_type, status.peft_types) == ("IGCModel", {"default": "IGC"})
    assert (status.enabled, status.active_adapters, status.merged_adapters) == (True, ["default"], [])
    assert status.devices == {"default": ["cpu"]}
    [layer] = model.get_layer_status()
    assert layer.name.endswith("model.layers.1.igc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.print_trainable_parameters()
