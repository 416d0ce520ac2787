"""`Adapter`: what a pass needs of one adapter, for `passes` and `engines`; `IGCLayer` has its parts by name."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn

from ..mappings.hidden_interface import HiddenInputMapping, HiddenOutputMapping
from ..mappings.token_interface import TokenInputMapping, TokenOutputMapping
from ..text.spelling import Style
from .anchors import Rules
from .config import IGCConfig


class Adapter(NamedTuple):
    """One adapter of a layer."""

    name: str  # its name
    key: str  # names it among all adapters of all processes
    config: IGCConfig  # its config
    reader: Any  # its input mapping
    writer: Any  # its output mapping
    base: Any  # the causal LM

    @property
    def rules(self) -> Rules:
        """Where its steps run."""
        return Rules.of(self.config)

    @property
    def style(self) -> Style | None:
        """How it writes results; None for the hidden interface, which needs no host for it."""
        config = self.config
        if config.interface == "hidden":
            return None
        return Style(self.reader.tokens, not config.write_again, tuple(config.anchors.get("ends", ())))

    @property
    def embeddings(self) -> nn.Module:
        """The token embeddings of the base model."""
        return self.base.get_input_embeddings()

    def compressed(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """[B, T, d] features of the tokens with the inputs [B, T, H] of `passes.inputs_of`. In training mode in their
        dtype, else in two bytes per number, as they are stored with a KV cache, so that passes with and without one
        read the same."""
        reader, layers = self.reader, len(self.config.layers_read)
        states, embedded = inputs[:layers], inputs[layers:]
        features = reader.compress(states[0] if reader.mix is None else reader.mix(list(states)), *embedded)
        return features if reader.training or features.dtype.itemsize <= 2 else features.to(torch.bfloat16)

    @property
    def stream(self) -> int:
        """Index of the stream that becomes the logits, in models with several."""
        return int(self.base.config.get_text_config(decoder=True).altup_active_idx)


def make_mappings(config: Any, hidden_size: int, embeddings: nn.Module) -> tuple[Any, Any]:
    """Creates the input and the output mapping of a new adapter, with random weights, on the CPU. The base model has
    the hidden size, and the token embeddings, whose width is needed."""
    if config.interface == "hidden":
        return HiddenInputMapping(hidden_size, config), HiddenOutputMapping(hidden_size, config)
    table: Any = embeddings
    if isinstance(table, BaseTunerLayer):  # another adapter has wrapped them
        table = table.get_base_layer()
    width = getattr(table, "embedding_dim", None) or int(table.weight.shape[-1])
    return TokenInputMapping(hidden_size, config), TokenOutputMapping(hidden_size, width, config)
