"""Outputs of frozen layers that are computed once per text: what runs, what is trained, what is left behind."""

from __future__ import annotations

import pytest
import torch
from tiny_training import NESTED, WARNINGS, igc_model, trainer

from peft_igc.trainer import batches, reading_only
from peft_igc.trainer.reading_only import KeptOutputs, read_alone
from peft_igc.tuner.base_model import decoder_layers


pytestmark = [pytest.mark.filterwarnings(warning) for warning in (*WARNINGS, *NESTED)]
STAGES = {"steps": 1, "rows": 8, "batch_size": 4}


def watched(made):
    """A list of the indices of the layers whose attention runs."""
    ran = []
    for index, layer in enumerate(decoder_layers(made.model)[1]):
        layer.self_attn.register_forward_pre_hook(lambda *_, index=index: ran.append(index))
    return ran


def batches_of(made):
    return list(made.get_train_dataloader())


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


def test_rows_that_do_not_come_again_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(reading_only.KeptOutputs, "_keep", lambda *_: pytest.fail("kept"))
    made = trainer(tmp_path, igc_writing=STAGES, max_steps=2)
    made.train_writing = lambda stage: None
    made.train()


@pytest.mark.parametrize("arch", ["llama", "bloom"])
@pytest.mark.parametrize("read_from", [None, [0, 2]])
def test_a_later_pass_trains_the_reading_as_the_first_and_nearly_as_one_that_runs(tmp_path, arch, read_from):
    made = trainer(tmp_path, model=igc_model(arch=arch, layer=2, read_from=read_from))
    kept, batch = KeptOutputs(made.model), batches_of(made)[0]
    plain, first, later = (gradients(made, batch, one) for one in (None, kept, kept))
    assert plain.keys() == first.keys() == later.keys()
    assert all(torch.equal(later[name], gradient) for name, gradient in first.items())
    apart = sum((gradient - plain[name]).square().sum() for name, gradient in first.items())
    assert apart < 1e-3 * sum(gradient.square().sum() for gradient in plain.values())


def test_a_text_is_known_in_another_batch_with_other_padding(tmp_path):
    made = trainer(tmp_path)
    kept, (first, second) = KeptOutputs(made.model), batches_of(made)
    for batch in (first, second):
        read_alone(made.model.train(), batch, kept)
    ran = watched(made)
    padded = torch.nn.functional.pad
    batch = {name: value[:2] for name, value in second.items()}
    wider = {name: padded(batch[name], (0, 3)) for name in ("input_ids", "attention_mask")}
    read_alone(made.model, batch | wider, kept)
    assert ran == []


def test_texts_beyond_the_memory_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(reading_only, "MOST_BYTES", 0)
    made = trainer(tmp_path)
    kept, batch, ran = KeptOutputs(made.model), batches_of(made)[0], watched(made)
    for _ in range(2):
        read_alone(made.model.train(), batch, kept)
    assert ran == [0, 1] * 2
    assert not kept.texts


def test_the_layers_are_their_own_after_a_pass(tmp_path):
    made = trainer(tmp_path)
    kept, batch = KeptOutputs(made.model), batches_of(made)[0]
    before = made.model.eval()(input_ids=batch["input_ids"]).logits
    for _ in range(2):
        read_alone(made.model.train(), batch, kept)
    assert all("forward" not in layer.__dict__ for layer in decoder_layers(made.model)[1])
    assert torch.equal(made.model.eval()(input_ids=batch["input_ids"]).logits, before)
