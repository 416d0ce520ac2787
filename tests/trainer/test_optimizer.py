"""Promises of the optimizer: who trains what, and that both parts act as one optimizer."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import NESTED, beside_lora, igc_model, rows, trainer, weights
from torch import nn
from transformers import TrainerCallback

from peft_igc.trainer import optimizer as ours
from peft_igc.trainer.config import CALCULATOR_RATE, TRL_RATE
from peft_igc.trainer.optimizer import MuonAdamW, calculator_matrices
from peft_igc.trainer.trainer import BaselineTrainer
from tests.trainer.test_trainer_invariants import reading


pytestmark = pytest.mark.filterwarnings(*NESTED)


def test_muon_gets_the_maps_of_the_calculator_and_no_table_classifier_or_base_weight():
    model = get_peft_model(tiny_model("llama"), small_config())
    names = {id(p): name for name, p in model.named_parameters()}
    chosen = {names[id(p)].split("igc.")[1] for p in calculator_matrices(model)}
    assert "igc_input_mapping.default.compression.weight" in chosen
    assert "igc_output_mapping.default.write_down.weight" in chosen
    assert len(chosen) == 22
    tables = ("head", "slots", "place", "distance", "gate_down")
    assert not [name for name in chosen if any(table in name for table in tables)]


def test_batches_without_annotation_leave_the_reading_as_it_is_after_annotated_ones_too(tmp_path):
    model = igc_model()
    options = {"igc_muon_learning_rate": 0.02, "weight_decay": 0.1, "lr_scheduler_type": "constant", "max_steps": 4}
    data = rows(16, unsupervised=tuple(range(8, 16)))
    made = trainer(tmp_path, data, model, train_sampling_strategy="sequential", **options)
    after = []

    class Watch(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            after.append(reading(weights(model)))

    made.add_callback(Watch())
    made.train()
    assert all(not torch.equal(after[0][name], value) for name, value in after[1].items())
    for later in after[2:]:
        assert [name for name, value in later.items() if not torch.equal(after[1][name], value)] == []


def test_with_muon_the_log_has_the_rates_of_both_parts(tmp_path):
    made = trainer(tmp_path, igc_muon_learning_rate=0.02, learning_rate=0.005, lr_scheduler_type="constant")
    made.train()
    logs = [log for log in made.state.log_history if "learning_rate" in log]
    assert [(log["learning_rate"], log["learning_rate_muon"]) for log in logs] == [(0.005, 0.02)] * 2
    assert "learning_rate_muon" not in made.state.log_history[-1]


def test_training_with_muon_moves_every_weight_and_resumes_bit_for_bit(tmp_path):
    settings = {"igc_muon_learning_rate": 0.02, "max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    whole = trainer(tmp_path / "run", **settings)
    before = weights(whole.model)
    whole.train()
    resumed = trainer(tmp_path / "run", **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    again = dict(resumed.model.named_parameters())
    for name, parameter in whole.model.named_parameters():
        assert torch.equal(parameter, again[name]), name
        if parameter.requires_grad:
            assert not torch.equal(parameter, before[name]), name


def test_the_trainer_hands_on_the_settings_of_adamw_and_decays_what_its_parent_would(tmp_path):
    settings = {"adam_beta1": 0.8, "adam_beta2": 0.7, "adam_epsilon": 1e-4, "weight_decay": 0.05}
    made = trainer(tmp_path, igc_muon_learning_rate=0.02, **settings)
    optimizer = made.create_optimizer()
    assert made.optimizer is optimizer
    assert made.create_optimizer() is optimizer
    muon, *adamw = optimizer.param_groups
    assert (muon["weight_decay"], muon["lr"]) == (0.05, 0.02)
    assert {(group["betas"], group["eps"]) for group in adamw} == {((0.8, 0.7), 1e-4)}
    decayed = made.get_decay_parameter_names(made.model)
    names = {id(p): name for name, p in made.model.named_parameters()}
    given = {names[id(p)]: group["weight_decay"] for group in adamw for p in group["params"]}
    assert given == {name: 0.05 if name in decayed else 0.0 for name in given}
    assert set(given.values()) == {0.05, 0.0}


def _rates(made):
    """The learning rate of every trained parameter, by name."""
    names = {id(p): name for name, p in made.model.named_parameters()}
    groups = made.create_optimizer().param_groups
    found = {names[id(p)]: group["lr"] for group in groups for p in group["params"]}
    assert len(found) == sum(p.requires_grad for p in made.model.parameters())
    return found


@pytest.mark.parametrize(
    ("options", "rate"),
    [
        ({"learning_rate": TRL_RATE}, CALCULATOR_RATE),  # left out
        ({"learning_rate": 5e-3}, 5e-3),
        ({"learning_rate": 5e-3, "igc_learning_rate": 7e-4}, 7e-4),
    ],
)
@pytest.mark.parametrize("muon", [None, 0.02])
def test_the_calculator_has_a_rate_that_teaches_it_and_a_lora_beside_it_its_own(tmp_path, options, rate, muon):
    model = beside_lora("adder")
    for name, p in model.named_parameters():
        p.requires_grad_("lora_" in name or "igc_" in name)
    made = trainer(tmp_path, model=model, igc_muon_learning_rate=muon, **options)
    matrices = {id(p) for p in calculator_matrices(model)} if muon else set()
    values = dict(model.named_parameters())
    for name, found in _rates(made).items():
        expected = muon if id(values[name]) in matrices else rate if "igc_" in name else options["learning_rate"]
        assert found == expected, name


@pytest.mark.parametrize("shape", [(8, 8), (24, 8), (8, 24)])
def test_muon_makes_the_steps_of_torchs_where_bf16_is_fast_and_else_nearly_the_same(monkeypatch, shape):
    torch.manual_seed(0)
    start, gradients = torch.randn(shape), torch.randn(3, *shape)
    settings = {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.9}
    found = {}
    for name, bf16 in (("torch", None), ("bf16", True), ("fp32", False)):
        monkeypatch.setattr(ours, "in_bf16", lambda device, bf16=bf16: bf16)
        weight, still = nn.Parameter(start.clone()), nn.Parameter(torch.eye(4))
        theirs = lambda groups: torch.optim.Muon(groups, adjust_lr_fn="match_rms_adamw")  # noqa: E731
        one = (theirs if bf16 is None else MuonAdamW)([{"params": [weight, still], **settings}])
        for gradient in gradients:
            weight.grad = gradient.clone()
            one.step()
        found[name] = weight.detach()
        assert set(one.state[weight]) == {"momentum_buffer"}
        assert torch.equal(still, torch.eye(4))  # it has no gradient
    assert torch.equal(found["bf16"], found["torch"])
    assert not torch.equal(found["fp32"], found["torch"])
    size = (found["torch"] - start).norm()
    assert (found["fp32"] - found["torch"]).norm() < 0.02 * size


@pytest.mark.parametrize("by_trl", [True, False])
def test_the_calculator_on_a_quantized_base_keeps_its_number_format_and_a_lora_has_trls(tmp_path, by_trl):
    model = get_peft_model(tiny_model("llama"), LoraConfig(target_modules="all-linear"), adapter_name="style")
    base, config = model.get_base_model(), small_config(init_weights=True)
    model = tiny_model("llama") if by_trl else get_peft_model(model, config)
    half = next((p for name, p in model.named_parameters() if "compression" in name), None)
    if half is not None:
        half.data = half.data.bfloat16()
    before = weights(model)
    (model if by_trl else base).is_loaded_in_4bit = True  # what TRL looks at
    made = trainer(tmp_path, model=model, **({"peft_config": config} if by_trl else {}))
    learning = {name: p for name, p in made.model.named_parameters() if p.requires_grad}
    for name, p in learning.items():
        assert p.dtype == (torch.bfloat16 if "lora_" in name or p is half else torch.float32), name
        assert by_trl or "lora_" in name or torch.equal(p, before[name]), name
    assert by_trl or any("lora_" in name for name in learning)


def test_a_rate_for_muon_is_refused_where_it_cannot_train(tmp_path):
    lora = get_peft_model(tiny_model("llama"), LoraConfig(target_modules="all-linear"))
    rows_of = {"data": [{"prompt": "a", "completion": "b"}], "model": lora, "cls": BaselineTrainer}
    for message, flag, options in (
        ("is set, but the model has no trainable calculator", None, rows_of),
        ("requires torch's AdamW .*, but `optim=", None, {"optim": "sgd"}),
        ("requires torch's AdamW .*, but `optim=", None, {"optim_args": "foreach=False"}),
        ("needs whole matrices, but FSDP or DeepSpeed", "is_fsdp_enabled", {}),
        ("needs whole matrices, but FSDP or DeepSpeed", "is_deepspeed_enabled", {}),
    ):
        made = trainer(tmp_path, igc_muon_learning_rate=0.02, **options)
        if flag is not None:
            setattr(made, flag, True)
        with pytest.raises(ValueError, match=f"`igc_muon_learning_rate` {message}"):
            made.create_optimizer()


def test_without_a_rate_for_muon_groups_are_split_only_where_the_calculator_has_its_own(tmp_path):
    model = beside_lora("adder")
    for name, p in model.named_parameters():
        p.requires_grad_("lora_" in name or "igc_" in name)
    one, other = (trainer(tmp_path, model=model, weight_decay=0.3, igc_learning_rate=rate) for rate in (None, 7e-4))
    decays = [
        {id(p): group["weight_decay"] for group in made.create_optimizer().param_groups for p in group["params"]}
        for made in (one, other)
    ]
    assert decays[0] == decays[1]
    assert [len(made.optimizer.param_groups) for made in (one, other)] == [2, 3]  # all of the LoRA has weight decay
    assert isinstance(one.optimizer, torch.optim.AdamW)
    plain = trainer(tmp_path, model=tiny_model("llama"), cls=BaselineTrainer, learning_rate=TRL_RATE)
    assert {group["lr"] for group in plain.create_optimizer().param_groups} == {TRL_RATE}
