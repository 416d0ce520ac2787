"""What an engine computes in few operators is what the mappings compute."""

import pytest
import torch

from peft_igc.engines.vllm.adapter import load, load_config
from peft_igc.text.spelling import Spelled


fused = pytest.importorskip("peft_igc.engines.vllm.fused")
H = 192


@pytest.fixture(scope="module")
def mappings(adapter):
    found = load(load_config(str(adapter)), H)
    torch.manual_seed(0)
    for mapping in (found.reader, found.writer):
        for weight in mapping.double().parameters():  # biases and the weights of norms, too
            weight.add_(0.1 * torch.randn_like(weight))
    return found


def test_tokens_are_compressed_as_by_the_mapping(mappings):
    h, embedded = torch.randn(2, 7, H, dtype=torch.float64)
    found = fused.Compression(mappings.reader)(torch.stack([h, embedded], 1))
    assert torch.allclose(found, mappings.reader.compress(h, embedded), rtol=1e-9)


def test_every_next_token_in_every_state_is_written_as_by_the_mapping(mappings):
    tokens = [11, 5, 7]
    table = torch.randn(20, H, dtype=torch.float64)
    update = fused.Update(mappings.writer, tokens, table[tokens])
    cases = [(token, state) for token in tokens for state in Spelled]
    token, state = torch.tensor(cases).T
    h = torch.randn(len(cases), H, dtype=torch.float64) * torch.logspace(-3, 3, len(cases))[:, None]
    expected, _ = mappings.writer(h, table[token], state)
    told = [update.rows(-1 if state >= Spelled.END else token, state) for token, state in cases]
    assert torch.allclose(update(h, *torch.tensor(told).T), expected, rtol=1e-6)  # the mapping's RMS is in float32
