"""Small vocabularies for tests of numbers in tokens: marks, and numbers in groups of three, alone, or irregular."""

from typing import Any, NamedTuple

from peft_igc.text import Vocabulary
from peft_igc.text.token_table import TokenTable


MARKS = [" ", "\n", "<s>", "(", ")", "=", "+", ".", ").", ",", "),", ":", "'", "):", "-", "−", " -", "=-", "%", "x"]
MARKS += [" the", "x‐", "**", "U.S."]  # a hyphen that cannot be a minus, a power, points within a word


class Words(NamedTuple):
    """A small vocabulary: its texts, and the digits of a group of a written result."""

    texts: list[str]
    group: int

    def table(self, **changed: Any) -> TokenTable:
        """How it spells numbers."""
        known = Vocabulary([text.encode() for text in self.texts], control=[self.texts.index("<s>")])
        facts = {"group": self.group, "minus": self.texts.index("-"), "point": self.texts.index("."), "unused": []}
        return TokenTable.of(known, facts | changed)

    def encode(self, text: str) -> list[int]:
        """A text's ids: always the longest token that fits."""
        ids = []
        while text:
            piece = max((t for t in self.texts if text.startswith(t)), key=len)
            ids.append(self.texts.index(piece))
            text = text[len(piece) :]
        return ids


SINGLE = [str(digit) for digit in range(10)]
GROUPS = SINGLE + [f"{n:02}" for n in range(100)] + [f"{n:03}" for n in range(1000)]
VOCABULARIES = {
    "groups of three": Words(MARKS + GROUPS, 3),
    "single digits": Words(MARKS + SINGLE, 1),
    "irregular": Words([*MARKS, *SINGLE, "12", "000", "2024", "10000", " 5", " 12", " 000", " 1999"], 1),
    "groups with gaps": Words([*MARKS, *SINGLE, "00", "12", "45", "007", "123", "456", " 7"], 3),
}
# Tokens with a point and digits, which no tokenizer that splits at signs has.
POINTS = (" .", ".5", " .1", "0.", " 0.", "12.", "2.1")
FUSED = Words([*MARKS, *POINTS, *SINGLE, "12", "00", "050", " 5", " 12"], 1)
