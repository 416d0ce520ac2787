"""The sentences of a text, by which the reader knows how far a token is from the operands.

Try it: `pytest tests/numbers/test_sentences.py`
"""

import pytest

from peft_igc import tiny_base
from peft_igc.numbers.places import places_of
from peft_igc.numbers.tokenizer_profile import TokenizerProfile


@pytest.fixture(scope="module")
def known():
    """The embedded base's tokenizer and what it means for numbers."""
    tokenizer = tiny_base()[1]
    return tokenizer, TokenizerProfile.from_tokenizer(tokenizer).table


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
        ("I am 9</s>5 + 3", [1, 2]),  # a special token
        ("I had 3!\n5 boxes", [1, 1]),  # `!` and the end of the line are one token
    ],
)
def test_numbers_by_sentence(known, text, expected):
    tokenizer, table = known
    ids = tokenizer(text.replace("</s>", tokenizer.eos_token))["input_ids"]
    places = places_of(table, ids, 0, len(ids) - 1, len(ids))
    sentences = [places.sentence[at] for at in places.numbers]
    assert [sentences.count(one) for one in dict.fromkeys(sentences)] == expected


def test_the_end_of_a_line_joins_no_numbers(known):
    tokenizer, table = known
    ids = tokenizer("3!\n5 boxes")["input_ids"]
    assert [run.digits for run in places_of(table, ids, 0, len(ids) - 1, len(ids)).numbers.values()] == [None, "5"]
