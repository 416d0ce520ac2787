"""How a tokenizer splits numbers, and which interface and number format follow from it.

In: any Hugging Face tokenizer, fast or slow (byte-level BPE, sentencepiece, byte fallback). Out: a `TokenizerProfile`
with the `TokenTable` that is saved with an adapter, the recommended interface and a report. The texts of tokens come
from `text.vocabulary`; how runs of digits are split is measured on a fixed sample of numbers. `check_tokenizer`
compares a tokenizer with a saved table. No model and no tensors here, and no anchor rules, see `tuner.anchor_rules`.

Try it: `peft-igc profile TOKENIZER`; tests: `pytest tests/numbers/test_token_table.py`
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from ..text.integers import ends_in_minus
from ..text.token_bytes import token_ids
from ..text.vocabulary import Vocabulary
from .token_table import TokenTable, numeric_tokens, points_of


__all__ = ["TokenizerProfile", "check_tokenizer"]

LONGEST_RUN = 20  # digits of the longest sampled run
SAMPLES = 100  # sampled runs of each length
MOST_GAPS = 0.05  # a tokenizer with a larger share of missing groups counts as irregular


@dataclass(frozen=True)
class TokenizerProfile:
    """How a tokenizer splits numbers, and how an adapter reads and writes them with it.

    Args:
        name: Name or path of the tokenizer, else its class.
        size: V, the ids are 0..V-1.
        digits: The numeric tokens, as in `TokenTable`.
        spaced: Ids of the numeric tokens with a leading space.
        found: The token table; None if the token interface does not support the tokenizer.
        facts: What `TokenTable.from_vocabulary` needs besides the vocabulary, as JSON values.
        vocabulary: The texts of all tokens.
        family: `"groups of k from the left"`, `"single digits"` or `"irregular"`.
        splits: For runs of 1 to 20 digits, how they are split, with shares, most common first: `{4: {"3+1": 1.0}}`.
        space: Tokenization of a space before a number: `"a token of its own"` or `"merges with the digits"`.
        gaps: Groups of digits without a token, where most groups of their length have one.
        fused: Tokens that end in a minus sign and have other characters: `{6732: "*-"}`.
        notes: Obstacles and warnings, in sentences.
    """

    name: str
    size: int
    digits: dict[int, str]
    spaced: frozenset[int]
    found: TokenTable | None
    facts: dict[str, Any]
    vocabulary: Vocabulary = field(repr=False)
    family: str
    splits: dict[int, dict[str, float]]
    space: str
    gaps: tuple[str, ...]
    fused: dict[int, str]
    notes: tuple[str, ...]

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> TokenizerProfile:
        """Profiles a tokenizer.

        Args:
            tokenizer: A Hugging Face tokenizer. Its vocabulary is read, and some thousand short texts are tokenized.
        """
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        texts, unused = vocabulary.texts, _unused_digits(tokenizer, vocabulary)
        digits, spaced = numeric_tokens(vocabulary, unused)
        runs = _sample_runs()
        bare = _pieces(tokenizer, runs, digits)
        group, gaps = _grouping(tokenizer, runs, bare, digits)
        minus = _minus_token(tokenizer, texts, vocabulary.control)
        notes = _obstacles(runs, bare, digits, spaced, minus)
        # With gaps, groups would split results in another way than the tokenizer, so results get single digits.
        written = 1 if gaps else group or 1
        facts = {
            "group": written,
            "minus": minus or 0,
            "point": _point_token(tokenizer, points_of(vocabulary)),
            "unused": unused,
        }
        if "".join(_pieces(tokenizer, ["5²"], digits)[0]) == "52":
            notes.append("The tokenizer turns superscripts into digits: `5²` reads as 52.")
        merged = any(token in spaced for ids in token_ids(tokenizer, ["is 7", "is 64"]) for token in ids)
        return cls(
            name=str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__),
            size=len(texts),
            digits=digits,
            spaced=spaced,
            found=None if notes else TokenTable.from_vocabulary(vocabulary, facts),
            facts=facts,
            vocabulary=vocabulary,
            family="single digits" if group == 1 else f"groups of {group} from the left" if group else "irregular",
            splits=_shares(runs, bare),
            space="merges with the digits" if merged else "a token of its own",
            gaps=gaps,
            fused={
                token: text
                for token, text in enumerate(texts)
                if len(text.strip()) > 1 and ends_in_minus(text) and token not in vocabulary.control
            },
            notes=tuple(notes),
        )

    @property
    def interface(self) -> str:
        """The recommended interface: `"tokens"`, or `"hidden"` if there is no token table."""
        return "hidden" if self.found is None else "tokens"

    @property
    def number_format(self) -> str:
        """How the adapter writes results: `"groups of k"`, `"single digits"`, or `"as learned"` (hidden interface)."""
        if self.found is None:
            return "as learned"
        return f"groups of {self.found.group}" if self.found.group > 1 else "single digits"

    @property
    def table(self) -> TokenTable:
        """The token table to save with an adapter.

        Raises:
            ValueError: The token interface does not support this tokenizer; the message gives the reason.
        """
        if self.found is None:
            raise ValueError(
                f"The token interface does not support the tokenizer `{self.name}`. {' '.join(self.notes)} "
                'Set `interface="hidden"`.'
            )
        return self.found

    def compare(self, stored: TokenTable) -> str | None:
        """Compares this tokenizer with the token table of an adapter, except for added tokens.

        Args:
            stored: The table of an adapter.

        Returns:
            None if they agree, else an error message that names the first difference.
        """
        found = self.found
        if found is not None and stored.point is None:
            found = replace(found, point=None)  # as the stored table was made, which writes no decimals
        if found is not None and found.fingerprint == stored.fingerprint:
            return None

        def spelling(digits: dict[int, str], spaced: frozenset[int], token: int) -> str:
            return repr(" " * (token in spaced) + digits[token]) if token in digits else "no digits"

        for token in sorted(set(self.digits) | set(stored.digits)):
            then = spelling(stored.digits, stored.spaced, token)
            now = spelling(self.digits, self.spaced, token)
            if then != now:
                return self._differs(f"token {token} spelled {then} and now spells {now}")
        if found is None:
            return self._differs(" ".join(self.notes)[:-1])
        if found.minus != stored.minus:
            return self._differs(f"the minus sign was token {stored.minus} and now is {found.minus}")
        if found.point != stored.point:
            return self._differs(f"the decimal point was token {stored.point} and now is {found.point}")
        return self._differs(f"numbers were written in groups of {stored.group}, now in groups of {found.group}")

    def _differs(self, how: str) -> str:
        """The error message of `compare`."""
        return (
            f"The tokenizer `{self.name}` differs from the tokenizer that the adapter was created with: {how}. "
            "Use the adapter with its own tokenizer, or train a new adapter."
        )

    def as_dict(self) -> dict[str, Any]:
        """The profile as JSON values, with the fingerprint in place of the table."""
        return {
            "tokenizer": self.name,
            "vocabulary": self.size,
            "numeric_tokens": self._numbers_by_length(),
            "numeric_tokens_with_space": len(self.spaced),
            "family": self.family,
            "splits": {str(length): shares for length, shares in self.splits.items()},
            "space": self.space,
            "gaps": list(self.gaps),
            "minus": None if self.found is None else self.found.minus,
            "point": None if self.found is None else self.found.point,
            "fused_minus": {str(token): text for token, text in self.fused.items()},
            "interface": self.interface,
            "number_format": self.number_format,
            "notes": list(self.notes),
            "fingerprint": None if self.found is None else self.found.fingerprint,
        }

    def report(self) -> str:
        """The profile as text, one property per line."""
        lengths = ", ".join(f"{count:,} of {length}" for length, count in self._numbers_by_length().items())
        rows = [
            ("tokenizer", f"{self.name}, {self.size:,} tokens"),
            ("numeric tokens", f"{len(self.digits):,}, by digits: {lengths}; {len(self.spaced):,} begin with a space"),
            ("runs of digits", self.family),
            *((f"  {length} digits", _listed(self.splits[length])) for length in (4, 7, 10) if self._irregular),
            ("gaps", f"{len(self.gaps):,}: {', '.join(self.gaps[:8])}" if self.gaps else "none"),
            ("leading space", self.space),
            ("minus sign", "none" if self.found is None else f"token {self.found.minus}"),
            ("  fused", f"in {len(self.fused):,} tokens{self._fused_with_operators()}"),
            ("decimal point", self._point()),
            ("interface", self.interface),
            ("number format", self.number_format + self._why()),
            *(("note", note) for note in self.notes),
        ]
        return "\n".join(f"{name:<15} {value}" for name, value in rows)

    def _point(self) -> str:
        """The token of the decimal point, for the report."""
        point = None if self.found is None else self.found.point
        return "none" if point is None else f"token {point}"

    @property
    def _irregular(self) -> bool:
        return any(len(shares) > 1 for shares in self.splits.values())

    def _numbers_by_length(self) -> dict[str, int]:
        """The number of numeric tokens by their number of digits."""
        return {str(length): count for length, count in sorted(Counter(map(len, self.digits.values())).items())}

    def _fused_with_operators(self) -> str:
        """A list of the tokens that are an operator and a minus sign, for the report."""
        pairs = [text for text in self.fused.values() if re.fullmatch(r" ?[-+*/=×÷] ?[-\u2212]", text)]
        return f", among them {' '.join(map(repr, pairs))}" if pairs else ""

    def _why(self) -> str:
        """The reason for writing results in other tokens than the tokenizer's, for the report."""
        if self.found is None or (not self.gaps and self.family != "irregular"):
            return ""
        reason = "groups are missing" if self.gaps else "the tokenizer splits irregularly"
        return f" ({reason}; answers are trained and written in single-digit tokens, the text is the same)"


# Profiles of the tokenizers that were checked, while these exist: creating one takes a second or two.
_profiles: WeakKeyDictionary[Any, TokenizerProfile] = WeakKeyDictionary()


def check_tokenizer(table: TokenTable | None, tokenizer: Any) -> None:
    """Refuses a tokenizer whose numeric tokens differ from those that an adapter was created with.

    Args:
        table: The adapter's `IGCConfig.token_table`. None (hidden interface) allows any tokenizer.
        tokenizer: A Hugging Face tokenizer; it may have added tokens, such as padding.

    Raises:
        ValueError: The tokenizers differ; the message names the first difference.
    """
    if table is None:
        return
    profile = _profiles.get(tokenizer)
    if profile is None or profile.size != len(tokenizer):
        profile = _profiles[tokenizer] = TokenizerProfile.from_tokenizer(tokenizer)
    difference = profile.compare(table)
    if difference is not None:
        raise ValueError(difference)


def _unused_digits(tokenizer: Any, vocabulary: Vocabulary) -> list[int]:
    """Tokens that spell the digits of another token, which the tokenizer uses: a digit may have a single byte, too."""
    digits, spaced = numeric_tokens(vocabulary)
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for token, text in digits.items():
        alike[" " * (token in spaced) + text].append(token)
    unused: list[int] = []
    for text, tokens in alike.items():
        used = token_ids(tokenizer, [text.strip()])[0] if len(tokens) > 1 else tokens
        kept = next((token for token in tokens if token in used), tokens[0])
        unused += [token for token in tokens if token != kept]
    return unused


def _minus_token(tokenizer: Any, texts: Sequence[str], special: frozenset[int]) -> int | None:
    """The token of the minus sign of a negative number at the start of a text, else any token `-`; None if neither."""
    signs = [token for token in token_ids(tokenizer, ["-5"])[0] if texts[token].strip() == "-"]
    signs += [token for token, text in enumerate(texts) if text == "-"]
    return next((token for token in signs if token not in special), None)


def _point_token(tokenizer: Any, points: dict[int, str]) -> int | None:
    """The token of a decimal point between digits, else any token `.`; None if there is none."""
    alone = [token for token in (*token_ids(tokenizer, ["1.5"])[0], *points) if points.get(token) == "."]
    return alone[0] if alone else None


def _sample_runs() -> list[str]:
    """A fixed sample of runs of 1 to 20 digits, complete for one and two digits without leading zeros."""
    draw = random.Random(0)
    runs = [str(number) for number in range(100)]
    for length in range(3, LONGEST_RUN + 1):
        runs += [str(draw.randrange(10 ** (length - 1), 10**length)) for _ in range(SAMPLES)]
    return runs


def _pieces(tokenizer: Any, texts: Sequence[str], digits: dict[int, str]) -> list[list[str]]:
    """The digits of each numeric token of each text."""
    return [[digits[token] for token in ids if token in digits] for ids in token_ids(tokenizer, texts)]


def _shares(runs: Sequence[str], pieces: Sequence[Sequence[str]]) -> dict[int, dict[str, float]]:
    """The splits of runs and their shares, by length of the run, most common first."""
    counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for run, parts in zip(runs, pieces, strict=True):
        counts[len(run)]["+".join(str(len(part)) for part in parts)] += 1
    return {
        length: {way: round(count / ways.total(), 4) for way, count in ways.most_common()}
        for length, ways in sorted(counts.items())
    }


def _grouping(
    tokenizer: Any, runs: Sequence[str], bare: Sequence[Sequence[str]], digits: dict[int, str]
) -> tuple[int | None, tuple[str, ...]]:
    """The k of a split in groups of k from the left, and the groups without a token; `(None, ())` if irregular.

    Every sampled run must be split this way, alone and after a word, unless one of its groups has no token.
    """
    # Only the first token of a long run has the size of a full group with certainty.
    sizes = Counter(len(parts[0]) for run, parts in zip(runs, bare, strict=True) if len(run) > 9 and parts)
    group = sizes.most_common(1)[0][0] if sizes else 0
    if not 1 <= group <= 4:
        return None, ()
    wanted = [f"{number:0{length}}" for length in range(1, group + 1) for number in range(10**length)]
    gaps = [text for text, parts in zip(wanted, _pieces(tokenizer, wanted, digits), strict=True) if parts != [text]]
    if len(gaps) > MOST_GAPS * len(wanted):
        return None, ()
    after_word = _pieces(tokenizer, [f"is {run}" for run in runs], digits)
    for run, *ways in zip(runs, bare, after_word, strict=True):
        expected = [run[start : start + group] for start in range(0, len(run), group)]
        if not set(gaps) & set(expected) and any(way != expected for way in ways):
            return None, ()
    return group, tuple(gaps)


def _obstacles(
    runs: Sequence[str],
    pieces: Sequence[Sequence[str]],
    digits: dict[int, str],
    spaced: frozenset[int],
    minus: int | None,
) -> list[str]:
    """The reasons why the token interface does not support the tokenizer, in sentences; none if it does."""
    found = []
    misspelled = [run for run, parts in zip(runs, pieces, strict=True) if "".join(parts) != run]
    missing = sorted(set("0123456789") - {text for token, text in digits.items() if token not in spaced})
    if missing:
        found.append(f"No token spells the digit {', '.join(missing)} alone.")
    elif misspelled:
        found.append(f"The numeric tokens of {misspelled[0]!r} do not spell it.")
    if minus is None:
        found.append("No token spells a minus sign alone.")
    return found


def _listed(shares: dict[str, float]) -> str:
    """The most common splits, for the report."""
    ways = [f"{way} {share:.0%}" for way, share in list(shares.items())[:4]]
    more = len(shares) - len(ways)
    return ", ".join(ways) + (f" and {more} more" if more else "")
