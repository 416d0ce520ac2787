"""Tiny causal LMs of the tested architectures, random weights, built without files or network.

`tiny_model("llama")` gives three decoder layers of width 32 in a few milliseconds: seeded, in eval mode, default
initialisation (a residual stream as uneven as that of real models). `small_igc()` gives fields of an `IGCConfig`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as tf
from tiny_vocabulary import FACTS
from tiny_vocabulary import VOCABULARY as TEXTS
from transformers import PreTrainedModel

from benchmarks.common.shapes import RandomConfig
from peft_igc import IGCConfig


VOCABULARY = 128
HIDDEN = 32
LAYERS = 3

_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_LLAMA_LIKE = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    **_SPECIAL,
}
_GPT2_LIKE = {
    "vocab_size": VOCABULARY,
    "n_embd": HIDDEN,
    "n_layer": LAYERS,
    "n_head": 4,
    "n_positions": 256,
    **_SPECIAL,
}

_BLOOM_LIKE = {"vocab_size": VOCABULARY, "hidden_size": HIDDEN, "n_layer": LAYERS, "n_head": 4, **_SPECIAL}
_NEOX_LIKE = {name: value for name, value in _LLAMA_LIKE.items() if name != "num_key_value_heads"}
_OPT_LIKE = _NEOX_LIKE | {"word_embed_proj_dim": HIDDEN, "ffn_dim": 64}

ARCHITECTURES: dict[str, tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = {
    "llama": (tf.LlamaConfig, tf.LlamaForCausalLM, _LLAMA_LIKE),
    # no window: whether one is set is the business of the tests that need it
    "mistral": (tf.MistralConfig, tf.MistralForCausalLM, {**_LLAMA_LIKE, "sliding_window": None}),
    "qwen2": (tf.Qwen2Config, tf.Qwen2ForCausalLM, _LLAMA_LIKE),
    "qwen3": (tf.Qwen3Config, tf.Qwen3ForCausalLM, {**_LLAMA_LIKE, "head_dim": 8}),
    "gemma": (tf.GemmaConfig, tf.GemmaForCausalLM, {**_LLAMA_LIKE, "head_dim": 8}),
    "gpt2": (tf.GPT2Config, tf.GPT2LMHeadModel, _GPT2_LIKE),
    "gpt_neox": (tf.GPTNeoXConfig, tf.GPTNeoXForCausalLM, _NEOX_LIKE),
    "opt": (tf.OPTConfig, tf.OPTForCausalLM, _OPT_LIKE),
    "phi3": (tf.Phi3Config, tf.Phi3ForCausalLM, _LLAMA_LIKE),
    "gptj": (tf.GPTJConfig, tf.GPTJForCausalLM, {**_GPT2_LIKE, "rotary_dim": 4}),
    "bloom": (tf.BloomConfig, tf.BloomForCausalLM, _BLOOM_LIKE),
}


def tiny_model(arch: str, seed: int = 0, **overrides: Any) -> PreTrainedModel:
    """A tiny causal LM in eval mode; the global random state is left as it was.

    Args:
        arch: a key of `ARCHITECTURES`.
        seed: of the weights.
        overrides: fields of the architecture's config.
    """
    make_config, make_model, fields = ARCHITECTURES[arch]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = make_model(make_config(**{**fields, **overrides}))
    # Random models would otherwise end texts at random.
    model.generation_config.eos_token_id = None
    return model.eval()


def small_igc(**overrides: Any) -> dict[str, Any]:
    """Fields of an `IGCConfig` for tiny models, in either interface."""
    tokens = overrides.get("interface") == "tokens"
    fields = {
        "layer": 1,
        "num_digits": 4,
        "reading_dim": 32,
        "reading_ffn": 64,
        "num_heads": 4,
        "writing_ffn": 64,
        "gate_dim": 16,
        **({"number_tokens": FACTS, "vocabulary": TEXTS} if tokens else {"writing_dim": 32}),
    }
    return {**fields, **overrides}


def small_config(init_weights: bool = False, **overrides: Any) -> IGCConfig:
    """A config of `small_igc(...)`, whose new adapters change outputs unless `init_weights`."""
    return (IGCConfig if init_weights else RandomConfig)(**small_igc(**overrides))
