"""Trainers that know nothing of the calculator: what they train of it, with what they hand to the model.

All of them mask the prompt in the labels, so that a prompt's end is an anchor in their passes as in `generate`. None
but transformers' `Trainer`, with our collator, hands over operands: with the others the reading stays as it is.
"""

import copy

import pytest
import torch
import transformers
import trl
from datasets import Dataset
from tiny_models import small_config, tiny_model
from tiny_training import WARNINGS, igc_model, rows, tokenizer, trainer

from peft_igc.tuner.hooks import active_config
from tests.trainer.test_trainer_invariants import weights


pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]

SMALL = {
    "use_cpu": True,
    "learning_rate": 1e-2,
    "max_steps": 2,
    "per_device_train_batch_size": 4,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
}
PLAIN = {**SMALL, "bf16": False, "gradient_checkpointing": False}


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


# ------------------------------------------------------------------------------------------ transformers
def test_a_plain_trainer_with_operand_columns_trains_reading_and_writing(tmp_path):
    ours = trainer(tmp_path)
    args = transformers.TrainingArguments(str(tmp_path), remove_unused_columns=False, **SMALL)
    plain = transformers.Trainer(ours.model, args, ours.data_collator, ours.train_dataset)
    before = weights(plain.model)
    plain.train()
    names = moved(plain, before)
    adapter = {name for name in before if ".igc." in name}
    assert len(names) > 0.9 * len(adapter)
    assert names <= adapter


def test_a_plain_trainer_without_operand_columns_trains_the_writing(tmp_path):
    ours = trainer(tmp_path, model=model_that_reads())
    keys = ("input_ids", "attention_mask", "labels")

    def collate(examples):
        batch = ours.data_collator(examples)
        return {key: batch[key] for key in keys}

    args = transformers.TrainingArguments(str(tmp_path), remove_unused_columns=False, **SMALL)
    plain = transformers.Trainer(ours.model, args, collate, ours.train_dataset)
    before = weights(plain.model)
    plain.train()
    assert_the_writing_alone_learned(moved(plain, before), before)


# ------------------------------------------------------------------------------------------ TRL
PREFERENCES = Dataset.from_list(
    [{"prompt": r["prompt"], "chosen": r["completion"], "rejected": r["completion"][::-1] + "0"} for r in rows(8)]
)


def dpo(folder, model, **more):
    args = trl.DPOConfig(str(folder), **PLAIN)
    return trl.DPOTrainer(model, args=args, train_dataset=PREFERENCES, processing_class=tokenizer(), **more)


def test_preference_optimisation_trains_the_writing(tmp_path):
    made = dpo(tmp_path, model_that_reads())
    before = weights(made.model)
    made.train()
    assert_the_writing_alone_learned(moved(made, before), before)


def test_the_reference_of_preference_optimisation_is_the_adapter_as_it_was(tmp_path):
    # TRL keeps a copy of the adapter under the name "ref" and switches between the two.
    model = model_that_reads()
    twin = copy.deepcopy(model)
    made = dpo(tmp_path, model)
    ids = torch.tensor([[6, 7, 8, 9, 10]])
    labels = torch.tensor([[-100, -100, 8, 9, 10]])
    made.train()
    made.model.eval()
    with torch.no_grad():
        expected = twin.eval()(input_ids=ids, labels=labels).logits
        assert not torch.equal(made.model(input_ids=ids, labels=labels).logits, expected)
        made.model.set_adapter("ref")
        assert torch.equal(made.model(input_ids=ids, labels=labels).logits, expected)


def test_a_fresh_adapter_has_the_base_model_for_its_reference(tmp_path):
    made = dpo(tmp_path, tiny_model("llama"), peft_config=small_config(init_weights=True))
    made.train()
    # an untrained calculator changes nothing, so at first both are the same model: the loss is log 2
    assert made.state.log_history[0]["loss"] == pytest.approx(0.6931, abs=1e-3)


def reward(completions, **_):
    """Digits are good."""
    return [sum(character.isdigit() for character in text) / 4 + len(set(text)) / 10 for text in completions]


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_policy_optimisation_trains_the_writing(tmp_path, beta):
    args = trl.GRPOConfig(
        str(tmp_path), num_generations=4, max_completion_length=6, beta=beta, temperature=1.0, **PLAIN
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


def test_a_pass_of_policy_optimisation_gives_what_generation_gave(tmp_path):
    """The log probabilities that GRPO trains on are those of the text as it was generated: the anchor is the same."""
    model = model_that_reads().eval()
    prompt = tokenizer()(["12+30=", "5+9="], padding=True, padding_side="left", return_tensors="pt")
    out = model.generate(
        **{key: prompt[key] for key in ("input_ids", "attention_mask")},
        max_new_tokens=5,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    width = prompt["input_ids"].shape[1]
    mask = torch.cat([prompt["attention_mask"], torch.ones(2, 5, dtype=torch.int64)], 1)
    labels = out.sequences.masked_fill(mask == 0, -100)
    labels[:, :width] = -100
    with torch.no_grad():
        logits = model(input_ids=out.sequences, attention_mask=mask, labels=labels).logits[:, width - 1 : -1]
    torch.testing.assert_close(logits, torch.stack(out.logits, 1), atol=1e-4, rtol=1e-4)
