"""The comparison of methods: steps, calls, cells and counts are right; each gate is red where what it guards breaks.

Nothing is measured here; the last test runs the command once, on next to nothing.
"""

from __future__ import annotations

import json
import sys

import answer_loop
import method_gates
import method_items
import method_measures
import method_probes
import method_totals
import method_training
import method_traits
import methods
import pytest
import torch
from benchmark_questions import QUESTIONS, item, row
from tiny_training import WARNINGS
from tool_use import RESTATED

from peft_igc import loading
from peft_igc.calculator import evaluate_exactly
from peft_igc.decoding import prompt_tokens
from peft_igc.demo import demo_config


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
            assert method_items.NAMES[one["igc_operator"]] == operation
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


CELL = {"generated_tokens": 9, "target_tokens_and_end": 9, "malformed_calls": 0, "calls": 0, "seconds_in_tool": 0}


def cell(n, right, beyond=0):
    return CELL | {"n": n, "right": right, "exact_match": right / n, "most_tokens_beyond_target": beyond}


def test_totals_weigh_items_alike_and_keep_lengths_and_phrasings_apart():
    found = {
        "cells": {
            "seen/2_digit_addition": cell(1, 1),
            "held_out/5_digit_division": cell(3, 1, 4),
            "shifted/2_digit_division": cell(2, 2, 9),
            "seen/6_digit_addition": cell(2, 0, None),
        },
        "skipped": {},
    }
    made = method_totals.totals(found)
    shares = {key: one and one["exact_match"] for key, one in made.items()}
    assert shares["all"] == 0.5
    assert (shares["addition"], shares["division"], shares["multiplication"]) == (1.0, 1 / 3, None)
    assert (shares["seen"], shares["held_out"], shares["shifted"], shares["longer"]) == (1.0, 1 / 3, 1.0, 0.0)
    assert made["all"]["most_tokens_beyond_target"] == 4
    assert method_totals.partial_totals(made) == ""


def test_totals_count_what_was_skipped():
    skipped = {"seen/9_digit_multiplication": {"n": 3, "reason": "no room"}}
    one, none = {"cells": {"seen/6_digit_addition": cell(2, 1)}, "skipped": skipped}, {"cells": {}, "skipped": skipped}
    made = method_totals.totals(one)
    assert (made["longer"]["n"], made["longer"]["of"], made["longer"]["exact_match"]) == (2, 5, 0.5)
    assert method_totals.bounds(made["longer"]) == (0.2, 0.8)
    assert method_totals.shown(made["longer"]) == "50.0*"
    assert method_totals.partial_totals(made) == "longer 2 of 5"
    empty = method_totals.totals(none)["longer"]
    assert (empty["n"], empty["of"], empty["exact_match"], method_totals.shown(empty)) == (0, 3, None, "-*")
    assert (made["all"], method_totals.shown(made["all"])) == (None, "-")


def test_methods_are_compared_on_the_cells_that_both_measured_and_totals_say_what_is_left_out():
    easy, hard = "seen/2_digit_addition", "seen/2_digit_multiplication"
    whole = {"cells": {easy: cell(4, 3), hard: cell(6, 0)}, "skipped": {}}
    part = {"cells": {easy: cell(4, 2)}, "skipped": {hard: {"n": 6, "reason": "no room"}}}
    made = method_totals.side_by_side(whole, part, method_totals.GROUPS["all"])
    assert made == {"ahead": True, "exact_match": [0.75, 0.5], "n": 4, "left_out": 6}  # in all, 30% beside 50%
    assert method_totals.side_by_side(part, whole, method_totals.GROUPS["all"])["ahead"] is False
    nothing = method_totals.side_by_side(whole, part, method_totals.GROUPS["multiplication"])
    assert nothing == {"ahead": None, "exact_match": None, "n": 0, "left_out": 6}


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


# ------------------------------------------------------------------------------------------ traits
def run_with(right, beyond=0, calls=0.0, shown=1.0, skipped=0):
    """A run of 1,000 two-digit additions, standing for every group of cells; some longer ones were skipped."""
    total = {"n": 1000, "of": 1000, "right": right, "exact_match": right / 1000, "generated_tokens": 4.0}
    total |= {"most_tokens_beyond_target": beyond, "calls": calls}
    made = {name: dict(total) for name in ("all", *method_items.NAMES.values(), "seen", "held_out", "shifted")}
    made["longer"] = total | {"of": 1000 + skipped}
    probes = dict.fromkeys(("calculation_shown", "result_followed", "unharmed", "new_operation"), shown)
    cells = {ADDITION: cell(1000, right), "seen/1_digit_addition": cell(8, 4)}
    left = {LONG: {"n": skipped, "reason": "no room"}} if skipped else {}
    return {
        "totals": made,
        "probes": probes | {"host_reads": 0.0},
        "timed_target_tokens_and_end": 4.0,
        "measured": {"cells": cells | ({} if skipped else {LONG: cell(9, 9)}), "skipped": left},
    }


ADDITION, LONG = "seen/2_digit_addition", "seen/9_digit_multiplication"


def seconds(*values, passes=4.0):
    return {"all_seconds": list(values), "passes": passes, "seconds": {"median": values[0]}}


RESULTS = {
    "runs": {
        "igc_tokens": run_with(999),
        "tool": run_with(1000, beyond=8, calls=1.0),
        "lora": run_with(200, shown=None),
        "parser": run_with(1000),
    },
    "timing": {"igc_tokens": seconds(1.0, 2.0), "tool": seconds(3.0, 8.0, passes=12.0)},
}


def test_traits_say_what_was_measured_and_where():
    made = method_traits.traits(RESULTS)
    assert set(method_traits.QUOTED_TRAITS) <= set(made)
    holds = {name: {method: cell["holds"] for method, cell in cells.items()} for name, cells in made.items()}
    assert holds["single-step"] == {"igc_tokens": True, "tool": False, "lora": None, "parser": None}
    assert holds["internal"] == {"igc_tokens": True, "tool": False, "lora": True, "parser": True}
    assert holds["multiplication and division"]["lora"] is False
    assert holds["on the accelerator"]["tool"] is False
    assert holds["explicit"] == {"igc_tokens": True, "tool": True, "lora": False, "parser": True}
    assert all("key" in c or "reason" in c for cells in made.values() for c in cells.values())


def test_what_must_be_shown_is_told_as_it_is():
    made = method_traits.verdict(RESULTS)
    assert made["behind"] == {"tool": {ADDITION: [0.999, 1.0]}}  # the parser is no rival
    assert {name: one["ahead"] for name, one in made["ahead_overall"].items()} == {"tool": False, "lora": True}
    assert made["ahead_overall"]["lora"] | {"exact_match": None} == {
        "ahead": True,
        "exact_match": None,
        "n": 1008,
        "left_out": 0,
    }
    assert made["skipped"] == {}
    assert made["exact_match"]["all"] == {"exact_match": 0.999, "n": 1000, "of": 1000}
    assert made["at_target"]
    assert made["no_token_beyond_target"]
    assert made["times_as_fast_as"] == {"tool": 3.5}
    assert made["fast_enough"] == {"tool": True}
    assert made["times_the_passes"] == {"tool": 3.0}
    assert method_traits.verdict({"runs": {"lora": run_with(200)}, "timing": {}}) is None


def test_what_was_skipped_is_no_proof_for_or_against_a_method():
    runs = {"igc_tokens": run_with(999, skipped=60), "scratchpad": run_with(999, skipped=8), "lora": run_with(999)}
    made = method_traits.verdict({"runs": runs, "timing": {}})
    assert made["behind"] == {}  # LoRA has the long cell right: it is not known whether the subject is behind there
    assert made["skipped"] == {"igc_tokens": [LONG], "scratchpad": [LONG]}
    assert made["at_target"]
    runs["igc_tokens"]["totals"]["all"]["of"] = 1001
    assert not method_traits.verdict({"runs": runs, "timing": {}})["at_target"]
    lengths = method_traits.traits({"runs": runs, "timing": {}})["dynamic number lengths"]
    assert {method: trait["holds"] for method, trait in lengths.items()} == {
        "igc_tokens": None,
        "scratchpad": True,
        "lora": True,
    }
    assert "60 of 1060 items were skipped" in lengths["igc_tokens"]["reason"]
    assert (lengths["scratchpad"]["n"], lengths["scratchpad"]["of"]) == (1000, 1008)
    poor = {"runs": {"scratchpad": run_with(200, skipped=60)}, "timing": {}}
    assert method_traits.traits(poor)["dynamic number lengths"]["scratchpad"]["holds"] is False


def test_the_table_marks_what_is_of_fewer_items():
    runs = {"scratchpad": run_with(500, skipped=60), "lora": run_with(200)}
    lines = method_traits.table({"runs": runs, "timing": {}}).splitlines()
    marked = [line for line in lines if "*" in line]
    assert [line.split()[:2] for line in marked] == [["scratchpad", "50.0"], ["*", "scratchpad"]]
    assert marked[0].split().count("50.0*") == 1  # the longer ones
    assert marked[1].endswith("items: longer 1000 of 1060")


def test_the_table_has_a_line_per_method_and_marks_what_is_quoted():
    lines = method_traits.table(RESULTS).splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["igc_tokens", "tool", "lora", "parser"]
    assert sum("quoted" in line for line in lines) == 2


# ------------------------------------------------------------------------------------------ the command
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
