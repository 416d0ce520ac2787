"""Adapters that earlier versions saved are refused with the command that converts them, and then answer as before.

`tests/assets/adapters_0.1` holds one of each interface with the ids and logits that version 0.1.0 gave for them
(torch 2.13.0, float32, x86_64). The tokens adapter was trained for 360 steps, the hidden one has random weights.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from safetensors.torch import load_file, save_file
from traced import batch_of

from peft_igc import IGCConfig, tiny_base
from peft_igc.cli import main
from peft_igc.data.files import read_rows
from peft_igc.inference.loading import load_adapter
from peft_igc.tuner.base_model import TINY_ADAPTER_FOLDER
from peft_igc.tuner.saving.conversion import convert


FOLDER = Path(__file__).parents[1] / "assets" / "adapters_0.1"
NEW = 6  # tokens that were generated
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
INTERFACES = pytest.mark.parametrize("interface", ["tokens", "hidden"])


@pytest.fixture
def old(tmp_path):
    """Copies of the old adapters, by interface."""
    return {name: Path(shutil.copytree(FOLDER / name, tmp_path / name)) for name in ("tokens", "hidden")}


def contents(folder):
    """The bytes of all files of a folder."""
    return {path: path.read_bytes() for path in folder.iterdir()}


def changed(folder, **fields):
    """The folder, with other fields in its config."""
    saved = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**saved, **fields}))
    return folder


@INTERFACES
def test_an_adapter_of_version_0_1_is_refused_with_the_command_that_converts_it(interface, old):
    folder = old[interface]
    message = rf"`{folder}` has format 1, .* Run `peft-igc convert {folder} --tokenizer TOKENIZER`, which keeps the"
    for load in (load_adapter, PeftModel.from_pretrained):
        with pytest.raises(ValueError, match=message):
            load(tiny_base()[0], folder)
    for load in (AutoPeftModelForCausalLM.from_pretrained, tiny_base()[0].load_adapter):
        with pytest.raises(ValueError, match="has format 1, .* Run `peft-igc convert DIR --tokenizer TOKENIZER`"):
            load(str(folder))


@INTERFACES
def test_a_converted_adapter_of_version_0_1_has_its_weights_and_answers_as_before(interface, old, capsys):
    recorded = load_file(FOLDER / "logits.safetensors")
    assert main(["convert", str(old[interface]), "--tokenizer", "tiny"]) == 0
    assert "Converted" in capsys.readouterr().out
    before, after = (load_file(folder / WEIGHTS) for folder in (FOLDER / interface, old[interface]))
    assert {key.rpartition(".")[2] for key in after.keys() - before.keys()} == (
        {"characters"} if interface == "tokens" else set()
    )
    for key, value in before.items():  # an embedding of distances has more rows now, which are copies of its last one
        kept, more = after[key].split([len(value), len(after[key]) - len(value)])
        assert torch.equal(kept, value)
        assert not len(more) or torch.equal(more, value[-1:].expand_as(more))

    config = IGCConfig.from_pretrained(str(old[interface]))
    assert not config.decimals
    if interface == "tokens":
        table = json.loads((FOLDER / "tokens" / CONFIG).read_text())["number_tokens"]
        assert config.token_table.point is None
        assert config.token_table.numbers.keys() == {int(token) for token in table["digits"]}
    base, tokenizer = tiny_base()
    model = load_adapter(base, old[interface])
    batch = batch_of(tokenizer, json.loads((FOLDER / "prompts.json").read_text()))
    with torch.no_grad():
        made = model.generate(**batch, max_new_tokens=NEW, do_sample=False)
        assert torch.equal(made, recorded[f"{interface}.ids"])
        mask = torch.nn.functional.pad(batch["attention_mask"], (0, NEW), value=1)[:, : made.shape[1]]
        logits = model(input_ids=made, attention_mask=mask).logits
    # Bit for bit on the machine that recorded them; other processors add up in another order.
    close = {"atol": 1e-3, "rtol": 1e-4}
    torch.testing.assert_close(logits[:, -NEW:, :256], recorded[f"{interface}.logits_last"], **close)
    torch.testing.assert_close(logits.double().mean(-1), recorded[f"{interface}.logits_mean"], **close)


def test_an_adapter_with_fewer_distances_is_refused_with_the_command_that_gives_it_the_others(old, capsys):
    assert main(["convert", str(old["hidden"])]) == 0  # the hidden interface needs no tokenizer
    files = contents(old["hidden"])
    assert main(["convert", str(old["hidden"])]) == 0
    assert contents(old["hidden"]) == files
    assert "has the present format already" in capsys.readouterr().out
    weights, config = load_file(old["hidden"] / WEIGHTS), (old["hidden"] / CONFIG).read_bytes()
    fewer = {key: value[:9].clone() if key.endswith("distance.weight") else value for key, value in weights.items()}
    save_file(fewer, changed(old["hidden"], max_distance=9) / WEIGHTS)
    with pytest.raises(ValueError, match="has the field `max_distance=9` of an earlier.* Run `peft-igc convert"):
        load_adapter(tiny_base()[0], old["hidden"])
    assert main(["convert", str(old["hidden"])]) == 0
    assert (old["hidden"] / CONFIG).read_bytes() == config
    assert {key: value.shape for key, value in load_file(old["hidden"] / WEIGHTS).items()} == {
        key: value.shape for key, value in weights.items()
    }
    with pytest.raises(ValueError, match="has `max_distance=300`, which is no longer implemented"):
        convert(changed(old["hidden"], max_distance=300), None)


def test_a_conversion_makes_safetensors_of_a_pickle_and_is_done_again_after_an_interrupt(old):
    folder = old["tokens"]
    torch.save(load_file(folder / WEIGHTS), folder / "adapter_model.bin")
    (folder / WEIGHTS).unlink()
    assert main(["convert", str(folder), "--tokenizer", "tiny"]) == 0
    weights = (folder / WEIGHTS).read_bytes()
    shutil.copy(FOLDER / "tokens" / CONFIG, folder)
    assert main(["convert", str(folder), "--tokenizer", "tiny"]) == 0
    assert (folder / WEIGHTS).read_bytes() == weights
    assert {path.name for path in folder.iterdir()} == {CONFIG, WEIGHTS, "README.md"}
    load_adapter(tiny_base()[0], folder)


def as_format_2(folder):
    """The adapter of the package as version 0.2 saved it, as far as the conversion looks at it."""
    weights = load_file(TINY_ADAPTER_FOLDER / WEIGHTS)
    folder.mkdir()
    save_file({key: value for key, value in weights.items() if not key.endswith("characters")}, folder / WEIGHTS)
    saved = json.loads((TINY_ADAPTER_FOLDER / CONFIG).read_text())
    known = IGCConfig.from_pretrained(str(TINY_ADAPTER_FOLDER)).token_table
    table = {
        "digits": {str(token): text.strip() for token, text in known.numbers.items()},
        "spaced": [token for token, text in known.numbers.items() if text[0] == " "],
        **{name: getattr(known, name) for name in ("group", "minus", "point")},
        "vocabulary": "",
    }
    tables = {"number_tokens": table, "symbols": {"codes": "", "sizes": "", "pieces": {}, "words": {}, "header": []}}
    (folder / CONFIG).write_text(json.dumps({**saved, **tables, "format_version": 2}))
    return folder


def test_an_adapter_of_version_0_2_becomes_the_one_of_the_package(tmp_path):
    folder = as_format_2(tmp_path / "old")
    with pytest.raises(ValueError, match="has format 2"):
        load_adapter(tiny_base()[0], folder)
    assert main(["convert", str(folder), "--tokenizer", "tiny"]) == 0
    assert json.loads((folder / CONFIG).read_text()) == json.loads((TINY_ADAPTER_FOLDER / CONFIG).read_text())
    made, shipped = (load_file(one / WEIGHTS) for one in (folder, TINY_ADAPTER_FOLDER))
    assert made.keys() == shipped.keys()
    assert all(torch.equal(value, shipped[key]) for key, value in made.items())


def test_fields_of_earlier_versions_mean_what_they_did(tmp_path):
    folder, tokenizer = as_format_2(tmp_path / "old"), tiny_base()[1]
    saved, weights = ((folder / name).read_bytes() for name in (CONFIG, WEIGHTS))
    for line in read_rows(Path(__file__).with_name("old_fields.jsonl")):
        (folder / CONFIG).write_bytes(saved)
        (folder / WEIGHTS).write_bytes(weights)
        assert convert(changed(folder, **line["before"]), tokenizer)
        assert json.loads((folder / CONFIG).read_text()).items() >= line["after"].items()
    (folder / CONFIG).write_bytes(saved)
    with pytest.raises(ValueError, match="has `decimals=False`, which is no longer implemented"):
        convert(changed(folder, decimals=False), tokenizer)


def test_the_head_that_judged_further_numbers_is_taken_out(tmp_path):
    folder = Path(shutil.copytree(TINY_ADAPTER_FOLDER, tmp_path / "tiny"))
    weights = load_file(folder / WEIGHTS)
    place = next(iter(weights)).partition(".igc_input_mapping.")[0]
    head = {f"{place}.igc_input_mapping.unrelated_head.{name}": torch.zeros(1) for name in ("weight", "bias")}
    save_file(weights | head, folder / WEIGHTS)
    changed(folder, excuse_confidence=0.9, stated_odds=20.0)
    with pytest.raises(ValueError, match=r"`excuse_confidence=0.9` of an earlier version.* Run `peft-igc convert"):
        load_adapter(tiny_base()[0], folder)
    assert main(["convert", str(folder)]) == 0
    assert load_file(folder / WEIGHTS).keys() == weights.keys()
    load_adapter(tiny_base()[0], folder)


def test_what_cannot_be_converted_is_refused_and_left_as_it_is(old, capsys):
    folder = old["tokens"]
    saved = (folder / CONFIG).read_text()
    table = json.loads(saved)["number_tokens"]
    token, digits = list(table["digits"].items())[-1]
    other = table | {"digits": table["digits"] | {token: digits + "99999"}}  # of another tokenizer
    for fields, tokenizer, message in [
        ({"number_tokens": other}, ["tiny"], f"token {token} spelled '{digits}99999' and now spells '{digits}'"),
        ({}, [], "reads tokens. Name its tokenizer with `--tokenizer`"),
        ({"alignment": "right"}, ["tiny"], "has `alignment='right'`, which is no longer implemented. Use the version"),
        ({"fixed_inputs": 16}, ["tiny"], "has `fixed_inputs=16`, which is no longer implemented"),
        ({"shortcut": "only"}, ["tiny"], "has `shortcut='only'`, which is no longer implemented"),
        ({"reading_dropout": 0.1}, ["tiny"], "has `reading_dropout=0.1`, which is no longer implemented"),
        ({"format_version": 4}, ["tiny"], "has the format 4. Upgrade peft-igc"),
        ({"format_version": "2"}, ["tiny"], "has the format '2'"),
        ({"from_the_future": 1}, ["tiny"], "has the field `from_the_future=1`, which this version"),
        ({"peft_type": "LORA"}, ["tiny"], "holds an adapter of the method LORA, which needs no conversion"),
    ]:
        (folder / CONFIG).write_text(saved)
        changed(folder, **fields)
        files = contents(folder)
        assert main(["convert", str(folder), *(["--tokenizer", *tokenizer] if tokenizer else [])]) == 2
        assert message in capsys.readouterr().err
        assert contents(folder) == files
