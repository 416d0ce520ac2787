"""What a user is told once: that a calculator is off, or that a training teaches it nothing.

A `Trainer` that removes the columns which it does not know, `igc_operands` among them, and an adapter that was loaded
without `is_trainable=True` train to the end without an error, with a loss that looks like any other.
"""

import logging
import warnings
from typing import Any

from ..adapter import Adapter
from ..call import Call, Generation
from ..state.cache import states_of
from .wrapper import active_layer


logger = logging.getLogger(__name__)


def is_new(told: set[str], what: str) -> bool:
    """Whether something was not told before; it is now."""
    known = len(told)
    told.add(what)
    return len(told) > known


def tell_of_bypass(call: Call) -> None:
    """Warns once if an active calculator did not run in a call because hooks of a decoder layer were bypassed; with
    targets this is a ValueError."""
    layer, _ = active_layer(call.model)
    model: Any = call.model
    config: Any = model.config.get_text_config(decoder=True)
    # Drafts of assisted decoding may leave early (transformers 5.23 changes this number), training may drop layers.
    dropped = model.training and getattr(config, "layerdrop", 0)
    if layer is None or layer.layer_index >= config.num_hidden_layers or dropped:
        return
    index = layer.layer_index if call.bypassed is None else call.bypassed
    said = (
        f"In a call of `{type(model).__name__}` the hooks of decoder layer {index} did not run, "
        "because something within it calls `layer.forward(...)`, so the calculator is off"
    )
    cure = "Call the layer itself, `layer(...)`, or remove the wrapper around it."
    if call.targets is not None:
        raise ValueError(f"{said}, and so the targets train nothing. {cure}")
    if is_new(layer.told, "bypassed"):
        warnings.warn(f"{said}. {cure}", stacklevel=4)


def tell_of_absence(generation: Generation) -> None:
    """Says once that texts had no anchor, where an adapter calculates at the beginning of an answer in a chat only.
    Without a KV cache nothing is said."""
    layer, name = active_layer(generation.model)
    if layer is None or generation.anchors is not None or generation.cache is None:
        return
    config, state = layer.igc_config[name], states_of(generation.cache, layer.layer_index).get(name)
    calculated = config.anchors.get("inline") or state is None or any(state.anchors)
    if not calculated and is_new(layer.told, f"absence {name}"):
        logger.warning(
            "The texts have none of the tokens at which this adapter calculates (`turns`: %s), so the "
            "calculator is off. Put prompts into the chat template: `tokenizer.apply_chat_template(messages, "
            "add_generation_prompt=True)`.",
            config.anchors["turns"],
        )


def watch_training(told: set[str], adapter: Adapter, call: Call) -> None:
    """Warns of an adapter's first pass in training mode with gradients, if that teaches it nothing."""
    if not is_new(told, f"trained {adapter.key}"):
        return
    reads = any(p.requires_grad for p in adapter.reader.parameters())
    if reads and call.targets is None:
        logger.warning(
            "The reading of the calculator %r is trained and a training pass got no targets, so it learns "
            "nothing. Pass the `igc_*` targets: use `IGCTrainer`, or with another trainer its collator and "
            "`remove_unused_columns=False`. To train the writing alone, freeze the parameters of `igc_input_mapping`.",
            adapter.name,
        )
    elif not any(p.requires_grad for p in adapter.base.parameters()):  # else the calculator is frozen on purpose
        logger.warning(
            "In a training pass with gradients no parameter of the model is trained: the calculator %r was loaded for "
            "inference. Load it with `is_trainable=True` to train it.",
            adapter.name,
        )
