"""What is refused when a calculator is made, used or loaded, with the cure, and that the model stays as it was."""

import json

import pytest
import torch
import transformers as tf
from checks import IDS, logits, nesting, traces
from peft import (
    PeftModel,
    get_peft_model,
    get_peft_model_state_dict,
    inject_adapter_in_model,
    set_peft_model_state_dict,
)
from safetensors.torch import load_file, save_file
from tiny_models import HIDDEN, LAYERS, small_config, tiny_model

from peft_igc import IGCConfig


WEIGHTS = "adapter_model.safetensors"


def test_merging_is_refused_with_the_reason_and_what_to_do_instead():
    model = get_peft_model(tiny_model("llama"), small_config())
    expected = logits(model)
    message = r"IGC cannot be merged into the base model.*Keep the adapter and the base model apart.*`unload\(\)`"
    for refused in (
        model.merge_adapter,
        model.merge_and_unload,
        lambda: model.merge_and_unload(safe_merge=True),
        lambda: model.merge_adapter(["default"]),
    ):
        with pytest.raises(ValueError, match=message):
            refused()
    model.unmerge_adapter()  # nothing was merged: nothing happens
    assert torch.equal(logits(model), expected)


def test_combinations_with_weights_and_different_adapters_for_the_rows_of_a_batch_are_refused():
    model = get_peft_model(tiny_model("llama"), small_config(), adapter_name="a")
    model.add_adapter("b", small_config())
    with pytest.raises(ValueError, match="cannot be combined with weights.*Train one adapter on both data sets"):
        model.add_weighted_adapter(["a", "b"], [0.5, 0.5], "c")
    message = r"IGC does not support `adapter_names`.*one batch per adapter with `set_adapter\(name\)`"
    with pytest.raises(ValueError, match=message):
        model(input_ids=IDS, adapter_names=["a", "b"])
    with pytest.raises(ValueError, match=message):
        model.generate(input_ids=IDS, adapter_names=["a", "__base__"], max_new_tokens=1)
    assert logits(model).isfinite().all()


def test_a_layer_out_of_range_is_refused_and_the_model_stays_as_it_was():
    base = tiny_model("llama")
    before = traces(base)
    for layer in (LAYERS, 40):
        message = rf"`layer={layer}` is out of range: the model has 3 decoder layers \(0\.\.2\). Set `IGCConfig"
        with pytest.raises(ValueError, match=message):
            get_peft_model(base, small_config(layer=layer))
    assert traces(base) == before
    model = get_peft_model(base, small_config())
    expected = logits(model)
    with pytest.raises(ValueError, match="`layer=7` is out of range"):
        model.add_adapter("b", small_config(layer=7))
    assert list(model.peft_config) == ["default"]
    assert torch.equal(logits(model), expected)


SIZES = {"vocab_size": 64, "num_layers": 2, "num_heads": 4}
BERT = tf.BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
T5 = tf.T5Config(**SIZES, d_model=32, d_kv=8, d_ff=64, decoder_start_token_id=0)


def test_models_that_are_no_decoders_are_refused():
    towers = tiny_model("llama")  # whose list of layers has no known name
    towers.model.towers = towers.model.layers
    del towers.model.layers
    for model, message in (
        (tf.BertForMaskedLM(BERT), "`BertForMaskedLM` is not a causal LM.*Pass a model of `Auto"),
        (tf.T5ForConditionalGeneration(T5), "`T5ForConditionalGeneration` is not a causal LM.*Pass a model"),
        (torch.nn.Linear(2, 2), "`Linear` is not a transformers model.*AutoModelForCausalLM.from_pretrained"),
        (towers, "`LlamaForCausalLM` has no list of 3 decoder layers.*known name, which are `layers`, `h`"),
    ):
        with pytest.raises(ValueError, match=message):
            inject_adapter_in_model(small_config(), model)


def test_a_calculator_around_a_calculator_is_refused(adapter):
    model = get_peft_model(tiny_model("llama"), small_config(), adapter_name="a")
    message = r"already has an IGC adapter. Add another one with `model.add_adapter\(name, config\)`"
    with nesting(), pytest.raises(ValueError, match=message):
        get_peft_model(model, small_config(), adapter_name="b")
    with nesting(), pytest.raises(ValueError, match=message):
        PeftModel.from_pretrained(model, adapter, adapter_name="b")
    model.load_adapter(adapter, "b")
    model.set_adapter("b")
    assert logits(model).isfinite().all()


def test_a_damaged_file_is_named_with_the_cure(adapter):
    path = adapter / WEIGHTS
    message = rf"`.*adapter/{WEIGHTS}` is damaged and cannot be read as a safetensors file .*Copy or download it again"
    for damaged in (path.read_bytes()[:20_000], b"not a tensor file" + path.read_bytes()[17:]):  # end, header
        path.write_bytes(damaged)
        for load in (
            lambda: PeftModel.from_pretrained(tiny_model("llama"), adapter),
            lambda: get_peft_model(tiny_model("llama"), small_config()).load_adapter(adapter, "second"),
            lambda: IGCConfig.from_pretrained(str(adapter)),
        ):
            with pytest.raises(ValueError, match=message):
                load()


LLAMA_64 = ("llama", {"hidden_size": 64})
TWO_SIZES = r"`.*adapter` are for a base model of hidden size 32, but `LlamaForCausalLM` has 64.*trained on"
OTHERS = r"are not those of the adapter that its config describes.*\d+ (are mis|are unex)"


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        (LLAMA_64, {"base_model_name_or_path": None}, rf"{TWO_SIZES}\."),
        (LLAMA_64, {"base_model_name_or_path": "org/base"}, f"{TWO_SIZES}, `org/base`"),
        (("gpt2", {}), {}, "on `GPT2LMHeadModel`: .*are missing, such as `transformer.h.1.igc"),
        (("llama", {}), {"num_digits": 6}, r"`.*adapter` do not fit .*shape \(\d+, 32\), .* \(\d+, 32\).*Restore the"),
        (("llama", {}), {"layer": 2}, OTHERS),
        (("llama", {}), {"reading_layers": 0}, OTHERS),
        (("llama", {}), {"reading_layers": 2}, OTHERS),
    ],
)
def test_weights_that_do_not_fit_the_config_or_the_base_are_refused_with_the_cure(base, changes, message, adapter):
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ValueError, match=message):
        PeftModel.from_pretrained(tiny_model(base[0], **base[1]), adapter)


def test_weights_for_another_hidden_size_are_refused_in_every_way_of_loading(adapter):
    with pytest.raises(ValueError, match=f"in `{adapter}` are for a base model of hidden size {HIDDEN}, but .* 64"):
        tiny_model("llama", hidden_size=64).load_adapter(str(adapter))
    weights = get_peft_model_state_dict(get_peft_model(tiny_model("llama"), small_config()))
    model = get_peft_model(tiny_model("llama", hidden_size=64), small_config(), adapter_name="math")
    with pytest.raises(ValueError, match="The weights for adapter 'math' are for a base model of hidden size 32"):
        set_peft_model_state_dict(model, weights, adapter_name="math")


def test_one_missing_weight_is_not_loaded_over_in_silence(adapter):
    weights = load_file(adapter / WEIGHTS)
    del weights["base_model.model.model.layers.1.igc.igc_output_mapping.place"]
    save_file(weights, adapter / WEIGHTS)
    with pytest.raises(ValueError, match=r"1 are missing, such as `model.layers.1.igc.igc_output_mapping.place`"):
        PeftModel.from_pretrained(tiny_model("llama"), adapter)
