"""Texts of an engine are values: functions of their ids alone, however these come."""

import random

import pytest
import torch

from benchmarks.cost.operators import Counted
from peft_igc.engines.texts import Known, Text
from peft_igc.engines.vllm.adapter import load, load_config


@pytest.fixture(scope="module")
def known(adapter):
    return Known(load(load_config(str(adapter)), 192), reads=False)


TEXTS = [
    "12 + 30 = 42, and 4 * 5 = 20. So 7 - 9 = -2!",
    "There are 99999 * 99999 = 9999800001 stars.",
    "Nothing is asked here, of 3 cats = 3.",
    "2 * (3 + 4) = 14 5 / 8 = 0.625",
]


def decided(known, text, steps):
    """The text with the results of its steps, which are expressions and need no network."""
    texts = {0: text}
    known.decide(texts, [(0, step) for step in steps], None)
    return texts[0]


def followed(known, text, ids):
    """The text after some tokens, and what continues it after each of them."""
    start = text.length
    text, found = known.continued(decided(known, *known.extended(text, ids)), start)
    return text, found or [None] * len(ids)


@pytest.mark.parametrize("plain", TEXTS)
def test_a_text_in_chunks_made_again_or_cropped_is_written_as_at_once(known, tokenizer, plain):
    ids, rng = tokenizer(plain)["input_ids"], random.Random(1)
    whole, expected = followed(known, Text([]), ids)
    assert len(whole.anchors) >= 1
    assert ("cats" in plain) == (not any(expected))
    for _ in range(20):
        text, found, at = Text([]), [], 0
        while at < len(ids):
            size = rng.randint(1, 7)
            text, more = followed(known, text, ids[at : at + size])
            found, at = found + more, at + size
        assert found == expected
        assert text.anchors == whole.anchors
    for at in range(1, len(ids)):
        text, step = known.made(ids[:at])
        assert followed(known, decided(known, text, [step] if step else []), ids[at:])[1] == expected[at:]
        assert followed(known, whole.cropped(at), ids[at:])[1] == expected[at:]


def test_a_step_is_not_decided_again_where_its_turn_has_ended(known, tokenizer):
    ids = tokenizer("12 + 30 =")["input_ids"]
    assert known.made(ids)[1].anchor == len(ids) - 1
    assert known.made([*ids, *known.style.ends])[1] is None


def test_anchors_are_found_without_an_operator(known, tokenizer):
    with Counted() as counted:
        _, steps = known.extended(Text([]), tokenizer(TEXTS[0])["input_ids"])
    assert len(steps) == 3
    assert counted.count == 0


def test_no_compressed_token_is_gathered_where_the_text_alone_decides(adapter, tokenizer):
    known, gathered = Known(load(load_config(str(adapter)), 192)), []

    def gather(requests, positions):
        gathered.append(positions.numel())
        return torch.zeros(*positions.shape, known.config.reading_dim)

    for plain, asks in (("12 + 30 =", False), ("sin(30) + 1 =", False), ("The sum of 12 and 30 =", True)):
        text, steps = known.extended(Text([]), tokenizer(plain)["input_ids"])
        known.decide({0: text}, [(0, step) for step in steps], gather)
        assert (sum(gathered) > 0) == asks, plain
