"""Promises of the paper's ablation: the shortcut past the calculator.

The default is none of them, and is the adapter that it was before there were any.
"""


import pytest
import torch
from checks import (
    adapted,
    assert_as_scored,
    generated,
    igc_layers,
    left_padded,
    scored,
    state_of,
    steps_of,
    targets,
    telling_texts,
    texts,
)
from peft import PeftModel
from tiny_models import tiny_model
from tiny_training import WARNINGS, igc_model, rows, trainer

from peft_igc.numbers.calculator import Status
from peft_igc.numbers.digits import PAD
from peft_igc.trainer.reading_only import read_alone
from peft_igc.tuner.build import SHORTCUT_VECTORS


pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]

VARIANTS = [
    {"shortcut": "beside"},
    {"shortcut": "only"},
]
variants = pytest.mark.parametrize("fields", VARIANTS, ids=lambda f: "-".join(map(str, f.values())))
shortcuts = pytest.mark.parametrize("shortcut", ["beside", "only"])
def mappings_of(model):
    layer = igc_layers(model)[0]
    return layer.igc_input_mapping["default"], layer.igc_output_mapping["default"]


def gradients(model, part=""):
    """Of the adapter's parameters whose names contain `part`; None counts as zero."""
    found = {name: p.grad for name, p in model.named_parameters() if ".igc_" in name and part in name}
    return {name: bool(grad is not None and grad.any()) for name, grad in found.items()}


# ------------------------------------------------------------------------------------------ every variant
@variants
def test_a_saved_variant_comes_back_with_the_same_logits(fields, tmp_path):
    model, ids = adapted(**fields), texts(2, 9)
    model.save_pretrained(tmp_path)
    again = PeftModel.from_pretrained(tiny_model("llama"), tmp_path).eval()
    for name, value in fields.items():
        assert getattr(again.peft_config["default"], name) == value
    assert torch.equal(scored(again, ids, None), scored(model, ids, None))


@variants
def test_two_steps_train_what_should_learn_and_nothing_else(fields, tmp_path):
    made = trainer(tmp_path, rows(8), igc_model(**fields), max_steps=2, weight_decay=0.0)
    before = {name: p.detach().clone() for name, p in made.model.named_parameters()}
    made.train()
    assert all(torch.isfinite(torch.tensor(log["loss"])) for log in made.state.log_history if "loss" in log)
    moved = {name for name, p in made.model.named_parameters() if not torch.equal(p, before[name])}
    assert all(".igc_" in name for name in moved)
    # without an update there is nothing to learn in the writing's first step but its last layer; then all of it
    still = {name.split("_mapping.default.")[1] for name in before if ".igc_" in name and name not in moved}
    heads = {f"{n}_head.{p}" for n in ("digit", "sign", "operator") for p in ("weight", "bias")} | {"digit_bias"}
    assert still == (heads if fields.get("shortcut") == "only" else set())
    read = [log for log in made.state.log_history if "igc/loss_read" in log]
    assert bool(read) == (fields.get("shortcut") != "only")


# ------------------------------------------------------------------------------------------ shortcut
@shortcuts
def test_a_cached_text_with_a_shortcut_equals_starting_over(shortcut):
    model = adapted(shortcut=shortcut)
    found = telling_texts(model, [7, 5]) if shortcut == "beside" else [texts(1, 7)[0], texts(1, 5, seed=1)[0]]
    out = generated(model, **left_padded(found))
    assert_as_scored(model, out, found, [[6], [4]])
    record = state_of(out.past_key_values)
    assert record.steps.shortcut.shape == (2, 1, SHORTCUT_VECTORS, 32)
    assert not record.steps.shortcut.requires_grad


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("shortcut", [None, "beside", "only"])
def test_the_language_loss_reaches_the_reading_through_the_shortcut_alone(shortcut, detach):
    model, ids = adapted(shortcut=shortcut, detach_reading=detach).train(), texts(2, 9)
    labels = ids.clone()
    labels[:, :6] = -100
    out = model(input_ids=ids, labels=labels, igc_add_loss=False, **targets(("+", "12", "34"), ("-", "7", "8")))
    out.loss.backward()
    reached = gradients(model, "igc_input_mapping")
    heads = {name for name in reached if "_head" in name or "digit_bias" in name}
    assert not any(reached[name] for name in heads)
    others = {name for name in reached if name not in heads and "key_map.bias" not in name}
    assert {reached[name] for name in others} == {shortcut is not None}
    assert all(used for name, used in gradients(model, "igc_output_mapping").items() if "key_map.bias" not in name)


def test_only_a_shortcut_never_calculates_and_has_no_reading_loss():
    model, ids = adapted(shortcut="only"), texts(3, 9)
    given = targets(("+", "12", "34"), "none", None)
    step = steps_of(model, ids, torch.tensor([[8], [5], [-1]]))
    assert (step.result.status == Status.NONE).all()
    assert (step.result.digits == PAD).all()
    assert not step.result.sign.any()
    for training in (False, True):
        model.train(training)
        model.zero_grad()
        with_targets = model(input_ids=ids, **given)
        assert (with_targets.igc_loss, with_targets.igc_count, with_targets.igc_correct) == (0, 0, 0)
        assert torch.equal(with_targets.logits, model(input_ids=ids).logits)  # no right result is handed over either
        with_targets.igc_loss.backward()
        assert not any(gradients(model).values())
        assert mappings_of(model)[0].operator_head.weight.grad is not None


def test_the_reading_alone_is_not_trained_where_it_learns_from_the_shortcut_only(tmp_path):
    made = trainer(tmp_path, rows(8), igc_model(shortcut="only"), igc_writing_every=2)
    batch = next(iter(made.get_train_dataloader()))
    with pytest.raises(ValueError, match="`igc_writing_every` above 1 .*train the reading by its own loss.*every=1"):
        read_alone(made.model.train(), batch)
