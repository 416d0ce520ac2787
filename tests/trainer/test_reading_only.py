"""Training steps that end after the reading: what they run, what they train, what they leave behind."""

from __future__ import annotations

import re

import pytest
import torch
from datasets import Dataset
from tiny_models import tiny_model
from tiny_training import NESTED, igc_model, rows, trainer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from peft_igc.trainer import batches
from peft_igc.trainer.reading_only import KeptOutputs, read_alone
from peft_igc.trainer.trainer import BaselineTrainer
from peft_igc.tuner.base_model import decoder_layers
from tests.trainer.test_collator import first_batch


pytestmark = pytest.mark.filterwarnings(*NESTED)


def test_one_step_in_three_runs_the_layers_above(tmp_path):
    made = trainer(tmp_path, igc_writing_every=3, max_steps=4)
    last = decoder_layers(made.model)[1][-1]
    at = []
    last.register_forward_hook(lambda module, args, output: at.append(made.state.global_step))
    made.train()
    assert set(at) == {0, 3}


@pytest.mark.parametrize("arch", ["llama", "bloom"])
@pytest.mark.parametrize("read_from", [[0], [0, 1]])
def test_the_reading_learns_as_in_a_whole_pass_and_no_layer_above_it_runs(tmp_path, arch, read_from):
    made = trainer(tmp_path, model=igc_model(arch=arch, layer=2, read_from=read_from))
    model, batch = made.model.train(), first_batch(made)
    reading = {name: p for name, p in model.named_parameters() if "input_mapping" in name}
    keys = [name for name in batch if name != "labels"]
    whole = model(**{name: batch[name] for name in keys})
    whole.igc_loss.backward()
    wanted = {name: p.grad.clone() for name, p in reading.items()}
    model.zero_grad()
    ran = []
    layers = next(module for module in model.modules() if isinstance(module, torch.nn.ModuleList) and len(module) == 3)
    for index, layer in enumerate(layers):
        layer.register_forward_pre_hook(lambda *_, index=index: ran.append(index))
    report = read_alone(model, batch)
    assert ran == list(range(read_from[-1] + 1))
    assert torch.equal(whole.igc_loss, report.loss)
    assert torch.equal(whole.igc_count, report.count)
    report.loss.backward()
    assert all(p.grad is None for name, p in model.named_parameters() if "output_mapping" in name)
    for name, p in reading.items():
        torch.testing.assert_close(p.grad, wanted[name])


def test_a_model_that_is_wrapped_or_whose_calculator_is_off_is_refused(tmp_path):
    made = trainer(tmp_path)
    batch = first_batch(made)
    message = "No IGC adapter is active.*Leave `igc_writing_every`"
    with made.model.disable_adapter(), pytest.raises(ValueError, match=message):
        read_alone(made.model, batch)
    wrapped = torch.nn.Sequential(made.model)  # as DDP, FSDP and DeepSpeed do, each with a class of its own
    with pytest.raises(ValueError, match="`igc_writing_every` above 1.*wrapped in `Sequential`.*Leave both out"):
        read_alone(wrapped, batch)


ALONE = [("igc_writing_every", 2), ("igc_writing", {"steps": 1})]


def told(name, value):
    return re.escape(f"`{name}={value}` trains")


@pytest.mark.parametrize(("name", "value"), ALONE)
def test_reading_alone_is_refused_where_it_could_learn_nothing(tmp_path, name, value):
    data = Dataset.from_list([{"prompt": r["prompt"], "completion": r["completion"]} for r in rows(4)])
    with pytest.raises(ValueError, match=f"{told(name, value)} .* the training rows have no operands"):
        trainer(tmp_path, data, **{name: value})
    with pytest.raises(ValueError, match=f"{told(name, value)} .* but the model has no IGC adapter"):
        trainer(tmp_path, model=tiny_model("llama"), cls=BaselineTrainer, **{name: value})
    with pytest.raises(ValueError, match=f"{told(name, value)} .* but with `igc_loss_weight=0` it learns nothing"):
        trainer(tmp_path, igc_loss_weight=0.0, **{name: value})


@pytest.mark.parametrize(("name", "value"), ALONE)
def test_a_collator_of_ones_own_that_makes_no_operands_is_refused_at_the_first_such_step(tmp_path, name, value):
    made = trainer(tmp_path, data_collator=DataCollatorForLanguageModeling(pad_token_id=0), **{name: value})
    made.data_collator = DataCollatorForLanguageModeling(pad_token_id=0)
    with pytest.raises(ValueError, match=f"{told(name, value)} .* the training rows have no operands"):
        made.train()


def test_rows_whose_annotations_are_all_empty_are_no_operands(tmp_path, caplog):
    empty = rows(4, unsupervised=(0, 1, 2, 3))
    for name, value in ALONE:
        with pytest.raises(ValueError, match=f"{told(name, value)} .* the training rows have no operands"):
            trainer(tmp_path, empty, **{name: value})
    trainer(tmp_path, empty)
    assert "has no row with an annotation, so the reading is not trained" in caplog.text


STAGES = {"steps": 1, "rows": 8, "batch_size": 4}


def watched(made):
    """A list of the indices of the layers whose attention runs."""
    ran = []
    for index, layer in enumerate(decoder_layers(made.model)[1]):
        layer.self_attn.register_forward_pre_hook(lambda *_, index=index: ran.append(index))
    return ran


def gradients(made, batch, kept):
    made.model.zero_grad()
    read_alone(made.model.train(), batch, kept).loss.backward()
    return {name: p.grad.clone() for name, p in made.model.named_parameters() if p.grad is not None}


def test_a_first_stage_runs_the_frozen_layers_once_per_text(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "BATCHES_AT_ONCE", 1)  # all rows come before the first one comes again
    made = trainer(tmp_path, igc_writing=STAGES, max_steps=6)  # three passes over eight rows, in batches of four
    ran = watched(made)
    made.train_writing = lambda stage: None
    made.train()
    assert ran == [0, 1] * 2


@pytest.mark.parametrize("arch", ["llama", "bloom"])
@pytest.mark.parametrize("read_from", [None, [0, 2]])
def test_a_later_pass_trains_the_reading_as_the_first_and_nearly_as_one_that_runs(tmp_path, arch, read_from):
    made = trainer(tmp_path, model=igc_model(arch=arch, layer=2, read_from=read_from))
    kept, batch = KeptOutputs(made.model), first_batch(made)
    plain, first, later = (gradients(made, batch, one) for one in (None, kept, kept))
    assert plain.keys() == first.keys() == later.keys()
    assert all(torch.equal(later[name], gradient) for name, gradient in first.items())
    apart = sum((gradient - plain[name]).square().sum() for name, gradient in first.items())
    assert apart < 1e-3 * sum(gradient.square().sum() for gradient in plain.values())


def test_a_text_is_known_in_another_batch_with_other_padding(tmp_path):
    made = trainer(tmp_path)
    kept, (first, second) = KeptOutputs(made.model), list(made.get_train_dataloader())
    for batch in (first, second):
        read_alone(made.model.train(), batch, kept)
    ran = watched(made)
    padded = torch.nn.functional.pad
    batch = {name: value[:2] for name, value in second.items()}
    wider = {name: padded(batch[name], (0, 3)) for name in ("input_ids", "attention_mask")}
    read_alone(made.model, batch | wider, kept)
    assert ran == []


def test_what_all_texts_begin_with_runs_once(tmp_path):
    made = trainer(tmp_path)
    kept, tokens = KeptOutputs(made.model), []
    decoder_layers(made.model)[1][0].register_forward_pre_hook(
        lambda _, args: tokens.append(args[0].shape[:2].numel())
    )
    beginning = torch.arange(5, 25)
    texts = [torch.cat([beginning, torch.tensor(rest)]) for rest in ([30, 31], [32], [33, 34, 35])]
    together = kept._run(texts)
    assert tokens == [20, 3 * 3]
    for text, found in zip(texts, together, strict=True):
        assert found.shape[1] == len(text)
        torch.testing.assert_close(found.float(), kept._run([text])[0].float(), atol=0.02, rtol=0.02)
        with made.model.disable_adapter():
            states = made.model(text[None], output_hidden_states=True).hidden_states[kept.read[-1] + 1]
        torch.testing.assert_close(found[-1].float(), states[0].float(), atol=0.02, rtol=0.02)
