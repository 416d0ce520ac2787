"""The benchmark of the first token: every adapter beside the base in each prompt, and none that does not answer."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.cost import first_token
from peft_igc import tiny_base


@pytest.fixture
def base(tmp_path):
    model, tokenizer = tiny_base()
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def test_each_prompt_has_a_cell_per_adapter_with_the_base_of_the_same_rounds(base, tmp_path, monkeypatch):
    output = tmp_path / "found.json"
    line = ["", "--base", str(base), "--adapters", "tiny", "--rounds", "3", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", line)
    first_token.main()
    cells = json.loads(output.read_text())["cells"]
    assert [cell["prompt"] for cell in cells] == [*first_token.ASKED, *first_token.SILENT]
    for cell in cells:
        assert (cell["adapter"], cell["layer"]) == ("tiny", 1)
        assert cell["base"]["n"] == cell["seconds"]["n"] == cell["overhead"]["n"] == 3
        assert cell["answered"] == (cell["prompt"] in first_token.ASKED)


def test_an_adapter_that_is_silent_at_a_request_is_refused(base, monkeypatch):
    monkeypatch.setattr(first_token, "ASKED", ("Tell me about rivers.",))
    with pytest.raises(ValueError, match="`tiny` reads None in 'Tell me about rivers.'"):
        first_token.measured(base, [Path("tiny")], rounds=3)


def test_a_folder_that_is_named_twice_is_refused(base):
    with pytest.raises(ValueError, match="names a folder twice"):
        first_token.measured(base, [Path("tiny"), Path("tiny")], rounds=3)
