"""What has to work with every supported version of torch, transformers and PEFT; `make test-versions` runs this file.

Each test goes through code of ours that depends on those versions, on a Llama and a GPT-2 with random weights, or on
the embedded base.
"""

import json
import warnings
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tiny_models import small_config, tiny_model
from transformers import AutoModelForCausalLM

from peft_igc.sft import run as sft
from peft_igc.trainer import IGCSFTConfig


pytestmark = [
    pytest.mark.filterwarnings("ignore:You are trying to modify a model with PEFT for a second time:UserWarning"),
    # transformers 5.23 has another name for it, which 5.16 has not.
    pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False but:UserWarning"),  # PEFT on GPT-2
]

IDS = torch.tensor([[5, 6, 7, 8, 3, 9, 4], [9, 8, 7, 6, 5, 4, 3]])
PROMPT = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS), "max_new_tokens": 6, "do_sample": False}
LOSSES = ("igc_loss", "igc_count", "igc_correct", "igc_gate")


@pytest.fixture(params=["llama", "gpt2"])
def arch(request):
    return request.param


def logits(model):
    with torch.no_grad():
        return model.eval()(input_ids=IDS).logits


def adapted(arch, **fields):
    """A model with a calculator that writes; the base's answer has no end."""
    base = tiny_model(arch)
    base.generation_config.eos_token_id = None
    return get_peft_model(base, small_config(**fields))


def test_an_adapter_is_attached_changes_nothing_at_first_and_leaves_without_a_trace(arch):
    base = tiny_model(arch)
    before, attributes = logits(base), set(vars(base))
    assert torch.equal(logits(get_peft_model(base, small_config(init_weights=True))), before)
    model = get_peft_model(tiny_model(arch), small_config())
    assert not torch.equal(logits(model), before)
    with model.disable_adapter():
        assert torch.equal(logits(model), before)
    left = model.unload()
    assert torch.equal(logits(left), before)
    assert set(vars(left)) == attributes


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_step_of_training_moves_the_adapter_alone(arch, checkpointing):
    model = adapted(arch).train()
    if checkpointing:
        model.base_model.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    digits = torch.tensor([[1, 2, 10, 10, 10], [3, 10, 10, 10, 10]]).expand(2, 1, 2, 5)
    output = model(
        input_ids=IDS,
        labels=IDS.masked_fill(torch.arange(7) < 4, -100),
        igc_operands=digits,
        igc_signs=torch.zeros(2, 1, 2, dtype=torch.int64),
        igc_operator=torch.tensor([[0], [1]]),
        igc_result=torch.tensor([[[9, 10, 10, 10]], [[1, 5, 10, 10]]]),
        igc_result_sign=torch.tensor([[0], [1]]),
        igc_result_status=torch.zeros(2, 1, dtype=torch.int64),
    )
    assert all(getattr(output, name) is not None for name in LOSSES)
    output.loss.backward()
    optimizer.step()
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved
    assert all("igc_" in name for name in moved)


def test_an_adapter_is_saved_and_loaded_by_peft_and_by_transformers(arch, tmp_path):
    tiny_model(arch).save_pretrained(tmp_path)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(tmp_path), small_config())
    expected = logits(model)
    model.save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text().count("import peft_igc") == 1
    assert torch.equal(logits(PeftModel.from_pretrained(tiny_model(arch), tmp_path)), expected)
    base = tiny_model(arch)
    base.load_adapter(str(tmp_path))
    assert torch.equal(logits(base), expected)
    assert torch.equal(logits(AutoModelForCausalLM.from_pretrained(tmp_path)), expected)


def test_a_lora_inside_and_one_outside_are_saved_alone_and_merged(arch, tmp_path):
    config = LoraConfig(target_modules="all-linear", init_lora_weights=False)
    inside = get_peft_model(tiny_model(arch), config, adapter_name="style")
    both = get_peft_model(inside, small_config(), adapter_name="math")
    both.save_pretrained(tmp_path)
    loaded = PeftModel.from_pretrained(tiny_model(arch), tmp_path / "math", adapter_name="math")
    assert set(loaded.peft_config) == {"math", "style"}
    assert torch.equal(logits(loaded), logits(both))
    alone = get_peft_model(tiny_model(arch), small_config(), adapter_name="math")
    outside = PeftModel.from_pretrained(alone, tmp_path / "style", adapter_name="style")
    torch.testing.assert_close(logits(outside.merge_and_unload()), logits(alone))
    assert list(alone.peft_config) == ["math"]


@pytest.mark.parametrize("settings", [{"use_cache": False}, {"cache_implementation": "static"}], ids=str)
def test_texts_are_the_same_however_the_text_is_kept(arch, settings):
    model = adapted(arch)
    expected = model.generate(**PROMPT)
    assert torch.equal(model.generate(**PROMPT, **settings), expected)
    padded = {"input_ids": torch.cat([torch.zeros_like(IDS), IDS], 1), "attention_mask": torch.ones(2, 14)}
    padded["attention_mask"][:, :7] = 0
    assert torch.equal(model.generate(**PROMPT | padded)[:, 7:], expected)


def test_beams_follow_the_cache_and_their_steps_are_returned(arch):
    model = adapted(arch)
    settings = {"num_beams": 3, "num_return_sequences": 2, "return_dict_in_generate": True}
    found = model.generate(**PROMPT, **settings)
    assert torch.equal(model.generate(**PROMPT, **settings, use_cache=False).sequences, found.sequences)
    assert len(found.igc_steps) == 4


def test_a_prompt_cache_is_continued_after_it_was_cropped_and_repeated(arch):
    model = adapted(arch)
    expected = model.generate(**PROMPT)
    kept = model.generate(**PROMPT, return_dict_in_generate=True).past_key_values
    kept.crop(-kept.get_seq_length() + 5 if kept.get_seq_length() > 5 else 0)
    assert kept.get_seq_length() == 5
    assert torch.equal(model.generate(**PROMPT, past_key_values=kept), expected)


@pytest.mark.parametrize(
    "given", [{}, {"activation_checkpointing": False}, {"gradient_checkpointing": False}], ids=str
)
def test_checkpointing_has_both_its_names_without_a_warning(given, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = IGCSFTConfig(str(tmp_path), use_cpu=True, bf16=False, **given)
    assert made.activation_checkpointing == made.gradient_checkpointing == (not given)


def test_a_recipe_of_two_stages_runs_and_none_of_its_settings_is_deprecated(tmp_path, monkeypatch):
    monkeypatch.setattr(sft, "has_default", lambda: False)
    changed = {
        "output_dir": tmp_path,
        "max_steps": 2,
        "per_device_train_batch_size": 2,
        "igc_generated_rows": 8,
        "igc_writing": json.dumps({"rows": 4, "steps": 2, "batch_size": 2}),
        "igc_demonstration": json.dumps({"per_group": 1, "max_new_tokens": 2, "target": 0.0}),
    }
    recipe = Path(__file__).parents[1] / "recipes" / "tiny_tokens.yaml"
    line = [text for name, value in changed.items() for text in (f"--{name}", str(value))]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "`(?!is_).* deprecated")  # PEFT 0.21.2 asks for `is_gradient_checkpointing`
        assert sft.run(["--config", str(recipe), *line]) == 0
    assert (tmp_path / "adapter_model.safetensors").is_file()
