"""What `benchmarks.cost.training_speed` promises: rows, counts and clocks are right, and gates turn red."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from peft import get_peft_model
from tiny_models import tiny_model
from tiny_training import WARNINGS
from trl.kernels import ChunkedLogProbFunction

from benchmarks.cost import step_times, training_speed, training_steps
from benchmarks.cost.step_times import ALONE, WHOLE, StepTimes
from benchmarks.cost.training_steps import (
    ALL_LOGITS,
    HIDDEN,
    LORA,
    METHODS,
    READING,
    READS,
    SKIPPING,
    TOKENS,
    WRITES,
    Attached,
    Plan,
)
from peft_igc import tiny_base
from peft_igc.trainer import trainer


pytestmark = pytest.mark.filterwarnings(*WARNINGS)

PLAN = Plan("tiny", rows=2, length=32, warmup=1, steps=2, repetitions=2, muon=True)


@pytest.fixture(scope="module")
def tiny():
    return tiny_base()


# --------------------------------------------------------------------------------------------- rows and counts
@pytest.mark.parametrize("length", [32, 100])
def test_rows_have_the_length_and_only_the_answer_has_labels(tiny, length):
    tokenizer = tiny[1]
    rows = training_steps.rows_of_length(tokenizer, length, 20, seed=0)
    assert {len(row["input_ids"]) for row in rows} == {len(row["labels"]) for row in rows} == {length}
    for row in rows:
        text = tokenizer.decode(row["input_ids"])
        assert text.count("<|user|>") == text.count("<|assistant|>") == 1
        before, _, question = text.partition("What is ")
        assert not any(character.isdigit() for character in before)
        assert question.startswith(row["igc_operands"][0])
        answer = tokenizer.decode([token for token in row["labels"] if token >= 0], skip_special_tokens=True)
        assert answer == row["igc_result"]


def test_rows_have_as_many_labels_as_asked_for_after_the_same_question(tiny):
    tokenizer = tiny[1]
    plain, more = (training_steps.rows_of_length(tokenizer, 60, 20, 0, labels) for labels in (0, 8))
    assert {sum(label != -100 for label in row["labels"]) for row in more} == {8}
    assert {len(row["input_ids"]) for row in more} == {60}
    for one, other in zip(plain, more, strict=True):
        assert other["labels"][-1] == one["labels"][-1] == tokenizer.eos_token_id
        answers = [tokenizer.decode([x for x in row["labels"] if x >= 0][:-1]) for row in (one, other)]
        assert answers[1].startswith(answers[0])
    with pytest.raises(SystemExit, match=r"`--labels 1` is too few: an answer has \d tokens"):
        training_steps.rows_of_length(tokenizer, 60, 20, 0, 1)


@pytest.mark.slow
def test_logits_are_at_all_positions_only_where_the_method_says_so(monkeypatch):
    base, tokenizer = tiny_base()
    scored = []
    forward = ChunkedLogProbFunction.forward

    def spy(ctx, hidden, *rest):
        scored.append(len(hidden))
        return forward(ctx, hidden, *rest)

    monkeypatch.setattr(ChunkedLogProbFunction, "forward", staticmethod(spy))
    plan = training_steps.dataclasses.replace(PLAN, length=40, warmup=0, steps=1, labels=8)
    counts = {TOKENS: 16, TOKENS + ALL_LOGITS: 78, LORA: 16, LORA + ALL_LOGITS: 78, SKIPPING: 8}
    for method, expected in counts.items():
        scored.clear()
        with Attached(method, base, tokenizer, training_steps.config_of(method, base, tokenizer, plan), plan) as one:
            one.train()
        assert scored == [expected], method


def test_rows_that_do_not_fit_are_refused(tiny):
    with pytest.raises(SystemExit, match=r"`--length 5` is too short: a row has \d+ tokens"):
        training_steps.rows_of_length(tiny[1], 5, 2, seed=0)


def test_lora_is_as_large_as_the_token_interface_and_leaves_the_base_bare():
    base, tokenizer = tiny_base()
    names = set(base.state_dict())
    config = training_steps.config_of(LORA, base, tokenizer, PLAN)
    assert set(base.state_dict()) == names
    igc = get_peft_model(base, training_steps.config_of(TOKENS, base, tokenizer, PLAN))
    wanted = igc.num_parameters(only_trainable=True)
    lora = get_peft_model(igc.unload(), config)
    assert abs(lora.num_parameters(only_trainable=True) - wanted) <= 0.05 * wanted


def test_each_method_comes_once_in_each_repetition_and_another_one_first():
    made = list(training_steps.turns(["a", "b", "c"], 3))
    assert made == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


def test_a_step_is_compared_with_loras_of_the_same_repetition():
    seconds = {TOKENS: [[2.0, 2.0], [30.0, 30.0]], LORA: [[1.0, 1.0], [10.0, 10.0]]}
    found = training_steps.compared(PLAN, {TOKENS: {"parameters": 1}, LORA: {}}, seconds)["methods"]
    assert found[TOKENS]["step_beside_lora"]["median"] == 2.5
    assert found[LORA]["step_beside_lora"]["low"] == 1.0
    assert found[LORA]["steps_per_second"]["median"] == pytest.approx(0.55)
    assert found[LORA]["tokens_per_second"] == pytest.approx(0.55 * 2 * 32)


@pytest.mark.parametrize(("peak", "shown"), [({}, ["3.0", "-"]), ({"gpu_peak": 40 * 2**20}, ["3.0", "40.0"])])
def test_memory_of_tensors_and_the_peak_of_a_gpu_have_columns_of_their_own(peak, shown):
    held = {"frozen_parameters": 2 * 2**20, "gradients": 2**20, **peak}
    told = {"parameters": 1, "bytes": held, "steps_per_second": {"median": 1.0}, "tokens_per_second": 32.0}
    head, line = training_steps.table("tiny", {"methods": {LORA: told}}).splitlines()
    assert head.endswith("tensors MiB  GPU peak MiB")
    assert line.split()[-2:] == shown


def test_a_shape_that_cannot_be_trained_is_left_out_with_the_reason(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(training_steps, "find_spec", lambda name: True)
    assert training_steps.left_out("8b") == training_steps.left_out("8b-4bit") == "no GPU"
    assert training_steps.left_out("tiny") is None
    monkeypatch.setattr(training_steps, "find_spec", lambda name: None)
    assert training_steps.left_out("tiny-4bit") == "bitsandbytes is not installed"


# --------------------------------------------------------------------------------------------- clocks
class _State:
    global_step = 0


class _Args:
    igc_writing_every = 2


def test_the_clock_counts_batches_and_passes_but_not_what_stands_between_steps(monkeypatch):
    times, state = StepTimes(), _State()
    clock = iter([0.0, 3.0, 4.0, 100.0, 101.0, 103.0, 200.0])
    monkeypatch.setattr(step_times, "now", lambda: next(clock))
    times.on_train_begin(_Args(), state, None)
    for _ in range(2):
        times.on_pre_optimizer_step(_Args(), state, None)
        times.on_optimizer_step(_Args(), state, None)
        state.global_step += 1
        times.on_step_end(_Args(), state, None)  # a measurement has run before: 96 seconds
    assert times.steps == [
        {"step": 0, "kind": WHOLE, "seconds": 4.0, "optimizer": 1.0},
        {"step": 1, "kind": ALONE, "seconds": 3.0, "optimizer": 2.0},
    ]
    told = times.by_kind(warmup=1)
    assert told[WHOLE] == {"steps": 1, "seconds": 4.0}  # its only step was the warm-up
    assert told[ALONE]["steps_per_second"]["median"] == pytest.approx(1 / 3)


def test_savings_are_told_against_both_of_the_same_seed():
    def one(seconds, reached):
        return {"seconds": seconds, "first_at_target": reached and {"seconds": reached}}

    runs = {
        "both": {"0": one(100.0, 50.0), "1": one(200.0, None)},
        "reading_first_half": {"0": one(60.0, 40.0), "1": one(100.0, 70.0)},
    }
    found = training_speed.savings(runs)["reading_first_half"]
    assert found["seconds_of_both"]["median"] == pytest.approx(0.55)
    assert found["seconds_to_target_of_both"] == {"n": 1, "median": 0.8, "low": 0.8, "high": 0.8}
    assert found["seeds_without_target"] == 1
    assert training_speed.savings({"demo": runs["both"]}) == {}


# --------------------------------------------------------------------------------------------- gates
def test_losses_that_are_no_numbers_and_weights_that_stand_still_are_refused():
    before = {"a": torch.zeros(2), "x.broken": torch.zeros(2)}
    moved = {"a": torch.ones(2), "x.broken": torch.zeros(2)}
    training_steps.check_trained(LORA, [1.0], before, moved)
    for losses in ([], [1.0, float("nan")], [float("inf")]):
        with pytest.raises(SystemExit, match="the losses of `lora` are"):
            training_steps.check_trained(LORA, losses, before, moved)
    with pytest.raises(SystemExit, match=r"\['a'\] did not move"):
        training_steps.check_trained(LORA, [1.0], before, before)
    with pytest.raises(SystemExit, match="nothing did not move"):
        training_steps.check_trained(LORA, [1.0], {}, {})


def test_a_changed_base_is_refused():
    base = tiny_model("llama")
    before = training_steps.checksum(base)
    training_steps.check_base(before, training_steps.checksum(base))
    with pytest.raises(SystemExit, match="base's `added` is not what it was"):
        training_steps.check_base(before, before | {"added": 1})
    with torch.no_grad():
        base.model.layers[0].mlp.up_proj.weight[0, 0] += 1e-3
    with pytest.raises(SystemExit, match=r"base's `model.layers.0.mlp.up_proj.weight` is not what it was"):
        training_steps.check_base(before, training_steps.checksum(base))


@pytest.mark.parametrize(
    ("also_base", "message"), [(False, None), (True, "the base's `.*` is not"), (None, "did not move")]
)
def test_the_gate_sees_what_a_method_does(monkeypatch, also_base, message):
    def train(self):
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if also_base is not None and (parameter.requires_grad or (also_base and "embed_tokens" in name)):
                    parameter += 0.5
        return [1.0]

    monkeypatch.setattr(training_steps.Attached, "train", train)
    base, tokenizer = tiny_base()
    configs = {LORA: training_steps.config_of(LORA, base, tokenizer, PLAN)}
    if message is None:
        training_steps.gate(base, tokenizer, configs, PLAN)
    else:
        with pytest.raises(SystemExit, match=message):
            training_steps.gate(base, tokenizer, configs, PLAN)


def test_stages_that_are_none_are_refused():
    settings = training_speed.dataclasses.replace(
        training_speed.SETTINGS["tokens"], distinct_rows=32, **training_speed.GATE
    )

    def seen(ran=(2,), moved=({READS}, {READS}, {READS, WRITES}), kinds=(ALONE, ALONE, WHOLE)):
        watch, times = training_speed.Watch(), StepTimes()
        watch.ran, watch.moved = set(ran), list(moved)
        times.steps = [{"kind": kind} for kind in kinds]
        return settings, watch, times

    training_speed.check_stages(*seen())
    with pytest.raises(SystemExit, match=r"the last layer ran in the steps \[1, 2\], not in 2 to 2"):
        training_speed.check_stages(*seen(ran=(1, 2)))
    with pytest.raises(SystemExit, match="the steps moved"):
        training_speed.check_stages(*seen(moved=({READS}, {READS, WRITES}, {READS, WRITES})))
    with pytest.raises(SystemExit, match="the clock saw"):
        training_speed.check_stages(*seen(kinds=(WHOLE, ALONE, WHOLE)))


@pytest.mark.slow
def test_the_gate_of_the_stages_sees_passes_that_do_not_end(monkeypatch):
    monkeypatch.setattr(trainer, "reads_alone", lambda args, step: False)
    with pytest.raises(SystemExit, match=r"the last layer ran in the steps \[0, 1, 2\]"):
        training_speed.gate()


# --------------------------------------------------------------------------------------------- all of it
@pytest.mark.slow
def test_a_short_run_tells_what_it_should(tmp_path, monkeypatch, capsys):
    path = tmp_path / "speed.json"
    words = f"--output {path} --figure {tmp_path / 'speed.png'} --arms both reading_first_half --steps 4 --every 2"
    words += " --per-group 1 --validation 1 --distinct-rows 256 --shapes tiny 8b --rows 2 --timed 1 --repetitions 1"
    monkeypatch.setattr(sys, "argv", ["training_speed.py", *words.split()])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    training_speed.main()
    found = json.loads(path.read_text(encoding="utf-8"))
    assert {"commit", "versions", "threads", "hardware", "settings", "stages", "step"} <= set(found)
    runs = found["stages"]["runs"]
    assert [runs[arm]["0"]["passes"][ALONE]["steps"] for arm in runs] == [0, 2]
    assert [runs[arm]["0"]["passes"][WHOLE]["steps"] for arm in runs] == [4, 2]
    assert [check["step"] for check in runs["both"]["0"]["checks"]] == [2, 4]
    assert found["stages"]["savings"]["reading_first_half"]["seeds_without_target"] == 1
    assert found["step"]["left_out"] == {"8b": "no GPU"}
    methods = found["step"]["shapes"]["tiny"]["methods"]
    assert set(methods) == set(METHODS)
    assert methods[HIDDEN]["bytes"]["gradients"] == 4 * methods[HIDDEN]["parameters"]
    assert methods[READING]["bytes"]["gradients"] < methods[TOKENS]["bytes"]["gradients"]
    assert methods[LORA]["step_beside_lora"]["median"] == 1.0
    assert (tmp_path / "speed.png").stat().st_size > 1000
    assert "igc_tokens_reading" in capsys.readouterr().out
