"""Characters as symbols: which matter, what is joined, and what a token that ends within a character is."""

import pytest

from peft_igc.expressions.alphabet import CHARACTERS, Symbol, numeric_characters, symbol_of, symbols_of_bytes


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("12", [Symbol.DIGIT, Symbol.DIGIT]),
        ("  =-", [Symbol.SPACE, Symbol.EQUALS, Symbol.MINUS]),
        ("don't", [Symbol.LETTERS, Symbol.APOSTROPHE, Symbol.LETTERS]),
        ("×÷\u2212", [Symbol.TIMES, Symbol.DIVIDE, Symbol.MINUS_SIGN]),
        ("½²٣", [Symbol.NUMERIC] * 3),
        ("@#§", [Symbol.OTHER]),
        ("))", [Symbol.CLOSE, Symbol.CLOSE]),
        ("\n\n", [Symbol.LINE, Symbol.LINE]),
    ],
)
def test_characters_become_symbols(text, symbols):
    assert symbols_of_bytes(text.encode()).symbols == symbols


def test_digits_keep_their_values_and_letters_their_case_folded_pieces():
    found = symbols_of_bytes(b"Ab307")
    assert found.values[1:] == [3, 0, 7]
    assert found.pieces[0] == "ab"


def test_a_token_that_ends_within_a_character_holds_parts_of_it():
    whole = "×".encode()
    assert symbols_of_bytes(b"5" + whole[:1]).symbols == [Symbol.DIGIT, Symbol.PART]
    assert symbols_of_bytes(whole[1:] + b"5").symbols == [Symbol.REST, Symbol.DIGIT]


def test_every_digit_and_fraction_of_unicode_is_numeric_or_an_ascii_digit():
    assert {symbol_of(char) for char in numeric_characters() if char not in CHARACTERS} == {Symbol.NUMERIC}
    assert "½" in numeric_characters()


def test_codes_have_no_gaps_so_that_tables_are_small():
    assert [int(symbol) for symbol in Symbol] == list(range(len(Symbol)))
