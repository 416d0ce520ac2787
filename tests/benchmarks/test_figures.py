"""The figures of the documentation that no program writes are those of the recorded runs.

Tables between marks are `tests/benchmarks/test_tables.py`'s.
"""

from __future__ import annotations

import json
import math
import re

import pytest
from documentation import ROOT, section, text_of


RESULTS = ROOT / "benchmarks" / "results"
PAGE = text_of("benchmarks/README.md")
SECTIONS = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
OPERATIONS = ("addition", "subtraction", "multiplication", "division")
SEEDS = ["0", "1", "2", "3", "4"]


def recorded(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def part_of(heading):
    return section(PAGE, f"## {heading}")


def words_of(text):
    return " ".join(text.split())


def rows_of(text):
    """The cells of every row of a page's tables, heads and rules left out."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in rows if not set("".join(row)) <= set("- ")]


def rounded_down(part):
    """Per cent with one decimal; 100.0 only if nothing is wrong."""
    return f"{math.floor(1000 * part + 1e-9) / 10:.1f}"


# -------------------------------------------------------------------------------------------------- what a section has
@pytest.mark.parametrize("heading", [one for one in SECTIONS if one != "What did not work"])
def test_a_section_has_command_date_and_commit(heading):
    part = part_of(heading)
    assert re.search(r"^```bash\n(peft-igc|python) ", part, re.MULTILINE)
    assert re.search(r"^Recorded \d+ \w+ 2026, commit ", part, re.MULTILINE)
    assert f"(#{heading.lower().replace(' ', '-')})" in part_of_index()


def part_of_index():
    return PAGE[: PAGE.index("\n## ")]


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_record_is_named_with_its_commit(path):
    named = re.sub(r"-\d+$", "-N", path.stem)
    parts = [part for part in map(part_of, SECTIONS[:-1]) if f"{named}.json" in part]
    assert parts, f"`{path.name}` is in no section."
    commit = recorded(path.stem).get("commit")
    if commit is None:
        assert any("commit not recorded" in part for part in parts)
    else:
        assert any(re.search(rf"(commit|at|of) {commit[:7]}\b", part) for part in parts)


@pytest.mark.parametrize("name", re.findall(r"`(\w+\.json)`", PAGE))
def test_a_record_that_is_named_exists(name):
    assert (RESULTS / name).is_file() or name == "results.json"


# ----------------------------------------------------------------------------------------------------- token interface
def token_runs():
    found = recorded("token_interface")
    assert list(found["runs"]) == SEEDS
    return found, list(found["runs"].values())


def test_the_readme_names_the_worst_seed_and_the_base():
    _, runs = token_runs()
    worst = min(100 * run["bigbench"]["exact_match"] for run in runs)
    readme = text_of("README.md")
    assert f"**Results**: {worst:.2f}% of BIG-bench arithmetic" in readme
    assert f"({100 * runs[0]['base']:.2f}% without; worst of {len(runs)} seeds)" in readme


def test_the_answers_of_the_token_interface():
    found, runs = token_runs()
    names = ["bigbench", "held_out_phrasings", "long_operands", "negative", "separators", "distractors"]
    names += ["in_sentences", "new_families"]
    expected = []
    for name in names:
        scores = [100 * run[name]["exact_match"] for run in runs]
        base = runs[0]["base"] if name == "bigbench" else found["base"].get(name)
        cells = (min(scores), sum(scores) / 5, *([] if base is None else [100 * base]))
        digits = 2 if name == "bigbench" else 1
        expected.append([f"{cell:.{digits}f}" for cell in cells] + [""] * (3 - len(cells)))
    rows = rows_of(part_of("Token interface"))
    assert [row[1:] for row in rows if len(row) == 4][1:] == expected


def test_the_silence_of_the_token_interface():
    _, runs = token_runs()
    rows = [row[1:] for row in rows_of(part_of("Token interface")) if len(row) == 3][1:]
    names = ("silent", "unsupported", "new_silent", "other_operations")
    counts = [[run[name]["activated"] for run in runs] for name in names]
    assert rows == [[str(min(one)), str(max(one))] for one in counts]
    for run in runs:
        for name in names:
            assert run[name]["with_changed_logits"] == run[name]["activated"]
            assert run[name]["n"] == 1000
        assert len(set(run["number_formats"].values())) == 1
    words = words_of(text_of("docs/limits.md"))
    silent, families = counts[0], counts[2]
    assert f"{min(silent)} to {max(silent)} of 1,000 texts without arithmetic" in words
    assert f"{min(families)} to {max(families)} of 1,000 in families of phrasings that were never trained" in words


def test_the_training_of_the_token_interface():
    _, runs = token_runs()
    words = words_of(part_of("Token interface"))
    (steps,) = {run["training"]["steps"] for run in runs}
    assert f"{steps} steps of {128} rows" in words
    alone = [run["training"] for run in runs if run["hardware"]["torch_threads"] == 2]
    seconds = max(training["seconds"] - training["seconds_of_checks"] for training in alone)
    assert f"{seconds / 60:.1f} minutes on two cores" in words


def test_the_limits_name_what_was_never_trained():
    _, runs = token_runs()
    new, held_out = (
        min(100 * run[name]["exact_match"] for run in runs) for name in ("new_families", "held_out_phrasings")
    )
    words = words_of(text_of("docs/limits.md"))
    assert f"{new:.1f}% of the answers were right in the worst of five seeds" in words
    assert f"in held-out phrasings of trained families {held_out:.1f}%" in words


# ---------------------------------------------------------------------------------------------------- hidden interface
def hidden_runs():
    paths = sorted(RESULTS.glob("demo-seed-*.json"))
    assert len(paths) == 3
    return [recorded(path.stem) for path in paths]


def test_the_answers_of_the_hidden_interface():
    expected = []
    for run in hidden_runs():
        base, igc = (run["summary"][name] for name in ("base", "igc"))
        seconds = run["training"]["seconds"] - run["training"]["seconds_of_checks"]
        cells = [f"{100 * igc[name]:.2f}" for name in ("all", *OPERATIONS)]
        expected.append([f"IGC, seed {run['training']['seed']}", *cells, f"{seconds / 60:.1f}"])
        assert run["igc"]["n"] == run["base"]["n"] == 3523
    expected.insert(0, ["base model", *(f"{100 * base[name]:.2f}" for name in ("all", *OPERATIONS)), ""])
    assert rows_of(part_of("Hidden interface"))[1:] == expected


def test_the_training_of_the_hidden_interface():
    words = words_of(part_of("Hidden interface"))
    for run in hidden_runs():
        training, settings = run["training"], run["settings"]
        assert f"at most {settings['per_group']} items each ({run['igc']['n']:,} in all)" in words
        assert f"adapter of {training['trainable_parameters'] / 1e6:.1f} M parameters" in words
        assert f"{training['steps']:,} steps of {settings['batch_size']} fresh rows" in words


def test_unseen_texts():
    kinds = recorded("beyond")["kinds"]
    columns = ("right", "refused", "wrong_number_written")
    expected = [[name, *(f"{100 * kind[column]:.1f}" for column in columns)] for name, kind in kinds.items()]
    part = part_of("Unseen texts")
    assert sorted(rows_of(part)[1:]) == sorted(expected)
    assert len(expected) == 8
    assert {kind["n"] for kind in kinds.values()} == {300}
    assert "300 texts of each kind" in words_of(part)


# ------------------------------------------------------------------------------------------- solutions, chats, recipes
def test_worked_solutions_and_chats():
    found = recorded("worked_solutions")
    (run,) = found["runs"].values()
    part = part_of("Worked solutions and chats")
    parts = ("whole", "steps_right", "calculations_true")
    expected = [[rounded_down(run["solutions"][name]), rounded_down(found["base"][name])] for name in parts]
    expected += [[rounded_down(run[name]["right"]), ""] for name in ("chats_plain", "chats_full")]
    expected.append([rounded_down(run["bigbench"]["exact_match"]), ""])
    assert [row[1:] for row in rows_of(part) if len(row) == 3][1:] == expected
    words, settings = words_of(part), found["settings"]
    assert f"{run['bigbench']['n']} single questions" in words
    assert f"{settings['single']:,} single questions, {settings['chats']:,} chats" in words
    assert f"{settings['solutions']:,} annotated solutions" in words


def test_the_counts_of_worked_solutions_and_chats():
    (run,) = recorded("worked_solutions")["runs"].values()
    solutions, chats = run["solutions"], [run[name] for name in ("chats_plain", "chats_full")]
    assert sum(chat["beginnings_changed"] for chat in chats) == 0
    assert all(chat["beginnings_compared"] == chat["n"] for chat in chats)
    compared = sum(chat["n"] for chat in chats)
    expected = [
        f"{(1 - solutions['whole']) * solutions['n']:.0f}",
        f"{(1 - solutions['calculations_true']) * solutions['calculations_written']:.0f}",
        f"{compared} of {compared}",
        f"{sum(chat['silent_turns_written_to'] for chat in chats)}",
        *(f"{chat['silent_turns_activated']} of {chat['silent_turns']}" for chat in chats),
    ]
    rows = [row for row in rows_of(part_of("Worked solutions and chats")) if len(row) == 2]
    assert [row[1] for row in rows if row[1]] == expected


CORES = {1: "one CPU core", 2: "two CPU cores"}


def recorded_commands():
    """Command, and hardware, minutes and score of its row."""
    for path in sorted(RESULTS.glob("recipe*.json")):
        found = recorded(path.stem)
        device = f"one {gpu}" if (gpu := found["hardware"]["gpu"]) else CORES[found["threads"]]
        for runs in found["runs"].values():
            for line, run in runs.items():
                yield line, [device, f"{run['seconds'] / 60:.1f}", rounded_down(run["exact_match"])]
    found = recorded("smollm2_lora")  # measured by another command
    counts = found["runs"]["0"]["sets"]["bigbench"]
    (minutes,) = re.findall(r"`smollm2_lora.json`\), seed 0, trained in (\S+) minutes", PAGE)
    line = "peft-igc sft --config recipes/smollm2_135m_lora.yaml"
    yield line, [CORES[found["threads"]], minutes, rounded_down(counts["right"] / counts["n"])]


def test_the_table_of_recipes():
    text = text_of("recipes/README.md")
    rows = [row for row in rows_of(text) if len(row) == 5][1:]
    files = {name for row in rows for name in re.findall(r"\]\((\w+\.yaml)\)", row[0])}
    assert files == {path.name for path in (ROOT / "recipes").glob("*.yaml")}
    found = recorded("recipes")
    runs = dict(recorded_commands())
    measured, recipe = {}, ""
    for name, _, hardware, minutes, score in rows:
        recipe = (re.findall(r"\]\((\w+\.yaml)\)", name) or [recipe])[0]
        assert (minutes == "not measured") == (score == "not measured")
        assert score != "not measured" or hardware != CORES[1]
        if score != "not measured":
            option = " ".join(re.findall(r"`(--[^`]*)`", name))
            command = f"peft-igc sft --config recipes/{recipe} {option}".strip()
            (line,) = (one for one in runs if one.startswith(command))
            measured[line] = [hardware, minutes, score]
    assert measured == runs
    assert f"The base model alone has {rounded_down(found['base']['exact_match'])}" in words_of(text)
    assert f"at commit {found['commit'][:7]}" in words_of(text)
    ablations = recorded("ablations")["runs"]
    labels = {"IGC": "igc", "with a shortcut": "igc_and_shortcut", "the shortcut alone": "shortcut_only"}
    labels["LoRA"] = "lora"
    for label, name in labels.items():
        scores = sorted(run["exact_match"] for run in ablations[name].values())
        assert f"{label} {rounded_down(scores[0])} to {rounded_down(scores[-1])}" in words_of(text)


# ---------------------------------------------------------------------------------------------------------------- cost
def test_the_comparison_of_optimizers():
    results = recorded("optimizers")
    rows = {}
    for name, (run,) in results["runs"].items():
        assert run["curve"][-1]["step"] == results["steps"]
        rate = float(name.split()[1])
        rows[name.split()[0], rate] = [f"{100 * run['curve'][-1]['read_accuracy']:.1f}", f"{run['seconds']:.0f}"]
    written = {(row[0], float(row[1].split(",")[0])): row[2:] for row in rows_of(part_of("Optimizers"))[1:]}
    assert written == rows
    best = {kind: max(float(cells[0]) for (name, _), cells in rows.items() if name == kind) for kind, _ in rows}
    assert (
        f"after {results['steps']} steps the reading was right in {best['Muon']:.0f}% of the training rows, with "
        f"AdamW in {best['AdamW']:.0f}% at the best of three rates (`benchmarks/cost/optimizers.py`, one seed)"
    ) in words_of(text_of("docs/training.md"))


def test_the_cost_of_training():
    runs = recorded("training_cost")["runs"]
    firsts = {name: run["first_at_target"] for name, run in runs.items()}
    expected = {name: [f"{first['samples']:,}", f"{first['seconds']:.0f}"] for name, first in firsts.items()}
    assert {row[0]: row[1:] for row in rows_of(part_of("Training cost"))[1:]} == expected


def test_a_training_step():
    methods = recorded("training_step")["step"]["shapes"]["tiny"]["methods"]
    names = {"tokens": "igc_tokens", "hidden": "igc_hidden", "tokens, the reading alone": "igc_tokens_reading"}
    rows = {row[0]: row[1:] for row in rows_of(part_of("Training speed")) if row[0] in names}
    assert set(rows) == set(names)
    for name, cells in rows.items():
        method = methods[names[name]]
        beside = method["step_beside_lora"]
        assert cells[0] == f"{method['steps_per_second']['median']:.2f}"
        assert cells[1] == f"{beside['median']:.2f}"
        if cells[2]:
            assert [float(cell) for cell in cells[2].split(" to ")] == pytest.approx(
                [beside["low"], beside["high"]], abs=0.0051
            )


# ------------------------------------------------------------------------------------------------------------- serving
def test_the_servers_figures_are_the_recorded_ones():
    found = recorded("serving")
    memory, latency = found["resident_mib"], found["latency"]
    places = (memory[0], memory[len(memory) // 2], memory[-1])
    assert rows_of(part_of("Serving"))[1] == [
        f"{found['answers']:,}",
        str(found["differ"]),
        str(found["errors"]),
        f"{math.floor(10 * found['answers_per_second']) / 10}",
        f"{latency['p50']}, {latency['p99']}",
        ", ".join(map(str, places)),
    ]
