"""What the package makes of texts with expressions in symbols, without a network.

In: texts. Out: an `Outcome` for each text: a value in canonical form, or the name of the reason for which there is
none. `TextReader` reads characters (`peft_igc.text`); `SymbolReader`, the second opinion, reads the tokens of a
tokenizer in tensors. This is the only file of the benchmarks that knows how `expressions` is called.
Try it: `pytest tests/benchmarks/test_symbol_fuzz.py`
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoTokenizer

from peft_igc.expressions.grammar import evaluate
from peft_igc.expressions.reading import read_expressions
from peft_igc.expressions.reasons import Reason
from peft_igc.expressions.symbols import SymbolTokens
from peft_igc.inference.loading import tiny_base
from peft_igc.numbers.calculator import Status
from peft_igc.numbers.digits import PAD
from peft_igc.text import Limits, Value, read


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
BATCH = 512  # texts in one call


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
        max_operands: see `expressions`.
        options: further arguments of `expressions.grammar.evaluate`, such as `rounding`.
    """

    def __init__(self, tokenizer: Any, max_operands: int = MAX_OPERANDS, **options: Any) -> None:
        self.tokenizer = tokenizer
        self.tokens = SymbolTokens.from_tokenizer(tokenizer)
        self.max_operands, self.options = max_operands, options

    @torch.no_grad()
    def read(self, texts: Sequence[str], since: Sequence[int] | None = None) -> list[Outcome]:
        """An outcome per text.

        Args:
            texts: each ends where a result is due.
            since: for each text, the character from which on it is read; all of it by default.
        """
        encoded = self.tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)
        starts = [0] * len(texts)
        if since is not None:
            starts = [
                sum(end <= start for _, end in offsets)
                for start, offsets in zip(since, encoded["offset_mapping"], strict=True)
            ]
        rows = encoded["input_ids"]
        order = sorted((at for at in range(len(texts)) if rows[at]), key=lambda at: len(rows[at]))
        found = [Outcome(None, "empty", False)] * len(texts)
        # Rows of similar lengths go together, and long ones in small batches, so that memory is bounded.
        while order:
            size = max(1, min(BATCH, BATCH * 128 // len(rows[order[0]])))
            batch, order = order[:size], order[size:]
            read = self._read([rows[at] for at in batch], [starts[at] for at in batch])
            for at, outcome in zip(batch, read, strict=True):
                found[at] = outcome
        return found

    def _read(self, rows: list[list[int]], starts: list[int]) -> list[Outcome]:
        """Outcomes of a batch, padded on the left."""
        width = max(map(len, rows))
        ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
        valid = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in rows])
        since = torch.tensor([width - len(row) + start for row, start in zip(rows, starts, strict=True)])
        anchors = torch.full((len(rows),), width - 1)
        reading = read_expressions(
            self.tokens, ids, valid, anchors, since, num_digits=DIGITS, max_operands=self.max_operands
        )
        value = evaluate(reading.items, max_operands=self.max_operands, result_digits=DIGITS, **self.options)
        found = []
        for n, digits in enumerate(value.digits.tolist()):
            reason = Reason(int(reading.reason[n]))
            if reason == Reason.NONE and reading.found[n]:
                reason = Reason(int(value.reason[n]))
            status = Status(int(value.status[n]))
            reaches = bool(reading.reaches[n])
            if not reading.found[n]:
                found.append(Outcome(None, f"not found, {reason.name}".lower(), reaches))
            elif reason == Reason.NONE and status == Status.OK:
                number = "".join(str(digit) for digit in digits if digit != PAD)
                found.append(Outcome(_text(number, int(value.sign[n]), int(value.scale[n])), "none", reaches))
            else:
                found.append(Outcome(None, (reason if reason != Reason.NONE else status).name.lower(), reaches))
        return found


def _text(digits: str, sign: int, scale: int) -> str:
    """A decimal as it is given, so that one with zeros at its end is not taken for the canonical form."""
    padded = digits.rjust(scale + 1, "0")
    whole, point = padded[: len(padded) - scale], padded[len(padded) - scale :]
    text = "-" * sign + whole + ("." + point if scale else "")
    assert Fraction(text) == Fraction(int(digits or "x"), 10**scale) * (-1 if sign else 1)
    return text


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
