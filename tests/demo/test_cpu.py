"""Promises of `training`: training is faster and nothing else is different."""

import pytest
import torch
from tiny_training import trainer
from trl.kernels import ChunkedLogProbFunction
from trl.trainer import utils

from peft_igc.demo import training as cpu
from peft_igc.demo.training import computes_bf16, head_at_labels_only


def test_a_head_at_labels_only_gives_the_same_loss_and_gradients(tmp_path):
    def gradients():
        made = trainer(tmp_path, gradient_checkpointing=None, activation_checkpointing=False)
        made.train()
        return made.state.log_history[0]["loss"], [p.detach() for p in made.model.parameters() if p.requires_grad]

    loss, weights = gradients()
    with head_at_labels_only():
        compact_loss, compact = gradients()
    assert compact_loss == pytest.approx(loss, rel=1e-5)
    for a, b in zip(weights, compact, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_head_at_labels_only_is_for_the_training_alone():
    before = utils._use_triton
    seen = []

    def interrupted():
        with head_at_labels_only():
            seen.append(utils._use_triton(torch.device("cpu")))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen == [True]
    assert utils._use_triton is before


def test_a_head_at_labels_only_scores_no_other_position(tmp_path, monkeypatch):
    scored = []

    class Spy(ChunkedLogProbFunction):
        @staticmethod
        def forward(ctx, hidden, *rest):
            scored.append(hidden.shape[0])
            return ChunkedLogProbFunction.forward(ctx, hidden, *rest)

    monkeypatch.setattr(utils, "_ChunkedLogProbFunction", Spy)
    made = trainer(tmp_path, max_steps=1, gradient_checkpointing=None, activation_checkpointing=False)
    labels = next(iter(made.get_train_dataloader()))["labels"]
    with head_at_labels_only():
        made.train()
    assert scored == [int((labels != -100).sum())]


def test_an_unknown_release_of_trl_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(cpu, "version", lambda name: "1.17.0")
    before = utils._use_triton
    with head_at_labels_only():
        assert utils._use_triton is before


def test_processors_without_bf16_are_told_apart(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    for supported in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda supported=supported: supported)
        assert computes_bf16() == supported
