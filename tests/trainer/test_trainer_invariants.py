"""What training does to weights: who moves, who does not, and which runs must end in the same place.

Runs that are compared use plain gradient descent in fp32: Adam divides a gradient by its own size, so that the
rounding of a parameter with next to no gradient would show as a difference.
"""

import os
import socket
import weakref

import pytest
import torch
import torch.multiprocessing
from tiny_models import small_config, tiny_model
from tiny_training import NESTED, beside_lora, igc_model, join_as, rows, trainer, weights
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from peft_igc.data.dataset import to_dataset
from peft_igc.sft.launch import end


SGD = {"optim": "sgd", "learning_rate": 0.1, "train_sampling_strategy": "sequential"}


def trained(made):
    made.train()
    return weights(made.model)


def assert_equal_weights(a, b, tolerance):
    """The same, and no one-sided drift: the mean difference is far smaller than the largest."""
    assert set(a) == set(b)
    for name in a:
        difference = a[name] - b[name]
        assert difference.abs().max() <= tolerance, name
        assert difference.mean().abs() <= tolerance / 4, name


def reading(parameters):
    return {name: p for name, p in parameters.items() if "igc_input_mapping" in name}


@pytest.mark.versions
def test_every_adapter_weight_moves_and_the_base_stays_bit_for_bit(tmp_path):
    made = trainer(tmp_path, rows(32), max_steps=8)
    before = weights(made.model)
    after = trained(made)
    adapter = {name for name in before if ".igc." in name}
    assert adapter
    assert all(torch.equal(before[name], after[name]) for name in before if name not in adapter)
    assert [name for name in adapter if torch.equal(before[name], after[name])] == []


def test_the_reading_learns(tmp_path):
    made = trainer(tmp_path, rows(64, digits=1), max_steps=60, per_device_train_batch_size=8)
    made.train()
    losses = [log["igc/loss_read"] for log in made.state.log_history if "igc/loss_read" in log]
    assert sum(losses[-5:]) < 0.4 * sum(losses[:5])


@pytest.mark.slow
@pytest.mark.parametrize(
    "unsupervised", [(), (0, 1, 2, 3, 4, 9, 12)], ids=["every row supervised", "unbalanced windows"]
)
def test_a_batch_of_eight_is_two_of_four_is_eight_of_one(tmp_path, unsupervised):
    ends = []
    for batch in (8, 4, 1):
        made = trainer(
            tmp_path,
            rows(16, unsupervised=unsupervised),
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=8 // batch,
            **SGD,
        )
        ends.append((trained(made), made.state.log_history[0]))
    for parameters, log in ends[1:]:
        assert_equal_weights(ends[0][0], parameters, 1e-6)
        assert log["loss"] == pytest.approx(ends[0][1]["loss"], rel=1e-5)
        assert log["igc/loss_read"] == pytest.approx(ends[0][1]["igc/loss_read"], rel=1e-5)


@pytest.mark.filterwarnings(*NESTED)
@pytest.mark.parametrize("outside", ["adder", "style"])
def test_lora_and_the_calculator_train_together(tmp_path, outside):
    made = trainer(tmp_path, rows(32), beside_lora(outside), max_steps=6)
    before = weights(made.model)
    after = trained(made)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if ".igc." in name or "lora_" in name}


def test_a_reentrant_wrapper_around_the_calculators_layer_is_an_error(tmp_path):
    model = igc_model(layer=1)
    layers = model.base_model.model.model.layers
    layers[1] = checkpoint_wrapper(layers[1], checkpoint_impl=CheckpointImpl.REENTRANT)  # as accelerate's FSDP plugin
    model.enable_input_require_grads()  # this kind cuts a graph whose input needs no gradient
    message = "With reentrant checkpointing around the decoder layer, the reading receives no gradient"
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, model=model).train()


def test_a_bfloat16_base_trains_with_an_adapter_in_float32(tmp_path):
    model = tiny_model("llama").to(torch.bfloat16)
    made = trainer(tmp_path, model=model, peft_config=small_config(init_weights=True), bf16=True)
    before = weights(made.model)
    after = trained(made)
    assert {p.dtype for p in made.model.parameters() if p.requires_grad} == {torch.float32}
    assert [n for n, p in reading(before).items() if torch.equal(p, after[n])] == []
    assert made.state.log_history[0]["igc/loss_read"] > 0


DDP_ROWS = {"n": 16, "unsupervised": (0, 1, 2, 3, 4, 9, 12)}


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _train_as_rank(rank, port, folder, find_unused):
    """One process of two, each with half of every batch."""
    join_as(rank, port)
    made = trainer(
        folder,
        rows(**DDP_ROWS),
        eval_dataset=to_dataset(rows(**DDP_ROWS)),
        per_device_train_batch_size=2,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=2,
        ddp_backend="gloo",
        ddp_find_unused_parameters=find_unused,
        **SGD,
    )
    assert made.accelerator.num_processes == 2
    made.train()
    metrics = made.evaluate()
    if rank == 0:
        torch.save((weights(made.model), made.state.log_history[0], metrics), folder / "end.pt")
    wrapped = weakref.ref(made.model_wrapped)
    assert isinstance(wrapped(), nn.parallel.DistributedDataParallel)
    end(made)
    assert wrapped() is None  # freed later, its reducer would wait for gloo's threads under Python's lock
    assert made.model_wrapped is made.model
    assert not torch.distributed.is_initialized()


@pytest.mark.slow
@pytest.mark.parametrize("find_unused", [None, False])
def test_two_processes_train_what_one_does(tmp_path, find_unused):
    torch.multiprocessing.spawn(_train_as_rank, (_free_port(), tmp_path, find_unused), nprocs=2)
    two, log, metrics = torch.load(tmp_path / "end.pt", weights_only=True)
    data = to_dataset(rows(**DDP_ROWS))
    made = trainer(
        tmp_path, data, eval_dataset=data, per_device_train_batch_size=8, per_device_eval_batch_size=8, **SGD
    )
    assert_equal_weights(trained(made), two, 1e-6)
    one = made.state.log_history[0]
    for name in ("loss", "igc/loss_read", "igc/read_accuracy"):
        assert log[name] == pytest.approx(one[name], rel=1e-5), name
    assert metrics["eval_igc/loss_read"] == pytest.approx(made.evaluate()["eval_igc/loss_read"], rel=1e-5)


def _shard(model):
    """FSDP2 as accelerate applies it: a unit for each decoder layer, with its calculator, and one for the rest."""
    for module in list(model.modules()):
        if type(module).__name__ == "LlamaDecoderLayer":
            fully_shard(module)
    return fully_shard(model)


def _two_steps(model, batches):
    """Plain gradient descent on the language-model loss and the reading loss."""
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    for batch in batches:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    whole = lambda p: p.full_tensor() if isinstance(p, DTensor) else p  # noqa: E731
    return {name: whole(p.detach()).clone() for name, p in model.named_parameters()}


def assert_both_parts_move_as_in_one_process(folder, two):
    """Two steps of two processes are those of one, and they moved the reading and the writing."""
    before = weights(igc_model(init_weights=False))
    one = _two_steps(igc_model(init_weights=False), _batches(folder))
    assert_equal_weights(one, two, 1e-5)
    moved = {name for name in one if not torch.equal(one[name], before[name])}
    assert {part for part in ("input_mapping", "output_mapping") if any(part in name for name in moved)} == {
        "input_mapping",
        "output_mapping",
    }


def _batches(folder):
    """Two batches of eight rows with one label each, so that halves weigh the same."""
    made = trainer(folder, [{**row, "prompt": row["prompt"].rjust(6, "0")} for row in rows(16)])
    batches = [made.data_collator([dict(row) for row in made.train_dataset.select(range(i, i + 8))]) for i in (0, 8)]
    for batch in batches:
        batch["labels"][:, 7:] = -100  # the prompts have six tokens
    return batches


def _shard_as_rank(rank, port, folder):
    """One process of two, each with a half of every batch and of every parameter."""
    torch.set_num_threads(1)
    batches = _batches(folder / str(rank))  # before there is a group, which the trainer would take part in
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    halves = [{name: tensor[4 * rank : 4 * rank + 4] for name, tensor in batch.items()} for batch in batches]
    model = _shard(igc_model(init_weights=False))
    sharded = all(isinstance(p, DTensor) for p in model.parameters())
    end = _two_steps(model, halves)
    if rank == 0:
        torch.save((end, sharded), folder / "end.pt")
    torch.distributed.barrier()
    os._exit(0)  # there is no trainer to end, and gloo's threads may hang as the process ends (torch 2.13.0)


@pytest.mark.slow
def test_two_processes_with_a_half_of_each_parameter_train_what_one_does(tmp_path):
    """The model under FSDP2. accelerate (1.15) knows no FSDP among CPU processes, so the trainer cannot be had so."""
    torch.multiprocessing.spawn(_shard_as_rank, (_free_port(), tmp_path), nprocs=2)
    two, sharded = torch.load(tmp_path / "end.pt", weights_only=True)
    assert sharded
    assert_both_parts_move_as_in_one_process(tmp_path, two)
