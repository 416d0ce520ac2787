"""The symbol table of a vocabulary: what it holds."""

import copy
import pickle

import torch

from peft_igc import tiny_base
from peft_igc.expressions.alphabet import Symbol
from peft_igc.expressions.stream import stream_of
from peft_igc.expressions.symbols import FIRST_DIGIT, SymbolTable, SymbolTokens, symbol_tokens
from peft_igc.expressions.words import WordList
from peft_igc.text import Vocabulary


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


def test_a_vocabulary_has_one_table_with_the_words_of_this_version():
    vocabulary = Vocabulary.from_tokenizer(tiny_base()[1])
    tokens = symbol_tokens(Vocabulary.from_bytes(vocabulary.to_bytes()))
    assert tokens is symbol_tokens(vocabulary)
    assert tokens.table == SymbolTable.from_tokenizer(tiny_base()[1])
    assert tokens.table.words == WordList.of()


def test_copies_and_pickles_hold_only_the_table():
    tokens = SymbolTokens(table_of("+", "1"))
    assert pickle.loads(pickle.dumps(tokens)).table == tokens.table
    assert copy.deepcopy(tokens).table == tokens.table


def test_letters_in_no_listed_word_have_a_hash_of_their_own_in_each_token():
    tokens = SymbolTokens(table_of(" rows", " cards", "zqx", "5")).on(torch.device("cpu"))
    hashes = tokens.hash[tokens.symbol == int(Symbol.LETTERS)].tolist()
    assert len(hashes) == 3 == len(set(hashes))


ROLES = "{% for m in messages %}<|user|>{{ m.role }}\n{{ m.content }}<|end|>{% endfor %}"


def with_template(template):
    tokenizer = copy.deepcopy(tiny_base()[1])
    tokenizer.chat_template = template
    return tokenizer


def test_the_header_is_the_name_of_the_role_and_the_control_token_before_it():
    tokenizer = with_template(ROLES)
    header = SymbolTable.from_tokenizer(tokenizer).header
    assert tokenizer.decode(header) == "<|user|>user"
    assert SymbolTable.from_tokenizer(tiny_base()[1]).header == ()
    assert SymbolTable.from_tokenizer(with_template(None)).header == ()
    assert SymbolTable.from_tokenizer(with_template("<|user|>\n\n{{ messages[0].content }}")).header == ()
    for refusing in ("{{ raise_exception('a system prompt is missing') }}", {"tool_use": ROLES},
                     "{{ messages[0].content + [] }}"):  # fmt: skip
        assert SymbolTable.from_tokenizer(with_template(refusing)).header == ()


def test_a_header_that_is_not_whole_is_text():
    tokenizer = with_template(ROLES)
    tokens = SymbolTokens.from_tokenizer(tokenizer)
    control, role = tokens.header
    ids = torch.tensor([[control, role, control, role], [role, role, control, control]])
    is_control = stream_of(tokens, ids, torch.ones_like(ids).bool(), 4).symbol == int(Symbol.CONTROL)
    assert is_control[0].all()
    assert is_control[1, -2:].all()
    assert is_control[1].sum() == 2
    short = stream_of(tokens, ids[:, 1:2], torch.ones(2, 1).bool(), 1).symbol  # fewer tokens than the header has
    assert (short != int(Symbol.CONTROL)).all()
