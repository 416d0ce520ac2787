"""Builds the input and output mapping of a new adapter: the mappings that an interface has.

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


def make_mappings(config: Any, hidden_size: int, embeddings: nn.Module) -> tuple[Any, Any]:
    """Creates the input and the output mapping of a new adapter.

    Args:
        config: an `IGCConfig`.
        hidden_size: H of the base model.
        embeddings: the base model's token embeddings, for their width.
    """
    if config.interface == "tokens":
        return TokenInputMapping(hidden_size, config), TokenOutputMapping(hidden_size, _width(embeddings), config)
    return HiddenInputMapping(hidden_size, config), HiddenOutputMapping(hidden_size, config)


def _width(embeddings: Any) -> int:
    """Width of the token embeddings, which another adapter may have wrapped."""
    if isinstance(embeddings, BaseTunerLayer):
        embeddings = embeddings.get_base_layer()
    width = getattr(embeddings, "embedding_dim", None)
    return int(embeddings.weight.shape[-1] if width is None else width)
