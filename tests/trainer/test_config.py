"""Promises of the training arguments: bfloat16 is used where it is faster."""

import torch

from peft_igc.trainer.config import computes_bf16


def test_bf16_is_for_processors_that_compute_faster_in_it(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)  # slower than fp32
    for tiles in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda tiles=tiles: tiles)
        assert computes_bf16() == tiles
