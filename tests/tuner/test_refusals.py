"""What PEFT and transformers offer on a model with a calculator and cannot work is refused with the line that does."""

import pytest
import torch
from checks import IDS, adapted, logits, lora, nesting
from peft import PeftModel, get_peft_model
from tiny_models import small_config, tiny_model
from transformers import GenerationConfig


REQUESTS = [[5, 6, 7], [5, 6, 7, 8]]


# --------------------------------------------------------------------------------------- an adapter of another method
ORDERS = [(small_config, lora), (lora, small_config)]


@pytest.mark.parametrize(("first", "second"), ORDERS, ids=["LoRA to IGC", "IGC to LoRA"])
def test_an_adapter_of_another_method_is_refused_by_peft_and_goes_around(first, second, tmp_path):
    get_peft_model(tiny_model("llama"), second()).save_pretrained(tmp_path / "second")
    model = get_peft_model(tiny_model("llama"), first())
    alone = logits(model)
    for refused in (model.add_adapter, lambda name, _: model.load_adapter(tmp_path / "second", name)):
        with pytest.raises(ValueError, match="Cannot combine adapters with different peft types"):
            refused("other", second())
    assert torch.equal(logits(model), alone)
    with nesting():
        both = get_peft_model(model, second(), adapter_name="other")
    assert not torch.equal(logits(both), alone)
    both.train()(input_ids=IDS, labels=IDS).loss.backward()
    assert {"igc_" in n for n, p in both.named_parameters() if p.grad is not None} == {True, False}
    both.save_pretrained(tmp_path)
    folder, name = (tmp_path, "default") if first is small_config else (tmp_path / "other", "other")
    again = PeftModel.from_pretrained(tiny_model("llama"), folder, adapter_name=name)
    assert torch.equal(logits(again), logits(both))


# ------------------------------------------------------------------------------------------------ no adapter is left
@pytest.mark.filterwarnings("ignore:Adapter .* was active which is now deleted:UserWarning")
def test_after_the_last_adapter_was_deleted_another_can_be_added():
    model = get_peft_model(tiny_model("llama"), small_config())
    model.delete_adapter("default")
    model.add_adapter("new", small_config())
    model.set_adapter("new")
    assert not torch.equal(logits(model), logits(tiny_model("llama")))


# ---------------------------------------------------------------------------------------------- continuous batching
def test_continuous_batching_of_a_disabled_calculator_is_none_of_our_business():
    model = adapted("llama")
    with model.disable_adapter():
        assert model.init_continuous_batching(GenerationConfig(max_new_tokens=2, eos_token_id=2)) is not None
