"""Promises of `patches.toml`: the list is complete, each target exists, and all goes with the adapter."""

import importlib
import tomllib
from pathlib import Path

import pytest
from checks import IDS
from peft import PeftModel, get_peft_model
from peft.tuners.tuners_utils import BaseTuner
from tiny_models import small_config, tiny_model
from transformers import DynamicCache, PreTrainedModel
from trl.generation.vllm_generation import VLLMGeneration

from peft_igc import register
from peft_igc.tuner import hooks
from peft_igc.tuner.hooks.install import _WRAPPERS


pytestmark = pytest.mark.versions

PATCHES = tomllib.loads(Path(hooks.__file__).with_name("patches.toml").read_text())["patch"]
OF = {
    scope: [(patch["target"], name) for patch in PATCHES if patch["scope"] == scope for name in patch["names"]]
    for scope in ("class", "model", "cache", "manager")
}


def test_what_is_replaced_exists_and_has_a_version_and_a_way_out():
    for patch in PATCHES:
        module, _, name = patch["target"].rpartition(".")
        kind = getattr(importlib.import_module(module), name)
        assert all(callable(getattr(kind, function)) for function in patch["names"]), patch
        assert patch["version"].split()[0] in ("peft", "torch", "transformers", "trl")
        assert patch["purpose"]
        assert patch["way_out"]
        assert OF[patch["scope"]]


def test_a_model_and_one_layer_of_its_caches_have_the_listed_methods_replaced_once():
    base, cache = tiny_model("llama"), DynamicCache()
    names = {name for _, name in OF["model"]}
    assert names == {kind.name for kind in _WRAPPERS}
    model = get_peft_model(base, small_config())
    wrappers = {name: vars(base)[name] for name in names}
    model.add_adapter("second", small_config())
    assert {name: vars(base)[name] for name in names} == wrappers
    model.generate(input_ids=IDS, max_new_tokens=2, past_key_values=cache)
    (changed,) = [layer for layer in cache.layers if vars(type(layer)).get("_igc_following")]
    own = {name for name, value in vars(type(changed)).items() if callable(value) and name != "__reduce__"}
    assert own == {name for _, name in OF["cache"]}


def test_the_listed_functions_of_classes_are_replaced_once():
    classes = (BaseTuner, PeftModel, PreTrainedModel, VLLMGeneration)
    replaced = {(kind, name) for kind in classes for name in vars(kind) if hasattr(getattr(kind, name), "_igc")}
    assert {(kind.__name__, name) for kind, name in replaced} == {
        (target.rpartition(".")[2], name) for target, name in OF["class"]
    }
    before = {(kind, name): vars(kind)[name] for kind, name in replaced}
    register()
    for (kind, name), function in before.items():
        assert vars(kind)[name] is function
        assert not hasattr(getattr(kind, name).__wrapped__, "_igc")
