"""The stream of symbols: the same for a text however it is cut into tokens."""

import random

import pytest
import torch

from peft_igc.expressions.alphabet import Symbol, symbol_of
from peft_igc.expressions.stream import stream_of, symbols_in, with_list_marks
from peft_igc.expressions.symbols import SymbolTable, SymbolTokens
from peft_igc.expressions.words import WordList
from peft_igc.numbers.token_table import EMBEDDED, PADDING, UNSEEN


TEXTS = ["twenty-five plus 12,345.60 × (3)", "½ of TWELVE = −7", "each one 5 km, 0x1F\n\nzehn mal 3", "€5×3÷2 ٣"]


def tokens_of(*texts):
    spelled = [text if isinstance(text, bytes) else text.encode() for text in texts]
    table = SymbolTable.from_texts(spelled, (), (), WordList.of())
    return SymbolTokens(table)


def cuts_of(text, draw):
    """The bytes of a text in pieces of one to five."""
    spelled, place, pieces = text.encode(), 0, []
    while place < len(spelled):
        size = draw.randint(1, 5)
        pieces.append(spelled[place : place + size])
        place += size
    return pieces


def read(pieces):
    """The symbols and values of a text in pieces, without the parts of runs that its cuts double."""
    tokens = tokens_of(*dict.fromkeys(pieces))
    order = list(dict.fromkeys(pieces))
    ids = torch.tensor([[order.index(piece) for piece in pieces]])
    stream = stream_of(tokens, ids, torch.ones_like(ids, dtype=torch.bool), 200)
    found = []
    for symbol, value in zip(stream.symbol[0].tolist(), stream.value[0].tolist(), strict=True):
        run = symbol >= Symbol.LETTERS or symbol in (Symbol.SPACE, Symbol.OTHER)
        if symbol not in (Symbol.EDGE, Symbol.NOTHING) and not (run and found and found[-1][0] == symbol):
            found.append((symbol, value))
    return found


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("seed", range(8))
def test_cuts_do_not_change_the_stream(text, seed):
    assert read(cuts_of(text, random.Random(seed))) == read([text.encode()])


def test_a_word_of_several_tokens_has_its_symbol_and_a_longer_one_has_not():
    tokens = tokens_of("twe", "LVE", "s", " ")
    ids = torch.tensor([[0, 1, 3, 0, 1, 2]])
    stream = stream_of(tokens, ids, torch.ones_like(ids, dtype=torch.bool), 6)
    expected = [Symbol.NUMBER_WORD] * 2 + [Symbol.SPACE] + [Symbol.LETTERS] * 3
    assert stream.symbol[0].tolist() == expected


def test_what_is_not_read_leaves_no_symbol_and_what_is_not_known_an_unknown_one():
    tokens = tokens_of("1", "+")
    ids = torch.tensor([[PADDING, 0, EMBEDDED, UNSEEN, 99, 1, 0]])
    valid = torch.tensor([[True, True, True, True, True, False, True]])
    stream = stream_of(tokens, ids, valid, 6)
    unknown = [Symbol.UNKNOWN] * 3
    assert stream.symbol[0].tolist() == [Symbol.EDGE, Symbol.DIGIT, *unknown, Symbol.DIGIT]
    assert stream.token[0, 1:].tolist() == [1, 2, 3, 4, 6]


def test_a_longer_text_is_cut_on_the_left_and_says_so():
    tokens = tokens_of("123", "+")
    ids = torch.tensor([[0, 1, 0], [1, 0, 1]])
    valid = torch.tensor([[True, True, True], [False, True, False]])
    stream = stream_of(tokens, ids, valid, 4)
    assert stream.value[0].tolist() == [0, 1, 2, 3]
    assert stream.value[1, 1:].tolist() == [1, 2, 3]
    assert stream.cut[:, 0].tolist() == [True, False]
    assert symbols_in(tokens, ids, valid, 512) == 7
    assert symbols_in(tokens, ids, valid, 5) == 5


def test_units_have_numbers_and_a_plural_has_that_of_its_singular():
    tokens = tokens_of("hour", "hours", "km", " ")
    ids = torch.tensor([[0, 3, 1, 3, 2]])
    unit = stream_of(tokens, ids, torch.ones_like(ids, dtype=torch.bool), 5).unit[0].tolist()
    assert unit[0] == unit[2] > 0
    assert unit[4] not in (0, unit[0])
    assert unit[1] == unit[3] == 0


def symbols(texts):
    return torch.tensor([[symbol_of(char) for char in text] for text in texts])


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
