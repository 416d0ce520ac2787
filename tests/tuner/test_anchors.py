"""Promises of `anchors`: where each rule names one and how far back is read."""

import random

import torch

from peft_igc import IGCConfig
from peft_igc.text.vocabulary import PADDING
from peft_igc.tuner.anchors import INLINE, Rules, anchors_of_call, context_starts, find_anchors, kinds_of
from peft_igc.tuner.anchors import TURN as BEGIN
from peft_igc.tuner.call import Call
from peft_igc.tuner.config_values import SINCE_LAST_ANCHOR


TURN, SIGN, TEXT = 7, 8, 1
IDS = torch.tensor([[0, 0, 5, 6, 7, 8], [3, 4, 5, 6, 7, 8], [3, 4, 5, 6, 7, 8]])
VALID = IDS > 0


def rules(turns, inline=()):
    return Rules(False, list(turns), list(inline))


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


def test_a_training_batch_has_the_anchors_of_its_forward_pass():
    labels = torch.tensor([[-100, -100, -100, 6, 7, 8], [-100, 4, 5, -100, -100, 8], [3, 4, 5, 6, 7, 8]])
    call = Call(torch.nn.Identity(), input_ids=IDS, labels=labels)
    for fields, wanted in (
        ({"prompt_end": True}, [[2, -1], [0, 4], [-1, -1]]),  # before each labelled span that something precedes
        ({"turns": [[5, 6]]}, [[3], [3], [3]]),
        ({"prompt_end": True, "inline": [[7], [0]]}, [[2, 4], [0, 4], [4, -1]]),
        ({"inline": [[4]]}, [[-1], [1], [1]]),
        ({"prompt_end": True, "turns": [[6]], "inline": [[7, 8]]}, [[2, 3, 5, -1], [0, 3, 4, 5], [3, 5, -1, -1]]),
        ({"inline": [[0]]}, [[-1], [-1], [-1]]),
    ):
        config = IGCConfig(anchors=fields)
        assert find_anchors(IDS, VALID.long(), labels, config).tolist() == wanted
        found = anchors_of_call(call, Rules.of(config), IDS.masked_fill(~VALID, PADDING), 0, IDS.shape[1])
        assert found is None or found.tolist() == wanted


def test_contexts_are_found_as_a_loop_over_the_anchors_finds_them():
    draw, both = random.Random(0), rules([[TURN]], [[SIGN]])
    for _ in range(200):
        ids = [draw.choice([TURN, SIGN, TEXT, TEXT]) for _ in range(draw.randint(1, 14))]
        at = sorted(draw.sample(range(len(ids)), draw.randint(1, len(ids))))
        cut = draw.randrange(len(at))
        expected = []
        for anchor in at:
            kinds = (TURN, SIGN) if ids[anchor] == SIGN else (TURN,)
            earlier = [a for a in at if a < anchor and ids[a] in kinds]
            expected.append(earlier[-1] if earlier else 0)
        before, new = (torch.tensor([one], dtype=torch.int64) for one in (at[:cut], at[cut:]))
        earlier, kinds = ((one, kinds_of(both, torch.tensor([ids]), one, 0)) for one in (before, new))
        assert context_starts(SINCE_LAST_ANCHOR, both, *kinds, earlier)[0].tolist() == expected[cut:], (ids, at)
