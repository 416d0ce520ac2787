"""The texts of the tokens are in the file of the weights: every way of loading has them, and the config is small."""

import json
import shutil

import pytest
import torch
from checks import igc_layers, logits
from loading_ways import ALONE, MEMORY, WAYS
from peft import LoraConfig, PeftConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file, save_file
from tiny_models import small_config, tiny_model
from tiny_training import NESTED
from tiny_vocabulary import FACTS, TEXTS, VOCABULARY, encode

from peft_igc import IGCConfig
from peft_igc.inference.loading import read_config
from peft_igc.text import Vocabulary
from peft_igc.text.token_table import TokenTable
from peft_igc.tuner.saving.vocabulary_file import VOCABULARY as KEY


pytestmark = pytest.mark.filterwarnings(*NESTED)

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
IDS = encode("12 + 5 =")[None]
# The same tokens, and one text of another length.
OTHER = Vocabulary([*VOCABULARY.tokens[:-1], b"a longer text"], VOCABULARY.control)


def attached():
    """A tiny model with an adapter."""
    return get_peft_model(tiny_model("llama"), small_config(interface="tokens"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved adapter, and its base in a folder of its own."""
    place = tmp_path_factory.mktemp("adapter")
    tiny_model("llama").save_pretrained(place / "base")
    torch.manual_seed(0)
    model = attached()
    model.peft_config["default"].base_model_name_or_path = str(place / "base")
    model.save_pretrained(place / "adapter")
    return place / "adapter"


def assert_knows(model, vocabulary=VOCABULARY, name="default"):
    """The adapter has the vocabulary in all places."""
    (reader,) = (layer.igc_input_mapping[name] for layer in igc_layers(model) if name in layer.igc_input_mapping)
    assert reader.characters.dtype == torch.uint8
    assert reader.characters.numpy().tobytes() == vocabulary.to_bytes()
    assert reader.tokens.vocabulary == vocabulary
    assert model.peft_config[name].vocabulary == vocabulary
    assert reader.tokens == model.peft_config[name].token_table


def test_the_file_has_one_tensor_more_and_the_config_no_table(folder):
    weights = load_file(folder / WEIGHTS)
    assert [key for key, value in weights.items() if not value.is_floating_point()] == [
        "base_model.model.model.layers.1.igc" + KEY
    ]
    assert (folder / CONFIG).stat().st_size < 2000
    assert json.loads((folder / CONFIG).read_text())["number_tokens"] == FACTS


def beside_another(base, folder):
    """As a further adapter of a model that has one with another vocabulary."""
    model = get_peft_model(base, small_config(interface="tokens", vocabulary=OTHER), adapter_name="other")
    model.load_adapter(str(folder), "default")
    assert_knows(model, OTHER, "other")
    model.set_adapter("default")
    return model


def around_a_lora(base, folder):
    """Around a model with a LoRA that changes nothing."""
    inner = get_peft_model(base, LoraConfig(target_modules="all-linear"), adapter_name="style")
    return PeftModel.from_pretrained(inner, folder)


def pickled(base, folder):
    """From a file of torch."""
    other = folder.parent / "pickled"
    shutil.copytree(folder, other, dirs_exist_ok=True)
    (other / WEIGHTS).unlink()
    torch.save(load_file(folder / WEIGHTS), other / "adapter_model.bin")
    return PeftModel.from_pretrained(base, other)


HERE = {
    **{name: way for name, way in (WAYS | MEMORY).items() if name != "transformers, another name"},
    "AutoPeftModelForCausalLM": ALONE["AutoPeftModelForCausalLM"],
    "beside another": beside_another,
    "around a LoRA": around_a_lora,
    "pickled": pickled,
}


@pytest.mark.parametrize("way", HERE)
def test_every_way_of_loading_has_the_vocabulary_and_the_answers(way, folder, tmp_path):
    torch.manual_seed(0)
    expected = logits(attached(), IDS)
    assert not torch.equal(expected, logits(tiny_model("llama"), IDS))
    torch.manual_seed(1)
    model = HERE[way](tiny_model("llama"), folder)
    assert_knows(model)
    assert torch.equal(logits(model, IDS), expected)
    saved = get_peft_model_state_dict(model)
    prefix = "" if isinstance(model, PeftModel) else "base_model.model."
    assert all(torch.equal(x, saved[key.removeprefix(prefix)]) for key, x in load_file(folder / WEIGHTS).items())
    if isinstance(model, PeftModel):
        model.save_pretrained(tmp_path)
        found, first = load_file(tmp_path / WEIGHTS), load_file(folder / WEIGHTS)
        assert found.keys() == first.keys()
        assert all(torch.equal(found[key], value) for key, value in first.items())


def test_a_cast_leaves_the_vocabulary(tmp_path):
    for cast in (torch.bfloat16, torch.float16, torch.float64):
        model = attached().to(cast)
        assert_knows(model)
        model.save_pretrained(tmp_path)
        for autocast in (True, False):
            again = PeftModel.from_pretrained(tiny_model("llama").to(cast), tmp_path, autocast_adapter_dtype=autocast)
            assert_knows(again)


def damaged(folder, place, change):
    """A copy of an adapter whose vocabulary in the file is another tensor, or none."""
    shutil.copytree(folder, place)
    weights = load_file(folder / WEIGHTS)
    key = next(key for key in weights if key.endswith(KEY))
    made = change(weights.pop(key))
    save_file(weights if made is None else {**weights, key: made}, place / WEIGHTS)
    return place


def without_a_digit():
    """A vocabulary that has no token for the digit 7."""
    return Vocabulary([b"?" if text == "7" else text.encode() for text in TEXTS], VOCABULARY.control)


def as_tensor(vocabulary):
    return torch.tensor(list(vocabulary.to_bytes()), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: None, "1 are missing, such as `.*igc_input_mapping.characters`"),
        (lambda saved: saved[:-1].clone(), "vocabulary in `.*` .* cannot be read: .*Copy the"),
        (lambda saved: saved ^ (torch.arange(len(saved)) == 99), "vocabulary in `.*` .* cannot be read: .*Copy the"),
        (lambda saved: saved.float(), "vocabulary in `.*` .* is of dtype torch.float32 and shape"),
        (lambda saved: as_tensor(without_a_digit()), "the vocabulary.* contradict each other: No token spells .* 7"),
        (lambda saved: as_tensor(Vocabulary([b"1", b"2"])), "names token .*, but the tokens are 0..1"),
    ],
)
@pytest.mark.parametrize("way", ["PeftModel", "a state dict", "transformers"])
def test_a_damaged_vocabulary_is_refused_with_the_cure(way, change, message, folder, tmp_path):
    place = damaged(folder, tmp_path / "copy", change)
    if way == "a state dict":
        message = message.replace("vocabulary in `.*`", "vocabulary")
    with pytest.raises(ValueError, match=message):
        HERE[way](tiny_model("llama"), place)


def test_a_vocabulary_of_more_tokens_than_the_base_has_is_refused(folder):
    small = tiny_model("llama", vocab_size=40)
    for more in ({}, {"config": PeftConfig.from_pretrained(str(folder))}):
        with pytest.raises(ValueError, match="The adapter writes numbers with token .*, but the model has 40 tokens"):
            PeftModel.from_pretrained(small, folder, **more)


def test_an_adapter_without_its_vocabulary_says_so_when_it_is_used(folder):
    saved = PeftConfig.from_pretrained(str(folder))
    saved.base_model_name_or_path = None
    with pytest.raises(ValueError, match="has no vocabulary, which is saved with the weights. Load the weights, or"):
        _ = saved.token_table
    model = get_peft_model(tiny_model("llama"), saved)
    with pytest.raises(ValueError, match="has no vocabulary, which is saved with its weights. Load them, or make"):
        logits(model, IDS)


def test_a_config_that_is_read_has_the_vocabulary_and_the_table(folder):
    for found in (IGCConfig.from_pretrained(str(folder)), read_config(folder)):
        assert found.vocabulary == VOCABULARY
        assert found.token_table == TokenTable.of(VOCABULARY, FACTS)
        assert found.loaded_from == str(folder)
