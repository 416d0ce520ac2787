"""The symbol table: the symbols of every token of a vocabulary, and its tensors.

In: a `text.Vocabulary`, or a tokenizer, and a `WordList`. Out: a `SymbolTable`, host data only, and `SymbolTokens`,
the same as tensors on each device. The symbols of all tokens stand in one line, so that a long token
costs others nothing. Of the letters of a token only those are kept that can be a piece of a listed word. Try it:
`pytest tests/expressions/test_symbols.py`

Shapes: V ids of the vocabulary, F symbols of all its tokens together, U words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..text.vocabulary import Vocabulary
from .alphabet import Symbol, symbols_of_bytes
from .names import NAMED
from .rules.automaton import fake_like, is_fake
from .rules.in_words import literal_automaton
from .words import LONGEST_WORD, POWERS, WordList, letters_hash, unit_of


__all__ = ["FIRST_MONEY", "SymbolTable", "SymbolTensors", "SymbolTokens", "symbol_tokens"]

FIRST_MONEY = 1000  # number of the first unit of money
FIRST_DIGIT = 128  # the byte of digit 0; other symbols have their code
_FOREIGN = 0x2545F4914F6CDD1D  # of letters that are no piece of a listed word: each token has its own hash
_LONGEST_TOKEN = 255  # symbols of a token; of a longer one the first and last are kept, with an unknown one between


@dataclass(frozen=True)
class SymbolTable:
    """The symbols of all tokens.

    Args:
        codes: F bytes: codes of `Symbol`, digits as `FIRST_DIGIT` + their value.
        sizes: V bytes, the number of symbols of each token.
        pieces: For letters that may be a piece of a listed word, and parts of characters: their places in `codes`.
        words: The words that are known.
        header: Ids of the tokens that name the role before a user's message, from the control token on, if the chat
            template names it in words, as in `<|im_start|>user`. All of them count as control tokens, because the name
            of a role is no word of the message; the line's end after them stays one. Empty for other templates.
    """

    codes: bytes
    sizes: bytes
    pieces: Mapping[str | bytes, tuple[int, ...]]
    words: WordList
    header: tuple[int, ...] = ()

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, words: WordList | None = None) -> SymbolTable:
        """The table of a Hugging Face tokenizer.

        Args:
            tokenizer: Its vocabulary is read; nothing is tokenized but a few probes.
            words: The words that are known; None means those of all languages of the package.
        """
        return cls.from_vocabulary(Vocabulary.from_tokenizer(tokenizer), words)

    @classmethod
    def from_vocabulary(cls, known: Vocabulary, words: WordList | None = None) -> SymbolTable:
        """The table of a vocabulary, with the words of all languages of the package unless others are given."""
        table = cls.from_texts(known.tokens, known.control, known.unknown, words or WordList.of())
        return replace(table, header=known.header)

    @classmethod
    def from_texts(
        cls, texts: Sequence[bytes], special: Iterable[int], unknown: Iterable[int], words: WordList
    ) -> SymbolTable:
        """The table of a vocabulary.

        Args:
            texts: The UTF-8 bytes of V tokens.
            special: Ids of control tokens.
            unknown: Ids of tokens whose text is not known, such as `<unk>`.
            words: The words that are known.
        """
        control, unseen = set(special), set(unknown)
        kept = _substrings(word for word in words.symbols if isinstance(word, str))
        codes, sizes = bytearray(), bytearray()
        pieces: dict[str | bytes, list[int]] = {}
        for token, text in enumerate(texts):
            if token in unseen or token in control or not text:
                sizes.append(1)
                codes.append(Symbol.CONTROL if token in control and token not in unseen else Symbol.UNKNOWN)
                continue
            spelled = symbols_of_bytes(text)
            found = zip(spelled.symbols, spelled.values, spelled.pieces, strict=True)
            size = len(spelled.symbols)
            for place, (symbol, value, piece) in enumerate(found):
                if size > _LONGEST_TOKEN and place >= _LONGEST_TOKEN - 1 and place < size:
                    codes.append(Symbol.UNKNOWN)
                    break
                if isinstance(piece, bytes) or piece in kept:
                    pieces.setdefault(piece or "", []).append(len(codes))
                codes.append(FIRST_DIGIT + value if symbol in (Symbol.ZERO, Symbol.DIGIT) else symbol)
            sizes.append(min(size, _LONGEST_TOKEN))
        return cls(bytes(codes), bytes(sizes), {piece: tuple(at) for piece, at in pieces.items()}, words)


def _substrings(words: Iterable[str]) -> set[str]:
    """All parts of the words."""
    return {
        word[start:end]
        for word in words
        for start in range(len(word))
        for end in range(start + 1, min(len(word), LONGEST_WORD) + 1)
    }


class SymbolTensors(NamedTuple):
    """A symbol table on one device. Row V is that of unknown ids."""

    start: Tensor  # [V + 1] int64, the first symbol of a token
    size: Tensor  # [V + 1] int64, its number of symbols
    symbol: Tensor  # [F + 1] int64
    value: Tensor  # [F + 1] int64, of a digit
    hash: Tensor  # [F + 1] int64, of letters or bytes; of letters in no listed word one for each token
    length: Tensor  # [F + 1] int64, number of letters or bytes, 0 for other symbols
    words: Tensor  # [U] int64, hashes of the listed words, ascending
    meaning: Tensor  # [U] int64, their symbols
    unit: Tensor  # [U] int64, a number for each unit of measurement, from `FIRST_MONEY` on of money; else 0
    named: Tensor  # [U] int64, bits of `names.Name`
    powers: Tensor  # [LONGEST_WORD + 1] int64


class SymbolTokens:
    """A `SymbolTable` as tensors, one copy per device, and the rules; copies and pickles contain only the table.

    Call `on(device)` once before compiling a graph for a device.

    Args:
        table: The symbol table.
    """

    def __init__(self, table: SymbolTable) -> None:
        self.table = table
        self.size = len(table.sizes)  # V
        self.header = table.header
        self.literal_rules = literal_automaton()
        self._host = _tensors_of(table)
        self._made: dict[torch.device, SymbolTensors] = {torch.device("cpu"): self._host}

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, words: WordList | None = None) -> SymbolTokens:
        """The table of a Hugging Face tokenizer as tensors, see `SymbolTable.from_tokenizer`."""
        return cls(SymbolTable.from_tokenizer(tokenizer, words))

    def __reduce__(self) -> tuple[type[SymbolTokens], tuple[SymbolTable]]:
        return SymbolTokens, (self.table,)

    def on(self, device: torch.device) -> SymbolTensors:
        """The table's tensors on a device."""
        self.literal_rules.on(device)
        if is_fake():
            return SymbolTensors(*(fake_like(tensor, device) for tensor in self._host))
        made = self._made.get(device)
        if made is None:
            made = SymbolTensors(*(tensor.to(device) for tensor in self._host))
            if not torch.compiler.is_compiling():  # a tensor of a graph must not be kept
                self._made[device] = made
        return made


@functools.lru_cache(maxsize=4)  # takes seconds for the largest vocabularies
def symbol_tokens(vocabulary: Vocabulary) -> SymbolTokens:
    """The symbols of a vocabulary, with the words of all languages of the package; recent ones are kept."""
    return SymbolTokens(SymbolTable.from_vocabulary(vocabulary))


def _tensors_of(table: SymbolTable) -> SymbolTensors:
    """The table's tensors on the CPU."""
    codes = torch.tensor([*table.codes, Symbol.UNKNOWN], dtype=torch.int64, device="cpu")
    sizes = torch.tensor([*table.sizes, 1], dtype=torch.int64, device="cpu")
    digit = codes >= FIRST_DIGIT
    value = torch.where(digit, codes - FIRST_DIGIT, 0)
    symbol = torch.where(digit, torch.where(value == 0, int(Symbol.ZERO), int(Symbol.DIGIT)), codes)
    joined = (symbol == int(Symbol.LETTERS)) | (symbol == int(Symbol.PART)) | (symbol == int(Symbol.REST))
    token = torch.arange(1, len(sizes) + 1, device="cpu").repeat_interleave(sizes)
    hashes, lengths = torch.where(joined, _FOREIGN * token, 0), joined.long()
    for piece, places in table.pieces.items():
        at = torch.tensor(places, dtype=torch.int64, device="cpu")
        hashes[at], lengths[at] = letters_hash(piece), len(piece)
    classes = table.words.classes
    units: dict[str, int] = {}
    for name, first in (("measure", 1), ("money", FIRST_MONEY)):
        names = sorted({unit_of(word.casefold()) for word in classes.get(name, ())})
        units |= {unit: number for number, unit in enumerate(names, first)}
    words = sorted(
        (
            letters_hash(word),
            int(meaning),
            units[unit_of(str(word))] if meaning is Symbol.MEASURE else 0,
            int(NAMED.get(str(word), 0)),
        )
        for word, meaning in table.words.symbols.items()
    )
    return SymbolTensors(
        start=sizes.cumsum(0) - sizes,
        size=sizes,
        symbol=symbol,
        value=value,
        hash=hashes,
        length=lengths,
        **{
            name: torch.tensor([word[at] for word in words], dtype=torch.int64, device="cpu")
            for at, name in enumerate(("words", "meaning", "unit", "named"))
        },
        powers=torch.tensor(POWERS, dtype=torch.int64, device="cpu"),
    )
