"""Promises of `igc_init_from`: training begins with saved weights, and what contradicts them is named."""

import json

import pytest
import torch
from peft.utils import SAFETENSORS_WEIGHTS_NAME as WEIGHTS
from peft.utils import get_peft_model_state_dict, load_peft_weights
from safetensors.torch import load_file
from tiny_training import rows

from peft_igc.inference.loading import find_adapter, read_config, tiny_base
from peft_igc.sft.models import _with_saved
from tests.sft.test_sft import LORA, SMALL, arguments, trained, write


KINDS = {"igc": [], "igc+lora": ["--igc_adapter", "igc+lora", *LORA]}


@pytest.fixture(scope="module")
def saved(base, tmp_path_factory):
    """Folders of a calculator, of one beside a LoRA, and of a LoRA; and rows to go on with."""
    folder = tmp_path_factory.mktemp("saved")
    data = write(folder / "d", rows(8))
    for kind in ("igc", "igc+lora"):
        trained(arguments(base, folder / kind, *SMALL, *KINDS[kind], dataset_name=data))
    trained(arguments(base, folder / "lora", "--igc_adapter", "lora", *LORA, dataset_name=data))
    return folder


def go_on(base, saved, out, kind, *more, **changed):
    """A run of no consequence from a saved adapter: one step with a rate of nearly nothing."""
    line = ["--igc_init_from", str(saved / kind), *more]
    options = {"dataset_name": str(saved / "d"), "max_steps": "1", "learning_rate": "1e-30", **changed}
    return trained(arguments(base, out, *line, **options))


def files(folder):
    return {path.relative_to(folder): load_file(path) for path in folder.rglob(WEIGHTS)}


@pytest.mark.parametrize("kind", ["igc", "igc+lora"])
def test_training_begins_with_the_saved_weights(base, saved, tmp_path, kind):
    made = go_on(base, saved, tmp_path / "out", kind, *KINDS[kind])
    before, after = files(saved / kind), files(tmp_path / "out")
    assert before.keys() == after.keys()
    for path, weights in before.items():
        for name, value in weights.items():
            torch.testing.assert_close(after[path][name], value, atol=1e-7, rtol=0)
    trainable = {name for name, p in made.model.named_parameters() if p.requires_grad}
    assert all(".igc." in name or "lora_" in name for name in trainable)
    assert any("lora_" in name for name in trainable) == (kind == "igc+lora")
    for path in ("adapter_config.json", *(["low_rank/adapter_config.json"] if "lora" in kind else [])):
        old, new = (json.loads((folder / path).read_text()) for folder in (saved / kind, tmp_path / "out"))
        assert {name: new[name] for name in old if isinstance(old[name], int | str)} == {
            name: value for name, value in old.items() if isinstance(value, int | str)
        }


def test_other_anchors_for_saved_weights(base, saved, tmp_path):
    go_on(base, saved, tmp_path / "out", "igc", "--igc_anchors", "prompt_end", "=", "--igc_write_again", "false")
    old, new = (json.loads((f / "adapter_config.json").read_text()) for f in (saved / "igc", tmp_path / "out"))
    changed = {name for name in old if new[name] != old[name]}
    assert changed == {"anchors", "write_again"}
    assert ("inline" in old["anchors"], new["write_again"]) == (False, False)
    assert new["anchors"]["inline"]


REFUSED = {
    "layer": ("igc", ["--igc_layer", "2", "--igc_reading_dim", "64"], r"`igc_layer` \(saved: 1\), `igc_reading_dim`"),
    "fewer": ("igc", ["--igc_compares_numbers", "false"], r"`igc_compares_numbers` \(saved: True\)"),
    "interface": ("igc", ["--igc_interface", "hidden"], r"`igc_interface` \(saved: 'tokens'\)"),
    "LoRA": ("igc+lora", [*KINDS["igc+lora"], "--lora_r", "3"], r"`lora_r` \(saved: 16\)"),
    "modules": (
        "igc+lora",
        ["--igc_adapter", "igc+lora", "--lora_target_modules", "q_proj", "k_proj"],
        r"`lora_target_modules` \(saved: \[",
    ),
    "without its LoRA": ("igc+lora", [], "was trained with the adapter in `.*low_rank`, which this run would leave"),
    "no calculator": ("lora", [], "lora` holds a LORA adapter, not a calculator"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_the_saved_adapter_is_named(base, saved, tmp_path, name):
    kind, more, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        go_on(base, saved, tmp_path / "out", kind, *more)


def test_operations_can_be_added_to_a_saved_calculator_or_be_in_another_order():
    config, head = read_config(find_adapter("tiny")), "base_model.model.model.layers.4.igc.igc_input_mapping.operator_"
    before, saved = list(config.operations), load_peft_weights(str(find_adapter("tiny")), device="cpu")
    config.operations = before[::-1]
    turned = get_peft_model_state_dict(_with_saved(tiny_base()[0], config, "tiny"))
    assert torch.equal(turned[f"{head}head.weight"], saved[f"{head}head.weight"][[3, 2, 1, 0, 4]])
    config.operations = ["sum", *before, "percent"]
    model = _with_saved(tiny_base()[0], config, "tiny")
    saved, new = load_peft_weights(str(find_adapter("tiny")), device="cpu"), get_peft_model_state_dict(model)
    heads = {name for name in saved if saved[name].shape != new[name].shape}
    assert {name.rsplit(".", 2)[-2] for name in heads} == {"operator_head"}
    assert all(torch.equal(new[name][[1, 2, 3, 4, 6]], saved[name]) for name in heads)
    assert all(torch.equal(new[name], saved[name]) for name in saved.keys() - heads)
    assert {name.rsplit(".")[-1] for name in new.keys() - saved.keys()} >= {"set_slot", "set_bias"}
    assert any(parameter.requires_grad for parameter in model.parameters())
    assert before == ["+", "-", "*", "/"]
