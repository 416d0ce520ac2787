"""The writing learns from prompts that are read once what it learns from whole passes."""

import contextlib
import copy

import pytest
import torch
from peft import get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import WARNINGS, arguments
from tiny_training import tokenizer as characters

from peft_igc import IGCConfig, tiny_base
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.mixture import Mixture
from peft_igc.demo import writing
from peft_igc.demo.batches import tokenized
from peft_igc.demo.writing import after_prompts, train_writing, training_only
from peft_igc.trainer.collator import IGCDataCollator
from peft_igc.trainer.config import IGCSFTConfig
from peft_igc.trainer.number_ends import digit_tokens, divergence
from peft_igc.tuner.base_model import decoder_layers


ONLY_RESULTS = Mixture(none=0, overflow=0, undefined=0, inexact=0, sentences=0)


@pytest.fixture(scope="module", params=["tokens", "hidden"])
def trained(request):
    base, tokenizer = tiny_base()
    torch.manual_seed(0)
    sizes = {"reading_dim": 32, "num_heads": 2, "num_digits": 40, "init_weights": False}
    config = IGCConfig.from_tokenizer(tokenizer, layer=1, interface=request.param, **sizes)
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
    batch = after_prompts(model, rows, tokenizer.pad_token_id)
    loss = model(**batch.inputs, past_key_values=copy.deepcopy(batch.cache), use_cache=True).loss
    loss.backward()
    found = gradients(model)
    assert torch.allclose(loss, whole.loss, atol=1e-5)
    assert found.keys() == expected.keys()
    assert all("igc_output_mapping" in name for name in found)
    for name, gradient in found.items():
        assert torch.allclose(gradient, expected[name], atol=1e-4 * float(expected[name].abs().max() + 1e-3)), name
    assert max(float(g.abs().max()) for g in found.values()) > 1e-3


def test_kept_prompts_are_not_changed_by_a_step(trained):
    model, tokenizer, rows = trained
    model.train()
    batch = after_prompts(model, rows, tokenizer.pad_token_id)
    losses = [
        float(model(**batch.inputs, past_key_values=copy.deepcopy(batch.cache), use_cache=True).loss.detach())
        for _ in range(2)
    ]
    assert losses[0] == losses[1]
    assert batch.cache.get_seq_length() == batch.inputs["attention_mask"].shape[1] - batch.inputs["labels"].shape[1]


def with_open_ends(rows, tokenizer):
    """Rows that end in a number and a point instead of the end of the turn; zeros may follow the point."""
    point = tokenizer(".", add_special_tokens=False)["input_ids"][-1]
    changed = {"open_ends": [False, True]}
    return [
        {**row, **changed, "input_ids": [*row["input_ids"][:-1], point], "labels": [*row["labels"][:-1], -100]}
        for row in rows
    ]


@pytest.fixture
def writes_once():
    base, tokenizer = tiny_base()
    torch.manual_seed(0)
    sizes = {"reading_dim": 32, "num_heads": 2, "num_digits": 40, "init_weights": False}
    model = get_peft_model(base, IGCConfig.from_tokenizer(tokenizer, layer=1, write_again=False, **sizes))
    rows = tokenized(ArithmeticRows(seed=3, num_digits=40, mixture=ONLY_RESULTS).take(5), tokenizer)
    return model, tokenizer, with_open_ends(rows[:3], tokenizer) + rows[3:]


def test_an_open_end_has_the_base_without_digits_as_its_target(writes_once):
    model, tokenizer, rows = writes_once
    batch = after_prompts(model, rows, tokenizer.pad_token_id)
    assert batch.ends.row.tolist() == [0, 0, 1, 1, 2, 2]
    tokens = digit_tokens(model.peft_config["default"].token_table, model.config.vocab_size)
    for index, (row, place) in enumerate(zip(batch.ends.row.tolist(), batch.ends.place.tolist(), strict=True)):
        after_number, ids = index % 2 == 0, rows[row]["input_ids"]
        there = ids[: len(ids) - 1] if after_number else ids
        assert batch.inputs["input_ids"][row, place] == there[-1]
        with torch.no_grad(), model.disable_adapter():
            logits = model(torch.tensor([there])).logits[0, -1].masked_fill(tokens[not after_number], float("-inf"))
        torch.testing.assert_close(batch.ends.target[index].exp(), logits.softmax(-1), atol=1e-4, rtol=1e-3)
    assert after_prompts(model, rows[3:], tokenizer.pad_token_id).ends is None


def test_open_ends_are_trained_beside_the_labels(writes_once, tmp_path):
    model, tokenizer, rows = writes_once
    batch = after_prompts(model, rows, tokenizer.pad_token_id)
    with torch.no_grad():
        output = model(**batch.inputs, past_key_values=copy.deepcopy(batch.cache), use_cache=True)
    labels = batch.inputs["labels"][:, 1:]
    losses = torch.nn.functional.cross_entropy(output.logits[:, :-1].flatten(0, 1), labels.flatten(), reduction="sum")
    there = divergence(output.logits[batch.ends.row, batch.ends.place], batch.ends.target)
    assert there > 0.01
    rates = {"learning_rate": 3e-3, "igc_muon_learning_rate": 1e-2, "warmup_steps": 1}
    args = IGCSFTConfig(str(tmp_path), use_cpu=True, bf16=False, activation_checkpointing=False, **rates)
    sizes = {"steps": 1, "batch_size": 5, "most_rows": 5, "args": args, "seed": 0, "say": lambda _: None}
    log = train_writing(model, rows, tokenizer.pad_token_id, **sizes)
    assert log[0]["loss"] == pytest.approx(float((losses + there) / ((labels != -100).sum() + 6)), rel=1e-3)


def test_open_ends_need_a_calculator_that_knows_digits_and_writes_once(trained):
    model, tokenizer, rows = trained
    with pytest.raises(ValueError, match="`open_ends` need a calculator with the token interface"):
        after_prompts(model, with_open_ends(rows[:2], tokenizer), tokenizer.pad_token_id)


@pytest.mark.filterwarnings(*WARNINGS)
@pytest.mark.parametrize(("arch", "layer"), [("llama", 0), ("llama", 1), ("llama", 2), ("bloom", 2)])
def test_layers_that_no_writing_changes_run_once(arch, layer, tmp_path, monkeypatch):
    def after(once):
        config = small_config(interface="tokens", layer=layer, read_from=[0], num_digits=40, result_digits=40)
        model = get_peft_model(tiny_model(arch), config)
        data = tokenized(ArithmeticRows(seed=3, num_digits=6, mixture=ONLY_RESULTS).take(8), characters())
        ran = []
        for index, block in enumerate(decoder_layers(model)[1]):
            block.mlp.register_forward_hook(lambda *_, index=index: ran.append(index))
        if not once:
            monkeypatch.setattr(writing, "_run_once", lambda *_: contextlib.nullcontext())
        args = arguments(tmp_path, igc_muon_learning_rate=1e-2, warmup_steps=1)
        sizes = {"steps": 6, "batch_size": 4, "most_rows": 8, "every": 1}
        log = train_writing(model, data, 0, args=args, seed=0, say=lambda _: None, **sizes)
        monkeypatch.undo()
        assert not any("forward" in block.__dict__ for block in decoder_layers(model)[1])
        return log, [ran.count(index) for index in range(3)]

    (log, ran), (expected, all_ran) = after(True), after(False)
    assert log == expected
    assert all_ran == [8, 8, 8]  # the prompts of two batches, and six steps
    assert ran == [4 if index <= layer else 8 for index in range(3)]


def test_steps_lower_the_loss_and_leave_the_reading_alone(trained, tmp_path):
    model, tokenizer, rows = trained
    model = copy.deepcopy(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    args = IGCSFTConfig(
        str(tmp_path), learning_rate=3e-3, igc_muon_learning_rate=1e-2, warmup_steps=2, use_cpu=True, bf16=False,
        activation_checkpointing=False,
    )
    said = []
    log = train_writing(
        model, rows, tokenizer.pad_token_id, steps=20, batch_size=6, most_rows=12, args=args, seed=0, say=said.append,
        every=5,
    )  # fmt: skip
    part = {"tokens": 0.5, "hidden": 0.7}[model.peft_config["default"].interface]
    assert log[-1]["loss"] < part * log[0]["loss"]
    assert len(said) == len(log) == 4
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved
    assert all("igc_output_mapping" in name for name in moved)
    assert all(p.requires_grad == ("igc_" in name) for name, p in model.named_parameters())
