"""Models of three shapes, alone and with adapters, on one set of weights.

In: a shape's name. Out: `Subject`s, all sharing the base's own tensors, so that none of them has its weights better
placed than another: the base without any PEFT, LoRA with about as many parameters as IGC, IGC in both interfaces, and
for wide bases once more with the sizes of the demonstration's adapter. Weights are random but for the embedded base,
`tiny`. The reading of a random adapter is forced: what the text has, with the operator that it is told, or nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

from peft_igc import IGCConfig, assistant_header
from peft_igc.inference import loading
from peft_igc.numbers.digits import PAD
from peft_igc.tuner.layer import IGCLayer


BASE, LORA, INTERFACES = "base", "lora", ("hidden", "tokens")
SMALL = "igc_tokens_small"
WIDTH = 512  # of an adapter of the default size
# What the demonstration shows to suffice for reading with the token interface.
DEMO_SIZES = {"reading_dim": 128, "reading_ffn": 256, "num_heads": 4, "writing_ffn": 768, "gate_dim": 64}
TINY, LARGEST = "tiny", "8b"
SHAPES: dict[str, dict[str, Any]] = {
    TINY: {},
    "100m": {
        "vocab_size": 32_000,
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "tie_word_embeddings": True,
    },
    # the dimensions of Llama-3.1-8B
    LARGEST: {
        "vocab_size": 128_256,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "tie_word_embeddings": False,
    },
}
ROOM = 24 * 2**30  # bytes of GPU memory for the largest shape with its caches
FORCED = 1000.0  # added to the logit of an operation, or of "no arithmetic"


@dataclass
class Subject:
    """One method on one base."""

    method: str  # `BASE`, `LORA`, `SMALL`, or one with an interface
    model: Any  # in eval mode, without gradients
    forced: bool  # whether what it reads is forced, as its weights are random

    @property
    def calculators(self) -> list[IGCLayer]:
        """Its layers with a calculator."""
        return [module for module in self.model.modules() if isinstance(module, IGCLayer)]

    @contextmanager
    def told(self, operation: str | None) -> Iterator[None]:
        """Within, a forced reading finds this operation, or no arithmetic. A text that names another silences it."""
        heads = [
            (layer.igc_input_mapping[name].operator_head.bias, [*config.operations, None].index(operation))
            for layer in self.calculators
            for name, config in layer.igc_config.items()
            if self.forced
        ]
        with torch.no_grad():
            for bias, at in heads:
                bias[at] += FORCED
            try:
                yield
            finally:
                for bias, at in heads:
                    bias[at] -= FORCED


def missing(shape: str) -> str | None:
    """Why this machine cannot run a shape; None if it can."""
    if shape != LARGEST:
        return None
    if not torch.cuda.is_available():
        return "no GPU"
    free = torch.cuda.mem_get_info()[0]
    return None if free >= ROOM else f"{free / 2**30:.0f} GiB of free GPU memory, {ROOM / 2**30:.0f} are needed"


def made_base(shape: str, seed: int, device: torch.device) -> tuple[Any, Any]:
    """The base of a shape and the embedded tokenizer, whose ids all shapes have."""
    base, tokenizer = loading.tiny_base()
    if shape == TINY:
        base = base.to(device)
    else:
        torch.manual_seed(seed)
        dtype = torch.bfloat16 if shape == LARGEST else torch.float32
        config = LlamaConfig(**SHAPES[shape], max_position_embeddings=8192, dtype=dtype)
        before = torch.get_default_dtype()
        torch.set_default_dtype(config.dtype)
        try:
            with torch.device(device):
                base = LlamaForCausalLM(config)
        finally:
            torch.set_default_dtype(before)
    base.generation_config.eos_token_id = None  # a random model would end texts at random
    base.generation_config.pad_token_id = 0
    return base.eval().requires_grad_(False), tokenizer


def twin(base: Any) -> Any:
    """A copy of a model that shares all of its tensors."""
    shared = {id(x): x for x in (*base.parameters(), *base.buffers())}
    return copy.deepcopy(base, shared)


def shallow_copy(cache: Any) -> Any:
    """A cache of shallow copies of the layers, which share their tensors with the original."""
    fork = copy.copy(cache)
    fork.layers = [copy.copy(layer) for layer in cache.layers]
    return fork


def filled_cache(model: Any, length: int, room: int, rows: int) -> Any:
    """A static KV cache of random keys and values for texts of `length` tokens, with room for some more."""
    config, weight = model.config, next(model.parameters())
    shape = (rows, config.num_key_value_heads, length, config.hidden_size // config.num_attention_heads)
    cache = StaticCache(config=config, max_cache_len=length + room)
    for layer in range(config.num_hidden_layers):
        keys, values = (0.1 * torch.randn(shape, dtype=weight.dtype, device=weight.device) for _ in range(2))
        cache.update(keys, values, layer)
    return cache


def subjects(base: Any, tokenizer: Any, seed: int, interfaces: Any = INTERFACES, anchors: Any = None) -> list[Subject]:
    """All methods on one base, with adapters of some interfaces; `anchors` are assistant headers if None."""
    torch.manual_seed(seed)
    made = [Subject(BASE, base, False)]
    configs = {f"igc_{interface}": igc_config(tokenizer, base, interface, anchors) for interface in interfaces}
    if base.config.hidden_size > WIDTH:
        configs[SMALL] = igc_config(tokenizer, base, "tokens", anchors, DEMO_SIZES)
    made += [Subject(name, get_peft_model(twin(base), config), True) for name, config in configs.items()]
    rank = lora_rank(base, made[1].model.num_parameters(only_trainable=True))
    lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
    made.insert(1, Subject(LORA, get_peft_model(twin(base), lora), False))
    for subject in made:
        subject.model.eval().requires_grad_(False)
    return made


class RandomConfig(IGCConfig):
    """A config whose new adapters write at random, and read two digits and the first operation."""

    @staticmethod
    def begin(reader: Any, writer: Any) -> None:
        with torch.no_grad():
            if hasattr(reader, "digit_bias"):
                reader.digit_bias[..., PAD] = 100
                reader.digit_bias[:, :2, PAD] = -100
            else:
                nn.init.normal_(reader.compression.weight, std=0.1)
            reader.operator_head.bias[1:] -= 100


def igc_config(tokenizer: Any, base: Any, interface: str, anchors: Any = None, sizes: Any = None) -> IGCConfig:
    """A random adapter, of the default size if none is given; never wider than the base."""
    anchors = [assistant_header(tokenizer)] if anchors is None else anchors
    if sizes is None:
        width = min(WIDTH, base.config.hidden_size)
        sizes = {"reading_dim": width} | ({"writing_dim": width} if interface == "hidden" else {})
    return RandomConfig.from_tokenizer(tokenizer, anchors=anchors, interface=interface, **sizes)


def lora_rank(base: Any, parameters: int) -> int:
    """The rank at which LoRA on every linear layer but the output head has about so many parameters; at least 1."""
    head = base.get_output_embeddings()
    layers = [m for m in base.modules() if isinstance(m, nn.Linear) and m is not head]
    return max(1, round(parameters / sum(m.in_features + m.out_features for m in layers)))
