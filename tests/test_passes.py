"""Passes of a training step that end behind the reading: what they run, what they train, what they leave behind."""

from __future__ import annotations

import pytest
import torch
from tiny_training import WARNINGS, igc_model, trainer

from peft_igc import state
from peft_igc.passes import read_alone


pytestmark = pytest.mark.filterwarnings(*WARNINGS)


def decoder_layers(model):
    """The base model's layers."""
    return [module for module in model.modules() if type(module).__name__.endswith("DecoderLayer")]


def batch_of(made):
    """The first batch of a trainer."""
    return next(iter(made.get_train_dataloader()))


def test_one_step_in_three_runs_the_layers_above(tmp_path):
    made = trainer(tmp_path, igc_writing_every=3, max_steps=4)
    last = decoder_layers(made.model)[-1]
    at = []
    last.register_forward_hook(lambda module, args, output: at.append(made.state.global_step))
    made.train()
    assert set(at) == {0, 3}


def test_the_reading_learns_as_in_a_whole_pass_and_the_writing_does_not(tmp_path):
    made = trainer(tmp_path)
    model = made.model.train()
    batch = batch_of(made)
    reading = {name: p for name, p in model.named_parameters() if "input_mapping" in name}
    report = read_alone(model, batch)
    report.loss.backward()
    alone = {name: p.grad.clone() for name, p in reading.items()}
    assert all(p.grad is None for name, p in model.named_parameters() if "output_mapping" in name)
    model.zero_grad()
    keys = [name for name in batch if name != "labels"]
    whole = model(**{name: batch[name] for name in keys})
    assert torch.equal(whole.igc_loss, report.loss)
    assert torch.equal(whole.igc_count, report.count)
    whole.igc_loss.backward()
    for name, p in reading.items():
        torch.testing.assert_close(p.grad, alone[name])


def test_only_the_reading_changes_in_a_step_of_its_own(tmp_path):
    model = igc_model()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    made = trainer(tmp_path, model=model, igc_writing_every=2, max_steps=2, learning_rate=1e-2)
    made.state.global_step = 1
    loss = made.compute_loss(model.train(), batch_of(made))
    loss.backward()
    made.create_optimizer().step()
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert changed
    assert all("input_mapping" in name for name in changed)


def test_nothing_of_a_pass_that_ended_early_is_left(tmp_path):
    made = trainer(tmp_path)
    batch = batch_of(made)
    read_alone(made.model.train(), batch)
    assert not state.thread.calls
    assert not state.thread.reading_alone
    assert made.model.eval()(input_ids=batch["input_ids"]).logits.isfinite().all()


def test_a_model_whose_calculator_is_off_is_refused(tmp_path):
    made = trainer(tmp_path)
    batch = batch_of(made)
    with made.model.disable_adapter(), pytest.raises(ValueError, match="No IGC adapter is switched on.*every=1"):
        read_alone(made.model, batch)


def test_a_wrapped_model_is_refused(tmp_path):
    made = trainer(tmp_path)
    wrapped = torch.nn.Sequential(made.model)  # as DDP, FSDP and DeepSpeed do, each with a class of its own
    with pytest.raises(ValueError, match="`igc_writing_every` above 1.*wrapped in `Sequential`.*Set it to 1"):
        read_alone(wrapped, batch_of(made))


@pytest.mark.parametrize("every", [0, -3])
def test_a_step_of_none_is_refused(tmp_path, every):
    with pytest.raises(ValueError, match=f"`igc_writing_every={every}` is not at least 1"):
        trainer(tmp_path, igc_writing_every=every)


def test_the_gate_is_logged_over_the_steps_that_wrote(tmp_path):
    def gate(folder, every):
        made = trainer(folder, igc_writing_every=every, max_steps=every, logging_steps=every)
        made.train()
        return next(entry["igc/gate_mean"] for entry in made.state.log_history if "igc/gate_mean" in entry)

    assert gate(tmp_path / "some", 2) == pytest.approx(gate(tmp_path / "all", 1))
