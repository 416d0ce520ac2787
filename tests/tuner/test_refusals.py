"""What PEFT and transformers offer on a model with a calculator and cannot work is refused with the line that does."""

import re
import warnings
from contextlib import contextmanager

import pytest
import torch
from checks import adapted
from peft import IA3Config, LoraConfig, PeftModel, get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import NESTED
from transformers import GenerationConfig


IDS = torch.tensor([[5, 6, 7, 8, 3, 9, 4]])
REQUESTS = [[5, 6, 7], [5, 6, 7, 8]]


def logits(model):
    """Logits of a pass in eval mode."""
    with torch.no_grad():
        return model.eval()(input_ids=IDS).logits


def lora():
    """A LoRA that changes outputs."""
    return LoraConfig(r=4, target_modules=["q_proj", "up_proj"], init_lora_weights=False)


@contextmanager
def nesting():
    """Around what nests adapters by hand, of which PEFT warns."""
    with warnings.catch_warnings():
        for warning in NESTED:
            warnings.filterwarnings("ignore", warning.split(":")[1])
        yield


# --------------------------------------------------------------------------------------- an adapter of another method
ORDERS = [(small_config, lora), (lora, small_config)]


def refused_line(call):
    """The line between backticks in the message that a call is refused with."""
    with pytest.raises(ValueError, match="has adapters of one method") as caught:
        call()
    return re.findall(r"`([^`]*\(.*?\))`", str(caught.value))


@pytest.mark.parametrize(("first", "second"), ORDERS, ids=["LoRA to IGC", "IGC to LoRA"])
def test_adding_an_adapter_of_another_method_is_refused_with_the_line_that_works(first, second, tmp_path):
    model = get_peft_model(tiny_model("llama"), first())
    alone = logits(model)
    [line, _] = refused_line(lambda: model.add_adapter("other", second()))
    assert line == "model = get_peft_model(model, config, adapter_name='other')"
    assert torch.equal(logits(model), alone)
    with nesting():
        names = {"get_peft_model": get_peft_model, "model": model, "config": second()}
        exec(line, names)
    both = names["model"]
    assert not torch.equal(logits(both), alone)
    both.train()(input_ids=IDS, labels=IDS).loss.backward()
    assert {"igc_" in n for n, p in both.named_parameters() if p.grad is not None} == {True, False}
    both.save_pretrained(tmp_path)
    folder, name = (tmp_path, "default") if first is small_config else (tmp_path / "other", "other")
    again = PeftModel.from_pretrained(tiny_model("llama"), folder, adapter_name=name)
    assert torch.equal(logits(again), logits(both))


@pytest.mark.parametrize(("first", "second"), ORDERS, ids=["LoRA to IGC", "IGC to LoRA"])
def test_loading_an_adapter_of_another_method_is_refused_with_the_line_that_works(first, second, tmp_path):
    other = get_peft_model(tiny_model("llama"), second())
    other.save_pretrained(tmp_path)
    model = get_peft_model(tiny_model("llama"), first())
    [_, line] = refused_line(lambda: model.load_adapter(tmp_path, "other"))
    with nesting():
        names = {"PeftModel": PeftModel, "model": model, "folder": tmp_path}
        exec(line, names)
    assert set(names["model"].peft_config) == {"default", "other"}


def test_two_methods_of_which_none_is_a_calculator_are_refused_as_peft_does_it():
    model = get_peft_model(tiny_model("llama"), lora())
    with pytest.raises(ValueError, match="Cannot combine adapters with different peft types"):
        model.add_adapter("other", IA3Config(target_modules=["q_proj"], feedforward_modules=[]))


# ------------------------------------------------------------------------------------------------ no adapter is left
@pytest.mark.filterwarnings("ignore:Adapter .* was active which is now deleted:UserWarning")
@pytest.mark.parametrize("use", [logits, lambda m: m.generate(input_ids=IDS, max_new_tokens=2),
                                 lambda m: m.save_pretrained("nowhere")],
                         ids=["forward", "generate", "save"])  # fmt: skip
@pytest.mark.parametrize("name", ["default", "math"])
def test_after_the_last_adapter_was_deleted_the_error_says_so(name, use, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = get_peft_model(tiny_model("llama"), small_config(), adapter_name=name)
    model.delete_adapter(name)
    with pytest.raises(KeyError, match=rf"no adapter '{name}'.*`add_adapter`.*`unload\(\)`"):
        use(model)
    assert torch.equal(logits(model.unload()), logits(tiny_model("llama")))


@pytest.mark.filterwarnings("ignore:Adapter .* was active which is now deleted:UserWarning")
def test_after_the_last_adapter_was_deleted_another_can_be_added():
    model = get_peft_model(tiny_model("llama"), small_config())
    model.delete_adapter("default")
    model.add_adapter("new", small_config())
    model.set_adapter("new")
    assert not torch.equal(logits(model), logits(tiny_model("llama")))


# ---------------------------------------------------------------------------------------------- continuous batching
WAYS = {
    "generate_batch": lambda model: model.generate_batch(
        inputs=REQUESTS, generation_config=GenerationConfig(max_new_tokens=2, pad_token_id=0)
    ),
    "paged": lambda model: model.generate(IDS, cache_implementation="paged", max_new_tokens=2, pad_token_id=0),
    "a manager": lambda model: model.init_continuous_batching(),
}


@pytest.mark.parametrize("way", WAYS)
def test_continuous_batching_is_refused_before_the_first_pass(way, monkeypatch):
    model = adapted("llama")
    base = model.base_model.model
    monkeypatch.setattr(base, "forward", lambda *args, **kwargs: pytest.fail("a forward pass"))
    with pytest.raises(ValueError, match="Continuous batching .* so a calculation would read across texts. .*padded"):
        WAYS[way](model)


def test_continuous_batching_of_a_disabled_calculator_is_none_of_our_business():
    model = adapted("llama")
    with model.disable_adapter():
        assert model.init_continuous_batching(GenerationConfig(max_new_tokens=2, eos_token_id=2)) is not None
