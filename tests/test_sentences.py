"""Sentences, and numbers beside the operands: what makes a text no calculation of two numbers, whatever is asked."""

import pytest
import torch

from peft_igc import tiny_base
from peft_igc.profile import TokenizerProfile
from peft_igc.runs import NumberTokens, find_runs, numbers_aside, sentences


@pytest.fixture(scope="module")
def known():
    """The embedded base's tokenizer and what it means for numbers."""
    tokenizer = tiny_base()[1]
    return tokenizer, NumberTokens(TokenizerProfile.from_tokenizer(tokenizer).table)


def read(known, texts, behind=0):
    """Sentence of each number of each text, left-padded; `behind` tokens at the end are not to be seen."""
    tokenizer, tokens = known
    rows = [tokenizer(text)["input_ids"] for text in texts]
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    valid = torch.tensor(
        [[False] * (width - len(row)) + [True] * (len(row) - behind) + [False] * behind for row in rows]
    )
    runs = find_runs(tokens, ids, valid, 6)
    return sentences(tokens, ids, valid, runs), runs.number | runs.broken


def groups(known, text):
    """How many numbers stand in each sentence that has any, in order."""
    sentence, number = read(known, [text, "x " * 30])
    of_numbers = sentence[0][number[0]].tolist()
    return [of_numbers.count(s) for s in dict.fromkeys(of_numbers)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is 5 plus 3?", [2]),
        ("I am 9. What is 5 plus 3?", [1, 2]),
        ("I am 9! What is 5 plus 3?", [1, 2]),
        ("Am I 9? What is 5 plus 3?", [1, 2]),
        ("Page 9; what is 5 plus 3?", [1, 2]),
        ("Question 9: what is 5 plus 3?", [1, 2]),
        ("Today: 9\nWhat is 5 plus 3?", [1, 2]),
        ("9\n\n5 + 3 =", [1, 2]),
        ("9. What is 5 plus 3?", [1, 2]),
        ("9) What is 5 plus 3?", [1, 2]),
        ("(9) What is 5 plus 3?", [1, 2]),
        ("[9] What is 5 plus 3?", [1, 2]),
        ("I am 9, what is 5 plus 3?", [3]),
        ("What is 1.5 plus 3?", [3]),  # a decimal is two broken numbers, and its point no full stop
        ("At 10:30 add 5 and 3.", [4]),
        ("What is 5 plus (3) plus 2?", [3]),
        ("What is 1,234 plus 3?", [2]),
        ("What is 5 plus 3? It is 9 o'clock.", [2, 1]),
    ],
)
def test_numbers_by_sentence(known, text, expected):
    assert groups(known, text) == expected


def test_a_special_token_ends_a_sentence(known):
    tokenizer, _ = known
    end = tokenizer.eos_token
    assert groups(known, f"I am 9{end}5 + 3") == [1, 2]


@pytest.mark.parametrize(
    ("text", "chosen", "aside"),
    [
        ("What is 5 plus 3?", (0, 1), False),
        ("What is 5 plus 3?", (1, 0), False),
        ("What is 5 plus 3 plus 2?", (0, 1), True),
        ("What is 5 plus 3 plus 2?", (0, 2), True),
        ("What is 5 plus 3 plus 2?", (2, 1), True),
        ("What is 5 plus 3.5?", (0, 1), True),
        ("What is 5 plus 3 percent of 20%?", (0, 1), True),
        ("It is 9. What is 5 plus 3? I have 2.", (1, 2), False),
        ("Anna has 5 pens. Ben has 3 pens. How many are there?", (0, 1), False),
        ("Anna has 5 pens. Tom is 9. Ben has 3 pens. How many are there?", (0, 2), True),
        ("Anna has 5 pens. Tom is 9. Ben has 3 pens. How many are there?", (0, 1), False),
        ("Anna has 5 pens and 2 books. Ben has 3 pens.", (0, 2), True),
    ],
)
def test_a_further_number_among_the_operands(known, text, chosen, aside):
    """`chosen` counts the numbers of the text; padding in front changes nothing."""
    sentence, number = read(known, [text, "5 + 3 " * 20])
    places = number[0].nonzero().flatten()
    assert numbers_aside(sentence, number, places[list(chosen)][None])[0].item() is aside


def test_rows_do_not_see_each_other(known):
    texts = ["What is 5 plus 3 plus 2?", "What is 5 plus 3?"]
    sentence, number = read(known, texts)
    chosen = torch.stack([row.nonzero().flatten()[:2] for row in number])
    assert numbers_aside(sentence, number, chosen).tolist() == [True, False]


def test_what_is_not_to_be_seen_counts_for_nothing(known):
    text = "What is 5 plus 3 plus 2"
    sentence, number = read(known, [text], behind=3)
    chosen = number[0].nonzero().flatten()[None]
    assert chosen.shape == (1, 2)
    assert not numbers_aside(sentence, number, chosen).item()


def test_the_end_of_a_line_joins_no_numbers(known):
    """The tokenizer makes one token of `!` and the line break, which breaks the factorial before it alone."""
    tokenizer, tokens = known
    ids = torch.tensor([tokenizer("3!\n5 boxes")["input_ids"]])
    runs = find_runs(tokens, ids, torch.ones_like(ids, dtype=torch.bool), 6)
    assert (int(runs.broken.sum()), int(runs.number.sum())) == (1, 1)
