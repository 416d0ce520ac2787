"""Numbers are found as they are read, with their sentences: every integer with its digits, and no look-alike.

What breaks a number as text is in `tests/text/golden.jsonl`; here it is found in tokens, wherever those are cut.
"""

import time
from pathlib import Path

import pytest
from small_vocabularies import VOCABULARIES

import peft_igc
from peft_igc.data.files import read_rows
from peft_igc.mappings.places import Run, compared, number_runs, places_of
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


def test_the_end_of_a_line_joins_no_numbers():
    tokenizer = peft_igc.tiny_base()[1]
    table = TokenizerProfile.from_tokenizer(tokenizer).table
    ids = tokenizer("3!\n5 boxes")["input_ids"]
    assert [run.digits for run in places_of(table, ids, 0, len(ids) - 1, len(ids)).numbers.values()] == [None, "5"]


@pytest.mark.parametrize("line", read_rows(Path(__file__).with_name("compared.jsonl")))
def test_numbers_of_a_text_are_compared(line):
    found = compared({place: Run(place, place, digits) for place, digits in enumerate(line["numbers"])})
    assert [_described(found.get(place, 0)) for place in range(len(line["numbers"]))] == line["wanted"]


def _described(fact):
    """What an integer of `compared` says, in words."""
    rank, signs = divmod(fact - 1, 4)
    named = ["alone", "equal", "least", "between", "greatest"][rank]
    return "unknown" if fact == 0 else ", ".join([named, *["a multiple"] * (signs > 1), *["a divisor"] * (signs % 2)])
