"""Promises of the training arguments: bfloat16 is used where the processor has instructions for it."""

import torch

from peft_igc.trainer.config import computes_bf16


def test_processors_without_bf16_are_told_apart(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    for supported in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda supported=supported: supported)
        assert computes_bf16() == supported
