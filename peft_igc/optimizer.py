"""`MuonAdamW`: Muon for the calculator's matrices, AdamW for everything else, as one optimizer.

Reading has to learn how a thousand number tokens look; Muon, whose update treats all directions of a matrix alike,
gets further in the same number of steps (`benchmarks/optimizers.py`). Embeddings, biases, norms, classifiers and all
parameters that are not the calculator's stay with AdamW, as Muon's authors advise. The two share this optimizer's
parameter groups and state, so schedulers, gradient clipping and checkpoints see one optimizer.

Source: torch.optim.Muon (Jordan et al., 2024, "Muon: An optimizer for hidden layers in neural networks").
Try it: `pytest tests/test_optimizer.py`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .layer import IGCLayer


NOT_MATRICES = ("distance", "offset", "digit", "sign", "slots", "place", "digit_head", "sign_head", "operator_head")


class MuonAdamW(torch.optim.Optimizer):
    """Muon and AdamW side by side.

    Args:
        matrices: parameters [m, n] for Muon.
        others: parameter groups for AdamW.
        muon_lr: learning rate of Muon, scaled to AdamW's size of update (`match_rms_adamw`).
        lr: learning rate of AdamW.
        betas: of AdamW.
        eps: of AdamW.
        weight_decay: of Muon; AdamW's stands in its groups.
        momentum: of Muon.

    Raises:
        ValueError: with a version of torch that has no Muon.
    """

    def __init__(
        self,
        matrices: list[nn.Parameter],
        others: list[dict[str, Any]],
        *,
        muon_lr: float,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
    ) -> None:
        if not hasattr(torch.optim, "Muon"):
            raise ValueError(
                f"torch {torch.__version__} has no `torch.optim.Muon`, which came with 2.9. "
                "Update torch, or leave `igc_muon_learning_rate` out to train with AdamW alone."
            )
        muon = torch.optim.Muon(
            matrices, lr=muon_lr, weight_decay=weight_decay, momentum=momentum, adjust_lr_fn="match_rms_adamw"
        )
        self.parts: list[torch.optim.Optimizer] = [muon]
        if others:
            self.parts.append(torch.optim.AdamW(others, lr=lr, betas=betas, eps=eps))
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        """Lets the parts work on this optimizer's groups and state."""
        start = 0
        for part in self.parts:
            count = len(part.param_groups)
            part.param_groups = self.param_groups[start : start + count]
            part.state = self.state
            start += count

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of both."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self.parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores both, as saved by `state_dict()`."""
        super().load_state_dict(state_dict)
        self._share()


def calculator_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The trainable weight matrices of all calculators in a model: what Muon is for."""
    found = []
    for layer in (m for m in model.modules() if isinstance(m, IGCLayer)):
        for name, parameter in layer.named_parameters():
            module, _, leaf = name.rpartition(".")
            is_table = {leaf, module.rpartition(".")[2]} & set(NOT_MATRICES)
            if parameter.requires_grad and parameter.dim() == 2 and min(parameter.shape) > 1 and not is_table:
                found.append(parameter)
    return found
