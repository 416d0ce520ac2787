"""How a tokenizer splits numbers: which tokens spell digits, how runs of digits are cut, what follows for the adapter.

In: any Hugging Face tokenizer, fast or slow (byte-level BPE, sentencepiece's `▁`, byte fallback). Out:
`TokenizerProfile` with the `TokenTable` that is saved with an adapter, a report for people, the recommended interface,
and where anchor rules such as `=` hold. The text of a token is found by its spelling in the vocabulary, and how runs
are split by asking the tokenizer itself, with a fixed seed. No model and no tensors here.

Try it: `peft-igc profile TOKENIZER`; tests: `pytest tests/test_tokens.py`.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .anchor_rules import TextRule, text_rule
from .tokens import STOP, Edge, TokenTable, edges_of, flags_of
from .vocabulary import special_tokens, token_ids, token_texts


__all__ = ["TokenizerProfile"]

LONGEST_RUN = 20  # digits: how runs up to this length are split is looked at
SAMPLES = 100  # runs of each length
MOST_GAPS = 0.05  # share of missing groups above which a tokenizer does not split in groups


@dataclass(frozen=True)
class TokenizerProfile:
    """How a tokenizer splits numbers, and how the adapter is to read and write them with it.

    Args:
        name: Of the tokenizer: where it came from, or its class.
        size: V: its ids are 0..V-1.
        digits: The numeric tokens, as in `TokenTable`.
        spaced: Those among them that begin with a space.
        found: The table; None where the token interface cannot work.
        family: `"groups of k from the left"`, `"single digits"` or `"irregular"`.
        splits: For runs of 1 to 20 digits, the ways in which they are split and their shares, the commonest first:
            `{4: {"3+1": 1.0}}`.
        space: What becomes of a space before a number: `"a token of its own"` or `"merges with the digits"`.
        gaps: Groups of digits that are no token, though others of their length are.
        fused: Tokens that end in a minus sign and hold something else: `{6732: "*-"}`.
        notes: What else a user should know, in sentences.
        anchors: Texts behind which a result is to be due, in the tokens of this vocabulary.
    """

    name: str
    size: int
    digits: dict[int, str]
    spaced: frozenset[int]
    found: TokenTable | None
    family: str
    splits: dict[int, dict[str, float]]
    space: str
    gaps: tuple[str, ...]
    fused: dict[int, str]
    notes: tuple[str, ...]
    anchors: tuple[TextRule, ...] = ()

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, anchors: Sequence[str] = ()) -> TokenizerProfile:
        """The profile of a tokenizer.

        Args:
            tokenizer: A Hugging Face tokenizer. Asked for its vocabulary and for the ids of some thousand short texts.
            anchors: Texts of anchor rules to look at, such as `["="]`.

        Raises:
            ValueError: as `text_rule`, for a text that can be no rule here.
        """
        rules = tuple(text_rule(tokenizer, text) for text in anchors)
        texts, special = token_texts(tokenizer), special_tokens(tokenizer)
        digits, spaced = _numeric_tokens(tokenizer, texts, special)
        edges = _edges(tokenizer, texts, special, digits, spaced)
        runs = _sample_runs()
        bare = _pieces(tokenizer, runs, digits)
        group, gaps = _grouping(tokenizer, runs, bare, digits)
        minus = _minus_token(tokenizer, texts, special)
        notes = _obstacles(runs, bare, digits, spaced, minus)
        table = None if notes else TokenTable(digits, spaced, edges, 1 if gaps else group or 1, minus or 0)
        if "".join(_pieces(tokenizer, ["5²"], digits)[0]) == "52":
            notes.append("The tokenizer turns superscripts into digits: `5²` reads as 52.")
        merged = any(token in spaced for ids in token_ids(tokenizer, ["is 7", "is 64"]) for token in ids)
        return cls(
            name=str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__),
            size=len(texts),
            digits=digits,
            spaced=spaced,
            found=table,
            family="single digits" if group == 1 else f"groups of {group} from the left" if group else "irregular",
            splits=_shares(runs, bare),
            space="merges with the digits" if merged else "a token of its own",
            gaps=gaps,
            fused={
                token: text
                for token, text in enumerate(texts)
                if edges[token] >> 4 & 7 == Edge.MINUS and len(text.strip()) > 1
            },
            notes=tuple(notes),
            anchors=rules,
        )

    @property
    def interface(self) -> str:
        """The interface to choose: `"tokens"`, or `"hidden"` where the tokenizer gives no table."""
        return "hidden" if self.found is None else "tokens"

    @property
    def number_format(self) -> str:
        """How the adapter writes results: `"groups of k"`, `"single digits"`, or `"as learned"` (hidden interface)."""
        if self.found is None:
            return "as learned"
        return f"groups of {self.found.group}" if self.found.group > 1 else "single digits"

    @property
    def table(self) -> TokenTable:
        """The table to save with an adapter.

        Raises:
            ValueError: the token interface cannot work with this tokenizer; says why.
        """
        if self.found is None:
            raise ValueError(
                f"The token interface cannot work with the tokenizer `{self.name}`. {' '.join(self.notes)} "
                'Set `interface="hidden"`.'
            )
        return self.found

    def compare(self, stored: TokenTable) -> str | None:
        """What differs between this tokenizer and a stored table, or None. Further tokens and edges do not count.

        Args:
            stored: The table of an adapter.

        Returns:
            A sentence that names the first token that differs, for an error message.
        """
        if self.found is not None and self.found.fingerprint == stored.fingerprint:
            return None

        def spelling(digits: dict[int, str], spaced: frozenset[int], token: int) -> str:
            return repr(" " * (token in spaced) + digits[token]) if token in digits else "no number"

        for token in sorted(set(self.digits) | set(stored.digits)):
            then = spelling(stored.digits, stored.spaced, token)
            now = spelling(self.digits, self.spaced, token)
            if then != now:
                return self._differs(f"token {token} spells {then} there and {now} here")
        if self.found is None:
            return self._differs(" ".join(self.notes)[:-1])
        if self.found.minus != stored.minus:
            return self._differs(f"the minus sign is token {stored.minus} there and {self.found.minus} here")
        return self._differs(f"numbers are written in groups of {stored.group} there and {self.found.group} here")

    def _differs(self, how: str) -> str:
        """The sentence of `compare`."""
        return (
            f"The tokenizer `{self.name}` is not the one that the adapter was made for: {how}. "
            "Use the adapter with its own tokenizer, or train one for this."
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON values; of the table, its fingerprint."""
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
            "fused_minus": {str(token): text for token, text in self.fused.items()},
            "interface": self.interface,
            "number_format": self.number_format,
            "notes": list(self.notes),
            "anchors": {
                rule.text: {
                    "sequences": rule.sequences,
                    "hidden": {str(token): text for token, text in rule.hidden.items()},
                }
                for rule in self.anchors
            },
            "fingerprint": None if self.found is None else self.found.fingerprint,
        }

    def report(self) -> str:
        """The profile as a table for a terminal."""
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
            ("interface", self.interface),
            ("number format", self.number_format + self._why()),
            *(row for rule in self.anchors for row in _rows_of(rule)),
            *(("note", note) for note in self.notes),
        ]
        return "\n".join(f"{name:<15} {value}" for name, value in rows)

    @property
    def _irregular(self) -> bool:
        return any(len(shares) > 1 for shares in self.splits.values())

    def _numbers_by_length(self) -> dict[str, int]:
        """How many numeric tokens spell how many digits."""
        return {str(length): count for length, count in sorted(Counter(map(len, self.digits.values())).items())}

    def _fused_with_operators(self) -> str:
        """The tokens of an operator and a minus sign."""
        pairs = [text for text in self.fused.values() if re.fullmatch(r" ?[-+*/=×÷] ?[-\u2212]", text)]
        return f", among them {' '.join(map(repr, pairs))}" if pairs else ""

    def _why(self) -> str:
        """Why results are not written as the tokenizer splits them, if so."""
        if self.found is None or (not self.gaps and self.family != "irregular"):
            return ""
        reason = "groups are missing" if self.gaps else "the tokenizer splits irregularly"
        return f" ({reason}; answers are trained and written in single-digit tokens, the text is the same)"


def _numeric_tokens(
    tokenizer: Any, texts: Sequence[str], special: frozenset[int]
) -> tuple[dict[int, str], frozenset[int]]:
    """The numeric tokens, and those of them that begin with a space; of several that spell the same (a digit and its
    single byte), the one that the tokenizer uses."""
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for token, text in enumerate(texts):
        if token not in special and _NUMERIC.fullmatch(text):
            alike[text].append(token)
    kept: dict[int, str] = {}
    for text, tokens in alike.items():
        used = token_ids(tokenizer, [text.strip()])[0] if len(tokens) > 1 else tokens
        kept[next((token for token in tokens if token in used), tokens[0])] = text
    digits = {token: kept[token].strip() for token in sorted(kept)}
    return digits, frozenset(token for token, text in kept.items() if text[0] == " ")


def _edges(
    tokenizer: Any, texts: Sequence[str], special: frozenset[int], digits: dict[int, str], spaced: frozenset[int]
) -> bytes:
    """The edges of all tokens, as in `TokenTable`."""
    edges = [edges_of(text) for text in texts]
    for token, (first, last) in _parts_of_signs(tokenizer, texts).items():
        edges[token] = (
            edges[token][0] if first is None else first,
            edges[token][1] if last is None else last,
        )
    for token in special:
        edges[token] = (Edge.BOUNDARY, Edge.BOUNDARY)
    unknown = tokenizer.unk_token_id
    if unknown is not None and unknown not in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        edges[unknown] = (Edge.BREAK, Edge.BREAK)  # stands for any character
    for token in digits:
        edges[token] = (Edge.BOUNDARY if token in spaced else Edge.DIGIT, Edge.DIGIT)
    flags = [STOP if token in special else flags_of(text) for token, text in enumerate(texts)]
    return bytes(first | last << 4 | flag for (first, last), flag in zip(edges, flags, strict=True))


def _parts_of_signs(tokenizer: Any, texts: Sequence[str]) -> dict[int, tuple[Edge | None, Edge | None]]:
    """Edges of tokens that are parts of the characters `÷`, `×` and U+2212; None: as the token's text says.

    Edges between the parts are boundaries: no number stands there, and none may look broken by them.
    """
    found: dict[int, tuple[Edge | None, Edge | None]] = {}
    for sign, outer in (("÷", Edge.BOUNDARY), ("×", Edge.BOUNDARY), ("\u2212", Edge.MINUS)):
        for ids in token_ids(tokenizer, [f"5{sign}5", f"5 {sign} 5", f" {sign}", sign]):
            parts = [token for token in ids if re.fullmatch(" ?\ufffd+", texts[token])]
            for place, token in enumerate(parts):
                first = None if texts[token][0] == " " else outer if place == 0 else Edge.BOUNDARY
                last = outer if place == len(parts) - 1 else Edge.BOUNDARY
                found[token] = (first, last)
    return found


def _minus_token(tokenizer: Any, texts: Sequence[str], special: frozenset[int]) -> int | None:
    """The token that the tokenizer puts before the digits of a negative number at the start of a text."""
    signs = [token for token in token_ids(tokenizer, ["-5"])[0] if texts[token].strip() == "-"]
    signs += [token for token, text in enumerate(texts) if text == "-"]
    return next((token for token in signs if token not in special), None)


def _sample_runs() -> list[str]:
    """Runs of 1 to 20 digits, all that have up to two."""
    draw = random.Random(0)
    runs = [str(number) for number in range(100)]
    for length in range(3, LONGEST_RUN + 1):
        runs += [str(draw.randrange(10 ** (length - 1), 10**length)) for _ in range(SAMPLES)]
    return runs


def _pieces(tokenizer: Any, texts: Sequence[str], digits: dict[int, str]) -> list[list[str]]:
    """What the numeric tokens of each text spell."""
    return [[digits[token] for token in ids if token in digits] for ids in token_ids(tokenizer, texts)]


def _shares(runs: Sequence[str], pieces: Sequence[Sequence[str]]) -> dict[int, dict[str, float]]:
    """By length of the run, the ways in which it is split and their shares, the commonest first."""
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
    """The k of a split in groups of k from the left and the groups that are no token; None and none if irregular.

    A run must be split so wherever it stands, unless it holds a group that is no token.
    """
    sizes = Counter(len(parts[0]) for run, parts in zip(runs, bare, strict=True) if len(run) > 9 and parts)
    group = sizes.most_common(1)[0][0] if sizes else 0
    if not 1 <= group <= 4:
        return None, ()
    wanted = [f"{number:0{length}}" for length in range(1, group + 1) for number in range(10**length)]
    gaps = [text for text, parts in zip(wanted, _pieces(tokenizer, wanted, digits), strict=True) if parts != [text]]
    if len(gaps) > MOST_GAPS * len(wanted):
        return None, ()
    behind = _pieces(tokenizer, [f"is {run}" for run in runs], digits)
    for run, *ways in zip(runs, bare, behind, strict=True):
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
    """What keeps the token interface from working, in sentences."""
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


def _rows_of(rule: TextRule) -> list[tuple[str, str]]:
    """The rows of an anchor rule: in how many ways it is written, and the tokens that hide it."""
    single = sum(len(sequence) == 1 for sequence in rule.sequences)
    longer = len(rule.sequences) - single
    rows = [("anchor rule", f"{rule.text!r}; tokens that end in it: {single}")]
    if longer:
        rows[0] = ("anchor rule", f"{rows[0][1]}; sequences of tokens: {longer}")
    if rule.hidden:
        examples = ", ".join(map(repr, list(rule.hidden.values())[:8]))
        more = ", ..." if len(rule.hidden) > 8 else ""
        meaning = "a text in which the tokenizer chooses one of these has no anchor there"
        rows.append(("  hidden", f"tokens that hold it and go on: {len(rule.hidden):,}: {examples}{more}; {meaning}"))
    return rows


def _listed(shares: dict[str, float]) -> str:
    """The commonest ways to split a run."""
    ways = [f"{way} {share:.0%}" for way, share in list(shares.items())[:4]]
    more = len(shares) - len(ways)
    return ", ".join(ways) + (f" and {more} more" if more else "")


_NUMERIC = re.compile(" ?[0-9]+")
