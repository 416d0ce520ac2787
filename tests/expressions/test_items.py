"""Texts of items become the tensors that the grammar takes."""

import pytest
import torch

from peft_igc.expressions.items import Item, encode_items
from peft_igc.numbers.digits import PAD


def test_numbers_keep_their_digits_and_the_place_of_their_point():
    items = encode_items([["1.50", "+", ".5", "*", "007"], ["3."]], num_items=6, num_digits=4)
    assert items.kind.tolist() == [
        [Item.NUMBER, Item.PLUS, Item.NUMBER, Item.TIMES, Item.NUMBER, Item.END],
        [Item.NUMBER] + [Item.END] * 5,
    ]
    assert items.digits[0, [0, 2, 4]].tolist() == [[1, 5, 0, PAD], [5, PAD, PAD, PAD], [0, 0, 7, PAD]]
    assert (items.digits[0, [1, 3, 5]] == PAD).all()
    assert items.scale.tolist() == [[2, 0, 1, 0, 0, 0], [0] * 6]
    assert items.too_long.tolist() == [False, False]
    assert [tensor.dtype for tensor in items] == [torch.int64] * 3 + [torch.bool]


def test_every_kind_has_a_text():
    items = encode_items([list("+-*/^()%") + ["of", "?"]], num_items=10, num_digits=1)
    assert items.kind.tolist() == [list(range(Item.PLUS, Item.UNKNOWN + 1))]


def test_what_does_not_fit_is_marked():
    items = encode_items([["123"], ["1"] * 4, ["12"] * 3, []], num_items=3, num_digits=2)
    assert items.too_long.tolist() == [True, True, False, False]
    assert items.kind.shape == (4, 3)
    assert (items.digits[0] == PAD).all()
    assert encode_items([], num_items=3, num_digits=2).digits.shape == (0, 3, 2)


@pytest.mark.parametrize("item", ["", ".", "-1", "1e3", "1,000", "½", "x", "²"])
def test_other_texts_are_errors(item):
    with pytest.raises(ValueError, match=r"is no item: write an unsigned decimal"):
        encode_items([[item]], num_items=2, num_digits=2)


def test_sizes_below_one_are_errors():
    with pytest.raises(ValueError, match=r"`num_items=0` and `num_digits=2` must be at least 1"):
        encode_items([["1"]], num_items=0, num_digits=2)
