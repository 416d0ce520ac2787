"""Builds the input and output mapping of a new adapter: the one place where config fields become modules.

In: an `IGCConfig`, the base model's hidden size H and its token embeddings. Out: an input mapping and an output
mapping with random weights, on the CPU. Nothing is loaded or attached here.

Try it: `pytest tests/tuner/test_layer.py tests/mappings/test_mappings.py`
"""

from __future__ import annotations

from typing import Any

from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn

from ..mappings.hidden_interface import HiddenInputMapping, HiddenOutputMapping
from ..mappings.token_interface import TokenInputMapping, TokenOutputMapping
from ..text.operations import takes
from .config_values import MAX_DISTANCE, MAX_OFFSET


def make_mappings(config: Any, hidden_size: int, embeddings: nn.Module) -> tuple[Any, Any]:
    """Creates the input and the output mapping of a new adapter.

    Args:
        config: an `IGCConfig`.
        hidden_size: H of the base model.
        embeddings: the base model's token embeddings, for their width.
    """
    sizes: dict[str, Any] = {
        "dim": config.reading_dim,
        "num_layers": config.reading_layers,
        "num_heads": config.num_heads,
        "ffn": config.reading_ffn,
        "max_distance": MAX_DISTANCE[config.interface],
        "layers_read": len(config.layers_read),
    }
    if config.interface == "tokens":
        pointing = TokenInputMapping(
            hidden_size,
            None if config.has_vocabulary else config.token_table,
            config.num_digits,
            [takes(one) for one in config.operations],
            **sizes,
        )
        if config.vocabulary is not None:
            pointing.know(config.vocabulary, config.token_table)
        return (
            pointing,
            TokenOutputMapping(hidden_size, _width(embeddings), ffn=config.writing_ffn, gate_dim=config.gate_dim),
        )
    reader = HiddenInputMapping(hidden_size, config.num_digits, len(config.operations), **sizes)
    writer = HiddenOutputMapping(
        hidden_size,
        config.result_digits,
        dim=config.writing_dim,
        num_heads=config.num_heads,
        ffn=config.writing_ffn,
        gate_dim=config.gate_dim,
        max_offset=MAX_OFFSET,
    )
    return reader, writer


def _width(embeddings: Any) -> int:
    """Width of the token embeddings, which another adapter may have wrapped."""
    if isinstance(embeddings, BaseTunerLayer):
        embeddings = embeddings.get_base_layer()
    width = getattr(embeddings, "embedding_dim", None)
    return int(embeddings.weight.shape[-1] if width is None else width)
