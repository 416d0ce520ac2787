"""Promises of `LayerMix`: layers count by their shares, whatever the size of their states."""

import pytest
import torch

from peft_igc.mappings.layer_mix import LayerMix


def test_states_of_unequal_size_count_alike():
    torch.manual_seed(0)
    first, second = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    mix = LayerMix(2)
    mix.weights.data = torch.tensor([1.0, 0.0])
    torch.testing.assert_close(mix([first, 1000 * second]), mix([first, second]))
    share = torch.e / (torch.e + 1)
    unit = [h / h.pow(2).mean(-1, keepdim=True).sqrt() for h in (first, second)]
    torch.testing.assert_close(mix([first, second]), share * unit[0] + (1 - share) * unit[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_states_of_zeros_stay_finite_and_the_dtype_is_kept(dtype):
    states = [torch.zeros(2, 3, 8, dtype=dtype), torch.randn(2, 3, 8).to(dtype)]
    found = LayerMix(2)(states)
    assert found.dtype is dtype
    assert found.isfinite().all()
