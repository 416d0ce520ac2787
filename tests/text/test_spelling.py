"""A result goes on where the text has come to, in the tokens that the tokenizer itself would use."""

import json
import random
from decimal import Decimal
from pathlib import Path

import pytest
import real_tokenizers
import small_vocabularies
from hypothesis import given, settings
from hypothesis import strategies as st

from peft_igc.numbers.tokenizer_profile import TokenizerProfile
from peft_igc.text.spelling import ENDS, Progress, Row, Spelled, Style


properties = settings(max_examples=300, derandomize=True, deadline=None)

VOCABULARIES = small_vocabularies.VOCABULARIES | {"points with digits": small_vocabularies.FUSED}
SPELLERS = {name: words.table() for name, words in VOCABULARIES.items()}
WORDS = small_vocabularies.VOCABULARIES["groups of three"]
THREES = SPELLERS["groups of three"]


def progress(number, anchor=0, spelled_by=THREES, **style):
    """The progress of a number before its anchor."""
    return Progress(Style(spelled_by, **style), number, anchor)


def written(spelled_by, number):
    """The ids of a number that is written token by token directly after an anchor, an unknown token."""
    known, ids = progress(number, 0, spelled_by), [-1]
    while True:
        known, (more,) = known.after(ids[-1:])
        assert more is not None
        if more.token < 0:
            assert known.completed == len(ids) - 1 - number.endswith("%")
            return ids[1:]
        ids.append(more.token)


def pieces(ids, words=WORDS):
    return [words.texts[token] for token in ids]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("0", ["0"]),
        ("-1000070", ["-", "100", "007", "0"]),
        ("9" * 40, ["999"] * 13 + ["9"]),
        ("-0.125", ["-", "0", ".", "125"]),
        ("0.0000001", ["0", ".", "000", "000", "1"]),
        ("1234.5678", ["123", "4", ".", "567", "8"]),
        ("0.00", ["0", ".", "00"]),
    ],
)
def test_a_number_is_spelled_in_groups_from_the_left_on_both_sides_of_its_point(number, expected):
    assert pieces(written(THREES, number)) == expected


LINES = [json.loads(line) for line in Path(__file__).with_name("writing.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line['number']} in {line['text']}")
def test_the_result_goes_on_where_the_text_has_come_to(line):
    """A line has what is `shown` after every token: a token of the number, its end, or nothing; and `states`."""
    found = progress(line["number"], once=line.get("once", False)).after(WORDS.encode(line["text"]))[1]
    assert all(one is None or (one.token == -1) == (one.state in ENDS) for one in found)
    shown = [one and (WORDS.texts[one.token] if one.token >= 0 else "end") for one in found]
    assert shown == line["shown"]
    if "states" in line:
        assert [one and one.state.name.lower() for one in found] == line["states"]


def test_a_result_that_is_written_once_is_over_after_it():
    known, found = progress("7", once=True).after(WORDS.encode("=7"))
    assert [one.state for one in found] == [Spelled.START, Spelled.END]
    assert not known.is_over  # a point or comma may follow
    assert known.after(WORDS.encode("."))[1][0] == (-1, Spelled.END)
    for text in (".", " "):
        later, more = known.after(WORDS.encode(text + "7 7"))
        assert later.is_over
        assert more[1:] == [None] * 3
    assert progress("7", once=True).after(WORDS.encode("=8"))[0].is_over  # whatever number it is


def test_a_percentage_that_is_written_once_is_over_without_its_sign_too():
    for text in ("=17% 17", "=17 17"):
        *_, last = progress("17%", once=True).after(WORDS.encode(text))[1]
        assert last is None


def test_every_token_of_a_result_is_among_those_that_are_named():
    numbers = ("-1234.56", "17%", "-0.5%", "90")
    assert {token for number in numbers for token in written(THREES, number)} <= set(THREES.written_with)


def test_a_percentage_needs_a_token_for_its_sign():
    words = WORDS._replace(texts=[text if text != "%" else "#" for text in WORDS.texts])
    assert (THREES.spells("17%"), words.table().spells("17%")) == (True, False)


def test_the_end_of_a_turn_ends_the_writing():
    known, found = progress("7", ends=(WORDS.encode("<s>")[0],)).after(WORDS.encode("=<s>7"))
    assert (known.ended, known.is_over) == (1, True)
    assert found[1:] == [None, None]
    assert not progress("7", ends=(WORDS.encode("=")[0],)).after(WORDS.encode("= "))[0].is_over  # at the anchor


@pytest.mark.parametrize("name", VOCABULARIES)
@properties
@given(data=st.data())
def test_a_text_that_comes_in_pieces_goes_on_as_in_one_piece(name, data):
    words, number = VOCABULARIES[name], data.draw(st.sampled_from(["7", "-123456", "0.125", "-12.05"]))
    parts = st.sampled_from([number, number[:2], number[1:], *".,-= ", "12", "("])
    ids = [-1, *words.encode("".join(data.draw(st.lists(parts, min_size=1, max_size=8))))]
    known, found = progress(number, 0, SPELLERS[name]), []
    while len(found) < len(ids):
        end = data.draw(st.integers(len(found) + 1, len(ids)))
        known, part = known.after(ids[len(found) : end])
        found += part
    whole, expected = progress(number, 0, SPELLERS[name]).after(ids)
    assert (found, known.completed) == (expected, whole.completed)


def row_of(text, *steps, **style):
    """The row of a text with the results of some anchors, and what continues them after each token."""
    row = Row().begun((anchor, number and progress(number, anchor, **style)) for anchor, number in steps)
    ids = WORDS.encode(text)
    row, found = row.continued(ids, 0, 0)
    return row, ids, [one and WORDS.texts[one.token] for one in found]


def test_only_tokens_after_the_last_ones_are_counted():
    row, _, _ = row_of("=12", (0, "123456"))
    more = WORDS.encode("3")
    later, found = row.continued(more, 2, 2)
    assert [WORDS.texts[one.token] for one in found] == ["456"]
    assert row.continued(more, 2, 2)[1] == found  # the row before is as it was
    assert later.continued(WORDS.encode("456"), 3, 3)[0].steps[0][1].completed == 3


@pytest.mark.parametrize(
    ("result", "longer", "whole"),
    [
        ("150000", ("150000000", "150000.5", "150000,5", "3 150000000"), ("150000", "= 150000.", "3 150000, 5")),
        ("12.5", ("12.55", "-12.5", "12"), ("12.5", "12.5.", "12.5 = 252")),
        ("-7", ("-78", "7", "-7.5"), ("-7", "= -7.")),
        ("17%", ("17", "17%5"), ("17%", "17%.")),
    ],
)
def test_a_result_that_another_number_begins_with_is_not_spelled(result, longer, whole):
    assert not any(progress(result).is_spelled([-1, *WORDS.encode(text)]) for text in longer)
    assert all(progress(result).is_spelled([-1, *WORDS.encode(text)]) for text in whole)
    ended = progress(result, 0, ends=(WORDS.texts.index("<s>"),))
    assert not ended.is_spelled([-1, *WORDS.encode(f"3<s>{whole[0]}")])


@pytest.mark.parametrize("name", ["tiny", real_tokenizers.GPT2, real_tokenizers.LLAMA, real_tokenizers.QWEN])
def test_a_written_result_is_its_text_in_the_tokens_of_the_tokenizer(name):
    tokenizer = real_tokenizers.saved(name)
    spelled_by, draw, results = TokenizerProfile.from_tokenizer(tokenizer).table, random.Random(0), []
    for places in [0] * 400 + [draw.randint(1, 20) for _ in range(400)]:
        digits = draw.choice((1, 1, -1)) * draw.randrange(1, 10 ** draw.randint(1, 39))
        results.append(f"{Decimal(digits).scaleb(-places):f}")
    regular = name != "gpt2"  # which has no groups of one size
    for result, ids in zip(results, tokenizer(results, add_special_tokens=False)["input_ids"], strict=True):
        found = written(spelled_by, result)
        assert found == ids or not regular
        assert tokenizer.decode(found).strip() == result
