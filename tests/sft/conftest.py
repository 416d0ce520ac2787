"""What the tests of `peft-igc sft` share: a tiny base in a folder, and one process."""

import pytest
import torch
from tiny_training import save_base

from peft_igc.sft import run as sft


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """The folder of a tiny base."""
    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(autouse=True)
def _no_launch(monkeypatch):
    """Whatever this machine has, a run without arguments of accelerate stays in this process."""
    monkeypatch.setattr(sft, "has_default", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
