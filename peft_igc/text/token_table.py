"""The token table: how the tokens of a vocabulary spell numbers, their signs and points.

In: a `Vocabulary`, and the few facts about numbers that it does not tell (`TokenizerProfile.facts`). Out: a
`TokenTable`. An adapter saves both, so loading one needs no tokenizer. How far a text has come with a result is in
`spelling`; where the numbers of a text are is in `literals`. Try it: `pytest tests/numbers/test_token_table.py`
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .literals import JOINTS, ends_in_minus
from .vocabulary import Vocabulary


_MOST_TOKENS = 1 << 24  # of a vocabulary; the largest known have a few hundred thousand
_MOST_GROUP = 6  # digits per token of a result: there is a token for each group
OTHER, POINTED, UNSPELLED = "x", "…", "?"  # `TokenTable.characters` of tokens without digits
_FACTS = {"group", "minus", "point", "unused"}
_CURE = "Create the config again: `IGCConfig.from_tokenizer(tokenizer)`."
_NUMBER, _POINTED = re.compile(" ?[0-9]+"), re.compile(r" ?[0-9]*\.[0-9]*")
_ENDS_OF_MINUS = ("\u2212".encode()[1:], "\u2212".encode()[2:])


@dataclass(frozen=True)
class TokenTable:
    """How the tokens of a vocabulary spell numbers. It does not change; copies are the object itself.

    Raises:
        ValueError: The facts contradict the vocabulary; the message names the first such token.
    """

    vocabulary: Vocabulary  # The texts of all tokens, 0..V-1
    group: int  # Digits per token of a written result, grouped from the left; 1 is single digits
    minus: int  # Id of the token for a minus sign
    # Id of the token for a decimal point; None if there is none. Decimals are then not written.
    point: int | None = None
    # Ids of tokens that spell the digits of another token, which the tokenizer uses
    unused: frozenset[int] = frozenset()
    decimals: bool = False  # Whether the network may point at a number with a point or a per cent sign, see `integers`
    _characters: dict[int, str] = field(init=False, default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        texts = self.vocabulary.texts
        named = (self.minus, *self.unused, *([] if self.point is None else [self.point]))
        if outside := [token for token in named if not 0 <= token < len(texts)]:
            raise ValueError(f"`number_tokens` names token {outside[0]}, but the tokens are 0..{len(texts) - 1}.")
        if self.point is not None and texts[self.point] != ".":
            raise ValueError(f"`point={self.point}` has the text {texts[self.point]!r}, not '.'.")
        if not 1 <= self.group <= _MOST_GROUP:
            raise ValueError(f"`group={self.group}` is not in 1..{_MOST_GROUP}.")
        for token, text in self.numbers.items():
            if (other := self.tokens[text]) != token:
                raise ValueError(f"Tokens {token} and {other} both spell {text!r}.")
        if missing := [digit for digit in "0123456789" if digit not in self.tokens]:
            raise ValueError(f"No token spells the single digit {missing[0]}, so some results cannot be written.")

    @functools.cached_property
    def numbers(self) -> dict[int, str]:
        """Texts of the numeric tokens, of some with a leading space: `{931: "007", 220: " 7"}`."""
        return numbers_of(self.vocabulary, self.unused)

    @functools.cached_property
    def tokens(self) -> dict[str, int]:
        """The same, as ids of texts."""
        return {text: token for token, text in self.numbers.items()}

    @functools.cached_property
    def percent(self) -> int | None:
        """Id of the token for a per cent sign; None if there is none. Percentages are then not written."""
        texts = self.vocabulary.texts
        return texts.index("%") if "%" in texts else None

    def __deepcopy__(self, memo: Any) -> TokenTable:
        return self

    @classmethod
    def of(cls, vocabulary: Vocabulary, facts: Mapping[str, Any], decimals: bool = False) -> TokenTable:
        """The table of a vocabulary and `TokenizerProfile.facts`; a recent one is kept.

        Raises:
            ValueError: `facts` has other keys or types, or contradicts the vocabulary.
        """
        cls.check_facts(facts)
        unused = frozenset(facts["unused"])
        return _table(vocabulary, facts["group"], facts["minus"], facts["point"], unused, decimals)

    @staticmethod
    def check_facts(facts: Any) -> None:
        """Refuses what is no `TokenizerProfile.facts`, as far as that is seen without a vocabulary (a ValueError)."""
        # Older adapters also saved `parts` of signs, which nothing reads any more.
        if not isinstance(facts, Mapping) or set(facts) - {"parts"} != _FACTS:
            got = sorted(map(str, facts)) if isinstance(facts, Mapping) else type(facts).__name__
            raise ValueError(f"The facts about numbers have the keys {sorted(_FACTS)}, got {got}. {_CURE}")
        ids = [facts["group"], facts["minus"], *([] if facts["point"] is None else [facts["point"]])]
        try:
            right = all(type(one) is int and 0 <= one < _MOST_TOKENS for one in (*ids, *facts["unused"]))
        except TypeError:
            right = False
        if not right:
            raise ValueError(f"The facts about numbers are damaged: {str(dict(facts))[:200]}. {_CURE}")

    def check_vocabulary(self, size: int) -> None:
        """Refuses a model whose vocabulary, of `size` tokens, lacks a numeric token, the minus sign or the point (a
        ValueError); padded or resized embeddings are fine."""
        last = max(*self.numbers, self.minus, -1 if self.point is None else self.point)
        if last >= size:
            raise ValueError(
                f"The adapter writes numbers with token {last}, but the model has {size} tokens (0..{size - 1}). "
                "Load it onto the base model that it was trained on, or create a new config with "
                "`IGCConfig.from_tokenizer(tokenizer)`."
            )

    @property
    def written_with(self) -> list[int]:
        """All tokens that results are written with."""
        marks = (self.minus, self.point, self.percent)
        digits = (token for token, text in self.numbers.items() if text[0] != " ")
        return sorted({*digits, *(one for one in marks if one is not None)})

    def spells(self, result: str) -> bool:
        """Whether there are tokens for the marks of a result."""
        return not ("." in result and self.point is None) and not ("%" in result and self.percent is None)

    def characters(self, token: int) -> str:
        """What a token, any integer, may be of a number: of a numeric one its text, such as ` 12` or `.5`; a point, a
        per cent sign, or a sign of `JOINTS`; `-` if it ends in a minus sign; else one of `OTHER`, `POINTED` if it ends
        in a point, and `UNSPELLED` if it is not in the vocabulary, so that a number may have begun in it."""
        if token not in self._characters:
            self._characters[token] = self._characters_of(token)
        return self._characters[token]

    def _characters_of(self, token: int) -> str:
        """`characters`, made anew."""
        vocabulary = self.vocabulary
        if not 0 <= token < len(vocabulary):
            return UNSPELLED
        text = vocabulary.texts[token]
        if not text or token in vocabulary.control or token in self.unused:
            return OTHER
        number = _NUMBER.fullmatch(text) or (self.point is not None and _POINTED.fullmatch(text))
        if number or text in JOINTS or text == "%":
            return text
        if vocabulary.tokens[token] in _ENDS_OF_MINUS or ends_in_minus(text):
            return "-"
        return POINTED if text[-1] == "." else OTHER

    def token_of(self, digits: str) -> int:
        """The token of a group of digits, or of its longest beginning that has one; -1 for no digits."""
        while digits and digits not in self.tokens:
            digits = digits[:-1]
        return self.tokens.get(digits, -1)


_table = functools.lru_cache(maxsize=8)(TokenTable)  # a second for the largest vocabularies


def numbers_of(vocabulary: Vocabulary, unused: Iterable[int] = ()) -> dict[int, str]:
    """`TokenTable.numbers` of a vocabulary, without some of its tokens."""
    out = vocabulary.control | set(unused)
    return {token: text for token, text in enumerate(vocabulary.texts) if _NUMBER.fullmatch(text) and token not in out}
