"""The token table: which tokens of a vocabulary spell digits, and how every other token affects an adjacent number.

In: a `text.Vocabulary` and the few facts about numbers that it does not tell (`from_vocabulary`), or a whole table as
JSON. Out: a `TokenTable`, and how it spells results (`speller`). An adapter saves facts and vocabulary, so loading one
needs no tokenizer. Nothing here queries tokenizers, see `tokenizer_profile`. Try it:
`pytest tests/numbers/test_token_table.py`

Each token has a first and a last edge, the sides on which it may touch a number. Edges are an allow list: a character
that is not known to leave a number intact (a letter, `%`, `^`, a superscript, a digit of another script, part of a
character) breaks it. A broken number gives no answer, a truncated one would give a wrong answer.
"""

from __future__ import annotations

import base64
import enum
import functools
import hashlib
import itertools
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from weakref import WeakValueDictionary

from ..text.spelling import Piece, Speller
from ..text.vocabulary import EMBEDDED, PADDING, UNSEEN, Vocabulary


__all__ = ["CLOSE", "EMBEDDED", "PADDING", "POINTED", "STOP", "UNSEEN", "Edge", "TokenTable", "edges_of", "flags_of"]
__all__ += ["edges_of_all", "numeric_tokens", "points_of"]


class Edge(enum.IntEnum):
    """Effect of one side of a token on an adjacent number."""

    BOUNDARY = 0  # leaves the number intact: white space, brackets, operators
    DIGIT = 1  # part of a number
    BREAK = 2  # the number is not an integer: `5th`, `5%`, `5²`
    DOT = 3  # a full stop, or a decimal point if a digit follows
    COMMA = 4  # punctuation, or a thousands separator between digits
    COLON = 5  # punctuation, or a break between digits (`10:30`); also an apostrophe or a fixed space: `1'000`
    MINUS = 6  # a sign, a subtraction or a hyphen, depending on the text before it
    LETTER = 7  # a break that is also part of a word: `5kg`


MOST_TOKENS = 1 << 24  # of a vocabulary; the largest known have a few hundred thousand
MOST_DIGITS = 256  # of a token; the longest known have a few dozen zeros
MOST_GROUP = 6  # digits per token of a result: there is a table of all groups

# Flags. An edge takes three bits: bits 0-2 of a token's byte are the first edge, bits 4-6 the last.
STOP = 8  # a sentence ends in this token; a single "." or ":" ends one only if no digit follows
CLOSE = 128  # a closing bracket, as after a list number: `2) `


@dataclass(frozen=True)
class TokenTable:
    """The numeric tokens of a vocabulary, and the edges of all its tokens.

    Args:
        digits: Digits of each numeric token, with leading zeros: `{931: "007"}`. Spellings are unique among the tokens
            with a leading space, and among those without.
        spaced: Ids of the numeric tokens with a leading space, which start a new number.
        edges: One byte for each of V ids: first edge + 16 * last edge + `STOP` + `CLOSE`.
        group: Digits per token of a written result, grouped from the left; 1 is single digits.
        minus: Id of the token for a minus sign.
        point: Id of the token for a decimal point; None if there is none, and in tables that were saved without it.
            Decimals are then not written.
        points: Texts of all tokens that are a point, or a point and digits: `{13: ".", 764: " .", 40: "0."}`. They
            count when a decimal is continued; reading knows them by their edges only.

    Attributes:
        speller: How the tokens spell results.
        key: For `of_key`, in this process.

    Raises:
        ValueError: A field is invalid or contradicts another one; the message names the first such token.
    """

    digits: dict[int, str]
    spaced: frozenset[int]
    edges: bytes
    group: int
    minus: int
    point: int | None = None
    points: dict[int, str] = field(default_factory=dict)
    speller: Speller = field(init=False, compare=False, repr=False)
    key: str = field(init=False, compare=False, repr=False)

    def __deepcopy__(self, memo: Any) -> TokenTable:
        return self

    def __reduce__(self) -> tuple[Any, ...]:  # without `key`, which is of this process
        return TokenTable, tuple(getattr(self, one.name) for one in fields(self) if one.init)

    @staticmethod
    def of_key(key: str) -> TokenTable:
        """The table with a `key`, for operators of compiled graphs, which take no objects."""
        return _made[key]

    def __post_init__(self) -> None:
        size = len(self.edges)
        for token, spelled in self.digits.items():
            if not re.fullmatch("[0-9]+", spelled) or len(spelled) > MOST_DIGITS:
                raise ValueError(
                    f"Token {token} of the table spells {spelled[:32]!r}, but must spell ASCII digits, up to "
                    f"{MOST_DIGITS} of them."
                )
        named = {"digits": self.digits, "spaced": self.spaced, "minus": (self.minus,), "points": self.points}
        for name, ids in named.items():
            for token in ids:
                if not 0 <= token < size:
                    raise ValueError(f"`{name}` names token {token}, but `edges` has only tokens 0..{size - 1}.")
        if self.spaced - set(self.digits):
            raise ValueError(f"`spaced` names token {min(self.spaced - set(self.digits))}, which is not in `digits`.")
        seen: dict[tuple[str, bool], int] = {}
        for token, spelled in self.digits.items():
            other = seen.setdefault((spelled, token in self.spaced), token)
            if other != token:
                raise ValueError(f"Tokens {other} and {token} both spell {spelled!r}. Keep the one in use.")
        self._check_points()
        if not 1 <= self.group <= MOST_GROUP:
            raise ValueError(f"`group={self.group}` must be at least 1 and at most {MOST_GROUP}.")
        for digit in "0123456789":
            if (digit, False) not in seen:
                raise ValueError(f"No token spells the single digit {digit}, so some results cannot be written.")
        object.__setattr__(self, "speller", _speller(self))
        object.__setattr__(self, "key", str(next(_keys)))
        _made[self.key] = self

    def _check_points(self) -> None:
        """Refuses tokens that are no point, and a `point` that is not among them."""
        for token, text in self.points.items():
            if not isinstance(text, str) or not POINTED.fullmatch(text):
                raise ValueError(f"Token {token} of `points` has the text {text!r}, which is no point among digits.")
            if token in self.digits:
                raise ValueError(f"Token {token} of the table is in `digits` and in `points`.")
        if self.point is not None and self.points.get(self.point) != ".":
            raise ValueError(f"`point={self.point}` is not a token with the text '.' in `points`.")

    def edge(self, token: int) -> tuple[Edge, Edge]:
        """The first and the last edge of a token."""
        return Edge(self.edges[token] & 7), Edge(self.edges[token] >> 4 & 7)

    def check_vocabulary(self, size: int) -> None:
        """Refuses a model without embeddings for the tokens of this table; padded or resized embeddings are fine.

        Args:
            size: Size of the model's vocabulary.

        Raises:
            ValueError: The id of a numeric token, of the minus sign or of the point is not below `size`.
        """
        last = max(*self.digits, self.minus, *([] if self.point is None else [self.point]))
        if last >= size:
            raise ValueError(
                f"The adapter writes numbers with token {last}, but the model has {size} tokens (0..{size - 1}). "
                "Load it onto the base model that it was trained on, or create a new config with "
                "`IGCConfig.from_tokenizer(tokenizer)`."
            )

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of a hash over `digits`, `spaced`, `group`, `minus` and, if there is one, `point`.
        Without `edges` and `points`, which added tokens extend."""
        facts = [sorted(self.digits.items()), sorted(self.spaced), self.group, self.minus]
        facts += [] if self.point is None else [self.point]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values: keys are ids as strings, `edges` is compressed and base64-encoded."""
        saved: dict[str, Any] = {
            "digits": {str(token): self.digits[token] for token in sorted(self.digits)},
            "spaced": sorted(self.spaced),
            "edges": base64.b64encode(zlib.compress(self.edges, 9)).decode("ascii"),
            "group": self.group,
            "minus": self.minus,
        }
        if self.point is not None:
            points = {str(token): self.points[token] for token in sorted(self.points)}
            saved |= {"point": self.point, "points": points}
        return saved

    @classmethod
    def from_vocabulary(cls, vocabulary: Vocabulary, facts: Mapping[str, Any]) -> TokenTable:
        """The table of a vocabulary; a recent one is kept.

        Args:
            vocabulary: The texts of all tokens.
            facts: `TokenizerProfile.facts`: `group`, `minus` and `point` as in a table; `unused`, ids of tokens that
                spell the digits of another token, which the tokenizer uses; and `parts`, the first and the last edge
                of each token that is a part of a sign such as `÷`, by its id as text.

        Raises:
            ValueError: `facts` has other keys or types, or contradicts the vocabulary.
        """
        cls.check_facts(facts)
        parts = tuple((int(token), tuple(edges)) for token, edges in facts["parts"].items())
        return _from_vocabulary(
            vocabulary, facts["group"], facts["minus"], facts["point"], frozenset(facts["unused"]), parts
        )

    @staticmethod
    def check_facts(facts: Any) -> None:
        """Refuses what is no argument of `from_vocabulary`, as far as that is seen without a vocabulary.

        Raises:
            ValueError: `facts` has other keys or types.
        """
        if not isinstance(facts, Mapping) or set(facts) != _FACTS:
            got = sorted(map(str, facts)) if isinstance(facts, Mapping) else type(facts).__name__
            raise ValueError(f"The facts about numbers have the keys {sorted(_FACTS)}, got {got}. {_NEW_CONFIG}")
        integers = [facts["group"], facts["minus"], *([] if facts["point"] is None else [facts["point"]])]
        try:
            integers += [*facts["unused"], *map(int, facts["parts"])]
            edges = [edge for first, last in facts["parts"].values() for edge in (first, last)]
            right = all(type(one) is int and 0 <= one < MOST_TOKENS for one in (*integers, *edges))
            right = right and set(edges) <= set(Edge)
        except (TypeError, ValueError, AttributeError):
            right = False
        if not right:
            raise ValueError(f"The facts about numbers are damaged: {str(dict(facts))[:200]}. {_NEW_CONFIG}")

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> TokenTable:
        """The table that was saved by `to_json`.

        Raises:
            ValueError: `saved` has other keys or types, is damaged, or contradicts itself.
        """
        shapes = _SHAPES | _POINT_SHAPES
        if not isinstance(saved, Mapping) or set(saved) not in (set(_SHAPES), set(shapes)):
            got = sorted(map(str, saved)) if isinstance(saved, Mapping) else type(saved).__name__
            raise ValueError(
                f"A token table has the keys {sorted(_SHAPES)}, with or without {sorted(_POINT_SHAPES)}, got {got}. "
                f"{_CURE}"
            )
        for name in saved:
            shape = shapes[name]
            if not isinstance(saved[name], shape) or isinstance(saved[name], bool):
                raise ValueError(
                    f"`{name}` of the token table is of type `{type(saved[name]).__name__}`, "
                    f"not `{shape.__name__}`. {_CURE}"
                )
        try:
            # Limited, because a short text can be gigabytes of zeros.
            unpacked = zlib.decompressobj()
            edges = unpacked.decompress(base64.b64decode(saved["edges"], validate=True), MOST_TOKENS)
        except (ValueError, zlib.error) as error:  # binascii.Error is a ValueError
            raise ValueError(f"`edges` of the token table is damaged ({error}). {_CURE}") from error
        if not unpacked.eof:
            raise ValueError(f"`edges` of the token table is cut, or of over {MOST_TOKENS:,} tokens. {_CURE}")
        if any(type(token) is not int for token in saved["spaced"]):
            raise ValueError(f"`spaced` of the token table is not a list of token ids. {_CURE}")
        digits, points = (_texts_by_id(saved, name) for name in ("digits", "points"))
        return cls(
            digits, frozenset(saved["spaced"]), edges, saved["group"], saved["minus"], saved.get("point"), points
        )


def _speller(table: TokenTable) -> Speller:
    """`TokenTable.speller`."""
    marks = (Edge.DOT, Edge.COMMA)
    edges = [(byte & 7, byte >> 4 & 7) for byte in range(256)]
    joins = [first in (*marks, Edge.COLON) for first, _ in edges]
    near = bytes(byte for byte in range(256) if joins[byte] or edges[byte][1] in (Edge.DOT, Edge.MINUS))
    pieces: dict[int, Piece] = {}
    for token in [token for token, byte in enumerate(table.edges) if byte in near] + list(table.points):
        byte = table.edges[token]
        first, last = edges[byte]
        before, point, after = table.points.get(token, "").partition(".")
        pieces[token] = Piece(
            digits=before.strip() + after,
            spaced=before[:1] == " ",
            point=len(before.strip()) if point else -1,
            mark=first in marks,
            joins=joins[byte],
            minus=last == Edge.MINUS,
            dot=last == Edge.DOT,
        )
    pieces |= {token: Piece(text, token in table.spaced) for token, text in table.digits.items()}
    tokens = {text: token for token, text in table.digits.items() if token not in table.spaced}
    return Speller(pieces, len(table.edges), tokens, table.group, table.minus, table.point)


def _texts_by_id(saved: Mapping[str, Any], name: str) -> dict[int, str]:
    """The texts of tokens that are saved under a name; none if the name is not there."""
    texts = saved.get(name, {})
    for token, text in texts.items():
        if not isinstance(token, str) or not token.isdecimal() or not isinstance(text, str):
            raise ValueError(f"`{name}` of the token table maps {token!r} to {text!r}. {_CURE}")
    return {int(token): text for token, text in texts.items()}


_keys = itertools.count()
_made: WeakValueDictionary[str, TokenTable] = WeakValueDictionary()
_NUMERIC = re.compile(" ?[0-9]+")
POINTED = re.compile(r" ?[0-9]*\.[0-9]*")  # tokens of a point, or of a point and digits
_SHAPES: dict[str, type] = {"digits": dict, "spaced": list, "edges": str, "group": int, "minus": int}
_POINT_SHAPES: dict[str, type] = {"point": int, "points": dict}  # absent in tables that write no decimals
_FACTS = {"group", "minus", "parts", "point", "unused"}
_CURE = "Create it again: `TokenizerProfile.from_tokenizer(tokenizer).table.to_json()`."
_NEW_CONFIG = "Create the config again: `IGCConfig.from_tokenizer(tokenizer)`."


@functools.lru_cache(maxsize=8)  # a second for the largest vocabularies
def _from_vocabulary(
    vocabulary: Vocabulary,
    group: int,
    minus: int,
    point: int | None,
    unused: frozenset[int],
    parts: tuple[tuple[int, tuple[Edge, Edge]], ...],
) -> TokenTable:
    """`TokenTable.from_vocabulary`."""
    if outside := [token for token in (*unused, *dict(parts)) if token >= len(vocabulary)]:
        raise ValueError(
            f"The facts about numbers name token {outside[0]}, but the vocabulary has 0..{len(vocabulary) - 1}. "
            f"{_NEW_CONFIG}"
        )
    digits, spaced = numeric_tokens(vocabulary, unused)
    edges = edges_of_all(vocabulary, digits, spaced, dict(parts))
    return TokenTable(digits, spaced, edges, group, minus, point, {} if point is None else points_of(vocabulary))


def numeric_tokens(vocabulary: Vocabulary, unused: Iterable[int] = ()) -> tuple[dict[int, str], frozenset[int]]:
    """`TokenTable.digits` and `spaced` of a vocabulary, without some of its tokens."""
    out = vocabulary.control | set(unused)
    found = {
        token: text for token, text in enumerate(vocabulary.texts) if token not in out and _NUMERIC.fullmatch(text)
    }
    spaced = frozenset(token for token, text in found.items() if text[0] == " ")
    return {token: text.strip() for token, text in found.items()}, spaced


def edges_of_all(
    vocabulary: Vocabulary, digits: Iterable[int], spaced: Iterable[int], parts: Mapping[int, tuple[int, int]]
) -> bytes:
    """`TokenTable.edges` of a vocabulary.

    Args:
        vocabulary: The texts of all tokens.
        digits, spaced: As in `TokenTable`.
        parts: The edges of tokens that are parts of signs, which their texts do not tell.
    """
    texts = vocabulary.texts
    edges: list[tuple[int, int]] = [edges_of(text) for text in texts]
    for token, pair in parts.items():
        edges[token] = pair
    for token in vocabulary.control:  # their texts, such as `<|end|>`, are never part of a number
        edges[token] = (Edge.BOUNDARY, Edge.BOUNDARY)
    for token in vocabulary.unknown:
        edges[token] = (Edge.BREAK, Edge.BREAK)  # may represent any character
    for token in digits:
        # A leading space separates numbers: `12 5` are two.
        edges[token] = (Edge.BOUNDARY if token in spaced else Edge.DIGIT, Edge.DIGIT)
    flags = [STOP if token in vocabulary.control else flags_of(text) for token, text in enumerate(texts)]
    return bytes(first | last << 4 | flag for (first, last), flag in zip(edges, flags, strict=True))


def points_of(vocabulary: Vocabulary) -> dict[int, str]:
    """`TokenTable.points` of a vocabulary."""
    texts = enumerate(vocabulary.texts)
    return {token: text for token, text in texts if token not in vocabulary.control and POINTED.fullmatch(text)}


def edges_of(text: str) -> tuple[Edge, Edge]:
    """First and last edge of a token that is not numeric, from its text, where U+FFFD is part of a character."""
    if not text:
        return Edge.BREAK, Edge.BREAK
    word = text.removeprefix(" ")
    if len(word) > 1 and word.isascii() and word.isalpha():  # most of a vocabulary, and fast
        return Edge.LETTER if word == text else Edge.BOUNDARY, Edge.LETTER
    edges = (_first_edge(text), text[0]), (_last_edge(text), text[-1])
    is_sign = text.strip() in ("x", "X")  # multiplication, as in `5x3`: a break, but not a word
    first, last = (
        Edge.LETTER if edge is Edge.BREAK and char.isalpha() and not is_sign else edge for edge, char in edges
    )
    return first, last


def flags_of(text: str) -> int:
    """`STOP` and `CLOSE` of a token, from its text."""
    end = text.rstrip(" \"'”’)]")
    stops = "\n" in text or (end != "" and end[-1] in ".?!;:。？！；：…")
    return STOP * stops | CLOSE * (text.strip() in (")", "]", ">", ").", "):"))


def _first_edge(text: str) -> Edge:
    """The edge for a number that ends where the token begins."""
    kind, following = _kind(text[0]), text[1:2]
    if text.startswith("**"):
        return Edge.BREAK  # a power, or the end of bold type in Markdown
    if text[0] == "\\" and following:
        return Edge.BOUNDARY if following in "()[]" else Edge.BREAK  # LaTeX: `\(5 + 3\)`
    if text.startswith("..."):  # an ellipsis is not a decimal point
        kind, following = Edge.BOUNDARY, text.lstrip(".")[:1]
    if kind in (Edge.BOUNDARY, Edge.BREAK):
        return Edge.BREAK if following and text[0] == "." and _kind(following) is not Edge.BOUNDARY else kind
    if not following:
        return kind
    if text[0] in _APOSTROPHES:
        return Edge.BREAK if following.isalnum() else Edge.BOUNDARY
    second = _kind(following)
    if kind is Edge.MINUS:
        return kind if second in (Edge.BOUNDARY, Edge.MINUS) else Edge.BREAK
    quoted = following in _APOSTROPHES and not text[2:3].isalnum()
    return Edge.BOUNDARY if second is Edge.BOUNDARY or quoted else Edge.BREAK


def _last_edge(text: str) -> Edge:
    """The edge for a number that begins where the token ends."""
    kind = _kind(text[-1])
    if kind is Edge.MINUS:
        before = text.rstrip(_MINUSES)
        if len(text) - len(before) > 2:
            return Edge.BREAK  # a horizontal rule
        return Edge.BREAK if before and before[-1] != "!" and _kind(before[-1]) is Edge.BREAK else kind
    if text[-1] == "!" or (kind is Edge.COLON and text[-1] != ":" and len(text) > 1):
        return Edge.BOUNDARY
    return kind


def _kind(char: str) -> Edge:
    """The edge of a single character. `!` is a factorial, so it breaks; so do digits and letters."""
    if char in _MARKS:
        return _MARKS[char]
    return Edge.BOUNDARY if char in _BOUNDARIES or char.isspace() else Edge.BREAK


_MINUSES = "-\u2212"
_APOSTROPHES = "'\u2019"
_FIXED_SPACES = "\u00a0\u2007\u2009\u202f"  # thousands separators in many countries
_MARKS = {".": Edge.DOT, ",": Edge.COMMA, ":": Edge.COLON}
_MARKS |= dict.fromkeys(_MINUSES, Edge.MINUS) | dict.fromkeys(_APOSTROPHES + _FIXED_SPACES, Edge.COLON)
_BOUNDARIES = frozenset('()[]{}<>?;=+*/|"`$€£¥×÷·•\u2013—…“”„‘‚«»' + "（）【】「」『』《》〈〉？；＝＋、。")
