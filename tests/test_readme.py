"""The README is true: its code runs as it stands, its tables are those of the recorded runs, it names every module."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from tiny_training import WARNINGS

from peft_igc.demo_settings import SETTINGS


ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RUNS = sorted((ROOT / "benchmarks" / "results").glob("demo-seed-*.json"))
OPERATIONS = ("addition", "subtraction", "multiplication", "division")


@pytest.mark.filterwarnings(*WARNINGS)
def test_the_python_blocks_run_in_their_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 3
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
    assert {name for name, _ in lines} == {"demo", "sft", "eval", "trace", "profile", "annotate"}
    for name, rest in lines:
        arguments = re.findall(r'"[^"]*"|\S+', re.sub(r"\[[^]]*\]", "", rest))
        build_parser().parse_args([name, *(a.strip('"') for a in arguments)])


@pytest.mark.filterwarnings(*WARNINGS)
def test_the_commands_of_fine_tuning_are_understood(monkeypatch):
    from peft_igc.sft import parse

    monkeypatch.chdir(ROOT)
    lines = re.findall(r"^peft-igc sft (.*)$", README, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        assert parse(line.split()).launch == []


@pytest.mark.slow
@pytest.mark.filterwarnings(*WARNINGS)
def test_the_command_of_fine_tuning_runs_as_it_stands(tmp_path, monkeypatch):
    from peft_igc import sft

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sft, "has_default", lambda: False)
    (line,) = re.findall(r"^peft-igc sft (.*--output_dir build/sft)$", README, re.MULTILINE)
    assert sft.run(line.split()) == 0
    assert (tmp_path / "build" / "sft" / "adapter_model.safetensors").is_file()
    config = json.loads((tmp_path / "build" / "sft" / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == "tiny"  # no path of this machine


def test_the_results_are_those_of_the_recorded_runs():
    assert len(RUNS) == 3
    table = README[README.index("### The hidden interface") :]
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
    tables = README[README.index("### The hidden interface") : README.index("### Architectures")]
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
    words = " ".join(README[README.index("### The hidden interface") :].split())
    for path in RUNS:
        run = json.loads(path.read_text(encoding="utf-8"))
        training, settings = run["training"], run["settings"]
        assert f"at most {settings['per_group']} items each ({run['igc']['n']:,} in all)" in words
        assert f"adapter of {training['trainable_parameters'] / 1e6:.1f} M parameters" in words
        assert f"{training['steps']:,} steps of {settings['batch_size']} fresh rows" in words


def test_the_figures_of_the_token_interface_are_those_of_the_benchmark():
    found = json.loads((ROOT / "benchmarks" / "results" / "token_interface.json").read_text(encoding="utf-8"))
    runs = list(found["runs"].values())
    assert list(found["runs"]) == ["0", "1", "2", "3", "4"]
    part = README[README.index("## Results") : README.index("### The hidden interface")]
    rows = re.findall(r"^\| ([^|]*[^|-] *)\| ([\d.]+) \| ([\d.]+) \| ([\d.]*) ?\|$", part, re.MULTILINE)
    names = ["bigbench", "held_out_phrasings", "long_operands", "negative", "separators", "distractors"]
    names += ["in_sentences", "new_families"]
    expected = []
    for name in names:
        scores = [100 * run[name]["exact_match"] for run in runs]
        base = runs[0]["base"] if name == "bigbench" else found["base"].get(name)
        cells = (min(scores), sum(scores) / 5, *([] if base is None else [100 * base]))
        digits = 2 if name == "bigbench" else 1
        expected.append(tuple(f"{cell:.{digits}f}" for cell in cells) + ("",) * (3 - len(cells)))
    assert [cells[1:] for cells in rows] == expected
    words = " ".join(part.split())
    said = re.findall(r"(\d+) to (\d+) (?:texts|with|of families)", words[words.index("Silence") :])
    silent = [[run[name]["activated"] for run in runs] for name in ("silent", "unsupported", "new_silent")]
    silent.append([run["other_operations"]["activated"] for run in runs])
    assert said == [(str(min(counts)), str(max(counts))) for counts in silent]
    for run in runs:
        for name in ("silent", "unsupported", "new_silent", "other_operations"):
            assert run[name]["with_changed_logits"] == run[name]["activated"]
            assert run[name]["n"] == 1000
        assert len(set(run["number_formats"].values())) == 1
        assert run["training"]["steps"] == SETTINGS["tokens"].steps
    assert f"{SETTINGS['tokens'].steps} steps of {SETTINGS['tokens'].batch_size} rows" in words
    alone = [run["training"] for run in runs if run["hardware"]["torch_threads"] == 2]
    seconds = max(training["seconds"] - training["seconds_of_checks"] for training in alone)
    assert f"{seconds / 60:.1f} minutes on two cores" in words


def rounded_down(part):
    """Per cent with one decimal; 100.0 only if nothing is wrong."""
    return f"{math.floor(1000 * part + 1e-9) / 10:.1f}"


def test_the_figures_of_worked_solutions_and_chats_are_those_of_the_benchmark():
    found = json.loads((ROOT / "benchmarks" / "results" / "worked_solutions.json").read_text(encoding="utf-8"))
    runs = list(found["runs"].values())
    part = README[README.index("## Results") :]
    part = part[part.index("### In the middle of a text") : part.index("### The hidden interface")]
    rows = re.findall(r"^\| [^|]* \| ([\d., ]+) \| ([\d.]*) ?\|$", part, re.MULTILINE)
    expected = []
    for name in ("whole", "steps_right", "calculations_true"):
        expected.append(([run["solutions"][name] for run in runs], rounded_down(found["base"][name])))
    expected += [([run[name]["right"] for run in runs], "") for name in ("chats_plain", "chats_full")]
    expected.append(([run["bigbench"]["exact_match"] for run in runs], ""))
    assert rows == [(", ".join(map(rounded_down, sorted(scores))), base) for scores, base in expected]
    words = " ".join(part.split())
    assert f"{runs[0]['bigbench']['n']} single questions" in words
    texts = [round((1 - run["solutions"]["whole"]) * run["solutions"]["n"]) for run in runs]
    false = [(1 - run["solutions"]["calculations_true"]) * run["solutions"]["calculations_written"] for run in runs]
    assert f"Of the texts, {' and '.join(map(str, texts))} are wrong" in words
    assert f"of their calculations {' and '.join(f'{count:.0f}' for count in false)}" in words
    settings = found["settings"]
    assert f"{settings['single']:,} single questions, {settings['chats']:,} chats" in words
    assert f"{settings['solutions']:,} annotated solutions" in words
    assert ("one seed" if len(runs) == 1 else f"{len(runs)} seeds") in words
    chats = [run[name] for name in ("chats_plain", "chats_full") for run in runs]
    assert sum(chat["beginnings_changed"] + chat["silent_turns_written_to"] for chat in chats) == 0
    assert f"In all {sum(chat['beginnings_compared'] for chat in chats)} chats" in words
    assert all(chat["beginnings_compared"] == chat["n"] for chat in chats)
    for name in ("chats_plain", "chats_full"):
        counts = sorted(run[name]["silent_turns_activated"] for run in runs)
        told = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        assert f"in {told} of {runs[0][name]['silent_turns']} " in words


def test_the_cost_of_training_is_that_of_the_benchmark():
    runs = json.loads((ROOT / "benchmarks" / "results" / "training_cost.json").read_text(encoding="utf-8"))["runs"]
    words = " ".join(README.split())
    for name, run in runs.items():
        first = run["first_at_target"]
        assert f"after {first['samples']:,} samples and {first['seconds']:.0f} seconds" in words, name
