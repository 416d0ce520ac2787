"""The numbers and sentences of a batch of texts as tensors, as `numbers.places` finds them row by row."""

from typing import NamedTuple

import torch

from peft_igc.numbers.digits import PAD
from peft_igc.numbers.places import number_runs, places_of
from peft_igc.numbers.token_table import PADDING


class Runs(NamedTuple):
    """`number`, `broken` and `inside` [N, L] bool, and `digits` [N, L, width] int64."""

    number: torch.Tensor
    broken: torch.Tensor
    inside: torch.Tensor
    digits: torch.Tensor


def find_runs(tokens, ids, valid, width):
    """The numbers of texts, ids and valid [N, L]; `width` digits of each."""
    number, broken, inside = (torch.zeros(ids.shape, dtype=torch.bool) for _ in range(3))
    digits = torch.full((*ids.shape, width), PAD)
    for row, line in enumerate(ids.masked_fill(~valid, PADDING).tolist()):
        for run in number_runs(tokens, line):
            (broken if run.digits is None else number)[row, run.first] = True
            inside[row, run.first + 1 : run.last + 1] = True
            if run.digits is not None:
                shown = torch.tensor([int(digit) for digit in run.digits[:width]])
                digits[row, run.first, : len(shown)] = shown
    return Runs(number, broken, inside, digits)


def sentences(tokens, ids, valid):
    """[N, L] int64, the sentence of each token, -1 within numbers and where nothing is valid."""
    found = torch.full(ids.shape, -1)
    for row, line in enumerate(ids.masked_fill(~valid, PADDING).tolist()):
        last = max((at for at, one in enumerate(line) if one != PADDING), default=0)
        places = places_of(tokens, line, 0, last, len(line))
        found[row, torch.tensor(places.at)] = torch.tensor(places.sentence)
    return found
