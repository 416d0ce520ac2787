"""The command of the ablations: nothing that is asked of it is passed over in silence. Nothing is trained."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.accuracy import ablations


RUN = {"exact_match": 0.5, "operations": dict.fromkeys(ablations.OPERATIONS, 0.5)}
RUN["training"] = {"checks": [{"rows": 128, "exact_match": 0.25}]}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--steps 10", "`--steps`"),
        ("--steps 1200", "`--steps`"),  # the default, but it was asked for
        ("--seeds 0 --search-steps 3", "`--seeds`, `--search-steps`"),
        ("--methods lora --rows 5 --per-group 2 --checks 1", "`--methods`, `--rows`, `--per-group`, `--checks`"),
    ],
)
def test_drawing_alone_refuses_options_of_a_training(words, named, capsys):
    with pytest.raises(SystemExit):
        ablations.parsed(["--output", "x.json", "--only-draw", *words.split()])
    assert f"`--only-draw` trains nothing, so {named} would change nothing" in capsys.readouterr().err
    assert not ablations.parsed(["--output", "x.json", *words.split()]).only_draw


def test_drawing_alone_shows_and_draws_what_is_there(tmp_path, monkeypatch, capsys):
    output, figure = tmp_path / "ablations.json", tmp_path / "ablations.png"
    output.write_text(json.dumps({"base": RUN, "runs": {"igc": {"0": RUN}}}))
    monkeypatch.setattr(sys, "argv", ["ablations.py", "--output", str(output), "--figure", str(figure), "--only-draw"])
    ablations.main()
    assert "50.0 (50.0)" in capsys.readouterr().out
    assert figure.stat().st_size > 1000
