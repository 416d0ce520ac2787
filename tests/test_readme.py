"""The README is true: its code runs as it stands, its tables are those of the recorded runs, it names every module."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tiny_training import WARNINGS


ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RUNS = sorted((ROOT / "benchmarks" / "results").glob("demo-seed-*.json"))
OPERATIONS = ("addition", "subtraction", "multiplication", "division")


@pytest.mark.filterwarnings(*WARNINGS)
def test_the_python_blocks_run_in_their_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "build" / "igc" / "adapter" / "adapter_model.safetensors").is_file()


def test_the_tree_names_every_module_and_no_other():
    tree = README[README.index("## Files") :]
    named = set(re.findall(r"^  (\w+)\.py ", tree, re.MULTILINE))
    assert named == {path.stem for path in (ROOT / "peft_igc").glob("*.py")} - {"__init__"}


def test_the_commands_are_those_of_the_command_line():
    from peft_igc.cli import build_parser

    lines = re.findall(r"^peft-igc (\w+)(.*)$", README, re.MULTILINE)
    assert {name for name, _ in lines} == {"demo", "eval", "trace", "profile"}
    for name, rest in lines:
        arguments = re.findall(r'"[^"]*"|\S+', re.sub(r"\[[^]]*\]", "", rest))
        build_parser().parse_args([name, *(a.strip('"') for a in arguments)])


def test_the_results_are_those_of_the_recorded_runs():
    assert len(RUNS) == 3
    table = README[README.index("## Results") :]
    for path in RUNS:
        run = json.loads(path.read_text(encoding="utf-8"))
        base, igc = (run["summary"][name] for name in ("base", "igc"))
        cells = [f"{100 * igc[name]:.2f}" for name in ("all", *OPERATIONS)]
        seconds = run["training"]["seconds"] - run["training"]["seconds_of_checks"]
        row = f"| IGC, seed {run['training']['seed']} | {' | '.join(cells)} | {seconds / 60:.1f} |"
        assert row in table, row
        assert run["igc"]["n"] == run["base"]["n"] == 3523
    cells = [f"{100 * base[name]:.2f}" for name in ("all", *OPERATIONS)]
    assert f"| base model | {' | '.join(cells)} | |" in table


def test_the_table_of_other_texts_is_that_of_the_benchmark():
    kinds = json.loads((ROOT / "benchmarks" / "results" / "beyond.json").read_text(encoding="utf-8"))["kinds"]
    assert len(kinds) == 8
    for name, score in kinds.items():
        cells = [f"{100 * score[column]:.1f}" for column in ("right", "refused", "wrong_number_written")]
        assert f"| {name} | {' | '.join(cells)} |" in README


def test_the_tables_have_no_other_rows():
    tables = README[README.index("## Results") : README.index("### The token interface, so far")]
    kinds = json.loads((ROOT / "benchmarks" / "results" / "beyond.json").read_text(encoding="utf-8"))["kinds"]
    assert {kind["n"] for kind in kinds.values()} == {300}
    assert "300 texts of each kind" in tables
    figures = [line for line in tables.splitlines() if re.match(r"\|.*\d\.\d", line)]
    assert len(figures) == 1 + len(RUNS) + len(kinds)


def test_the_comparison_of_optimizers_is_that_of_the_benchmark():
    results = json.loads((ROOT / "benchmarks" / "results" / "optimizers.json").read_text(encoding="utf-8"))
    read: dict[str, list[float]] = {"Muon": [], "AdamW": []}
    for name, runs in results["runs"].items():
        assert len(runs) == 1
        assert runs[0]["curve"][-1]["step"] == results["steps"]
        read[name.split()[0]].append(runs[0]["curve"][-1]["read_accuracy"])
    assert [len(figures) for figures in read.values()] == [1, 3]
    muon, adamw = (f"{100 * max(figures):.0f}%" for figures in read.values())
    words = " ".join(README.split())
    assert (
        f"after {results['steps']} steps the reading was right in {muon} of the training rows, with AdamW in {adamw} "
        "at the best of three rates (`benchmarks/optimizers.py`, one seed)"
    ) in words


def test_the_words_above_the_results_are_those_of_the_recorded_runs():
    words = " ".join(README[README.index("## Results") :].split())
    for path in RUNS:
        run = json.loads(path.read_text(encoding="utf-8"))
        training, settings = run["training"], run["settings"]
        assert f"at most {settings['per_group']} items each ({run['igc']['n']:,} in all)" in words
        assert f"adapter of {training['trainable_parameters'] / 1e6:.1f} M parameters" in words
        assert f"{training['steps']:,} steps of {settings['batch_size']} fresh rows" in words


def test_the_figures_of_the_token_interface_are_those_of_the_benchmark():
    found = json.loads((ROOT / "benchmarks" / "results" / "token_interface.json").read_text(encoding="utf-8"))["runs"]
    assert list(found) == ["0"]  # the README says "one seed"
    run = found["0"]
    part = README[README.index("### The token interface, so far") :]
    table = part[: part.index("It is not yet")]
    rows = re.findall(r"^\| ([^|]*[^|-] *)\| ([\d.]+) \| ([\d.]+) \|$", table, re.MULTILINE)
    names = ("held_out_phrasings", "long_operands", "negative", "separators", "distractors")
    expected = [(run["bigbench"]["exact_match"], run["base"])]
    expected += [(run[name]["exact_match"], run[name]["base_exact_match"]) for name in names]
    assert [cells[1:] for cells in rows] == [(f"{100 * igc:.1f}", f"{100 * base:.1f}") for igc, base in expected]
    said = f"it answered {run['silent']['activated']}, of 1,000 with"
    assert said in part
    assert f"and others) {run['unsupported']['activated']}." in part
    assert all(run[name]["n"] == 1000 for name in (*names, "silent", "unsupported"))
    assert all(run[name]["with_changed_logits"] == run[name]["activated"] for name in ("silent", "unsupported"))
    assert f"700 steps, {run['training']['seconds'] / 60:.1f} minutes" in part
