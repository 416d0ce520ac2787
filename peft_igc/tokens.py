"""What the ids of a vocabulary mean for numbers: the token table.

A table says which tokens spell digits, what every other token shows to a number that it touches, and how results are
written. It goes into an adapter's config as JSON, so that loading an adapter needs no tokenizer. In: the text of every
token, or saved JSON. Out: `TokenTable`, host data only (see `runs` for the tensors). Where the texts come from, and
how a tokenizer splits numbers, is the matter of `profile`.

A number touches its neighbours at an edge. The edges are a white list: what is not known to leave a number whole
(a letter, `%`, `^`, a superscript, digits of other scripts, a fragment of a character) breaks it, because an operand
that is silently cut gives a wrong answer, and a broken one gives none. Try it: `pytest tests/test_tokens.py`.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


__all__ = ["CLOSE", "STOP", "Edge", "TokenTable", "edges_of", "flags_of"]


class Edge(enum.IntEnum):
    """What a token shows to a number that stands directly beside it."""

    BOUNDARY = 0  # does not belong to the number: white space, brackets, operators
    DIGIT = 1  # a numeric token
    BREAK = 2  # makes it another thing than an integer: `5th`, `5%`, `5²`
    DOT = 3  # a full stop, or a decimal point if a digit follows
    COMMA = 4  # punctuation, or a thousands separator between digits
    COLON = 5  # punctuation, or no integer if it stands between digits; also an apostrophe: `10:30`, `1'000`
    MINUS = 6  # a sign, a subtraction or a hyphen: what stands before it decides
    LETTER = 7  # a letter, which breaks it as `BREAK` does, and is a part of a word: `5kg`


STOP = 8  # flag: a sentence ends in this token; a single "." or ":" only if no digit follows
CLOSE = 128  # flag: a closing bracket, as behind the number of a list: `2) `


@dataclass(frozen=True)
class TokenTable:
    """The numeric tokens of a vocabulary, and what every token shows to a number beside it.

    Args:
        digits: What each numeric token spells, leading zeros included: `{931: "007"}`. No two of them spell the same
            with the same leading space, so that a spelling leads back to one id.
        spaced: Those that begin with a space: they start a new number.
        edges: One byte for each of the V ids: the first edge, plus 16 times the last, plus `STOP` and `CLOSE`.
        group: Digits per token in which results are written, counted from the left; 1 is single digits.
        minus: Id of the token that writes the sign.

    Raises:
        ValueError: a field contradicts this or another one; names the first token concerned.
    """

    digits: dict[int, str]
    spaced: frozenset[int]
    edges: bytes
    group: int
    minus: int

    def __post_init__(self) -> None:
        size = len(self.edges)
        for token, spelled in self.digits.items():
            if not re.fullmatch("[0-9]+", spelled):
                raise ValueError(f"Token {token} of the table spells {spelled!r}, which is no ASCII digits.")
        for name, ids in (("digits", self.digits), ("spaced", self.spaced), ("minus", (self.minus,))):
            for token in ids:
                if not 0 <= token < size:
                    raise ValueError(f"`{name}` names token {token}, but `edges` has tokens 0..{size - 1} only.")
        if self.spaced - set(self.digits):
            raise ValueError(f"`spaced` names token {min(self.spaced - set(self.digits))}, which is not in `digits`.")
        seen: dict[tuple[str, bool], int] = {}
        for token, spelled in self.digits.items():
            other = seen.setdefault((spelled, token in self.spaced), token)
            if other != token:
                raise ValueError(f"Tokens {other} and {token} both spell {spelled!r}. Keep the one that is in use.")
        if self.group < 1:
            raise ValueError(f"`group={self.group}` is not a number of digits of at least 1.")
        for digit in "0123456789":
            if (digit, False) not in seen:
                raise ValueError(f"No token spells the single digit {digit}, so not every result can be written.")

    def edge(self, token: int) -> tuple[Edge, Edge]:
        """The first and the last edge of a token."""
        return Edge(self.edges[token] & 7), Edge(self.edges[token] >> 4 & 7)

    def check_vocabulary(self, size: int) -> None:
        """Refuses a model without embeddings for the tokens of this table; padded or resized tables are fine.

        Args:
            size: Ids that the model knows, 0..size-1.

        Raises:
            ValueError: A numeric token or the minus sign is none of them.
        """
        last = max(*self.digits, self.minus)
        if last >= size:
            raise ValueError(
                f"The adapter writes numbers with token {last}, but the model knows {size} tokens (0..{size - 1}). "
                "Load it onto the base that it was trained on, or make the config anew with "
                "`IGCConfig.from_tokenizer(tokenizer)`."
            )

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with `digits`, `spaced`, `group` and `minus`; not with the edges, which a
        token added for chat changes too."""
        facts = [sorted(self.digits.items()), sorted(self.spaced), self.group, self.minus]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values: ids as keys are strings, `edges` is compressed and in base 64."""
        return {
            "digits": {str(token): self.digits[token] for token in sorted(self.digits)},
            "spaced": sorted(self.spaced),
            "edges": base64.b64encode(zlib.compress(self.edges, 9)).decode("ascii"),
            "group": self.group,
            "minus": self.minus,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> TokenTable:
        """The table that `to_json` gave.

        Raises:
            ValueError: `saved` is no such mapping, or its values contradict each other.
        """
        if not isinstance(saved, Mapping) or set(saved) != set(_SHAPES):
            got = sorted(map(str, saved)) if isinstance(saved, Mapping) else type(saved).__name__
            raise ValueError(f"A token table has the keys {sorted(_SHAPES)}, got {got}. {_CURE}")
        for name, shape in _SHAPES.items():
            if not isinstance(saved[name], shape) or isinstance(saved[name], bool):
                raise ValueError(
                    f"`{name}` of the token table is of type `{type(saved[name]).__name__}`, "
                    f"not `{shape.__name__}`. {_CURE}"
                )
        try:
            edges = zlib.decompress(base64.b64decode(saved["edges"], validate=True))
        except (binascii.Error, zlib.error) as error:
            raise ValueError(f"`edges` of the token table is damaged ({error}). {_CURE}") from error
        if any(type(token) is not int for token in saved["spaced"]):
            raise ValueError(f"`spaced` of the token table is not a list of token ids. {_CURE}")
        for token, spelled in saved["digits"].items():
            if not isinstance(token, str) or not token.isdecimal() or not isinstance(spelled, str):
                raise ValueError(f"`digits` of the token table maps {token!r} to {spelled!r}. {_CURE}")
        digits = {int(token): spelled for token, spelled in saved["digits"].items()}
        return cls(digits, frozenset(saved["spaced"]), edges, saved["group"], saved["minus"])


_SHAPES: dict[str, type] = {"digits": dict, "spaced": list, "edges": str, "group": int, "minus": int}
_CURE = "Make it anew: `TokenizerProfile.from_tokenizer(tokenizer).table.to_json()`."


def edges_of(text: str) -> tuple[Edge, Edge]:
    """The first and the last edge of a token that is not numeric, by its text; a broken character is U+FFFD."""
    if not text:
        return Edge.BREAK, Edge.BREAK
    edges = (_first_edge(text), text[0]), (_last_edge(text), text[-1])
    is_sign = text.strip() in ("x", "X")  # times
    first, last = (
        Edge.LETTER if edge is Edge.BREAK and char.isalpha() and not is_sign else edge for edge, char in edges
    )
    return first, last


def flags_of(text: str) -> int:
    """`STOP` and `CLOSE` of a token, by its text."""
    end = text.rstrip(" \"'”’)]")
    stops = "\n" in text or (end != "" and end[-1] in ".?!;:。？！；：…")
    return STOP * stops | CLOSE * (text.strip() in (")", "]", ">", ").", "):"))


def _first_edge(text: str) -> Edge:
    """What a number sees that ends where the token begins."""
    kind, following = _kind(text[0]), text[1:2]
    if text.startswith("**"):
        return Edge.BREAK  # a power, or the end of bold type
    if text[0] == "\\" and following:
        return Edge.BOUNDARY if following in "()[]" else Edge.BREAK  # LaTeX: `\(5 + 3\)`
    if text.startswith("..."):
        kind, following = Edge.BOUNDARY, text.lstrip(".")[:1]
    if kind in (Edge.BOUNDARY, Edge.BREAK):
        return Edge.BREAK if following and text[0] == "." and _kind(following) is not Edge.BOUNDARY else kind
    if not following:
        return kind
    if text[0] in _APOSTROPHES:
        return Edge.BREAK if following.isalnum() else Edge.BOUNDARY
    behind = _kind(following)
    if kind is Edge.MINUS:
        return kind if behind in (Edge.BOUNDARY, Edge.MINUS) else Edge.BREAK
    quoted = following in _APOSTROPHES and not text[2:3].isalnum()
    return Edge.BOUNDARY if behind is Edge.BOUNDARY or quoted else Edge.BREAK


def _last_edge(text: str) -> Edge:
    """What a number sees that begins where the token ends."""
    kind = _kind(text[-1])
    if kind is Edge.MINUS:
        before = text.rstrip(_MINUSES)
        if len(text) - len(before) > 2:
            return Edge.BREAK  # a ruler
        return Edge.BREAK if before and before[-1] != "!" and _kind(before[-1]) is Edge.BREAK else kind
    if text[-1] == "!" or (kind is Edge.COLON and text[-1] != ":" and len(text) > 1):
        return Edge.BOUNDARY
    return kind


def _kind(char: str) -> Edge:
    """What a character is by itself. `!` is a factorial here; ASCII digits count among letters."""
    if char in _MARKS:
        return _MARKS[char]
    return Edge.BOUNDARY if char in _BOUNDARIES or char.isspace() else Edge.BREAK


_MINUSES = "-\u2212"
_APOSTROPHES = "'\u2019"
_FIXED_SPACES = "\u00a0\u2007\u2009\u202f"  # thousands separators in many countries
_MARKS = {".": Edge.DOT, ",": Edge.COMMA, ":": Edge.COLON}
_MARKS |= dict.fromkeys(_MINUSES, Edge.MINUS) | dict.fromkeys(_APOSTROPHES + _FIXED_SPACES, Edge.COLON)
_BOUNDARIES = frozenset('()[]{}<>?;=+*/|"`$€£¥×÷·•\u2013—…“”„‘‚«»' + "（）【】「」『』《》〈〉？；＝＋、。")
