"""`MuonAdamW`: Muon for the calculator's matrices, AdamW for everything else, as one optimizer.

In: a model with a trainable calculator, an `IGCSFTConfig`. Out: an optimizer of all its trainable parameters. The
reading has to learn a representation of about a thousand number tokens. Muon's update has the same size in all
directions of a matrix, and needs fewer steps for that. As Muon's authors recommend,
AdamW trains embeddings, biases, norms and classifiers; it also trains all parameters outside the calculator. Sharded
parameters (FSDP, DeepSpeed) are not supported, because Muon needs whole matrices.

Source: torch.optim.Muon (Jordan et al., 2024, "Muon: An optimizer for hidden layers in neural networks").
Try it: `pytest tests/trainer/test_optimizer.py`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.utils import get_total_norm

from ..tuner.layer import IGCLayer
from .precision import in_bf16


# Modules and parameters of the calculator that are two-dimensional, but embeddings or classifiers.
NOT_MATRICES = ("distance", "offset", "digit", "sign", "slots", "place", "digit_head", "sign_head", "operator_head")

_BASE: Any = getattr(torch.optim, "Muon", torch.optim.Optimizer)  # torch has it since 2.9; `MuonAdamW` says so


class Muon(_BASE):
    """torch's Muon, which orthogonalizes in float32 where `in_bf16` is False of a parameter's device.

    torch (2.13) does it in bf16 everywhere, which a processor without instructions for it emulates: with AVX2 alone a
    product of two matrices [512, 512] takes forty times as long. The state is that of torch's Muon.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Makes a step of all parameters with a gradient."""
        parameters = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        if all(in_bf16(p.device) for p in parameters):
            return super().step(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        """Updates one parameter [m, n] with the settings of its group."""
        gradient, state = parameter.grad, self.state[parameter]
        assert gradient is not None
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        kept, momentum = state["momentum_buffer"], group["momentum"]
        kept.lerp_(gradient, 1 - momentum)
        update = gradient.lerp(kept, momentum) if group["nesterov"] else kept
        update = orthogonal(update.float(), group["ns_coefficients"], group["ns_steps"], group["eps"])
        rate, (rows, columns) = float(group["lr"]), parameter.shape
        matched = group["adjust_lr_fn"] == "match_rms_adamw"
        scale = 0.2 * math.sqrt(max(rows, columns)) if matched else math.sqrt(max(1, rows / columns))
        parameter.mul_(1 - rate * group["weight_decay"])
        parameter.add_(update, alpha=-rate * scale)


def orthogonal(x: torch.Tensor, coefficients: tuple[float, float, float], steps: int, epsilon: float) -> torch.Tensor:
    """A matrix [m, n] with the singular vectors of x [m, n], whose singular values are near 1, in the dtype of x.

    The Newton-Schulz iteration X <- a X + (b X X^T + c (X X^T)^2) X with `coefficients` (a, b, c), from x divided by
    its norm, which is at least `epsilon`.
    """
    a, b, c = coefficients
    found = x if x.shape[0] <= x.shape[1] else x.T
    found = found / found.norm().clamp(min=epsilon)
    for _ in range(steps):
        gram = found @ found.T
        found = torch.addmm(found, torch.addmm(gram, gram, gram, beta=b, alpha=c), found, beta=a)
    return found if x.shape[0] <= x.shape[1] else found.T


class MuonAdamW(torch.optim.Optimizer):
    """Muon and AdamW as one optimizer.

    Both share its parameter groups and its state, so schedulers, gradient clipping and checkpoints see one optimizer.

    Args:
        matrices: Parameters [m, n] for Muon.
        others: Parameter groups for AdamW, with their weight decay.
        muon_lr: Learning rate of Muon, scaled so that its updates have the RMS of AdamW's (`match_rms_adamw`).
        lr: Learning rate of AdamW.
        betas: Coefficients of AdamW.
        eps: Epsilon of AdamW.
        weight_decay: Weight decay of Muon.
        momentum: Momentum of Muon.
        resting: Lists of parameters of either optimizer. A list is not updated in a step in which all its gradients
            are zero. A batch without operands gives the reading such gradients, and its momentum would move it anyway,
            with Muon even by a whole step.

    Raises:
        ValueError: This version of torch has no Muon.
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
                f"torch {torch.__version__} has no `torch.optim.Muon`, which was added in 2.9. "
                "Update torch, or leave `igc_muon_learning_rate` out to train with AdamW alone."
            )
        muon = Muon(matrices, lr=muon_lr, weight_decay=weight_decay, momentum=momentum, adjust_lr_fn="match_rms_adamw")
        self.parts: list[torch.optim.Optimizer] = [muon]
        if others:
            self.parts.append(torch.optim.AdamW(others, lr=lr, betas=betas, eps=eps))
        self.resting = resting
        # No defaults are needed: the groups already have those of their optimizers, and are shared, not copied.
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        """Makes both optimizers use the parameter groups and the state of this one."""
        start = 0
        for part in self.parts:
            count = len(part.param_groups)
            part.param_groups = self.param_groups[start : start + count]
            part.state = self.state
            start += count

    @property
    def adamw_to_muon(self) -> float:
        """AdamW's learning rate as a multiple of Muon's, which no schedule changes."""
        muon, adamw = (part.param_groups[0].get("initial_lr", part.param_groups[0]["lr"]) for part in self.parts)
        return float(adamw / muon)

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Makes a step of both optimizers."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        # After clipping and unscaling, which keep zeros. DDP has averaged the gradients, so all ranks decide alike.
        for parameters in self.resting:
            gradients = [p.grad for p in parameters if p.grad is not None]
            # The only host synchronization of a step, once per list.
            if not get_total_norm(gradients, float("inf")):
                for parameter in parameters:
                    parameter.grad = None  # optimizers skip parameters without a gradient, but not zero gradients
        for part in self.parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores both optimizers from `state_dict()`."""
        super().load_state_dict(state_dict)
        self._share()  # loading replaces the lists of groups; Accelerate also does so before the first step


def _calculators(model: nn.Module) -> list[IGCLayer]:
    """All calculators in a model."""
    return [module for module in model.modules() if isinstance(module, IGCLayer)]


def calculator_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The trainable weight matrices [m, n] of all calculators in a model, which Muon trains."""
    found = []
    for layer in _calculators(model):
        for name, parameter in layer.named_parameters():
            module, _, leaf = name.rpartition(".")
            # An embedding is a parameter with such a name, a classifier the weight of a module with such a name.
            is_table = {leaf, module.rpartition(".")[2]} & set(NOT_MATRICES)
            if parameter.requires_grad and parameter.dim() == 2 and min(parameter.shape) > 1 and not is_table:
                found.append(parameter)
    return found


def calculator_weights(model: Any) -> dict[nn.Parameter, torch.Tensor]:
    """Copies of the trainable weights of all calculators by parameter. Empty unless the model is in 4 or 8 bit."""
    if not (getattr(model, "is_loaded_in_4bit", False) or getattr(model, "is_loaded_in_8bit", False)):
        return {}
    return {p: p.detach().clone() for layer in _calculators(model) for p in layer.parameters() if p.requires_grad}


def undo_bfloat16(model: nn.Module, before: dict[nn.Parameter, torch.Tensor]) -> None:
    """Restores the weights of the calculators in a 4 or 8 bit model after TRL's cast to bfloat16.

    TRL (1.16) casts all trainable parameters of such a model, but bfloat16 cannot represent the small updates of a
    norm's weight, which is close to 1.

    Args:
        model: A model with a calculator.
        before: The result of `calculator_weights` before the cast. A calculator added after that becomes float32.
    """
    for parameter in calculator_weights(model):
        parameter.data = before.get(parameter, parameter.data.float()).to(parameter.device)


def _own(model: nn.Module) -> set[int]:
    """The `id` of every parameter of a calculator."""
    return {id(p) for layer in _calculators(model) for p in layer.parameters()}


def calculator_rate(args: Any) -> float:
    """The learning rate of AdamW for the calculator; `args` may be other training arguments than `IGCSFTConfig`."""
    return float(getattr(args, "calculator_learning_rate", args.learning_rate))


def set_calculator_rate(optimizer: torch.optim.Optimizer, model: nn.Module, args: Any) -> None:
    """Gives the calculator its own learning rate in an optimizer that has just been made with `args.learning_rate`.

    Args:
        optimizer: The optimizer, before its first step and before it has a scheduler.
        model: The model that it trains.
        args: An `IGCSFTConfig`, or other training arguments, with which nothing changes.
    """
    rate, own = calculator_rate(args), _own(model)
    if rate != args.learning_rate:  # else the groups stay as they are, which resuming from older checkpoints needs
        _set_groups(optimizer, own, lr=rate)


def _set_groups(optimizer: torch.optim.Optimizer, chosen: Collection[int], **values: Any) -> None:
    """Sets values of the groups of some parameters, by `id`. Groups that hold others, too, are split."""
    for group in list(optimizer.param_groups):
        mine = [p for p in group["params"] if id(p) in chosen]
        if mine and len(mine) == len(group["params"]):
            group.update(values)
        elif mine:
            group["params"] = [p for p in group["params"] if id(p) not in chosen]
            optimizer.add_param_group({**group, "params": mine, **values})


def calculator_mappings(model: nn.Module) -> list[list[nn.Parameter]]:
    """The trainable parameters of each reading and of each writing in a model, without empty lists."""
    calculators = _calculators(model)
    mappings = [m for one in calculators for name in one.adapter_layer_names for m in getattr(one, name).values()]
    found = [[p for p in mapping.parameters() if p.requires_grad] for mapping in mappings]
    return [parameters for parameters in found if parameters]


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


def muon_adamw(model: nn.Module, args: Any, decayed: set[str]) -> MuonAdamW:
    """Makes the optimizer of all trainable parameters of a model.

    Args:
        model: A model with a trainable calculator.
        args: An `IGCSFTConfig` with `igc_muon_learning_rate`.
        decayed: Names of the parameters with weight decay, for AdamW.

    Raises:
        ValueError: The model has no trainable calculator.
    """
    matrices = calculator_matrices(model)
    if not matrices:
        raise ValueError(
            "`igc_muon_learning_rate` is set, but the model has no trainable calculator. "
            "Attach an IGC adapter, or leave the argument out."
        )
    taken, own = {id(p) for p in matrices}, _own(model)
    rate = calculator_rate(args)
    # Groups for AdamW: per learning rate one with weight decay and one without.
    others: dict[tuple[float, bool], dict[str, Any]] = {
        (lr, is_decayed): {"params": [], "weight_decay": args.weight_decay if is_decayed else 0.0, "lr": lr}
        for lr in (args.learning_rate, rate)
        for is_decayed in (True, False)
    }
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and id(parameter) not in taken:
            lr = rate if id(parameter) in own else args.learning_rate
            others[lr, name in decayed]["params"].append(parameter)
    return MuonAdamW(
        matrices,
        [group for group in others.values() if group["params"]],
        muon_lr=args.igc_muon_learning_rate,
        lr=args.learning_rate,
        betas=(args.adam_beta1, args.adam_beta2),
        eps=args.adam_epsilon,
        weight_decay=args.weight_decay,
        resting=calculator_mappings(model),
    )
