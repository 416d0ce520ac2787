"""The recipes' own benchmark runs the commands of the headers, and nothing else."""

import json
import sys

import pytest

from benchmarks.accuracy import recipe_runs
from tests.recipes.test_recipes import TEXTS


def test_every_command_of_a_recipe_for_the_embedded_base_is_run():
    assert {f"{name}.yaml" for name in recipe_runs.OF_TINY} == {name for name in TEXTS if name.startswith("tiny_")}
    assert len(recipe_runs.commands("tiny_tokens")) == 2
    for name in recipe_runs.OF_TINY:
        assert len(recipe_runs.commands(name)) == TEXTS[f"{name}.yaml"].count("#   peft-igc sft")


def test_recipes_that_need_no_gpu_can_be_run_if_they_have_one_base(tmp_path, monkeypatch, capsys):
    assert {"smollm2_135m", "smollm2_135m_hidden", "smollm2_135m_lora"} < set(recipe_runs.ON_CPU)
    assert not {"llama31_8b", "qwen25_7b"} & set(recipe_runs.ON_CPU)
    line = ["--output", str(tmp_path / "r.json"), "--recipes", "tiny_tokens", "smollm2_135m"]
    monkeypatch.setattr(sys, "argv", ["recipe_runs.py", *line])
    with pytest.raises(SystemExit):
        recipe_runs.main()
    assert r"several bases, ['.cache/smollm2/base', 'tiny']" in capsys.readouterr().err


@pytest.mark.slow
def test_a_recipe_is_trained_and_evaluated(tmp_path, monkeypatch):
    few = "--max_steps 2 --warmup_steps 0 --per_device_train_batch_size 4 --igc_generated_rows 16"
    line = ["--output", str(tmp_path / "r.json"), "--recipes", "tiny_joint", "--per-group", "1", "--add", few]
    monkeypatch.setattr(sys, "argv", ["recipe_runs.py", *line])
    recipe_runs.main()
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["settings"] == {"per_group": 1, "added": few.split()}
    assert list(found["runs"]["tiny_joint"]) == recipe_runs.commands("tiny_joint")
    for run in (found["base"], *found["runs"]["tiny_joint"].values()):
        assert run["n"] == 20
        assert 0 <= run["exact_match"] <= 1


@pytest.mark.slow
def test_a_base_that_was_trained_too_is_the_one_that_is_evaluated(monkeypatch):
    few = [
        "--max_steps",
        "2",
        "--warmup_steps",
        "0",
        "--per_device_train_batch_size",
        "4",
        "--igc_generated_rows",
        "16",
    ]
    seen = []
    monkeypatch.setattr(recipe_runs, "scores", lambda model, *_: {"base": seen.append(model.config.name_or_path)})
    for name in ("tiny_joint", "tiny_tokens"):
        recipe_runs.measured(recipe_runs.commands(name)[0], "tiny", [], few)
    assert [path.endswith("/base") for path in seen] == [True, False]


@pytest.mark.slow
def test_a_command_that_fails_ends_the_run():
    with pytest.raises(SystemExit, match="The command failed: .*--max_steps none"):
        recipe_runs.measured(recipe_runs.commands("tiny_lora")[0], "tiny", [], ["--max_steps", "none"])
