"""The sentences of a text, by which the reader knows how far a token is from the operands.

Try it: `pytest tests/numbers/test_sentences.py`
"""

import pytest
import torch
from runs import find_runs, sentences

from peft_igc import tiny_base
from peft_igc.numbers.tokenizer_profile import TokenizerProfile


@pytest.fixture(scope="module")
def known():
    """The embedded base's tokenizer and what it means for numbers."""
    tokenizer = tiny_base()[1]
    return tokenizer, TokenizerProfile.from_tokenizer(tokenizer).table


def ids_of(known, texts, behind=0):
    """ids and validity of texts, left-padded; `behind` tokens at the end are not to be seen."""
    rows = [known[0](text)["input_ids"] for text in texts]
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    valid = torch.tensor(
        [[False] * (width - len(row)) + [True] * (len(row) - behind) + [False] * behind for row in rows]
    )
    return ids, valid


def read(known, texts, behind=0):
    """Sentence of each number of each text, arguments as in `ids_of`."""
    ids, valid = ids_of(known, texts, behind)
    runs = find_runs(known[1], ids, valid, 6)
    return sentences(known[1], ids, valid), runs.number | runs.broken


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
        ("Page 9; what is 5 plus 3?", [1, 2]),
        ("Question 9: what is 5 plus 3?", [1, 2]),
        ("Today: 9\nWhat is 5 plus 3?", [1, 2]),
        ("9. What is 5 plus 3?", [1, 2]),
        ("9) What is 5 plus 3?", [1, 2]),
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


def test_the_end_of_a_line_joins_no_numbers(known):
    """The tokenizer makes one token of `!` and the line break, which breaks the factorial before it alone."""
    tokenizer, tokens = known
    ids = torch.tensor([tokenizer("3!\n5 boxes")["input_ids"]])
    runs = find_runs(tokens, ids, torch.ones_like(ids, dtype=torch.bool), 6)
    assert (int(runs.broken.sum()), int(runs.number.sum())) == (1, 1)
