"""Symbols: the characters that matter for arithmetic, one code each, and one code for every other class of characters.

In: the bytes of a token. Out: its symbols, and the pieces of words that it holds. Runs of letters, of spaces and of
other characters are one symbol each; digits and operators are never joined, so that a text becomes the same symbols
under every tokenizer. A character is a `PART` where a token ends within it; `words` joins parts of characters and
pieces of words. Host code only; `symbols` has the table of a vocabulary. Try it: `pytest
tests/expressions/test_alphabet.py`
"""

from __future__ import annotations

import enum
import re
import unicodedata
from typing import NamedTuple


__all__ = ["CHARACTERS", "Symbol", "numeric_characters", "symbol_of", "symbols_of_bytes"]


class Symbol(enum.IntEnum):
    """Symbols of a text. The codes are saved with adapters: new ones go to the end, none changes its number."""

    EDGE = 0  # no text: before its beginning
    ZERO = 1
    DIGIT = 2  # 1..9; the value is kept beside the symbol
    PLUS = 3
    MINUS = 4  # a hyphen
    STAR = 5
    TIMES = 6
    SLASH = 7
    DIVIDE = 8
    CARET = 9
    OPEN = 10
    CLOSE = 11
    OPEN_SQUARE = 12
    CLOSE_SQUARE = 13
    OPEN_CURLY = 14
    CLOSE_CURLY = 15
    EQUALS = 16
    RELATION = 17
    DOT = 18
    COMMA = 19
    COLON = 20
    SEMICOLON = 21
    QUESTION = 22
    BANG = 23
    PERCENT = 24
    DOLLAR = 25
    EURO = 26
    POUND = 27
    SPACE = 28
    LINE = 29  # the end of a line
    DASH = 30
    QUOTE = 31
    APOSTROPHE = 32
    OTHER = 33  # breaks a number that it touches
    NUMERIC = 34  # numeric, and not understood
    CONTROL = 35  # a control token, such as the header of a chat's turn
    UNKNOWN = 36  # a token of unknown text
    PART = 37  # the beginning of a character
    REST = 38  # a part of a character that does not begin it
    NOTHING = 39  # the rest of a character whose symbol stands at its beginning
    LETTERS = 40  # letters of a word that is in no list; codes from here on are those of words
    LONE_X = 41
    OF = 42
    PER = 43
    AND = 44
    ONE = 45
    NUMBER_WORD = 46
    SCALE_WORD = 47
    OPERATOR_WORD = 48
    FUNCTION = 49
    GLUE = 50  # a word that is no unit: `is`, `has`, `the`
    REQUEST = 51
    ORDINAL = 52  # after digits: `5th`
    MONTH = 53
    MEASURE = 54  # a unit of measurement
    EQUAL_WORD = 55  # `is`, `equals`
    MINUS_SIGN = 56  # U+2212, which is in no date
    MODIFIER = 57  # a word that changes what an expression means: `average`, `integer`
    LINK = 58  # `by`, `than`: a word that joins an operand to what stands before it
    LIST_MARK = 59  # a closing bracket that nothing opens, see `brackets`
    SIGN_WORD = 60  # `negative`
    MINUS_WORD = 61  # `minus`, an operation or a sign
    DIFFERENCE = 62  # `difference`: a request in words for nothing but a subtraction


CHARACTERS: dict[str, Symbol] = {
    "0": Symbol.ZERO,
    "+": Symbol.PLUS,
    "-": Symbol.MINUS,
    "\u2212": Symbol.MINUS_SIGN,
    "*": Symbol.STAR,
    "×": Symbol.TIMES,
    "·": Symbol.TIMES,
    "⋅": Symbol.TIMES,
    "∙": Symbol.TIMES,
    "∗": Symbol.TIMES,
    "✕": Symbol.TIMES,
    "✖": Symbol.TIMES,
    "/": Symbol.SLASH,
    "∕": Symbol.SLASH,
    "÷": Symbol.DIVIDE,
    "^": Symbol.CARET,
    "(": Symbol.OPEN,
    ")": Symbol.CLOSE,
    "[": Symbol.OPEN_SQUARE,
    "]": Symbol.CLOSE_SQUARE,
    "{": Symbol.OPEN_CURLY,
    "}": Symbol.CLOSE_CURLY,
    "=": Symbol.EQUALS,
    ".": Symbol.DOT,
    ",": Symbol.COMMA,
    ":": Symbol.COLON,
    ";": Symbol.SEMICOLON,
    "?": Symbol.QUESTION,
    "!": Symbol.BANG,
    "%": Symbol.PERCENT,
    "$": Symbol.DOLLAR,
    "€": Symbol.EURO,
    "£": Symbol.POUND,
    "\u2013": Symbol.DASH,
    "\u2014": Symbol.DASH,
    "'": Symbol.APOSTROPHE,
    "\u2019": Symbol.APOSTROPHE,
    "\u2018": Symbol.APOSTROPHE,
}
CHARACTERS |= {"＋": Symbol.PLUS, "－": Symbol.MINUS, "／": Symbol.SLASH, "＝": Symbol.EQUALS, "％": Symbol.PERCENT}
CHARACTERS |= {"＊": Symbol.TIMES, "（": Symbol.OPEN, "）": Symbol.CLOSE}
CHARACTERS |= dict.fromkeys("123456789", Symbol.DIGIT)
CHARACTERS |= dict.fromkeys("<>≤≥≠≡→", Symbol.RELATION)
CHARACTERS |= dict.fromkeys('"“”„`«»', Symbol.QUOTE)
CHARACTERS |= dict.fromkeys("？", Symbol.QUESTION) | dict.fromkeys("。；", Symbol.SEMICOLON)
CHARACTERS |= dict.fromkeys("\n\r\u2028\u2029\x0b\x0c\x85", Symbol.LINE)
CHARACTERS |= dict.fromkeys("√∛∜∑∏∫∞‰‱⁄±∓", Symbol.NUMERIC)  # U+2044 builds fractions: `1⁄2`

_RUN = re.compile(rb"[A-Za-z]+| +")
_RUNS = {Symbol.SPACE, Symbol.LETTERS, Symbol.OTHER}  # repeated ones are a single symbol


class Spelled(NamedTuple):
    """The symbols of a token."""

    symbols: list[Symbol]
    values: list[int]  # of a digit 0..9, else 0
    pieces: list[str | bytes | None]  # the letters of a `LETTERS`, the bytes of a `PART` or `REST`


def symbol_of(char: str) -> Symbol:
    """The symbol of one character."""
    if char in CHARACTERS:
        return CHARACTERS[char]
    if char.isspace() or char == "\u200b":
        return Symbol.SPACE
    if char == "\ufffd":
        return Symbol.REST
    # Digits of other scripts, fractions, superscripts, Roman and Chinese numerals
    if unicodedata.numeric(char, None) is not None:
        return Symbol.NUMERIC
    return Symbol.LETTERS if char.isalpha() or unicodedata.category(char).startswith("M") else Symbol.OTHER


def numeric_characters() -> list[str]:
    """Characters of two and more bytes that are a symbol of their own or numeric, for tokens that end within them."""
    found = [char for char in CHARACTERS if ord(char) > 127]
    return found + [
        chr(code)
        for code in range(128, 0x20000)
        if unicodedata.numeric(chr(code), None) is not None and chr(code) not in CHARACTERS
    ]


def symbols_of_bytes(spelled: bytes) -> Spelled:
    """The symbols of a token's bytes.

    Args:
        spelled: UTF-8, possibly with a part of a character at both ends.
    """
    found = Spelled([], [], [])
    place = 0
    while place < len(spelled):
        if run := _RUN.match(spelled, place):  # most of a vocabulary, character by character it takes seconds
            is_space = run[0].isspace()
            _add(found, *((Symbol.SPACE, 0, None) if is_space else (Symbol.LETTERS, 0, run[0].decode().lower())))
            place = run.end()
            continue
        char, size = _character(spelled, place)
        if char is None:
            begins = spelled[place] >= 0xC0
            piece: str | bytes | None = spelled[place : place + size]
            symbol = Symbol.PART if begins else Symbol.REST
            _add(found, symbol, 0, piece)
        else:
            symbol = symbol_of(char)
            piece = char.casefold() if symbol is Symbol.LETTERS else None
            _add(found, symbol, int(char) if symbol in (Symbol.ZERO, Symbol.DIGIT) else 0, piece)
        place += size
    return found


def _add(found: Spelled, symbol: Symbol, value: int, piece: str | bytes | None) -> None:
    """Appends a symbol, or lengthens the run of it."""
    last = found.symbols[-1] if found.symbols else None
    if symbol is last and symbol in _RUNS:
        if isinstance(piece, str):
            found.pieces[-1] = f"{found.pieces[-1]!s}{piece}"
        return
    found.symbols.append(symbol)
    found.values.append(value)
    found.pieces.append(piece)


def _character(spelled: bytes, place: int) -> tuple[str | None, int]:
    """The character that begins at a byte, None if it is a part of one, and its number of bytes."""
    lead = spelled[place]
    size = 1 if lead < 0x80 else 2 if 0xC0 <= lead < 0xE0 else 3 if lead < 0xF0 else 4
    if 0x80 <= lead < 0xC0:  # continuation bytes of a character that began in the token before
        size = 1
        while place + size < len(spelled) and 0x80 <= spelled[place + size] < 0xC0:
            size += 1
        return None, size
    try:
        return spelled[place : place + size].decode("utf-8"), size
    except UnicodeDecodeError:
        tail = 1
        while tail < size and place + tail < len(spelled) and 0x80 <= spelled[place + tail] < 0xC0:
            tail += 1
        return None, tail
