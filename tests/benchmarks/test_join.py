"""Results measured apart are joined only if they were made alike, and no run is overwritten."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


JOIN = Path(__file__).parents[2] / "benchmarks" / "join.py"
META = {"commit": "a", "settings": {"steps": 3}, "base": {"exact_match": 0.1}}


def join(tmp_path, *results):
    """Runs the command; the joined results, or what it said."""
    paths = []
    tmp_path.mkdir(exist_ok=True)
    for number, made in enumerate(results):
        paths.append(str(tmp_path / f"{number}.json"))
        Path(paths[-1]).write_text(json.dumps(made))
    output = tmp_path / "joined.json"
    done = subprocess.run(
        [sys.executable, str(JOIN), *paths, "--output", str(output)], capture_output=True, text=True, check=False
    )
    assert output.exists() == (done.returncode == 0)
    return json.loads(output.read_text()) if output.exists() else done.stderr


def test_runs_by_seed_are_joined(tmp_path):
    one, other = META | {"runs": {"0": {"right": 0.5}}}, META | {"runs": {"1": {"right": 0.25}}}
    assert join(tmp_path, one, other) == META | {"runs": {"0": {"right": 0.5}, "1": {"right": 0.25}}}


def test_runs_by_method_and_seed_are_joined_with_what_was_searched(tmp_path):
    one = META | {"runs": {"igc": {"0": {"right": 1}}, "lora": {"0": {"right": 2}}}, "learning_rates": {"lora": 0.1}}
    other = META | {"runs": {"igc": {"1": {"right": 3}}}}
    third = META | {"runs": {"shortcut": {"0": {"right": 4}}}, "learning_rates": {"shortcut": 0.2}}
    made = join(tmp_path, one, other, third)
    assert made["runs"] == {
        "igc": {"0": {"right": 1}, "1": {"right": 3}},
        "lora": {"0": {"right": 2}},
        "shortcut": {"0": {"right": 4}},
    }
    assert made["learning_rates"] == {"lora": 0.1, "shortcut": 0.2}


def test_the_lists_of_runs_in_the_settings_are_joined_too(tmp_path):
    one = META | {"settings": {"steps": 3, "seeds": [0, 1], "kinds": ["lora"]}, "runs": {"0": {}, "1": {}}}
    other = META | {"settings": {"steps": 3, "seeds": [2], "kinds": ["igc", "lora"]}, "runs": {"2": {}}}
    assert join(tmp_path, one, other)["settings"] == {"steps": 3, "seeds": [0, 1, 2], "kinds": ["igc", "lora"]}
    assert "were not made alike: 'settings'" in join(tmp_path / "odd", one, META | {"runs": {}})


@pytest.mark.parametrize("key", sorted(META))
def test_what_was_made_otherwise_is_refused(tmp_path, key):
    one, other = META | {"runs": {"0": {}}}, META | {"runs": {"1": {}}, key: "odd"}
    said = join(tmp_path, one, other)
    assert "1.json` and " in said
    assert f"were not made alike: '{key}' is 'odd' and {META[key]!r}" in said


def test_what_only_one_of_them_was_told_is_refused(tmp_path):
    said = join(tmp_path, META | {"runs": {}}, META | {"runs": {}, "threads": 2})
    assert "'threads' is 2 and None" in said


def test_another_run_of_the_same_seed_is_refused(tmp_path):
    one, other = META | {"runs": {"0": {"right": 0.5}}}, META | {"runs": {"0": {"right": 0.75}}}
    assert "the run with 'right' = 0.75 is in another file with 0.5" in join(tmp_path, one, other)
    assert join(tmp_path, one, one) == one
