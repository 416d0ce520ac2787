"""Promises of `chats`: turns of one chat with an entry each, and turns that go on from a result."""

import itertools

import pytest

from peft_igc.data.chats import Conversations, arithmetic_chats
from peft_igc.data.columns import COLUMNS, check_columns
from peft_igc.text.values import Limits


@pytest.fixture(scope="module")
def chats():
    return Conversations(arithmetic_chats(3), 3).take(300)


def answers(chat):
    return [message["content"] for message in chat["messages"] if message["role"] == "assistant"]


def users(chat):
    return [message["content"] for message in chat["messages"] if message["role"] == "user"]


def test_every_answer_has_an_entry_and_turns_alternate(chats):
    for chat in chats:
        roles = [message["role"] for message in chat["messages"]]
        roles = roles[1:] if roles[0] == "system" else roles
        turns = len(roles) // 2
        assert 2 <= turns <= 6
        assert roles == ["user", "assistant"] * turns
        assert all(len(chat[name]) == turns for name in COLUMNS)
        assert len(check_columns(chat, Limits())) == turns  # raises if a result is wrong
    assert {len(answers(chat)) for chat in chats} == {2, 3, 4, 5, 6}


def test_turns_that_go_on_take_the_result_before_them(chats):
    found = 0
    for chat in chats:
        for at, (operator, operands, result) in enumerate(zip(*(chat[name] for name in COLUMNS), strict=True)):
            if operands is None or operands[0] in users(chat)[at]:
                continue
            if at and operands[0] == answers(chat)[at - 1] and operands[1] in users(chat)[at]:
                assert answers(chat)[at] == result
                assert result == str(exactly(operator, *map(int, operands)))
                found += 1
    assert found > 100


def exactly(operator, a, b):
    assert operator != "/" or a % b == 0
    return {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else None}[operator]


def test_chats_are_seeded_and_end_with_their_rows():
    assert Conversations(arithmetic_chats(1), 1).take(5) == list(
        itertools.islice(Conversations(arithmetic_chats(1), 1), 5)
    )
    rows = arithmetic_chats(1).take(7)
    few = list(Conversations(rows, 0, turns=(2, 2), onwards=0.0))
    assert [len(answers(chat)) for chat in few] == [2, 2, 2]
    with pytest.raises(ValueError, match=r"`turns=\(3, 2\)` is not a range"):
        Conversations(rows, 0, turns=(3, 2))


def test_test_items_are_left_out():
    item = {"igc_operator": "+", "igc_operands": ["11", "12"]}
    rows = arithmetic_chats(1, max_digits=2, excluded=[item])
    assert (11, "+", 12) in rows.excluded
