"""Tests of `peft-igc sft` are one process."""

import pytest
import torch

from peft_igc.sft import run as sft


@pytest.fixture(autouse=True)
def _no_launch(monkeypatch):
    """Whatever this machine has, a run without arguments of accelerate stays in this process."""
    monkeypatch.setattr(sft, "has_default", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
