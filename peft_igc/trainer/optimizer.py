"""`MuonAdamW`: Muon for the calculator's matrices, AdamW for everything else, as one optimizer.

The reading has to learn a representation of about a thousand number tokens. Muon's update has the same size in all
directions of a matrix, and needs fewer steps for that. As Muon's authors recommend, AdamW trains embeddings, biases,
norms and classifiers; it also trains all parameters outside the calculator.

Source: torch.optim.Muon (Jordan et al., 2024, "Muon: An optimizer for hidden layers in neural networks").
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.utils import get_total_norm

from ..tuner.layer import IGCLayer
from .precision import in_bf16


# Modules and parameters of the calculator that are two-dimensional, but embeddings or classifiers.
NOT_MATRICES = {*"distance offset digit sign slots place comparisons digit_head sign_head operator_head".split()}


class MuonAdamW(torch.optim.AdamW):
    """AdamW; of groups with a `momentum` Muon, as torch's with `adjust_lr_fn="match_rms_adamw"`.

    torch (2.13) orthogonalizes in bf16 everywhere, which a processor without instructions for it emulates: with AVX2
    alone a product of two matrices [512, 512] takes forty times as long. There it is done in float32; in bf16 the
    updates are torch's to the last bit.

    Args:
        groups: Of parameters, those for Muon first.
        resting: Lists of parameters that are not updated in a step in which all their gradients are zero. A batch
            without operands gives the reading such gradients, and its momentum would move it anyway.
        options: Of AdamW.
    """

    def __init__(
        self, groups: list[dict[str, Any]], resting: Sequence[Sequence[nn.Parameter]] = (), **options: Any
    ) -> None:
        super().__init__(groups, **options)
        self.resting = resting

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As any optimizer's: Adam's (torch 2.13) looks for its own state of each parameter."""
        torch.optim.Optimizer.__setstate__(self, state)

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Updates all parameters that have a gradient."""
        # After clipping and unscaling, which keep zeros. DDP has averaged the gradients, so all ranks decide alike.
        for parameters in self.resting:
            gradients = [p.grad for p in parameters if p.grad is not None]
            # The only host synchronization of a step, once per list.
            if not get_total_norm(gradients, float("inf")):
                for parameter in parameters:
                    parameter.grad = None  # optimizers skip parameters without a gradient, but not zero gradients
        groups = self.param_groups
        self.param_groups = [group for group in groups if "momentum" not in group]
        try:
            super().step()
        finally:
            self.param_groups = groups
        for group in groups:
            if "momentum" in group:
                self._muon(group)

    @torch.no_grad()
    def _muon(self, group: dict[str, Any]) -> None:
        rate, momentum = float(group["lr"]), group["momentum"]
        for parameter in group["params"]:
            if (gradient := parameter.grad) is None:
                continue
            state = self.state[parameter]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(gradient)
            state["momentum_buffer"].lerp_(gradient, 1 - momentum)
            update = gradient.lerp(state["momentum_buffer"], momentum)
            update = orthogonal(update.bfloat16() if in_bf16(update.device) else update.float())
            parameter.mul_(1 - rate * group["weight_decay"])
            parameter.add_(update, alpha=-rate * (0.2 * math.sqrt(max(parameter.shape))))


def orthogonal(x: torch.Tensor) -> torch.Tensor:
    """A matrix [m, n] with the singular vectors of x [m, n], whose singular values are near 1, in the dtype of x.

    Five steps of the Newton-Schulz iteration X <- a X + (b X X^T + c (X X^T)^2) X, from x divided by its norm.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    found = x if x.shape[0] <= x.shape[1] else x.T
    found = found / found.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = found @ found.T
        found = torch.addmm(found, torch.addmm(gram, gram, gram, beta=b, alpha=c), found, beta=a)
    return found if x.shape[0] <= x.shape[1] else found.T


def calculators(model: nn.Module) -> list[IGCLayer]:
    """All calculators in a model."""
    return [module for module in model.modules() if isinstance(module, IGCLayer)]


def calculator_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The trainable weight matrices [m, n] of all calculators in a model, which Muon trains."""
    # An embedding is a parameter with such a name, a classifier the weight of a module with such a name.
    named = [one for layer in calculators(model) for one in layer.named_parameters()]
    maps = [p for name, p in named if not NOT_MATRICES & {*name.split(".")[-2:]}]
    return [p for p in maps if p.requires_grad and p.dim() == 2 and min(p.shape) > 1]


def calculator_weights(model: Any) -> dict[nn.Parameter, torch.Tensor]:
    """Copies of the trainable weights of all calculators by parameter. Empty unless the model is in 4 or 8 bit."""
    if not (getattr(model, "is_loaded_in_4bit", False) or getattr(model, "is_loaded_in_8bit", False)):
        return {}
    return {p: p.detach().clone() for layer in calculators(model) for p in layer.parameters() if p.requires_grad}


def undo_bfloat16(model: nn.Module, before: dict[nn.Parameter, torch.Tensor]) -> None:
    """Restores the `calculator_weights` of a 4 or 8 bit model after TRL's cast; a new calculator becomes float32.

    TRL (1.16) casts all trainable parameters of such a model to bfloat16, which cannot represent the small updates of
    a norm's weight, which is close to 1.
    """
    for parameter in calculator_weights(model):
        parameter.data = before.get(parameter, parameter.data.float()).to(parameter.device)


def own_parameters(model: nn.Module) -> set[int]:
    """The `id` of every parameter of a calculator."""
    return {id(p) for layer in calculators(model) for p in layer.parameters()}


def set_calculator_rate(optimizer: torch.optim.Optimizer, model: nn.Module, args: Any) -> None:
    """Gives the calculator its own learning rate in a new optimizer, by splitting groups.

    If all follow one rate, the groups stay as they are, which resuming from older checkpoints needs. `args` may be
    other training arguments than `IGCSFTConfig`.
    """
    rate, own = getattr(args, "calculator_learning_rate", args.learning_rate), own_parameters(model)
    for group in list(optimizer.param_groups) if rate != args.learning_rate else ():
        mine = [p for p in group["params"] if id(p) in own]
        if mine and len(mine) == len(group["params"]):
            group["lr"] = rate
        elif mine:
            group["params"] = [p for p in group["params"] if id(p) not in own]
            optimizer.add_param_group({**group, "params": mine, "lr": rate})


def check_muon(trainer: Any) -> None:
    """Refuses `igc_muon_learning_rate` where parameters are sharded, or with another optimizer than torch's AdamW."""
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        raise ValueError(
            "`igc_muon_learning_rate` needs whole matrices, but FSDP or DeepSpeed shards them. "
            "Leave the argument out to train with AdamW alone."
        )
    optim = getattr(trainer.args.optim, "value", trainer.args.optim)
    if not optim.startswith("adamw_torch") or trainer.args.optim_args or trainer.optimizer_cls_and_kwargs:
        raise ValueError(
            f"`igc_muon_learning_rate` requires torch's AdamW for all other parameters, but `optim={optim!r}`, "
            "`optim_args` or `optimizer_cls_and_kwargs` select another optimizer. Leave out one or the other."
        )


def muon_adamw(adamw: torch.optim.Optimizer, model: nn.Module, rate: float, weight_decay: float) -> MuonAdamW:
    """The optimizer with Muon for the calculator's matrices; all else stays as an AdamW of all trainable parameters
    has it."""
    if not (matrices := calculator_matrices(model)):
        raise ValueError(
            "`igc_muon_learning_rate` is set, but the model has no trainable calculator. "
            "Attach an IGC adapter, or leave the argument out."
        )
    taken = {id(p) for p in matrices}
    groups = [{"params": matrices, "lr": rate, "weight_decay": weight_decay, "momentum": 0.95}]
    for group in adamw.param_groups:
        if others := [p for p in group["params"] if id(p) not in taken]:
            groups.append({"params": others, "lr": group["lr"], "weight_decay": group["weight_decay"]})
    names = [(one, name) for one in calculators(model) for name in one.adapter_layer_names]
    mappings = [mapping for one, name in names for mapping in getattr(one, name).values()]
    resting = [[p for p in mapping.parameters() if p.requires_grad] for mapping in mappings]
    return MuonAdamW(groups, resting, **{name: adamw.defaults[name] for name in ("lr", "betas", "eps")})
