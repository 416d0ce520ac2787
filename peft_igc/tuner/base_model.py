"""Finds the causal LM within PEFT models, and its list of decoder layers; names the base model inside the package.

In: a transformers model or any nesting of PEFT models around one. Out: the innermost `PreTrainedModel`; the path and
the `nn.ModuleList` of its decoder layers. Nothing is changed.
"""

from pathlib import Path
from typing import Any

from peft import PeftModel
from peft.tuners.tuners_utils import BaseTuner
from torch import nn
from transformers import PreTrainedModel


# The base model inside the package: its name in saved configs, and where it is on this machine. Its trained adapter
# has the same name where the folder of an adapter is expected.
TINY = "tiny"
TINY_FOLDER = Path(__file__).parents[1] / "assets" / "tiny_base"
TINY_ADAPTER_FOLDER = Path(__file__).parents[1] / "assets" / "tiny_adapter"


def innermost_model(model: nn.Module) -> PreTrainedModel:
    """The causal LM within PEFT models, a ValueError if there is none. Every way of calling the model reaches its
    `__call__` and `generate`."""
    found = next((m for m in model.modules() if isinstance(m, PreTrainedModel)), None)
    if found is None or not hasattr(found.config, "get_text_config"):
        raise ValueError(
            f"`{type(model).__name__}` is not a transformers model, so it has no decoder layers to attach to. "
            "Pass a causal LM, for example from `AutoModelForCausalLM.from_pretrained(...)`."
        )
    return found


def without_peft(model: nn.Module) -> nn.Module:
    """The model to which the tuners of PEFT models around it are attached. Their adapters stay in it."""
    while isinstance(model, PeftModel) and isinstance(model.base_model, BaseTuner):
        inner: Any = model.base_model.model
        if not hasattr(inner, "peft_config"):  # PEFT (0.21) removes it with one adapter, also while others stay
            inner.peft_config = model.peft_config
        model = inner
    return model


def decoder_layers(model: nn.Module) -> tuple[str, nn.ModuleList]:
    """Path and list of the decoder layers of a transformers causal LM, or of a PEFT model around one. A model that is
    not decoder-only, or whose decoder layers are not in a list with a known name, is a ValueError."""
    base = innermost_model(model)
    if getattr(base.config, "is_encoder_decoder", False) or not base.can_generate():
        raise ValueError(
            f"`{type(base).__name__}` is not a causal LM (decoder only), so the calculator cannot write into the text "
            "that it reads. Pass a model of `AutoModelForCausalLM`."
        )
    count = base.config.get_text_config(decoder=True).num_hidden_layers
    decoder = set(base.get_decoder().modules())  # excludes the stacks of other modalities, such as a vision tower
    named = [(k, m) for k, m in model.named_modules() if isinstance(m, nn.ModuleList) and m in decoder]
    known = ("layers", "h", "blocks", "block", "layer")
    lists = [(k, m) for k, m in named if len(m) == count and k.rpartition(".")[2] in known]
    if not lists:
        raise ValueError(
            f"`{type(base).__name__}` has no list of {count} decoder layers under a known name, which are `layers`, "
            "`h`, `blocks`, `block` and `layer`. Pass a model of another architecture."
        )
    return min(lists, key=lambda item: item[0].count("."))
