"""Trainers that know nothing of the calculator: what they train of it, with what they hand to the model.

All of them mask the prompt in the labels, so that a prompt's end is an anchor in their passes as in `generate`. None
but transformers' `Trainer`, with our collator, hands over operands: with the others the reading stays as it is.
"""

import re

import pytest
import torch
import transformers
import trl
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model
from tiny_models import tiny_model
from tiny_training import NESTED, OF_TRANSFORMERS, QUICK, igc_model, rows, tokenizer, trainer, weights
from trl.generation.vllm_generation import VLLMGeneration

from peft_igc.inference.loading import load_base
from peft_igc.trainer.collator import IGCDataCollator
from peft_igc.tuner.base_model import TINY, TINY_ADAPTER_FOLDER
from peft_igc.tuner.hooks.wrapper import active_config


def model_that_reads(seed=0):
    """A tiny model whose calculator says something at every anchor: random weights, no confidence asked for."""
    return igc_model(seed, init_weights=False)


def moved(made, before):
    """Names of the parameters that training has changed, after a check that all are finite."""
    after = weights(made.model)
    assert all(torch.isfinite(p).all() for p in after.values())
    losses = [log["loss"] for log in made.state.log_history if "loss" in log]
    assert len(losses) == 2
    assert all(torch.isfinite(torch.tensor(losses)))
    return {name for name in before if not torch.equal(before[name], after[name])}


def assert_the_writing_alone_learned(names, before):
    writing = {name for name in before if "igc_output_mapping.default" in name}
    assert len(names & writing) > 0.8 * len(writing)
    assert names <= writing


def warned(caplog):
    """What the model itself said about the training."""
    return [record.getMessage() for record in caplog.records if record.name == "peft_igc.tuner.hooks.notices"]


def test_a_collator_of_ones_own_is_not_given_rows_whose_operand_columns_were_removed(tmp_path):
    ours = trainer(tmp_path)
    collator = IGCDataCollator(0, igc_config=active_config(ours.model), tokenizer=tokenizer())
    for args, kind in (
        (transformers.TrainingArguments(str(tmp_path), **OF_TRANSFORMERS), transformers.Trainer),
        (trl.SFTConfig(str(tmp_path), **QUICK), trl.SFTTrainer),
    ):
        made = kind(ours.model, args, collator, ours.train_dataset, processing_class=tokenizer())
        with pytest.raises(ValueError, match="The rows have no operand column, only .*input_ids.*`remove_unused_"):
            made.train()
    collator.needs_columns = False  # on purpose
    made.train()


def loaded(folder):
    """A model whose adapter was loaded for inference."""
    igc_model().save_pretrained(folder)
    return PeftModel.from_pretrained(tiny_model("llama"), folder)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_our_trainer_refuses_to_train_an_adapter_that_was_loaded_for_inference(tmp_path, checkpointing):
    made = trainer(tmp_path, model=loaded(tmp_path / "adapter"), activation_checkpointing=checkpointing)
    with pytest.raises(ValueError, match="No parameter of the model is trained: .* `PeftModel.from_pretrained"):
        made.train()


@pytest.mark.filterwarnings(*NESTED)
def test_our_trainer_trains_a_lora_beside_a_calculator_that_is_frozen(tmp_path, caplog):
    model = get_peft_model(loaded(tmp_path / "adapter"), LoraConfig(target_modules=["q_proj"]), adapter_name="style")
    before = weights(model)
    made = trainer(tmp_path, model=model)
    made.train()
    names = moved(made, before)
    assert names
    assert all("lora_" in name for name in names)
    assert warned(caplog) == []


def test_trls_own_trainer_is_told_at_its_first_step_that_the_reading_learns_nothing(tmp_path, caplog):
    plain = [{"prompt": row["prompt"], "completion": row["completion"]} for row in rows(8)]
    args = trl.SFTConfig(str(tmp_path), **{**QUICK, "max_steps": 1})
    trl.SFTTrainer(igc_model(), args, train_dataset=Dataset.from_list(plain), processing_class=tokenizer()).train()
    (message,) = warned(caplog)
    assert "it learns nothing" in message
    assert "use `IGCTrainer`" in message


PREFERENCES = Dataset.from_list(
    [{"prompt": r["prompt"], "chosen": r["completion"], "rejected": r["completion"][::-1] + "0"} for r in rows(8)]
)


def dpo(folder, model, **more):
    args = trl.DPOConfig(str(folder), **QUICK)
    return trl.DPOTrainer(model, args=args, train_dataset=PREFERENCES, processing_class=tokenizer(), **more)


def test_preference_optimisation_trains_the_writing(tmp_path):
    made = dpo(tmp_path, model_that_reads())
    before = weights(made.model)
    made.train()
    assert_the_writing_alone_learned(moved(made, before), before)


def reward(completions, **_):
    """Digits are good."""
    return [sum(character.isdigit() for character in text) / 4 + len(set(text)) / 10 for text in completions]


def test_policy_optimisation_trains_the_writing(tmp_path):
    args = trl.GRPOConfig(
        str(tmp_path), num_generations=4, max_completion_length=6, beta=0.1, temperature=1.0, **QUICK
    )
    made = trl.GRPOTrainer(
        model_that_reads(),
        reward,
        args=args,
        train_dataset=Dataset.from_list([{"prompt": row["prompt"]} for row in rows(8)]),
        processing_class=tokenizer(),
    )
    before = weights(made.model)
    made.train()
    assert active_config(made.model) is not None
    assert_the_writing_alone_learned(moved(made, before), before)


def test_policy_optimisation_samples_by_continuous_batching(tmp_path):
    args = trl.GRPOConfig(
        str(tmp_path),
        num_generations=4,
        max_completion_length=6,
        use_transformers_continuous_batching=True,
        transformers_continuous_batching_config={"num_blocks": 64, "page_size": 16, "max_batch_tokens": 256},
        **QUICK,
    )
    base, of_base = load_base(TINY)
    model = PeftModel.from_pretrained(base, TINY_ADAPTER_FOLDER, is_trainable=True)
    chats = [[{"role": "user", "content": f"What is {n} plus {n + 3}?"}] for n in range(10, 18)]

    def right(prompts, completions, **_):
        found = [re.search(r"(\d+) plus (\d+)", prompt[0]["content"]) for prompt in prompts]
        sums = [str(int(one[1]) + int(one[2])) for one in found]
        return [float(value in one[0]["content"]) for value, one in zip(sums, completions, strict=True)]

    made = trl.GRPOTrainer(
        model, right, args=args, train_dataset=Dataset.from_list([{"prompt": chat} for chat in chats]),
        processing_class=of_base,
    )  # fmt: skip
    made.train()
    rewards = [log["reward"] for log in made.state.log_history if "reward" in log]
    assert len(rewards) == 2
    assert min(rewards) > 0.7  # the calculator has answered, also after a step that has changed its weights
    assert all(torch.isfinite(p).all() for p in weights(made.model).values())


def test_an_engine_that_the_weights_cannot_reach_is_refused_before_it_starts():
    """As TRL makes it, with `use_vllm`, at the end of its constructor."""
    with pytest.raises(ValueError, match="a calculator cannot be merged. Sample with `use_transformers_continuous_b"):
        VLLMGeneration(model=model_that_reads(), accelerator=None, processing_class=None)
    with pytest.raises(AttributeError, match="NoneType"):  # any other model goes on
        VLLMGeneration(model=tiny_model("llama"), accelerator=None, processing_class=None)
