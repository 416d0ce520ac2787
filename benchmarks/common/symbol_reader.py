"""What the package makes of texts with expressions in symbols, without a network.

In: texts. Out: an `Outcome` for each text: a value in canonical form, or the name of the reason for which there is
none. `TextReader` reads characters, `SymbolReader` the tokens of a tokenizer, as an adapter does. This is
the only file of the benchmarks that knows how `text` is called.
Try it: `pytest tests/benchmarks/test_symbol_fuzz.py`
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformers import AutoTokenizer

from peft_igc.inference.loading import tiny_base
from peft_igc.mappings.decisions import said_at
from peft_igc.text import Limits, Value, Vocabulary, read


__all__ = [
    "EMBEDDED",
    "TEXT",
    "Outcome",
    "Reader",
    "SymbolReader",
    "TextReader",
    "load_reader",
    "load_tokenizer",
    "reader_names",
    "tokenizer_names",
]

TEXT = "text"  # the reader of characters, for which the tokenizer does not matter
EMBEDDED = "embedded"
FOLDER = "PEFT_IGC_TOKENIZERS"  # the variable that names a folder of saved tokenizers
DIGITS, MAX_OPERANDS = 40, 8


class Outcome(NamedTuple):
    """The value of an expression in symbols.

    Attributes:
        value: in canonical form, such as `-12.5`; None: refused.
        reason: for which it was refused; for an answered text "none".
        reaches: whether an expression reaches the end with `=`.
    """

    value: str | None
    reason: str
    reaches: bool


Reader = Callable[[Sequence[str]], list[Outcome]]


class TextReader:
    """Reads characters.

    Args:
        limits: further arguments of `peft_igc.text.Limits`, such as `rounding`.
    """

    def __init__(self, **limits: Any) -> None:
        self.limits = Limits(digits=DIGITS, result_digits=DIGITS, operands=MAX_OPERANDS, **limits)

    def read(self, texts: Sequence[str], since: Sequence[int] | None = None) -> list[Outcome]:
        """An outcome per text; arguments as of `SymbolReader.read`."""
        starts = since or [0] * len(texts)
        found = (read(text[start:], self.limits) for text, start in zip(texts, starts, strict=True))
        return [
            Outcome(one.text, "none", one.reaches) if isinstance(one, Value) else Outcome(None, one.id, one.reaches)
            for one in found
        ]


class SymbolReader:
    """Reads texts with one tokenizer.

    Args:
        tokenizer: a fast tokenizer.
        max_operands: the most numbers of an expression.
        options: further fields of `text.Limits`, such as `rounding`.
    """

    def __init__(self, tokenizer: Any, max_operands: int = MAX_OPERANDS, **options: Any) -> None:
        self.tokenizer, self.vocabulary = tokenizer, Vocabulary.from_tokenizer(tokenizer)
        self.limits = Limits(digits=DIGITS, result_digits=DIGITS, operands=max_operands, **options)

    def read(self, texts: Sequence[str], since: Sequence[int] | None = None) -> list[Outcome]:
        """An outcome per text.

        Args:
            texts: each ends where a result is due.
            since: for each text, the character from which on it is read; all of it by default.
        """
        encoded = self.tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)
        starts = since or [0] * len(texts)
        found = []
        for row, offsets, start in zip(encoded["input_ids"], encoded["offset_mapping"], starts, strict=True):
            first = sum(end <= start for _, end in offsets) if start else 0
            found.append(self._read(row, first) if row else Outcome(None, "empty", False))
        return found

    def _read(self, ids: list[int], first: int) -> Outcome:
        """The outcome of a text from a token on."""
        said = said_at(self.vocabulary, ids, len(ids) - 1, first, self.limits)
        name, reaches = said.reason.name.lower(), said.found.reaches
        return Outcome(said.value, name if said.ruled or reaches else f"not found, {name}", reaches)


def tokenizer_names() -> list[str]:
    """The embedded tokenizer, and those of the folder that `PEFT_IGC_TOKENIZERS` names."""
    folder = os.environ.get(FOLDER)
    return [EMBEDDED, *sorted(path.name for path in Path(folder).iterdir() if path.is_dir())] if folder else [EMBEDDED]


def reader_names() -> list[str]:
    """All readers: of characters, and of the tokens of each tokenizer."""
    return [TEXT, *tokenizer_names()]


def load_reader(name: str) -> TextReader | SymbolReader:
    """A reader of `reader_names`."""
    return TextReader() if name == TEXT else SymbolReader(load_tokenizer(name))


def load_tokenizer(name: str) -> Any:
    """A tokenizer of `tokenizer_names`."""
    if name == EMBEDDED:
        return tiny_base()[1]
    return AutoTokenizer.from_pretrained(Path(os.environ[FOLDER]) / name)
