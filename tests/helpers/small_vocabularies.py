"""Small vocabularies for tests of numbers in tokens: marks, and numbers in groups of three, alone, or irregular."""

from typing import NamedTuple


MARKS = [" ", "\n", "<s>", "(", ")", "=", "+", ".", ").", ",", "),", ":", "'", "):", "-", "−", " -", "=-", "%", "x"]
MARKS += [" the", "x‐", "**", "U.S."]  # a hyphen that cannot be a minus, a power, points within a word


class Vocabulary(NamedTuple):
    """A small vocabulary: everything a `TokenTable` is made of, and the texts."""

    texts: list[str]
    digits: dict[int, str]
    spaced: frozenset[int]
    group: int
    minus: int
    point: int
    points: dict[int, str]

    def encode(self, text: str) -> list[int]:
        """A text's ids: always the longest token that fits."""
        ids = []
        while text:
            piece = max((t for t in self.texts if text.startswith(t)), key=len)
            ids.append(self.texts.index(piece))
            text = text[len(piece) :]
        return ids


def vocabulary(numbers: list[str], group: int, fused: tuple[str, ...] = ()) -> Vocabulary:
    """The marks, further ones that hold a point, and some numeric tokens.

    Numeric tokens that begin with a space start a new number.
    """
    marks = [*MARKS, *fused]
    texts = marks + numbers
    ids = range(len(marks), len(texts))
    spaced = frozenset(token for token in ids if texts[token][0] == " ")
    digits = {token: texts[token].strip() for token in ids}
    points = {texts.index(text): text for text in [".", *fused]}
    return Vocabulary(texts, digits, spaced, group, texts.index("-"), texts.index("."), points)


SINGLE = [str(digit) for digit in range(10)]
GROUPS = SINGLE + [f"{n:02}" for n in range(100)] + [f"{n:03}" for n in range(1000)]
VOCABULARIES = {
    "groups of three": vocabulary(GROUPS, 3),
    "single digits": vocabulary(SINGLE, 1),
    "irregular": vocabulary([*SINGLE, "12", "000", "2024", "10000", " 5", " 12", " 000", " 1999"], 1),
    "groups with gaps": vocabulary([*SINGLE, "00", "12", "45", "007", "123", "456", " 7"], 3),
}
# Tokens with a point and digits, which no tokenizer that splits at signs has.
POINTS = (" .", ".5", " .1", "0.", " 0.", "12.", "2.1")
FUSED = vocabulary([*SINGLE, "12", "00", "050", " 5", " 12"], 1, POINTS)
