"""Whether to compute in bf16: on an accelerator, and on a processor that is faster in it than in fp32.

Instruction sets do not tell: with AVX512-BF16 alone one processor multiplies matrices five times as fast in bf16, and
another one more slowly than in fp32. So a matrix product is timed, once per process.
"""

import timeit
from functools import cache

import torch


def in_bf16(device: str | torch.device) -> bool:
    """Whether to train and measure in bf16 on a device."""
    return torch.device(device).type != "cpu" or computes_bf16()


@cache
def computes_bf16() -> bool:
    """Whether this processor computes clearly faster in bf16 than in fp32; False where bf16 is emulated."""
    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    # By half: a training step has more than products, and converts between both types.
    return _seconds(torch.float32) > 1.5 * _seconds(torch.bfloat16)


def _seconds(dtype: torch.dtype) -> float:
    """The shortest time of a matrix product. Other work on the machine makes single times too long."""
    rows, inputs, outputs = 256, 576, 1536  # of a small layer: a few milliseconds
    x, weight = (torch.ones(n, inputs, dtype=dtype, device="cpu") for n in (rows, outputs))
    return min(timeit.repeat(lambda: torch.nn.functional.linear(x, weight), number=1, repeat=5))
