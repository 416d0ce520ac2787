"""What registration promises: `import peft_igc` is all it takes, and no other method notices."""

import pytest
import torch
from checks import logits, lora
from peft import (
    IA3Config,
    LoHaConfig,
    PeftConfig,
    PeftModel,
    PromptTuningConfig,
    get_peft_config,
    get_peft_model,
    get_peft_model_state_dict,
)
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING, PEFT_TYPE_TO_PREFIX_MAPPING, PEFT_TYPE_TO_TUNER_MAPPING
from tiny_models import small_config, tiny_model
from tiny_training import NESTED

from peft_igc import IGCConfig, IGCModel, register, tiny_base
from peft_igc.tuner.config import IGC_PEFT_TYPE


TABLES = (PEFT_TYPE_TO_CONFIG_MAPPING, PEFT_TYPE_TO_TUNER_MAPPING, PEFT_TYPE_TO_PREFIX_MAPPING)


def test_peft_finds_the_method_by_its_name_and_by_its_member_however_often_it_is_registered():
    before = [dict(table) for table in TABLES]
    register()
    assert [dict(table) for table in TABLES] == before
    for name in ("IGC", IGC_PEFT_TYPE):
        assert [table[name] for table in TABLES] == [IGCConfig, IGCModel, "igc_"]
    assert type(get_peft_config({"peft_type": "IGC", "layer": 2})) is IGCConfig
    assert type(PeftConfig.from_peft_type(peft_type="IGC")) is IGCConfig


@pytest.mark.filterwarnings(*NESTED)
def test_models_without_a_calculator_are_saved_and_targeted_as_peft_does_it():
    inner = get_peft_model(tiny_model("llama"), lora(), adapter_name="inner")
    outer = get_peft_model(inner, lora(target_modules="all-linear"), adapter_name="outer")
    twice = "base_model.model.base_model.model."
    assert all(key.startswith(twice) for key in get_peft_model_state_dict(outer, adapter_name="inner"))
    targeted = outer.peft_config["outer"].target_modules
    assert any("lm_head" in name for name in targeted)


def test_other_methods_are_saved_and_loaded_as_before(tmp_path):
    for config in (
        LoHaConfig(target_modules=["q_proj"], init_weights=False),
        IA3Config(target_modules=["q_proj"], feedforward_modules=[], init_ia3_weights=False),
        PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2),
    ):
        model = get_peft_model(tiny_model("llama"), config)
        model.save_pretrained(tmp_path / config.peft_type)
        again = PeftModel.from_pretrained(tiny_model("llama"), tmp_path / config.peft_type)
        assert torch.equal(logits(again), logits(model))
    mixed = get_peft_model(tiny_model("llama"), lora(), mixed=True)  # which has no `tuner_layer_cls`
    mixed.add_adapter("other", LoHaConfig(target_modules=["q_proj"]))


def test_an_unknown_operation_is_refused_with_the_line_that_would_register_it():
    message = r"names the unknown operation '\^'. Known are \+, -, \*, /.*use the token interface"
    with pytest.raises(ValueError, match=message):
        get_peft_model(tiny_model("llama"), small_config(operations=["+", "^"]))
    base, tokenizer = tiny_base()
    config = IGCConfig.from_tokenizer(tokenizer, operations=["+", "sum", "price"])
    with pytest.raises(ValueError, match=r"unknown operation 'price'.*`@peft_igc.register_operation\(name=\"price\""):
        get_peft_model(base, config)
