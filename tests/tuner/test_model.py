"""What `IGCModel` promises to users of PEFT: every way in, beside other adapters, and out again without a trace."""

import os
import warnings

import peft
import pytest
import torch
import transformers as tf
from checks import logits, lora, traces
from peft import PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file
from tiny_models import ARCHITECTURES, small_config, tiny_model
from tiny_training import NESTED
from tiny_vocabulary import FACTS, encode

from peft_igc import IGCConfig, IGCLayer, IGCModel
from peft_igc.tuner.base_model import decoder_layers


IDS = torch.randint(3, 100, (2, 7), generator=torch.Generator().manual_seed(0))
WEIGHTS = "adapter_model.safetensors"

# Nested PEFT models and deletions of what is active make PEFT speak up.
pytestmark = [
    pytest.mark.filterwarnings(*NESTED),
    pytest.mark.filterwarnings("ignore:Adapter .* was active which is now deleted:UserWarning"),
    pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False:UserWarning"),  # LoRA, at GPT-2
]


TOKENS = {"interface": "tokens"}
ELSEWHERE = TOKENS | {"layer": 2, "read_from": [0, 1]}
ADAPTERS = [("llama", {"interface": "hidden"}), *((arch, TOKENS) for arch in ARCHITECTURES)]
ADAPTERS += [(arch, ELSEWHERE) for arch in ("llama", "gpt2", "bloom")]


@pytest.mark.versions
@pytest.mark.parametrize(("arch", "fields"), ADAPTERS)
def test_an_adapter_comes_goes_and_returns_from_its_file_bit_for_bit(arch, fields, tmp_path):
    ids, base = encode("(12 + -345) =")[None], tiny_model(arch)
    before, answer, parts = logits(base, ids), base.generate(input_ids=ids, max_new_tokens=4), traces(base)
    fresh = get_peft_model(base, small_config(init_weights=True, **fields))
    assert torch.equal(logits(fresh, ids), before)
    model = get_peft_model(fresh.unload(), small_config(**fields))
    expected = logits(model, ids)
    assert (expected - before).abs().max() > 1e-3
    with model.disable_adapter():
        assert torch.equal(logits(model, ids), before)
        assert torch.equal(model.generate(input_ids=ids, max_new_tokens=4), answer)
    assert torch.equal(logits(model, ids), expected)
    model.save_pretrained(tmp_path)
    own = f"base_model.model.{decoder_layers(tiny_model(arch))[0]}.{fields.get('layer', 1)}.igc.igc_"
    assert {key.startswith(own) for key in load_file(tmp_path / WEIGHTS)} == {True}
    assert sorted(os.listdir(tmp_path)) == ["README.md", "adapter_config.json", WEIGHTS]
    assert torch.equal(logits(PeftModel.from_pretrained(tiny_model(arch), tmp_path), ids), expected)
    unloaded = model.unload()
    assert torch.equal(logits(unloaded, ids), before)
    assert torch.equal(unloaded.generate(input_ids=ids, max_new_tokens=4), answer)
    assert traces(unloaded) == parts


@pytest.mark.versions
def test_transformers_load_adapter_loads_it_and_switches_it(tmp_path):
    model, base = get_peft_model(tiny_model("llama"), small_config()), tiny_model("llama")
    model.save_pretrained(tmp_path / "adapter")
    expected, before = logits(model), logits(base)
    info = base.load_adapter(str(tmp_path / "adapter"), adapter_name="math")
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


@pytest.mark.parametrize("layers", [(1, 1), (1, 2)], ids=["same-layer", "two-layers"])
def test_of_several_adapters_exactly_one_is_active_and_two_are_refused(layers):
    base = tiny_model("llama")
    before = logits(base)
    model = get_peft_model(base, small_config(layer=layers[0]), adapter_name="a")
    with_a = logits(model)
    model.add_adapter("b", small_config(layer=layers[1], interface="tokens"))
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
    model.base_model.set_adapter(["a", "b"])
    with pytest.raises(ValueError, match=r"IGC adapters \['a', 'b'\] are active at once.*`set_adapter\(name\)`"):
        model(input_ids=IDS)
    model.set_adapter("a")
    assert torch.equal(logits(model), with_a)


@pytest.mark.parametrize("layers", [(0, 0, 0), (0, 1, 2), (0, 1, 1)])
def test_deleting_the_active_adapter_leaves_exactly_one_active(layers):
    base = tiny_model("llama")
    before = logits(base, IDS)
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
    assert torch.equal(model.base_model(input_ids=IDS).logits, logits(model, IDS))
    model.delete_adapter("b")
    assert torch.equal(model.base_model(input_ids=IDS).logits, before)
    model.add_adapter("new", small_config())
    model.set_adapter("new")
    assert not torch.equal(logits(model, IDS), before)


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


def test_unload_takes_all_adapters_away_and_gives_back_a_generate_that_was_there_before():
    base, calls = tiny_model("llama"), []
    parts, keys = traces(base), list(base.state_dict())

    def generate(*args, **kwargs):
        calls.append(kwargs)
        return type(base).generate(base, *args, **kwargs)

    base.generate = generate
    model = get_peft_model(base, small_config(), adapter_name="a")
    model.add_adapter("b", small_config(layer=2))
    model.generate(input_ids=IDS, max_new_tokens=1)
    assert len(calls) == 1
    assert model.unload() is base
    assert vars(base).pop("generate") is generate
    assert traces(base) == parts
    assert list(base.state_dict()) == keys


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
    assert [path for path, module in base.named_modules() if isinstance(module, IGCLayer)] == [
        "model.language_model.layers.1.igc"
    ]
    assert not torch.equal(logits(model), before)
    with model.disable_adapter():
        assert torch.equal(logits(model), before)


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


@pytest.mark.parametrize("fields", [{}, {"interface": "tokens", "number_tokens": FACTS}])
def test_the_default_has_seventeen_million_parameters_on_llama_8b(fields):
    sizes = {"vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32}
    config = tf.LlamaConfig(**sizes, num_attention_heads=32, num_key_value_heads=8)
    with torch.device("meta"):
        model = get_peft_model(tf.LlamaForCausalLM(config), IGCConfig(layer=1, **fields))
    trainable, total = model.get_nb_trainable_parameters()
    assert total - trainable == 8_030_261_248  # it is that model
    assert abs(trainable - 17e6) <= 0.05 * 17e6


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
