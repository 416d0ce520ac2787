"""Architectures with random weights, a LoRA with the calculator, layers that are read elsewhere, and refusals."""

import json
import shutil

import pytest
import torch
import transformers as tf
from peft import LoraConfig, get_peft_model
from tiny_models import RandomConfig

from benchmarks.common.engine_texts import answers, with_equals_signs
from benchmarks.common.vllm_engines import metric
from peft_igc import assistant_header
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.tuner.base_model import TINY_FOLDER


SIZES = {
    "vocab_size": 3072, "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 4, "head_dim": 32,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "bos_token_id": 1,
    "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
WINDOW = {"sliding_window": 64}
MODELS = {
    "qwen2": (tf.Qwen2Config, {}),
    "qwen3": (tf.Qwen3Config, {}),
    "qwen3_moe": (tf.Qwen3MoeConfig, EXPERTS),
    "gemma2": (tf.Gemma2Config, WINDOW | {"query_pre_attn_scalar": 32}),
    "gemma3": (
        tf.Gemma3TextConfig,
        WINDOW | {"query_pre_attn_scalar": 32, "layer_types": [*["sliding_attention"] * 3, "full_attention"]},
    ),
    "mistral": (tf.MistralConfig, WINDOW),
    "mixtral": (tf.MixtralConfig, EXPERTS),
    "phi3": (tf.Phi3Config, {}),
    "granite": (tf.GraniteConfig, {}),
    "gpt2": (tf.GPT2Config, {"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 512, "n_inner": 128}),
}


def saved_model(folder, name, **more):
    """A model with random weights, whose adapter writes what it likes wherever there are two numbers."""
    make, fields = MODELS[name]
    sizes = {k: SIZES[k] for k in ("vocab_size", "bos_token_id", "eos_token_id")} if name == "gpt2" else SIZES
    torch.manual_seed(0)
    model = tf.AutoModelForCausalLM.from_config(make(**sizes, **fields)).eval()
    for weight in model.parameters():
        weight.data.mul_(3) if weight.dim() > 1 else None  # far from ties
    tokenizer = load_base("tiny")[1]
    model.save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    small = {"reading_dim": 32, "reading_ffn": 32, "num_heads": 4, "writing_ffn": 64, "gate_dim": 16, "num_digits": 12}
    config = RandomConfig.from_tokenizer(tokenizer, anchors=[assistant_header(tokenizer), "="], **small | more)
    adapted = get_peft_model(model, config).eval()
    adapted.save_pretrained(folder / "adapter")
    return load_adapter(tf.AutoModelForCausalLM.from_pretrained(folder / "base"), folder / "adapter")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_architectures_with_random_weights_say_what_generate_says(engine, ask, tmp_path, texts, name):
    model = saved_model(tmp_path, name)
    model.generation_config.eos_token_id = None
    chosen, options = texts[:20], {"max_tokens": 12, "ignore_eos": True}
    expected = answers(model, chosen, 12)
    with model.disable_adapter():
        assert answers(model, chosen, 12) != expected
    with engine(tmp_path / "adapter", tmp_path / "base", max_num_batched_tokens=64) as llm:
        for _ in range(2):
            assert [found[0] for found in ask(llm, chosen, **options)] == expected


def test_records_join_full_attention_where_layers_have_several_kinds(engine, ask, tmp_path, texts):
    """In chunks, from the prefix cache, with several samples, and with fewer blocks than texts need at a time."""
    model = saved_model(tmp_path, "gemma3")
    long = {"max_tokens": 32, "ignore_eos": True}
    texts = texts[::2]
    expected = answers(model, texts, 32, eos_token_id=None)
    with engine(
        tmp_path / "adapter",
        tmp_path / "base",
        num_gpu_blocks_override=40,
        max_model_len=256,
        max_num_batched_tokens=64,
    ) as llm:
        groups = llm.llm_engine.model_executor.driver_worker.worker.model_runner.kv_cache_config.kv_cache_groups
        assert [len(group.layer_names) for group in groups] == [1, 1, 1, 2]
        for _ in range(2):
            assert [found[0] for found in ask(llm, texts, **long)] == expected
        assert metric(llm, "num_preemptions") > 10
        several = ask(llm, texts[:4], n=3, temperature=0.001, top_k=1, **long)
        assert several == [[one] * 3 for one in expected[:4]]
        assert metric(llm, "prefix_cache_hits") > 0


def test_other_layers_may_be_read_than_the_one_that_is_written(engine, ask, tmp_path, texts):
    model = saved_model(tmp_path, "qwen2", layer=2, read_from=[0, 1])
    expected = answers(model, texts[:10], 12, eos_token_id=None)
    with engine(tmp_path / "adapter", tmp_path / "base") as llm:
        assert [found[0] for found in ask(llm, texts[:10], max_tokens=12, ignore_eos=True)] == expected


def test_the_lora_of_a_calculator_is_merged_into_the_base(engine, ask, tmp_path, tokenizer, texts, expected):
    folder = with_equals_signs(tmp_path / "both", tokenizer)
    torch.manual_seed(1)
    modules = ["q_proj", "gate_proj", "down_proj"]
    config = LoraConfig(r=4, lora_alpha=1, target_modules=modules, init_lora_weights=False)
    get_peft_model(load_base("tiny")[0], config).save_pretrained(folder / "low_rank")
    saved = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(saved | {"trained_with": ["low_rank"]}))
    model = load_adapter(load_base("tiny")[0], folder)
    found = answers(model, texts[:20], 24)
    assert found != expected[:20]
    with engine(folder) as llm:
        assert [one[0] for one in ask(llm, texts[:20])] == found


def test_an_adapter_of_another_base_is_refused_before_weights_are_loaded(engine, tmp_path):
    shutil.copytree(TINY_FOLDER, tmp_path / "base")
    config = json.loads((tmp_path / "base" / "config.json").read_text())
    (tmp_path / "base" / "config.json").write_text(json.dumps(config | {"hidden_size": 128, "num_attention_heads": 4}))
    with pytest.raises(ValueError, match="for a base model of hidden size 192, but this one has 128"):
        with engine("tiny", tmp_path / "base"):
            pass


def test_models_that_are_built_in_another_way_are_refused():
    from types import SimpleNamespace

    from peft_igc.engines.vllm import attach

    class Layer(torch.nn.Module):
        def forward(self, x):
            return x, x, x

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([Layer()])
            self.embed_input_ids = None

    with pytest.raises(ValueError, match="`Model` has no list of 2 decoder layers, so .* Serve the model with transf"):
        attach._decoder_layers(Model(), 2)
    layers = attach._decoder_layers(Model(), 1)
    text = SimpleNamespace(hf_text_config=SimpleNamespace(num_hidden_layers=1))
    config = SimpleNamespace(compilation_config=None, model_config=text)
    with pytest.raises(ValueError, match=r"layers \(`Layer`\) have no argument `hidden_states`, so the calculator"):
        attach._attach(Model(), SimpleNamespace(config=None), None, config)
    attach._call_with_output(layers[0], 0, "name")
    with pytest.raises(ValueError, match=r"\(`Layer`\) return neither hidden states nor these with a residual"):
        layers[0](1)
