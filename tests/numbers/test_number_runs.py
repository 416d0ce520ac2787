"""Numbers are found as they are read: every integer with its digits, and nothing that only looks like one."""

import functools
import os
import random
import time
from pathlib import Path

import pytest
import reference_tokens as naive
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import find_runs
from transformers import AutoTokenizer

import peft_igc
from peft_igc.numbers.digits import PAD
from peft_igc.numbers.places import places_of
from peft_igc.numbers.token_table import TokenTable
from peft_igc.numbers.tokenizer_profile import TokenizerProfile
from peft_igc.text.vocabulary import Vocabulary


properties = settings(max_examples=300, derandomize=True, deadline=None)


def table_of(words):
    """A vocabulary of `reference_tokens` as the package takes it."""
    texts = Vocabulary([text.encode() for text in words.texts], control=[words.texts.index("<s>")])
    return TokenTable(words.digits, words.spaced, texts, words.group, words.minus, words.point, words.points)


TOKENS = {name: table_of(words) for name, words in naive.VOCABULARIES.items()}
WORDS = naive.VOCABULARIES["groups of three"]
THREES = TOKENS["groups of three"]


def batch_of(rows, left=0, right=0, padding=0):
    """ids [N, L] and validity [N, L] of lists of ids, padded to the longest and by so much more."""
    longest = max(map(len, rows), default=0)
    ids, valid = [], []
    for row in rows:
        behind = longest - len(row) + right
        ids.append([padding] * left + row + [padding] * behind)
        valid.append([False] * left + [True] * len(row) + [False] * behind)
    shape = (len(rows), left + longest + right)
    return torch.tensor(ids, dtype=torch.int64).view(shape), torch.tensor(valid, dtype=torch.bool).view(shape)


def read(runs):
    """The runs of each row in order: an operand's digits, `"!"` for a broken run."""
    found = [[] for _ in runs.number]
    row, place = (runs.number | runs.broken).nonzero().unbind(1)
    for r, broken, digits in zip(
        row.tolist(), runs.broken[row, place].tolist(), runs.digits[row, place].tolist(), strict=True
    ):
        found[r].append("!" if broken else "".join(str(digit) for digit in digits if digit != PAD))
    return found


def numbers_in(text, width=12):
    """What is read in a text."""
    ids, valid = batch_of([WORDS.encode(text)])
    return read(find_runs(THREES, ids, valid, width))[0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("12345678", ["12345678"]),
        ("0000000100", ["100"]),
        ("12 000 5", ["12", "0", "5"]),
        ("12+30=", ["12", "30"]),
        ("12.\n5", ["12", "5"]),
        ("12.50", ["!", "!"]),
        ("12.x", ["!"]),
        ("x12", ["!"]),
        ("12%", ["!"]),
        ("12:30", ["!", "!"]),
        ("1'000", ["!", "!"]),
        ("12,", ["12"]),
        ("12,345,678", ["12345678"]),
        ("0,123", ["!"]),
        ("12,34", ["!"]),
        ("1,234.50", ["!", "!"]),
        ("-5", ["5"]),
        ("−5", ["5"]),
        ("3-5", ["3", "5"]),
        ("x-19", ["!"]),
        ("%−19", ["!"]),
    ],
)
def test_a_number_is_an_operand_if_it_stands_for_itself(text, found):
    assert numbers_in(text) == found


@pytest.mark.parametrize("stranger", [-1, -100, len(WORDS.texts), 10**9])
def test_ids_that_the_table_does_not_know_are_no_numbers_and_break_one(stranger):
    seven = WORDS.texts.index("7")
    ids, valid = batch_of([[seven, stranger, 0, seven, 0, stranger, 0, stranger, seven]])
    assert read(find_runs(THREES, ids, valid, 4)) == [["!", "7", "!"]]


def texts(words):
    """Strategy: ids of a text that is rich in numbers and what may join or break them, with unknown ids among them."""
    numbers = list(words.digits)[:20] + list(words.digits)[-40:]
    separators = [words.texts.index(mark) for mark in ".,,:-'"]
    marks = [*range(len(naive.MARKS)), -1, len(words.texts)]
    kinds = [st.sampled_from(kind) for kind in (numbers, separators, numbers, marks)]
    return st.lists(st.one_of(kinds), max_size=25)


TEXTS = {name: texts(words) for name, words in naive.VOCABULARIES.items()}


def assert_as_read(words, tokens, ids, valid, width):
    """The tensors find in each row what its naive twin reads in the characters."""
    runs = find_runs(tokens, ids, valid, width)
    for row in range(len(ids)):
        shown = [
            words.text(token) if there else naive.NOTHING
            for token, there in zip(ids[row].tolist(), valid[row].tolist(), strict=True)
        ]
        expected = naive.find_runs(shown, width)
        assert naive.TextRuns(*(field[row].tolist() for field in runs)) == expected, shown


@pytest.mark.slow
@pytest.mark.parametrize("name", TOKENS)
@properties
@given(st.data())
def test_every_text_reads_as_its_characters_do(name, data):
    words, tokens = naive.VOCABULARIES[name], TOKENS[name]
    rows = data.draw(st.lists(TEXTS[name], max_size=3))
    padding = data.draw(st.sampled_from([0, words.texts.index("7"), words.texts.index("x"), -1]))
    ids, valid = batch_of(rows, data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2)), padding)
    if data.draw(st.booleans()) and ids.numel():  # holes too: rows of a cache that went on
        generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
        valid &= torch.rand(ids.shape, generator=generator) < 0.7
    assert_as_read(words, tokens, ids, valid, data.draw(st.integers(1, 12)))


@pytest.mark.parametrize("name", TOKENS)
def test_every_text_of_three_tokens_reads_as_its_characters_do(name):
    words = naive.VOCABULARIES[name]
    some = [words.texts.index(text) for text in ("0", "7", "9")] + list(words.digits)[-2:]
    every = torch.tensor([*range(len(naive.MARKS)), *some, len(words.texts)])
    ids = torch.cartesian_prod(every, every, every)
    assert len(ids) > 20_000
    assert_as_read(words, TOKENS[name], ids, torch.ones_like(ids, dtype=torch.bool), 8)


@pytest.mark.parametrize("name", TOKENS)
def test_long_random_texts_read_as_their_characters_do(name):
    words = naive.VOCABULARIES[name]
    marks, numbers = torch.arange(len(naive.MARKS)), torch.tensor(list(words.digits))
    size = (20, 500)
    mixed = torch.rand(size) < 0.3
    ids = torch.where(mixed, marks[torch.randint(len(marks), size)], numbers[torch.randint(len(numbers), size)])
    assert_as_read(words, TOKENS[name], ids, torch.rand(size) < 0.98, 30)


# ------------------------------------------------------------------------------------------------- real tokenizers
REAL = os.environ.get("PEFT_IGC_TOKENIZERS")


def tokenizers(*names):
    """The embedded base's tokenizer, and real ones where they are at hand."""
    reason = "set PEFT_IGC_TOKENIZERS to a folder of saved tokenizers (gpt2, llama3.1, qwen2.5)"
    skip = pytest.mark.skipif(not REAL, reason=reason)
    return pytest.mark.parametrize("name", ["tiny_base", *(pytest.param(name, marks=skip) for name in names)])


@functools.cache
def known(name):
    """A tokenizer and its numbers."""
    folder = Path(peft_igc.__file__).parent / "assets" if name == "tiny_base" else Path(str(REAL))
    tokenizer = AutoTokenizer.from_pretrained(folder / name)
    return tokenizer, TokenizerProfile.from_tokenizer(tokenizer).table


def tokenized(tokenizer, written):
    """ids and validity [N, L] of texts, in slices of 2,000."""
    for start in range(0, len(written), 2000):
        rows = tokenizer(written[start : start + 2000], add_special_tokens=False)["input_ids"]
        yield slice(start, start + 2000), *batch_of(rows)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("91 minus 37!", ["91", "37"]),
        ("4500 and 1,320!!", ["4500", "1320"]),
        ("5! and 7!", ["!", "!"]),
        ("12!7", ["!", "7"]),
        ("37!=", ["37"]),  # refused by the rules for literals
    ],
)
def test_a_sign_of_exclamation_behind_two_digits_is_no_factorial(text, found):
    tokenizer, tokens = known("tiny_base")
    ((_, ids, valid),) = tokenized(tokenizer, [text])
    assert read(find_runs(tokens, ids, valid, 9)) == [found]


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


@pytest.mark.slow
@tokenizers("llama3.1", "qwen2.5", "gpt2")
def test_ten_thousand_random_expressions_read_as_they_are_written(name):
    tokenizer, tokens = known(name)
    draw = random.Random(0)
    written, operands = zip(*(random_expression(draw) for _ in range(10_000)), strict=True)
    assert sum(map(len, operands)) > 20_000
    for part, ids, valid in tokenized(tokenizer, written):
        for found, wanted, text in zip(
            read(find_runs(tokens, ids, valid, 16)), operands[part], written[part], strict=True
        ):
            assert [number for number in found if number != "!"] == wanted, text
