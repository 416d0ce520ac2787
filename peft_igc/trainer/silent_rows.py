"""Rows of a batch in which nothing is written: they need no pass through the layers after the calculator's.

In: a batch of `IGCDataCollator`. Out: the batch in two parts, rows for a whole pass and rows for the reading alone.
The writing learns from the language-model loss at positions that the calculator writes. A row that asks for no
calculation has none, so this loss gives the calculator a gradient of exactly zero; the same holds for a row without
any label of the language model. If nothing but the calculator is trained, the later layers would run in vain.
Try it: `pytest tests/trainer/test_silent_rows.py`

Shapes: B rows, T positions, A anchors per row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..mappings.readings import IGNORE
from ..numbers.calculator import Status
from ..tuner.config import IGCConfig
from ..tuner.layer import IGCLayer


__all__ = ["only_calculators_train", "silent_rows", "split", "zero_loss"]


def only_calculators_train(model: nn.Module) -> bool:
    """Whether all trainable parameters of a model belong to its calculators."""
    own = {id(p) for m in model.modules() if isinstance(m, IGCLayer) for p in m.parameters()}
    return all(id(p) in own for p in model.parameters() if p.requires_grad)


def silent_rows(inputs: Mapping[str, torch.Tensor], config: IGCConfig) -> torch.Tensor:
    """The rows whose language-model loss gives the calculator no gradient, [B] bool.

    Args:
        inputs: A batch with `labels` [B, T], `igc_anchors`, `igc_operator` and `igc_result_status`, all [B, A].
        config: The config of the adapter that is trained.
    """
    silent: torch.Tensor = (inputs["labels"][:, 1:] == IGNORE).all(1)  # [B]
    # A shortcut writes after every anchor. Without teacher forcing a calculation may be read where none is asked.
    if config.shortcut is None and config.teacher_forcing:
        known = inputs["igc_operator"] != IGNORE  # [B, A]; what is not supervised may be written
        refused = known & (inputs["igc_result_status"] != int(Status.OK))
        silent = silent | (refused | (inputs["igc_anchors"] < 0)).all(1)
    return silent


def split(inputs: Mapping[str, Any], silent: torch.Tensor) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """A batch in two parts, without the columns at the end that are padding in all rows of a part.

    Args:
        inputs: A batch. Tensors have the rows in their first dimension.
        silent: [B] bool.

    Returns:
        The rows that are not silent, and the silent ones; None for a part without rows.
    """
    if not silent.any():
        return dict(inputs), None
    return (None if silent.all() else _part(inputs, ~silent)), _part(inputs, silent)


def _part(inputs: Mapping[str, Any], chosen: torch.Tensor) -> dict[str, Any]:
    """The chosen rows [B] of a batch."""
    part = {name: x[chosen.to(x.device)] if torch.is_tensor(x) else x for name, x in inputs.items()}
    width = inputs["input_ids"].shape[1]
    used = int(part["attention_mask"].any(0).nonzero().max()) + 1  # padding before a text stays: anchors are positions
    per_token = ("input_ids", "attention_mask", "labels", "position_ids")
    return part | {name: part[name][:, :used] for name in per_token if name in part and part[name].shape[1] == width}


def zero_loss(model: nn.Module) -> torch.Tensor:
    """A loss of 0, with a gradient of 0 for every trainable parameter.

    A whole pass gives the writing zero gradients if nothing is written. Optimizers treat these and absent ones
    differently: AdamW's momentum and weight decay move parameters with a zero gradient.
    """
    return torch.stack([0.0 * p.sum().float() for p in model.parameters() if p.requires_grad]).sum()
