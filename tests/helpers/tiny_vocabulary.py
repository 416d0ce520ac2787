"""What the 128 ids of the tiny models mean, for the token interface: numbers, marks and a few words.

`VOCABULARY` and `FACTS` make `TABLE`, the token table; `encode` is a tokenizer: longest token first. A number is split
into groups of three digits from the left, as far as the vocabulary has them; about half of the ids are numeric, and
most of the others leave a number whole, so that random ids are often calculations.
"""

from __future__ import annotations

import torch
from small_vocabularies import Words

from peft_igc.text import Vocabulary
from peft_igc.text.token_table import TokenTable


_PAIRS = ["00", "01", "07", "10", "12", "19", "23", "34", "42", "45", "50", "58", "64", "77", "81", "90", "96", "99"]
_TRIPLES = ["000", "001", "007", "012", "100", "123", "222", "250", "345", "456", "500", "678", "789", "900", "999"]
_DIGITS = [str(digit) for digit in range(10)]
_SPACED = [f" {digit}" for digit in range(10)]
_MARKS = [" ", "\n", "=", " =", " +", "+", " *", "*", " /", "/", "(", ")", " (", "?", " ?", ";", '"', *"[]<>"]
_SIGNS = ["-", " -", "=-", "--", ".", ",", ":", "%", "x"]  # what a number may not touch, or only in part
_WORDS = [" is", " of", " and", " plus", " times", " what", "the", " sum", "A", "th", ". ", ", "]
_SPECIAL = ["<pad>", "<s>", "</s>"]

NUMBERS = [*_DIGITS, *_SPACED, *_PAIRS, *_TRIPLES]
TEXTS = [*_SPECIAL, *NUMBERS, *_MARKS, *_SIGNS, *_WORDS]
TEXTS += [f"«{i}»" for i in range(128 - len(TEXTS))]  # marks that no text holds


VOCABULARY = Vocabulary([text.encode() for text in TEXTS], control=range(len(_SPECIAL)))
FACTS = {"group": 3, "minus": TEXTS.index("-"), "point": TEXTS.index("."), "unused": []}

TABLE = TokenTable.of(VOCABULARY, FACTS)


def encode(text: str) -> torch.Tensor:
    """The ids of a text, [T] int64."""
    return torch.tensor(Words(TEXTS, FACTS["group"]).encode(text), dtype=torch.int64)
