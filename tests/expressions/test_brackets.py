"""Brackets: partners and shapes, compared with a stack on random texts."""

import random

import pytest
import torch

from peft_igc.expressions.alphabet import Symbol, symbol_of
from peft_igc.expressions.brackets import mismatched, with_list_marks


PAIRS = {")": "(", "]": "[", "}": "{"}


def symbols(texts):
    return torch.tensor([[symbol_of(char) for char in text] for text in texts])


def by_stack(text):
    """Whether brackets do not match."""
    stack = []
    for char in text:
        if char in PAIRS.values():
            stack.append(char)
        elif char in PAIRS and (not stack or stack.pop() != PAIRS[char]):
            return True
    return bool(stack)


def test_brackets_match_as_with_a_stack():
    draw = random.Random(0)
    texts = ["".join(draw.choices("()()[]1", k=8)) for _ in range(4000)] + ["([1]{2})", "(1)+[2]1", "([1+2)]."]
    rows = symbols(texts)
    found = mismatched(rows, torch.ones_like(rows, dtype=torch.bool)).tolist()
    expected = [by_stack(text) for text in texts]
    assert found == expected
    assert expected.count(False) > 20


def test_brackets_outside_do_not_count():
    rows = symbols(["((1+2)"])
    assert not mismatched(rows, torch.tensor([[False, True, True, True, True, True]]))


@pytest.mark.parametrize(("text", "at"), [("1)+(2)", [1]), ("(1)+2)", [5]), ("))1+()", [0, 1]), ("((1+2)", [])])
def test_closing_brackets_that_nothing_opens_are_marked(text, at):
    found = (with_list_marks(symbols([text]))[0] == Symbol.LIST_MARK).nonzero().flatten()
    assert found.tolist() == at


@pytest.mark.parametrize(
    "text", ["(1) -7=", "\n[11] -5", ": (3) -2", "7.(3) -2", "(3)  -5", "(3) +5", "(3) -.5", "[1] -$5"]
)
def test_a_number_in_brackets_before_a_sign_may_be_one_of_a_list(text):
    found = with_list_marks(symbols([text]))
    assert not {Symbol.CLOSE, Symbol.CLOSE_SQUARE} & set(found.flatten().tolist())


@pytest.mark.parametrize("more", [0, 1, 2])
def test_the_minus_behind_a_list_number_may_have_several_tokens(more):
    begin, rest, end = symbols(["[30] \u2212"]), torch.full((1, more), int(Symbol.NOTHING)), symbols(["61+4352=?"])
    assert Symbol.CLOSE_SQUARE not in with_list_marks(torch.cat([begin, rest, end], 1))


@pytest.mark.parametrize("text", ["6-(1) -7=", "6−(1) -7=", "6×(11) -5", "(1)-7", "(1) - 7", "(111) -7"])
def test_a_bracket_in_an_expression_or_before_a_difference_is_kept(text):
    assert (with_list_marks(symbols([text])) == symbols([text])).all()
