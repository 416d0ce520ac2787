"""The number format: text goes in and comes out unchanged, nothing malformed passes."""

import itertools
import re

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numbers_as_digits import decode, encode

from peft_igc.numbers.digits import PAD, canonical, is_number


properties = settings(max_examples=200, derandomize=True, deadline=None)
integers = st.integers(0, 40).flatmap(lambda n: st.integers(-(10**n) + 1, 10**n - 1)) | st.integers(-200, 200)


@properties
@given(st.lists(integers, max_size=6), st.integers(40, 45))
def test_text_survives_the_round_trip(numbers, width):
    texts = [str(number) for number in numbers]
    digits, signs = encode(texts, width)
    assert decode(digits, signs) == texts
    assert digits.tolist() == [[*map(int, text.strip("-")), *[PAD] * width][:width] for text in texts]
    assert signs.tolist() == [int(number < 0) for number in numbers]


def test_a_result_is_shown_as_it_is_written():
    assert decode(torch.tensor([[0, 0, 7], [0, 0, PAD]]), torch.tensor([1, 1])) == ["-7", "0"]
    digits, signs = encode(["-7", "1000", "17", "-335"], 5)
    assert canonical(digits, signs, torch.tensor([2, 2, -1, -3])) == ["-0.07", "10.00", "17%", "-3.35%"]


def test_is_number_agrees_with_a_pattern_on_every_row_of_three_classes():
    rows = list(itertools.product(range(-1, 13), repeat=3))
    texts = ["".join("0123456789_"[one] if 0 <= one <= PAD else "?" for one in row) for row in rows]
    expected = [re.fullmatch("[0-9]+_*", text) is not None for text in texts]
    assert is_number(torch.tensor(rows)).tolist() == expected
    assert 0 < sum(expected) < len(rows) == 14**3
