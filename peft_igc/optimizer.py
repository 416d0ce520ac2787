"""`MuonAdamW`: Muon for the calculator's matrices, AdamW for everything else, as one optimizer.

Reading has to learn how a thousand number tokens look; Muon, whose update treats all directions of a matrix alike,
gets further in the same number of steps (`benchmarks/optimizers.py`). Embeddings, biases, norms, classifiers and all
parameters that are not the calculator's stay with AdamW, as Muon's authors advise. The two share this optimizer's
parameter groups and state, so schedulers, gradient clipping and checkpoints see one optimizer.

Source: torch.optim.Muon (Jordan et al., 2024, "Muon: An optimizer for hidden layers in neural networks").
Try it: `pytest tests/test_optimizer.py`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.utils import get_total_norm

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
        resting: lists of parameters, of either part, each of which rests in a step where all its gradients are zero.
            A batch without operands gives the reading such gradients, and momentum would move it all the same:
            Muon by a full step.

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
        resting: Sequence[Sequence[nn.Parameter]] = (),
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
        self.resting = resting
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
        for parameters in self.resting:
            gradients = [p.grad for p in parameters if p.grad is not None]
            if not get_total_norm(gradients, float("inf")):  # the only host synchronisation, one for each list
                for parameter in parameters:
                    parameter.grad = None
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


def calculator_weights(model: Any) -> dict[nn.Parameter, torch.Tensor]:
    """Copies of the trainable weights of all calculators in a 4 or 8 bit model, by parameter; of others none."""
    if not (getattr(model, "is_loaded_in_4bit", False) or getattr(model, "is_loaded_in_8bit", False)):
        return {}
    layers = [module for module in model.modules() if isinstance(module, IGCLayer)]
    return {p: p.detach().clone() for layer in layers for p in layer.parameters() if p.requires_grad}


def undo_bfloat16(model: nn.Module, before: dict[nn.Parameter, torch.Tensor]) -> None:
    """Gives the calculators of a 4 or 8 bit model their float32 back.

    TRL (1.16) casts all that is trained there to bfloat16, which cannot hold the small steps of a norm's weight.

    Args:
        model: With a calculator.
        before: Of `calculator_weights` before the cast; a calculator that was added since then becomes float32.
    """
    for parameter in calculator_weights(model):
        parameter.data = before.get(parameter, parameter.data.float()).to(parameter.device)


def calculator_mappings(model: nn.Module) -> list[list[nn.Parameter]]:
    """The trainable parameters of each reading and each writing in a model."""
    layers = [module for module in model.modules() if isinstance(module, IGCLayer)]
    mappings = [m for layer in layers for name in layer.adapter_layer_names for m in getattr(layer, name).values()]
    found = [[p for p in mapping.parameters() if p.requires_grad] for mapping in mappings]
    return [parameters for parameters in found if parameters]


def muon_adamw(model: nn.Module, args: Any, decayed: set[str]) -> MuonAdamW:
    """The optimizer of all trainable parameters of a model.

    Args:
        model: With a trainable calculator.
        args: An `IGCSFTConfig` with `igc_muon_learning_rate`.
        decayed: Names of the parameters that AdamW decays.

    Raises:
        ValueError: The model has no trainable calculator.
    """
    matrices = calculator_matrices(model)
    if not matrices:
        raise ValueError(
            "`igc_muon_learning_rate` is set, but the model has no trainable calculator. "
            "Attach an IGC adapter, or leave it out."
        )
    taken = {id(p) for p in matrices}
    others: list[dict[str, Any]] = [{"params": [], "weight_decay": w} for w in (args.weight_decay, 0.0)]
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and id(parameter) not in taken:
            others[name not in decayed]["params"].append(parameter)
    return MuonAdamW(
        matrices,
        [group for group in others if group["params"]],
        muon_lr=args.igc_muon_learning_rate,
        lr=args.learning_rate,
        betas=(args.adam_beta1, args.adam_beta2),
        eps=args.adam_epsilon,
        weight_decay=args.weight_decay,
        resting=calculator_mappings(model),
    )
