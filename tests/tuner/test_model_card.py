"""Promises of the model card: the same correct one everywhere, without placeholders and paths."""

import json

import pytest
from peft import AutoPeftModelForCausalLM, LoraConfig, get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import tokenizer

from peft_igc import IGCConfig, tiny_base
from peft_igc.tuner.saving.model_card import RECORD, write_card


BAD = ("[More Information Needed]", "Model ID", "<!--", "/tmp", "trl", "PATH_OF", "BASE_MODEL", "None", "assets")


def card(folder):
    return (folder / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def saved(tmp_path):
    """An adapter as a user of PEFT saves it, on a base in a local folder."""
    model = tiny_model("llama")
    model.config.name_or_path = str(tmp_path / "my-base")
    config = IGCConfig.from_tokenizer(tokenizer(), anchors=["="], reading_dim=32, num_heads=4, confidence=0.5)
    made = get_peft_model(model, config)
    made.peft_config["default"].base_model_name_or_path = str(tmp_path / "my-base")
    made.save_pretrained(tmp_path / "adder", save_embedding_layers=False)  # the base is not there
    return tmp_path / "adder"


def test_the_card_says_what_the_adapter_is_and_has_no_placeholder_and_no_path(saved, tmp_path):
    text = card(saved)
    for row in (
        "# IGC adapter for `my-base`",
        "| interface | `tokens`: results are written in single digits |",
        "| decoder layer | 1 |",
        "| operations | `+` `-` `*` `/` |",
        "| digits of an operand, of a result | 40, 40 |",
        "| least probability of a reading (`confidence`) | 0.5 |",
        "token sequences within a text |",
        'base = "my-base"  # the folder of the base model, which has no public name',
        'PeftModel.from_pretrained(model, "adder")',
        "Florian Dietz and Dietrich Klakow",
    ):
        assert row in text
    for words in (*BAD, str(tmp_path)):
        assert words not in text
    assert "base_model" not in text  # a local folder is no hub id
    compile(text.split("```python")[1].split("```")[0], "card", "exec")


def test_the_card_has_the_confidence_of_each_kind(saved):
    path, kinds = saved / "adapter_config.json", {"arithmetic": 0.9, "functions": 0.5, "lists": 0.7}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"confidence": kinds}))
    write_card(saved, "org/base")
    assert "(`confidence`) | arithmetic 0.9, functions 0.5, lists 0.7 |" in card(saved)


def test_what_others_set_and_an_earlier_record_are_kept(saved):
    write_card(saved, "org/base", "me/adder", f"{RECORD}\n\nTrained for 7 steps.\n\n")
    text = card(saved).replace(
        "library_name: peft", "library_name: peft\nlicense: mit\ndatasets:\n- me/sums\nlicence: license"
    )
    (saved / "README.md").write_text(text.replace("tags:\n", "tags:\n- maths\n- base_model:adapter:/some/me/base\n"))
    write_card(saved, "org/base")
    text = card(saved)
    assert "datasets:\n- me/sums\nlibrary_name" in text
    for value in ("\n- me/sums\n- /some/me/rows\n", " me/sums\n", " /some/me/rows\n", "\n- ./rows\n"):
        (saved / "README.md").write_text(text.replace("\n- me/sums\n", value, 1))
        write_card(saved, "org/base")
        assert ("me/sums" in card(saved)) == ("me/sums" in value)
        assert "rows" not in card(saved)
    for kept in ("license: mit\n", "datasets:\n- me/sums\n", "- maths\n", "for 7 steps.", 'model, "me/adder")'):
        assert kept in text
    for words in ("licence: license", "/some/me"):
        assert words not in text
    assert "base_model: org/base\n" in text
    assert "- base_model:adapter:org/base\n" in text
    assert text.count(RECORD) == text.count("## Quick start") == text.count("- igc\n") == 1
    again = card(saved)
    write_card(saved, "org/base")
    assert card(saved) == again
    (saved / "README.md").write_text("# My project\n\nNotes.\n")
    write_card(saved, "org/base")
    assert card(saved).endswith("---\n\n# My project\n\nNotes.\n")


def test_no_path_of_a_base_is_written_and_the_cards_of_other_methods_are_pefts_own(tmp_path):
    for base in ("/some/me/base", "./base", "~/base", "a/b/c", "C:\\\\base"):
        write_card(tmp_path, base)
        assert base not in card(tmp_path)
        assert "base_model" not in card(tmp_path)
        (tmp_path / "README.md").unlink()
    made = get_peft_model(tiny_model("llama"), LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    made.save_pretrained(tmp_path)
    assert "# Model Card for Model ID" in card(tmp_path)
    assert "IGC" not in card(tmp_path)


def test_the_saved_config_has_the_name_of_the_embedded_base_and_the_loaded_one_its_path(tmp_path):
    model, _ = tiny_base()
    get_peft_model(model, small_config()).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["base_model_name_or_path"] == "tiny"
    loaded = IGCConfig.from_pretrained(str(tmp_path))
    assert loaded.base_model_name_or_path == model.config.name_or_path
    assert loaded.to_dict()["base_model_name_or_path"] == "tiny"
    auto = AutoPeftModelForCausalLM.from_pretrained(str(tmp_path))
    assert auto.get_base_model().config.name_or_path == loaded.base_model_name_or_path
