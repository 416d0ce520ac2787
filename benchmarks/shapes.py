"""Base models with random weights at several sizes, for measurements of time and memory.

`tiny` has the embedded base's sizes, `100m` about 100 million parameters, `8b` those of Llama-3.1-8B; `-4bit` is the
same through bitsandbytes. All have the embedded base's tokenizer, whose ids are a part of the larger vocabularies:
what a step costs does not depend on which numbers the tokens spell. Random weights say nothing about accuracy.
"""

from __future__ import annotations

import gc
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig

from peft_igc import loading


@dataclass(frozen=True)
class Shape:
    """A base model, and how many rows of which length a training step has."""

    rows: int
    length: int
    sizes: dict[str, int] | None = None  # of a Llama; None: those of the embedded base
    needs_gpu_gib: int = 0  # None of it: runs on a CPU
    four_bit: bool = False


_100M = {
    "vocab_size": 32_768,
    "hidden_size": 768,
    "intermediate_size": 2048,
    "num_hidden_layers": 10,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
_8B = {
    "vocab_size": 128_256,
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
}
SHAPES = {
    "tiny": Shape(rows=128, length=32),
    "tiny-4bit": Shape(rows=128, length=32, four_bit=True),
    "100m": Shape(rows=8, length=128, sizes=_100M),
    "8b": Shape(rows=8, length=512, sizes=_8B, needs_gpu_gib=60),
    "8b-4bit": Shape(rows=8, length=512, sizes=_8B, needs_gpu_gib=60, four_bit=True),  # it is made from 16 bits
}


def device() -> str:
    """Where everything runs."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def left_out(name: str) -> str | None:
    """Why a shape cannot be measured here; None where it can."""
    shape = SHAPES[name]
    if shape.needs_gpu_gib and not torch.cuda.is_available():
        return "no GPU"
    if shape.needs_gpu_gib and torch.cuda.mem_get_info()[1] < shape.needs_gpu_gib * 2**30:
        return f"the GPU has less than {shape.needs_gpu_gib} GiB"
    if shape.four_bit and find_spec("bitsandbytes") is None:
        return "bitsandbytes is not installed"
    return None


def random_base(name: str, seed: int = 0) -> tuple[Any, Any]:
    """A base model of a shape with random weights, and the tokenizer; bfloat16 on a GPU, float32 on a CPU."""
    gc.collect()  # of the base before
    shape = SHAPES[name]
    tokenizer = loading.tiny_base()[1]
    special = {key: getattr(tokenizer, key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    config = AutoConfig.from_pretrained(loading._TINY_FOLDER)
    if shape.sizes is not None:
        config = LlamaConfig(**shape.sizes, **special)
    dtype = torch.bfloat16 if device() == "cuda" else torch.float32
    torch.manual_seed(seed)
    with torch.device(device()):
        base = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return (in_four_bits(base) if shape.four_bit else base), tokenizer


def in_four_bits(base: Any) -> Any:
    """A base model as bitsandbytes loads it: from a folder."""
    bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=base.dtype)
    with tempfile.TemporaryDirectory() as folder:
        base.save_pretrained(folder)
        dtype = base.dtype
        del base
        gc.collect()
        torch.cuda.empty_cache()
        return AutoModelForCausalLM.from_pretrained(
            folder, quantization_config=bits, dtype=dtype, device_map={"": device()}
        )


def checksum(base: Any) -> dict[str, int]:
    """A number of each tensor of a model that any changed weight changes, but for sums that happen to be equal."""
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return {
        name: int(tensor.detach().contiguous().view(integers[tensor.element_size()]).sum(dtype=torch.int64))
        for name, tensor in base.state_dict().items()
        if torch.is_tensor(tensor)
    }
