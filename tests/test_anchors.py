"""Promises of `anchors`: each rule, its order, and what is refused."""

import pytest
import torch

from peft_igc.anchors import anchors_of_call, before_labels, check_anchors, ends_of_sequences, last_tokens
from peft_igc.state import Call, Generation


MODEL = torch.nn.Identity()
IDS = torch.tensor([[0, 0, 5, 6, 7, 8], [3, 4, 5, 6, 7, 8]])
VALID = IDS > 0


def anchors(call, sequences=None, ids=IDS, valid=VALID, new=6):
    found = anchors_of_call(call, sequences, ids, valid, new)
    return None if found is None else found.tolist()


def generation(at, width):
    return Generation(MODEL, IDS[:, :width], VALID[:, :width].long(), at)


def test_the_last_real_token_is_found_with_padding_on_either_side():
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    assert last_tokens(mask).tolist() == [[3], [1], [3], [-1], [1]]


def test_the_anchor_is_the_token_before_each_labelled_stretch():
    labels = torch.tensor(
        [
            [-100, -100, 4, 5, -100, -100],
            [-100, 4, -100, -100, 5, 6],
            [4, 5, -100, -100, -100, 6],  # nothing stands before the first stretch
            [4, 5, 6, 7, 8, 9],  # all labelled
            [-100] * 6,  # no label
        ]
    )
    assert before_labels(labels).tolist() == [[1, -1], [0, 3], [4, -1], [-1, -1], [-1, -1]]
    assert before_labels(labels[3:]).tolist() == [[-1], [-1]]
    assert before_labels(torch.tensor([[7]])).tolist() == [[-1]]


def test_a_sequences_anchor_is_its_last_token_wherever_one_ends_in_the_new_tokens():
    ids = torch.tensor([[1, 2, 3, 1, 2, 9], [2, 1, 2, 2, 9, 9]])
    everywhere = torch.ones_like(ids, dtype=torch.bool)
    assert ends_of_sequences(ids, everywhere, [[1, 2]], new=6).tolist() == [[1, 4], [2, -1]]
    assert ends_of_sequences(ids, everywhere, [[1, 2], [9]], new=6).tolist() == [[1, 4, 5], [2, 4, 5]]
    # a sequence that began before this call's tokens still ends among them
    assert ends_of_sequences(ids, everywhere, [[1, 2]], new=2).tolist() == [[4], [-1]]
    assert ends_of_sequences(ids, everywhere, [[1, 2]], new=1) is None
    assert ends_of_sequences(ids, everywhere, [[7], [1] * 9], new=6) is None


def test_padding_never_is_a_sequence():
    assert ends_of_sequences(IDS, VALID, [[0]], new=6) is None
    assert ends_of_sequences(IDS, VALID, [[0, 5], [5, 6]], new=6).tolist() == [[3], [3]]


def test_given_anchors_come_first_and_count_from_this_calls_first_token():
    labels = torch.tensor([[-100] * 5 + [8]] * 2)
    call = Call(MODEL, labels=labels, anchors=torch.tensor([[1, -1], [0, 1]]), generation=generation(None, 6))
    assert anchors(call, sequences=[[8]], new=2) == [[5, -1], [4, 5]]


def test_a_running_generate_comes_before_labels_and_keeps_to_its_prompt():
    call = Call(MODEL, generation=generation(torch.tensor([[3], [2]]), 4), labels=IDS)
    assert anchors(call, ids=IDS[:, :4], valid=VALID[:, :4], new=4) == [[3], [2]]
    assert anchors(call, ids=IDS[:, :4], valid=VALID[:, :4], new=1) == [[3], [-1]]  # a later piece of the prompt
    assert anchors(call, new=1) is None  # behind the prompt
    assert anchors(call, new=6) == [[3], [2]]  # the whole text again, without a cache


def test_a_running_generates_anchors_are_repeated_for_beams():
    call = Call(MODEL, generation=generation(torch.tensor([[3], [2]]), 4))
    ids, valid = IDS.repeat_interleave(2, 0), VALID.repeat_interleave(2, 0)
    assert anchors(call, ids=ids, valid=valid) == [[3], [3], [2], [2]]


def test_configured_sequences_come_before_labels_and_the_last_token():
    assert anchors(Call(MODEL, input_ids=IDS, labels=IDS), sequences=[[6, 7]]) == [[4], [4]]
    assert anchors(Call(MODEL, input_ids=IDS), sequences=[[3]]) == [[-1], [0]]
    assert anchors(Call(MODEL, input_ids=IDS, generation=generation(None, 6)), sequences=[[3]]) == [[-1], [0]]


def test_labels_come_before_the_last_token():
    labels = torch.tensor([[-100, -100, -100, 6, 7, 8], [-100] * 6])
    assert anchors(Call(MODEL, labels=labels)) == [[2], [-1]]
    assert anchors(Call(MODEL)) == [[5], [5]]


def test_a_pass_on_a_cache_that_was_handed_in_has_no_last_token():
    assert anchors(Call(MODEL, cache=object())) is None


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
