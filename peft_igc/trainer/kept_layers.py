"""Outputs of decoder layers that are computed once, and returned in later passes instead of running the layers.

In: a model whose base is frozen up to the calculator's layer, and batches of texts. Out: passes in which these layers
do not run again. `KeptOutputs` keeps the outputs that the calculator reads of each text, for a stage that trains the
reading alone: on SmolLM2-135M at layer 12 they are nine tenths of a step. Dropout in these layers is drawn once.
Memory: two bytes per number, 1.2 KB per token and layer read of SmolLM2-135M.
Try it: `pytest tests/trainer/test_kept_layers.py`

Shapes: B rows, T positions, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ..tuner.base_model import decoder_layers
from ..tuner.hooks.wrapper import active_config


__all__ = ["KeptOutputs", "replaced", "watched"]

MOST_BYTES = 8 << 30  # further texts run each time


class KeptOutputs:
    """The outputs of the layers that the calculator reads, by the tokens of a text.

    Args:
        model: a causal LM with an active IGC adapter, frozen up to the layers that it reads.
    """

    def __init__(self, model: Any) -> None:
        config = active_config(model)
        assert config is not None
        self.read = config.layers_read
        self.layers = list(decoder_layers(model)[1])[: self.read[-1] + 1]
        self.texts: dict[bytes, torch.Tensor] = {}  # [layers read, tokens, H] bfloat16
        self.room = MOST_BYTES

    @contextmanager
    def once(self, inputs: Mapping[str, Any]) -> Iterator[None]:
        """Lets the layers run in a pass over a batch if one of its texts is new, and return what is kept otherwise.

        Args:
            inputs: `input_ids` and `attention_mask`, both [B, T].
        """
        ids, mask = inputs["input_ids"], inputs["attention_mask"].bool()
        texts = [row[real].cpu().numpy().tobytes() for row, real in zip(ids, mask, strict=True)]
        if all(text in self.texts for text in texts):
            with replaced(self.layers, self._returned(texts, mask)):
                yield
            return
        outputs: list[Any] = []
        try:
            with watched(self.layers, outputs, _rounded):
                yield
        finally:  # a pass of the reading alone ends by an exception
            if len(outputs) == len(self.layers):
                self._keep(texts, mask, outputs)

    def _keep(self, texts: Sequence[bytes], mask: torch.Tensor, outputs: Sequence[Any]) -> None:
        """Keeps the outputs of the layers in a pass with the mask [B, T]."""
        self.are_tuples, self.dtype = isinstance(outputs[0], tuple), _states(outputs[0]).dtype
        read = torch.stack([_states(outputs[at]).detach() for at in self.read], 1)  # [B, layers read, T, H]
        for text, states, real in zip(texts, read, mask, strict=True):
            kept = states[:, real].to(torch.bfloat16)
            if text not in self.texts and self.room >= kept.nbytes:
                self.texts[text] = kept
                self.room -= kept.nbytes

    def _returned(self, texts: Sequence[bytes], mask: torch.Tensor) -> list[Callable[..., Any]]:
        """What each layer does instead of running: returns what is kept if it is read, or else its input."""
        first = self.texts[texts[0]]
        read = first.new_zeros(len(self.read), *mask.shape, first.shape[-1], dtype=self.dtype)  # [.., B, T, H]
        for row, text in enumerate(texts):
            read[:, row, mask[row]] = self.texts[text].to(self.dtype)

        def forward(at: int) -> Callable[..., Any]:
            def run(*args: Any, **kwargs: Any) -> Any:
                states = args[0] if args else kwargs["hidden_states"]
                states = read[self.read.index(at)] if at in self.read else states
                return (states,) if self.are_tuples else states

            return run

        return [forward(at) for at in range(len(self.layers))]


def _rounded(output: Any) -> Any:
    """A layer's output as later passes return it, so that it does not matter which pass over a text is the first."""
    states = _states(output)
    rounded = states.to(torch.bfloat16).to(states.dtype)
    return (rounded, *output[1:]) if isinstance(output, tuple) else rounded


def _states(output: Any) -> torch.Tensor:
    """[B, T, H] of a layer's output, which is a tuple in GPT-J and Bloom."""
    states: torch.Tensor = output[0] if isinstance(output, tuple) else output
    return states


@contextmanager
def replaced(layers: Sequence[nn.Module], forwards: Sequence[Callable[..., Any]]) -> Iterator[None]:
    """Runs other functions instead of the forward passes of layers, whose hooks run as always."""
    before = [layer.__dict__.get("forward") for layer in layers]
    try:
        for layer, forward in zip(layers, forwards, strict=True):
            layer.forward = forward
        yield
    finally:
        for layer, own in zip(layers, before, strict=True):
            layer.__dict__.pop("forward", None)
            if own is not None:  # of a library that wraps it
                layer.forward = own


@contextmanager
def watched(
    layers: Sequence[nn.Module], outputs: list[Any], changed: Callable[[Any], Any] = lambda output: output
) -> Iterator[None]:
    """Appends the output of each layer to a list, as it is before the calculator's hook, after it was `changed`."""

    def keep(module: nn.Module, args: Any, output: Any) -> Any:
        outputs.append(changed(output))
        return outputs[-1]

    handles = [layer.register_forward_hook(keep, prepend=True) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
