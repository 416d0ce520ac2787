"""A LoRA that was trained with a calculator is in every weight that the engine loads, or is refused."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tiny_models import tiny_model

from peft_igc.engines.vllm.adapter import added, updates_of


def saved(tmp_path, arch="llama", **fields):
    model = tiny_model(arch)
    config = LoraConfig(target_modules=["q_proj", "down_proj"], **{"init_lora_weights": False, **fields})
    lora = get_peft_model(model, config)
    lora.save_pretrained(tmp_path)
    return lora


@pytest.mark.parametrize(
    "fields",
    [
        {"r": 4, "lora_alpha": 16},
        {"r": 4, "use_rslora": True, "rank_pattern": {"q_proj": 2}, "alpha_pattern": {"layers.1.mlp.down_proj": 3}},
    ],
    ids=["plain", "patterns"],
)
def test_the_weights_are_those_that_peft_merges(tmp_path, fields):
    lora = saved(tmp_path, **fields)
    merged = dict(added(updates_of([tmp_path]), tiny_model("llama").state_dict().items()))
    expected = lora.merge_and_unload().state_dict()
    assert merged.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(merged[name], weight)
    assert not torch.equal(expected["model.layers.0.self_attn.q_proj.weight"], tiny_model("llama").state_dict()[
        "model.layers.0.self_attn.q_proj.weight"])  # fmt: skip


def test_weights_without_a_place_for_the_update_are_refused(tmp_path):
    saved(tmp_path, r=4)
    weights = tiny_model("llama").state_dict()
    short = {name: weight for name, weight in weights.items() if "layers.2" not in name}
    with pytest.raises(ValueError, match="changes `model.layers.2.mlp.down_proj.weight`, which the base does not"):
        list(added(updates_of([tmp_path]), short.items()))
    quantized = {name: weight.to(torch.int8) for name, weight in weights.items()}
    with pytest.raises(ValueError, match=r"cannot be added to the weight `.*` of torch.int8"):
        list(added(updates_of([tmp_path]), quantized.items()))


def test_other_adapters_are_refused_with_the_cure(tmp_path):
    for fields in ({"use_dora": True}, {"bias": "all"}, {"init_lora_weights": "pissa"}):
        saved(tmp_path, **fields)
        with pytest.raises(ValueError, match="is no plain LoRA. Merge it into the base"):
            updates_of([tmp_path])
    saved(tmp_path, modules_to_save=["norm"])
    with pytest.raises(ValueError, match="`model.layers.0.input_layernorm.weight`, no factor. Merge it"):
        updates_of([tmp_path])
