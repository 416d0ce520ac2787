"""The comparison of methods: steps, calls, cells and counts are right; each gate is red where what it guards breaks.

Nothing is measured here; the last test runs the command once, on next to nothing.
"""

from __future__ import annotations

import json
import sys

import pytest
import torch
from benchmark_questions import QUESTIONS, item, row
from tiny_training import WARNINGS

from benchmarks.common import answer_loop
from benchmarks.common.small_trainings import demo_config
from benchmarks.methods import gates as method_gates
from benchmarks.methods import items as method_items
from benchmarks.methods import measures as method_measures
from benchmarks.methods import methods
from benchmarks.methods import probes as method_probes
from benchmarks.methods import training as method_training
from benchmarks.methods.tool_use import RESTATED
from peft_igc.data.bigbench import OPERATION_NAMES
from peft_igc.inference import loading
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.numbers.calculator import evaluate_exactly


KINDS = method_training.KINDS
pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]


@pytest.fixture(scope="module")
def base():
    return loading.tiny_base()


# ------------------------------------------------------------------------------------------ items
def test_cells_hold_distinct_items_of_their_length_and_operation():
    made = method_items.cells(5, 0, (1, 5, 7))
    assert len(made) == 3 * 8 + 2
    assert all(len({i["prompt"] for i in items}) == len(items) == 5 for items in made.values())
    for name, items in made.items():
        phrasing, digits, operation = name.replace("_digit_", "/").split("/")
        for one in items:
            assert OPERATION_NAMES[one["igc_operator"]] == operation
            a, b = one["igc_operands"]
            if phrasing == "shifted":
                assert len(b) == len(one["target"]) == int(digits)
            else:
                assert len(a) == int(digits)
            assert one["target"] == evaluate_exactly(one["igc_operator"], a, b)
    assert all(i["prompt"].startswith("What is ") for name in made if name.startswith("seen") for i in made[name])
    assert made == method_items.cells(5, 0, (1, 5, 7)) != method_items.cells(5, 1, (1, 5, 7))


def test_the_gate_of_items_sees_what_is_trained_or_told():
    tested = [item("What is 58 times 36?", "*", "58", "36"), item("What is 3 plus 4?", "+", "3", "4")]
    assert method_items.apart([row("What is 3 plus 4?", "7", "+", ["3", "4"], "7")], tested) == []
    trained = row("Multiply 58 by 36.", "2088", "*", ["58", "36"], "2088")
    assert method_items.apart([trained], tested) == ["The calculation of 'What is 58 times 36?' is trained."]
    same = row("What is 58 times 36?", "I cannot compute that.")
    assert method_items.apart([same], tested) == ["The question 'What is 58 times 36?' is trained."]
    told = [item("The answer is 2088: what is 58 times 36?", "*", "58", "36")]
    assert "holds its target '2088'" in method_items.apart([], told)[0]
    assert not method_items.told_in_prompt(item("What is 12 divided by 1?", "/", "12", "1"))


def test_a_red_gate_ends_the_command():
    methods.refuse([])
    with pytest.raises(SystemExit, match="a gate is red:\nThe calculation"):
        methods.refuse(["The calculation of 'What is 58 times 36?' is trained."])


def test_the_gates_before_training_pass_on_drawn_rows(base):
    made = method_items.cells(2, 0, (1, 2, 5, 6))
    tested = [one for items in made.values() for one in items]
    rows = method_training.training_set(tested, 0, 300)
    assert len(rows) == 300
    assert method_gates.before_training(base[1], rows, tested, tested[::9]) == []


# ------------------------------------------------------------------------------------------ measures
def test_counts_of_a_cell(base):
    method = method_measures.Method("base", None, base[1])
    items = [item("What is 58 times 36?", "*", "58", "36")] * 3
    answers = [
        ("2088", answer_loop.Answer(tokens=[1, 2], generated=3, done=True)),
        ("2088", answer_loop.Answer(tokens=[1] * 9, generated=9, calls=[None, ("*", "58", "36")], done=True)),
        ("2088", answer_loop.Answer(tokens=[1, 2], generated=2, done=True, cut=True)),
    ]
    counts, mistakes = method_measures.scored(method, items, answers)
    assert (counts["n"], counts["right"], counts["cut"]) == (3, 2, 1)  # a cut answer is never right
    assert counts["target_tokens_and_end"] == 9
    assert counts["most_tokens_beyond_target"] == 6
    assert (counts["calls"], counts["malformed_calls"]) == (2, 1)
    assert len(mistakes) == 1


def test_cells_that_a_right_answer_does_not_fit_are_skipped_with_the_reason(base):
    model, tokenizer = base
    method = method_measures.Method("scratchpad", model, tokenizer, method_training.SCRATCHPAD)
    long = [item("What is it?", "*", "9" * 12, "9" * 12)]
    found = method_measures.by_cell(method, {"seen/12_digit_multiplication": long}, print)
    assert found["cells"] == {}
    skipped = found["skipped"]["seen/12_digit_multiplication"]
    assert skipped["n"] == 1
    assert "there is room for" in skipped["reason"]


def test_passes_beyond_the_target_are_the_most_of_right_answers(base, monkeypatch):
    tokenizer = base[1]
    items = [item("What is 3 plus 4?", "+", "3", "4"), *QUESTIONS[:1]]  # targets of one and of three tokens
    told = {items[0]["prompt"]: ("7", 5), items[1]["prompt"]: ("9", 50)}  # an answer, and its passes

    def timed_as(answers, cut=False):
        class Scripted(method_measures.Method):
            def ask(self, prompts, limit, tool=None):
                return [(answers[prompt][0], answer_loop.Answer(done=True, cut=cut)) for prompt in prompts]

        lengths = {prompt: passes for prompt, (_, passes) in answers.items()}
        honest = method_measures._passes
        monkeypatch.setattr(
            method_measures, "_passes", lambda m, i, limit: (lengths[i["prompt"]], honest(m, i, limit)[1])
        )
        made = method_measures.timed([Scripted("lora", None, tokenizer)], items, 2, 1)["lora"]
        monkeypatch.undo()
        return made

    made = timed_as(told)
    assert made["all_right"] == [True, False]
    assert made["all_passes"] == [5, 50]
    assert made["most_passes_beyond_target"] == 5 - 1 - 1  # the wrong one took 50
    assert timed_as(told, cut=True)["most_passes_beyond_target"] is None  # a cut answer is never right
    right = told | {items[1]["prompt"]: (items[1]["target"], 6)}
    assert timed_as(right)["most_passes_beyond_target"] == 3


def test_a_right_answer_may_fill_all_of_the_room(base, monkeypatch):
    tokenizer, items = base[1], QUESTIONS[:1]
    method = method_measures.Method("tool", oracle(tokenizer, items), tokenizer, method_training.TOOL)
    prompt = len(prompt_tokens(tokenizer, [items[0]["prompt"]], raw=False)[0])
    wanted = method_training.wanted_tokens(method.form, items[0], tokenizer)
    for spare, skipped in ((0, 0), (-1, 1)):
        monkeypatch.setattr(method_measures, "longest_text", lambda model, n=prompt + wanted + spare: n)
        found = method_measures.by_cell(method, {"seen/5_digit_multiplication": items}, print)
        assert len(found["skipped"]) == skipped
        assert [one["right"] for one in found["cells"].values()] == [1] * (1 - skipped)


# ------------------------------------------------------------------------------------------ probes
def oracle(tokenizer, items):
    prompts = prompt_tokens(tokenizer, [one["prompt"] for one in items], raw=False)
    texts = [RESTATED.written(one["igc_operator"], *one["igc_operands"]) for one in items]
    calls = dict(zip(map(tuple, prompts), tokenizer(texts, add_special_tokens=False)["input_ids"], strict=True))
    close = tokenizer(";", add_special_tokens=False)["input_ids"][0]
    return method_gates.Oracle(calls, close, tokenizer.eos_token_id, len(tokenizer))


def test_probes_of_a_tool_that_is_used_rightly(base, monkeypatch):
    tokenizer, items = base[1], QUESTIONS[:3]
    monkeypatch.setattr(method_probes, "active_config", lambda model: None)
    method = method_measures.Method("tool", oracle(tokenizer, items), tokenizer, method_training.TOOL)
    assert method_probes.calculation_shown(method, items) == 1.0
    assert method_probes.result_followed(method, items) == 1.0
    other = [dict(one, igc_operands=["1", "1"]) for one in items]
    assert method_probes.calculation_shown(method, other) == 0.0


def test_probes_of_a_base_model(base):
    method = method_measures.Method("base", *base)
    assert method_probes.calculation_shown(method, QUESTIONS[:2]) is None
    assert method_probes.result_followed(method, QUESTIONS[:2]) is None
    assert method_probes.unharmed(method, method, ["Good morning."]) == 1.0
    assert method_probes.new_operation(method) is None


def test_probes_of_the_parser(base):
    parser = method_measures.Method("parser", None, base[1])
    assert method_probes.calculation_shown(parser, QUESTIONS[:2]) == 1.0
    assert method_probes.result_followed(parser, QUESTIONS[:2]) == 1.0
    assert method_probes.unharmed(parser, parser, ["Good morning.", "What is 3 plus 4?"]) == 0.5


def test_a_fifth_operation_is_exact_and_gone_afterwards(base):
    from peft import get_peft_model

    model, tokenizer = loading.tiny_base()
    settings = method_training.settings_of("tokens", 1, 1, 1)
    method = method_measures.Method("igc", get_peft_model(model, demo_config(tokenizer, settings)), tokenizer)
    assert method_probes.new_operation(method, 50) == 1.0
    assert method_probes.FIFTH not in method_probes.calculator.OPERATIONS
    assert method_probes.host_reads(method, QUESTIONS[:1]) >= 0.0
    assert method_probes.calculation_shown(method, QUESTIONS[:1]) in (0.0, 1.0)
    assert method_probes.result_followed(method, QUESTIONS[:1]) == 0.0  # its writing is not trained


# ------------------------------------------------------------------------------------------ the command
def test_a_method_named_twice_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["methods.py", "--output", "x.json", "--methods", "base", "base"])
    with pytest.raises(SystemExit):
        methods.main()
    assert "argument --methods: one is named twice" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_writes_everything_and_takes_kept_weights_and_runs_again(tmp_path, monkeypatch):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["methods.py", *sizes.split(), *map(str, arguments)])
        methods.main()

    names = ["base", "tool", "igc_tokens", "parser"]
    sizes = "--steps 2 --search-steps 1 --batch-size 8 --rows 40 --per-cell 1 --validation 1 --longest 1"
    sizes += f" --timed 3 --probed 2 --silent 7 --keep {tmp_path / 'keep'}"
    first, second, figure = (tmp_path / name for name in ("first.json", "second.json", "figure.png"))
    run("--output", first, "--methods", *names[:3])
    made = json.loads(first.read_text())
    assert list(made["runs"]) == names[:3]
    assert {path.name for path in (tmp_path / "keep").iterdir()} == {"tool-0.pt", "igc_tokens-0.pt"}
    run("--output", second, "--figure", figure, "--with", first, "--methods", *names)
    joined = json.loads(second.read_text())
    assert list(joined["runs"]) == names
    assert {name: joined["runs"][name] for name in names[:3]} == made["runs"]
    assert set(joined["timing"]) == set(names)
    assert all(len(one["all_seconds"]) == 3 for one in joined["timing"].values())
    assert joined["runs"]["parser"]["totals"]["seen"]["exact_match"] == 1.0
    training = joined["runs"]["tool"]["training"]
    assert len(training["search"]["exact_match"]) >= 3
    assert training["parameters"] == pytest.approx(joined["runs"]["igc_tokens"]["training"]["parameters"], rel=0.05)
    assert joined["must_show"]["ahead_overall"].keys() == {"base", "tool"}
    assert set(joined["traits"]["internal"]) == set(names)
    assert figure.exists()


def test_weights_that_were_trained_otherwise_are_refused(tmp_path):
    kind = KINDS["base"]
    file = tmp_path / "base-0.pt"
    torch.save({"weights": {}, "made": "{}", "told": "{}"}, file)
    settings = method_training.settings_of(None, 1, 1, 1)
    assert method_training._kept(file, "{}", kind, settings, 0)[2] == {}
    with pytest.raises(SystemExit, match="was trained otherwise"):
        method_training._kept(file, '{"steps": 2}', kind, settings, 0)
