"""Everything of other packages that this one replaces, with the version that was looked at and the way out.

Those that change a class are a part of the registration (`register`, `plugin`). The others change one causal LM
(`install`) or one layer of a KV cache (`state.cache`), and go with the adapter; or one manager of continuous batching
(`engines.continuous_batching`).

Try it: `pytest tests/tuner/test_patches.py`
"""

from __future__ import annotations

from typing import NamedTuple


__all__ = ["PATCHES", "Patch"]


class Patch(NamedTuple):
    """One replaced function: what works because of it, and what would make it unnecessary."""

    target: str  # a class that has it, with its module
    name: str
    # `class`: every object; `model`: the causal LM with an adapter; `cache`: one layer of a KV cache; `manager`: one
    # manager of continuous batching and its cache
    scope: str
    version: str  # the release that was read
    purpose: str
    way_out: str


_CAUSAL_LM = "transformers.modeling_utils.PreTrainedModel"
_CACHE_LAYER = "transformers.cache_utils.DynamicLayer"
_READ = "transformers 5.23"
_BATCHING = "transformers.generation.continuous_batching"

PATCHES = (
    Patch(
        "peft.tuners.tuners_utils.BaseTuner", "__init__", "class", "peft 0.21",
        purpose="a LoRA around a calculator has the same targets, keys and merge as on the base model alone",
        way_out="PEFT attaches an adapter to the base of a PEFT model that it is given",
    ),
    Patch(
        "peft.PeftModel", "from_pretrained", "class", "peft 0.21",
        purpose="a calculator is loaded onto a base with off-loaded weights, which PEFT would not dispatch again",
        way_out="PEFT keeps accelerate's hooks on the modules that an adapter does not replace",
    ),
    Patch(
        "peft.PeftModel", "load_adapter", "class", "peft 0.21",
        purpose="the same for an adapter that is there, and a warning of a LoRA without its calculator",
        way_out="the same, and a config of PEFT that knows the folder it is loaded from",
    ),
    Patch(
        "trl.generation.vllm_generation.VLLMGeneration", "__init__", "class", "trl 1.16",
        purpose="an error before an engine starts, instead of one when it is sent the merged weights of a calculator",
        way_out="it asks whether a model can be merged, or sends adapters",
    ),
    Patch(
        _CAUSAL_LM, "_call_impl", "model", "torch 2.14",
        purpose="`igc_*` arguments and outputs, and a context that ends with the call, whatever ends it",
        way_out="torch runs the post-hooks of a module after a `KeyboardInterrupt`, too",
    ),
    Patch(
        _CAUSAL_LM, "save_pretrained", "model", _READ,
        purpose="an error instead of a file that leaves out one of two active adapters",
        way_out="it counts the active adapters of all layers",
    ),
    Patch(
        _CAUSAL_LM, "_load_pretrained_model", "model", _READ,
        purpose="`AutoModelForCausalLM`, `load_adapter` and pipelines load vocabulary, weights and companions",
        way_out="its `load_adapter` calls `from_pretrained` of the config's class, and PEFT for the weights",
    ),
    Patch(
        "transformers.LlamaForCausalLM", "generate", "model", _READ,
        purpose="anchors at the end of the prompt, and the steps of each sequence in `igc_steps`",
        way_out="`generate` calls a hook of the model with the prompt, and one with its output",
    ),
    Patch(
        "transformers.LlamaForCausalLM", "prepare_inputs_for_generation", "model", _READ,
        purpose="before a compiled decode step, the choice of the graph that looks for anchors",
        way_out="a decode step that takes as long with the look for anchors as without",
    ),
    Patch(
        "transformers.LlamaForCausalLM", "init_continuous_batching", "model", _READ,
        purpose="refusals before a thread starts, and a manager whose passes have the texts of their requests",
        way_out="a pass of continuous batching is given its requests",
    ),
    Patch(
        f"{_BATCHING}.continuous_api.ContinuousBatchingManager", "_create_batch_processor", "manager", _READ,
        purpose="the same: the cache, which a pass is given, leads to the requests",
        way_out="the same",
    ),
    Patch(
        f"{_BATCHING}.cache.PagedAttentionCache", "search_prefix_match", "manager", _READ,
        purpose="a request is given blocks of another one only as far as their compressed tokens are known",
        way_out="a block carries further tensors",
    ),
    *(
        Patch(
            _CACHE_LAYER, name, "cache", _READ,
            purpose="the state of a text follows the rows and the length of the KV cache",
            way_out="a cache layer carries further tensors by row",
        )
        for name in ("reorder_cache", "batch_repeat_interleave", "batch_select_indices", "crop", "reset")
    ),
)  # fmt: skip
