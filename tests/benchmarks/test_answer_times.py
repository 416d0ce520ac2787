"""The times of right answers: what is told, what is refused, what comes out. Nothing is timed."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest
import torch
from benchmark_questions import item
from tiny_training import WARNINGS

from benchmarks.methods import answer_times
from benchmarks.methods.tool_use import Tool
from peft_igc.numbers.calculator import Status


pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]
QUESTION = item("What is 58213 times 907?", "*", "58213", "907")


@pytest.fixture(scope="module")
def made():
    return {one.name: one for one in answer_times.contenders("tiny", 0)}


@pytest.mark.parametrize("name", ["base", "igc_hidden", "igc_tokens", "tool", "tool_spliced"])
def test_every_contender_gives_the_right_answer_in_its_form(made, name):
    assert made[name].answer(QUESTION) == (str(58213 * 907), int(name.startswith("tool")))


def test_passes_are_those_of_what_a_model_writes_itself(made):
    passes = {name: one.checked(QUESTION) for name, one in made.items()}
    direct = len(made["base"].script(QUESTION))
    assert passes["base"] == passes["igc_hidden"] == passes["igc_tokens"] == direct
    tokens = lambda text: len(made["tool"].tokenizer(text, add_special_tokens=False)["input_ids"])  # noqa: E731
    call = tokens("call(58213*907)=")
    assert passes["tool"] == call + direct  # the reply comes with the call's last token
    assert passes["tool_spliced"] == call + 1


def test_the_model_runs_as_it_is_but_for_the_token_that_is_told(made):
    base = made["base"].model
    ids = torch.tensor([[5, 6, 7]], device=base.device)
    mask = torch.ones_like(ids)
    with torch.no_grad():
        own = base(input_ids=ids, attention_mask=mask).logits
        told = answer_times.Told(base, [11, 12, 13], 2)(input_ids=ids, attention_mask=mask).logits
    assert told[0, -1].argmax() == 12
    own[0, -1, 12] = torch.inf
    assert torch.equal(told, own)


def test_an_answer_that_is_another_one_ends_the_run(made):
    wrong = dataclasses.replace(made["tool_spliced"].form, tool=Tool(close="", calculate=lambda *call: "7"))
    with pytest.raises(SystemExit, match="tool_spliced: the answer is '799191' where '52799191' was told"):
        dataclasses.replace(made["tool_spliced"], form=Lying(wrong, made["tool_spliced"].form)).checked(QUESTION)


def test_a_tool_that_is_not_called_ends_the_run(made, monkeypatch):
    monkeypatch.setattr(Tool, "call", lambda self, text: (False, None))
    with pytest.raises(SystemExit, match=r"tool: 'What is 58213 times 907\?' was answered with 0 calls of a tool"):
        made["tool"].checked(QUESTION)


class Lying:
    """A form whose tool replies otherwise than its script says."""

    def __init__(self, replies, writes):
        self.tool, self.visible, self.pieces = replies.tool, replies.visible, writes.pieces


@pytest.mark.parametrize("seen", [[], [Status.OK, Status.OK], [Status.OVERFLOW]])
def test_an_answer_that_was_not_read_once_ends_the_run(made, monkeypatch, seen):
    monkeypatch.setattr(answer_times, "statuses", lambda: Watched([torch.tensor(seen)]))
    with pytest.raises(SystemExit, match=r"igc_tokens: 'What is 58213 times 907\?' was read with the statuses"):
        made["igc_tokens"].checked(QUESTION)
    made["base"].checked(QUESTION)  # reads nothing


class Watched(list):
    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def test_questions_have_all_operations_and_the_lengths_asked_for():
    drawn = answer_times.questions(range(6, 13), 40, 0)
    assert len(drawn) == len({one["prompt"] for one in drawn}) == 40
    assert {one["igc_operator"] for one in drawn} == set("+-*/")
    assert all(6 <= max(map(len, one["igc_operands"])) for one in drawn)
    assert drawn != answer_times.questions(range(6, 13), 40, 1)


@pytest.mark.slow
def test_the_command_writes_times_of_every_contender(tmp_path, monkeypatch, capsys):
    output = tmp_path / "times.json"
    monkeypatch.setattr(sys, "argv", ["x", "--output", str(output), "--shapes", "tiny", "8b", "--items", "3"])
    monkeypatch.setattr(answer_times, "missing", lambda shape: "no room" if shape == "8b" else None)
    answer_times.main()
    found = json.loads(output.read_text())
    assert found["left_out"] == [{"shape": "8b", "reason": "no room"}]
    assert list(found["shapes"]["tiny"]) == ["1 to 5 digits", "6 to 12 digits"]
    for by_method in found["shapes"]["tiny"].values():
        assert list(by_method) == ["base", "igc_hidden", "igc_tokens", "tool", "tool_spliced"]
        assert by_method["tool"]["times_as_fast"]["tool"]["median"] == 1.0
        assert by_method["igc_tokens"]["seconds"]["n"] == 3
        assert by_method["tool"]["passes"] > by_method["tool_spliced"]["passes"] > by_method["base"]["passes"]
    assert answer_times.table(found) in capsys.readouterr().out
