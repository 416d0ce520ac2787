"""`inference.loading`: which names lead to a model, and what is said about those that do not. No network."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

import peft_igc
from peft_igc.inference import loading
from peft_igc.inference.loading import load_base, tiny_base


TINY_FOLDER = Path(peft_igc.__file__).parent / "assets" / "tiny_base"


@pytest.fixture
def folder(tmp_path):
    """A copy of the embedded base, to be spoiled."""
    return Path(shutil.copytree(TINY_FOLDER, tmp_path / "base"))


def set_tokenizer(folder, **changes):
    """Change `tokenizer_config.json`; `None` removes a key."""
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in settings.items() if value is not None}))


def test_the_embedded_base_comes_in_float32_and_eval_mode():
    model, tokenizer = tiny_base()
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert not model.training
    assert len(tokenizer) == model.config.vocab_size


def test_tiny_and_its_folder_are_the_same_model():
    by_name, _ = load_base("tiny")
    by_folder, _ = load_base(str(TINY_FOLDER), dtype="float32")
    for name, weight in by_name.state_dict().items():
        assert torch.equal(weight, by_folder.state_dict()[name]), name


def test_two_calls_share_no_weights():
    first, _ = tiny_base()
    second, _ = tiny_base()
    with torch.no_grad():
        first.get_input_embeddings().weight.zero_()
    assert second.get_input_embeddings().weight.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, "bfloat16"])
def test_a_type_is_taken_as_object_and_as_name(dtype):
    model, _ = load_base("tiny", dtype=dtype)
    assert model.dtype == torch.bfloat16


def test_a_folder_without_a_type_keeps_the_type_of_its_config(folder):
    assert load_base(folder)[0].dtype == torch.bfloat16
    assert load_base(folder, dtype="auto")[0].dtype == torch.bfloat16


def test_an_unknown_type_is_refused():
    with pytest.raises(ValueError, match=r'`dtype="float99"` is not a torch dtype\. Use "float32"'):
        load_base("tiny", dtype="float99")


def test_a_name_of_torch_that_is_no_type_is_refused():
    with pytest.raises(ValueError, match=r'`dtype="nn"` is not a torch dtype'):
        load_base("tiny", dtype="nn")


def test_a_batch_is_padded_on_the_left():
    _, tokenizer = tiny_base()
    rows = tokenizer(["12345678", "1"], padding=True)
    assert rows["attention_mask"][1][0] == 0
    assert rows["attention_mask"][1][-1] == 1


def test_a_tokenizer_without_padding_token_pads_with_its_end_token_on_the_left(folder):
    set_tokenizer(folder, pad_token=None, padding_side="right")
    assert AutoTokenizer.from_pretrained(folder).pad_token is None  # otherwise this test shows nothing
    _, tokenizer = load_base(folder)
    assert tokenizer.pad_token == tokenizer.eos_token
    assert tokenizer.padding_side == "left"


def test_a_tokenizer_that_cannot_pad_is_refused(folder):
    set_tokenizer(folder, pad_token=None, eos_token=None)
    with pytest.raises(ValueError, match=r"has neither a padding nor an end token\. Set `pad_token`"):
        load_base(folder)


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "a/b/c", "~/no such folder", ""])
def test_a_missing_folder_is_named(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    if name == "":  # the current folder: it exists, and holds no model
        with pytest.raises(FileNotFoundError, match=r"contains no `config\.json`"):
            load_base(name)
        return
    with pytest.raises(FileNotFoundError, match=r"The folder `.*(nowhere|at/all|a/b/c|such folder)` does not exist"):
        load_base(name)


def test_a_missing_path_object_is_never_looked_up_on_the_hub(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`.*llama` does not exist"):
        load_base(tmp_path / "llama")


def test_a_file_in_place_of_a_folder_is_refused(folder):
    with pytest.raises(FileNotFoundError, match=r"`.*config\.json` is a file, not a model's folder"):
        load_base(folder / "config.json")


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"contains no `config\.json`.*`model\.save_pretrained`"):
        load_base(tmp_path)


def test_an_adapters_folder_is_told_from_a_base(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"contains an adapter, not a base model\. .*`PeftModel\.from_pretrained"):
        load_base(tmp_path)


def test_an_installation_without_the_data_says_how_to_make_it(monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "TINY_FOLDER", tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"embedded base model is missing.*pretrain_tiny_base\.py"):
        tiny_base()


@pytest.mark.parametrize("keep", [0, 100_000])
def test_broken_weights_name_their_folder(folder, keep):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"The weights in `.*base` cannot be read: .*Copy the folder again"):
        load_base(folder)


def test_a_folder_without_weights_is_an_error_of_its_own_words(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(OSError, match=r"model\.safetensors"):
        load_base(folder)


def test_a_hub_id_that_cannot_be_fetched_names_the_ways_out(monkeypatch):
    def refuse(name, **_):
        raise OSError(f"no connection for {name}")

    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", refuse)
    message = r"`org/model` is not a local folder .*no connection for org/model.* or \"tiny\""
    with pytest.raises(OSError, match=message):
        load_base("org/model")
