"""Promises of the adapter inside the package: it calculates at once, and `tiny` names it where a folder is expected.

No test depends on its weights beyond plain questions: `recipes/embed_tiny_adapter.py` may write others.
"""

import json

import pytest
from safetensors.torch import load_file

from peft_igc import tiny_igc
from peft_igc.inference import loading
from peft_igc.inference.evaluation import generate_answers
from peft_igc.inference.loading import find_adapter, load_adapter, load_base
from peft_igc.tuner.base_model import TINY_ADAPTER_FOLDER


QUESTIONS = {
    "What is 58 times 36?": "2088",
    "What is 12345678901 plus 98765432109?": "111111111010",
    "What is 5 minus 88?": "-83",
    "What is 4711 divided by 7?": "673",
}


def test_it_answers_at_once():
    model, tokenizer = tiny_igc()
    assert all(a is not b for a, b in zip(model.parameters(), tiny_igc()[0].parameters(), strict=True))
    assert not model.training
    assert model.active_adapter == "default"
    assert dict(zip(QUESTIONS, generate_answers(model, tokenizer, list(QUESTIONS)), strict=True)) == QUESTIONS
    with model.disable_adapter():  # it is not the base that knows
        assert generate_answers(model, tokenizer, ["What is 12345678901 plus 98765432109?"]) != ["111111111010"]


def test_its_files_are_small_and_name_no_machine():
    files = {path.name for path in TINY_ADAPTER_FOLDER.iterdir()}
    assert files == {"README.md", "adapter_config.json", "adapter_model.safetensors"}
    assert sum(path.stat().st_size for path in TINY_ADAPTER_FOLDER.iterdir()) < 5_000_000
    assert json.loads((TINY_ADAPTER_FOLDER / "adapter_config.json").read_text())["base_model_name_or_path"] == "tiny"
    assert "/work" not in (TINY_ADAPTER_FOLDER / "README.md").read_text()


def test_the_name_is_no_folder_of_the_place_where_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    assert find_adapter("tiny") == TINY_ADAPTER_FOLDER
    with pytest.raises(FileNotFoundError, match="The folder `tiny` contains no `adapter_config.json`"):
        find_adapter("./tiny")


def test_a_package_without_it_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "TINY_ADAPTER_FOLDER", tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match="Install the package again, or make .* `peft-igc demo`"):
        tiny_igc()


@pytest.mark.slow
def test_the_program_that_writes_it_rounds_only_what_answers_the_same(tmp_path, capsys):
    import runpy

    program = runpy.run_path("recipes/embed_tiny_adapter.py")
    program["main"](["--adapter", "tiny", "--output", str(tmp_path / "out"), "--per-suite", "4"])
    assert "torch.bfloat16: 0 of" in capsys.readouterr().out
    base, tokenizer = load_base("tiny")
    assert generate_answers(load_adapter(base, tmp_path / "out"), tokenizer, list(QUESTIONS)[:1]) == ["2088"]
    folders = (tmp_path / "out", TINY_ADAPTER_FOLDER)
    made, shipped = (load_file(folder / "adapter_model.safetensors") for folder in folders)
    assert {name: x.nbytes for name, x in made.items()} == {name: x.nbytes for name, x in shipped.items()}
