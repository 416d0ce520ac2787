"""Promises of `loading`: which names lead to a model or an adapter, and what is said about those that do not.

No test depends on the weights of the embedded adapter beyond plain questions: `recipes/embed_tiny_adapter.py` may
write others.
"""

import json
import os
import runpy
import shutil
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from tiny_models import tiny_model
from transformers import AutoTokenizer

from peft_igc import generate_answers, tiny_igc
from peft_igc.inference import loading
from peft_igc.inference.loading import find_adapter, load_adapter, load_base, tiny_base
from peft_igc.tuner.base_model import TINY_ADAPTER_FOLDER, TINY_FOLDER


CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
QUESTIONS = {
    "What is 58 times 36?": "2088",
    "What is 12345678901 plus 98765432109?": "111111111010",
    "What is 5 minus 88?": "-83",
    "What is 4711 divided by 7?": "673",
}


@pytest.fixture
def base(tmp_path):
    """A copy of the embedded base, to be spoiled."""
    return Path(shutil.copytree(TINY_FOLDER, tmp_path / "base"))


def set_tokenizer(folder, **changes):
    """Changes `tokenizer_config.json`; `None` removes a key."""
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in settings.items() if value is not None}))


def test_the_embedded_base_comes_in_float32_and_eval_mode_each_time_anew():
    model, tokenizer = tiny_base()
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert not model.training
    assert len(tokenizer) == model.config.vocab_size
    by_folder, _ = load_base(str(TINY_FOLDER), dtype="float32")
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, by_folder.state_dict()[name]), name
    with torch.no_grad():
        model.get_input_embeddings().weight.zero_()
    assert tiny_base()[0].get_input_embeddings().weight.abs().sum() > 0


def test_a_dtype_is_taken_as_object_as_name_or_from_the_config(base):
    for dtype in (torch.bfloat16, "bfloat16"):
        assert load_base("tiny", dtype=dtype)[0].dtype == torch.bfloat16
    for dtype in (None, "auto"):
        assert load_base(base, dtype=dtype)[0].dtype == torch.bfloat16
    for name in ("float99", "nn"):
        with pytest.raises(ValueError, match=rf'`dtype="{name}"` is not a torch dtype\. Use "float32"'):
            load_base("tiny", dtype=name)


def test_a_batch_is_padded_on_the_left_with_the_end_token_if_need_be(base):
    set_tokenizer(base, pad_token=None, padding_side="right")
    assert AutoTokenizer.from_pretrained(base).pad_token is None  # otherwise this test shows nothing
    _, tokenizer = load_base(base)
    assert tokenizer.pad_token == tokenizer.eos_token
    assert tokenizer(["12345678", "1"], padding=True)["attention_mask"][1][0] == 0
    set_tokenizer(base, pad_token=None, eos_token=None)
    with pytest.raises(ValueError, match=r"has neither a padding nor an end token\. Set `pad_token`"):
        load_base(base)


def test_what_is_no_folder_of_a_base_is_named(monkeypatch, base, adapter, tmp_path):
    monkeypatch.chdir(adapter.parent)
    (tmp_path / "empty").mkdir()
    for name, message in [
        ("./nowhere", 'The folder `nowhere` of a base model does not exist. Pass .*, a hub id, or "tiny"'),
        ("a/b/c", "The folder `a/b/c` of a base model does not exist"),
        ("~/no such folder", "The folder `/.*no such folder` of a base model does not exist"),
        (tmp_path / "llama", "`.*llama` of a base model does not exist"),  # a path is never looked up on the hub
        ("", r"contains no `config\.json`"),  # the current folder
        (tmp_path / "empty", r"contains no `config\.json`.*`model\.save_pretrained`"),
        (base / "config.json", r"`.*config\.json` of a base model is a file\. Pass a folder"),
        (adapter, r"contains an adapter, not a base model\. .*`PeftModel\.from_pretrained"),
    ]:
        with pytest.raises((FileNotFoundError, ValueError), match=message):
            load_base(name)


def test_an_installation_without_the_data_says_how_to_make_it(monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "TINY_FOLDER", tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"gone` of a base model does not exist\. .*pretrain_tiny_base\.py"):
        tiny_base()
    monkeypatch.undo()
    monkeypatch.setattr(loading, "TINY_ADAPTER_FOLDER", tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match="Install the package again, or make .* `peft-igc demo`"):
        tiny_igc()


def test_weights_that_are_broken_or_missing_are_named(base):
    weights = base / "model.safetensors"
    whole = weights.read_bytes()
    for keep in (0, 100_000):
        weights.write_bytes(whole[:keep])
        with pytest.raises(ValueError, match=r"The weights in `.*base` cannot be read: .*Copy the folder again"):
            load_base(base)
    weights.unlink()
    with pytest.raises(OSError, match=r"model\.safetensors"):
        load_base(base)


def test_a_hub_id_that_cannot_be_fetched_names_the_ways_out(monkeypatch):
    def refuse(name, **_):
        raise OSError(f"no connection for {name}")

    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", refuse)
    message = r"`org/model` is not a local folder .*no connection for org/model.* or \"tiny\""
    with pytest.raises(OSError, match=message):
        load_base("org/model")


def test_other_methods_can_be_loaded_to_be_compared(tmp_path):
    get_peft_model(tiny_model("llama"), LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path)
    assert load_adapter(tiny_model("llama"), tmp_path).active_adapter == "default"
    fields = json.loads((tmp_path / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps(fields | {"base_model_name_or_path": "org/base"}))
    with pytest.raises(ValueError, match=r"size mismatch.*trained on, `org/base`"):
        load_adapter(tiny_model("llama", hidden_size=64), tmp_path)
    weights = tmp_path / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"The weights in `.*` cannot be read: .*Copy the folder again"):
        load_adapter(tiny_model("llama"), tmp_path)


def test_a_folder_without_an_adapter_is_not_looked_up_elsewhere(adapter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    assert find_adapter("tiny") == TINY_ADAPTER_FOLDER
    for name, message in [
        ("nowhere", "The adapter folder `nowhere` does not exist"),
        ("./tiny", f"The folder `tiny` contains no `{CONFIG}`"),
    ]:
        with pytest.raises(FileNotFoundError, match=message):
            load_adapter(tiny_model("llama"), name)
    (adapter / WEIGHTS).unlink()
    with pytest.raises(FileNotFoundError, match=f"contains no `{WEIGHTS}`"):
        load_adapter(tiny_model("llama"), adapter)


def test_an_unreadable_config_is_named(adapter, monkeypatch):
    path = adapter / CONFIG
    with path.open("wb") as file:
        file.truncate((1 << 26) + 1)  # sparse
    with pytest.raises(ValueError, match="has 67,108,865 bytes, which no config has"):
        load_adapter(tiny_model("llama"), adapter)
    for text in ("[" * 100_000, "{", "[]", '{"peft_type": "NOSUCH"}', "{}"):
        path.write_text(text)
        with pytest.raises(ValueError, match=rf"{CONFIG}` cannot be read: .*Copy the folder again"):
            load_adapter(tiny_model("llama"), adapter)

    def missing(*args, **kwargs):
        raise ImportError("scikit-learn is required for AdaMSS")

    monkeypatch.setattr("peft_igc.inference.loading.PeftConfig.from_pretrained", missing)
    with pytest.raises(ValueError, match=f"{CONFIG}` cannot be read: scikit-learn is required for AdaMSS"):
        load_adapter(tiny_model("llama"), adapter)


def test_weights_that_are_no_numbers_of_the_right_shape_are_refused_by_every_way_of_loading(adapter):
    path = adapter / WEIGHTS
    weights = load_file(path)
    first = sorted(weights)[0]
    (norm,) = [key for key in weights if key.endswith(".igc_input_mapping.norm.weight")]
    for name, value, message in [
        (first, weights[first].clone().fill_(float("nan")), "is not finite: the training diverg"),
        (first, weights[first].clone().fill_(float("inf")), "is not finite"),
        (first, weights[first].to(torch.int32), "dtype torch.int"),
        (norm, torch.tensor(1.0), r"has shape \(\), the config requires \(32,\)"),
    ]:
        save_file(weights | {name: value}, path)
        for load in (load_adapter, lambda base, where: PeftModel.from_pretrained(base, str(where))):
            with pytest.raises(ValueError, match=rf"`.*` .*{message}"):
                load(tiny_model("llama"), adapter)


def test_a_pickle_that_would_run_a_program_is_not_unpickled(adapter, tmp_path):
    class Program:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'executed'}",)

    (adapter / WEIGHTS).unlink()
    torch.save({"x": Program(), "y": torch.zeros(50_000)}, adapter / "adapter_model.bin")
    with pytest.raises(ValueError, match="holds more than tensors, which could be a program. Save the adapter again"):
        load_adapter(tiny_model("llama"), adapter)
    assert not (tmp_path / "executed").exists()


def test_the_embedded_adapter_answers_at_once():
    model, tokenizer = tiny_igc()
    assert all(a is not b for a, b in zip(model.parameters(), tiny_igc()[0].parameters(), strict=True))
    assert not model.training
    assert model.active_adapter == "default"
    assert dict(zip(QUESTIONS, generate_answers(model, tokenizer, list(QUESTIONS)), strict=True)) == QUESTIONS
    with model.disable_adapter():  # it is not the base that knows
        assert generate_answers(model, tokenizer, ["What is 12345678901 plus 98765432109?"]) != ["111111111010"]


def test_its_files_are_small_and_name_no_machine():
    assert {path.name for path in TINY_ADAPTER_FOLDER.iterdir()} == {"README.md", CONFIG, WEIGHTS}
    assert sum(path.stat().st_size for path in TINY_ADAPTER_FOLDER.iterdir()) < 5_000_000
    assert json.loads((TINY_ADAPTER_FOLDER / CONFIG).read_text())["base_model_name_or_path"] == "tiny"
    assert "/work" not in (TINY_ADAPTER_FOLDER / "README.md").read_text()


@pytest.mark.slow
def test_the_program_that_writes_it_rounds_only_what_answers_the_same(tmp_path, capsys):
    program = runpy.run_path("recipes/embed_tiny_adapter.py")
    program["main"](["--adapter", "tiny", "--output", str(tmp_path / "out"), "--per-set", "4"])
    assert "torch.bfloat16: 0 of" in capsys.readouterr().out
    base, tokenizer = load_base("tiny")
    assert generate_answers(load_adapter(base, tmp_path / "out"), tokenizer, list(QUESTIONS)[:1]) == ["2088"]
    made, shipped = (load_file(folder / WEIGHTS) for folder in (tmp_path / "out", TINY_ADAPTER_FOLDER))
    assert {name: x.nbytes for name, x in made.items()} == {name: x.nbytes for name, x in shipped.items()}
