"""What an engine cannot serve is refused in a sentence, before any weight of the base is loaded."""

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from peft import LoraConfig, get_peft_model
from tiny_models import small_config, tiny_model

from peft_igc.engines.vllm import register
from peft_igc.engines.vllm.adapter import load, load_config
from peft_igc.engines.vllm.checks import Setting, check_adapter, check_engine, check_tokenizer
from peft_igc.inference.loading import load_base
from peft_igc.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def config():
    return load_config("tiny")


def engine_config(enable_prompt_embeds=False, **changed):
    parallel = {
        "pipeline_parallel_size": 1, "decode_context_parallel_size": 1, "prefill_context_parallel_size": 1,
        "enable_dbo": False,
    }  # fmt: skip
    return SimpleNamespace(
        parallel_config=SimpleNamespace(**parallel | changed),
        model_config=SimpleNamespace(enable_prompt_embeds=enable_prompt_embeds),
    )


def test_ways_of_running_that_hide_tokens_are_refused():
    check_engine(engine_config())
    for name, changed in (
        ("pipeline parallelism", {"pipeline_parallel_size": 2}),
        ("context parallelism", {"decode_context_parallel_size": 2}),
        ("context parallelism", {"prefill_context_parallel_size": 2}),
        ("dual batch overlap", {"enable_dbo": True}),
        ("prompt embeddings", {"enable_prompt_embeds": True}),
    ):
        with pytest.raises(ValueError, match=f"does not run with {name}.* Start the engine without it"):
            check_engine(engine_config(**changed))


def test_settings_of_another_form_are_refused():
    def setting(config):
        return Setting.of(SimpleNamespace(additional_config=config))

    assert setting(None) is None
    assert setting({"igc": {"adapter": "tiny"}}) == ("tiny", True)
    assert setting({"igc": {"adapter": "tiny", "reading": False}}) == ("tiny", False)
    for given in ("tiny", {"adapter": 1}, {"adapter": "tiny", "layer": 2}, {"adapter": "tiny", "reading": 0}):
        with pytest.raises(ValueError, match="DIR_OR_HUB_ID"):
            setting({"igc": given})


def test_adapters_that_an_engine_cannot_serve_are_refused(config):
    check_adapter(config, 5)
    with pytest.raises(ValueError, match=f"is for decoder layer {config.layer}, but the model has 1. Serve the base"):
        check_adapter(config, 1)
    with pytest.raises(ValueError, match="hidden interface, which .* Use `generate` with a padded batch"):
        check_adapter(small_config(anchors={"turns": [[5]]}), 5)
    ends = replace(config, anchors={"prompt_end": True}, vocabulary=config.vocabulary)
    with pytest.raises(ValueError, match="calculates at the end of a prompt, which is no part of a text"):
        check_adapter(ends, 5)
    with pytest.raises(
        ValueError, match=r"`modules_to_save=\['lm_head'\]`, modules of the base that the engine would"
    ):
        check_adapter(replace(config, modules_to_save=["lm_head"], vocabulary=config.vocabulary), 5)


def test_an_adapter_of_other_tokens_is_refused(config):
    tokenizer = load_base("tiny")[1]
    check_tokenizer(config, tokenizer)
    tokenizer.add_tokens(["<more>"])
    check_tokenizer(config, tokenizer)
    known = config.vocabulary
    other = replace(config, vocabulary=Vocabulary([*known.tokens[:7], b"other", *known.tokens[8:]], known.control))
    with pytest.raises(ValueError, match="trained with another tokenizer: token 7 differs. Serve the base"):
        check_tokenizer(other, tokenizer)


def test_an_adapter_of_another_width_or_method_and_one_that_does_not_exist_are_refused(config, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="for a base model of hidden size 192, but this one has 256. Serve the base"):
        load(config, 256)
    get_peft_model(tiny_model("llama"), LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is an adapter of the method .*LORA, not of IGC"):
        load_config(str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_config(str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match="`some/adapter` is no folder, and was not found on the hub"):
        load_config("some/adapter")


def test_a_plugin_that_does_not_run_is_an_error_and_its_import_needs_nothing(monkeypatch):
    """vLLM goes on after an error in the import of a plugin, but not after one in its call."""
    program = "import sys, peft_igc.engines.vllm; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
    monkeypatch.setitem(sys.modules, "peft_igc.engines.vllm.attach", None)
    with pytest.raises(ImportError, match="does not run in this environment .*Install `vllm==0.32"):
        register()
