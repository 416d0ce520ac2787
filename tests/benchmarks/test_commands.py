"""Each command of the benchmarks runs at a small size and writes its results."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from benchmarks.accuracy import (
    ablations,
    adapter_on_sets,
    checking,
    expressions,
    functions,
    gsm8k_solutions,
    leave_one_out,
    written_by_others,
)
from benchmarks.cost import engine_op, gpu, operators, overhead, soak
from benchmarks.harm import harm, hostile_folders
from benchmarks.methods import methods
from peft_igc.tuner.base_model import TINY_ADAPTER_FOLDER, TINY_FOLDER
from recipes.tiny_base.worked_solutions import WorkedSolutions


pytestmark = [pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command's `main` with arguments, and gives the results that it has written."""

    def command(module, *arguments):
        path = tmp_path / "out.json"
        monkeypatch.setattr(sys, "argv", [module.__name__, "--output", str(path), *map(str, arguments)])
        module.main()
        found = json.loads(path.read_text())
        assert {"commit", "versions", "hardware"} <= found.keys()
        return found

    return command


def test_adapter_on_sets_counts_every_set_that_it_is_asked_for(run):
    names = ["eighth_plain_requests", "like_math_401", "look_alikes", "three_numbers"]
    found = run(adapter_on_sets, "--base", "tiny", "--adapters", "tiny", "--sets", *names, "-n", 10)
    sets = found["runs"]["0"]["sets"]
    assert list(sets) == names
    for told in sets.values():
        assert told["right"] + told["wrong"] + told["silent"] == told["n"]
    assert sets["like_math_401"]["right"] == sets["like_math_401"]["due"] == 8


def test_expressions_finds_no_wrong_value_in_generated_texts(run, tmp_path):
    data = tmp_path / "rows.jsonl"
    row = json.dumps({"answer": "She has 48/2 = <<48/2=24>>24 clips.\n#### 24"})
    data.write_text(f"{row}\n" * (expressions.DEVELOPMENT + 1))
    sets = run(expressions, "--generated", 4000, "--n", 200, "--data", data)["sets"]
    for name in ("generated", "spellings", "like math 401", "look-alikes, at each =", "quotients", "gsm8k, even"):
        assert sets[name]["mistakes"] == [], name
    assert sets["gsm8k, even"]["n"] == sets["gsm8k, even"]["right"] == 1


@pytest.mark.slow
def test_harm_finds_the_base_logits_where_nothing_is_asked(run):
    kinds = run(harm, "--adapter", "tiny", "-n", 10)["adapters"]["tiny"]
    assert set(kinds) == {"prose", "numbers", "about arithmetic"}
    assert kinds["prose"]["bit_identical"] == kinds["prose"]["n"] == 10


@pytest.mark.slow
def test_sixty_hostile_folders_are_refused_or_harmless(run):
    assert run(hostile_folders, "--count", 60, "--seed", 1)["unclean"] == []


def test_checking_finds_changed_digits_and_leaves_true_calculations_alone(run, tmp_path):
    solution = {"answer": "She has 48/2 = <<48/2=24>>24 clips.\nIn all 48+24 = <<48+24=72>>72.\n#### 72"}
    other = {"answer": "So x = <<25=25>>25, and 25 - 20 = <<25-20=5>>5.\n#### 5"}
    derivation = {"derivation": "(120 - 96) / 96", "answer": 25, "scale": "percent"}
    written = [{"solution": rf"\( {n} \times \$2 = \${2 * n} \)"} for n in (6, 7)]
    paths = [tmp_path / f"{name}.jsonl" for name in ("solutions", "derivations", "written")]
    for path, rows in zip(paths, ((solution, other), (derivation,), written), strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources = run(checking, "--gsm8k", paths[0], "--tatqa", paths[1], "--solutions", paths[2])["sources"]
    counted = {name: (told["calculations"], told["with_operation"]) for name, told in sources.items()}
    assert counted == {"gsm8k, even": (2, 2), "gsm8k, odd": (2, 1), "a large model": (1, 1), "tatqa": (1, 1)}
    assert all(told["found_with_operation"] == 1 and told["false_alarms"] == 0 for told in sources.values())


def test_functions_of_given_numbers_are_counted_by_kind_of_text(run):
    told = run(functions, "--adapter", "tiny", "--count", 6, "--per_group", 1)
    assert len(told["sets"]) == 7
    assert set(told["sets"]["lists, unseen layouts"]["groups"]) & {f"up to {most}" for most in (5, 10, 20, 30, 50)}
    for counts in told["sets"].values():
        assert counts["texts"] == 6
        assert counts["right"] <= 1


def test_leave_one_out_measures_each_rule_on_each_set(run, tmp_path):
    line = ("--base", "tiny", "--adapter", "tiny", "--sets", "three_numbers", "-n", 5)
    (table,) = run(leave_one_out, *line)["confidences"].values()
    assert set(table) == set(leave_one_out.RULES)
    assert all(set(counts) == {"three_numbers"} for counts in table.values())


def test_every_equals_of_texts_by_others_is_right_wrong_or_silent_whatever_the_text_says(run, tmp_path):
    rows = [
        {"prompt": "How many?", "solution": "She has 48/2 = 24 clips. So 24 + 10 = 35."},
        {"question": "And here?", "answer": "x=5\n48/2 = <<48/2=24>>24 clips."},
        {"prompt": "And in LaTeX?", "solution": r"**Cost:** \( \frac{48}{2} \times \$2 = \$48 \)"},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = run(written_by_others, path, "--base", "tiny", "--adapter", "tiny")
    none = dict.fromkeys(("right", "wrong", "silent", "unknown"), 0)
    assert found["sites"] == {"due": {**none, "n": 4, "right": 4}, "others": {**none, "n": 1, "silent": 1}}
    assert (found["right_of_due"], found["wrong_of_ok"]) == (1, 0)
    path.write_text(json.dumps({"prompt": "What?"}) + "\n")
    with pytest.raises(ValueError, match="Line 1 has no `prompt` and `solution`"):
        run(written_by_others, path, "--base", "tiny", "--adapter", "tiny")


def test_operators_are_counted_and_silence_costs_less_than_a_request(run):
    beyond = {name: cell["beyond"] for name, cell in run(operators)["operators"].items()}
    assert 0 < beyond["silent token"] < beyond["no numbers"] < beyond["request in symbols"]


@pytest.mark.slow
def test_overhead_times_all_methods_on_shapes_and_on_a_saved_base(run):
    sizes = ("--batches", 1, "--prompts", 16, "--steps", 2, "--rounds", 1)
    cells = run(overhead, "--shapes", "tiny", *sizes)["shapes"]["tiny"]["cells"]
    assert [cell["text"] for cell in cells] == ["calculation", "numbers", "plain"]
    assert set(cells[0]["parts"]["prefill"]) == {"base", "lora", "igc_hidden", "igc_tokens"}
    (told,) = run(overhead, "--shapes", TINY_FOLDER, "--adapters", TINY_ADAPTER_FOLDER, *sizes)["shapes"].values()
    assert set(told["cells"][0]["parts"]["prefill"]) == {"base", TINY_ADAPTER_FOLDER.name}
    assert set(told["host reading"][TINY_ADAPTER_FOLDER.name]) == {"64", "512", "4096"}


def test_the_operator_of_the_engine_writes_where_a_result_is_open_and_nowhere_else(run):
    cells = run(engine_op, "--shape", "tiny", "--length", 64, "--rows", 1, 2, "--rounds", 1)["cells"]
    found = [(cell["state"], cell["rows"], cell["written"], cell["changed"], cell["base_changed"]) for cell in cells]
    assert found == [("silent", 1, 0, 0, 0), ("result", 1, 1, 1, 0), ("silent", 2, 0, 0, 0), ("result", 2, 2, 2, 0)]
    assert all(set(cell["overhead"]) == {"at once", "late"} for cell in cells)


@pytest.mark.slow
def test_the_costs_on_a_gpu_are_measured_at_small_dimensions_on_a_cpu(run):
    cells = run(gpu, "--shape", "tiny", "--lengths", 64, "--rows", 1, 2, "--prompt", 64, "--rounds", 3)["cells"]
    assert {cell["part"] for cell in cells} == {"decode", "prefill"}
    assert {cell["rows"] for cell in cells} == {1, 2}


@pytest.mark.slow
def test_a_short_soak_finds_no_wrong_answer(run, monkeypatch):
    monkeypatch.setattr(soak, "HEAP", 2**24)  # the threads are not yet done with making buffers
    monkeypatch.setattr(soak, "SAMPLES", 4)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0")
    found = run(soak, "--adapter", TINY_ADAPTER_FOLDER, "--generations", 60, "--threads", 2, "--minutes", 0.05)
    assert found["faults"] == []
    assert found["alone"]["wrong"] == found["together"]["wrong"] == 0


@pytest.mark.slow
def test_ablations_and_methods_train_and_test_all_that_they_compare(run, monkeypatch):
    monkeypatch.setattr(ablations, "VALIDATION_ITEMS", 1)
    sizes = ("--rows", 64, "--steps", 2, "--search-steps", 1)
    found = run(ablations, *sizes, "--seeds", 0, "--per-group", 1)
    assert set(found["runs"]) == {"igc", "lora"}
    few = ("--batch-size", 8, "--per-cell", 1, "--validation", 1, "--longest", 2)
    found = run(methods, *sizes, *few, "--methods", "base", "tool", "igc_tokens")
    assert set(found["runs"]) == set(found["timing"]) == {"base", "tool", "igc_tokens"}


@pytest.mark.slow
def test_gsm8k_solutions_trains_and_measures_both_kinds(run, tmp_path):
    data = tmp_path / "rows.jsonl"
    rows = WorkedSolutions(seed=5).take(24)
    data.write_text("".join(json.dumps({k: row[k] for k in ("question", "answer")}) + "\n" for row in rows))
    line = ["--base", "tiny", "--data", data, "--rows", 16, "--generated", 8, "--held-out", 4, "--seen", 0]
    line += ["--longest", 24, "--keep", tmp_path / "kept", "--calculator", "tiny", "--sites", 8, "--site-steps", 2]
    line += ["--reading-steps", 2, "--again-steps", 2, "--device", "cpu"]
    found = run(gsm8k_solutions, *line)["runs"]
    joint, alone = found["igc+lora, seed 0"], found["lora, seed 0"]
    assert abs(joint["training"]["parameters"] / alone["training"]["parameters"] - 1) < 0.02
    assert joint["given"]["n"] == alone["given"]["n"] > 0
    assert set(alone["given"]["counts"]) <= {"no step, right", "no step, wrong"}
