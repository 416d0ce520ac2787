"""Promises of `benchmarks.cost.operators`: the count is that of the backend's operators, and the same every time."""

import torch

from benchmarks.cost.operators import PROMPTS, STEPS, Counted, measure


def test_every_operator_counts_once():
    x = torch.ones(3)
    with Counted() as counted:
        (x + 1).mul_(2).sum()
    assert counted.count == 3


def test_the_counts_are_the_same_every_time_and_a_request_costs_more_than_silence():
    found = measure()
    assert found == measure()
    assert found.keys() == PROMPTS.keys() | STEPS.keys()
    beyond = {name: cell["beyond"] for name, cell in found.items()}
    assert 0 < beyond["silent token"] < beyond["no numbers"] < beyond["request in symbols"]
