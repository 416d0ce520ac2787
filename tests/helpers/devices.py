"""Checks that need a GPU."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def no_synchronization() -> Iterator[None]:
    """Inside, a CUDA operation that waits for the device raises a RuntimeError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mode warns that it is a prototype (torch 2.13)
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
