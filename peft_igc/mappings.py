"""Reading and writing of a new adapter, made from its config: the one place where fields become modules.

In: an `IGCConfig`, the base model's hidden size and its embeddings. Out: an input mapping and an output mapping with
random weights, on the CPU. Nothing is trained, loaded or attached here. Try it: `pytest tests/test_mappings.py`
"""

from __future__ import annotations

from typing import Any

from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn

from .config import RIGHT
from .input_mapping import HiddenInputMapping, TokenInputMapping
from .output_mapping import HiddenOutputMapping, TokenOutputMapping
from .runs import NumberTokens
from .spelling import ENDS
from .spelling import State as Spelled
from .tokens import TokenTable


SHORTCUT_PLACES = 4


def make_mappings(config: Any, hidden_size: int, embeddings: nn.Module) -> tuple[Any, Any]:
    """Reading and writing of a new adapter, for a base model of that hidden size and with those token embeddings.

    `config` is an `IGCConfig`, whose sizes that the interface has are all integers.
    """
    sizes: dict[str, Any] = {
        "dim": config.reading_dim,
        "num_layers": config.reading_layers,
        "num_heads": config.num_heads,
        "ffn": config.reading_ffn,
        "max_distance": config.max_distance,
    }
    if config.interface == "tokens":
        tokens = NumberTokens(TokenTable.from_json(config.number_tokens))
        return (
            TokenInputMapping(
                hidden_size,
                tokens,
                config.num_digits,
                len(config.operations),
                dropout=config.reading_dropout,
                whole_sentences=isinstance(config.reading_context, int),
                **sizes,
            ),
            TokenOutputMapping(
                hidden_size,
                _width(embeddings),
                ffn=config.writing_ffn,
                gate_dim=config.gate_dim,
                num_states=len(Spelled),
                num_ends=len(ENDS),
            ),
        )
    right_aligned = config.alignment == RIGHT
    reader = HiddenInputMapping(
        hidden_size,
        config.num_digits,
        len(config.operations),
        right_aligned=right_aligned,
        fixed_inputs=config.fixed_inputs,
        shortcut=shortcut_places(config),
        **sizes,
    )
    writer = HiddenOutputMapping(
        hidden_size,
        config.result_digits,
        dim=config.writing_dim,
        num_heads=config.num_heads,
        ffn=config.writing_ffn,
        gate_dim=config.gate_dim,
        max_offset=config.max_offset,
        right_aligned=right_aligned,
        shortcut=config.reading_dim if config.shortcut else None,
    )
    return reader, writer


def shortcut_places(config: Any) -> int:
    """P, how many vectors a step of that config hands to the writing past the calculator."""
    return SHORTCUT_PLACES if config.shortcut else 0


def _width(embeddings: Any) -> int:
    """E, the width of a table of embeddings, also of one that another adapter has wrapped."""
    if isinstance(embeddings, BaseTunerLayer):
        embeddings = embeddings.get_base_layer()
    width = getattr(embeddings, "embedding_dim", None)
    return int(embeddings.weight.shape[-1] if width is None else width)
