"""Promises of rows with nothing to write: they run no later layers, and the weights learn the same."""

import pytest
import torch
from checks import igc_layers
from peft import get_peft_model
from tiny_models import RandomConfig, small_config, tiny_model
from tiny_training import NESTED, WARNINGS, beside_lora, igc_model, rows, tokenizer, trainer

from peft_igc.numbers.calculator import Status
from peft_igc.trainer.reading_only import only_calculators_train, silent_rows, split
from peft_igc.trainer.trainer import IGCTrainer
from peft_igc.tuner.call import observing
from peft_igc.tuner.steps import Writing


pytestmark = [pytest.mark.filterwarnings(warning) for warning in (*WARNINGS, *NESTED)]

def decoder_layers(model):
    """The base model's layers."""
    return [module for module in model.modules() if type(module).__name__.endswith("DecoderLayer")]


def batch_of(made):
    """The first batch of a trainer."""
    return next(iter(made.get_train_dataloader()))


OK, NONE = int(Status.OK), int(Status.NONE)


def token_interface():
    sizes = {"num_digits": 4, "reading_dim": 32, "reading_ffn": 64, "num_heads": 4, "writing_ffn": 64, "gate_dim": 16}
    config = RandomConfig.from_tokenizer(tokenizer(), anchors=["prompt_end"], **sizes)
    model = get_peft_model(tiny_model("llama"), config)
    # Fresh biases are zero, which makes two numbers equally probable operands: rounding, which depends on the batch
    # size, would decide which of them is marked.
    for weight in igc_layers(model)[0].igc_input_mapping["default"].relative.parameters():
        torch.nn.init.normal_(weight)
    return {"model": model}


def mixed(n=8):
    """Sums, and longer texts that ask for nothing; every third row is not supervised."""
    made = rows(n, unsupervised=tuple(range(2, n, 3)))
    for row in made[1::3]:
        row.update(prompt=f"say {row['prompt']} then rest:", igc_operator="none", igc_operands=None, igc_result=None)
    return made


# ------------------------------------------------------------------------------------------ which rows
def test_a_row_is_silent_without_a_label_or_if_all_its_anchors_are_refused():
    labels = torch.tensor([[-100, 5], [5, -100], [-100, 5], [-100, 5], [-100, 5], [-100, 5]])
    inputs = {
        "labels": labels,  # the label of the first token is never scored
        "igc_anchors": torch.tensor([[0, -1], [0, -1], [0, 1], [0, 1], [0, -1], [-1, -1]]),
        "igc_operator": torch.tensor([[0, -100], [0, -100], [4, 4], [4, 0], [-100, -100], [-100, -100]]),
        "igc_result_status": torch.tensor([[OK, NONE]] * 2 + [[NONE, NONE], [NONE, OK]] + [[NONE, NONE]] * 2),
    }
    assert silent_rows(inputs, small_config()).tolist() == [False, True, True, False, False, True]
    assert silent_rows(inputs, small_config(teacher_forcing=False)).tolist()[2:] == [False] * 4


def test_parts_hold_their_rows_without_padding_that_all_of_them_have():
    inputs = {
        "input_ids": torch.arange(12).reshape(3, 4),
        "attention_mask": torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]]),
        "labels": torch.arange(12).reshape(3, 4),
        "igc_anchors": torch.tensor([[1], [2], [2]]),
        "use_cache": False,
    }
    whole, silent = split(inputs, torch.tensor([True, False, True]))
    assert whole["input_ids"].tolist() == [[4, 5, 6, 7]]
    assert silent["input_ids"].tolist() == silent["labels"].tolist() == [[0, 1, 2], [8, 9, 10]]
    assert silent["igc_anchors"].tolist() == [[1], [2]]
    assert silent["use_cache"] is False
    assert split(inputs, torch.tensor([False] * 3))[1] is None
    assert split(inputs, torch.tensor([True] * 3))[0] is None


def test_what_is_trained_is_seen_by_its_parameters():
    assert only_calculators_train(igc_model())
    model = beside_lora("adder")
    for name, p in model.named_parameters():
        p.requires_grad_("lora_" in name or "igc_" in name)
    assert not only_calculators_train(model)
    model = igc_model()
    next(model.parameters()).requires_grad_(True)
    assert not only_calculators_train(model)


# ------------------------------------------------------------------------------------------ equal gradients
def gradients(made, batch):
    """The loss of a batch, its gradients, and the metrics; 40 labels in the accumulation window."""
    model = made.model.train()
    model.zero_grad()
    made._metrics["train"].clear()
    made._total_train_tokens = 0
    loss = made.compute_loss(model, dict(batch), num_items_in_batch=torch.tensor(40))
    loss.backward()
    # Not `igc/gate_mean`, whose mean is also over the padding after an anchor, of which there is less.
    compared = ("igc/loss_read", "igc/read_accuracy", "num_tokens")
    metrics = {name: values[-1] for name, values in made._metrics["train"].items() if name in compared}
    assert len(metrics) >= 2
    return loss.item(), {name: p.grad for name, p in model.named_parameters() if p.requires_grad}, metrics


def assert_same(one, other, close=1e-6):
    assert one[1].keys() == other[1].keys()
    for name, grad in one[1].items():
        assert (grad is None) == (other[1][name] is None), name
        said = {"msg": lambda text, name=name: f"{name}: {text}"}
        torch.testing.assert_close(grad, other[1][name], rtol=1e-4, atol=close, **said)
    assert one[2] == pytest.approx(other[2], rel=1e-5)


MODELS = {"hidden": lambda: {"model": igc_model(init_weights=False)}, "tokens": token_interface}


@pytest.mark.parametrize("interface", MODELS)
def test_rows_without_labels_leave_loss_and_gradients_as_they_are(tmp_path, monkeypatch, interface):
    made = trainer(tmp_path, rows(8), per_device_train_batch_size=8, **MODELS[interface]())
    batch = batch_of(made)
    batch["labels"][1] = -100
    batch["labels"][3:5] = -100
    found = gradients(made, batch)
    assert len(passes(made, batch)) == 5
    monkeypatch.setattr(made, "_parts", lambda model, inputs, *more: (inputs, None))
    full = gradients(made, batch)
    assert found[0] == pytest.approx(full[0], rel=1e-6)
    assert any(grad.abs().max() > 0 for name, grad in full[1].items() if "output_mapping" in name)
    assert_same(found, full)


@pytest.mark.parametrize("interface", MODELS)
def test_refusals_are_skipped_with_the_same_gradients_and_a_loss_of_the_other_rows(tmp_path, monkeypatch, interface):
    made = trainer(tmp_path, mixed(), per_device_train_batch_size=8, **MODELS[interface]())
    batch = batch_of(made)
    found = gradients(made, batch)
    refused = batch["igc_operator"][:, 0] == 4
    assert len(passes(made, batch)) == int((~refused).sum()) == 5
    monkeypatch.setattr(made, "_parts", lambda model, inputs, *more: (inputs, None))
    full = gradients(made, batch)
    assert_same(found, full)
    assert found[0] < full[0]
    batch["labels"] = batch["labels"].masked_fill(refused[:, None], -100)
    assert found[0] == pytest.approx(gradients(made, batch)[0], rel=1e-6)


def test_a_batch_of_refusals_alone_leaves_zero_gradients_as_a_whole_pass_does(tmp_path, monkeypatch):
    made = trainer(tmp_path, mixed(24)[1::3], per_device_train_batch_size=8)
    batch = batch_of(made)
    found = gradients(made, batch)
    assert passes(made, batch) == []
    assert all(grad.abs().max() == 0 for name, grad in found[1].items() if "output_mapping" in name)
    monkeypatch.setattr(made, "_parts", lambda model, inputs, *more: (inputs, None))
    assert_same(found, gradients(made, batch))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 2}])
def test_a_run_ends_with_the_same_weights(tmp_path, monkeypatch, options):
    # With AdamW: Muon enlarges the smallest directions of a gradient, which are rounding errors in such a small model.
    def weights(**more):
        options = {"max_steps": 4, "weight_decay": 0.1, **more}
        made = trainer(tmp_path, mixed(16), igc_model(init_weights=False), adam_epsilon=1e-3, **options)
        made.train()
        return dict(made.model.named_parameters()), made.state.log_history

    found, logs = weights(**options)
    monkeypatch.setattr(IGCTrainer, "_parts", lambda self, model, inputs, *more: (inputs, None))
    full, full_logs = weights(**options)
    for name, value in full.items():
        said = {"msg": lambda text, name=name: f"{name}: {text}"}
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=2e-5, **said)
    for name in ("igc/loss_read", "igc/read_accuracy", "num_tokens"):
        assert [log[name] for log in logs[:-1]] == pytest.approx([log[name] for log in full_logs[:-1]], rel=1e-3)


# ------------------------------------------------------------------------------------------ what runs
def passes(made, batch):
    """The rows that the last decoder layer sees in a training step, as a list of their number."""
    seen = []
    handle = decoder_layers(made.model)[-1].register_forward_pre_hook(
        lambda layer, args, kwargs: seen.append(args[0].shape[0]), with_kwargs=True
    )
    made.compute_loss(made.model.train(), dict(batch), num_items_in_batch=torch.tensor(40))
    handle.remove()
    return [None] * sum(seen)


def test_nothing_is_written_in_the_rows_that_are_skipped(tmp_path):
    made = trainer(tmp_path, mixed(), per_device_train_batch_size=8)
    batch = batch_of(made)
    silent = silent_rows(batch, small_config())
    events = []
    with observing(events.append):
        made.model.train()(**{name: x for name, x in batch.items() if name != "labels"})
    (writing,) = [event for event in events if isinstance(event, Writing)]
    assert silent.sum() == 3
    assert not writing.active[silent].any()
    assert writing.active.any()


CASES = {
    "a LoRA beside it": ({}, lambda: beside_lora("adder")),
    "teacher forcing off": ({}, lambda: igc_model(teacher_forcing=False)),
}


@pytest.mark.parametrize("case", CASES)
def test_all_rows_run_where_their_loss_may_teach_something(tmp_path, case):
    options, model = CASES[case]
    made = trainer(tmp_path, mixed(), model(), per_device_train_batch_size=8, **options)
    assert len(passes(made, batch_of(made))) == 8


def test_all_rows_run_in_an_evaluation_and_where_losses_are_means(tmp_path):
    made = trainer(tmp_path, mixed(), per_device_train_batch_size=8)
    batch, model = batch_of(made), made.model
    for training, returned, items in ((False, False, 40), (True, True, 40), (True, False, None)):
        model.train(training)
        assert made._parts(model, batch, returned, items)[1] is None
    model.train()
    assert made._parts(model, batch, False, 40)[1] is not None
    assert made._parts(torch.nn.Sequential(model), batch, False, 40)[1] is None  # wrapped, as by DDP
    for name, value in (("aux_loss_enabled", True), ("compute_loss_func", len), ("label_smoother", len)):
        before = getattr(made, name)
        setattr(made, name, value)
        assert made._parts(model, batch, False, 40)[1] is None
        setattr(made, name, before)
