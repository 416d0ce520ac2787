"""The symbol table of a vocabulary: what it holds, and that it is saved and loaded without loss."""

import copy
import json
import pickle

import pytest
import torch

from peft_igc import tiny_base
from peft_igc.expressions.alphabet import Symbol
from peft_igc.expressions.symbols import FIRST_DIGIT, SymbolTable, SymbolTokens
from peft_igc.expressions.words import WordList


WORDS = WordList({"number_word": ("twelve",), "operator_word": ("plus",)})


def table_of(*texts, special=(), unknown=()):
    return SymbolTable.from_texts([text.encode() for text in texts], special, unknown, WORDS)


def test_a_token_is_its_symbols_one_after_the_other():
    table = table_of("+(", " 12", "<s>", "<unk>", special=[2], unknown=[3])
    assert list(table.sizes) == [2, 3, 1, 1]
    assert list(table.codes[:2]) == [Symbol.PLUS, Symbol.OPEN]
    assert list(table.codes[2:5]) == [Symbol.SPACE, FIRST_DIGIT + 1, FIRST_DIGIT + 2]
    assert list(table.codes[5:]) == [Symbol.CONTROL, Symbol.UNKNOWN]


def test_only_pieces_of_listed_words_are_kept():
    table = table_of("twe", "lve", "Plus", "apple", "lusty")
    assert set(table.pieces) == {"twe", "lve", "plus"}


def test_a_token_of_very_many_symbols_ends_in_an_unknown_one():
    table = table_of("1" * 300)
    assert list(table.sizes) == [255]
    assert table.codes[-1] == Symbol.UNKNOWN


def test_a_table_survives_json():
    table = SymbolTable.from_tokenizer(tiny_base()[1])
    loaded = SymbolTable.from_json(json.loads(json.dumps(table.to_json())))
    assert loaded == table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": "?"}, "The symbol table is damaged"),
        ({"sizes": table_of("1").to_json()["sizes"]}, "`sizes` has 1 symbols, but `codes` has 2"),
        ({"pieces": {"twe": [9]}}, "`pieces` names symbol 9, but `codes` has 2"),
        ({"words": {"nonsense": ["a"]}}, "`nonsense` is no class of words"),
    ],
)
def test_a_damaged_table_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        SymbolTable.from_json(table_of("+", "1").to_json() | change)


def test_a_table_with_other_keys_is_refused():
    with pytest.raises(ValueError, match=r"A symbol table has the keys .*, got \['codes'\]"):
        SymbolTable.from_json({"codes": ""})


def test_copies_and_pickles_hold_only_the_table():
    tokens = SymbolTokens(table_of("+", "1"))
    assert pickle.loads(pickle.dumps(tokens)).table == tokens.table
    assert copy.deepcopy(tokens).table == tokens.table


def test_letters_in_no_listed_word_have_a_hash_of_their_own_in_each_token():
    tokens = SymbolTokens(table_of(" rows", " cards", "zqx", "5")).on(torch.device("cpu"))
    hashes = tokens.hash[tokens.symbol == int(Symbol.LETTERS)].tolist()
    assert len(hashes) == 3 == len(set(hashes))
