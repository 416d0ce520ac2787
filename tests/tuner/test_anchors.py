"""Promises of `anchors`: where each rule names one and how rules go together, how far back is read, what is refused.

Try it: `pytest tests/tuner/test_anchors.py`
"""

import random

import pytest
import torch

from peft_igc import IGCConfig
from peft_igc.text.vocabulary import PADDING
from peft_igc.tuner.anchors import (
    INLINE,
    Rules,
    anchors_of_call,
    check_anchors,
    context_starts,
    find_anchors,
    kinds_of,
)
from peft_igc.tuner.anchors import TURN as BEGIN
from peft_igc.tuner.call import Call, Generation
from peft_igc.tuner.config_values import SINCE_LAST_ANCHOR


MODEL = torch.nn.Identity()
IDS = torch.tensor([[0, 0, 5, 6, 7, 8], [3, 4, 5, 6, 7, 8]])
VALID = IDS > 0


def rules(turns=(), inline=(), prompt_end=False):
    return Rules(prompt_end, list(turns), list(inline))


PROMPT_END = rules(prompt_end=True)


def anchors(call, rules=PROMPT_END, ids=IDS, valid=VALID, new=6):
    found = anchors_of_call(call, rules, ids.masked_fill(~valid, PADDING), ids.shape[1] - new, new)
    return None if found is None else found.tolist()


def generation(at, width, given=False):
    return Generation(MODEL, IDS[:, :width], VALID[:, :width].long(), at, given)


# ------------------------------------------------------------------------------------------ each rule


def test_sequences_are_found_as_a_loop_over_the_tokens_finds_them():
    draw = random.Random(0)
    for _ in range(200):
        shape = draw.randint(1, 3), draw.randint(1, 12)
        ids = torch.tensor([[draw.randrange(3) for _ in range(shape[1])] for _ in range(shape[0])])
        valid = torch.tensor([[draw.random() < 0.9 for _ in range(shape[1])] for _ in range(shape[0])])
        sequences = [[draw.randrange(3) for _ in range(draw.randint(1, 3))] for _ in range(draw.randint(0, 3))]
        new = draw.randint(1, shape[1])
        for row, real in zip(ids.tolist(), valid.tolist(), strict=True):
            shown = [token if there else PADDING for token, there in zip(row, real, strict=True)]
            expected = [t - shape[1] + new for t in range(shape[1] - new, shape[1]) if _ends_at(shown, t, sequences)]
            assert rules(sequences).found(shown, new) == dict.fromkeys(expected, BEGIN)
            assert rules(sequences, sequences).found(shown, new) == dict.fromkeys(expected, INLINE)


def _ends_at(tokens, t, sequences):
    return any(tokens[max(t + 1 - len(one), 0) : t + 1] == one for one in sequences)


def test_given_anchors_come_first_and_count_from_this_calls_first_token():
    labels = torch.tensor([[-100] * 5 + [8]] * 2)
    call = Call(MODEL, labels=labels, anchors=torch.tensor([[1, -1], [0, 1]]), generation=generation(None, 6))
    assert anchors(call, rules([[8]], [[7]], prompt_end=True), new=2) == [[5, -1], [4, 5]]


def test_a_running_generate_comes_before_labels_and_keeps_to_its_prompt():
    call = Call(MODEL, generation=generation(torch.tensor([[3], [2]]), 4), labels=IDS)
    assert anchors(call, ids=IDS[:, :4], valid=VALID[:, :4], new=4) == [[3], [2]]
    assert anchors(call, ids=IDS[:, :4], valid=VALID[:, :4], new=1) == [[3], [-1]]  # a later piece of the prompt
    assert anchors(call, new=1) is None  # behind the prompt
    assert anchors(call, new=6) == [[3], [2]]  # the whole text again, without a cache


def test_configured_sequences_alone_know_no_labels_and_no_last_token():
    for some in (rules([[6, 7]]), rules(inline=[[6, 7]])):
        assert anchors(Call(MODEL, input_ids=IDS, labels=IDS), some) == [[4], [4]]
    for generate in (None, generation(None, 6)):
        assert anchors(Call(MODEL, input_ids=IDS, generation=generate), rules([[3]])) == [[-1], [0]]
    assert anchors(Call(MODEL, input_ids=IDS), rules([[9]])) is None


# ------------------------------------------------------------------------------------------ rules together
def test_all_rules_that_are_set_hold_at_once_in_the_order_of_the_text():
    labels = torch.tensor([[-100, -100, -100, 6, 7, 8], [-100, 4, -100, -100, -100, 8]])
    every = rules([[6]], [[5], [7, 8]], prompt_end=True)
    call = Call(MODEL, input_ids=IDS, labels=labels)
    assert anchors(call, every) == [[2, 3, 5, -1, -1], [0, 2, 3, 4, 5]]
    assert anchors(Call(MODEL, input_ids=IDS), every) == [[2, 3, 5], [2, 3, 5]]


def test_a_training_batch_has_the_anchors_of_its_forward_pass():
    labels = torch.tensor([[-100, -100, -100, 6, 7, 8], [-100, 4, 5, -100, -100, 8]])
    for config in (
        IGCConfig(),
        IGCConfig(anchors={"turns": [[5, 6]]}),
        IGCConfig(anchors={"prompt_end": True, "inline": [[7], [0]]}),
        IGCConfig(anchors={"inline": [[4]]}),
    ):
        found = find_anchors(IDS, VALID.long(), labels, config).tolist()
        assert found == anchors(Call(MODEL, input_ids=IDS, labels=labels), Rules.of(config))
    nowhere = IGCConfig(anchors={"inline": [[0]]})
    assert find_anchors(IDS, VALID.long(), labels, nowhere).tolist() == [[-1], [-1]]


# ------------------------------------------------------------------------------------------ how far back is read
TURN, SIGN, TEXT = 7, 8, 1
RULES = rules([[TURN]], [[SIGN]])
CHAT = torch.tensor([[TEXT, TEXT, TURN, TEXT, SIGN, TEXT, SIGN, TEXT, TURN, TEXT, SIGN, TEXT]])


def starts(context, at, before=(), ids=CHAT, valid=None, rules=RULES):
    valid = torch.ones_like(ids, dtype=torch.bool) if valid is None else valid
    at, before = torch.tensor([at]), torch.tensor([list(before)], dtype=torch.int64)
    text = ids.masked_fill(~valid, PADDING)
    earlier = before, kinds_of(rules, text, before, 0)
    return context_starts(context, rules, at, kinds_of(rules, text, at, 0), earlier)[0].tolist()


def test_contexts_are_found_as_a_loop_over_the_anchors_finds_them():
    draw = random.Random(0)
    for _ in range(200):
        ids = [draw.choice([TURN, SIGN, TEXT, TEXT]) for _ in range(draw.randint(1, 14))]
        at = sorted(draw.sample(range(len(ids)), draw.randint(1, len(ids))))
        cut = draw.randrange(len(at))
        expected = []
        for anchor in at:
            kinds = (TURN, SIGN) if ids[anchor] == SIGN else (TURN,)
            earlier = [a for a in at if a < anchor and ids[a] in kinds]
            expected.append(earlier[-1] if earlier else 0)
        found = starts(SINCE_LAST_ANCHOR, at[cut:], before=at[:cut], ids=torch.tensor([ids]))
        assert found == expected[cut:], (ids, at)


# ------------------------------------------------------------------------------------------ what is refused
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.tensor([2, 2]), r"torch.int64 of shape \(2,\), but the input has 2 rows"),
        (torch.tensor([[2]]), r"torch.int64 of shape \(1, 1\), but the input has 2 rows"),
        (torch.tensor([[2.0], [2.0]]), "torch.float32 of shape"),
        (torch.tensor([[2], [6]]), r"has the position 6, but the input has 6 tokens \(0..5\)"),
        (torch.tensor([[2], [-2]]), "has the position -2, but the input has 6 tokens"),
        (torch.tensor([[1], [1]]), "has a position on padding"),
    ],
)
def test_anchors_that_are_no_positions_of_the_text_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        check_anchors(given, IDS.shape, VALID.long())


def test_anchors_are_checked_against_the_end_of_a_mask_that_covers_a_cached_text():
    mask = torch.tensor([[1, 1, 0, 1], [0, 0, 1, 1]])
    check_anchors(torch.tensor([[1], [0]]), (2, 2), mask)
    with pytest.raises(ValueError, match="has a position on padding"):
        check_anchors(torch.tensor([[0], [0]]), (2, 2), mask)
    check_anchors(torch.tensor([[-1], [-1]]), (2, 2), None)
