"""Promises of reading at many anchors of one text: each step is read as if it were alone, within its context only.

Random weights, random texts rich in numbers.
"""

import pytest
import torch
from tiny_models import small_config
from tiny_vocabulary import TEXTS

from peft_igc.mappings.hidden_interface import HiddenInputMapping
from peft_igc.mappings.places import StepTexts
from peft_igc.mappings.token_interface import TokenInputMapping
from peft_igc.numbers.digits import PAD
from peft_igc.text.vocabulary import PADDING


HIDDEN, DIM, ROWS, LENGTH = 24, 16, 3, 220


def reader(interface):
    torch.manual_seed(0)
    config = small_config(interface=interface, reading_dim=DIM, reading_layers=2, num_heads=2, reading_ffn=32)
    mapping = (HiddenInputMapping if interface == "hidden" else TokenInputMapping)(HIDDEN, config)
    for weight in mapping.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    return mapping.eval()


def read(mapping, kept, valid, anchors, ids, since):
    """What a mapping reads at anchors, from the tokens `since` on."""
    ids = ids.masked_fill(~valid, PADDING)
    if isinstance(mapping, HiddenInputMapping):
        return mapping(kept, ids, anchors, since)
    steps = anchors.flatten().tolist(), since.flatten().tolist()
    return mapping(kept, StepTexts.of_lists(mapping.tokens, ids.tolist(), *steps))


@pytest.fixture
def text():
    generator = torch.Generator().manual_seed(1)
    numeric = torch.tensor([TEXTS.index(t) for t in TEXTS if t.isdigit()])
    ids = torch.randint(3, len(TEXTS), (ROWS, LENGTH), generator=generator)
    pick = torch.rand(ROWS, LENGTH, generator=generator) < 0.4
    ids = torch.where(pick, numeric[torch.randint(len(numeric), (ROWS, LENGTH), generator=generator)], ids)
    valid = torch.arange(LENGTH) >= torch.tensor([[0], [7], [3]])
    kept = torch.randn(ROWS, LENGTH, DIM, generator=generator)
    return kept, valid, ids


def test_nothing_before_a_context_matters(interface, text):
    kept, valid, ids = text
    mapping = reader(interface)
    anchors, since = torch.tensor([[180, 200]] * 3), torch.tensor([[140, 180], [130, 181], [120, 150]])
    # a number that goes on into the context is none of it, so what comes first is kept as it is
    changed = torch.arange(LENGTH) < since.min(1, keepdim=True).values - 64
    other = torch.where(changed, ids.flip(1), ids), torch.where(changed[..., None], kept.flip(1), kept)
    assert not torch.equal(other[0], ids)
    with torch.no_grad():
        before = read(mapping, kept, valid, anchors, ids, since)
        after = read(mapping, other[1], valid, anchors, other[0], since)
        whole = read(mapping, kept, valid, anchors, ids, torch.zeros_like(since))
    if interface == "tokens":  # of the places, those with numbers
        before, after, whole = (
            (x.operator, x.scores.exp() * (x.digits[:, :, None, :, :1] != PAD), x.positions, x.digits)
            for x in (before, after, whole)
        )
    for one, same, all_of_it in zip(before, after, whole, strict=True):
        torch.testing.assert_close(one, same, atol=1e-4, rtol=1e-4)
        assert one.shape != all_of_it.shape or not torch.equal(one, all_of_it)


def test_a_number_that_a_context_cuts_is_not_read():
    mapping = reader("tokens")
    tokens = [TEXTS.index(t) for t in ("12", "3", "+", "45", "=")]
    ids = torch.tensor([tokens * 3])
    kept = torch.zeros(1, ids.shape[1], DIM)
    valid = torch.ones_like(ids, dtype=torch.bool)
    for anchors, since in (([4, 9], [1, 6]), ([9], [6])):  # begin at `3`, the end of `123`
        with torch.no_grad():
            reading = read(mapping, kept, valid, torch.tensor([anchors]), ids, torch.tensor([since]))
        numbers = reading.digits[..., 0] != PAD  # [1, A, W]
        assert numbers.sum(-1).tolist() == [[1] * len(anchors)]
        assert reading.digits[numbers][:, :3].tolist() == [[4, 5, PAD]] * len(anchors)


def test_embeddings_before_a_context_switch_a_text_off_whatever_other_steps_are_read_beside():
    tokens = [TEXTS.index(t) for t in ("12", "+", "45", "=")]
    ids = torch.tensor([[-1] * 5 + tokens + [TEXTS.index("+")] * 150 + tokens])
    valid, kept = torch.ones_like(ids, dtype=torch.bool), torch.zeros(1, ids.shape[1], DIM)
    anchors, since = torch.tensor([[8, ids.shape[1] - 1]]), torch.tensor([[5, ids.shape[1] - 4]])
    with torch.no_grad():
        reading = read(reader("tokens"), kept, valid, anchors, ids, since)
        given = ids.masked_fill(ids < 0, TEXTS.index("+"))
        known = read(reader("tokens"), kept, valid, anchors, given, since)
    assert (reading.digits[..., 0] == PAD).all()
    assert (known.digits[..., 0] != PAD).sum(-1).tolist() == [[2, 2]]
