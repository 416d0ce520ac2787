"""What makes training a small model on a CPU fast; nothing here changes a result.

`head_at_labels_only` saves TRL's trainer the language-model head where nothing is learned; `computes_bf16` tells
whether autocast to bf16 pays. The third part is the base model's attention: `model.set_attn_implementation("eager")`,
because the backward pass of fused attention is slower on a CPU than plain matrix products for short rows.
Try it: `pytest tests/test_cpu.py`
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import torch


__all__ = ["computes_bf16", "head_at_labels_only"]


@contextmanager
def head_at_labels_only() -> Iterator[None]:
    """Lets TRL's language-model head skip positions without a label while the block runs.

    TRL (1.16) does that where Triton runs and scores every position elsewhere, because some accelerators compile anew
    for each shape. A CPU does not; where a fifth of the tokens is labelled, a step takes a third less time. Other
    releases of TRL are left as they are.
    """
    from trl.trainer import utils

    if not version("trl").startswith("1.16."):
        yield
        return
    decide = utils._use_triton  # in this module it decides on nothing else
    utils._use_triton = lambda device: True
    try:
        yield
    finally:
        utils._use_triton = decide


def computes_bf16() -> bool:
    """Whether the processor has instructions for bf16. Where they are emulated, bf16 is far slower than fp32."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
