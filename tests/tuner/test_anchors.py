"""Promises of `anchors`: where each rule names one and how rules go together, how far back is read, what is refused.

Try it: `pytest tests/tuner/test_anchors.py`
"""

import itertools
import random

import pytest
import torch

from peft_igc import IGCConfig
from peft_igc.numbers.token_table import PADDING
from peft_igc.tuner.anchors import (
    Rules,
    anchors_of_call,
    before_labels,
    check_anchors,
    context_starts,
    ends_of_sequences,
    find_anchors,
    kinds_of,
    last_tokens,
)
from peft_igc.tuner.call import Call, Generation
from peft_igc.tuner.config_values import ROW, SINCE_LAST_ANCHOR


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


def ends(ids, valid, sequences, new):
    """Positions among the `new` last tokens, counted from the text's first."""
    hits = ends_of_sequences(ids.masked_fill(~valid, PADDING), sequences, new)
    assert hits.shape == (ids.shape[0], new)
    assert hits.dtype == torch.bool
    return [[ids.shape[1] - new + place for place in row.nonzero().flatten().tolist()] for row in hits]


# ------------------------------------------------------------------------------------------ each rule


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
    assert ends(ids, everywhere, [[1, 2]], new=6) == [[1, 4], [2]]
    assert ends(ids, everywhere, [[1, 2], [9]], new=6) == [[1, 4, 5], [2, 4, 5]]
    # a sequence that began before this call's tokens still ends among them
    assert ends(ids, everywhere, [[1, 2]], new=2) == [[4], []]
    assert ends(ids, everywhere, [[1, 2]], new=1) == [[], []]
    assert ends(ids, everywhere, [[7], [1] * 9], new=6) == [[], []]
    assert ends(ids, everywhere, [], new=6) == [[], []]


def test_padding_never_is_a_sequence():
    assert ends(IDS, VALID, [[0]], new=6) == [[], []]
    assert ends(IDS, VALID, [[0, 5], [5, 6]], new=6) == [[3], [3]]


def test_sequences_are_found_as_a_loop_over_the_tokens_finds_them():
    draw = random.Random(0)
    for _ in range(200):
        shape = draw.randint(1, 3), draw.randint(1, 12)
        ids = torch.tensor([[draw.randrange(3) for _ in range(shape[1])] for _ in range(shape[0])])
        valid = torch.tensor([[draw.random() < 0.9 for _ in range(shape[1])] for _ in range(shape[0])])
        sequences = [[draw.randrange(3) for _ in range(draw.randint(1, 3))] for _ in range(draw.randint(0, 3))]
        new = draw.randint(1, shape[1])
        expected = []
        for row, real in zip(ids.tolist(), valid.tolist(), strict=True):
            shown = [token if there else None for token, there in zip(row, real, strict=True)]
            expected.append([t for t in range(shape[1] - new, shape[1]) if _ends_at(shown, t, sequences)])
        assert ends(ids, valid, sequences, new) == expected


def test_the_hosts_look_at_a_few_tokens_changes_no_anchor(monkeypatch):
    draw, found = random.Random(1), 0
    for _ in range(300):
        shape = draw.randint(1, 3), draw.randint(1, 9)
        ids = torch.tensor([[draw.randrange(-1, 5) for _ in range(shape[1])] for _ in range(shape[0])])
        valid = torch.tensor([[draw.random() < 0.9 for _ in range(shape[1])] for _ in range(shape[0])])
        sequences = [[draw.randrange(5) for _ in range(draw.randint(1, 3))] for _ in range(draw.randint(1, 2))]
        told, new = [], draw.randint(1, shape[1])
        for few in (0, 256):
            monkeypatch.setattr("peft_igc.tuner.anchors.FEW", few)
            told.append(anchors(Call(MODEL, ids), rules(inline=sequences), ids, valid, new))
        assert told[0] == told[1]
        found += told[0] is not None
    assert 30 < found < 270


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


def test_a_running_generates_anchors_are_repeated_for_beams():
    call = Call(MODEL, generation=generation(torch.tensor([[3], [2]]), 4))
    ids, valid = IDS.repeat_interleave(2, 0), VALID.repeat_interleave(2, 0)
    assert anchors(call, ids=ids, valid=valid) == [[3], [3], [2], [2]]
    mixed = anchors(call, rules(inline=[[8]], prompt_end=True), ids=ids, valid=valid)
    assert mixed == [[3, 5], [3, 5], [2, 5], [2, 5]]


def test_configured_sequences_alone_know_no_labels_and_no_last_token():
    for some in (rules([[6, 7]]), rules(inline=[[6, 7]])):
        assert anchors(Call(MODEL, input_ids=IDS, labels=IDS), some) == [[4], [4]]
    for generate in (None, generation(None, 6)):
        assert anchors(Call(MODEL, input_ids=IDS, generation=generate), rules([[3]])) == [[-1], [0]]
    assert anchors(Call(MODEL, input_ids=IDS), rules([[9]])) is None


def test_embeddings_show_no_sequences_and_are_anchored_at_their_end():
    assert anchors(Call(MODEL), rules([[3]]), ids=torch.full_like(IDS, -1)) == [[5], [5]]


def test_labels_come_before_the_last_token():
    labels = torch.tensor([[-100, -100, -100, 6, 7, 8], [-100] * 6])
    assert anchors(Call(MODEL, input_ids=IDS, labels=labels)) == [[2], [-1]]
    assert anchors(Call(MODEL, input_ids=IDS)) == [[5], [5]]


def test_a_pass_on_a_cache_that_was_handed_in_has_no_last_token():
    assert anchors(Call(MODEL, input_ids=IDS, cache=object())) is None
    assert anchors(Call(MODEL, input_ids=IDS, cache=object()), rules(inline=[[8]], prompt_end=True)) == [[5], [5]]


# ------------------------------------------------------------------------------------------ rules together
def test_all_rules_that_are_set_hold_at_once_in_the_order_of_the_text():
    labels = torch.tensor([[-100, -100, -100, 6, 7, 8], [-100, 4, -100, -100, -100, 8]])
    every = rules([[6]], [[5], [7, 8]], prompt_end=True)
    call = Call(MODEL, input_ids=IDS, labels=labels)
    assert anchors(call, every) == [[2, 3, 5, -1, -1], [0, 2, 3, 4, 5]]
    assert anchors(Call(MODEL, input_ids=IDS), every) == [[2, 3, 5], [2, 3, 5]]


def test_a_position_that_several_rules_name_is_one_anchor():
    everything_ends_there = rules([[8], [7, 8]], [[8], [6, 7, 8]], prompt_end=True)
    assert anchors(Call(MODEL, input_ids=IDS), everything_ends_there) == [[5], [5]]
    running = Call(MODEL, input_ids=IDS, generation=generation(torch.tensor([[5, 5], [-1, 2]]), 6))
    assert anchors(running, everything_ends_there) == [[5, -1], [2, 5]]


@pytest.mark.parametrize("cuts", [[0, 1, 2, 3, 4, 5, 6], [0, 1, 6], [0, 3, 6], [0, 4, 5, 6], [0, 6]])
def test_sequences_that_arrive_in_pieces_anchor_where_they_do_at_once(cuts):
    some = rules([[5, 6]], [[6, 7, 8], [4]])
    found = [[], []]
    for start, end in itertools.pairwise(cuts):
        call = Call(MODEL, input_ids=IDS[:, start:end], cache=object())
        for row, at in enumerate(anchors(call, some, IDS[:, :end], VALID[:, :end], end - start) or [[], []]):
            found[row] += [place for place in at if place >= 0]
    assert found == [[3, 5], [1, 3, 5]]


def test_given_positions_of_a_generate_replace_those_of_its_prompt_and_sequences_count_behind_it():
    inline = rules(inline=[[5], [7], [6, 7]], prompt_end=True)
    at = torch.tensor([[3], [1]])  # token 5 stands at position 2, in the prompt of 4 tokens; token 7 behind it
    given, found = (Call(MODEL, input_ids=IDS, generation=generation(at, 4, given)) for given in (True, False))
    assert anchors(given, inline) == [[3, 4], [1, 4]]
    assert anchors(found, inline) == [[2, 3, 4], [1, 2, 4]]
    assert anchors(given, inline, IDS[:, :4], VALID[:, :4], 4) == [[3], [1]]
    assert anchors(given, inline, IDS[:, :5], VALID[:, :5], 1) == [[4], [4]]
    assert anchors(given, inline, new=1) is None


def test_rules_are_those_of_the_config():
    assert Rules.of(IGCConfig()) == rules(prompt_end=True)
    assert Rules.of(IGCConfig(anchor_token_ids=[[5, 6]])) == rules([[5, 6]])
    config = IGCConfig(anchor="prompt_end", anchor_token_ids=[[5, 6]], inline_token_ids=[[7]])
    assert Rules.of(config) == rules([[5, 6]], [[7]], prompt_end=True)
    assert Rules.of(config).sequences == [[5, 6], [7]]


def test_a_training_batch_has_the_anchors_of_its_forward_pass():
    labels = torch.tensor([[-100, -100, -100, 6, 7, 8], [-100, 4, 5, -100, -100, 8]])
    for config in (
        IGCConfig(),
        IGCConfig(anchor_token_ids=[[5, 6]]),
        IGCConfig(inline_token_ids=[[7], [0]]),
        IGCConfig(anchor="tokens", inline_token_ids=[[4]]),
    ):
        found = find_anchors(IDS, VALID.long(), labels, config).tolist()
        assert found == anchors(Call(MODEL, input_ids=IDS, labels=labels), Rules.of(config))
    nowhere = IGCConfig(anchor="tokens", inline_token_ids=[[0]])
    assert find_anchors(IDS, VALID.long(), labels, nowhere).tolist() == [[-1], [-1]]


# ------------------------------------------------------------------------------------------ how far back is read
TURN, SIGN, TEXT = 7, 8, 1
RULES = rules([[TURN]], [[SIGN]])
CHAT = torch.tensor([[TEXT, TEXT, TURN, TEXT, SIGN, TEXT, SIGN, TEXT, TURN, TEXT, SIGN, TEXT]])
AT = [2, 4, 6, 8, 10]


def starts(context, at, before=(), ids=CHAT, valid=None, rules=RULES):
    valid = torch.ones_like(ids, dtype=torch.bool) if valid is None else valid
    at, before = torch.tensor([at]), torch.tensor([list(before)], dtype=torch.int64)
    text = ids.masked_fill(~valid, PADDING)
    earlier = before, kinds_of(rules, text, before, 0)
    return context_starts(context, rules, at, kinds_of(rules, text, at, 0), earlier)[0].tolist()


def test_the_whole_row_is_read_from_its_first_token():
    assert starts(ROW, AT) == [0] * 5
    assert starts(ROW, [8, -1], before=[2]) == [0, 0]


@pytest.mark.parametrize(("tokens", "expected"), [(1, AT), (3, [0, 2, 4, 6, 8]), (9, [0, 0, 0, 0, 2]), (99, [0] * 5)])
def test_a_number_of_tokens_counts_the_anchor(tokens, expected):
    assert starts(tokens, AT) == expected
    assert starts(tokens, AT[2:], before=AT[:2]) == expected[2:]


def test_a_turn_is_read_from_the_turn_before_and_a_sign_from_the_latest_anchor():
    assert starts(SINCE_LAST_ANCHOR, AT) == [0, 2, 4, 2, 8]
    assert starts(SINCE_LAST_ANCHOR, [2, 8], rules=rules([[TURN]])) == [0, 2]
    assert starts(SINCE_LAST_ANCHOR, AT, rules=rules([[TURN], [SIGN]])) == [0, 2, 4, 6, 8]


def test_what_only_the_end_of_a_prompt_or_the_caller_named_begins_no_context():
    """A pass over the whole text, without the cache that knew of it, could not find it again."""
    assert starts(SINCE_LAST_ANCHOR, [4, 6, 8, 11], rules=rules(inline=[[SIGN]], prompt_end=True)) == [0, 4, 0, 0]
    assert starts(SINCE_LAST_ANCHOR, [3, 8, 11], rules=rules(prompt_end=True)) == [0, 0, 0]
    assert starts(SINCE_LAST_ANCHOR, [11], before=[3, 8], rules=rules(prompt_end=True)) == [0]


@pytest.mark.parametrize("known", range(5))
def test_anchors_of_earlier_calls_count(known):
    """Missing ones, -1 behind the others of a row, do not; nor does the order in which a record holds them."""
    expected = [0, 2, 4, 2, 8]
    assert starts(SINCE_LAST_ANCHOR, AT[known:], before=AT[:known]) == expected[known:]
    assert starts(SINCE_LAST_ANCHOR, [*AT[known:], -1], before=[-1, *AT[:known], -1])[:-1] == expected[known:]


def test_padding_is_no_sign_and_moves_what_is_read_with_the_text():
    ids = torch.nn.functional.pad(CHAT, (3, 2), value=SIGN)
    valid = torch.nn.functional.pad(torch.ones_like(CHAT, dtype=torch.bool), (3, 2))
    at = [place + 3 for place in AT]
    assert starts(SINCE_LAST_ANCHOR, at, ids=ids, valid=valid) == [0, 5, 7, 5, 11]
    # a sign's id that is padding is no sign
    assert starts(SINCE_LAST_ANCHOR, [5, 7, 12], ids=ids, valid=valid & (ids != SIGN)) == [0, 5, 5]


def test_rows_have_their_own_contexts():
    ids = torch.cat([CHAT, torch.full_like(CHAT, SIGN)])
    at = torch.tensor([[2, 8, -1], [1, 2, 3]])
    found = context_starts(SINCE_LAST_ANCHOR, RULES, at, kinds_of(RULES, ids, at, 0))
    assert found[:, :2].tolist() == [[0, 2], [0, 1]]
    assert found[1, 2] == 2


def test_a_sign_of_several_tokens_is_known_by_its_end():
    ids = torch.tensor([[TURN, TEXT, TEXT, SIGN, TEXT, TURN, TEXT]])
    some = rules([[TURN]], [[TEXT, SIGN]])
    assert starts(SINCE_LAST_ANCHOR, [0, 3, 5], ids=ids, rules=some) == [0, 0, 0]
    assert starts(SINCE_LAST_ANCHOR, [0, 3, 5], ids=ids, rules=rules([[TURN]], [[TURN, SIGN]])) == [0, 0, 0]


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
