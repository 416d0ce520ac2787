"""The language-model head at positions with a label only, for devices on which TRL scores all of them.

In: a causal LM that TRL has given its fused head. Out: the same model, whose fused head computes logits, entropies and
accuracies only for tokens that have a label. TRL (1.16) does this itself where Triton runs. Elsewhere it scores every
position, because some accelerators compile anew for each shape; a processor does not. With 8 labels in a row of 80
tokens and a vocabulary of 49,152, nine tenths of the logits are saved. Loss and gradients are the same but for
rounding: sums over fewer terms, all others of which are exactly zero.

Models without such a head, passes without labels, and passes that are compiled run as they are.

Shapes: B rows, T positions, H hidden size, N positions with a label.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch
from torch import nn

from ..mappings.readings import IGNORE


# Fields of TRL's `FusedCausalLMOutput` with one value per position.
_PER_TOKEN = ("log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1")


def score_labels_only(model: nn.Module) -> None:
    """Makes the fused head of a causal LM skip positions without a label, on a CPU.

    Args:
        model: The innermost causal LM, after `trl.trainer.utils.add_fused_lm_head`. A second call does nothing.
    """
    fused = model.__dict__.get("forward")
    if fused is None or getattr(fused, "_igc_labels_only", False):
        return

    @functools.wraps(type(model).forward)  # `generate` validates its arguments against this signature
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        labels: Any = kwargs.get("labels")  # [B, T]
        # On other devices TRL scores only positions with a label itself.
        scores_all = torch.is_tensor(labels) and labels.device.type == "cpu" and not torch.compiler.is_compiling()
        if not kwargs.get("fused_lm_head") or kwargs.get("shift_labels") is not None or not scores_all:
            return fused(*args, **kwargs)
        targets = labels[:, 1:]  # [B, T - 1]
        chosen = targets != IGNORE

        def select(module: nn.Module, inputs: Any, output: Any) -> None:
            h = output.last_hidden_state  # [B, T, H]
            output.last_hidden_state = h[:, :-1][chosen.to(h.device)][None]  # [1, N, H]

        handle = self.base_model.register_forward_hook(select)
        try:
            # With labels that are already shifted, the head scores each position that the backbone returns.
            output = fused(*args, **{**kwargs, "shift_labels": targets[chosen][None]})
        finally:
            handle.remove()
        return _put_back(output, chosen)

    forward._igc_labels_only = True  # type: ignore[attr-defined]
    model.forward = types.MethodType(forward, model)


def _put_back(output: Any, chosen: torch.Tensor) -> Any:
    """The output with its fields in their usual shape [B, T - 1], and zero at positions without a label."""
    for name in _PER_TOKEN:
        x = getattr(output, name)  # [1, N]
        if x is not None:
            # Like TRL's: `masked_scatter` keeps the output connected to the model even if no position has a label.
            mask = chosen.to(x.device)
            setattr(output, name, x.new_zeros(mask.shape).masked_scatter(mask, x.flatten()))
    output.label_mask = chosen.to(output.label_mask.device)
    return output
