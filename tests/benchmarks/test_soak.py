"""Promises of the soak test: it finds wrong answers and what is kept, and at a twentieth of its size it finds neither.

Each fault that it should find is built in here once. Try it: `pytest tests/benchmarks/test_soak.py`
"""

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from transformers import DynamicCache

import peft_igc
from benchmarks.cost import soak, soak_lives, soak_memory
from benchmarks.cost.soak_lives import DYNAMIC, LIVES, STATIC, STATIC_LIVES, Answer, Plan
from benchmarks.cost.soak_memory import KINDS, Memory, growth
from peft_igc.mappings.readings import NEVER, Pointing, Reading
from peft_igc.tuner import call
from peft_igc.tuner.call import Call
from peft_igc.tuner.hooks.calls import CallWrapper
from peft_igc.tuner.state import cache
from peft_igc.tuner.state.text_state import Steps, TextState
from peft_igc.tuner.steps import Step


TRAINED = Path(peft_igc.__file__).parent / "assets" / "tiny_adapter"
NONE = dict.fromkeys((kind.__name__ for kind in KINDS), 0)
MIB = 2**20


def run(tmp_path, monkeypatch, *options):
    """The command's results, or how it ends, and its results."""
    output = tmp_path / "soak.json"
    monkeypatch.setattr(sys, "argv", ["soak", "--output", str(output), *map(str, options)])
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0")  # and not from here on in all tests
    try:
        soak.main()
    except SystemExit as end:
        return json.loads(output.read_text()), str(end)
    return json.loads(output.read_text()), None


@pytest.fixture(scope="module")
def trained():
    """The subjects with the trained adapter, by name."""
    return {subject.name: subject for subject in soak_lives.subjects(0, TRAINED)}


# ------------------------------------------------------------------------------------------ the whole
@pytest.mark.slow
def test_a_twentieth_of_the_soak_finds_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(soak_memory, "HEAP", 16 * MIB)  # the threads are not yet done with making buffers
    monkeypatch.setattr(soak, "SAMPLES", 10)  # each takes a while
    results, end = run(tmp_path, monkeypatch, "--generations", 500, "--threads", 8, "--minutes", 0.25)
    assert end is None
    assert results["faults"] == []
    for phase in ("alone", "together"):
        told = results[phase]
        assert sum(told["answers"].values()) == told["generations"] == told["memory"][-1]["generations"]
        assert told["wrong"] == 0
    assert 500 <= results["alone"]["generations"] < 520
    assert len(results["alone"]["answers"]) == 4 * (len(LIVES) + len(STATIC_LIVES))  # every kind of every subject
    assert results["alone"]["ok"] > 250
    assert len(results["alone"]["memory"]) >= 10
    out = capsys.readouterr().out
    assert "generations: 100%" in out
    assert "All answers are right, and memory is flat." in out


# ------------------------------------------------------------------------------------------ lives
@pytest.mark.slow
def test_equal_plans_give_equal_answers_which_are_those_of_their_texts_alone(trained):
    subject = trained["llama tokens dynamic"]
    for kind in LIVES:
        answers = soak_lives.lived(Plan(subject, kind, "0"))
        assert answers == soak_lives.lived(Plan(subject, kind, "0")) != soak_lives.lived(Plan(subject, kind, "1"))
        assert [answer.new for answer in answers] == [soak.fresh(subject, answer)[0] for answer in answers]


@pytest.mark.slow
def test_static_caches_live_the_lives_that_they_can(trained):
    assert trained["llama tokens static"].lives == STATIC_LIVES
    assert set(LIVES) - set(STATIC_LIVES) == {"cropped", "copied"}
    for name in ("llama tokens static", "window tokens static"):
        for kind in STATIC_LIVES:
            assert soak_lives.lived(Plan(trained[name], kind, "0"))


def test_the_window_is_the_same_model_that_sees_less(trained):
    whole, window = (trained[f"{name} tokens {DYNAMIC}"].model for name in ("llama", "window"))
    ids = torch.randint(10, 3000, (1, soak_lives.WINDOW + 4))
    with torch.no_grad():
        logits = [model(input_ids=ids).logits[0] for model in (whole, window)]
    torch.testing.assert_close(*(x[: soak_lives.WINDOW] for x in logits), atol=1e-4, rtol=0)
    assert (logits[0][-1] - logits[1][-1]).abs().max() > 1e-2


@pytest.mark.slow
def test_without_an_adapter_both_interfaces_calculate():
    subjects = soak_lives.subjects(0)
    names = {f"{model} {interface} {cache}" for model in ("llama", "window") for interface in ("hidden", "tokens")
             for cache in (DYNAMIC, STATIC)}  # fmt: skip
    assert {subject.name for subject in subjects} == names
    for subject in subjects[::2]:
        answers = [answer for seed in "012" for answer in soak_lives.lived(Plan(subject, "growing", seed))]
        assert any(soak.fresh(subject, answer)[1] for answer in answers)


@pytest.mark.parametrize("how", ["half", "cycle", "pass", "generation"])
def test_each_way_to_abandon_a_text_ends_in_the_middle(trained, how, monkeypatch):
    life = soak_lives._Life(trained["llama tokens dynamic"], soak_lives.random.Random(0))
    monkeypatch.setattr(life.draw, "choice", lambda options: how if how in options else options[0])
    caches, make = [], life._cache
    monkeypatch.setattr(life, "_cache", lambda: caches.append(make()) or caches[-1])
    life.abandoned()
    (answer,) = life.answers
    lengths = [layer.get_seq_length() for layer in caches[0].layers]
    if how == "pass":
        assert lengths != [len(answer.text) + len(answer.new) - 1] * 5
    else:
        assert max(lengths) <= len(answer.text)
    assert hasattr(caches[0], "itself") == (how == "cycle")
    assert call.thread.calls == call.thread.generations == []


# ------------------------------------------------------------------------------------------ wrong answers
def one_state_for_all_copies(self, key, state):
    self._layer._igc[key] = state


def rows_upside_down(self, select, with_rows=TextState.with_rows):
    return with_rows(self, lambda x: select(x).flip(0))


BROKEN = {
    "rows are mixed up": ("reordered", TextState, "with_rows", rows_upside_down),
    "copies share a state": ("copied", cache.States, "set", one_state_for_all_copies),
    "tokens outlive a crop": ("cropped", TextState, "cropped", lambda self, length: self),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", BROKEN)
def test_a_state_that_does_not_follow_its_cache_gives_wrong_answers_that_are_found(trained, fault, monkeypatch):
    kind, owner, name, broken = BROKEN[fault]
    monkeypatch.setattr(owner, name, broken)
    phase = soak.Phase(memory=[sample(0), sample(1)])
    for seed in range(8):
        plan = Plan(trained["llama tokens dynamic"], kind, str(seed))
        for answer in soak_lives.lived(plan):
            phase.counts.add(plan, answer, soak.fresh(plan.subject, answer)[0])
    assert phase.counts.wrong > 0
    (message,) = phase.faults("alone", NONE)
    assert f"alone: {phase.counts.wrong} of {phase.counts.generations} answers are not those" in message
    assert f"The first: llama tokens dynamic, {kind}, seed" in message


@pytest.mark.slow
def test_a_wrong_answer_ends_the_command_with_a_message_and_its_results(tmp_path, monkeypatch, capsys):
    fresh = soak.fresh
    monkeypatch.setattr(soak, "CLOSE", 0.0)  # no tie
    monkeypatch.setattr(soak, "fresh", lambda *args: ((*fresh(*args)[0][:-1], 3), True))
    results, end = run(tmp_path, monkeypatch, "--adapter", TRAINED, "--generations", 3, "--minutes", 0)
    assert end == results["faults"][0]
    assert end.startswith("alone: 3 of 3 answers are not those to the same text alone. The first: llama hidden ")
    assert results["alone"]["wrong"] == len(results["alone"]["examples"]) == 3
    assert "memory is flat" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_thread_whose_answers_differ_from_the_sequential_ones_is_found(trained):
    plan = Plan(trained["llama tokens dynamic"], "reset", "0")
    answers = soak_lives.lived(plan)
    right = soak.together({plan: answers}, 2, 0.1, 0)
    assert right.counts.wrong == 0
    assert right.counts.generations >= 2 * len(answers)
    other = [*answers[:-1], Answer(answers[-1].text, (7,) * len(answers[-1].new))]
    phase = soak.together({plan: other}, 2, 0.1, 0)
    assert 3 * phase.counts.wrong == phase.counts.generations


def test_a_difference_at_a_tie_is_counted_apart_and_may_be_rare(trained, monkeypatch):
    plan = Plan(trained["llama tokens dynamic"], "reset", "0")
    answer = soak_lives.lived(plan)[0]
    other = (answer.new[0] + 1, *answer.new[1:])
    counts = soak.Counts()
    counts.add(plan, answer, other)
    assert (counts.wrong, counts.ties) == (1, 0)
    monkeypatch.setattr(soak, "CLOSE", 1e9)
    counts = soak.Counts()
    for _ in range(2):
        counts.add(plan, answer, other)
    assert (counts.wrong, counts.ties) == (0, 2)
    (message,) = soak.Phase(counts, [sample(0), sample(1)]).faults("alone", NONE)
    assert message == "alone: 2 of 2 answers differ at a tie; 0.5% may be."


@pytest.mark.parametrize("tied", ["digits", "signs", "operator"])
def test_a_reading_is_as_close_as_its_closest_slot(tied):
    reading = Reading(torch.zeros(1, 1, 2, 3, 11), torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 5))
    for slot in reading:
        slot[..., 0] = 5
    step = Step(torch.zeros(1, 1), reading, None)
    assert soak.margin(step) == pytest.approx(5)
    getattr(reading, tied)[..., 1] = 5
    assert soak.margin(step) == 0


def test_a_pointing_is_as_close_as_its_best_places():
    scores = torch.full((1, 1, 2, 4, 2), NEVER)
    scores[0, 0, :, 0, 0], scores[0, 0, :, 1, 0], operator = -0.1, -2.0, torch.tensor([[[9.0, 0.0]]])
    step = Step(torch.zeros(1, 1), Pointing(scores, operator, *[None] * 5), None)
    assert soak.margin(step) == pytest.approx(1.9)
    scores[0, 0, 1, 2, 1] = -2.0  # as good as the second best
    assert soak.margin(step) == 0


# ------------------------------------------------------------------------------------------ memory
def sample(generations, **values):
    fields = {"seconds": 0.0, "heap": 400 * MIB, "resident": 500 * MIB, "tensors": 300, "objects": NONE, "load": 0.0}
    return Memory(generations, **{**fields, **values})


@pytest.mark.slow
def test_what_is_alive_is_counted():
    before = soak_memory.measured(0, 0.0)
    kept = [TextState.empty(Steps.empty(1, 3, torch.device("cpu"))), Call(None), DynamicCache()]
    kept[2].itself = kept[2]
    more = soak_memory.measured(0, 0.0)
    grown = {name: n - before.objects[name] for name, n in more.objects.items()}
    assert grown == {**NONE, "TextState": 1, "Call": 1, "Cache": 1}
    assert more.tensors > before.tensors
    assert more.resident > 100 * MIB
    kept.append(torch.zeros(MIB, dtype=torch.int64))
    assert 7.9 * MIB < soak_memory.heap() - more.heap < 8.5 * MIB
    del kept
    assert soak_memory.measured(0, 0.0).objects == before.objects


def test_memory_that_wavers_or_grows_in_the_warm_up_alone_is_flat():
    memory = [sample(i, heap=(400 + 8 * (i % 2)) * MIB, tensors=300 + i % 3) for i in range(20)]
    memory[0] = memory[1] = sample(0, heap=100 * MIB, resident=300 * MIB, tensors=100)
    assert growth(soak.Phase(memory=memory).settled, NONE) == []
    assert growth(soak.Phase(memory=memory[1:5], warm_up=1).settled, NONE) == []
    assert len(growth(memory[1:5], NONE)) == 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("heap", lambda i: (400 + i / 4) * MIB, "`heap` has grown by 2.5 MiB .* 2 MiB may be"),
        ("resident", lambda i: (500 + 8 * i) * MIB, "`resident` has grown by 80.0 MiB .* 64 MiB may be"),
        ("tensors", lambda i: 300 + 2 * i, "28 more tensors are alive after 19 generations than after 5; 16 may be"),
        ("objects", lambda i: {**NONE, "Call": int(i == 19)}, "1 objects `Call` are alive after 19 generations"),
    ],
)
def test_memory_that_grows_is_found(name, value, message):
    memory = [sample(i, **{name: value(i)}) for i in range(20)]
    (found,) = growth(soak.Phase(memory=memory).settled, NONE)
    assert re.search(message, found)


@pytest.mark.slow
def test_caches_that_are_kept_end_the_command(tmp_path, monkeypatch):
    kept, make = [], soak_lives._Life._cache
    monkeypatch.setattr(soak_lives._Life, "_cache", lambda life: kept.append(make(life)) or kept[-1])
    monkeypatch.setattr(soak, "SAMPLES", 6)
    results, end = run(tmp_path, monkeypatch, "--adapter", TRAINED, "--generations", 12, "--minutes", 0)
    assert re.search(r"alone: \d objects `TextState` are alive after \d+ generations although no cache is in use", end)
    assert "more tensors are alive" in end
    assert results["alone"]["wrong"] == 0


@pytest.mark.slow
def test_what_is_left_on_a_threads_stack_is_found(trained, monkeypatch):
    plan = Plan(trained["llama tokens dynamic"], "reset", "0")
    answers, pop = soak_lives.lived(plan), CallWrapper.__call__

    def leaving(self, *args, **kwargs):
        call.thread.calls.insert(0, Call(model=None))
        return pop(self, *args, **kwargs)

    monkeypatch.setattr(CallWrapper, "__call__", leaving)
    phase = soak.together({plan: answers}, 2, 0.1, 0)
    assert any("objects `Call` are alive" in one for one in phase.faults("together", NONE))
