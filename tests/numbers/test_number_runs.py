"""Numbers are found as they are read, with their sentences: every integer with its digits, and no look-alike.

What breaks a number as text is in `tests/text/test_literals.py`; here it is found in tokens, wherever those are cut.
"""

import functools
import os
import random
import time
from pathlib import Path

import pytest
from small_vocabularies import VOCABULARIES
from transformers import AutoTokenizer

import peft_igc
from peft_igc.numbers.places import Run, number_runs, places_of
from peft_igc.numbers.tokenizer_profile import TokenizerProfile
from peft_igc.text.vocabulary import PADDING, UNSEEN


WORDS = VOCABULARIES["groups of three"]
THREES = WORDS.table()
SEVEN, MINUS = WORDS.texts.index("7"), WORDS.texts.index("-")


def digits_in(table, ids):
    """The digits of each number of a text, `"!"` for a broken one."""
    return [run.digits or "!" for run in number_runs(table, ids)]


@pytest.mark.parametrize("stranger", [-1, -100, len(WORDS.texts), 10**9])
def test_ids_that_the_table_does_not_know_are_no_numbers_and_break_one(stranger):
    assert digits_in(THREES, [SEVEN, stranger, 0, SEVEN, 0, stranger, 0, stranger, SEVEN]) == ["!", "7", "!"]


def test_a_number_has_its_first_and_last_token_and_padding_ends_it():
    ids = [PADDING, *WORDS.encode("(1234567"), PADDING, SEVEN, MINUS, SEVEN]
    assert number_runs(THREES, ids) == [Run(2, 4, "1234567"), Run(6, 6, "7"), Run(8, 8, "7")]


def test_a_stretch_that_was_not_seen_is_one_broken_number():
    assert number_runs(THREES, [SEVEN, 0, UNSEEN, UNSEEN]) == [Run(0, 0, "7"), Run(2, 3, None)]


# ------------------------------------------------------------------------------------------------- real tokenizers
REAL = os.environ.get("PEFT_IGC_TOKENIZERS")
SKIP = pytest.mark.skipif(not REAL, reason="set PEFT_IGC_TOKENIZERS to a folder of saved tokenizers")
TOKENIZERS = ["tiny_base", *(pytest.param(name, marks=SKIP) for name in ("llama3.1", "qwen2.5", "gpt2"))]


@functools.cache
def known(name):
    """A tokenizer and its numbers."""
    folder = Path(peft_igc.__file__).parent / "assets" if name == "tiny_base" else Path(str(REAL))
    tokenizer = AutoTokenizer.from_pretrained(folder / name)
    return tokenizer, TokenizerProfile.from_tokenizer(tokenizer).table


NO_OPERANDS = (
    "12.50 3.14159 .5 50% 1e5 2.5e-3 6E23 10:30 5th 3D x2 mp3 1,2345 12,34 1,23,456 0,123 5² 10^3 ٣٤ COVID-19 "
    "5-year-old 1_000 1'000 5! #7 5km v1.2.3 1,234.5 12.x 2**8 7°C 99.9% ½2 4x 0x1F ²3"
).split()
OPERANDS = [
    ("2024-05-12", ["2024", "5", "12"]),
    ("$5", ["5"]),
    ("[7]", ["7"]),
    ('"8"', ["8"]),
    ("=9", ["9"]),
    ("(−3)", ["3"]),
]
BETWEEN = " plus | + |+|*| * | × |×| ÷ |÷| / |/| minus | - |, |; |\n|. | times (|) and |=|?\n\n| :\n".split("|")


def random_expression(draw):
    """A text with numbers of all kinds, and the operands in it."""
    written, operands = draw.choice(["", "", "What is ", "(", "Q: ", "**"]), []
    for place in range(draw.randint(1, 5)):
        written += draw.choice(BETWEEN) if place else ""
        kind = draw.random()
        number = draw.randrange(10 ** draw.randint(1, 15))
        if kind < 0.6:
            sign = draw.choice(["", "", "-", "−"])
            form = draw.choice([f"{number}", f"{number}", f"{number:,}", f"{number:03}", f"00{number}"])
            written, found = written + sign + form, [str(number)]
        elif kind < 0.85:
            written, found = written + draw.choice(NO_OPERANDS) + " ", []  # what follows may join it in one token
        else:
            text, found = draw.choice(OPERANDS)
            written += text
        operands += found
    return written + draw.choice(["", "?", ".", " =", "=", ",", ":", "\n", ".\n", " the end."]), operands


def test_the_places_of_128_000_tokens_are_found_in_time_that_grows_with_the_text():
    ids = WORDS.encode(" the 123456.") * 25_600
    least = min(_seconds(ids[-4_000:]) for _ in range(5))
    assert len(ids) == 128_000
    assert _seconds(ids) < 100 * least  # 32 times as long


def _seconds(ids):
    """The processor's time for the last places of a text."""
    start = time.process_time()
    assert places_of(THREES, ids, 0, len(ids) - 1, 512).numbers
    return time.process_time() - start


@pytest.mark.parametrize("name", TOKENIZERS)
def test_random_expressions_read_as_they_are_written(name):
    (tokenizer, table), draw = known(name), random.Random(0)
    written, operands = zip(*(random_expression(draw) for _ in range(1500)), strict=True)
    rows = tokenizer(list(written), add_special_tokens=False)["input_ids"]
    for row, wanted, text in zip(rows, operands, written, strict=True):
        assert [number for number in digits_in(table, row) if number != "!"] == wanted, text


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
def test_numbers_by_sentence(text, expected):
    tokenizer, table = known("tiny_base")
    ids = tokenizer(text.replace("</s>", tokenizer.eos_token))["input_ids"]
    places = places_of(table, ids, 0, len(ids) - 1, len(ids))
    sentences = [places.sentence[at] for at in places.numbers]
    assert [sentences.count(one) for one in dict.fromkeys(sentences)] == expected


def test_the_end_of_a_line_joins_no_numbers():
    tokenizer, table = known("tiny_base")
    ids = tokenizer("3!\n5 boxes")["input_ids"]
    assert [run.digits for run in places_of(table, ids, 0, len(ids) - 1, len(ids)).numbers.values()] == [None, "5"]
