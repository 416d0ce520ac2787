"""Promises of the choice of bf16: it is used where it is faster, which is measured."""

import pytest
import torch

from peft_igc.trainer import precision


@pytest.fixture(autouse=True)
def _measured_anew():
    precision.computes_bf16.cache_clear()
    yield
    precision.computes_bf16.cache_clear()


@pytest.mark.parametrize(("in_bf16", "chosen"), [(0.2, True), (0.9, False), (1.4, False)])
def test_bf16_is_for_processors_that_compute_faster_in_it(monkeypatch, in_bf16, chosen):
    times = {torch.float32: 1.0, torch.bfloat16: in_bf16}
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    monkeypatch.setattr(precision, "_seconds", times.__getitem__)
    assert precision.computes_bf16() == chosen


def test_an_accelerator_computes_in_bf16_whatever_the_processor_does(monkeypatch):
    monkeypatch.setattr(precision, "computes_bf16", lambda: False)
    assert (precision.in_bf16("cuda"), precision.in_bf16("cpu")) == (True, False)
