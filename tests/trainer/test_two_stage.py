"""The writing learns from prompts that are read once what it learns from whole passes."""

import copy

import pytest
import torch
from peft import get_peft_model
from tiny_models import RandomConfig
from tiny_training import arguments, trainer, weights
from tiny_training import rows as sums
from transformers import TrainerCallback

from peft_igc import tiny_base
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.mixture import Mixture
from peft_igc.trainer.batches import tokenized
from peft_igc.trainer.collator import IGCDataCollator
from peft_igc.trainer.config import WritingStage
from peft_igc.trainer.progress import Progress
from peft_igc.trainer.two_stage import after_prompts, training_only, writable
from peft_igc.tuner.base_model import decoder_layers


ONLY_RESULTS = Mixture(none=0, overflow=0, undefined=0, inexact=0, sentences=0)


@pytest.fixture(scope="module", params=["tokens", "hidden"])
def trained(request):
    base, tokenizer = tiny_base()
    torch.manual_seed(0)
    sizes = {"reading_dim": 32, "num_heads": 2, "num_digits": 40}
    config = RandomConfig.from_tokenizer(tokenizer, layer=1, interface=request.param, **sizes)
    model = get_peft_model(base, config)
    rows = tokenized(ArithmeticRows(seed=3, num_digits=40, mixture=ONLY_RESULTS).take(12), tokenizer)
    return model, tokenizer, rows


def gradients(model):
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def test_gradients_are_those_of_whole_passes(trained):
    model, tokenizer, rows = trained
    model.train()
    training_only(model, "igc_output_mapping")
    collator = IGCDataCollator(tokenizer.pad_token_id, igc_config=model.peft_config["default"], tokenizer=tokenizer)
    whole = model(**collator(rows), igc_add_loss=False, use_cache=False)
    whole.loss.backward()
    expected = gradients(model)
    batch = after_prompts(model, writable(rows, model.peft_config["default"], 12), tokenizer.pad_token_id)
    loss = model(**batch.inputs, past_key_values=copy.deepcopy(batch.cache), use_cache=True).loss
    loss.backward()
    found = gradients(model)
    assert torch.allclose(loss, whole.loss, atol=1e-5)
    assert found.keys() == expected.keys()
    assert all("igc_output_mapping" in name for name in found)
    for name, gradient in found.items():
        assert torch.allclose(gradient, expected[name], atol=1e-4 * float(expected[name].abs().max() + 1e-3)), name
    assert max(float(g.abs().max()) for g in found.values()) > 1e-3


STAGE = {"steps": 3, "batch_size": 4, "rows": 8, "warmup_steps": 1}
STAGES = {"igc_writing": STAGE, "max_steps": 4}


def moved(model, before):
    return {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}


def test_a_users_own_rows_train_the_reading_and_then_the_writing(tmp_path):
    without = [{**row, "igc_result": None} for row in sums(8)]  # computed, and not clipped
    made = trainer(tmp_path, without, **STAGES, max_grad_norm=0.0)
    start, seen, above = weights(made.model), {}, []
    decoder_layers(made.model)[1][-1].register_forward_hook(lambda *_: above.append(made.state.global_step))

    class Watch(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            seen[state.global_step] = moved(made.model, start)
            if state.global_step == 4:
                seen["read"] = weights(made.model)

    made.add_callback(Watch())
    made.train()
    assert list(seen) == [1, 2, 3, 4, "read", 5, 6, 7]
    assert seen[4]
    assert all("igc_input_mapping" in name for name in seen[4])
    assert min(above) == 4  # the layers above the calculator's ran in the second stage only
    written_in = moved(made.model, seen["read"])
    assert written_in
    assert all("igc_output_mapping" in name for name in written_in)
    assert [entry["step"] for entry in made.state.log_history if "loss" in entry] == [1, 2, 3, 4, 5, 6, 7]
    assert all(p.requires_grad == (".igc." in name) for name, p in made.model.named_parameters())


def test_equal_seeds_give_equal_adapters_and_a_resumed_run_the_same(tmp_path):
    def run(folder, resumed=False, **more):
        made = trainer(folder, **STAGES, save_strategy="steps", save_steps=2, **more)
        made.train(resume_from_checkpoint=str(folder / "checkpoint-2") if resumed else None)
        return weights(made.model)

    one, other = run(tmp_path / "one"), run(tmp_path / "other")
    again = run(tmp_path / "one", resumed=True)
    assert all(torch.equal(one[name], other[name]) and torch.equal(one[name], again[name]) for name in one)


def test_what_is_told_of_a_run_is_what_was_logged_with_the_losses_taken_apart(tmp_path):
    lines = []
    progress = Progress(lines.append)
    made = trainer(tmp_path, callbacks=[progress], igc_loss_weight=0.5)
    made.train()
    logs = [log for log in made.state.log_history if "loss" in log]
    for entry, log in zip(progress.history, logs, strict=True):
        assert entry["loss_lm"] + 0.5 * entry["loss_read"] == pytest.approx(log["loss"], rel=1e-5)
        assert entry["loss_read"] == log["igc/loss_read"]
        assert (entry["read_accuracy"], entry["gate_mean"]) == (log["igc/read_accuracy"], log["igc/gate_mean"])
    assert lines[-1].startswith("step 2/2  loss ")


def test_after_a_time_limit_the_second_stage_is_shorter_in_proportion(tmp_path):
    for saved in ("no", "steps"):  # a checkpoint of the last step, as if SIGTERM had ended it
        progress, kept = Progress(lambda line: None, minutes=1e-9), {"save_strategy": saved, "save_steps": 1}
        made = trainer(tmp_path / saved, **STAGES, **kept, enable_jit_checkpoint=True, callbacks=[progress])
        made.train()
        assert progress.stopped_early
        assert made.state.global_step == 1 + 1
    long = WritingStage(steps=90, rows=300, batch_size=8, covering=100)
    short = long.shortened(1 / 3)
    assert (short.rows, short.steps, short.covering, short.batch_size) == (100, 30, 34, 8)
    assert long.shortened(1) is long


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"igc_writing": {"batch_size": 4}},
            "`igc_writing` {'batch_size': 4} is no mapping of steps, batch_size, .* missing .*'steps'",
        ),
        (
            {"igc_writing": {"step": 4}},
            "`igc_writing` {'step': 4} is no mapping of steps, batch_size, .* unexpected .*'step'",
        ),
        ({"igc_writing": '{"steps": 0}'}, "`steps=0` of `igc_writing` is not at least 1"),
        ({"igc_writing": {**STAGE, "learning_rate": "3e-3"}}, "`learning_rate='3e-3'` of .* YAML reads"),
        ({"igc_writing": {**STAGE, "equal_lengths": "no"}}, "Write true or false"),
        ({"igc_writing": {**STAGE, "covering": 9}}, "`covering=9` of `igc_writing` is not between 0 and `rows=8`"),
        ({"igc_writing": STAGE, "max_steps": -1}, "`igc_writing` needs the number of steps .* Set `max_steps`"),
        ({"igc_writing": STAGE, "igc_writing_every": 2}, "two ways to train the writing"),
        ({**STAGES, "gradient_checkpointing": True}, "`igc_writing` keeps .* Set `activation_checkpointing=False`"),
        ({**STAGES, "activation_checkpointing": True}, "`igc_writing` keeps .* Set `activation_checkpointing=False`"),
    ],
)
def test_settings_of_the_second_stage_that_make_no_sense_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        arguments(tmp_path, **options)


def test_two_stages_train_a_calculator_alone_on_rows_with_results(tmp_path):
    made = trainer(tmp_path, **STAGES)
    decoder_layers(made.model)[1][0].requires_grad_(True)
    with pytest.raises(ValueError, match="`igc_writing` trains the calculator alone"):
        made.train()
    silent = [{**row, "igc_operator": "none", "igc_operands": None, "igc_result": None} for row in sums(8)]
    made = trainer(tmp_path, silent, **STAGES)
    with pytest.raises(ValueError, match="No training row can train the writing in a stage of its own"):
        made.train()
    assert made.state.global_step == 0
    made = trainer(tmp_path, **STAGES)
    made.training_step = None  # as if it were interrupted
    with pytest.raises(TypeError):
        made.train()
    assert all(p.requires_grad == (".igc." in name) for name, p in made.model.named_parameters())
