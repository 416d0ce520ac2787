"""Words that mean something else beside certain others, and the same words elsewhere."""

import pytest
import torch

from peft_igc.expressions.alphabet import Symbol
from peft_igc.expressions.stream import stream_of
from peft_igc.expressions.symbols import SymbolTable, SymbolTokens
from peft_igc.expressions.words import WordList, hashes_of


def symbols_of(text):
    """The symbol of each word and number of a text that is one token for each word and space."""
    pieces = [piece for word in text.split(" ") for piece in (word, " ")][:-1]
    order = list(dict.fromkeys(pieces))
    tokens = SymbolTokens(SymbolTable.from_texts([one.encode() for one in order], (), (), WordList.of()))
    ids = torch.tensor([[order.index(piece) for piece in pieces]])
    stream = stream_of(tokens, ids, torch.ones_like(ids, dtype=torch.bool), 60)
    return dict(zip([pieces[at] for at in stream.token[0].tolist()], stream.symbol[0].tolist(), strict=True))


@pytest.mark.parametrize(
    ("text", "word", "symbol"),
    [
        ("56 times 210 in digits", "digits", Symbol.LETTERS),
        ("result please digits only", "digits", Symbol.LETTERS),
        ("just the digits plz", "digits", Symbol.LETTERS),
        ("add the digits of 47", "digits", Symbol.FUNCTION),
        ("sum of digits in 47", "digits", Symbol.FUNCTION),
        ("how many digits has 3 plus 5", "digits", Symbol.FUNCTION),
        ("12 x 3 as an integer", "integer", Symbol.LETTERS),
        ("12 x 3 as a bare integer", "integer", Symbol.LETTERS),
        ("the integer part of 12", "integer", Symbol.MODIFIER),
        ("3 minus 5 a negative result is fine", "negative", Symbol.LETTERS),
        ("add negative 5", "negative", Symbol.SIGN_WORD),
        ("a number and nothing more 3 plus 4", "more", Symbol.LETTERS),
        ("5 more than 7", "more", Symbol.LINK),
        ("if u divide 8 by 4", "u", Symbol.GLUE),
        ("add u plus 4", "u", Symbol.SCALE_WORD),
        ("add 86 n 57", "n", Symbol.AND),
        ("add n plus 5", "n", Symbol.SCALE_WORD),
        ("80 n tell me", "n", Symbol.SCALE_WORD),
    ],
)
def test_a_word_has_the_meaning_of_its_phrase(text, word, symbol):
    assert symbols_of(text)[word] == symbol


def test_words_that_rules_compare_with_must_be_listed():
    with pytest.raises(ValueError, match="'cellar'"):
        hashes_of("room cellar")
