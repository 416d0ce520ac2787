"""On a base with weights on the disk, an adapter has the weights of its file, and works."""

import copy

import pytest
import torch
import transformers as tf
from checks import IDS, logits
from loading_ways import WAYS, by_transformers, from_memory
from peft import LoraConfig, PeftModel, get_peft_model, inject_adapter_in_model, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from tiny_models import LAYERS, small_config, tiny_model
from tiny_training import NESTED

from peft_igc.tuner.hooks.wrapper import wrapped_model


accelerate = pytest.importorskip("accelerate")
pytestmark = [
    pytest.mark.filterwarnings(*NESTED),
    # transformers 5.23 warns of weights on the disk while it loads them there.
    pytest.mark.filterwarnings("ignore:Some parameters are on the meta device:UserWarning"),
]

CPU = torch.device("cpu")


@pytest.fixture(params=["llama", "gpt2"])
def arch(request):
    """The architecture. GPT-2 has tied embeddings."""
    return request.param


@pytest.fixture
def folder(arch, tmp_path):
    """The base in `base`, the adapter in `adapter`, as a pickle in `pickle`."""
    tiny_model(arch).save_pretrained(tmp_path / "base")
    path = tmp_path / "base" / "model.safetensors"
    weights = {key.removeprefix("transformer."): value for key, value in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})  # as in the file of GPT-2 on the hub
    model = get_peft_model(tiny_model(arch), small_config())
    model.save_pretrained(tmp_path / "adapter")
    model.save_pretrained(tmp_path / "pickle", safe_serialization=False)
    return tmp_path


def offloaded(folder, on_disk=("1",)):
    """The base, of which some decoder layers are on the disk."""
    base = tf.AutoModelForCausalLM.from_pretrained(folder / "base")
    outer, layers = ("transformer", "h") if hasattr(base, "transformer") else ("model", "layers")
    places = {name: "cpu" for name, _ in base.named_children() if name != outer}
    places |= {f"{outer}.{name}": "cpu" for name, _ in getattr(base, outer).named_children() if name != layers}
    places |= {f"{outer}.{layers}.{i}": "disk" if str(i) in on_disk else "cpu" for i in range(LAYERS)}
    model = tf.AutoModelForCausalLM.from_pretrained(
        folder / "base", device_map=places, offload_folder=folder / "offload"
    )
    assert any(p.device.type == "meta" for p in model.parameters())
    return model


def injected(base, adapter, **options):
    inject_adapter_in_model(small_config(), base, **options)
    set_peft_model_state_dict(base, load_file(adapter / "adapter_model.safetensors"), **options)
    return base


def loaded_again(base, adapter):
    model = get_peft_model(base, small_config())
    model.load_adapter(adapter, "default")
    return model


HERE = {
    **{name: WAYS[name] for name in ("PeftModel", "low memory", "transformers", "transformers, another name")},
    "an automatic map": lambda base, adapter: PeftModel.from_pretrained(
        base, adapter, device_map="auto", max_memory={"cpu": 100_000}, offload_folder=str(adapter / "more")
    ),
    "into an adapter that is there": loaded_again,
    "transformers, a pickle": lambda base, adapter: by_transformers(base, adapter.parent / "pickle"),
    "transformers, a state dict": from_memory,
    "inject": injected,
    "inject, low memory": lambda base, adapter: injected(base, adapter, low_cpu_mem_usage=True),
}


@pytest.mark.parametrize(
    ("way", "on_disk"),
    [*((way, ("1",)) for way in HERE), *((way, ("0", "1", "2")) for way in ("PeftModel", "transformers"))],
)
def test_an_adapter_on_a_base_with_layers_on_the_disk_has_the_weights_of_its_file(way, on_disk, arch, folder):
    base = offloaded(folder, on_disk)
    places = dict(base.hf_device_map)
    model = HERE[way](base, folder / "adapter")
    assert base.hf_device_map == places
    assert {p.device.type for name, p in model.named_parameters() if "igc_" in name} == {"cpu"}
    expected = PeftModel.from_pretrained(tiny_model(arch), folder / "adapter")
    assert torch.equal(logits(model), logits(expected))
    assert torch.equal(model.generate(IDS, max_new_tokens=3), expected.generate(IDS, max_new_tokens=3))


PLACES = {"base_model.model.model": "disk", "base_model.model.lm_head": "cpu"}
OFFLOADS = {
    "cpu_offload": lambda model, folder: accelerate.cpu_offload(model, CPU),
    "disk_offload": lambda model, folder: accelerate.disk_offload(model, folder, execution_device=CPU),
    "dispatch_model": lambda model, folder: accelerate.dispatch_model(model, PLACES, offload_dir=folder),
}


@pytest.mark.parametrize("how", OFFLOADS)
def test_a_model_that_is_offloaded_with_its_adapter_works(how, interface, tmp_path):
    offload = OFFLOADS[how]
    model = get_peft_model(tiny_model("llama"), small_config(interface=interface))
    expected, weights = logits(model), {k: v.clone() for k, v in model.state_dict().items() if "igc_" in k}
    used, model = copy.deepcopy(model), offload(model, tmp_path / "saved")
    assert all(p.device.type == "meta" for name, p in model.named_parameters() if "igc_" in name)
    model.save_pretrained(tmp_path / "adapter")
    saved = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert all(torch.equal(saved[key.replace(".default.", ".")], value) for key, value in weights.items())
    assert torch.equal(logits(model), expected)
    used = offload(used, tmp_path / "used")  # and this one is used before it is saved
    assert torch.equal(logits(used), expected)
    assert torch.equal(logits(used), expected)


def test_an_adapter_that_is_offloaded_before_its_first_save_is_loaded_over(tmp_path):
    model = get_peft_model(tiny_model("llama"), small_config())
    model.save_pretrained(tmp_path)
    other = accelerate.cpu_offload(get_peft_model(tiny_model("llama"), small_config()), CPU)
    other.load_adapter(tmp_path, "default")
    assert torch.equal(logits(other), logits(model))


def test_transformers_loads_other_methods_beside_a_calculator_as_before(tmp_path):
    get_peft_model(tiny_model("llama"), LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path)
    base = tiny_model("llama")
    base.add_adapter(small_config(), "math")
    base.load_adapter(str(tmp_path), "style")
    assert set(base.peft_config) == {"math", "style"}
    assert wrapped_model(base) is base


def test_an_adapter_that_was_attached_without_weights_is_refused_at_the_first_pass():
    model = get_peft_model(tiny_model("llama"), small_config(), low_cpu_mem_usage=True)
    with pytest.raises(ValueError, match="The weights of the adapter `default` are on the meta device"):
        model(IDS)
