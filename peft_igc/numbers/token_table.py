"""The token table: which tokens of a vocabulary spell digits, a minus sign and a point.

In: a `text.Vocabulary` and the few facts about numbers that it does not tell (`from_vocabulary`), or a whole table as
JSON. Out: a `TokenTable`, and how it spells results (`speller`). An adapter saves facts and vocabulary, so loading one
needs no tokenizer. Nothing here queries tokenizers, see `tokenizer_profile`; where the numbers of a text are is in
`text.integers`. Try it: `pytest tests/numbers/test_token_table.py`
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..text.integers import JOINTS, MINUSES, ends_in_minus
from ..text.results.spelling import Piece, Speller
from ..text.vocabulary import EMBEDDED, PADDING, UNSEEN, Vocabulary


__all__ = ["EMBEDDED", "PADDING", "POINTED", "UNSEEN", "TokenTable", "numeric_tokens", "points_of"]


MOST_TOKENS = 1 << 24  # of a vocabulary; the largest known have a few hundred thousand
MOST_DIGITS = 256  # of a token; the longest known have a few dozen zeros
MOST_GROUP = 6  # digits per token of a result: there is a table of all groups


@dataclass(frozen=True)
class TokenTable:
    """How the tokens of a vocabulary spell numbers.

    Args:
        digits: Digits of each numeric token, with leading zeros: `{931: "007"}`. Spellings are unique among the tokens
            with a leading space, and among those without.
        spaced: Ids of the numeric tokens with a leading space, which start a new number.
        vocabulary: The texts of all tokens, 0..V-1.
        group: Digits per token of a written result, grouped from the left; 1 is single digits.
        minus: Id of the token for a minus sign.
        point: Id of the token for a decimal point; None if there is none, and in tables that were saved without it.
            Decimals are then not written.
        points: Texts of all tokens that are a point, or a point and digits: `{13: ".", 764: " .", 40: "0."}`. They
            count when a decimal is continued.
        decimals: Whether the network may point at a number with a point or a per cent sign, see `text.integers`.

    Attributes:
        speller: How the tokens spell results.

    Raises:
        ValueError: A field is invalid or contradicts another one; the message names the first such token.
    """

    digits: dict[int, str]
    spaced: frozenset[int]
    vocabulary: Vocabulary
    group: int
    minus: int
    point: int | None = None
    points: dict[int, str] = field(default_factory=dict)
    decimals: bool = False
    speller: Speller = field(init=False, compare=False, repr=False)

    def __deepcopy__(self, memo: Any) -> TokenTable:
        return self

    def __post_init__(self) -> None:
        size = len(self.vocabulary)
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
                    raise ValueError(f"`{name}` names token {token}, but the tokens are 0..{size - 1}.")
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

    def _check_points(self) -> None:
        """Refuses tokens that are no point, and a `point` that is not among them."""
        for token, text in self.points.items():
            if not isinstance(text, str) or not POINTED.fullmatch(text):
                raise ValueError(f"Token {token} of `points` has the text {text!r}, which is no point among digits.")
            if token in self.digits:
                raise ValueError(f"Token {token} of the table is in `digits` and in `points`.")
        if self.point is not None and self.points.get(self.point) != ".":
            raise ValueError(f"`point={self.point}` is not a token with the text '.' in `points`.")

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
        Without `vocabulary` and `points`, which added tokens extend."""
        facts = [sorted(self.digits.items()), sorted(self.spaced), self.group, self.minus]
        facts += [] if self.point is None else [self.point]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values: keys are ids as strings, `vocabulary` is base64-encoded."""
        saved: dict[str, Any] = {
            "digits": {str(token): self.digits[token] for token in sorted(self.digits)},
            "spaced": sorted(self.spaced),
            "vocabulary": base64.b64encode(self.vocabulary.to_bytes()).decode("ascii"),
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
            facts: `TokenizerProfile.facts`: `group`, `minus` and `point` as in a table, and `unused`, ids of tokens
                that spell the digits of another token, which the tokenizer uses.

        Raises:
            ValueError: `facts` has other keys or types, or contradicts the vocabulary.
        """
        cls.check_facts(facts)
        return _from_vocabulary(vocabulary, facts["group"], facts["minus"], facts["point"], frozenset(facts["unused"]))

    @staticmethod
    def check_facts(facts: Any) -> None:
        """Refuses what is no argument of `from_vocabulary`, as far as that is seen without a vocabulary.

        Raises:
            ValueError: `facts` has other keys or types.
        """
        # Saved facts may have `parts` of signs, which nothing reads any more.
        if not isinstance(facts, Mapping) or set(facts) - {"parts"} != _FACTS:
            got = sorted(map(str, facts)) if isinstance(facts, Mapping) else type(facts).__name__
            raise ValueError(f"The facts about numbers have the keys {sorted(_FACTS)}, got {got}. {_NEW_CONFIG}")
        integers = [facts["group"], facts["minus"], *([] if facts["point"] is None else [facts["point"]])]
        try:
            right = all(type(one) is int and 0 <= one < MOST_TOKENS for one in (*integers, *facts["unused"]))
        except TypeError:
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
            vocabulary = Vocabulary.from_bytes(base64.b64decode(saved["vocabulary"], validate=True))
        except ValueError as error:  # also of base64
            raise ValueError(f"`vocabulary` of the token table is damaged ({error}). {_CURE}") from error
        if any(type(token) is not int for token in saved["spaced"]):
            raise ValueError(f"`spaced` of the token table is not a list of token ids. {_CURE}")
        digits, points = (_texts_by_id(saved, name) for name in ("digits", "points"))
        return cls(
            digits, frozenset(saved["spaced"]), vocabulary, saved["group"], saved["minus"], saved.get("point"), points
        )


def _speller(table: TokenTable) -> Speller:
    """`TokenTable.speller`."""
    pieces: dict[int, Piece] = {}
    vocabulary = table.vocabulary
    for token, text in enumerate(vocabulary.texts):
        minus = vocabulary.tokens[token] in _ENDS_OF_MINUS or (text[-1:] in MINUSES and ends_in_minus(text))
        if not (minus or text[-1:] == "." or text in JOINTS) or not text or token in vocabulary.control:
            continue
        pieces[token] = Piece(mark=text in (".", ","), joins=text in JOINTS, minus=minus, dot=text[-1] == ".")
    for token, text in table.points.items():
        before, _, after = text.partition(".")
        piece, digits = pieces.get(token, Piece()), before.strip() + after
        pieces[token] = piece._replace(digits=digits, spaced=before[:1] == " ", point=len(before.strip()))
    pieces |= {token: Piece(text, token in table.spaced) for token, text in table.digits.items()}
    tokens = {text: token for token, text in table.digits.items() if token not in table.spaced}
    percent = vocabulary.texts.index("%") if "%" in vocabulary.texts else None
    if percent is not None:
        pieces[percent] = Piece(percent=True)
    return Speller(pieces, len(vocabulary), tokens, table.group, table.minus, table.point, percent)


def _texts_by_id(saved: Mapping[str, Any], name: str) -> dict[int, str]:
    """The texts of tokens that are saved under a name; none if the name is not there."""
    texts = saved.get(name, {})
    for token, text in texts.items():
        if not isinstance(token, str) or not token.isdecimal() or not isinstance(text, str):
            raise ValueError(f"`{name}` of the token table maps {token!r} to {text!r}. {_CURE}")
    return {int(token): text for token, text in texts.items()}


_NUMERIC = re.compile(" ?[0-9]+")
POINTED = re.compile(r" ?[0-9]*\.[0-9]*")  # tokens of a point, or of a point and digits
_SHAPES: dict[str, type] = {"digits": dict, "spaced": list, "vocabulary": str, "group": int, "minus": int}
_POINT_SHAPES: dict[str, type] = {"point": int, "points": dict}  # absent in tables that write no decimals
_ENDS_OF_MINUS = ("\u2212".encode()[1:], "\u2212".encode()[2:])
_FACTS = {"group", "minus", "point", "unused"}
_CURE = "Create it again: `TokenizerProfile.from_tokenizer(tokenizer).table.to_json()`."
_NEW_CONFIG = "Create the config again: `IGCConfig.from_tokenizer(tokenizer)`."


@functools.lru_cache(maxsize=8)  # a second for the largest vocabularies
def _from_vocabulary(
    vocabulary: Vocabulary,
    group: int,
    minus: int,
    point: int | None,
    unused: frozenset[int],
) -> TokenTable:
    """`TokenTable.from_vocabulary`."""
    if outside := [token for token in unused if token >= len(vocabulary)]:
        raise ValueError(
            f"The facts about numbers name token {outside[0]}, but the vocabulary has 0..{len(vocabulary) - 1}. "
            f"{_NEW_CONFIG}"
        )
    digits, spaced = numeric_tokens(vocabulary, unused)
    points = {} if point is None else points_of(vocabulary)
    return TokenTable(digits, spaced, vocabulary, group, minus, point, points)


def numeric_tokens(vocabulary: Vocabulary, unused: Iterable[int] = ()) -> tuple[dict[int, str], frozenset[int]]:
    """`TokenTable.digits` and `spaced` of a vocabulary, without some of its tokens."""
    out = vocabulary.control | set(unused)
    found = {
        token: text for token, text in enumerate(vocabulary.texts) if token not in out and _NUMERIC.fullmatch(text)
    }
    spaced = frozenset(token for token, text in found.items() if text[0] == " ")
    return {token: text.strip() for token, text in found.items()}, spaced


def points_of(vocabulary: Vocabulary) -> dict[int, str]:
    """`TokenTable.points` of a vocabulary."""
    texts = enumerate(vocabulary.texts)
    return {token: text for token, text in texts if token not in vocabulary.control and POINTED.fullmatch(text)}
