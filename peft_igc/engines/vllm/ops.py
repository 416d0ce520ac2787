"""The operator in the model's graph. It finds the calculator by its layer name, as attention does.

An operator without a result must change an argument, or a compiler removes it; so it says that it changes
`hidden_states`. No `from __future__ import annotations`: torch reads the types of the arguments.
Try it: `make test-vllm`
"""

from typing import Any, Optional

import torch
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.attention.kv_transfer_utils import maybe_transfer_kv_layer
from vllm.utils.torch_utils import direct_register_custom_op


NAME = "vllm::igc_layer"  # a graph is split there
INPUT = -1  # in place of the index of a layer: the input of the first one


def igc_layer(hidden_states: torch.Tensor, residual: Optional[torch.Tensor], layer: int, layer_name: str) -> None:  # noqa: UP045
    """Called with the output of a decoder layer, or the input of the first one; `Calculator.act` changes it."""
    calculator = get_forward_context().no_compile_layers[layer_name].calculator
    if layer == calculator.layer:
        _act(calculator, hidden_states, residual, layer_name)
    else:
        calculator.take(hidden_states, residual)


@maybe_transfer_kv_layer  # a connector saves and loads our records like keys and values
def _act(calculator: Any, hidden_states: torch.Tensor, residual: Any, layer_name: str) -> None:
    calculator.act(hidden_states, residual)


direct_register_custom_op("igc_layer", igc_layer, mutates_args=["hidden_states"], fake_impl=lambda *_, **__: None)
