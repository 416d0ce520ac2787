"""Promises of the head at labels only: fewer positions are scored, and nothing else is different."""

import pytest
import torch
from tiny_models import ARCHITECTURES, tiny_model
from tiny_training import NESTED, beside_lora, igc_model, rows, tokenizer, trainer
from trl.kernels import ChunkedLogProbFunction
from trl.trainer import utils
from trl.trainer.utils import add_fused_lm_head

from peft_igc import IGCConfig
from peft_igc.trainer import trainer as module
from peft_igc.trainer.labels_only import score_labels_only
from peft_igc.trainer.trainer import BaselineTrainer


pytestmark = pytest.mark.filterwarnings(*NESTED)

FIELDS = ("log_probs", "entropy", "is_top1", "label_mask")
SGD = {"optim": "sgd", "learning_rate": 1e-2, "lr_scheduler_type": "constant", "max_grad_norm": 0.0}


def token_interface():
    sizes = {"num_digits": 4, "reading_dim": 32, "reading_ffn": 64, "num_heads": 4, "writing_ffn": 64, "gate_dim": 16}
    return IGCConfig.from_tokenizer(tokenizer(), anchors=["prompt_end"], **sizes)


CASES = {
    "hidden interface": (igc_model, {}),
    "token interface": (lambda: tiny_model("llama"), {"peft_config": token_interface}),
    "LoRA beside it": (lambda: beside_lora("adder"), {}),
    "accumulation": (igc_model, {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 2}),
    "checkpointing": (igc_model, {"gradient_checkpointing": True}),
    "dynamic fine-tuning": (igc_model, {"loss_type": "dft"}),
    "bfloat16": (igc_model, {"bf16": True}),
}


def trained(tmp_path, case):
    """Losses and weights after two steps, with an evaluation."""
    model, options = CASES[case]
    options = {**options, **({"peft_config": options["peft_config"]()} if "peft_config" in options else {})}
    torch.manual_seed(0)
    made = trainer(tmp_path, rows(16), model(), **SGD, **options)
    made.train()
    losses = [(log["loss"], log["entropy"], log["mean_token_accuracy"]) for log in made.state.log_history[:-1]]
    return losses, {name: p.detach().clone() for name, p in made.model.named_parameters() if p.requires_grad}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_losses_and_updates_are_those_of_the_head_at_all_positions(tmp_path, monkeypatch, case):
    losses, weights = trained(tmp_path, case)
    monkeypatch.setattr(module, "score_labels_only", lambda model: None)
    all_losses, all_weights = trained(tmp_path, case)
    for one, other in zip(losses, all_losses, strict=True):
        assert one == pytest.approx(other, rel=1e-5)
    assert weights.keys() == all_weights.keys()
    close = {"rtol": 1e-3, "atol": 1e-5} if case == "bfloat16" else {"rtol": 1e-5, "atol": 1e-7}
    for name, value in weights.items():
        torch.testing.assert_close(value, all_weights[name], **close, msg=lambda text, name=name: f"{name}: {text}")


def scored(monkeypatch):
    """The number of positions in each call of the head."""
    counts = []

    class Spy(ChunkedLogProbFunction):
        @staticmethod
        def forward(ctx, hidden, *rest):
            counts.append(hidden.shape[0])
            return ChunkedLogProbFunction.forward(ctx, hidden, *rest)

    monkeypatch.setattr(utils, "_ChunkedLogProbFunction", Spy)
    return counts


def test_only_positions_with_a_label_are_scored_in_training_and_evaluation(tmp_path, monkeypatch):
    counts = scored(monkeypatch)
    made = trainer(tmp_path, max_steps=1)
    labels = next(iter(made.get_train_dataloader()))["labels"]
    made.train()
    assert counts == [int((labels != -100).sum())]
    made.evaluate(made.train_dataset)
    assert counts[1:] == [sum(label != -100 for row in made.train_dataset["labels"] for label in row)]
    made = trainer(tmp_path, model=tiny_model("llama"), cls=BaselineTrainer, max_steps=1)  # as TRL does it
    labels = next(iter(made.get_train_dataloader()))["labels"]
    counts.clear()
    made.train()
    assert counts == [labels[:, 1:].numel()]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_gives_the_same_fields_in_their_usual_shape(arch):
    model = tiny_model(arch)
    add_fused_lm_head(model, outputs=("log_probs", "entropy", "is_top1"))
    ids = torch.randint(3, 128, (3, 12), generator=torch.Generator().manual_seed(0))
    labels = torch.where(torch.rand(ids.shape, generator=torch.Generator().manual_seed(1)) < 0.3, ids, -100)
    labels[2] = -100
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels, "fused_lm_head": True}
    whole = model(**batch)
    score_labels_only(model)
    found = model(**batch)
    assert found.loss.item() == pytest.approx(whole.loss.item(), rel=1e-6)
    for name in FIELDS:
        assert found[name].shape == whole[name].shape == (3, 11)
        torch.testing.assert_close(found[name], whole[name], rtol=1e-5, atol=1e-6)
    assert not model.base_model._forward_hooks
