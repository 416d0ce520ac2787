"""The two operators in the model's graph. They find the calculator by its layer name, as attention does.

An operator without a result must change an argument, or a compiler removes it; so both say that they change
`hidden_states`. No `from __future__ import annotations`: torch reads the types of the arguments.
Try it: `make test-vllm`
"""

from typing import Any, Optional

import torch
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.attention.kv_transfer_utils import maybe_transfer_kv_layer
from vllm.utils.torch_utils import direct_register_custom_op


__all__ = ["NAMES"]

NAMES = ("vllm::igc_input", "vllm::igc_output")  # a graph is split there


def igc_input(hidden_states: torch.Tensor, layer_name: str) -> None:
    """Called with the input of the first decoder layer."""
    _calculator(layer_name).take_input(hidden_states)


def igc_output(hidden_states: torch.Tensor, residual: Optional[torch.Tensor], layer: int, layer_name: str) -> None:  # noqa: UP045
    """Called with the output of a decoder layer that is read or written; changes `hidden_states` where it writes."""
    calculator = _calculator(layer_name)
    if layer != calculator.layer:
        calculator.take_output(hidden_states, residual)
    elif calculator.is_deferred:
        _transferred(calculator, hidden_states, residual, layer_name)
    else:
        calculator.act(hidden_states, residual)


@maybe_transfer_kv_layer  # a connector saves and loads our records like keys and values
def _transferred(calculator: Any, hidden_states: torch.Tensor, residual: Any, layer_name: str) -> None:
    calculator.act(hidden_states, residual)


def _calculator(layer_name: str) -> Any:
    return get_forward_context().no_compile_layers[layer_name].calculator


def _input_fake(hidden_states: torch.Tensor, layer_name: str) -> None:
    return None


def _output_fake(hidden_states: torch.Tensor, residual: Optional[torch.Tensor], layer: int, layer_name: str) -> None:  # noqa: UP045
    return None


direct_register_custom_op("igc_input", igc_input, mutates_args=["hidden_states"], fake_impl=_input_fake)
direct_register_custom_op("igc_output", igc_output, mutates_args=["hidden_states"], fake_impl=_output_fake)
